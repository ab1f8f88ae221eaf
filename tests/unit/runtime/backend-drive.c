/* Drives any backend through its table, for tests: one JSON object per line in, one out.
 *
 *     backend-drive STATE HAND PROGRAMS [CONFIG]
 *
 * STATE is the state directory (made if missing), HAND the path of tendon-hand, PROGRAMS the
 * directory of our helper programs, CONFIG a config.toml ("" or absent: none but the environment).
 *
 * A request is {"do": VERB, ...}; the answer {"ok": true, ...} or {"ok": false, "code":
 * "not_found", "error": "..."}, preceded by {"progress": "..."} and {"status": [ID, WORD, MESSAGE]}
 * lines.  Every request may carry "timeout" (seconds, 60).
 *
 *     set     {"name": "docker.memory", "value": "1g"}   configuration; before open
 *     find    {"runtime": "docker"}                      -> name, abilities
 *     open    {"runtime": "docker"}                      -> the same
 *     close
 *     doctor  {"runtime": "docker"}                      -> findings
 *     subject {"id", "spec": {...}, "own": bool, "key"}  a sandbox as the store would note it; own:
 * it ends with this driver (true).  Remembered in STATE/drive/ID.json, so that another driver finds
 * it. create, inspect {"id"}                             -> status, address, ref, reason, isolation
 *     drive   {"id", "goal": "stopped"}                  -> the same; "gone" also forgets the
 * subject list                                               -> ids put     {"id", "path", "text"
 * or "base64", "mode"} exec    {"id", "argv": [...]}                      -> output, status dial
 * {"id", "port", "send": "text"}             -> received (to the end of the stream) url     {"id",
 * "port"}                             -> url logs    {"id", "follow": bool, "until": "text"}    ->
 * output usage   {"id"}                                     -> memory, memory_peak, disk, ...
 *     snapshot, forget, rollback {"id", "name"};  fork {"id", "name" or null, "child"}
 *     ready   {"id"}                                     waits until the hand answers
 *     run     {"id", "command", ...}                     -> observation; further members are
 * arguments action  {"id", "action": {...}}                    -> observation
 *
 * A verb that the backend's table lacks answers with the code "unsupported". */
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/proc.h"
#include "runtime/hand-client.h"
#include "runtime/hand-tunnel.h"
#include "runtime/registry.h"

enum { LINE_MAX_BYTES = 64 << 20 };

static struct tn_config config;
static struct tn_host host = {.config = &config};
static const struct tn_backend *backend;
static void *engine;

/* --- subjects ------------------------------------------------------------------------------- */

struct subject {
    struct tn_subject s;
    struct tn_spec spec;
    char *id, *key, *directory, *ref;
};

static void subject_done(struct subject *x)
{
    tn_spec_done(&x->spec);
    free(x->id);
    free(x->key);
    free(x->directory);
    free(x->ref);
}
#define autosubject TN_CLEANUP(subject_done)

static char *record_path(const char *id)
{
    return tn_asprintf("%s/drive/%s.json", host.state, id);
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    return tn_fs_write(fd, ctx, strlen(ctx), err);
}

static int subject_save(const struct subject *x, struct tn_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    tn_autofree char *path = record_path(x->id);
    struct tn_fs_replace how = {.mode = 0600};
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "id", x->id);
    tn_jw_kstr(&w, "key", x->key);
    tn_jw_kstr(&w, "ref", x->ref);
    tn_jw_kint(&w, "owner", x->s.owner.pid);
    tn_jw_kint(&w, "start", (int64_t)x->s.owner.start);
    tn_jw_key(&w, "spec");
    tn_jw_object(&w);
    tn_spec_to_json(&x->spec, &w);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    return tn_fs_replace(TN_FS_ANYWHERE, path, &how, write_text, (void *)tn_buf_str(&out), err);
}

static void subject_bind(struct subject *x)
{
    x->s.id = x->id;
    x->s.key = x->key;
    x->s.ref = x->ref;
    x->s.spec = &x->spec;
    x->s.directory = x->directory;
}

