/* The workspace: clone or init, set-up script, hooks. */
#include <sys/random.h>

#include "runtime/setup/session-impl.h"

#define CLONE_SECONDS 600.0
#define SCRIPT_SECONDS 600.0
#define QUICK_SECONDS 30.0

#define COMMAND_MAX (1u << 20)
#define OUTPUT_MAX (4u << 20)

#define SCRIPT ".openhands/setup.sh"
#define HOOK ".openhands/pre-commit.sh"

/* Nobody is there to be asked. */
#define GIT_ALONE " GIT_TERMINAL_PROMPT=0 GIT_SSH_COMMAND='ssh -oBatchMode=yes'"

/* Exit statuses of our own commands. */
enum {
    ANOTHER_REPOSITORY = 91,
    NOT_THERE = 92,
};

static int run(struct tn_session *s, const struct tn_buf *command, const char *cwd, double timeout,
               struct tn_buf *printed, struct tn_error *err)
{
    const struct setup_command c = {.text = tn_buf_str(command), .cwd = cwd, .timeout = timeout};

    if (!tn_buf_ok(command))
        return tn_fail(err, TN_E_TOO_LARGE, "the command is too long");
    return setup_run(&s->executor, &c, printed, err);
}

/* The last lines of what git printed are those that say what is wrong. */
static int fail_with(struct tn_session *s, struct tn_error *err, const char *what, int status,
                     const struct tn_buf *printed)
{
    const char *text = tn_buf_str(printed);
    size_t n = printed->len;

    while (n > 0 && strchr(" \r\n", text[n - 1]))
        n--;
    size_t from = n > 300 ? n - 300 : 0;
    tn_fail(err, TN_E_INTERNAL, "%s: exit status %d: %.*s", what, status, (int)(n - from),
            text + from);
    session_hide_tokens(s, err);
    return -1;
}

/* --- clone -------------------------------------------------------------------------------- */

/* openhands-workspace-XXXXXXXX */
static int new_branch(char out[32], struct tn_error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char random[8];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "random numbers");
    snprintf(out, 32, "openhands-workspace-");
    for (size_t i = 0, n = strlen(out); i < sizeof random; i++) {
        out[n + i] = letters[random[i] % (sizeof letters - 1)];
        out[n + i + 1] = '\0';
    }
    return 0;
}

/* ( in the workspace: clone unless it is there; check out ) && go there */
static void put_clone(const struct tn_session *s, const struct git_place *p, const char *branch,
                      bool existing_branch, struct tn_buf *out)
{
    tn_autobuf struct tn_buf url = TN_BUF_INIT(16 << 10);
    tn_autofree char *directory = session_path(s, p->directory);

    if (s->token_in_url)
        git_put_authenticated_url(p, &url);
    else
        tn_buf_puts(&url, p->url);
    tn_buf_puts(out, "{ ( export" GIT_ALONE);
    git_put_token_assignment(p, out);
    tn_buf_puts(out, "; exec </dev/null; u=");
    setup_put_quoted(out, tn_buf_str(&url));
    tn_buf_puts(out, " p=");
    setup_put_quoted(out, p->url);
    tn_buf_puts(out, " d=");
    setup_put_quoted(out, directory);
    tn_buf_puts(out,
                "\nif [ -e \"$d/.git\" ]; then o=$(git -C \"$d\" config --get remote.origin.url)\n"
                "case $o in \"$u\"|\"$p\") ;; *@\"${p#*://}\") ;; *) ");
    tn_buf_printf(out, "exit %d;; esac\n", ANOTHER_REPOSITORY);
    tn_buf_puts(out, "else git clone");
    if (!s->token_in_url)
        git_put_helper_option(p, "--config", out);
    tn_buf_puts(out, " -- \"$u\" \"$d\" || exit; ");
    if (!existing_branch) { /* only a fresh clone gets one */
        tn_buf_puts(out, "git -C \"$d\" checkout -b ");
        setup_put_quoted(out, branch);
        tn_buf_puts(out, " || exit; ");
    }
    tn_buf_puts(out, "fi\n");
    if (existing_branch) {
        tn_buf_puts(out, "git -C \"$d\" checkout ");
        setup_put_quoted(out, branch);
        tn_buf_puts(out, " -- || exit\n");
    }
    if (s->token_in_url)
        tn_buf_puts(out, "git -C \"$d\" remote set-url origin \"$u\"\n");
    tn_buf_puts(out, ") 2>&1 && cd ");
    setup_put_quoted(out, directory);
    tn_buf_puts(out, "; }");
}

