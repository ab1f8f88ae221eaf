/* Objects: files that clients keep for devboxes and builds.  Each is a blob (blobs.h); bytes come
 * and go by links that are signed and stand for the key that asked for them. */
#include "service/blobs.h"
#include "service/clock.h"
#include "service/runloop/runloop.h"

#define OWNER "runloop"
#define LINK_SECONDS 3600
enum { USUAL_PAGE = 20, LARGEST_PAGE = 5000, LINK_MOST = 86400, WORDS_MAX = 4 << 10 };

static const char *const types[] = {"unspecified", "text", "binary", "gzip", "tar", "tgz"};
static const char *const states[] = {[BLOB_OPEN] = "UPLOADING",
                                     [BLOB_STORING] = "UPLOADING",
                                     [BLOB_STORED] = "UPLOADING",
                                     [BLOB_WHOLE] = "READ_ONLY"};

static struct tn_json *words_of(const struct blob *b)
{
    struct tn_json *words = NULL;

    tn_json_parse(b->words, strlen(b->words), &words, NULL);
    return words;
}

static void put_object(struct tn_jw *w, const struct blob *b, const char *state, const char *url)
{
    tn_autojson struct tn_json *words = words_of(b);

    tn_jw_object(w);
    tn_jw_kstr(w, "id", b->id);
    tn_jw_kstr(w, "name", b->name);
    tn_jw_kstr(w, "content_type", tn_json_get_str(words, "content_type", types[0]));
    tn_jw_kstr(w, "state", state ? state : states[b->state]);
    runloop_put_ms(w, "create_time_ms", b->created);
    if (b->expires > 0)
        runloop_put_ms(w, "delete_after_time_ms", b->expires);
    if (b->state >= BLOB_STORED)
        tn_jw_kint(w, "size_bytes", b->size);
    tn_jw_key(w, "metadata");
    tn_jw_tree(w, tn_json_get(words, "metadata"));
    if (url)
        tn_jw_kstr(w, "upload_url", url);
    tn_jw_object_end(w);
}

static void reply_object(struct tn_http_exchange *x, const struct blob *b, const char *state,
                         const char *url)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    put_object(&w, b, state, url);
    tn_http_reply_json(x, 200, &json);
}

int runloop_object(struct tn_service *s, const struct caller *who, const char *id, struct blob *out,
                   bool *archive, struct tn_error *err)
{
    if (blob_find(s, who->tenant, OWNER, id, NULL, out, err))
        return tn_error_context(err, "object");
    tn_autojson struct tn_json *words = words_of(out);
    const char *type = tn_json_get_str(words, "content_type", "");
    *archive = strcmp(type, "tar") == 0 || strcmp(type, "tgz") == 0;
    return out->state == BLOB_WHOLE
               ? 0
               : tn_fail(err, TN_E_INVALID, "object %.60s is not complete", id);
}

/* Of the path, for a caller with that scope; -1: answered. */
static int find(struct tn_http_exchange *x, struct tn_service *s, unsigned scope, struct blob *out)
{
    struct tn_error err = {0};

    if (!caller_may(x, scope))
        return -1;
    if (!blob_find(s, caller_of(x)->tenant, OWNER, tn_http_param(x, "id"), NULL, out, &err))
        return 0;
    reply_error(x, &err);
    return -1;
}

/* --- links ----------------------------------------------------------------------------------- */

static char *make_link(struct tn_http_exchange *x, struct tn_service *s, const char *purpose,
                       const struct blob *b, int64_t seconds)
{
    tn_autofree char *path = tn_asprintf("/v1/objects/%s/content", b->id);

    return surface_link(x, s, purpose, path, seconds);
}

/* -1: answered. */
static int enter(struct tn_http_exchange *x, struct tn_service *s, const char *purpose,
                 struct blob *out)
{
    return surface_by_link(x, s, purpose) ? find(x, s, SCOPE_READ, out) : -1;
}