static int subject_load(const char *id, struct subject *x, struct tn_error *err)
{
    tn_autofree char *path = record_path(id ? id : "");
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    tn_autojson struct tn_json *json = NULL;

    *x = (struct subject){0};
    tn_spec_init(&x->spec);
    if (!id || tn_fs_read(TN_FS_ANYWHERE, path, &text, err) < 0 ||
        tn_json_parse(tn_buf_str(&text), text.len, &json, err) < 0)
        return tn_error_context(err, "subject %s", id ? id : "(none)");
    x->id = tn_strdup(id);
    x->key = tn_strdup(tn_json_get_str(json, "key", ""));
    x->ref = tn_strdup_or_null(tn_json_get_str(json, "ref", NULL));
    x->directory = tn_asprintf("%s/sandbox/%s", host.state, id);
    x->s.owner.pid = (pid_t)tn_json_int(tn_json_get(json, "owner"), 0);
    x->s.owner.start = (uint64_t)tn_json_int(tn_json_get(json, "start"), 0);
    subject_bind(x);
    return tn_spec_from_json(tn_json_get(json, "spec"), &x->spec, err);
}

static char *random_key(void)
{
    unsigned char bytes[16];
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64);

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        abort();
    for (size_t i = 0; i < sizeof bytes; i++)
        tn_buf_printf(&out, "%02x", bytes[i]);
    return tn_buf_take(&out);
}

static int do_subject(const struct tn_json *q, int64_t deadline, struct tn_jw *w,
                      struct tn_error *err)
{
    autosubject struct subject x = {0};
    const char *id = tn_json_get_str(q, "id", NULL), *key = tn_json_get_str(q, "key", NULL);
    struct tn_proc self;

    tn_spec_init(&x.spec);
    if (!id)
        return tn_fail(err, TN_E_INVALID, "subject: no id");
    if (tn_json_get(q, "spec") && tn_spec_from_json(tn_json_get(q, "spec"), &x.spec, err) < 0)
        return -1;
    x.id = tn_strdup(id);
    x.key = key ? tn_strdup(key) : random_key();
    x.directory = tn_asprintf("%s/sandbox/%s", host.state, id);
    if (tn_json_bool(tn_json_get(q, "own"), true) && tn_proc_get(getpid(), &self) == 0)
        x.s.owner = (struct tn_owner){.pid = self.pid, .start = self.start};
    subject_bind(&x);
    if (mkdir(x.directory, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", x.directory);
    return subject_save(&x, err);
}

static int remember(struct subject *x, const struct tn_place *place, struct tn_error *err)
{
    if (place->key) {
        free(x->key);
        x->key = tn_strdup(place->key);
    }
    if (!place->ref)
        return 0;
    free(x->ref);
    x->ref = tn_strdup(place->ref);
    subject_bind(x);
    return subject_save(x, err);
}

static void forget_subject(const struct subject *x)
{
    tn_autofree char *path = record_path(x->id);
    tn_autofree char *parent = tn_asprintf("%s/sandbox", host.state);
    tn_autofd int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    tn_fs_remove_tree(dir, x->id, 0, NULL);
    unlink(path);
}

/* --- verbs ---------------------------------------------------------------------------------- */

static void write_raw(struct tn_jw *w, const char *key, const char *json)
{
    tn_jw_key(w, key);
    if (json)
        tn_jw_raw(w, json, strlen(json));
    else
        tn_jw_null(w);
}

static void write_place(struct tn_jw *w, const struct tn_place *place)
{
    tn_jw_kstr(w, "status", tn_status_words[place->status]);
    tn_jw_kstr(w, "address", place->address);
    tn_jw_kstr(w, "reason", place->reason);
    write_raw(w, "ref", place->ref);
    write_raw(w, "isolation", place->isolation);
}

static int lacking(const char *what, struct tn_error *err)
{
    return tn_fail(err, TN_E_UNSUPPORTED, "%s has no %s", backend->name, what);
}

static int do_set(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    return tn_config_set(&config, tn_json_get_str(q, "name", ""), tn_json_get_str(q, "value", ""),
                         err);
}

static int do_close(const struct tn_json *q, int64_t deadline, struct tn_jw *w,
                    struct tn_error *err)
{
    if (backend)
        backend->close(engine);
    backend = NULL;
    engine = NULL;
    return 0;
}

static int do_find(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    const struct tn_backend *found =
        tn_backend_find(&config, tn_json_get_str(q, "runtime", ""), err);

    if (!found)
        return -1;
    tn_jw_kstr(w, "name", found->name);
    tn_jw_kint(w, "abilities", found->abilities);
    return 0;
}

static int do_open(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    const struct tn_backend *found =
        tn_backend_find(&config, tn_json_get_str(q, "runtime", ""), err);
    void *opened = NULL;

    if (!found || found->open(&host, &opened, err) < 0)
        return -1;
    do_close(q, deadline, w, err);
    backend = found;
    engine = opened;
    tn_jw_kstr(w, "name", backend->name);
    tn_jw_kint(w, "abilities", backend->abilities);
    return 0;
}

static void tell_finding(const struct tn_symptom *f, void *ctx)
{
    struct tn_jw *w = ctx;

    tn_jw_object(w);
    tn_jw_kstr(w, "what", f->what);
    tn_jw_kbool(w, "good", f->good);
    tn_jw_kbool(w, "needed", f->needed);
    tn_jw_kstr(w, "detail", f->detail);
    tn_jw_object_end(w);
}

static int do_doctor(const struct tn_json *q, int64_t deadline, struct tn_jw *w,
                     struct tn_error *err)
{
    const struct tn_backend *found =
        tn_backend_find(&config, tn_json_get_str(q, "runtime", ""), err);

    if (!found)
        return -1;
    tn_jw_key(w, "findings");
    tn_jw_array(w);
    int r = found->doctor ? found->doctor(&host, tell_finding, w, err) : 0;
    tn_jw_array_end(w);
    return r;
}

static int do_create(const struct tn_json *q, int64_t deadline, struct tn_jw *w,
                     struct tn_error *err)
{
    autosubject struct subject x = {0};
    tn_autoplace struct tn_place place = {0};

    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0 ||
        backend->create(engine, &x.s, &place, deadline, err) < 0 || remember(&x, &place, err) < 0)
        return -1;
    write_place(w, &place);
    return 0;
}

static int do_inspect(const struct tn_json *q, int64_t deadline, struct tn_jw *w,
                      struct tn_error *err)
{
    autosubject struct subject x = {0};
    tn_autoplace struct tn_place place = {0};

    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0 ||
        backend->inspect(engine, &x.s, &place, deadline, err) < 0 || remember(&x, &place, err) < 0)
        return -1;
    write_place(w, &place);
    return 0;
}