static int clone_repository(struct tn_session *s, const struct tn_repository *r,
                            const struct git_place *p, struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX), printed = TN_BUF_INIT(OUTPUT_MAX);
    char made[32];

    if (r->branch ? git_check_branch(r->branch, err) : new_branch(made, err))
        return -1;
    put_clone(s, p, r->branch ? r->branch : made, r->branch != NULL, &command);
    int status = run(s, &command, NULL, CLONE_SECONDS, &printed, err);
    if (command.data)
        explicit_bzero(command.data, command.len);
    if (status == ANOTHER_REPOSITORY)
        return tn_fail(err, TN_E_CONFLICT, "%s in the workspace is another repository",
                       p->directory);
    if (status > 0)
        return fail_with(s, err, "git", status, &printed);
    return status;
}

/* A workspace that is no repository becomes one. */
static int init(struct tn_session *s, struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX), printed = TN_BUF_INIT(OUTPUT_MAX);

    tn_buf_puts(&command, "{ ( w=");
    setup_put_quoted(&command, s->workspace);
    tn_buf_puts(&command, "; git init -q -- \"$w\" </dev/null");
    if (!s->shared_home)
        tn_buf_puts(&command, " && { git config --global --get-all safe.directory | "
                              "grep -qxF -- \"$w\" || "
                              "git config --global --add safe.directory \"$w\"; }");
    tn_buf_puts(&command, " ) 2>&1; }");
    int status = run(s, &command, NULL, QUICK_SECONDS, &printed, err);
    return status > 0 ? fail_with(s, err, "git init", status, &printed) : status;
}

int tn_session_clone(struct tn_session *s, const struct tn_repository *repository, char **directory,
                     struct tn_error *err)
{
    autotokens struct git_tokens tokens = session_tokens(s);
    autoplace struct git_place place = {0};

    *directory = NULL;
    if (!repository || !repository->name || !*repository->name) {
        if (s->config->core.init_git_in_empty_workspace && init(s, err) < 0)
            return tn_error_context(err, "workspace");
        *directory = tn_strdup("");
        return 0;
    }
    if (git_place_find(&place, repository->name, repository->provider, tokens.items, tokens.count,
                       err) < 0)
        return -1;
    tn_session_tell(s, TN_RUNTIME_SETTING_UP_WORKSPACE, "info", "");
    if (clone_repository(s, repository, &place, err) < 0)
        return tn_error_context(err, "clone %.120s", place.url);
    *directory = TN_TAKE_PTR(place.directory);
    return 0;
}

/* --- set-up script ------------------------------------------------------------------------ */

/* 1 when the file can be read, 0, or -1. */
static int is_readable(struct tn_session *s, const char *directory, const char *file,
                       struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX);
    tn_autofree char *path = session_path(s, directory);

    tn_buf_puts(&command, "cd -- ");
    setup_put_quoted(&command, path);
    tn_buf_printf(&command, " 2>/dev/null && [ -f %s ] && [ -r %s ] || exit %d", file, file,
                  NOT_THERE);
    int status = run(s, &command, "/", QUICK_SECONDS, NULL, err);
    if (status > 0 && status != NOT_THERE)
        return tn_fail(err, TN_E_INTERNAL, "cannot look at %s: exit status %d", file, status);
    return status < 0 ? -1 : status == 0;
}

