/* Lists and watches of a collection.
 *
 * The feed knows what was told: a list that comes later is compared with it, so that whoever is
 * told misses nothing that happened while nobody watched.  An object is known by its namespace and
 * name; one of the same name with another uid is another one. */
#include <search.h>

#include "base/lines.h"
#include "kube/kube-impl.h"
#include "net/url.h"

enum {
    OBJECT_MAX = 8 << 20, /* a server stores 1.5 MB at most */
    PAGE = 100,           /* of Secrets of 1.4 MB each: less than an answer may be */
    VERSION_MAX = 64,
    FAULTS_MAX = 64 << 10,
    WATCH_SECONDS = 300, /* then the server ends it, and it goes on from the last version */
};
#define QUIET_SECONDS 90.0 /* bookmarks come every minute */

/* --- the feed --------------------------------------------------------------------------------- */

struct known {
    struct tn_json *object; /* its metadata's name, namespace and uid */
    unsigned generation;
};

struct kube_feed {
    kube_change_fn fn;
    void *ctx;
    struct tn_lines lines;
    void *known; /* a tree (tsearch) of struct known */
    unsigned generation;
    char version[VERSION_MAX];
    bool moved; /* something was told since the stream began */
};

static const char *meta(const struct tn_json *object, const char *member)
{
    return tn_json_get_str(tn_json_get(object, "metadata"), member, "");
}

static int by_name(const void *a, const void *b)
{
    const struct tn_json *x = ((const struct known *)a)->object;
    const struct tn_json *y = ((const struct known *)b)->object;
    int order = strcmp(meta(x, "name"), meta(y, "name"));

    return order ? order : strcmp(meta(x, "namespace"), meta(y, "namespace"));
}

static void known_free(void *k)
{
    tn_json_free(((struct known *)k)->object);
    free(k);
}

struct kube_feed *kube_feed_new(kube_change_fn fn, void *ctx)
{
    struct kube_feed *f = tn_calloc(1, sizeof *f);

    f->fn = fn;
    f->ctx = ctx;
    tn_lines_init(&f->lines, OBJECT_MAX);
    return f;
}

void kube_feed_free(struct kube_feed *f)
{
    if (!f)
        return;
    tdestroy(f->known, known_free);
    tn_lines_done(&f->lines);
    free(f);
}

static void guard_feed(struct kube_feed **f)
{
    kube_feed_free(*f);
}

const char *kube_feed_version(const struct kube_feed *f)
{
    return f->version;
}

/* What goes into a query as it is. */
static void take_version(struct kube_feed *f, const struct tn_json *object)
{
    const char *version = meta(object, "resourceVersion");
    size_t n = strlen(version);

    if (n > 0 && n < sizeof f->version && strspn(version, "0123456789") == n)
        memcpy(f->version, version, n + 1);
}

static struct known *find(const struct kube_feed *f, const struct tn_json *object)
{
    const struct known wanted = {.object = (struct tn_json *)object};
    void *at = tfind(&wanted, &f->known, by_name);

    return at ? *(struct known **)at : NULL;
}

static void forget(struct kube_feed *f, struct known *k)
{
    tdelete(k, &f->known, by_name);
    known_free(k);
}