static int do_drive(const struct tn_json *q, int64_t deadline, struct tn_jw *w,
                    struct tn_error *err)
{
    autosubject struct subject x = {0};
    tn_autoplace struct tn_place place = {0};
    const char *word = tn_json_get_str(q, "goal", "");
    int goal = 0;

    while (tn_goal_words[goal] && strcmp(tn_goal_words[goal], word) != 0)
        goal++;
    if (!tn_goal_words[goal])
        return tn_fail(err, TN_E_INVALID, "no such goal: %s", word);
    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0 ||
        backend->drive(engine, &x.s, (enum tn_goal)goal, &place, deadline, err) < 0)
        return -1;
    write_place(w, &place);
    if (goal == TN_GOAL_GONE) {
        forget_subject(&x);
        return 0;
    }
    return remember(&x, &place, err);
}

static int found_one(const char *id, void *ctx)
{
    tn_jw_str(ctx, id);
    return 0;
}

static int do_list(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    tn_jw_key(w, "ids");
    tn_jw_array(w);
    int r = backend->list(engine, found_one, w, deadline, err);
    tn_jw_array_end(w);
    return r;
}

static int do_put(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    autosubject struct subject x = {0};
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(LINE_MAX_BYTES);
    size_t n = 0;
    const char *text = tn_json_str(tn_json_get(q, "text"), &n);

    if (text)
        tn_buf_add(&bytes, text, n);
    else if ((text = tn_json_str(tn_json_get(q, "base64"), &n)) &&
             tn_base64_decode(&bytes, text, n, err) < 0)
        return -1;
    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0)
        return -1;
    return backend->put(engine, &x.s, tn_json_get_str(q, "path", ""), tn_buf_str(&bytes), bytes.len,
                        (mode_t)tn_json_int(tn_json_get(q, "mode"), 0644), deadline, err);
}

