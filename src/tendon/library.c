/* The public interface over runtime/sandbox.h: text in, text out. */
#include "tendon/library.h"

#include <sys/mman.h>
#include <tendon/tendon.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/hand-files.h"
#include "runtime/record-json.h"

const char *tendon_version(void)
{
    return TN_VERSION;
}

int tn_library_fail(struct tendon_error *to, const struct tn_error *from)
{
    if (to) {
        to->code = tn_code_row(from->code)->name;
        to->sys = from->sys;
        memcpy(to->text, from->text, sizeof to->text);
    }
    return -1;
}

static int refuse(struct tendon_error *to, const char *text)
{
    struct tn_error err;

    tn_fail(&err, TN_E_INVALID, "%s", text);
    return tn_library_fail(to, &err);
}

char *tn_library_text(struct tn_buf *out, struct tendon_error *to)
{
    struct tn_error err;

    if (tn_buf_ok(out))
        return tn_buf_take(out);
    tn_fail(&err, TN_E_TOO_LARGE, "the answer is larger than %zu bytes", out->max);
    tn_library_fail(to, &err);
    return NULL;
}

/* --- the runtime --------------------------------------------------------------------------- */

struct settings {
    struct tn_config *config;
    struct tn_error *err;
};

static int set_one(const char *name, struct tn_json *value, void *ctx)
{
    struct settings *s = ctx;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&text);
    const char *string = tn_json_str(value, NULL);

    if (!string)
        tn_jw_tree(&w, value);
    return tn_config_set(s->config, name, string ? string : tn_buf_str(&text), s->err);
}

static int apply_settings(struct tn_config *config, const char *text, struct tn_error *err)
{
    tn_autojson struct tn_json *json = NULL;
    struct settings s = {.config = config, .err = err};

    if (!text)
        return 0;
    if (tn_json_parse(text, strlen(text), &json, err) < 0)
        return tn_error_context(err, "settings");
    if (tn_json_type(json) != TN_JSON_OBJECT)
        return tn_fail(err, TN_E_INVALID, "settings: expected an object, found %s",
                       tn_json_type_name(json));
    return tn_json_each(json, set_one, &s) ? -1 : 0;
}

static void on_told(const char *id, enum tn_runtime_status status, const char *message, void *ctx)
{
    const struct tendon *t = ctx;

    if (t->watch)
        t->watch(id, tn_runtime_status_text(status), message, t->watch_ctx);
}

void tendon_watch(struct tendon *t,
                  void (*status)(const char *id, const char *status, const char *message,
                                 void *ctx),
                  void *ctx)
{
    t->watch = status;
    t->watch_ctx = ctx;
}

struct tendon *tendon_open(const char *config, const char *settings, struct tendon_error *err)
{
    struct tendon *t = tn_calloc(1, sizeof *t);
    struct tn_error why = {0};

    if (tn_config_load(&t->config, config, &why) < 0) {
        free(t);
        tn_library_fail(err, &why);
        return NULL;
    }
    if (apply_settings(&t->config, settings, &why) == 0)
        t->runtime = tn_runtime_open(
            &(struct tn_runtime_options){.config = &t->config, .told = on_told, .told_ctx = t},
            &why);
    if (t->runtime)
        return t;
    tendon_close(t);
    tn_library_fail(err, &why);
    return NULL;
}

void tendon_close(struct tendon *t)
{
    if (!t)
        return;
    tn_runtime_close(t->runtime);
    tn_config_done(&t->config);
    free(t);
}

static int list_one(const struct tn_record *r, void *ctx)
{
    tn_jw_object(ctx);
    tn_record_put(r, ctx);
    tn_jw_object_end(ctx);
    return 0;
}

char *tendon_list(struct tendon *t, struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_TEXT);
    struct tn_error why = {0};
    struct tn_jw w = tn_jw(&out);

    tn_jw_array(&w);
    if (tn_store_each(tn_runtime_store(t->runtime), TN_STORE_CLAIMED, list_one, &w, &why) < 0) {
        tn_library_fail(err, &why);
        return NULL;
    }
    tn_jw_array_end(&w);
    return tn_library_text(&out, err);
}

