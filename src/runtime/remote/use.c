/* Using a sandbox: through its hand, or by asking the service. */
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/hand-client.h"
#include "runtime/hand-files.h"
#include "runtime/hand-sessions.h"
#include "runtime/owner.h"
#include "runtime/remote/remote.h"

#define CALL_SECONDS 30.0
#define CLEAR_SECONDS 5.0

static int lacking(const struct remote *r, const char *what, struct tn_error *err)
{
    return tn_fail(err, TN_E_UNSUPPORTED, "the %s runtime API has no %s", r->dialect->name, what);
}

/* Where its hand is. */
static int reach(const struct remote *r, const struct tn_subject *s, struct remote_view *view,
                 int64_t deadline, struct tn_error *err)
{
    if (remote_must_find(r, s, view, deadline, err) < 0)
        return -1;
    if (view->status != TN_STATUS_RUNNING || !view->address)
        return tn_fail(err, TN_E_CONFLICT, "it is %s", tn_status_words[view->status]);
    if (!view->key)
        view->key = tn_strdup(s->key);
    return 0;
}

/* A hand that is not ours has no such routes. */
static int foreign(struct tn_error *err, const struct tn_error *why)
{
    if (why->code == TN_E_NOT_FOUND || why->code == TN_E_METHOD)
        return tn_fail(err, TN_E_UNSUPPORTED, "the hand of this sandbox is not Tendon's: %s",
                       why->text);
    if (err)
        *err = *why;
    return -1;
}

/* --- put -------------------------------------------------------------------------------------- */

static int with_contents(const void *bytes, size_t n, struct tn_error *err)
{
    tn_autofd int fd = memfd_create("put", MFD_CLOEXEC);

    if (fd < 0)
        return tn_fail_errno(err, errno, "memory for a file");
    if (tn_fs_write(fd, bytes, n, err) < 0)
        return -1;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return tn_fail_errno(err, errno, "memory for a file");
    return TN_TAKE_FD(fd);
}

int remote_put(void *engine, const struct tn_subject *s, const char *path, const void *bytes,
               size_t n, mode_t mode, int64_t deadline, struct tn_error *err)
{
    autoremoteview struct remote_view view = {0};
    tn_autofd int fd = with_contents(bytes, n, err);
    const char *slash = strrchr(path, '/');
    struct tn_error why = {0};

    if (fd < 0 || reach(engine, s, &view, deadline, err) < 0)
        return -1;
    tn_autofiles struct tn_hand_files *files = tn_hand_files_new(view.address, view.key, err);
    if (!files)
        return -1;
    if (slash && slash > path) {
        tn_autofree char *parent = tn_strndup(path, (size_t)(slash - path));
        if (tn_hand_files_mkdir(files, parent, -1, deadline, &why) < 0)
            return foreign(err, &why);
    }
    if (tn_hand_files_write(files, path, fd, (int64_t)n, (int)mode, NULL, NULL, deadline, &why) < 0)
        return foreign(err, &why);
    return 0;
}

/* --- exec ------------------------------------------------------------------------------------- */

/* A command in a session of its own, whose output goes to a file of its own: nothing of the
 * terminal gets into it, and no shell interprets the words. */
struct exec {
    char session[16], file[32];
    struct tn_hand_address at;
    struct tn_hand_files *files;
};

static void put_quoted(struct tn_buf *out, const char *word)
{
    tn_buf_puts(out, " '");
    for (; *word; word++)
        tn_buf_puts(out, *word == '\'' ? "'\\''" : (const char[]){*word, '\0'});
    tn_buf_puts(out, "'");
}

