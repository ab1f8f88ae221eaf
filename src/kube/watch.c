/* Lists and watches of a collection.
 *
 * The feed knows what was told: a list that comes later is compared with it, so that whoever is
 * told misses nothing that happened while nobody watched.  An object is known by its namespace and
 * name; one of the same name with another uid is another one. */
#include <search.h>

#include "base/again.h"
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
    char *key; /* "NAMESPACE/NAME" */
    char *uid;
    char *text; /* the object, as JSON */
    unsigned generation;
};

struct kube_feed {
    kube_change_fn fn;
    void *ctx;
    struct tn_lines lines;
    pthread_mutex_t lock; /* of what follows, which one thread changes and others look at */
    void *known;          /* a tree (tsearch) of struct known */
    unsigned generation;
    char version[VERSION_MAX];
    bool moved; /* something was told since the stream began */
};

static const char *meta(const struct tn_json *object, const char *member)
{
    return tn_json_get_str(tn_json_get(object, "metadata"), member, "");
}

static char *key_of(const struct tn_json *object)
{
    return tn_asprintf("%s/%s", meta(object, "namespace"), meta(object, "name"));
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->key, ((const struct known *)b)->key);
}

static void known_free(void *of)
{
    struct known *k = of;

    free(k->key);
    free(k->uid);
    free(k->text);
    free(k);
}

struct kube_feed *kube_feed_new(kube_change_fn fn, void *ctx)
{
    struct kube_feed *f = tn_calloc(1, sizeof *f);

    f->fn = fn;
    f->ctx = ctx;
    pthread_mutex_init(&f->lock, NULL);
    tn_lines_init(&f->lines, OBJECT_MAX);
    return f;
}

void kube_feed_free(struct kube_feed *f)
{
    if (!f)
        return;
    tdestroy(f->known, known_free);
    pthread_mutex_destroy(&f->lock);
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

static struct known *find(const struct kube_feed *f, const char *key)
{
    void *at = tfind(&(struct known){.key = (char *)(uintptr_t)key}, &f->known, by_key);

    return at ? *(struct known **)at : NULL;
}

static int put_member(const char *key, struct tn_json *value, void *ctx)
{
    struct tn_jw *w = ctx;

    /* Most of an object, and of no use; what a Secret has is for its pod alone. */
    if (strcmp(key, "managedFields") == 0 || strcmp(key, "data") == 0)
        return 0;
    tn_jw_key(w, key);
    if (strcmp(key, "metadata") != 0) {
        tn_jw_tree(w, value);
        return 0;
    }
    tn_jw_object(w);
    tn_json_each(value, put_member, w);
    tn_jw_object_end(w);
    return 0;
}

static char *text_of(const struct tn_json *object)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(OBJECT_MAX);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_json_each(object, put_member, &w);
    tn_jw_object_end(&w);
    return tn_strdup(tn_buf_str(&out));
}

static struct tn_json *object_of(const char *text)
{
    struct tn_json *object = NULL;

    if (text)
        tn_json_parse(text, strlen(text), &object, NULL);
    return object;
}

static void forget(struct kube_feed *f, struct known *k)
{
    pthread_mutex_lock(&f->lock);
    tdelete(k, &f->known, by_key);
    pthread_mutex_unlock(&f->lock);
    known_free(k);
}

/* Under the lock. */
static struct known *remember(struct kube_feed *f, char *key, const struct tn_json *object)
{
    struct known *k = tn_calloc(1, sizeof *k);

    k->key = key;
    k->uid = tn_strdup(meta(object, "uid"));
    tn_check_memory(tsearch(k, &f->known, by_key));
    return k;
}

/* Tells that it is gone. */
static int tell_missing(struct kube_feed *f, struct known *k)
{
    tn_autojson struct tn_json *object = object_of(k->text);

    forget(f, k);
    return f->fn(KUBE_DELETED, object, f->ctx);
}

