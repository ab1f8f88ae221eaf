/* One cluster: who we are there now, and the connections that were made by it. */
#include "kube/kube-impl.h"

#include "base/error-hide.h"
#include "base/thread.h"

/* However often a server refuses us, credentials are renewed no more often than this. */
#define RENEW_SECONDS 5.0
/* A plugin that fails is left alone for 1, 2, 4 ... seconds, at most for 2 to the power of this. */
enum { FAILURES_MAX = 5 };

static void seat_free(struct kube_seat *s)
{
    if (!s)
        return;
    tn_web_free(s->web);
    kube_access_free(s->access);
    kube_forget(s->headers);
    free(s);
}

/* Takes the access, also when it fails. */
static struct kube_seat *seat_new(struct kube_access *a, struct tn_error *err)
{
    const struct tn_web_options o = {
        .base = a->server,
        .proxy = a->proxy,
        .tls = {.ca = a->ca,
                .cert = a->cert,
                .key = a->key,
                .server_name = a->server_name,
                .insecure = a->insecure},
    };
    struct kube_seat *s = tn_calloc(1, sizeof *s);

    s->access = a;
    s->users = 1;
    s->headers = a->token ? tn_asprintf("Authorization: Bearer %s\r\n", a->token) : tn_strdup("");
    s->web = tn_web_new(&o, err);
    char *bearer = a->token ? tn_asprintf("Bearer %s", a->token) : NULL;
    bool good = s->web && tn_web_header(s->web, "Accept", "application/json, */*", err) == 0 &&
                (!bearer || tn_web_header(s->web, "Authorization", bearer, err) == 0);
    kube_forget(bearer);
    if (good)
        return s;
    seat_free(s);
    return NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_access(const struct kube_access *a, const struct kube_access *b)
{
    return same_text(a->token, b->token) && same_text(a->cert, b->cert) &&
           same_text(a->key, b->key) && same_text(a->ca, b->ca) &&
           same_text(a->server, b->server) && same_text(a->server_name, b->server_name) &&
           same_text(a->proxy, b->proxy) && a->insecure == b->insecure;
}

/* The reason is a matter of whoever runs this: files and programs of his. */
static struct kube_access *no_access(struct tn_error *err)
{
    tn_error_hide(err, "the login to the cluster does not work");
    return NULL;
}

/* --- renewal ---------------------------------------------------------------------------------- */

/* Reads and asks everything again.  The cluster must be the one that it was. */
static struct kube_access *read_again(const struct kube *k, int64_t deadline, struct tn_error *err)
{
    const struct kube_options o = {
        .config = k->first->config, .context = k->first->context, .namespace = k->first->namespace};
    struct kube_access *a = kube_access_read(&o, err);

    if (a && strcmp(a->server, k->first->server) != 0)
        tn_fail(err, TN_E_GONE, "%s is another cluster now", a->source);
    else if (a && (!a->plugin || kube_plugin(a, deadline, err) == 0))
        return a;
    kube_access_free(a);
    return no_access(err);
}

static void drop(struct kube_seat *s)
{
    if (s && --s->users == 0)
        seat_free(s);
}

/* Under the lock, which is open meanwhile: a plugin takes its time. */
static int renew(struct kube *k, int64_t deadline, struct tn_error *err)
{
    struct kube_seat *fresh = NULL;
    struct tn_error why = {0};

    if (tn_now() < k->again)
        return tn_fail(err, k->why.code, "%s", k->why.text);
    k->renewing = true;
    pthread_mutex_unlock(&k->lock);
    struct kube_access *a = read_again(k, deadline, &why);
    pthread_mutex_lock(&k->lock);
    bool same = a && k->seat && same_access(a, k->seat->access);
    if (same) {
        k->seat->access->until = a->until;
        kube_access_free(a);
    } else if (a) {
        fresh = seat_new(a, &why);
    }
    k->renewing = false;
    pthread_cond_broadcast(&k->changed);
    if (fresh) {
        drop(k->seat);
        k->seat = fresh;
    }
    if (same || fresh) {
        k->failures = 0;
        return 0;
    }
    if (k->first->plugin && why.code != TN_E_TIMEOUT) { /* that is the caller's deadline */
        k->again = tn_now() + (TN_SECOND << k->failures);
        k->failures += k->failures < FAILURES_MAX;
        k->why = why;
    }
    if (err)
        *err = why;
    return -1;
}

/* Has not ended, and is not what was refused. */
static bool is_usable(const struct kube *k, const struct kube_seat *refused)
{
    return k->seat && k->seat != refused && tn_now() < k->seat->access->until;
}

static bool is_due(struct kube *k, const struct kube_seat *refused)
{
    if (!k->seat || tn_now() >= k->seat->access->until)
        return true;
    if (refused != k->seat || tn_now() < k->renewed + (int64_t)(RENEW_SECONDS * 1e9))
        return false;
    k->renewed = tn_now();
    return true;
}

struct kube_seat *kube_seat(struct kube *k, const struct kube_seat *refused, int64_t deadline,
                            struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    struct kube_seat *s = NULL;
    bool usable;
    int r = 0;

    pthread_mutex_lock(&k->lock);
    while (!(usable = is_usable(k, refused)) && k->renewing && r == 0)
        r = deadline == TN_NEVER ? pthread_cond_wait(&k->changed, &k->lock)
                                 : pthread_cond_timedwait(&k->changed, &k->lock, &until);
    if (r != 0)
        tn_fail(err, TN_E_TIMEOUT, "another thread still waits for credentials of %s",
                k->first->user);
    else if (usable || !is_due(k, refused) || renew(k, deadline, err) == 0 ||
             (k->seat && k->seat->access->rotates && !refused)) /* a file that is just replaced */
        s = k->seat;
    if (s)
        s->users++;
    pthread_mutex_unlock(&k->lock);
    return s;
}

void kube_seat_give(struct kube *k, struct kube_seat *seat)
{
    pthread_mutex_lock(&k->lock);
    drop(seat);
    pthread_mutex_unlock(&k->lock);
}

/* --- the cluster ------------------------------------------------------------------------------ */

struct kube *kube_open(const struct kube_options *options, struct tn_error *err)
{
    struct kube_access *a = kube_access_read(options, err);

    if (!a) {
        no_access(err);
        return NULL;
    }
    struct kube *k = tn_calloc(1, sizeof *k);
    k->first = a;
    k->renewed = -TN_SECOND * 3600;
    pthread_mutex_init(&k->lock, NULL);
    tn_cond_init(&k->changed);
    return k;
}

void kube_close(struct kube *k)
{
    if (!k)
        return;
    drop(k->seat);
    kube_access_free(k->first);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    free(k);
}

const char *kube_server(const struct kube *k)
{
    return k->first->server;
}

const char *kube_namespace(const struct kube *k)
{
    return k->first->namespace;
}

const char *kube_source(const struct kube *k)
{
    return k->first->source;
}

bool kube_is_insecure(const struct kube *k)
{
    return k->first->insecure;
}
