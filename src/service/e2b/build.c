/* Templates of a recipe: a build is a row (table recipe), and a box in which the steps are run.
 *
 * A client declares it, uploads the archives of its COPY steps, and starts it; from then on a
 * thread of builds.h has it.  When all steps went well the box is stopped and is the template: new
 * sandboxes are forks of it.  A build that a service has left when it was killed is an error to the
 * next one, and its box goes. */
#include <ctype.h>
#include <sys/random.h>

#include "base/log.h"
#include "service/blobs.h"
#include "service/builds.h"
#include "service/clock.h"
#include "service/e2b/e2b.h"
#include "service/openhands.h"
#include "service/recipe.h"

#define BUILD_SECONDS 3600.0
#define WAIT_SECONDS 3600.0        /* between declaration and start */
#define KEEP_SECONDS (7 * 86400.0) /* rows of builds that failed */
#define FLUSH_SECONDS 0.3          /* what is said is written down so often */
#define STOP_SECONDS 60.0
#define RETRY_SECONDS "5"

enum {
    MOST_OPEN = 8, /* builds of a tenant that have not ended */
    PIECE = 64 << 10,
    LOG_MAX = 256 << 10,
    MOST_FAILED = 32, /* are told of later */
    BUILT_MAX = 512 << 10,
};

/* --- rows ------------------------------------------------------------------------------------ */

struct build {
    char *id, *tenant, *key, *template, *name, *status, *step, *reason, *log;
    struct tn_json *wish; /* {"cpuCount", "memoryMB", "tags"} */
};

static void build_done(struct build *b)
{
    char *texts[] = {b->id,     b->tenant, b->key,    b->template, b->name,
                     b->status, b->step,   b->reason, b->log};

    for (size_t i = 0; i < TN_COUNT(texts); i++)
        free(texts[i]);
    tn_json_free(b->wish);
}
#define autobuild TN_CLEANUP(build_done)

static int take_build(const struct tn_db_row *row, void *ctx)
{
    struct build *b = ctx;
    char **texts[] = {&b->id,     &b->tenant, &b->key,    &b->template, &b->name,
                      &b->status, &b->step,   &b->reason, &b->log};
    const char *wish = tn_db_text(row, TN_COUNT(texts));

    for (size_t i = 0; i < TN_COUNT(texts); i++)
        *texts[i] = tn_strdup_or_null(tn_db_text(row, (int)i));
    tn_json_parse(wish, strlen(wish), &b->wish, NULL);
    return 1;
}

#define COLUMNS "id, tenant, key, template, name, status, step, reason, log, wish"

/* The build that the path names, of the caller; -1: answered. */
static int find(struct tn_http_exchange *x, struct tn_service *s, struct build *out)
{
    struct tn_error err = {0};
    int rows = tn_db_each(
        s->db, take_build, out, &err,
        "SELECT " COLUMNS " FROM recipe WHERE id = ? AND template = ? AND tenant = ?", "ttt",
        tn_http_param(x, "build"), tn_http_param(x, "template"), caller_of(x)->tenant);

    if (rows == 0)
        tn_fail(&err, TN_E_NOT_FOUND, "build not found");
    if (rows <= 0)
        reply_error(x, &err);
    return rows > 0 ? 0 : -1;
}

/* One of that template that waits for its start. */
static int find_open(struct tn_service *s, const char *template, struct build *out)
{
    return tn_db_each(s->db, take_build, out, NULL,
                      "SELECT " COLUMNS " FROM recipe WHERE template = ? AND status = 'waiting'"
                      " ORDER BY created DESC LIMIT 1",
                      "t", template) > 0
               ? 0
               : -1;
}

static void set_failed(struct tn_service *s, const char *id, const char *step, const char *reason)
{
    struct tn_error err = {0};

    if (tn_db_run(s->db, &err,
                  "UPDATE recipe SET status = 'error', step = ?, reason = ? WHERE id = ?", "ttt",
                  step, reason, id) < 0)
        tn_log(TN_LOG_ERROR, "how a build is was not noted", tn_log_str("error", err.text));
}