static int run(const struct exec *x, const char *const *argv, int *status, int64_t deadline,
               struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(4 << 20);
    tn_autoobservation struct tn_observation o = {0};
    tn_autoaction struct tn_action action = {0};

    tn_buf_puts(&command, "(exec");
    for (; *argv; argv++)
        put_quoted(&command, *argv);
    tn_buf_printf(&command, ") >%s 2>&1 </dev/null", x->file);
    if (!tn_buf_ok(&command))
        return tn_fail(err, TN_E_TOO_LARGE, "the command is too long");
    tn_action_init(&action, TN_ACTION_RUN);
    tn_observation_init(&o, TN_OBSERVATION_NULL);
    free(action.run.command);
    action.run.command = tn_buf_take(&command);
    action.run.session = tn_strdup(x->session);
    action.run.hidden = true;
    action.run.blocking = true;
    double left = (double)(deadline - tn_now()) / 1e9;
    action.timeout = (struct tn_opt_double){true, left > 0.01 ? left : 0.01};

    struct tn_hand_client *client = tn_hand_client_new(x->at.address, x->at.key, err);
    int r = client ? tn_hand_client_execute(client, &action, &o, err) : -1;
    tn_hand_client_free(client);
    if (r < 0)
        return -1;
    if (o.type != TN_OBSERVATION_RUN)
        return tn_fail(err, TN_E_PEER, "%s", o.content.data ? o.content.data : "it failed");
    *status = (int)o.run.metadata.exit_code;
    return *status < 0 ? tn_fail(err, TN_E_TIMEOUT, "the command did not end in time") : 0;
}

static int read_output(const struct exec *x, struct tn_buf *out, int64_t deadline,
                       struct tn_error *err)
{
    tn_autofd int fd = memfd_create("output", MFD_CLOEXEC);
    tn_autoentry struct tn_entry file = {0};
    char piece[16 << 10];
    ssize_t n;

    if (fd < 0)
        return tn_fail_errno(err, errno, "memory for the output");
    if (tn_hand_files_stat(x->files, x->file, false, &file, deadline, err) < 0)
        return -1;
    int64_t most = (int64_t)out->max + 1, size = file.size < most ? file.size : most;
    if (tn_hand_files_read(x->files, x->file, 0, size, fd, NULL, NULL, deadline, err) < 0)
        return -1;
    for (off_t at = 0; (n = pread(fd, piece, sizeof piece, at)) > 0; at += n)
        if (tn_buf_add(out, piece, (size_t)n) < 0)
            break;
    return tn_output_fits(out, err);
}

static int exec_in(struct exec *x, const char *const *argv, struct tn_buf *out, int *status,
                   int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};

    if (tn_hand_session_make(&x->at, x->session, "sh", NULL, deadline, &why) < 0)
        return foreign(err, &why);
    int r = run(x, argv, status, deadline, err);
    if (r == 0)
        r = read_output(x, out, deadline, err);
    /* The session ends with whatever it still runs. */
    int64_t clear = tn_deadline_in(CLEAR_SECONDS);
    tn_hand_session_remove(&x->at, x->session, clear, NULL);
    tn_hand_files_remove(x->files, x->file, false, clear, NULL);
    return r;
}

int remote_exec(void *engine, const struct tn_subject *s, const char *const *argv,
                struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err)
{
    autoremoteview struct remote_view view = {0};
    struct exec x = {0};
    char name[11];

    if (tn_new_id(name, err) < 0 || reach(engine, s, &view, deadline, err) < 0)
        return -1;
    snprintf(x.session, sizeof x.session, "exec-%s", name);
    snprintf(x.file, sizeof x.file, "/tmp/.exec-%s", name);
    x.at = (struct tn_hand_address){.address = view.address, .key = view.key};
    tn_autofiles struct tn_hand_files *files = tn_hand_files_new(view.address, view.key, err);
    x.files = files;
    return files ? exec_in(&x, argv, out, status, deadline, err) : -1;
}

/* --- by asking the service -------------------------------------------------------------------- */

/* Its id there; NULL with err. */
static char *id_of(const struct remote *r, const struct tn_subject *s, int64_t deadline,
                   struct tn_error *err)
{
    autoremoteview struct remote_view view = {0};
    tn_autofree char *id = NULL;

    if (remote_ref_id(r, s, &id, err) < 0)
        return NULL;
    if (!id && remote_must_find(r, s, &view, deadline, err) == 0)
        id = TN_TAKE_PTR(view.id);
    return TN_TAKE_PTR(id);
}

