#include "service/builds.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "image/build.h"
#include "image/upload.h"
#include "net/url.h"
#include "service/clock.h"

#define BUILD_SECONDS 1800.0 /* the clients give up then */
#define ENGINE_SECONDS 30.0
#define STOP_SECONDS (ENGINE_SECONDS + 1) /* nothing else takes as long once they are to stop */
#define KEEP_SECONDS (7 * 86400.0)        /* rows of builds that ended */

#define NO_NETWORK "\n(steps of a build have no network here: service.build_network)"
#define DIRECTORY "builds" /* in the state directory, while something is built */

enum { AT_ONCE = 16, AT_ONCE_TENANT = 2, QUERY_MAX = 64 << 10, LAST_WORDS = 2000 };

struct builds {
    struct tn_service *s;
    char *directory;
    int stop; /* readable: everything stops */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct place {
        char id[17];
        char tenant[65];
    } places[AT_ONCE]; /* id "": free */
    int threads;
};

/* --- beginning and end --------------------------------------------------------------------- */

/* What a service left that was killed. */
static int remove_files(const char *state, struct tn_error *err)
{
    tn_autofd int fd = tn_fs_open(TN_FS_ANYWHERE, state, O_RDONLY | O_DIRECTORY, 0, err);

    return fd < 0 ? -1 : tn_fs_remove_tree(fd, DIRECTORY, 0, err);
}

struct builds *builds_new(struct tn_service *s, struct tn_error *err)
{
    const char *state = tn_runtime_host(s->rt)->state;

    if (tn_db_run(s->db, err,
                  "UPDATE build SET status = 'INTERNAL_ERROR',"
                  " error = 'the service was stopped while it was built' WHERE status = 'WORKING'",
                  "") < 0 ||
        remove_files(state, err))
        return NULL;
    struct builds *b = tn_calloc(1, sizeof *b);
    b->s = s;
    b->directory = tn_asprintf("%s/" DIRECTORY, state);
    pthread_mutex_init(&b->lock, NULL);
    tn_cond_init(&b->ended);
    b->stop = eventfd(0, EFD_CLOEXEC);
    if (b->stop >= 0)
        return b;
    tn_fail_errno(err, errno, "eventfd");
    builds_free(b);
    return NULL;
}

bool builds_end(struct builds *b)
{
    struct timespec until = tn_timespec(tn_deadline_in(STOP_SECONDS));

    if (!b)
        return true;
    eventfd_write(b->stop, 1);
    pthread_mutex_lock(&b->lock);
    while (b->threads && !pthread_cond_timedwait(&b->ended, &b->lock, &until))
        ;
    bool ended = !b->threads;
    pthread_mutex_unlock(&b->lock);
    return ended;
}

void builds_free(struct builds *b)
{
    if (!b)
        return;
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
    tn_close(b->stop);
    rmdir(b->directory);
    free(b->directory);
    free(b);
}

struct tn_engine *builds_engine(struct tn_service *s, int64_t deadline, struct tn_error *err)
{
    const struct tn_config_docker *docker = &tn_runtime_host(s->rt)->config->docker;

    return tn_engine_open(&(struct tn_engine_options){.host = docker->host,
                                                      .tls_verify = docker->tls_verify,
                                                      .cert_path = docker->cert_path},
                          deadline, err);
}

/* --- places -------------------------------------------------------------------------------- */

static int take_place(struct builds *b, const char *id, const char *tenant, struct tn_error *err)
{
    struct place *empty = NULL;
    int of_tenant = 0;

    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < AT_ONCE; i++) {
        if (!*b->places[i].id)
            empty = &b->places[i];
        else if (strcmp(b->places[i].tenant, tenant) == 0)
            of_tenant++;
    }
    if (of_tenant >= AT_ONCE_TENANT)
        empty = NULL;
    if (empty) {
        snprintf(empty->id, sizeof empty->id, "%s", id);
        snprintf(empty->tenant, sizeof empty->tenant, "%s", tenant);
    }
    pthread_mutex_unlock(&b->lock);
    return empty ? 0 : tn_fail(err, TN_E_QUOTA, "other images are being built: try again later");
}

static void leave_place(struct builds *b, const char *id)
{
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < AT_ONCE; i++)
        if (strcmp(b->places[i].id, id) == 0)
            b->places[i] = (struct place){0};
    pthread_mutex_unlock(&b->lock);
}

static int make_row(struct builds *b, const struct build_wish *wish, struct tn_error *err)
{
    double now = service_time();

    if (tn_db_run(b->s->db, err, "DELETE FROM build WHERE status <> 'WORKING' AND created < ?", "d",
                  now - KEEP_SECONDS) < 0)
        return -1;
    return tn_db_run(b->s->db, err,
                     "INSERT INTO build (id, tenant, status, image, created)"
                     " VALUES (?, ?, 'WORKING', '', ?)",
                     "ttd", wish->id, wish->tenant, now) < 0
               ? -1
               : 0;
}