static int do_exec(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    autosubject struct subject x = {0};
    const struct tn_json *argv = tn_json_get(q, "argv");
    size_t n = tn_json_count(argv);
    tn_autofree const char **words = tn_calloc(n + 1, sizeof *words);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(LINE_MAX_BYTES);
    int status = -1;

    for (size_t i = 0; i < n; i++)
        if (!(words[i] = tn_json_str(tn_json_at(argv, i), NULL)))
            return tn_fail(err, TN_E_INVALID, "argv: not a list of strings");
    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0 ||
        backend->exec(engine, &x.s, words, &out, &status, deadline, err) < 0)
        return -1;
    tn_jw_key(w, "output");
    tn_jw_strn(w, tn_buf_str(&out), out.len);
    tn_jw_kint(w, "status", status);
    return 0;
}

/* The backend's way, or the hand's tunnel. */
static int connect_port(const struct subject *x, int port, int64_t deadline, struct tn_error *err)
{
    tn_autoplace struct tn_place place = {0};

    if (backend->dial)
        return backend->dial(engine, &x->s, port, deadline, err);
    if (backend->inspect(engine, &x->s, &place, deadline, err) < 0)
        return -1;
    if (!place.address)
        return tn_fail(err, TN_E_CONFLICT, "it is %s", tn_status_words[place.status]);
    return tn_hand_tunnel(place.address, x->key, port, deadline, err);
}

static int do_dial(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    autosubject struct subject x = {0};
    tn_autobuf struct tn_buf got = TN_BUF_INIT(LINE_MAX_BYTES);
    const char *text = tn_json_get_str(q, "send", "");

    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0)
        return -1;
    tn_autofd int fd = connect_port(&x, (int)tn_json_int(tn_json_get(q, "port"), 0), deadline, err);
    if (fd < 0 || tn_fs_write(fd, text, strlen(text), err) < 0)
        return -1;
    shutdown(fd, SHUT_WR);
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char piece[4096];
        if (poll(&p, 1, tn_poll_ms(deadline)) == 0)
            return tn_fail(err, TN_E_TIMEOUT, "dial: the stream did not end");
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0)
            return tn_fail_errno(err, errno, "dial");
        if (n == 0)
            break;
        tn_buf_add(&got, piece, (size_t)n);
    }
    tn_jw_kstr(w, "received", tn_buf_str(&got));
    return 0;
}

static int do_url(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    autosubject struct subject x = {0};

    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0)
        return -1;
    if (!backend->url)
        return lacking("url", err);
    tn_autofree char *url =
        backend->url(engine, &x.s, (int)tn_json_int(tn_json_get(q, "port"), 0), err);
    if (!url)
        return -1;
    tn_jw_kstr(w, "url", url);
    return 0;
}

struct log {
    struct tn_buf text;
    const char *until;
};

static int keep_log(const void *bytes, size_t n, void *ctx)
{
    struct log *log = ctx;

    tn_buf_add(&log->text, bytes, n);
    return log->until && strstr(tn_buf_str(&log->text), log->until);
}

static int do_logs(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    autosubject struct subject x = {0};
    struct log log = {.text = TN_BUF_INIT(LINE_MAX_BYTES),
                      .until = tn_json_get_str(q, "until", NULL)};
    bool follow = tn_json_bool(tn_json_get(q, "follow"), false);
    int r = subject_load(tn_json_get_str(q, "id", NULL), &x, err);

    if (r == 0)
        r = backend->logs(engine, &x.s, follow, keep_log, &log, deadline, err);
    if (r >= 0) {
        tn_jw_key(w, "output");
        tn_jw_strn(w, tn_buf_str(&log.text), log.text.len);
    }
    tn_buf_done(&log.text);
    return r < 0 ? -1 : 0;
}

static int do_usage(const struct tn_json *q, int64_t deadline, struct tn_jw *w,
                    struct tn_error *err)
{
    autosubject struct subject x = {0};
    struct tn_usage usage;

    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0)
        return -1;
    if (!backend->usage)
        return lacking("usage", err);
    if (backend->usage(engine, &x.s, &usage, err) < 0)
        return -1;
    tn_jw_kint(w, "memory", usage.memory);
    tn_jw_kint(w, "memory_peak", usage.memory_peak);
    tn_jw_kint(w, "disk", usage.disk);
    tn_jw_kdouble(w, "cpu_seconds", usage.cpu_seconds);
    tn_jw_kint(w, "processes", usage.processes);
    tn_jw_kdouble(w, "cpus", usage.cpus);
    return 0;
}

