#include "service/recipe.h"

#include <poll.h>

#include "base/clock.h"
#include "runtime/hand-files.h"
#include "service/dockerfile.h"
#include "service/purses.h"
#include "service/surface.h"

enum { MOST_STEPS = 500, LINE_MAX_BYTES = 4096, ENV_MAX = 256 << 10, SHOWN = 200 };
#define READY_MS 250 /* between two looks */
#define ARCHIVE "/tmp/.tendon-recipe"
#define PROGRAM "tendon:start" /* there is one in a box */

const char *const recipe_levels[] = {
    [RECIPE_INFO] = "info", [RECIPE_WARN] = "warn", [RECIPE_ERROR] = "error"};

void recipe_done(struct recipe *r)
{
    free(TN_TAKE_PTR(r->cwd));
    free(TN_TAKE_PTR(r->user));
}

static const char *arg(const struct tn_json *step, size_t i)
{
    const char *text = tn_json_str(tn_json_at(tn_json_get(step, "args"), i), NULL);

    return text && *text ? text : NULL;
}

/* --- a process ------------------------------------------------------------------------------- */

struct output {
    struct recipe *r;
    struct tn_buf line[2]; /* of standard output and error */
    int64_t exit_code;     /* -1: it was killed */
};

static void say(const struct recipe *r, enum recipe_level level, const char *text, size_t n)
{
    if (r->say)
        r->say(level, text, n, r->ctx);
}

static void add_output(struct output *o, bool error, const char *bytes, size_t n)
{
    struct tn_buf *line = &o->line[error];

    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n' && bytes[i] != '\r')
            tn_buf_add(line, bytes + i, 1);
        if (line->len && (bytes[i] == '\n' || line->len == LINE_MAX_BYTES)) {
            say(o->r, error ? RECIPE_WARN : RECIPE_INFO, line->data, line->len);
            tn_buf_reset(line);
        }
    }
}

static int take_piece(const struct tn_process_piece *piece, void *ctx)
{
    struct output *o = ctx;

    if (piece->kind == TN_PROCESS_OUT || piece->kind == TN_PROCESS_ERR)
        add_output(o, piece->kind == TN_PROCESS_ERR, piece->bytes, piece->n);
    if (piece->kind == TN_PROCESS_BEAT)
        say(o->r, RECIPE_INFO, NULL, 0);
    if (piece->kind != TN_PROCESS_END)
        return 0;
    add_output(o, false, "\n", 1);
    add_output(o, true, "\n", 1);
    o->exit_code = piece->status->exit_code.set ? piece->status->exit_code.value : -1;
    return 0;
}

static int put_variable(const char *name, struct tn_json *value, void *w)
{
    if (tn_json_type(value) == TN_JSON_STRING)
        tn_jw_kstr(w, name, tn_json_str(value, NULL));
    return 0;
}

/* Those of the first `steps` steps; of two of a name the later one counts. */
static int make_env(const struct recipe *r, size_t steps, const char *home, struct tn_json **out,
                    struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(ENV_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    if (home)
        tn_jw_kstr(&w, "HOME", home);
    tn_json_each(r->env, put_variable, &w);
    for (size_t i = 0; i < steps; i++) {
        const struct tn_json *step = tn_json_at(r->steps, i), *args = tn_json_get(step, "args");
        if (strcmp(tn_json_get_str(step, "type", ""), "ENV") != 0)
            continue;
        for (size_t j = 0; j + 1 < tn_json_count(args); j += 2)
            tn_jw_kstr(&w, tn_json_str(tn_json_at(args, j), NULL),
                       tn_json_str(tn_json_at(args, j + 1), NULL));
    }
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_INVALID, "ENV: more than %d KiB", ENV_MAX >> 10);
    return tn_json_parse(tn_buf_str(&text), text.len, out, err);
}

struct tn_json *recipe_env(const struct recipe *r, struct tn_error *err)
{
    struct tn_json *env = NULL;

    return make_env(r, tn_json_count(r->steps), NULL, &env, err) ? NULL : env;
}

/* The user that images of E2B have is the one that a sandbox has here. */
static const char *other_user(const char *name)
{
    return name && strcmp(name, "user") != 0 ? name : NULL;
}