int tendon_gc(struct tendon *t, double seconds, struct tendon_error *err)
{
    struct tn_error why = {0};
    int count = tn_runtime_gc(t->runtime, false, NULL, NULL, tn_deadline_in(seconds), &why);

    return count < 0 ? tn_library_fail(err, &why) : count;
}

/* --- sandboxes ----------------------------------------------------------------------------- */

/* Takes the inner handle; NULL is a failure. */
static struct tendon_sandbox *wrap(struct tendon *t, struct tn_sandbox *sb,
                                   const struct tn_error *why, struct tendon_error *err)
{
    if (!sb) {
        tn_library_fail(err, why);
        return NULL;
    }
    struct tendon_sandbox *handle = tn_calloc(1, sizeof *handle);
    *handle = (struct tendon_sandbox){.tendon = t, .sb = sb};
    return handle;
}

/* What the JSON text says, over what spec holds already. */
static int read_spec(const char *text, struct tn_spec *spec, struct tn_error *err)
{
    tn_autojson struct tn_json *json = NULL;

    if (!text)
        return 0;
    if (tn_json_parse(text, strlen(text), &json, err) < 0 || tn_spec_from_json(json, spec, err) < 0)
        return tn_error_context(err, "spec");
    return 0;
}

struct tendon_sandbox *tendon_create(struct tendon *t, const char *spec, double seconds,
                                     struct tendon_error *err)
{
    struct tn_sandbox *sb = NULL;
    struct tn_error why = {0};
    struct tn_spec wanted;

    tn_spec_init(&wanted);
    if (tn_config_spec(&t->config, NULL, &wanted, &why) == 0 && read_spec(spec, &wanted, &why) == 0)
        sb = tn_sandbox_create(t->runtime, &wanted, tn_deadline_in(seconds), &why);
    tn_spec_done(&wanted);
    return wrap(t, sb, &why, err);
}

struct tendon_sandbox *tendon_attach(struct tendon *t, const char *which, struct tendon_error *err)
{
    struct tn_error why = {0};

    return wrap(t, tn_sandbox_attach(t->runtime, which, &why), &why, err);
}

void tendon_detach(struct tendon_sandbox *sb)
{
    if (!sb)
        return;
    tn_sandbox_free(sb->sb);
    free(sb);
}

int tendon_remove(struct tendon_sandbox *sb, double seconds, struct tendon_error *err)
{
    struct tn_error why = {0};
    int r = tn_sandbox_drive(sb->sb, TN_GOAL_GONE, tn_deadline_in(seconds), &why);

    tendon_detach(sb);
    return r < 0 ? tn_library_fail(err, &why) : 0;
}

const char *tendon_id(const struct tendon_sandbox *sb)
{
    return tn_sandbox_record(sb->sb)->id;
}

char *tendon_inspect(struct tendon_sandbox *sb, double seconds, struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_TEXT);
    struct tn_jw w = tn_jw(&out);
    struct tn_error why = {0};

    if (tn_sandbox_inspect(sb->sb, NULL, tn_deadline_in(seconds), &why) < 0) {
        tn_library_fail(err, &why);
        return NULL;
    }
    tn_jw_object(&w);
    tn_sandbox_put_json(sb->tendon->runtime, sb->sb, &w);
    tn_jw_object_end(&w);
    return tn_library_text(&out, err);
}

static int change_rules(struct tn_sandbox *sb, const char *text, int64_t deadline,
                        struct tn_error *err)
{
    struct tn_rules_change change = {0};
    tn_autojson struct tn_json *json = NULL;

    tn_fields_defaults(&tn_rules_change_fields, &change);
    int failed = tn_json_parse(text, strlen(text), &json, err) ||
                 tn_fields_from_json(&tn_rules_change_fields, &change, json, err) ||
                 tn_sandbox_change_rules(sb, &change, deadline, err);
    tn_fields_done(&tn_rules_change_fields, &change);
    return failed ? -1 : 0;
}

char *tendon_network(struct tendon_sandbox *sb, const char *change, double seconds,
                     struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_TEXT);
    int64_t deadline = tn_deadline_in(seconds);
    struct tn_jw w = tn_jw(&out);
    struct tn_error why = {0};

    if (change && change_rules(sb->sb, change, deadline, &why)) {
        tn_library_fail(err, &why);
        return NULL;
    }
    tn_jw_object(&w);
    tn_sandbox_put_network(sb->sb, &w, deadline);
    tn_jw_object_end(&w);
    return tn_library_text(&out, err);
}