static void put_content(struct tn_http_exchange *x, void *ctx)
{
    autoblob struct blob b = {0};
    struct tn_error err = {0};

    if (enter(x, ctx, "object-put", &b))
        return;
    if (blob_store(ctx, caller_of(x), &b, surface_read_body, x, &err))
        reply_error(x, &err);
    else
        tn_http_reply(x, 200, NULL, NULL, 0);
}

static void get_content(struct tn_http_exchange *x, void *ctx)
{
    autoblob struct blob b = {0};
    struct tn_error err = {0};

    if (enter(x, ctx, "object-get", &b))
        return;
    tn_autofd int fd = blob_open(ctx, &b, &err);
    if (fd < 0) {
        reply_error(x, &err);
        return;
    }
    tn_http_set_header(x, "Content-Security-Policy", "sandbox");
    tn_http_set_header(x, "X-Content-Type-Options", "nosniff");
    if (tn_http_start(x, 200, "application/octet-stream", b.size) == 0 &&
        tn_http_write_file(x, fd, 0, b.size) == 0)
        tn_http_end(x);
}

/* --- routes ---------------------------------------------------------------------------------- */

static int read_object(const struct tn_json *body, struct blob *b, struct tn_error *err)
{
    const struct tn_json *metadata = tn_json_get(body, "metadata");
    const char *name = tn_json_get_str(body, "name", ""),
               *type = tn_json_get_str(body, "content_type", "");
    int64_t ms = tn_json_int(tn_json_get(body, "ttl_ms"), 0);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(WORDS_MAX);
    struct tn_jw w = tn_jw(&text);
    size_t i = 0;

    while (i < TN_COUNT(types) && strcmp(type, types[i]) != 0)
        i++;
    if (!*name || strlen(name) >= sizeof b->name)
        return tn_fail(err, TN_E_INVALID, "name: expected at most %zu bytes", sizeof b->name - 1);
    if (i == TN_COUNT(types))
        return tn_fail(err, TN_E_INVALID, "content_type: there is no '%.40s'", type);
    if (ms < 0 || ms > (int64_t)1e13)
        return tn_fail(err, TN_E_INVALID, "ttl_ms: expected milliseconds");
    if (runloop_check_words(metadata, err))
        return -1;
    snprintf(b->owner, sizeof b->owner, OWNER);
    snprintf(b->name, sizeof b->name, "%s", name);
    b->expires = ms ? service_time() + (double)ms / 1000 : 0;
    tn_jw_object(&w);
    tn_jw_kstr(&w, "content_type", type);
    tn_jw_key(&w, "metadata");
    tn_jw_tree(&w, metadata);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_INVALID, "metadata: more than %d KiB", WORDS_MAX >> 10);
    b->words = tn_buf_take(&text);
    return 0;
}

static void post_objects(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    autoblob struct blob b = {0};
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    if (read_object(body, &b, &err) || blob_new(ctx, caller_of(x), &b, &err)) {
        reply_error(x, &err);
        return;
    }
    tn_autofree char *url = make_link(x, ctx, "object-put", &b, LINK_SECONDS);
    reply_object(x, &b, NULL, url);
}

struct page {
    struct tn_jw w;
    const char *after, *name, *search, *state, *type;
    int64_t limit, count, total;
    bool more;
};

static bool is_wanted(const struct page *p, const struct blob *b)
{
    char type[12] = "";

    sscanf(b->words, "{\"content_type\":\"%11[a-z]\"", type); /* as read_object writes it */
    return (!p->name || strstr(b->name, p->name)) &&
           (!p->search || strstr(b->name, p->search) || strcmp(b->id, p->search) == 0) &&
           (!p->state || strcmp(p->state, states[b->state]) == 0) &&
           (!p->type || strcmp(p->type, type) == 0);
}

static int put_one(const struct blob *b, void *ctx)
{
    struct page *p = ctx;

    if (!is_wanted(p, b))
        return 0;
    p->total++;
    if (p->after) {
        if (strcmp(p->after, b->id) == 0)
            p->after = NULL;
    } else if (p->count == p->limit) {
        p->more = true;
    } else {
        put_object(&p->w, b, NULL, NULL);
        p->count++;
    }
    return 0;
}

