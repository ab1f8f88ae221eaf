#include "event/process-spec.h"

enum {
    COMMAND_MAX = 256 << 10, /* of the words together: the hand keeps them for its lists */
    ARGS_MAX = 4096,
    NAME_MAX_BYTES = 256,
    SIZE_MAX_CELLS = 10000,
};
#define SECONDS_MAX 1e8

static const struct tn_field rows[] = {
    TN_STRINGS("args", struct tn_process_spec, args,
               .help = "the program and its arguments; needed"),
    TN_JSON("env", struct tn_process_spec, env, .flags = TN_FIELD_MAP | TN_FIELD_SPARSE,
            .help = "variables beside those of the sandbox's user; texts by name"),
    TN_STRING("user", struct tn_process_spec, user, .flags = TN_FIELD_NULLABLE | TN_FIELD_SPARSE,
              .help = "name or number of another user, where the hand is root"),
    TN_STRING("tag", struct tn_process_spec, tag, .flags = TN_FIELD_NULLABLE | TN_FIELD_SPARSE,
              .help = "a name of the client's own, by which it can be found"),
    TN_BOOL("stdin", struct tn_process_spec, input, .flags = TN_FIELD_SPARSE,
            .help = "standard input stays open for what is sent later"),
    TN_BOOL("pty", struct tn_process_spec, pty, .flags = TN_FIELD_SPARSE,
            .help = "on a terminal: output and errors in one log"),
    TN_INT("columns", struct tn_process_spec, columns, .fallback = "0", .max = SIZE_MAX_CELLS,
           .help = "of the terminal; 0: 80"),
    TN_INT("rows", struct tn_process_spec, rows, .fallback = "0", .max = SIZE_MAX_CELLS,
           .help = "of the terminal; 0: 24"),
    TN_DOUBLE("seconds", struct tn_process_spec, seconds, .fallback = "0", .max = SECONDS_MAX,
              .help = "after which it is killed with its group; 0: never"),
};
const struct tn_fields tn_process_spec_fields = TN_FIELDS(rows);

static const struct tn_field cwd_rows[] = {
    TN_STRING("cwd", struct tn_process_spec, cwd, .flags = TN_FIELD_NULLABLE | TN_FIELD_SPARSE),
};
static const struct tn_fields cwd_field = TN_FIELDS(cwd_rows);

void tn_process_spec_done(struct tn_process_spec *spec)
{
    tn_fields_done(&tn_process_spec_fields, spec);
    tn_fields_done(&cwd_field, spec);
}

/* --- the command line ------------------------------------------------------------------------ */

/* Any text is one word: bare where nothing in it means anything to a shell. */
static void put_word(const char *text, struct tn_buf *out)
{
    static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_@%+=:,./-";

    if (out->len)
        tn_buf_putc(out, ' ');
    if (*text && text[strspn(text, bare)] == '\0') {
        tn_buf_puts(out, text);
        return;
    }
    tn_buf_putc(out, '\'');
    for (const char *quote; (quote = strchr(text, '\'')); text = quote + 1) {
        tn_buf_add(out, text, (size_t)(quote - text));
        tn_buf_puts(out, "'\\''");
    }
    tn_buf_puts(out, text);
    tn_buf_putc(out, '\'');
}

static int put_variable(const char *name, struct tn_json *value, void *ctx)
{
    tn_autofree char *word = tn_asprintf("%s=%s", name, tn_json_str(value, NULL));

    put_word(word, ctx);
    return 0;
}

/* `env` takes names that a shell would not. */
void tn_process_spec_command(const struct tn_process_spec *spec, struct tn_buf *out)
{
    if (tn_json_count(spec->env)) {
        put_word("env", out);
        tn_json_each(spec->env, put_variable, out);
    }
    for (size_t i = 0; i < spec->args.count; i++)
        put_word(spec->args.items[i], out);
}

/* --- what makes sense ------------------------------------------------------------------------ */

/* TENDON_HAND marks what the hand has started, so that it is found when the hand was killed. */
int tn_process_check_name(const char *name, struct tn_error *err)
{
    if (!*name || *name == '-' || strchr(name, '=') || strlen(name) > NAME_MAX_BYTES)
        return tn_fail(err, TN_E_INVALID, "env: '%.60s' cannot be the name of a variable", name);
    if (strcmp(name, "TENDON_HAND") == 0)
        return tn_fail(err, TN_E_INVALID, "env: TENDON_HAND is the hand's own");
    return 0;
}

int tn_process_check_variable(const char *name, struct tn_json *value, void *ctx)
{
    struct tn_error *err = ctx;
    size_t n = 0;
    const char *text = tn_json_str(value, &n);

    if (tn_process_check_name(name, err))
        return -1;
    if (!text || strlen(text) != n)
        return tn_fail(err, TN_E_INVALID, "env: %.60s: expected a text without NUL", name);
    return 0;
}