static int make_spec(const struct recipe *r, const char *const *args, const char *user,
                     struct tn_process_spec *spec, struct tn_error *err)
{
    for (; *args; args++)
        surface_add_arg(&spec->args, *args);
    user = other_user(user ? user : r->user);
    spec->user = tn_strdup_or_null(user);
    spec->cwd = tn_strdup(r->cwd ? r->cwd : r->home);
    return make_env(r, r->step ? r->step - 1 : tn_json_count(r->steps), user ? NULL : r->home,
                    &spec->env, err);
}

static int start(const struct recipe *r, const char *const *args, const char *user,
                 const char *idempotency, struct process_started *started, struct tn_error *err)
{
    struct tn_service *s = box_service(r->box);
    tn_autoprocess struct tn_process_spec spec = {0};
    struct process_how how = {.idempotency = idempotency, .watch = r->stop};
    struct caller now;

    if (keyring_find(s->keys, r->who->key_id, &now, err) || make_spec(r, args, user, &spec, err))
        return -1;
    how.purse = purse_get(s->purses, r->who->tenant);
    int failed = process_start(r->box, r->who, &spec, &how, started, err);
    purse_release(s->purses, how.purse);
    return failed;
}

/* Its exit code, or -1 with err. */
static int64_t run(struct recipe *r, const char *const *args, const char *user,
                   struct tn_error *err)
{
    struct output o = {.r = r, .exit_code = -1};
    struct tn_process_follow f = {.beat = TN_PROCESS_BEAT_MIN};
    struct process_started started;

    if (start(r, args, user, NULL, &started, err))
        return -1;
    for (int i = 0; i < 2; i++)
        tn_buf_init(&o.line[i], LINE_MAX_BYTES + 1);
    int failed = process_follow(r->box, started.id, &f, take_piece, &o, r->stop, r->deadline, err);
    for (int i = 0; i < 2; i++)
        tn_buf_done(&o.line[i]);
    if (failed)
        return err->code != TN_E_TIMEOUT ? -1
               : tn_now() < r->deadline  ? tn_fail(err, TN_E_GONE, "the service was stopped")
                                         : tn_fail(err, TN_E_TIMEOUT, "its time is over");
    if (o.exit_code < 0)
        tn_fail(err, TN_E_INTERNAL, "it was killed");
    return o.exit_code;
}

static int must(int64_t exit_code, struct tn_error *err)
{
    if (exit_code > 0)
        tn_fail(err, TN_E_INVALID, "exit status %lld", (long long)exit_code);
    return exit_code ? -1 : 0;
}

/* --- steps ----------------------------------------------------------------------------------- */

static int64_t run_text(struct recipe *r, const char *text, const char *user, struct tn_error *err)
{
    const char *const args[] = {"/bin/bash", "-l", "-c", text, NULL};

    return run(r, args, user, err);
}

static int do_run(struct recipe *r, const struct tn_json *step, struct tn_error *err)
{
    return must(run_text(r, arg(step, 0), arg(step, 1), err), err);
}

static const char copy_script[] =
    "set -e; d=$(mktemp -d); trap 'rm -rf \"$d\" \"$1\"' EXIT\n"
    "tar -xof \"$1\" -C \"$d\"; tn_copy \"$4\" \"$5\" \"$3\" \"$d\" \"$2\"";

static int do_copy(struct recipe *r, const struct tn_json *step, struct tn_error *err)
{
    const char *owner = other_user(arg(step, 2)), *mode = arg(step, 3);
    tn_autofree char *script = tn_asprintf("%s%s", dockerfile_copy, copy_script);
    const char *const args[] = {"/bin/sh",        "-c",         script,       "copy",
                                ARCHIVE,          arg(step, 0), arg(step, 1), owner ? owner : "",
                                mode ? mode : "", NULL};
    tn_autofree char *address = NULL, *key = NULL;

    if (box_hand(r->box, &address, &key, r->deadline, err))
        return -1;
    tn_autofiles struct tn_hand_files *f = tn_hand_files_new(address, key, err);
    tn_autofd int archive = f ? r->open(tn_json_get_str(step, "filesHash", ""), r->ctx, err) : -1;
    if (archive < 0)
        return -1;
    tn_hand_files_cancel_by(f, r->stop);
    if (tn_hand_files_write(f, ARCHIVE, archive, -1, 0644, NULL, NULL, r->deadline, err))
        return -1;
    return must(run(r, args, NULL, err), err);
}