char *remote_url(void *engine, const struct tn_subject *s, int port, struct tn_error *err)
{
    const struct remote *r = engine;
    int64_t deadline = tn_deadline_in(CALL_SECONDS);
    tn_autofree char *id = id_of(r, s, deadline, err);

    return id ? r->dialect->url(r, s, id, port, deadline, err) : NULL;
}

int remote_logs(void *engine, const struct tn_subject *s, bool follow, tn_log_fn fn, void *ctx,
                int64_t deadline, struct tn_error *err)
{
    const struct remote *r = engine;

    if (!r->dialect->logs)
        return lacking(r, "logs", err);
    tn_autofree char *id = id_of(r, s, deadline, err);
    return id ? r->dialect->logs(r, id, follow, fn, ctx, deadline, err) : -1;
}

int remote_usage(void *engine, const struct tn_subject *s, struct tn_usage *out,
                 struct tn_error *err)
{
    const struct remote *r = engine;
    int64_t deadline = tn_deadline_in(CALL_SECONDS);

    if (!r->dialect->usage)
        return lacking(r, "usage", err);
    tn_autofree char *id = id_of(r, s, deadline, err);
    return id ? r->dialect->usage(r, id, out, deadline, err) : -1;
}

int remote_snapshot(void *engine, const struct tn_subject *s, const char *name, int64_t deadline,
                    struct tn_error *err)
{
    const struct remote *r = engine;

    if (!r->dialect->snapshot)
        return lacking(r, "snapshots", err);
    tn_autofree char *id = id_of(r, s, deadline, err);
    return id ? r->dialect->snapshot(r, id, name, deadline, err) : -1;
}

int remote_forget(void *engine, const struct tn_subject *s, const char *name, int64_t deadline,
                  struct tn_error *err)
{
    const struct remote *r = engine;

    if (!r->dialect->forget)
        return lacking(r, "snapshots", err);
    tn_autofree char *id = id_of(r, s, deadline, err);
    return id ? r->dialect->forget(r, id, name, deadline, err) : -1;
}

int remote_rollback(void *engine, const struct tn_subject *s, const char *name,
                    struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    const struct remote *r = engine;
    autoremoteview struct remote_view view = {0};

    if (!r->dialect->rollback)
        return lacking(r, "snapshots", err);
    tn_autofree char *id = id_of(r, s, deadline, err);
    if (!id || r->dialect->rollback(r, id, name, deadline, err) < 0 ||
        r->dialect->look(r, s, id, &view, deadline, err) < 0)
        return -1;
    return remote_settle(r, s, &view, place, deadline, err);
}

static bool is_same(const struct tn_json *a, const struct tn_json *b)
{
    tn_autobuf struct tn_buf one = TN_BUF_INIT(REMOTE_BODY_MAX),
                             other = TN_BUF_INIT(REMOTE_BODY_MAX);
    struct tn_jw w = tn_jw(&one), v = tn_jw(&other);

    tn_jw_tree(&w, a);
    tn_jw_tree(&v, b);
    return strcmp(tn_buf_str(&one), tn_buf_str(&other)) == 0;
}

int remote_fork(void *engine, const struct tn_subject *s, const char *name,
                const struct tn_subject *child, struct tn_place *place, int64_t deadline,
                struct tn_error *err)
{
    const struct remote *r = engine;
    autoremoteview struct remote_view view = {0};

    if (!r->dialect->fork)
        return lacking(r, "forks", err);
    /* The service copies its own spec of the parent. */
    const char *differs = tn_spec_bounds_differ(child->spec, s->spec);
    if (differs)
        return tn_fail(
            err, TN_E_UNSUPPORTED,
            "%s: a fork of a remote sandbox has that of its parent, and here it would be "
            "another",
            differs);
    const struct tn_json *env = is_same(child->spec->env, s->spec->env) ? NULL : child->spec->env;
    tn_autofree char *id = id_of(r, s, deadline, err);
    if (!id || r->dialect->fork(r, id, name, child, env, &view, deadline, err) < 0)
        return -1;
    return remote_settle(r, child, &view, place, deadline, err);
}