int tn_session_run_setup_script(struct tn_session *s, const char *directory, struct tn_error *err)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX);
    tn_autofree char *path = session_path(s, directory);
    tn_autofree char *script = tn_asprintf("%s/" SCRIPT, path);
    int there = is_readable(s, directory, SCRIPT, err);

    tn_action_init(&action, TN_ACTION_RUN);
    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (there <= 0)
        return there;
    tn_session_tell(s, TN_RUNTIME_SETTING_UP_WORKSPACE, "info", "");
    tn_buf_puts(&command, "chmod +x ");
    setup_put_quoted(&command, script);
    tn_buf_puts(&command, " && source ");
    setup_put_quoted(&command, script);
    action.run.command = tn_buf_take(&command);
    action.run.blocking = true;
    action.run.hidden = true;
    action.timeout = (struct tn_opt_double){.set = true, .value = SCRIPT_SECONDS};
    if (session_add_own_action(s, &action, err) < 0 ||
        setup_execute(&s->executor, &action, &o, err) < 0)
        return tn_error_context(err, SCRIPT);
    if (o.type != TN_OBSERVATION_RUN || o.run.metadata.exit_code != 0)
        session_note(s, SCRIPT " ended with status %d",
                     o.type == TN_OBSERVATION_RUN ? (int)o.run.metadata.exit_code : -1);
    return 1;
}

/* --- hooks -------------------------------------------------------------------------------- */

/* The marker is OpenHands': its own installer knows our hook by it, and we know its. */
#define MARKER "This hook was installed by OpenHands"

static const char install[] =
    "[ -d .git ] || exit 92; h=.git/hooks; set -e; mkdir -p $h; chmod +x " HOOK "\n"
    "if [ -e $h/pre-commit ] && ! grep -qF '" MARKER "' $h/pre-commit; then\n"
    "mv $h/pre-commit $h/pre-commit.local; chmod +x $h/pre-commit.local; fi\n"
    "cat >$h/pre-commit.new <<'END'\n"
    "#!/bin/bash\n"
    "# " MARKER "\n"
    "# It runs the hook that was here before, then the repository's own script.\n"
    "if [ -x .git/hooks/pre-commit.local ]; then\n"
    "    .git/hooks/pre-commit.local \"$@\" || exit\n"
    "fi\n"
    "if [ -x " HOOK " ]; then\n"
    "    source " HOOK "\n"
    "    exit\n"
    "fi\n"
    "echo 'Warning: " HOOK " is missing or not executable' >&2\n"
    "exit 0\n"
    "END\n"
    "chmod +x $h/pre-commit.new; mv -f $h/pre-commit.new $h/pre-commit";

int tn_session_install_hooks(struct tn_session *s, const char *directory, struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX), printed = TN_BUF_INIT(OUTPUT_MAX);
    tn_autofree char *path = session_path(s, directory);
    int there = is_readable(s, directory, HOOK, err);

    if (there <= 0)
        return there;
    tn_session_tell(s, TN_RUNTIME_SETTING_UP_GIT_HOOKS, "info", "");
    /* One command: a shell is told to read the whole of it. */
    tn_buf_puts(&command, "sh -c ");
    setup_put_quoted(&command, install);
    int status = run(s, &command, path, QUICK_SECONDS, &printed, err);
    if (status == NOT_THERE)
        return 0;
    return status > 0 ? fail_with(s, err, "hooks", status, &printed) : status < 0 ? -1 : 1;
}

/* --- all of it ---------------------------------------------------------------------------- */

int tn_session_prepare(struct tn_session *s, const struct tn_repository *repository,
                       char **directory, struct tn_microagents *out, struct tn_error *err)
{
    if (tn_session_clone(s, repository, directory, err) < 0)
        return -1;
    if (tn_session_run_setup_script(s, *directory, err) >= 0 &&
        tn_session_install_hooks(s, *directory, err) >= 0 &&
        tn_session_microagents(s, repository, *directory, out, err) >= 0) {
        tn_session_tell(s, TN_RUNTIME_READY, "info", "");
        return 0;
    }
    free(TN_TAKE_PTR(*directory));
    return -1;
}