static int do_nothing(struct recipe *r, const struct tn_json *step, struct tn_error *err)
{
    return 0;
}

static int do_workdir(struct recipe *r, const struct tn_json *step, struct tn_error *err)
{
    char *path = surface_path(r->cwd ? r->cwd : r->home, arg(step, 0));
    const char *const args[] = {"/bin/mkdir", "-p", path, NULL};
    int failed = must(run(r, args, NULL, err), err);

    free(r->cwd);
    r->cwd = path;
    return failed;
}

static int do_user(struct recipe *r, const struct tn_json *step, struct tn_error *err)
{
    free(r->user);
    r->user = tn_strdup_or_null(other_user(arg(step, 0)));
    return 0;
}

static const struct kind {
    const char *type;
    size_t least, most; /* arguments */
    int (*work)(struct recipe *r, const struct tn_json *step, struct tn_error *err);
} kinds[] = {
    {"RUN", 1, 2, do_run},         {"COPY", 2, 4, do_copy}, {"ENV", 2, 1000, do_nothing},
    {"WORKDIR", 1, 1, do_workdir}, {"USER", 1, 1, do_user},
};

static const struct kind *kind_of(const struct tn_json *step)
{
    const char *type = tn_json_get_str(step, "type", "");

    for (size_t i = 0; i < TN_COUNT(kinds); i++)
        if (strcmp(type, kinds[i].type) == 0)
            return &kinds[i];
    return NULL;
}

int recipe_check(const struct tn_json *steps, struct tn_error *err)
{
    if (tn_json_count(steps) > MOST_STEPS)
        return tn_fail(err, TN_E_INVALID, "steps: more than %d", MOST_STEPS);
    for (size_t i = 0; i < tn_json_count(steps); i++) {
        const struct tn_json *step = tn_json_at(steps, i), *args = tn_json_get(step, "args");
        const struct kind *kind = kind_of(step);
        size_t n = tn_json_count(args);
        bool good = kind && n >= kind->least && n <= kind->most && arg(step, 0);
        for (size_t j = 0; j < n; j++)
            good = good && tn_json_str(tn_json_at(args, j), NULL);
        if (good && kind->work == do_copy)
            good = arg(step, 1);
        if (good && kind->work == do_nothing)
            good = n % 2 == 0;
        if (!good)
            return tn_fail(err, TN_E_INVALID, "steps: number %zu is none that is known here",
                           i + 1);
    }
    return 0;
}

static void announce(const struct recipe *r, const struct tn_json *step)
{
    const char *type = tn_json_get_str(step, "type", ""), *first = arg(step, 0);
    bool env = strcmp(type, "ENV") == 0; /* its values are not for logs */
    tn_autofree char *text = tn_asprintf("[%zu/%zu] %s %.*s", r->step, tn_json_count(r->steps),
                                         type, env ? 64 : SHOWN, first ? first : "");

    say(r, RECIPE_INFO, text, strlen(text));
}

int recipe_run(struct recipe *r, struct tn_error *err)
{
    for (size_t i = 0; i < tn_json_count(r->steps); i++) {
        const struct tn_json *step = tn_json_at(r->steps, i);
        r->step = i + 1;
        announce(r, step);
        if (kind_of(step)->work(r, step, err))
            return tn_error_context(err, "%s %.*s", kind_of(step)->type, SHOWN, arg(step, 0));
    }
    r->step = 0;
    return 0;
}

int recipe_start(struct recipe *r, const char *program, const char *ready, struct tn_error *err)
{
    const char *const args[] = {"/bin/bash", "-l", "-c", program, NULL};
    struct pollfd stop = {.fd = r->stop, .events = POLLIN};
    struct process_started started;

    if (program && start(r, args, NULL, PROGRAM, &started, err))
        return tn_error_context(err, "the start command");
    while (ready && *ready) {
        int64_t exit_code = run_text(r, ready, NULL, err);
        if (exit_code <= 0)
            return exit_code ? tn_error_context(err, "the ready command") : 0;
        if (tn_now() >= r->deadline || poll(&stop, 1, READY_MS) > 0)
            return tn_fail(err, TN_E_TIMEOUT, "the ready command has not succeeded in time");
    }
    return 0;
}