/* --- declaring ------------------------------------------------------------------------------- */

int e2b_make_id(char out[E2B_BUILD_ID], struct tn_error *err)
{
    unsigned char r[16];

    if (getrandom(r, sizeof r, 0) != sizeof r)
        return tn_fail_errno(err, errno, "getrandom");
    r[6] = (unsigned char)((r[6] & 0x0f) | 0x40);
    r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
    for (size_t i = 0, at = 0; i < sizeof r; i++)
        at += (size_t)snprintf(out + at, E2B_BUILD_ID - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", r[i]);
    return 0;
}

void e2b_template_id(const struct tn_service *s, const char *tenant, const char *name,
                     char out[E2B_TEMPLATE_ID])
{
    tn_autofree char *text = tn_asprintf("%s\n%s", tenant, name);
    char token[SURFACE_TOKEN];

    surface_token(s, "template", text, token);
    snprintf(out, E2B_TEMPLATE_ID, "t%.19s", token);
}

/* {"cpuCount", "memoryMB", "tags"} of the body; a tag may stand in the name. */
static char *make_wish(const struct tn_json *body, const struct e2b_name *name,
                       struct tn_error *err)
{
    const struct tn_json *tags = tn_json_get(body, "tags");
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&text);
    struct e2b_name each;

    tn_jw_object(&w);
    tn_jw_kint(&w, "cpuCount", tn_json_int(tn_json_get(body, "cpuCount"), 0));
    tn_jw_kint(&w, "memoryMB", tn_json_int(tn_json_get(body, "memoryMB"), 0));
    tn_jw_key(&w, "tags");
    tn_jw_array(&w);
    if (*name->tag || !tn_json_count(tags))
        tn_jw_str(&w, *name->tag ? name->tag : "default");
    for (size_t i = 0; i < tn_json_count(tags); i++) {
        const char *tag = tn_json_str(tn_json_at(tags, i), NULL);
        if (e2b_read_name(tag, &each, err) || *each.tag) {
            tn_fail(err, TN_E_INVALID, "tags: expected names");
            return NULL;
        }
        tn_jw_str(&w, tag);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    if (tn_buf_ok(&text))
        return tn_buf_take(&text);
    tn_fail(err, TN_E_INVALID, "tags: too many");
    return NULL;
}

static int insert(struct tn_service *s, const struct caller *who, const char *id,
                  const char *template, const char *name, const char *wish, struct tn_error *err)
{
    if (tn_db_run(s->db, err,
                  "DELETE FROM recipe WHERE tenant = ? AND status = 'error' AND id NOT IN"
                  " (SELECT id FROM recipe WHERE tenant = ? AND status = 'error'"
                  "  ORDER BY created DESC LIMIT ?)",
                  "tti", who->tenant, who->tenant, (int64_t)MOST_FAILED) < 0)
        return -1;
    int rows = tn_db_run(s->db, err,
                         "INSERT INTO recipe (id, tenant, key, template, name, status, wish,"
                         " created) SELECT ?, ?, ?, ?, ?, 'waiting', ?, ? WHERE (SELECT count(*)"
                         " FROM recipe WHERE tenant = ? AND status IN ('waiting', 'building')) < ?",
                         "ttttttdti", id, who->tenant, who->key_id, template, name, wish,
                         service_time(), who->tenant, (int64_t)MOST_OPEN);
    if (rows == 0)
        return tn_fail(err, TN_E_QUOTA, "%d builds have not ended: try again later", MOST_OPEN);
    return rows < 0 ? -1 : 0;
}

/* Some clients come back when they hear of a limit. */
static void refuse(struct tn_http_exchange *x, const struct tn_error *err)
{
    if (err->code == TN_E_QUOTA) {
        tn_http_set_header(x, "Retry-After", RETRY_SECONDS);
        reply_status(x, 429, NULL, err->text);
    } else {
        reply_error(x, err);
    }
}

static void post_template(struct tn_http_exchange *x, void *ctx)
{
    static const char *const lists[] = {"names", "aliases"};
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    struct e2b_name name;
    char id[E2B_BUILD_ID], template[E2B_TEMPLATE_ID];

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, E2B_BODY_MAX, &body))
        return;
    const char *given = tn_json_get_str(body, "name", tn_json_get_str(body, "alias", NULL));
    int failed = e2b_read_name(given, &name, &err) || e2b_make_id(id, &err);
    if (!failed && e2b_is_usual(s, name.name))
        failed = tn_fail(&err, TN_E_CONFLICT, "template '%s' is the operator's", name.name);
    tn_autofree char *wish = failed ? NULL : make_wish(body, &name, &err);
    if (!wish) {
        reply_error(x, &err);
        return;
    }
    e2b_template_id(s, caller_of(x)->tenant, name.name, template);
    if (insert(s, caller_of(x), id, template, name.name, wish, &err)) {
        refuse(x, &err);
        return;
    }
    tn_autojson struct tn_json *tree = NULL;
    tn_json_parse(wish, strlen(wish), &tree, NULL);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "templateID", template);
    tn_jw_kstr(&w, "buildID", id);
    tn_jw_kbool(&w, "public", false);
    for (size_t i = 0; i < TN_COUNT(lists); i++) {
        tn_jw_key(&w, lists[i]);
        tn_jw_array(&w);
        tn_jw_str(&w, name.name);
        tn_jw_array_end(&w);
    }
    tn_jw_key(&w, "tags");
    tn_jw_tree(&w, tn_json_get(tree, "tags"));
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 202, &json);
}