/* snapshot, forget, rollback and fork: all take a name. */
static int do_layers(const struct tn_json *q, int64_t deadline, struct tn_jw *w,
                     struct tn_error *err)
{
    autosubject struct subject x = {0};
    tn_autoplace struct tn_place place = {0};
    const char *verb = tn_json_get_str(q, "do", ""), *name = tn_json_get_str(q, "name", NULL);

    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0)
        return -1;
    if (!backend->snapshot)
        return lacking("snapshots", err);
    if (strcmp(verb, "snapshot") == 0)
        return backend->snapshot(engine, &x.s, name, deadline, err);
    if (strcmp(verb, "forget") == 0)
        return backend->forget(engine, &x.s, name, deadline, err);
    if (strcmp(verb, "rollback") == 0) {
        if (backend->rollback(engine, &x.s, name, &place, deadline, err) < 0)
            return -1;
        write_place(w, &place);
        return remember(&x, &place, err);
    }
    autosubject struct subject child = {0};
    if (subject_load(tn_json_get_str(q, "child", NULL), &child, err) < 0 ||
        backend->fork(engine, &x.s, name, &child.s, &place, deadline, err) < 0)
        return -1;
    write_place(w, &place);
    return remember(&child, &place, err);
}

/* --- the hand ------------------------------------------------------------------------------- */

static struct tn_hand_client *client_of(const struct tn_json *q, int64_t deadline,
                                        struct tn_error *err)
{
    autosubject struct subject x = {0};
    tn_autoplace struct tn_place place = {0};

    if (subject_load(tn_json_get_str(q, "id", NULL), &x, err) < 0 ||
        backend->inspect(engine, &x.s, &place, deadline, err) < 0)
        return NULL;
    if (!place.address) {
        tn_fail(err, TN_E_CONFLICT, "it is %s", tn_status_words[place.status]);
        return NULL;
    }
    struct tn_hand_client *client = tn_hand_client_new(place.address, x.key, err);
    if (client && tn_hand_client_wait(client, -1, deadline, err) < 0) {
        tn_hand_client_free(client);
        return NULL;
    }
    return client;
}

static int do_ready(const struct tn_json *q, int64_t deadline, struct tn_jw *w,
                    struct tn_error *err)
{
    struct tn_hand_client *client = client_of(q, deadline, err);

    tn_hand_client_free(client);
    return client ? 0 : -1;
}

static int copy_argument(const char *key, struct tn_json *value, void *ctx)
{
    if (strcmp(key, "do") != 0 && strcmp(key, "id") != 0 && strcmp(key, "timeout") != 0) {
        tn_jw_key(ctx, key);
        tn_jw_tree(ctx, value);
    }
    return 0;
}

/* A request of verb run is the arguments of its action. */
static int action_of(const struct tn_json *q, struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(LINE_MAX_BYTES);
    struct tn_jw w = tn_jw(&text);

    if (tn_json_get(q, "action")) {
        *out = tn_json_ref(tn_json_get(q, "action"));
        return 0;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "action", "run");
    tn_jw_key(&w, "args");
    tn_jw_object(&w);
    tn_json_each(q, copy_argument, &w);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    return tn_json_parse(tn_buf_str(&text), text.len, out, err);
}

static int do_run(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err)
{
    tn_autojson struct tn_json *json = NULL;
    tn_autoaction struct tn_action action = {0};
    tn_autoobservation struct tn_observation observation = {0};

    tn_action_init(&action, TN_ACTION_NULL);
    tn_observation_init(&observation, TN_OBSERVATION_NULL);
    if (action_of(q, &json, err) < 0)
        return -1;
    struct tn_hand_client *client = client_of(q, deadline, err);
    if (!client)
        return -1;
    int r = tn_action_from_json(json, &action, err);
    if (r < 0)
        tn_action_init(&action, TN_ACTION_NULL);
    if (r == 0 && !action.timeout.set)
        action.timeout = (struct tn_opt_double){true, (double)(deadline - tn_now()) / 1e9};
    if (r == 0)
        r = tn_hand_client_execute(client, &action, &observation, err);
    tn_hand_client_free(client);
    if (r < 0)
        return -1;
    tn_jw_key(w, "observation");
    tn_observation_to_json(&observation, w);
    return 0;
}