static const char *wish(struct tn_http_exchange *x, const char *name)
{
    const char *text = tn_http_query(x, name);

    return text && *text ? text : NULL;
}

static void list(struct tn_http_exchange *x, struct tn_service *s, const char *owner)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, RUNLOOP_ANSWER_MAX);
    struct page p = {.w = tn_jw(&json),
                     .after = wish(x, "starting_after"),
                     .name = wish(x, "name"),
                     .search = wish(x, "search"),
                     .state = wish(x, "state"),
                     .type = wish(x, "content_type"),
                     .limit = USUAL_PAGE};
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_READ) || native_query_int(x, "limit", 1, LARGEST_PAGE, &p.limit))
        return;
    tn_jw_object(&p.w);
    tn_jw_key(&p.w, "objects");
    tn_jw_array(&p.w);
    if (blob_each(s, caller_of(x)->tenant, owner, put_one, &p, &err) < 0) {
        reply_error(x, &err);
        return;
    }
    tn_jw_array_end(&p.w);
    tn_jw_kbool(&p.w, "has_more", p.more);
    tn_jw_kint(&p.w, "total_count", p.total);
    tn_jw_object_end(&p.w);
    tn_http_reply_json(x, 200, &json);
}

static void get_objects(struct tn_http_exchange *x, void *ctx)
{
    list(x, ctx, OWNER);
}

/* There are none. */
static void get_public(struct tn_http_exchange *x, void *ctx)
{
    list(x, ctx, "");
}

static void get_object(struct tn_http_exchange *x, void *ctx)
{
    autoblob struct blob b = {0};

    if (find(x, ctx, SCOPE_READ, &b) == 0)
        reply_object(x, &b, NULL, NULL);
}

static void post_complete(struct tn_http_exchange *x, void *ctx)
{
    autoblob struct blob b = {0};
    struct tn_error err = {0};

    if (find(x, ctx, SCOPE_MANAGE, &b))
        return;
    b.state = BLOB_WHOLE;
    if (blob_seal(ctx, &b, &err))
        reply_error(x, &err);
    else
        reply_object(x, &b, NULL, NULL);
}

static void post_delete(struct tn_http_exchange *x, void *ctx)
{
    autoblob struct blob b = {0};
    struct tn_error err = {0};

    if (find(x, ctx, SCOPE_MANAGE, &b))
        return;
    if (blob_delete(ctx, &b, &err))
        reply_error(x, &err);
    else
        reply_object(x, &b, "DELETED", NULL);
}

static void get_download(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&json);
    autoblob struct blob b = {0};
    int64_t seconds = LINK_SECONDS;

    if (native_query_int(x, "duration_seconds", 1, LINK_MOST, &seconds) ||
        find(x, ctx, SCOPE_USE, &b))
        return;
    if (b.state != BLOB_WHOLE) {
        native_refuse(x, TN_E_INVALID, "object %s is not complete", b.id);
        return;
    }
    tn_autofree char *url = make_link(x, ctx, "object-get", &b, seconds);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "download_url", url);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

#define ONE "/v1/objects/{id}"
const struct tn_route routes_runloop_objects[] = {
    {"POST", "/v1/objects", post_objects, "Runloop: a new object", 0},
    {"GET", "/v1/objects", get_objects, "Runloop: objects, in pages", 0},
    {"GET", "/v1/objects/list_public", get_public, "Runloop: objects of everybody: none", 0},
    {"GET", ONE "", get_object, "Runloop: one object", 0},
    {"POST", ONE "/complete", post_complete, "Runloop: it is uploaded", 0},
    {"POST", ONE "/delete", post_delete, "Runloop: removes it", 0},
    {"GET", ONE "/download", get_download, "Runloop: a link to its bytes", 0},
    {"PUT", ONE "/content", put_content, "Runloop: its bytes, by a link", TN_ROUTE_OPEN},
    {"GET", ONE "/content", get_content, "Runloop: its bytes, by a link", TN_ROUTE_OPEN},
    {0},
};