/* --- uploads --------------------------------------------------------------------------------- */

void e2b_builds_sweep(struct tn_service *s)
{
    double now = service_time();
    struct tn_error err = {0};

    if (tn_db_run(s->db, &err,
                  "DELETE FROM recipe WHERE (status = 'error' AND created < ?)"
                  " OR (status = 'waiting' AND created < ?)",
                  "dd", now - KEEP_SECONDS, now - WAIT_SECONDS) < 0)
        tn_log(TN_LOG_WARN, "old builds stay", tn_log_str("error", err.text));
}

static int look_at_half(const struct blob *b, void *found)
{
    *(bool *)found |= b->state != BLOB_WHOLE;
    return 0;
}

/* An upload holds its file whatever becomes of the name, so no build begins before it ended. */
static bool is_uploading(struct tn_service *s, const struct build *b)
{
    bool found = false;

    return blob_each(s, b->tenant, b->id, look_at_half, &found, NULL) < 0 || found;
}

static bool is_hash(const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    return n >= 16 && n <= 128;
}

/* The archives of a build are blobs of its own, by their hashes. */
static int find_archive(struct tn_service *s, const struct build *b, const char *hash,
                        struct blob *out, struct tn_error *err)
{
    return blob_find(s, b->tenant, b->id, NULL, hash, out, err);
}

/* What opens the way to put that archive there. */
static char *ticket_text(const char *template, const char *hash)
{
    return tn_asprintf("%s/%s", template, hash);
}

static void get_file(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *template = tn_http_param(x, "template"), *hash = tn_http_param(x, "hash");
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&json);
    autobuild struct build b = {0};
    char token[SURFACE_TOKEN];

    if (!caller_may(x, SCOPE_MANAGE))
        return;
    if (!is_hash(hash) || find_open(s, template, &b) ||
        strcmp(b.tenant, caller_of(x)->tenant) != 0) {
        native_refuse(x, TN_E_NOT_FOUND, "template '%.100s' not found", template);
        return;
    }
    autoblob struct blob archive = {0};
    bool present = find_archive(s, &b, hash, &archive, NULL) == 0 && archive.state == BLOB_WHOLE;
    tn_autofree char *text = ticket_text(template, hash), *base = base_url(x);
    surface_token(s, "upload", text, token);
    tn_autofree char *url =
        tn_asprintf("%s/templates/%s/files/%s?signature=%s", base, template, hash, token);
    tn_jw_object(&w);
    tn_jw_kbool(&w, "present", present);
    tn_jw_kstr(&w, "url", url);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 201, &json);
}