static int check(const struct tn_process_spec *spec, struct tn_buf *command, struct tn_error *err)
{
    const char *program = spec->args.count ? spec->args.items[0] : "";

    if (!*program || strchr(program, '='))
        return tn_fail(err, TN_E_INVALID, "args: expected a program first, without a '='");
    if (spec->args.count > ARGS_MAX)
        return tn_fail(err, TN_E_INVALID, "args: expected at most %d", ARGS_MAX);
    if (spec->tag && strlen(spec->tag) > TN_PROCESS_TAG_MAX)
        return tn_fail(err, TN_E_INVALID, "tag: expected at most %d bytes", TN_PROCESS_TAG_MAX);
    if (spec->columns < 0 || spec->columns > SIZE_MAX_CELLS || spec->rows < 0 ||
        spec->rows > SIZE_MAX_CELLS)
        return tn_fail(err, TN_E_INVALID, "columns, rows: expected 0 to %d", SIZE_MAX_CELLS);
    if (!(spec->seconds >= 0 && spec->seconds <= SECONDS_MAX))
        return tn_fail(err, TN_E_INVALID, "seconds: expected 0 to %.0f", SECONDS_MAX);
    if (tn_json_each(spec->env, tn_process_check_variable, err))
        return -1;
    tn_process_spec_command(spec, command);
    if (!tn_buf_ok(command))
        return tn_fail(err, TN_E_INVALID, "args and env: expected at most %d KiB together",
                       COMMAND_MAX >> 10);
    return 0;
}

static int read_spec(const struct tn_json *json, struct tn_process_spec *out, struct tn_error *err)
{
    tn_fields_defaults(&tn_process_spec_fields, out);
    return tn_fields_from_json(&tn_process_spec_fields, out, json, err);
}

/* --- the action ------------------------------------------------------------------------------ */

static int compare(const struct tn_action *a, const struct tn_process_spec *spec,
                   struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX);

    if (check(spec, &command, err))
        return -1;
    if (a->run.is_input || strcmp(tn_buf_str(&command), a->run.command) != 0)
        return tn_fail(err, TN_E_INVALID, "the command is not that of the process: expected %.200s",
                       tn_buf_str(&command));
    return 0;
}

int tn_action_process(const struct tn_action *a, struct tn_process_spec *out, struct tn_error *err)
{
    struct tn_error why = {0};

    if (a->type != TN_ACTION_RUN || !a->run.process)
        return 0;
    *out = (struct tn_process_spec){0};
    if (read_spec(a->run.process, out, &why) == 0) {
        out->cwd = tn_strdup_or_null(a->run.cwd);
        if (compare(a, out, &why) == 0)
            return 1;
    }
    tn_process_spec_done(out);
    return tn_fail(err, TN_E_INVALID, "process: %s", why.text);
}

int tn_action_init_process(struct tn_action *a, const struct tn_process_spec *spec, double seconds,
                           struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX), json = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&json);

    if (check(spec, &command, err))
        return tn_error_context(err, "process");
    tn_action_init_run(a, tn_buf_str(&command), seconds);
    a->run.cwd = tn_strdup_or_null(spec->cwd);
    tn_jw_object(&w);
    tn_fields_to_json(&tn_process_spec_fields, spec, &w);
    tn_jw_object_end(&w);
    if (tn_buf_ok(&json) && tn_json_parse(tn_buf_str(&json), json.len, &a->run.process, err) == 0)
        return 0;
    tn_action_done(a);
    return tn_fail(err, TN_E_INVALID, "process: it cannot be written as JSON");
}

void tn_observation_init_not_started(struct tn_observation *o, const struct tn_action *a,
                                     const struct tn_error *why)
{
    tn_observation_init_error(o, a, "The process was not started: %s", why->text);
    if (o->type != TN_OBSERVATION_ERROR) /* it is hidden */
        return;
    free(o->error_id);
    o->error_id = tn_strdup(why->code == TN_E_BUSY ? TN_PROCESS_TOO_MANY : TN_PROCESS_NOT_STARTED);
}

/* --- lists ----------------------------------------------------------------------------------- */

void tn_process_spec_to_json(const struct tn_process_spec *spec, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_fields_to_json(&tn_process_spec_fields, spec, w);
    tn_fields_to_json(&cwd_field, spec, w);
    tn_jw_object_end(w);
}

int tn_process_spec_from_json(const struct tn_json *json, struct tn_process_spec *out,
                              struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX);

    *out = (struct tn_process_spec){0};
    if (read_spec(json, out, err) == 0 && tn_fields_from_json(&cwd_field, out, json, err) == 0 &&
        check(out, &command, err) == 0)
        return 0;
    tn_process_spec_done(out);
    return -1;
}
