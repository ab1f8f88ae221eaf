/* Commands that stand in variables and in settings of git: what they say is run by others. */
#include <ctype.h>
#include <fnmatch.h>
#include <strings.h>

#include "security/command/walk.h"

bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (size_t len; *list; list += len + (list[len] == ' ')) {
        len = strcspn(list, " ");
        bool begin = list[len - 1] == '*';
        if (begin ? strncmp(list, name, len - 1) == 0 : n == len && strncmp(list, name, n) == 0)
            return true;
    }
    return false;
}

/* Said rather than that it runs a file or what it reads, which may be harmless. */
static void mark_loaded(struct tn_call *call)
{
    if (call->unseen == TN_SEEN || call->unseen == TN_UNSEEN_FILE ||
        call->unseen == TN_UNSEEN_INPUT)
        call->unseen = TN_UNSEEN_LOADED;
}

/* --- variables --------------------------------------------------------------------------- */

static const char commands[] =
    "PAGER MANPAGER GIT_PAGER SYSTEMD_PAGER AWS_PAGER GH_PAGER BAT_PAGER DELTA_PAGER PSQL_PAGER "
    "EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR SUDO_EDITOR KUBE_EDITOR SYSTEMD_EDITOR HGEDITOR "
    "SVN_EDITOR FCEDIT PSQL_EDITOR BROWSER GIT_SSH GIT_SSH_COMMAND SVN_SSH RSYNC_RSH CVS_RSH "
    "RSYNC_CONNECT_PROG GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS GIT_PROXY_COMMAND "
    "PROMPT_COMMAND RUSTC_WRAPPER";

/* Prompts: the shell expands them. */
static const char prompts[] = "PS0 PS1 PS2 PS4 PROMPT RPROMPT";

/* Variables that name code or further options: what is between their separators is harmless if it
 * fits one of the patterns; WORD: letters, digits, _ and -. */
static const struct {
    const char *names, *harmless;
} loading[] = {
    {"BASH_ENV LD_PRELOAD LD_AUDIT PYTHONSTARTUP PYTHONHOME PERL5DB LUA_INIT* "
     "GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_CONFIG_PARAMETERS GIT_CONFIG_KEY_* LESSOPEN LESSCLOSE "
     "TAR_OPTIONS BASH_FUNC_* GCONV_PATH OPENSSL_MODULES DYLD_INSERT_LIBRARIES",
     ""},
    {"GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM OPENSSL_CONF", "/dev/null"},
    {"PYTHONBREAKPOINT", "0"},
    {"ENV", "WORD"},
    {"LD_LIBRARY_PATH", "/usr/* /lib* /opt/* $LD_LIBRARY_PATH ${LD_LIBRARY_PATH}"},
    {"PERL5OPT", "-w -W"},
    {"RUBYOPT", "-w -W* --yjit --jit"},
    {"NODE_OPTIONS", "--max-* --no-* --trace-* --stack-trace-limit=* --openssl-legacy-provider "
                     "--enable-source-maps --experimental-vm-modules"},
    {"JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS", "-X[ms]* -D* -XX:Max* -XX:+Use*"},
    {"MAKEFLAGS GNUMAKEFLAGS", "-j* $(nproc) -k -s -i --no-print-directory"},
};

static bool is_word(const char *text)
{
    return !text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-0123456789")];
}

static bool fits_one(const char *patterns, const char *piece)
{
    char one[64];
    for (size_t len; *patterns; patterns += len + (patterns[len] == ' ')) {
        len = strcspn(patterns, " ");
        snprintf(one, sizeof one, "%.*s", (int)len, patterns);
        if (strcmp(one, "WORD") == 0 ? is_word(piece) : fnmatch(one, piece, 0) == 0)
            return true;
    }
    return false;
}

static bool all_harmless(const char *patterns, const char *value)
{
    char piece[256]; /* what is longer is not harmless */
    for (size_t len; *value; value += len + (value[len] != 0)) {
        len = strcspn(value, " \t\n\r\v\f:;");
        if (len >= sizeof piece)
            return false;
        memcpy(piece, value, len);
        piece[len] = 0;
        bool control = false;
        for (size_t i = 0; i < len; i++)
            control = control || iscntrl((unsigned char)piece[i]);
        if (len && (control || strstr(piece, "..") || !fits_one(patterns, piece)))
            return false;
    }
    return true;
}

void see_variable(struct walker *w, const struct place *at, struct tn_call *call, const char *name,
                  const struct tn_arg *value)
{
    if (listed(commands, name))
        run_added(w, at, call, value);
    if (listed(prompts, name) && (strstr(value->text, "$(") || strchr(value->text, '`')))
        mark_loaded(call);
    for (size_t i = 0; i < TN_COUNT(loading); i++)
        if (listed(loading[i].names, name) && !all_harmless(loading[i].harmless, value->text))
            mark_loaded(call);
}