/* A build that begins looks for uploads, and an upload that begins looks whether it has. */
static int store_file(struct tn_http_exchange *x, struct tn_service *s, const struct build *b,
                      const char *hash, struct tn_error *err)
{
    struct blob archive = {0};
    autobuild struct build now = {0};

    snprintf(archive.owner, sizeof archive.owner, "%s", b->id);
    snprintf(archive.name, sizeof archive.name, "%s", hash);
    if (blob_new(s, caller_of(x), &archive, err))
        return -1;
    int failed = find_open(s, b->template, &now) || strcmp(now.id, b->id) != 0
                     ? tn_fail(err, TN_E_CONFLICT, "the build has begun")
                     : blob_store(s, caller_of(x), &archive, surface_read_body, x, err) ||
                           blob_seal(s, &archive, err);
    if (failed)
        blob_delete(s, &archive, NULL);
    return failed;
}

/* By a link of get_file: some clients send no key with it. */
static void put_file(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *template = tn_http_param(x, "template"), *hash = tn_http_param(x, "hash");
    tn_autofree char *text = ticket_text(template, hash);
    autobuild struct build b = {0};
    struct tn_error err = {0};
    struct caller who;

    if (!is_hash(hash) || !surface_is_token(s, "upload", text, tn_http_query(x, "signature")) ||
        find_open(s, template, &b) || keyring_find(s->keys, b.key, &who, NULL)) {
        reply_unauthorized(x, "This link is none, or not any more");
        return;
    }
    if (!caller_enter(x, &who))
        return;
    if (store_file(x, s, &b, hash, &err))
        reply_error(x, &err);
    else
        tn_http_reply(x, 200, NULL, NULL, 0);
}

/* --- building -------------------------------------------------------------------------------- */

struct job {
    struct tn_service *s;
    struct build b;
    struct caller who;
    struct tn_json *body; /* of the request that started it */
    struct box *box;
    struct tn_buf said; /* lines of JSON that are not written down yet */
    size_t logged;
    int64_t flushed;
};

static void job_free(struct job *job)
{
    build_done(&job->b);
    tn_json_free(job->body);
    box_release(job->box);
    tn_buf_done(&job->said);
    free(job);
}

static void flush(struct job *job)
{
    if (job->said.len)
        tn_db_run(job->s->db, NULL, "UPDATE recipe SET log = log || ? WHERE id = ?", "tt",
                  tn_buf_str(&job->said), job->b.id);
    tn_buf_reset(&job->said);
    job->flushed = tn_now();
}

static void say(enum recipe_level level, const char *text, size_t n, void *ctx)
{
    struct job *job = ctx;
    size_t before = job->said.len;
    struct tn_jw w = tn_jw(&job->said);

    if (!n)
        flush(job);
    if (!n || job->logged > LOG_MAX)
        return;
    tn_jw_object(&w);
    openhands_put_time(&w, "timestamp", service_time());
    tn_jw_kstr(&w, "level", recipe_levels[level]);
    tn_jw_key(&w, "message");
    tn_jw_strn(&w, text, n);
    tn_jw_object_end(&w);
    tn_buf_puts(&job->said, "\n");
    job->logged += job->said.len - before;
    if (job->said.len > PIECE || tn_now() - job->flushed > (int64_t)(FLUSH_SECONDS * 1e9))
        flush(job);
}

/* Where the runtime takes no images by name each stands for its own root. */
static int choose_image(struct job *job, struct e2b_origin *from, struct tn_json **wish,
                        struct tn_error *err)
{
    const char *image = tn_json_get_str(job->body, "fromImage", NULL);
    const char *template = tn_json_get_str(job->body, "fromTemplate", NULL);
    bool usual =
        !image || strncmp(image, "e2bdev/", 7) == 0 || !openhands_takes_images(job->s, NULL);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&text);

    if (tn_json_get(job->body, "fromImageRegistry"))
        return tn_fail(err, TN_E_INVALID, "credentials of registries are the operator's here");
    if (image && usual) {
        tn_autofree char *said =
            tn_asprintf("[base] %.200s is the root that sandboxes of this service have", image);
        say(RECIPE_INFO, said, strlen(said), job);
    }
    tn_jw_object(&w);
    tn_jw_kint(&w, "cpuCount", tn_json_int(tn_json_get(job->b.wish, "cpuCount"), 0));
    tn_jw_kint(&w, "memoryMB", tn_json_int(tn_json_get(job->b.wish, "memoryMB"), 0));
    if (!usual)
        tn_jw_kstr(&w, "fromImage", image);
    tn_jw_object_end(&w);
    if (tn_json_parse(tn_buf_str(&text), text.len, wish, err))
        return -1;
    return e2b_find_origin(job->s, &job->who, template ? template : E2B_TEMPLATE, from, err);
}