static int make_file(struct builds *b, const struct build_wish *wish, struct tn_error *err)
{
    tn_autofd int directory = tn_fs_mkdirs(TN_FS_ANYWHERE, b->directory, 0700, NULL, NULL, err);
    int fd = directory < 0
                 ? -1
                 : tn_fs_open(TN_FS_ANYWHERE, wish->path, O_RDWR | O_CREAT | O_EXCL, 0600, err);

    if (fd < 0 && err)
        err->code = TN_E_INTERNAL; /* whatever it is, the client has not asked for it */
    return fd;
}

int build_begin(struct builds *b, struct build_wish *wish, struct tn_error *err)
{
    unsigned char bytes[8];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return tn_fail_errno(err, errno, "getrandom");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(wish->id + 2 * i, 3, "%02x", bytes[i]);
    wish->path = tn_asprintf("%s/%s.tar.gz", b->directory, wish->id);
    if (take_place(b, wish->id, wish->tenant, err)) {
        free(TN_TAKE_PTR(wish->path));
        return -1;
    }
    int fd = make_row(b, wish, err) ? -1 : make_file(b, wish, err);
    if (fd < 0)
        build_drop(b, wish);
    return fd;
}

/* File and place; the row is the caller's. */
static void clear(struct builds *b, struct build_wish *wish)
{
    unlink(wish->path);
    leave_place(b, wish->id);
    free(TN_TAKE_PTR(wish->path));
    free(TN_TAKE_PTR(wish->dockerfile));
    for (size_t i = 0; i < wish->tags.count; i++)
        free(wish->tags.items[i]);
    free(wish->tags.items);
    wish->tags = (struct tn_str_list){0};
}

void build_drop(struct builds *b, struct build_wish *wish)
{
    struct tn_error err = {0};

    if (!wish->path)
        return;
    if (tn_db_run(b->s->db, &err, "DELETE FROM build WHERE id = ?", "t", wish->id) < 0)
        tn_log(TN_LOG_WARN, "a build's row stays", tn_log_str("error", err.text));
    clear(b, wish);
}

/* --- threads ------------------------------------------------------------------------------- */

struct task {
    struct builds *b;
    char id[17];
    build_fn fn;
    void *ctx;
};

