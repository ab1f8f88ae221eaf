#include "runtime/setup/env.h"

#include "runtime/setup/shell.h"

#define HOST_PREFIX "SANDBOX_ENV_"

/* What Linux gives one variable, less its name and some reserve. */
#define VALUE_MAX (127u << 10)

/* Shells refuse to set these, and some end when it is tried. */
static const char *const shells_own[] = {
    "BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID",
};

void setup_env_done(struct setup_env *env)
{
    for (size_t i = 0; i < env->count; i++) {
        free(env->items[i].name);
        explicit_bzero(env->items[i].value, strlen(env->items[i].value));
        free(env->items[i].value);
    }
    free(env->items);
    *env = (struct setup_env){0};
}

static bool is_variable(const char *s)
{
    size_t n = 0;

    for (; s[n]; n++)
        if (!(s[n] >= 'A' && s[n] <= 'Z') && s[n] != '_' &&
            (n == 0 || !(s[n] >= '0' && s[n] <= '9')))
            return false;
    return n > 0 && n < 256;
}

static int check(const char *name, const char *value, struct tn_error *err)
{
    if (!is_variable(name))
        return tn_fail(err, TN_E_INVALID, "'%.60s' is no name of a variable", name);
    for (size_t i = 0; i < TN_COUNT(shells_own); i++)
        if (strcmp(shells_own[i], name) == 0)
            return tn_fail(err, TN_E_INVALID, "%s cannot be set: shells keep it for themselves",
                           name);
    if (strlen(value) > VALUE_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "the value of %.60s is longer than %u KiB", name,
                       VALUE_MAX >> 10);
    return 0;
}

int setup_env_set(struct setup_env *env, const char *name, const char *value, struct tn_error *err)
{
    tn_autofree char *upper = tn_strdup(name);
    size_t i = 0;

    for (char *c = upper; *c; c++)
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - ('a' - 'A'));
    if (check(upper, value, err) < 0)
        return -1;
    while (i < env->count && strcmp(env->items[i].name, upper) != 0)
        i++;
    if (i == env->count) {
        env->items = tn_realloc(env->items, (env->count + 1) * sizeof *env->items);
        env->items[env->count].name = TN_TAKE_PTR(upper);
        env->items[env->count++].value = NULL;
    }
    free(env->items[i].value);
    env->items[i].value = tn_strdup(value);
    return 0;
}

struct adding {
    struct setup_env *env;
    struct tn_error *err;
};

static int add_member(const char *key, struct tn_json *value, void *ctx)
{
    const struct adding *a = ctx;
    size_t n;
    const char *text = tn_json_str(value, &n);

    if (!text || strlen(text) != n)
        return tn_fail(a->err, TN_E_INVALID, "variable %.60s: expected text without NUL, found %s",
                       key, tn_json_type_name(value));
    return setup_env_set(a->env, key, text, a->err);
}

int setup_env_add(struct setup_env *env, const struct tn_json *object, struct tn_error *err)
{
    struct adding a = {.env = env, .err = err};

    if (object && tn_json_type(object) != TN_JSON_OBJECT)
        return tn_fail(err, TN_E_INVALID, "variables: expected an object, found %s",
                       tn_json_type_name(object));
    return tn_json_each(object, add_member, &a);
}

static void add_host_variables(struct setup_env *env)
{
    size_t prefix = sizeof HOST_PREFIX - 1;

    for (char **e = environ; *e; e++) {
        const char *equals = strchr(*e, '=');
        if (strncmp(*e, HOST_PREFIX, prefix) != 0 || !equals)
            continue;
        tn_autofree char *name = tn_strndup(*e + prefix, (size_t)(equals - *e) - prefix);
        /* What is no variable inside was not meant to be one. */
        setup_env_set(env, name, equals + 1, NULL);
    }
}

int setup_env_initial(struct setup_env *env, const struct tn_config *config,
                      const struct tn_json *caller, const struct tn_git_token *tokens,
                      size_t token_count, struct tn_error *err)
{
    add_host_variables(env);
    if (config->sandbox.enable_auto_lint && setup_env_set(env, "ENABLE_AUTO_LINT", "true", err) < 0)
        return -1;
    if (setup_env_add(env, caller, err) < 0)
        return -1;
    for (size_t i = 0; i < token_count; i++)
        if (setup_env_set(env, tn_git_provider_key(tokens[i].provider), tokens[i].token, err) < 0)
            return -1;
    return setup_env_add(env, config->sandbox.runtime_startup_env_vars, err);
}