/* The box that it is built in; its time is that of the build, in which it is in use. */
static int make_box(struct job *job, struct e2b_origin *from, struct tn_error *err)
{
    struct box_wish wish = {.name = job->b.name,
                            .idle_pause = -1,
                            .idle_stop = -1,
                            .ttl = -1,
                            .timeout = BUILD_SECONDS};
    tn_autojson struct tn_json *members = NULL, *metadata = NULL;
    tn_autofree char *id = tn_asprintf("\"%s\"", job->b.id);

    if (choose_image(job, from, &members, err) ||
        !(metadata = surface_metadata(NULL, E2B_RECORD, NULL, "build", id, err)))
        return -1;
    wish.metadata = metadata;
    job->box = e2b_make_box(job->s, &job->who, from, members, &wish, err);
    if (!job->box || tn_db_run(job->s->db, err, "UPDATE recipe SET box = ? WHERE id = ?", "tt",
                               box_id(job->box), job->b.id) < 0)
        return -1;
    return surface_can_fork(job->box, err) || e2b_await(job->box, &job->who, from->gateway, err)
               ? -1
               : 0;
}

/* What sandboxes of it are given besides its files: see struct e2b_origin. */
static char *make_built(const struct job *job, const struct recipe *r, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(BUILT_MAX);
    tn_autojson struct tn_json *env = recipe_env(r, err);
    struct tn_jw w = tn_jw(&text);

    if (!env)
        return NULL;
    tn_jw_object(&w);
    tn_jw_key(&w, "record");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "template", job->b.template);
    tn_jw_kstr(&w, "alias", job->b.name);
    tn_jw_kstr(&w, "cwd", r->cwd);
    tn_jw_kstr(&w, "user", r->user);
    tn_jw_object_end(&w);
    tn_jw_key(&w, "env");
    tn_jw_tree(&w, env);
    tn_jw_kstr(&w, "start", tn_json_get_str(job->body, "startCmd", NULL));
    tn_jw_kstr(&w, "ready", tn_json_get_str(job->body, "readyCmd", NULL));
    tn_jw_object_end(&w);
    if (tn_buf_ok(&text))
        return tn_buf_take(&text);
    tn_fail(err, TN_E_TOO_LARGE, "the template: there is too much of it");
    return NULL;
}

struct end {
    struct job *job;
    const char *built;
};

/* What had its tags before has them no more. */
static int commit(struct tn_db *db, void *ctx, struct tn_error *err)
{
    const struct end *end = ctx;
    const struct build *b = &end->job->b;
    const struct tn_json *tags = tn_json_get(b->wish, "tags");

    for (size_t i = 0; i < tn_json_count(tags); i++)
        if (e2b_give_tag(end->job->s, b->tenant, b->name, tn_json_str(tn_json_at(tags, i), NULL),
                         b->id, err))
            return -1;
    return tn_db_run(db, err, "UPDATE recipe SET built = ?, status = 'ready' WHERE id = ?", "tt",
                     end->built, b->id) < 0
               ? -1
               : 0;
}

/* It is stopped, and has no time-out any more. */
static int finish(struct job *job, const struct recipe *r, struct tn_error *err)
{
    tn_autofree char *built = make_built(job, r, err);
    struct end end = {.job = job, .built = built};
    const double never = 0;

    flush(job);
    return !built ||
                   box_change(job->box, &job->who, &(struct box_change){.timeout = &never}, err) ||
                   box_order(job->box, &job->who, ORDER_STOP, tn_deadline_in(STOP_SECONDS), err) ||
                   tn_db_atomically(job->s->db, commit, &end, err)
               ? -1
               : 0;
}