static int tell_present(struct kube_feed *f, const struct tn_json *object)
{
    tn_autofree char *key = key_of(object);
    struct known *k = find(f, key);

    if (k && strcmp(k->uid, meta(object, "uid")) != 0) {
        if (tell_missing(f, k))
            return 1;
        k = NULL;
    }
    enum kube_change change = k ? KUBE_MODIFIED : KUBE_ADDED;
    char *text = text_of(object);
    pthread_mutex_lock(&f->lock);
    if (!k)
        k = remember(f, TN_TAKE_PTR(key), object);
    free(k->text);
    k->text = text;
    k->generation = f->generation;
    pthread_mutex_unlock(&f->lock);
    return f->fn(change, object, f->ctx);
}

static int tell_deleted(struct kube_feed *f, const struct tn_json *object)
{
    tn_autofree char *key = key_of(object);
    struct known *k = find(f, key);

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

struct gathered {
    const struct kube_feed *missing; /* only what its last list had not */
    struct known **items;
    size_t count;
};

static void gather(const void *node, VISIT visit, void *ctx)
{
    struct gathered *g = ctx;
    struct known *k = *(struct known *const *)node;

    if ((visit != postorder && visit != leaf) ||
        (g->missing && k->generation == g->missing->generation))
        return;
    g->items = tn_realloc(g->items, (g->count + 1) * sizeof(struct known *));
    g->items[g->count++] = k;
}

static enum kube_fed end_list(struct kube_feed *f)
{
    struct gathered g = {.missing = f};
    int enough = 0;

    twalk_r(f->known, gather, &g);
    for (size_t i = 0; i < g.count && !enough; i++)
        enough = tell_missing(f, g.items[i]);
    free(g.items);
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

/* --- what is known ---------------------------------------------------------------------------- */

struct tn_json *kube_feed_get(struct kube_feed *f, const char *namespace, const char *name)
{
    tn_autofree char *key = tn_asprintf("%s/%s", namespace, name);

    pthread_mutex_lock(&f->lock);
    const struct known *k = find(f, key);
    tn_autofree char *text = k ? tn_strdup(k->text) : NULL;
    pthread_mutex_unlock(&f->lock);
    return object_of(text);
}

void kube_feed_each(struct kube_feed *f, kube_change_fn fn, void *ctx)
{
    struct gathered g = {0};

    pthread_mutex_lock(&f->lock);
    twalk_r(f->known, gather, &g);
    char **texts = tn_calloc(g.count + 1, sizeof *texts);
    for (size_t i = 0; i < g.count; i++)
        texts[i] = tn_strdup(g.items[i]->text);
    pthread_mutex_unlock(&f->lock);
    for (size_t i = 0; i < g.count; i++) {
        tn_autojson struct tn_json *object = object_of(texts[i]);
        if (object)
            fn(KUBE_ADDED, object, ctx);
        free(texts[i]);
    }
    free(texts);
    free(g.items);
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

static int watch(struct kube *k, const char *target, struct kube_feed *feed, bool cuts, int cancel,
                 int64_t deadline, struct tn_error *err)
{
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
        if (cuts && (r < 0 || w.fed == KUBE_STALE) && feed->fn(KUBE_CUT, NULL, feed->ctx))
            return 0;
        if (r < 0 && listing)
            w.fed = KUBE_STALE;
        /* A server that ends every stream at once is asked less and less often. */
        if (!listing && (feed->moved || tn_now() - began > TN_SECOND / 2))
            ms = 0;
        if ((r < 0 || !listing) && tn_back_off(&ms, after, cancel, deadline, err) < 0)
            return -1;
    }
}

int kube_watch(struct kube *k, const char *target, kube_change_fn fn, void *ctx, int cancel,
               int64_t deadline, struct tn_error *err)
{
    TN_CLEANUP(guard_feed) struct kube_feed *feed = kube_feed_new(fn, ctx);

    return watch(k, target, feed, false, cancel, deadline, err);
}

int kube_watch_feed(struct kube *k, const char *target, struct kube_feed *feed, int cancel,
                    int64_t deadline, struct tn_error *err)
{
    return watch(k, target, feed, true, cancel, deadline, err);
}
