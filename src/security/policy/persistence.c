/* Changes that outlive the task: what a machine runs by itself later. */
#include "security/policy/detect.h"
#include "security/policy/glob.h"

/* clang-format off */
static const struct {
    const char *pattern, *kind, *text;
} places[] = {
    {"/etc/cron*/**",               "cron",      "a job that runs by the clock"},
    {"/etc/crontab",                "cron",      "a job that runs by the clock"},
    {"/var/spool/cron/**",          "cron",      "a job that runs by the clock"},
    {"/var/spool/at/**",            "cron",      "a job that runs by the clock"},
    {".ssh/authorized_keys",        "ssh-key",   "a key that opens this account"},
    {".ssh/authorized_keys2",       "ssh-key",   "a key that opens this account"},
    {".ssh/rc",                     "ssh-key",   "a script that runs at each login"},
    {"~/.bashrc",                   "shell-rc",  "a file that every shell runs"},
    {"~/.bash_profile",             "shell-rc",  "a file that every shell runs"},
    {"~/.bash_login",               "shell-rc",  "a file that every shell runs"},
    {"~/.bash_logout",              "shell-rc",  "a file that every shell runs"},
    {"~/.profile",                  "shell-rc",  "a file that every shell runs"},
    {"~/.zshrc",                    "shell-rc",  "a file that every shell runs"},
    {"~/.zshenv",                   "shell-rc",  "a file that every shell runs"},
    {"~/.zprofile",                 "shell-rc",  "a file that every shell runs"},
    {"~/.config/fish/**",           "shell-rc",  "a file that every shell runs"},
    {"/etc/profile",                "shell-rc",  "a file that every shell runs"},
    {"/etc/profile.d/**",           "shell-rc",  "a file that every shell runs"},
    {"/etc/bash.bashrc",            "shell-rc",  "a file that every shell runs"},
    {"/etc/zsh/**",                 "shell-rc",  "a file that every shell runs"},
    {"/etc/environment",            "shell-rc",  "variables of every login"},
    {"/etc/systemd/**",             "service",   "a service that is started by itself"},
    {"/lib/systemd/**",             "service",   "a service that is started by itself"},
    {"/usr/lib/systemd/**",         "service",   "a service that is started by itself"},
    {"~/.config/systemd/**",        "service",   "a service that is started by itself"},
    {"/etc/init.d/**",              "service",   "a service that is started by itself"},
    {"/etc/rc.local",               "service",   "a script that runs at start"},
    {"~/.config/autostart/**",      "service",   "a program that is started at login"},
    {".git/hooks/**",               "git-hook",  "a hook that git runs by itself"},
    {"/etc/ld.so.preload",          "library",   "a library in every program"},
    {"sitecustomize.py",            "library",   "a module in every interpreter"},
    {"usercustomize.py",            "library",   "a module in every interpreter"},
    {"/etc/sudoers",                "account",   "who may become root"},
    {"/etc/sudoers.d/**",           "account",   "who may become root"},
    {"/etc/passwd",                 "account",   "the accounts of the machine"},
    {"/etc/shadow",                 "account",   "the accounts of the machine"},
    {"/etc/pam.d/**",               "account",   "who may log in"},
};
/* clang-format on */

static void look_call(struct scene *s, const struct seen_call *c)
{
    const struct tn_call *call = c->call;

    if (strcmp(call->name, "crontab") == 0 && !tn_call_letter(call, 'l'))
        scene_add_sign(s, "cron", "a job that runs by the clock", call, c->part);
    if (word_in(call->name, "at batch") && (call->in || call->argc > 1) &&
        !tn_call_letter(call, 'l'))
        scene_add_sign(s, "cron", "a job that runs by the clock", call, c->part);
    if (strcmp(call->name, "systemctl") == 0 &&
        (tn_call_has(call, "enable") || tn_call_has(call, "link")))
        scene_add_sign(s, "service", "a service that is started by itself", call, c->part);
    if (strcmp(call->name, "ssh-copy-id") == 0)
        scene_add_sign(s, "ssh-key", "a key that opens an account", call, c->part);
    if (strcmp(call->name, "git") == 0 && tn_call_has(call, "config") &&
        tn_call_has(call, "core.hooksPath"))
        scene_add_sign(s, "git-hook", "a hook that git runs by itself", call, c->part);
    if (word_in(call->name, "useradd adduser usermod"))
        scene_add_sign(s, "account", "the accounts of the machine", call, c->part);
}

static void look(struct scene *s)
{
    for (size_t i = 0; i < s->path_count; i++) {
        const struct seen_path *p = &s->paths[i];
        for (size_t k = 0; p->use & USE_WRITE && k < TN_COUNT(places); k++) {
            if (glob_path(places[k].pattern, p->path)) {
                scene_add_sign(s, places[k].kind, places[k].text, p->call, p->part);
                break;
            }
        }
    }
    for (size_t i = 0; i < s->call_count; i++)
        look_call(s, &s->calls[i]);
}

const struct detector detect_persistence = {
    .name = "persistence",
    .about = "what outlives the task: cron jobs, authorized keys, files that shells run, services, "
             "hooks of git, accounts",
    .kinds = "cron ssh-key shell-rc service git-hook library account",
    .look = look,
};