/* --- requests ------------------------------------------------------------------------------- */

static const struct verb {
    const char *name;
    int (*run)(const struct tn_json *q, int64_t deadline, struct tn_jw *w, struct tn_error *err);
    bool unopened; /* needs no open backend */
} verbs[] = {
    {"set", do_set, true},          {"find", do_find, true},        {"open", do_open, true},
    {"close", do_close, true},      {"doctor", do_doctor, true},    {"subject", do_subject, true},
    {"create", do_create, false},   {"inspect", do_inspect, false}, {"drive", do_drive, false},
    {"list", do_list, false},       {"put", do_put, false},         {"exec", do_exec, false},
    {"dial", do_dial, false},       {"url", do_url, false},         {"logs", do_logs, false},
    {"usage", do_usage, false},     {"snapshot", do_layers, false}, {"forget", do_layers, false},
    {"rollback", do_layers, false}, {"fork", do_layers, false},     {"ready", do_ready, false},
    {"run", do_run, false},         {"action", do_run, false},
};

static int dispatch(const struct tn_json *q, struct tn_jw *w, struct tn_error *err)
{
    const char *name = tn_json_get_str(q, "do", "");
    int64_t deadline = tn_deadline_in(tn_json_double(tn_json_get(q, "timeout"), 60));

    for (size_t i = 0; i < TN_COUNT(verbs); i++) {
        if (strcmp(verbs[i].name, name) != 0)
            continue;
        if (!verbs[i].unopened && !backend)
            return tn_fail(err, TN_E_INVALID, "%s: open a backend first", name);
        return verbs[i].run(q, deadline, w, err);
    }
    return tn_fail(err, TN_E_INVALID, "no such verb: %s", name);
}

static void print_line(const struct tn_buf *line)
{
    fwrite(tn_buf_str(line), 1, line->len, stdout);
    fputc('\n', stdout);
    fflush(stdout);
}

static void answer(const char *text, size_t n)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(LINE_MAX_BYTES);
    tn_autojson struct tn_json *q = NULL;
    struct tn_error err = {0};
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kbool(&w, "ok", true);
    if (tn_json_parse(text, n, &q, &err) < 0 || dispatch(q, &w, &err) < 0) {
        tn_buf_reset(&out);
        w = tn_jw(&out);
        tn_jw_object(&w);
        tn_jw_kbool(&w, "ok", false);
        tn_jw_kstr(&w, "code", tn_code_row(err.code)->name);
        tn_jw_kstr(&w, "error", err.text);
    }
    tn_jw_object_end(&w);
    print_line(&out);
}

static void tell_progress(const char *text, void *ctx)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "progress", text);
    tn_jw_object_end(&w);
    print_line(&out);
}

static void tell_status(const char *id, enum tn_runtime_status status, const char *message,
                        void *ctx)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_key(&w, "status");
    tn_jw_array(&w);
    tn_jw_str(&w, id);
    tn_jw_str(&w, tn_runtime_status_name(status));
    tn_jw_str(&w, message);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    print_line(&out);
}

static int make_directories(struct tn_error *err)
{
    static const char *const below[] = {"", "/sandbox", "/drive"};

    for (size_t i = 0; i < TN_COUNT(below); i++) {
        tn_autofree char *path = tn_asprintf("%s%s", host.state, below[i]);
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return tn_fail_errno(err, errno, "%s", path);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct tn_error err = {0};
    tn_autofree char *line = NULL;
    size_t room = 0;

    if (argc < 4) {
        fprintf(stderr, "usage: backend-drive STATE HAND PROGRAMS [CONFIG]\n");
        return 2;
    }
    host.state = argv[1];
    host.hand = argv[2];
    host.program = argv[3];
    host.progress = tell_progress;
    host.told = tell_status;
    if (make_directories(&err) < 0 ||
        tn_config_load(&config, argc > 4 && *argv[4] ? argv[4] : "/dev/null", &err) < 0) {
        fprintf(stderr, "backend-drive: %s\n", err.text);
        return 1;
    }
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;)
        answer(line, (size_t)n);
    do_close(NULL, 0, NULL, NULL);
    tn_config_done(&config);
    return 0;
}