/* --- the command -------------------------------------------------------------------------- */

#define ANSWER "tendon-setup:"

static const char *const part_words[] = {
    [SETUP_ENV] = "env",
    [SETUP_PERSIST] = "persist",
    [SETUP_DIRECTORY] = "directory",
    [SETUP_GIT] = "git",
};

/* Says how the part before it ended; subshells keep the variables of the main shell as they were.
 */
static void put_answer(struct tn_buf *out, enum setup_part part)
{
    tn_buf_printf(out, " && printf ' %s=0' || printf ' %s=1'\n", part_words[part],
                  part_words[part]);
}

static void put_exports(const struct setup_env *env, struct tn_buf *out)
{
    if (env->count == 0) {
        tn_buf_puts(out, "true");
        return;
    }
    tn_buf_puts(out, "export");
    for (size_t i = 0; i < env->count; i++) {
        tn_buf_printf(out, " %s=", env->items[i].name);
        setup_put_quoted(out, env->items[i].value);
    }
}

/* One file per variable, replaced as a whole: an old value never outlives a new one.  The values
 * are taken from the shell that has them and quoted anew, so that they travel once.  Names in lower
 * case cannot collide with variables. */
static const char persist_head[] =
    "( umask 077; d=$HOME/.config/tendon/env; mkdir -p \"$d\" || exit 1; for n in";
static const char persist_tail[] =
    "; do eval \"v=\\$$n\"\n"
    "printf '%s\\n' \"$v\" | LC_ALL=C sed \"s/'/'\\\\\\\\''/g; 1s/^/export $n='/; \\$s/\\$/'/\" "
    ">\"$d/.$n\" && mv -f \"$d/.$n\" \"$d/$n\" || exit 1\n"
    "done\n"
    "grep -qF '# tendon: environment' \"$HOME/.bashrc\" 2>/dev/null ||\n"
    "printf '\\n%s\\n' 'for tn in \"$HOME\"/.config/tendon/env/*; do [ -r \"$tn\" ] && . \"$tn\"; "
    "done; unset tn # tendon: environment' >>\"$HOME/.bashrc\" ) >/dev/null 2>&1";

static void put_persist(const struct setup_env *env, struct tn_buf *out)
{
    if (env->count == 0) {
        tn_buf_puts(out, "true");
        return;
    }
    tn_buf_puts(out, persist_head);
    for (size_t i = 0; i < env->count; i++)
        tn_buf_printf(out, " %s", env->items[i].name);
    tn_buf_puts(out, persist_tail);
}

static void put_git(const struct setup_batch *batch, struct tn_buf *out)
{
    tn_buf_puts(out, "{ git config --global user.name ");
    setup_put_quoted(out, batch->git_name);
    tn_buf_puts(out, " && git config --global user.email ");
    setup_put_quoted(out, batch->git_email);
    tn_buf_puts(out, "; } </dev/null >/dev/null 2>&1");
}

/* Braces make one command of it, which every server takes at once. */
void setup_batch_put(const struct setup_batch *batch, struct tn_buf *out)
{
    tn_buf_puts(out, "{ printf '" ANSWER "'\n");
    put_exports(batch->env, out);
    put_answer(out, SETUP_ENV);
    if (batch->persist) {
        put_persist(batch->env, out);
        put_answer(out, SETUP_PERSIST);
    }
    if (batch->directory) {
        tn_buf_puts(out, "mkdir -p -- ");
        setup_put_quoted(out, batch->directory);
        tn_buf_puts(out, " 2>/dev/null");
        put_answer(out, SETUP_DIRECTORY);
    }
    if (batch->git_name && batch->git_email) {
        put_git(batch, out);
        put_answer(out, SETUP_GIT);
    }
    tn_buf_puts(out, "echo; }");
}

bool setup_batch_failed(const char *printed, enum setup_part part)
{
    const char *answer = strstr(printed, ANSWER);
    char good[32];

    snprintf(good, sizeof good, " %s=0", part_words[part]);
    return !answer || !strstr(answer, good);
}

void setup_env_put_cell(const struct setup_env *env, struct tn_buf *out)
{
    struct tn_jw w;

    /* An object of strings in JSON is a dict of strings in Python. */
    tn_buf_puts(out, "import os; os.environ.update(");
    w = tn_jw(out);
    tn_jw_object(&w);
    for (size_t i = 0; i < env->count; i++)
        tn_jw_kstr(&w, env->items[i].name, env->items[i].value);
    tn_jw_object_end(&w);
    tn_buf_putc(out, ')');
}