static void remember(struct kube_feed *f, const struct tn_json *object)
{
    static const char *const members[] = {"name", "namespace", "uid"};
    struct known *k = tn_calloc(1, sizeof *k);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(OBJECT_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_jw_key(&w, "metadata");
    tn_jw_object(&w);
    for (size_t i = 0; i < TN_COUNT(members); i++)
        tn_jw_kstr(&w, members[i], meta(object, members[i]));
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    tn_json_parse(tn_buf_str(&text), text.len, &k->object, NULL);
    k->generation = f->generation;
    tn_check_memory(tsearch(k, &f->known, by_name));
}

/* Tells that it is gone, of which only this is known. */
static int tell_missing(struct kube_feed *f, struct known *k)
{
    tn_autojson struct tn_json *object = tn_json_ref(k->object);

    forget(f, k);
    return f->fn(KUBE_DELETED, object, f->ctx);
}

static int tell_present(struct kube_feed *f, const struct tn_json *object)
{
    struct known *k = find(f, object);

    if (k && strcmp(meta(k->object, "uid"), meta(object, "uid")) != 0) {
        if (tell_missing(f, k))
            return 1;
        k = NULL;
    }
    if (k) {
        k->generation = f->generation;
        return f->fn(KUBE_MODIFIED, object, f->ctx);
    }
    remember(f, object);
    return f->fn(KUBE_ADDED, object, f->ctx);
}

static int tell_deleted(struct kube_feed *f, const struct tn_json *object)
{
    struct known *k = find(f, object);

    if (k)
        forget(f, k);
    return f->fn(KUBE_DELETED, object, f->ctx);
}

static enum kube_fed take_line(struct kube_feed *f, const char *line, size_t n)
{
    tn_autojson struct tn_json *event = NULL;

    if (n == 0)
        return KUBE_FED;
    if (tn_json_parse(line, n, &event, NULL) < 0)
        return KUBE_STALE; /* nobody knows what it was */
    const char *type = tn_json_get_str(event, "type", "");
    const struct tn_json *object = tn_json_get(event, "object");
    if (tn_json_type(object) != TN_JSON_OBJECT || strcmp(type, "ERROR") == 0)
        return KUBE_STALE;
    take_version(f, object);
    int enough = 0;
    if (strcmp(type, "DELETED") == 0)
        enough = tell_deleted(f, object);
    else if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0)
        enough = tell_present(f, object);
    else if (strcmp(type, "BOOKMARK") == 0)
        enough = f->fn(KUBE_SYNCED, NULL, f->ctx);
    f->moved = true;
    return enough ? KUBE_ENOUGH : KUBE_FED;
}

void kube_feed_begin(struct kube_feed *f)
{
    tn_lines_done(&f->lines);
    tn_lines_init(&f->lines, OBJECT_MAX);
    f->moved = false;
}

enum kube_fed kube_feed_bytes(struct kube_feed *f, const void *bytes, size_t n)
{
    enum kube_fed fed = KUBE_FED;

    for (const char *at = bytes; n > 0 && fed == KUBE_FED;) {
        size_t piece = n < TN_LINES_PIECE ? n : TN_LINES_PIECE;
        const char *line;
        ssize_t length;
        tn_lines_add(&f->lines, at, piece);
        while (fed == KUBE_FED && (length = tn_lines_next(&f->lines, &line)) != TN_LINES_NONE)
            fed = length < 0 ? KUBE_STALE : take_line(f, line, (size_t)length);
        at += piece;
        n -= piece;
    }
    return fed;
}

/* --- lists ------------------------------------------------------------------------------------ */

struct missing {
    const struct kube_feed *feed;
    struct known **items;
    size_t count;
};

static void note_missing(const void *node, VISIT visit, void *ctx)
{
    struct missing *m = ctx;
    struct known *k = *(struct known *const *)node;

    if ((visit != postorder && visit != leaf) || k->generation == m->feed->generation)
        return;
    m->items = tn_realloc(m->items, (m->count + 1) * sizeof(struct known *));
    m->items[m->count++] = k;
}

static enum kube_fed end_list(struct kube_feed *f)
{
    struct missing m = {.feed = f};
    int enough = 0;

    twalk_r(f->known, note_missing, &m);
    for (size_t i = 0; i < m.count && !enough; i++)
        enough = tell_missing(f, m.items[i]);
    free(m.items);
    return enough || f->fn(KUBE_SYNCED, NULL, f->ctx) ? KUBE_ENOUGH : KUBE_FED;
}

enum kube_fed kube_feed_page(struct kube_feed *f, const struct tn_json *page, bool first)
{
    const struct tn_json *items = tn_json_get(page, "items");

    f->generation += first;
    for (size_t i = 0; i < tn_json_count(items); i++)
        if (tell_present(f, tn_json_at(items, i)))
            return KUBE_ENOUGH;
    take_version(f, page);
    return *meta(page, "continue") ? KUBE_FED : end_list(f);
}

/* --- over the network ------------------------------------------------------------------------- */

struct watch {
    struct kube *kube;
    const char *target;
    struct kube_feed *feed;
    enum kube_fed fed;
    int cancel;
    int64_t deadline;
};

/* The target with more in its query, on the heap. */
static char *with_query(const char *target, const char *more)
{
    return tn_asprintf("%s%c%s", target, strchr(target, '?') ? '&' : '?', more);
}