static void *run_task(void *arg)
{
    struct task *t = arg;
    struct builds *b = t->b;

    t->fn(t->ctx, b->stop);
    leave_place(b, t->id);
    free(t);
    pthread_mutex_lock(&b->lock);
    b->threads--;
    pthread_cond_signal(&b->ended);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* For who has that place. */
static int start_task(struct builds *b, const char *id, build_fn fn, void *ctx,
                      struct tn_error *err)
{
    struct task *t = tn_calloc(1, sizeof *t);
    pthread_t thread;

    *t = (struct task){.b = b, .fn = fn, .ctx = ctx};
    snprintf(t->id, sizeof t->id, "%s", id);
    pthread_mutex_lock(&b->lock);
    b->threads++;
    pthread_mutex_unlock(&b->lock);
    int failed = tn_thread_start(&thread, run_task, t);
    if (!failed) {
        pthread_detach(thread);
        return 0;
    }
    pthread_mutex_lock(&b->lock);
    b->threads--;
    pthread_mutex_unlock(&b->lock);
    free(t);
    return tn_fail_errno(err, failed, "a thread for the build");
}

int builds_start(struct builds *b, const char *id, const char *tenant, build_fn fn, void *ctx,
                 struct tn_error *err)
{
    char place[17];

    snprintf(place, sizeof place, "%.16s", id);
    if (take_place(b, place, tenant, err))
        return -1;
    if (start_task(b, place, fn, ctx, err) == 0)
        return 0;
    leave_place(b, place);
    return -1;
}

/* --- building ------------------------------------------------------------------------------ */

struct job {
    struct builds *b;
    struct build_wish wish;
    struct tn_buf words; /* the last of the output */
};

static void keep_words(const struct tn_engine_progress *p, void *ctx)
{
    struct job *job = ctx;

    if (p->stream)
        tn_buf_puts(&job->words, p->stream);
    if (job->words.len > LAST_WORDS)
        tn_buf_eat(&job->words, job->words.len - LAST_WORDS);
}

static void put_pair(struct tn_buf *query, const char *name, const char *value)
{
    tn_buf_printf(query, "%s%s=", query->len ? "&" : "", name);
    tn_url_encode(query, value, "");
}

static void put_query(const struct job *job, struct tn_buf *query)
{
    const struct bound_limits *most = &job->wish.bound.limits;

    put_pair(query, "dockerfile", "Dockerfile");
    put_pair(query, "version", "1"); /* BuildKit would fetch what a syntax line names */
    for (size_t i = 0; i < job->wish.tags.count; i++)
        put_pair(query, "t", job->wish.tags.items[i]);
    put_pair(query, "rm", "1");
    put_pair(query, "forcerm", "1");
    put_pair(query, "labels", "{\"" TN_IMAGE_LABEL "\":\"" TN_VERSION "\"}");
    if (!job->wish.bound.network)
        put_pair(query, "networkmode", "none");
    if (most->memory > 0)
        tn_buf_printf(query, "&memory=%.0f&memswap=%.0f", most->memory, most->memory);
    if (most->cpus > 0)
        tn_buf_printf(query, "&cpuperiod=100000&cpuquota=%.0f", most->cpus * 1e5);
}

static int build(struct job *job, struct tn_error *err)
{
    tn_autobuf struct tn_buf query = TN_BUF_INIT(QUERY_MAX);
    tn_autofd int fd = tn_fs_open(TN_FS_ANYWHERE, job->wish.path, O_RDONLY, 0, err);
    tn_autoengine struct tn_engine *engine =
        fd < 0 ? NULL : builds_engine(job->b->s, tn_deadline_in(ENGINE_SECONDS), err);

    if (!engine)
        return -1;
    struct tn_upload *upload = tn_upload_new(fd, job->wish.dockerfile, err);
    put_query(job, &query);
    int failed = !upload ||
                 tn_engine_build(engine, tn_buf_str(&query), tn_upload_read, upload, -1, keep_words,
                                 job, job->b->stop, tn_deadline_in(BUILD_SECONDS), err);
    tn_upload_free(upload);
    return failed ? -1 : 0;
}

/* An engine that has said something about the build was there: then it is the build that failed. */
static const char *status_of(const struct tn_error *err, bool begun)
{
    switch ((int)err->code) {
    case TN_OK:
        return "SUCCESS";
    case TN_E_TIMEOUT:
        return "TIMEOUT";
    case TN_E_GONE: /* cancelled: the service ends */
        return "INTERNAL_ERROR";
    case TN_E_PEER:
    case TN_E_DENIED:
    case TN_E_IO:
        return begun ? "FAILURE" : "INTERNAL_ERROR";
    default:
        return "FAILURE";
    }
}

static void run(void *ctx, int stop)
{
    struct job *job = ctx;
    struct builds *b = job->b;
    struct tn_error err = {0}, late = {0};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(2 * LAST_WORDS);

    tn_buf_init(&job->words, 1 << 20);
    build(job, &err);
    if (err.code)
        tn_buf_printf(&text, "%s%s%s%s", err.text, job->words.len ? "\n" : "",
                      tn_buf_str(&job->words), job->wish.bound.network ? "" : NO_NETWORK);
    if (tn_db_run(b->s->db, &late, "UPDATE build SET status = ?, error = ? WHERE id = ?", "ttt",
                  status_of(&err, job->words.len > 0), err.code ? tn_buf_str(&text) : NULL,
                  job->wish.id) < 0)
        tn_log(TN_LOG_ERROR, "a build's end was not noted", tn_log_str("error", late.text));
    clear(b, &job->wish);
    tn_buf_done(&job->words);
    free(job);
}

int build_run(struct builds *b, struct build_wish *wish, struct tn_error *err)
{
    if (tn_db_run(b->s->db, err, "UPDATE build SET image = ? WHERE id = ?", "tt",
                  wish->tags.items[0], wish->id) < 0) {
        build_drop(b, wish);
        return -1;
    }
    struct job *job = tn_calloc(1, sizeof *job);
    *job = (struct job){.b = b, .wish = *wish};
    job->wish.tenant = NULL; /* the caller's */
    if (start_task(b, wish->id, run, job, err) == 0)
        return 0;
    free(job);
    build_drop(b, wish);
    return -1;
}

/* --- looking ------------------------------------------------------------------------------- */

void build_info_done(struct build_info *i)
{
    free(i->status);
    free(i->image);
    free(i->error);
    *i = (struct build_info){0};
}

static int take_info(const struct tn_db_row *row, void *ctx)
{
    struct build_info *i = ctx;

    i->status = tn_strdup(tn_db_text(row, 0));
    i->image = tn_strdup(tn_db_text(row, 1));
    i->error = tn_strdup_or_null(tn_db_text(row, 2));
    return 0;
}

int build_find(struct builds *b, const char *tenant, const char *id, struct build_info *out,
               struct tn_error *err)
{
    int rows = tn_db_each(b->s->db, take_info, out, err,
                          "SELECT status, image, error FROM build WHERE id = ? AND tenant = ?",
                          "tt", id, tenant);

    if (rows == 0)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no such build");
    return rows < 0 ? -1 : 0;
}