int tendon_drive(struct tendon_sandbox *sb, const char *goal, double seconds,
                 struct tendon_error *err)
{
    struct tn_error why = {0};

    for (int i = 0; i < TN_GOAL_GONE; i++) {
        if (strcmp(tn_goal_words[i], goal) != 0)
            continue;
        if (tn_sandbox_drive(sb->sb, (enum tn_goal)i, tn_deadline_in(seconds), &why) < 0)
            return tn_library_fail(err, &why);
        tn_library_tell_sessions(sb, (enum tn_goal)i);
        return 0;
    }
    return refuse(err, "the goal must be running, paused, stopped or suspended");
}

/* --- work ---------------------------------------------------------------------------------- */

static int execute_text(struct tendon_sandbox *sb, const char *text, struct tn_observation *o,
                        struct tn_error *err)
{
    tn_autojson struct tn_json *json = NULL;
    struct tn_action action;

    if (tn_json_parse(text, strlen(text), &json, err) < 0 ||
        tn_action_from_json(json, &action, err) < 0)
        return tn_error_context(err, "action");
    int r = tn_sandbox_execute(sb->sb, &action, o, err);
    tn_action_done(&action);
    return r;
}

char *tendon_execute(struct tendon_sandbox *sb, const char *action, struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_TEXT);
    tn_autoobservation struct tn_observation o;
    struct tn_jw w = tn_jw(&out);
    struct tn_error why = {0};

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (execute_text(sb, action, &o, &why) < 0) {
        tn_library_fail(err, &why);
        return NULL;
    }
    tn_observation_to_json(&o, &w);
    return tn_library_text(&out, err);
}

static int put_function(const struct tn_tool *tool, void *ctx)
{
    tn_tool_put_function(ctx, tool->json);
    return 0;
}

char *tendon_tools(struct tendon_sandbox *sb, double seconds, struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_TEXT);
    struct tn_jw w = tn_jw(&out);
    struct tn_error why = {0};
    struct tn_toolbox *toolbox = tn_sandbox_toolbox(sb->sb, &why);

    if (!toolbox) {
        tn_library_fail(err, &why);
        return NULL;
    }
    tn_jw_array(&w);
    tn_toolbox_list(toolbox, tn_deadline_in(seconds), put_function, NULL, &w);
    tn_jw_array_end(&w);
    return tn_library_text(&out, err);
}

/* The exit status, or -1 with err when it has none. */
static int conclude(const struct tn_observation *o, double seconds, struct tn_error *err)
{
    const char *content = o->content.data ? o->content.data : "";

    if (o->type != TN_OBSERVATION_RUN || !o->run.metadata.command_id)
        return tn_fail(err, TN_E_UNSUPPORTED, "%s", content);
    if (o->run.metadata.exit_code < 0)
        return tn_fail(err, TN_E_TIMEOUT, "the command is still running after %g s", seconds);
    return (int)o->run.metadata.exit_code & 255;
}

int tendon_run(struct tendon_sandbox *sb, const char *command, double seconds, char **output,
               struct tendon_error *err)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;
    struct tn_error why = {0};

    tn_action_init_run(&action, command, seconds < 0 || seconds > 1e8 ? 1e8 : seconds);
    tn_observation_init(&o, TN_OBSERVATION_NULL);
    action.run.blocking = true;
    action.run.script = true;
    action.run.input_path = tn_strdup("/dev/null"); /* nobody can type */
    int status = tn_sandbox_execute(sb->sb, &action, &o, &why);
    if (status == 0)
        status = conclude(&o, seconds, &why);
    if (output)
        *output = tn_strdup(o.content.data ? o.content.data : "");
    return status < 0 ? tn_library_fail(err, &why) : status;
}

/* --- files and ports ----------------------------------------------------------------------- */

static struct tn_hand_files *open_files(struct tendon_sandbox *sb, int64_t deadline,
                                        struct tn_error *err)
{
    const char *address, *key;

    if (tn_sandbox_address(sb->sb, &address, &key, deadline, err) < 0)
        return NULL;
    return tn_hand_files_new(address, key, err);
}