/* 0 with w->fed, or -1; TN_E_GONE is a list that took too long for its version. */
static int list(struct watch *w, struct tn_error *err)
{
    tn_autofree char *next = tn_strdup("");

    for (bool first = true;; first = false) {
        tn_autofree char *more = tn_asprintf("limit=%d%s%s", PAGE, *next ? "&continue=" : "", next);
        tn_autofree char *target = with_query(w->target, more);
        const struct kube_call call = {.target = target, .cancel = w->cancel};
        tn_autojson struct tn_json *page = NULL;
        if (kube_call(w->kube, &call, &page, w->deadline, err) < 0)
            return -1;
        w->fed = kube_feed_page(w->feed, page, first);
        const char *token = meta(page, "continue");
        if (w->fed != KUBE_FED || !*token)
            return 0;
        tn_autobuf struct tn_buf encoded = TN_BUF_INIT(64 << 10);
        tn_url_encode(&encoded, token, "");
        free(next);
        next = tn_buf_take(&encoded);
    }
}

static int on_bytes(const void *bytes, size_t n, void *ctx)
{
    struct watch *w = ctx;

    w->fed = kube_feed_bytes(w->feed, bytes, n);
    return w->fed != KUBE_FED;
}

/* Until the stream ends, however: 0 with w->fed, or -1. */
static int follow(struct watch *w, double *after, struct tn_error *err)
{
    tn_autofree char *more =
        tn_asprintf("watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
                    WATCH_SECONDS, kube_feed_version(w->feed));
    tn_autofree char *target = with_query(w->target, more);
    struct tn_web_call web = {.target = target,
                              .sink = on_bytes,
                              .sink_ctx = w,
                              .idle = QUIET_SECONDS,
                              .cancel = w->cancel};
    tn_autoanswer struct tn_web_answer got = TN_WEB_ANSWER_INIT(FAULTS_MAX);

    w->fed = KUBE_FED;
    kube_feed_begin(w->feed);
    if (kube_send(w->kube, &web, &got, w->deadline, err) < 0)
        return -1;
    return got.status >= 200 && got.status < 300 ? 0 : kube_answer_refused(&got, after, err);
}

/* Whether to go on after an error, and how. */
static bool passes(struct watch *w, const struct tn_error *why)
{
    if (tn_now() >= w->deadline || why->sys == ECANCELED)
        return false;
    if (why->code == TN_E_GONE)
        w->fed = KUBE_STALE;
    return why->code == TN_E_GONE || why->code == TN_E_PEER || why->code == TN_E_BUSY ||
           why->code == TN_E_TIMEOUT;
}

static int watch(struct kube *k, const char *target, bool cuts, kube_change_fn fn, void *ctx,
                 int cancel, int64_t deadline, struct tn_error *err)
{
    TN_CLEANUP(guard_feed) struct kube_feed *feed = kube_feed_new(fn, ctx);
    struct watch w = {.kube = k,
                      .target = target,
                      .feed = feed,
                      .fed = KUBE_STALE,
                      .cancel = cancel,
                      .deadline = deadline};
    int ms = 0;

    for (;;) {
        struct tn_error why = {0};
        double after = 0;
        bool listing = w.fed == KUBE_STALE;
        int64_t began = tn_now();
        int r = listing ? list(&w, &why) : follow(&w, &after, &why);
        if (r == 0 && w.fed == KUBE_ENOUGH)
            return 0;
        if (r < 0 && !passes(&w, &why)) {
            if (err)
                *err = why;
            return -1;
        }
        if (cuts && (r < 0 || w.fed == KUBE_STALE) && fn(KUBE_CUT, NULL, ctx))
            return 0;
        if (r < 0 && listing)
            w.fed = KUBE_STALE;
        /* A server that ends every stream at once is asked less and less often. */
        if (!listing && (feed->moved || tn_now() - began > TN_SECOND / 2))
            ms = 0;
        if ((r < 0 || !listing) && kube_pause(&ms, after, cancel, deadline, err) < 0)
            return -1;
    }
}

int kube_watch(struct kube *k, const char *target, kube_change_fn fn, void *ctx, int cancel,
               int64_t deadline, struct tn_error *err)
{
    return watch(k, target, false, fn, ctx, cancel, deadline, err);
}

int kube_watch_cuts(struct kube *k, const char *target, kube_change_fn fn, void *ctx, int cancel,
                    int64_t deadline, struct tn_error *err)
{
    return watch(k, target, true, fn, ctx, cancel, deadline, err);
}