static int open_archive(const char *hash, void *ctx, struct tn_error *err)
{
    const struct job *job = ctx;
    autoblob struct blob archive = {0};

    return find_archive(job->s, &job->b, hash, &archive, NULL)
               ? tn_fail(err, TN_E_INVALID, "its files were not uploaded")
               : blob_open(job->s, &archive, err);
}

/* *step: where it failed. */
static int build(struct job *job, int stop, char step[24], struct tn_error *err)
{
    autoorigin struct e2b_origin from = {0};

    snprintf(step, 24, "base");
    if (make_box(job, &from, err))
        return -1;
    const struct tn_json *record = tn_json_get(from.built, "record");
    const char *start = tn_json_get_str(job->body, "startCmd", NULL);
    const char *ready = tn_json_get_str(job->body, "readyCmd", NULL);
    struct recipe r = {.box = job->box,
                       .who = &job->who,
                       .steps = tn_json_get(job->body, "steps"),
                       .env = tn_json_get(from.built, "env"),
                       .open = open_archive,
                       .home = E2B_HOME,
                       .cwd = tn_strdup_or_null(tn_json_get_str(record, "cwd", NULL)),
                       .user = tn_strdup_or_null(tn_json_get_str(record, "user", NULL)),
                       .stop = stop,
                       .deadline = tn_deadline_in(BUILD_SECONDS),
                       .say = say,
                       .ctx = job};
    box_enter_use(job->box);
    int failed = recipe_run(&r, err);
    if (failed)
        snprintf(step, 24, "%zu", r.step);
    else
        snprintf(step, 24, "finalize");
    failed = failed || recipe_start(&r, start, ready, err);
    box_leave_use(job->box);
    failed = failed || finish(job, &r, err);
    recipe_done(&r);
    return failed ? -1 : 0;
}

static void run(void *ctx, int stop)
{
    struct job *job = ctx;
    struct tn_error err = {0};
    char step[24];

    if (build(job, stop, step, &err) == 0) {
        e2b_drop_untagged(job->s, &job->who, job->b.name);
    } else {
        say(RECIPE_ERROR, err.text, strlen(err.text), job);
        flush(job);
        if (job->box)
            box_order(job->box, &job->who, ORDER_DELETE, tn_now(), NULL);
        set_failed(job->s, job->b.id, step, err.text);
    }
    blobs_sweep(job->s);
    job_free(job);
}

/* Whether the archives of all steps are there. */
static int check_files(struct job *job, struct tn_error *err)
{
    const struct tn_json *steps = tn_json_get(job->body, "steps");

    if (is_uploading(job->s, &job->b))
        return tn_fail(err, TN_E_QUOTA, "files of the build are being uploaded: try again later");
    for (size_t i = 0; i < tn_json_count(steps); i++) {
        const struct tn_json *step = tn_json_at(steps, i);
        if (strcmp(tn_json_get_str(step, "type", ""), "COPY") != 0)
            continue;
        tn_autofd int fd = open_archive(tn_json_get_str(step, "filesHash", ""), job, err);
        if (fd < 0)
            return tn_error_context(err, "step %zu", i + 1);
    }
    return 0;
}

/* From `building` on nothing more can be uploaded for it. */
static int start(struct tn_http_exchange *x, struct job *job, struct tn_error *err)
{
    job->who = *caller_of(x);
    tn_buf_init(&job->said, 2 * PIECE);
    if (recipe_check(tn_json_get(job->body, "steps"), err))
        return -1;
    int rows = tn_db_run(job->s->db, err,
                         "UPDATE recipe SET status = 'building' WHERE id = ?"
                         " AND status = 'waiting'",
                         "t", job->b.id);
    if (rows == 0)
        tn_fail(err, TN_E_CONFLICT, "the build was started before");
    if (rows <= 0)
        return -1;
    if (check_files(job, err) == 0 &&
        builds_start(job->s->builds, job->b.id, job->b.tenant, run, job, err) == 0)
        return 0;
    tn_db_run(job->s->db, NULL, "UPDATE recipe SET status = 'waiting' WHERE id = ?", "t",
              job->b.id); /* it may be started later */
    return -1;
}