/* The bytes as a file that can be read from its start. */
static int file_of(const void *bytes, size_t n, struct tn_error *err)
{
    tn_autofd int fd = memfd_create("tendon", MFD_CLOEXEC);

    if (fd < 0)
        return tn_fail_errno(err, errno, "memfd");
    if (tn_fs_write(fd, bytes, n, err) < 0)
        return -1;
    return lseek(fd, 0, SEEK_SET) < 0 ? tn_fail_errno(err, errno, "memfd") : TN_TAKE_FD(fd);
}

int tendon_write_file(struct tendon_sandbox *sb, const char *path, const void *bytes, size_t n,
                      int mode, double seconds, struct tendon_error *err)
{
    struct tn_error why = {0};
    int64_t deadline = tn_deadline_in(seconds);
    tn_autofiles struct tn_hand_files *files = open_files(sb, deadline, &why);
    tn_autofd int fd = files ? file_of(bytes, n, &why) : -1;
    int status = -1;

    tn_sandbox_use(sb->sb);
    if (fd >= 0)
        status = tn_hand_files_write(files, path, fd, (int64_t)n, mode, NULL, NULL, deadline, &why);
    tn_sandbox_rest(sb->sb);
    return status < 0 ? tn_library_fail(err, &why) : 0;
}

static int read_file(struct tendon_sandbox *sb, const char *path, struct tn_buf *out,
                     int64_t deadline, struct tn_error *err)
{
    tn_autofiles struct tn_hand_files *files = open_files(sb, deadline, err);
    tn_autofd int fd = memfd_create("tendon", MFD_CLOEXEC);

    if (!files)
        return -1;
    if (fd < 0)
        return tn_fail_errno(err, errno, "memfd");
    /* One byte more tells that there is more. */
    int64_t most = out->max >= INT64_MAX ? -1 : (int64_t)out->max + 1;
    int64_t got = tn_hand_files_read(files, path, 0, most, fd, NULL, NULL, deadline, err);
    if (got < 0 && err->code == TN_E_RANGE) /* an empty file has no first byte */
        return 0;
    if (got < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -1;
    return tn_fs_read_fd(fd, out, err);
}

char *tendon_read_file(struct tendon_sandbox *sb, const char *path, size_t max, size_t *n,
                       double seconds, struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(max);
    struct tn_error why = {0};

    tn_sandbox_use(sb->sb);
    int status = read_file(sb, path, &out, tn_deadline_in(seconds), &why);
    tn_sandbox_rest(sb->sb);
    if (status < 0) {
        tn_library_fail(err, &why);
        return NULL;
    }
    if (n)
        *n = out.len;
    return tn_buf_take(&out);
}

int tendon_dial(struct tendon_sandbox *sb, int port, double seconds, struct tendon_error *err)
{
    struct tn_error why = {0};
    int fd = tn_sandbox_dial(sb->sb, port, tn_deadline_in(seconds), &why);

    return fd < 0 ? tn_library_fail(err, &why) : fd;
}

/* --- files as they were -------------------------------------------------------------------- */

int tendon_snapshot(struct tendon_sandbox *sb, const char *name, double seconds,
                    struct tendon_error *err)
{
    struct tn_error why = {0};
    int r = tn_sandbox_snapshot(sb->sb, name, tn_deadline_in(seconds), &why);

    return r < 0 ? tn_library_fail(err, &why) : 0;
}

int tendon_rollback(struct tendon_sandbox *sb, const char *name, double seconds,
                    struct tendon_error *err)
{
    struct tn_error why = {0};
    int r = tn_sandbox_rollback(sb->sb, name, tn_deadline_in(seconds), &why);

    return r < 0 ? tn_library_fail(err, &why) : 0;
}

struct tendon_sandbox *tendon_fork(struct tendon_sandbox *sb, const char *snapshot,
                                   const char *spec, double seconds, struct tendon_error *err)
{
    struct tn_sandbox *child = NULL;
    struct tn_error why = {0};
    struct tn_spec wanted;

    tn_spec_init(&wanted);
    if (read_spec(spec, &wanted, &why) == 0)
        child = tn_sandbox_fork(sb->sb, snapshot, &wanted, tn_deadline_in(seconds), &why);
    tn_spec_done(&wanted);
    return wrap(sb->tendon, child, &why, err);
}
