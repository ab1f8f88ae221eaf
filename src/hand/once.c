#include "hand/once.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"

#define KEEP_NS (INT64_C(86400) * TN_SECOND)
enum { KEY_MAX = 256, BUCKETS = 1024 };

struct entry {
    struct entry *next; /* in order of arrival */
    struct entry *same; /* in its bucket */
    char *key;
    uint64_t digest;
    int64_t arrived;
    bool finished;
    int status;
    char *answer; /* NULL: not there yet, or dropped */
    size_t len;
    struct entry *newer; /* whose answer came next */
};

struct tn_once {
    pthread_mutex_t lock;
    pthread_cond_t finished;
    struct entry *first, **end;
    struct entry *buckets[BUCKETS];   /* by key */
    struct entry *answered, **newest; /* those with answers, in order of these */
    size_t count, bytes;
    size_t max_count, max_bytes;
};

uint64_t tn_once_digest(const void *bytes, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a: tells apart, does not protect */
    for (const unsigned char *p = bytes; n > 0; n--)
        h = (h ^ *p++) * UINT64_C(1099511628211);
    return h;
}

struct tn_once *tn_once_new(size_t max_answers, size_t max_bytes)
{
    struct tn_once *o = tn_calloc(1, sizeof *o);

    pthread_mutex_init(&o->lock, NULL);
    tn_cond_init(&o->finished);
    o->end = &o->first;
    o->newest = &o->answered;
    o->max_count = max_answers;
    o->max_bytes = max_bytes;
    return o;
}

static struct entry **bucket(struct tn_once *o, const char *key)
{
    return &o->buckets[tn_once_digest(key, strlen(key)) % BUCKETS];
}

/* What it takes besides its answer. */
static size_t key_cost(const struct entry *e)
{
    return sizeof *e + strlen(e->key) + 1;
}

static void drop_answer(struct tn_once *o, struct entry **at)
{
    struct entry *e = *at;
    *at = e->newer;
    if (o->newest == &e->newer)
        o->newest = at;
    o->bytes -= e->len;
    free(TN_TAKE_PTR(e->answer));
}

static void remove_entry(struct tn_once *o, struct entry **at)
{
    struct entry *e = *at, **same = bucket(o, e->key), **answered = &o->answered;
    while (*same != e)
        same = &(*same)->same;
    *same = e->same;
    while (e->answer && *answered != e)
        answered = &(*answered)->newer;
    if (e->answer)
        drop_answer(o, answered);
    *at = e->next;
    if (o->end == &e->next)
        o->end = at;
    o->count--;
    o->bytes -= key_cost(e);
    free(e->key);
    free(e);
}

void tn_once_free(struct tn_once *o)
{
    if (!o)
        return;
    while (o->first)
        remove_entry(o, &o->first);
    pthread_cond_destroy(&o->finished);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* Drops what is too old, and the oldest while there is too much: answers first, keys then. */
static void make_room(struct tn_once *o, size_t more)
{
    int64_t now = tn_now();
    /* The newest stays whatever its size: its repeat may be on the way. */
    while (o->bytes > o->max_bytes && o->answered && o->answered->newer)
        drop_answer(o, &o->answered);
    for (struct entry **at = &o->first; *at;) {
        struct entry *e = *at;
        size_t kept = o->answered ? o->answered->len : 0; /* the newest one, if over */
        bool over = o->count + more > o->max_count || o->bytes - kept > o->max_bytes;
        bool old = now - e->arrived > KEEP_NS;
        if (!over && !old)
            break; /* nor are those that came later */
        if (e->finished && ((over && e->next) || old))
            remove_entry(o, at);
        else
            at = &e->next;
    }
}

static struct entry *find(struct tn_once *o, const char *key)
{
    struct entry *e = *bucket(o, key);
    while (e && strcmp(e->key, key) != 0)
        e = e->same;
    return e;
}

static int check_key(const char *key, struct tn_error *err)
{
    if (!*key || strlen(key) > KEY_MAX)
        return tn_fail(err, TN_E_INVALID, "Idempotency-Key must have 1 to %d characters", KEY_MAX);
    return 0;
}

int tn_once_begin(struct tn_once *o, const char *key, uint64_t digest, bool replay,
                  int64_t deadline, int *status, struct tn_buf *answer, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    struct entry *e;
    int r = 1;

    if (check_key(key, err) < 0)
        return -1;
    pthread_mutex_lock(&o->lock);
    while ((e = find(o, key)) && e->digest == digest && !e->finished) {
        if (pthread_cond_timedwait(&o->finished, &o->lock, &until) == ETIMEDOUT) {
            r = tn_fail(err, TN_E_TIMEOUT, "the action with this Idempotency-Key is still running");
            goto out;
        }
    }
    if (e && e->digest != digest) {
        r = tn_fail(err, TN_E_UNPROCESSABLE, "this Idempotency-Key was used for another request");
    } else if (e && !e->answer) {
        r = tn_fail(err, TN_E_GONE,
                    "the action with this Idempotency-Key was carried out; its answer is not kept "
                    "any more");
    } else if (e) {
        *status = e->status;
        r = tn_buf_add(answer, e->answer, e->len) < 0
                ? tn_fail(err, TN_E_TOO_LARGE, "the stored answer is too large")
                : 0;
    } else if (replay) {
        r = tn_fail(err, TN_E_NOT_FOUND, "no action with this Idempotency-Key is known here");
    } else {
        make_room(o, 1);
        if (o->count >= o->max_count) {
            r = tn_fail(err, TN_E_BUSY, "too many actions in progress");
        } else {
            e = tn_calloc(1, sizeof *e);
            e->key = tn_strdup(key);
            e->digest = digest;
            e->arrived = tn_now();
            e->same = *bucket(o, key);
            *bucket(o, key) = e;
            *o->end = e;
            o->end = &e->next;
            o->count++;
            o->bytes += key_cost(e);
        }
    }
out:
    pthread_mutex_unlock(&o->lock);
    return r;
}

void tn_once_finish(struct tn_once *o, const char *key, int status, const char *answer, size_t n)
{
    pthread_mutex_lock(&o->lock);
    struct entry *e = find(o, key);
    if (e && !e->finished) {
        e->finished = true;
        e->status = status;
        e->answer = tn_malloc(n + 1);
        memcpy(e->answer, answer, n);
        e->len = n;
        o->bytes += n;
        *o->newest = e;
        o->newest = &e->newer;
        make_room(o, 0);
        pthread_cond_broadcast(&o->finished);
    }
    pthread_mutex_unlock(&o->lock);
}

void tn_once_forget(struct tn_once *o, const char *key)
{
    struct entry **at = &o->first;

    pthread_mutex_lock(&o->lock);
    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    if (*at && !(*at)->finished) {
        remove_entry(o, at);
        pthread_cond_broadcast(&o->finished);
    }
    pthread_mutex_unlock(&o->lock);
}