static void post_build(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autojson struct tn_json *body = NULL;
    autobuild struct build b = {0};
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, E2B_BODY_MAX, &body) || find(x, s, &b))
        return;
    struct job *job = tn_calloc(1, sizeof *job);
    *job = (struct job){.s = s, .b = b, .body = body ? tn_json_copy(body) : NULL};
    b = (struct build){0};
    int failed = start(x, job, &err);
    if (failed)
        job_free(job);
    if (native_audit(x, s, "template.build", NULL, failed ? &err : NULL))
        return;
    if (failed)
        refuse(x, &err);
    else
        tn_http_reply(x, 202, NULL, NULL, 0);
}

/* --- looking --------------------------------------------------------------------------------- */

/* Lines of the log from that one on; each is an entry. */
static void put_log(struct tn_jw *w, const char *log, int64_t skip)
{
    tn_jw_array(w);
    for (; *log; log += strcspn(log, "\n") + 1)
        if (skip-- <= 0)
            tn_jw_raw(w, log, strcspn(log, "\n"));
    tn_jw_array_end(w);
}

static void get_status(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    autobuild struct build b = {0};
    int64_t offset = 0;

    if (!caller_may(x, SCOPE_READ) || native_query_int(x, "logsOffset", 0, INT32_MAX, &offset) ||
        find(x, s, &b))
        return;
    tn_jw_object(&w);
    tn_jw_kstr(&w, "templateID", b.template);
    tn_jw_kstr(&w, "buildID", b.id);
    tn_jw_kstr(&w, "status", b.status);
    tn_jw_key(&w, "logs");
    tn_jw_raw(&w, "[]", 2);
    tn_jw_key(&w, "logEntries");
    put_log(&w, b.log, offset);
    if (b.reason) {
        tn_jw_key(&w, "reason");
        tn_jw_object(&w);
        tn_jw_kstr(&w, "message", b.reason);
        if (b.step)
            tn_jw_kstr(&w, "step", b.step);
        tn_jw_object_end(&w);
    }
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- after a kill ---------------------------------------------------------------------------- */

static int add_box(const struct tn_db_row *row, void *ctx)
{
    surface_add_arg(ctx, tn_db_text(row, 0));
    return 0;
}

int e2b_builds_begin(struct tn_service *s, struct tn_error *err)
{
    struct tn_str_list boxes = {0};

    if (tn_db_each(s->db, add_box, &boxes, err,
                   "SELECT box FROM recipe WHERE box IS NOT NULL AND (status <> 'ready' OR"
                   " NOT EXISTS (SELECT 1 FROM recipe_tag t WHERE t.recipe = recipe.id))",
                   "") < 0)
        return -1;
    for (size_t i = 0; i < boxes.count; i++) {
        autobox struct box *b = box_find(s, NULL, boxes.items[i], NULL);
        if (b)
            box_order(b, NULL, ORDER_DELETE, tn_now(), NULL);
        free(boxes.items[i]);
    }
    free(boxes.items);
    return tn_db_run(s->db, err,
                     "UPDATE recipe SET status = 'error', reason = 'the service was stopped while"
                     " it was built' WHERE status IN ('waiting', 'building')",
                     "") < 0
               ? -1
               : 0;
}

const struct tn_route routes_e2b_build[] = {
    {"POST", "/v3/templates", post_template, "E2B: declares a build of a template", 0},
    {"POST", "/v2/templates", post_template, "E2B: declares a build of a template", 0},
    {"GET", "/templates/{template}/files/{hash}", get_file, "E2B: where files are uploaded", 0},
    {"PUT", "/templates/{template}/files/{hash}", put_file, "E2B: files of a step", TN_ROUTE_OPEN},
    {"POST", "/v2/templates/{template}/builds/{build}", post_build, "E2B: starts a build", 0},
    {"GET", "/templates/{template}/builds/{build}/status", get_status, "E2B: how it is", 0},
    {0},
};