void see_assignment(struct walker *w, const struct place *at, struct tn_call *call,
                    const struct tn_arg *word)
{
    char name[64];
    size_t len = strcspn(word->text, "=+");
    size_t behind = strcspn(word->text, "=") + 1;
    if (behind > word->known || len >= sizeof name)
        return;
    snprintf(name, sizeof name, "%.*s", (int)len, word->text);
    see_variable(w, at, call, name, arg_behind(w, word, behind));
}

/* --- settings of git --------------------------------------------------------------------- */

/* Without regard to case; a value that begins with ! is a text for a shell in any of them. */
static const char *const git_commands[] = {
    "core.pager",
    "pager.*",
    "core.editor",
    "sequence.editor",
    "core.sshCommand",
    "core.askPass",
    "core.gitProxy",
    "core.fsmonitor",
    "core.alternateRefsCommand",
    "credential.helper",
    "credential.*.helper",
    "diff.external",
    "diff.*.command",
    "diff.*.textconv",
    "*tool.*.cmd",
    "*tool.*.path",
    "merge.*.driver",
    "filter.*.clean",
    "filter.*.smudge",
    "filter.*.process",
    "gpg.program",
    "gpg.*.program",
    "gpg.ssh.defaultKeyCommand",
    "browser.*.cmd",
    "man.*.cmd",
    "trailer.*.command",
    "trailer.*.cmd",
    "interactive.diffFilter",
    "uploadpack.packObjectsHook",
    "remote.*.uploadpack",
    "remote.*.receivepack",
    "tar.*.command",
    "sendemail.*cmd",
    "imap.tunnel",
    "submodule.*.update",
};
static const char *const git_loading[] = {"include.path", "includeIf.*.path", "core.hooksPath",
                                          "init.templateDir", "core.worktree"};

static bool any_key(const char *const *patterns, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (fnmatch(patterns[i], key, FNM_CASEFOLD) == 0)
            return true;
    return false;
}

static void see_setting(struct walker *w, const struct place *at, struct tn_call *call,
                        const char *key, const struct tn_arg *value)
{
    bool alias = strncasecmp(key, "alias.", 6) == 0;
    if (value->text[0] == '!') {
        run_added(w, at, call, arg_behind(w, value, 1));
    } else if (alias) {
        tn_autofree char *line = tn_asprintf("git %s", value->text);
        struct tn_arg text = known_arg(w, line);
        text.value = value->value ? text.value : NULL;
        run_added(w, at, call, &text);
    } else if (any_key(git_commands, TN_COUNT(git_commands), key)) {
        run_added(w, at, call, value);
    } else if (any_key(git_loading, TN_COUNT(git_loading), key)) {
        mark_loaded(call);
    }
}

/* The key that a text begins with; false: it is none. */
static bool read_key(const struct tn_arg *arg, size_t from, char key[128], size_t *len)
{
    *len = from + strcspn(arg->text + from, "=");
    if (*len > arg->known || *len - from >= 128 || !memchr(arg->text + from, '.', *len - from))
        return false;
    memcpy(key, arg->text + from, *len - from);
    key[*len - from] = 0;
    return true;
}

/* ext::COMMAND in the place of a URL, or in what URLs begin with. */
static void see_git_url(struct walker *w, const struct place *at, struct tn_call *call,
                        const struct tn_arg *arg)
{
    const char *found = strstr(arg->text, "ext::");
    if (found && (found == arg->text || found[-1] == '='))
        run_added(w, at, call, arg_behind(w, arg, (size_t)(found + 5 - arg->text)));
    else if (found && found[-1] == '.')
        mark_loaded(call);
}

void see_git_settings(struct walker *w, const struct place *at, struct tn_call *call)
{
    char key[128];
    bool config = tn_call_has(call, "config");
    for (size_t i = 1; i < call->argc && !w->failed; i++) {
        const struct tn_arg *arg = &call->argv[i];
        const char *before = call->argv[i - 1].text;
        bool last = i + 1 == call->argc;
        see_git_url(w, at, call, arg);
        size_t from = strncmp(arg->text, "--config=", 9) == 0 ? 9 : 0, end;
        from = strncmp(arg->text, "-c", 2) == 0 ? 2 : from;
        bool found = arg->text[from] && read_key(arg, from, key, &end);
        if (found && arg->text[end] == '=')
            see_setting(w, at, call, key, arg_behind(w, arg, end + 1));
        else if (found && config && !last && call->argv[i + 1].text[0] != '-')
            see_setting(w, at, call, key, &call->argv[i + 1]);
        else if (!found && !arg->value &&
                 (strcmp(before, "-c") == 0 ||
                  (config && i + 2 == call->argc && strcmp(before, "-f") != 0 &&
                   strcmp(before, "--file") != 0)))
            mark_loaded(call); /* a setting that is not known */
    }
}
