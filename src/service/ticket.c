#include "service/ticket.h"

#include <pthread.h>
#include <sys/random.h>

#include "base/base64.h"
#include "base/hmac.h"
#include "service/bucket.h"
#include "service/clock.h"
#include "service/surface.h"

/* What is signed: the same secret may sign other things some day. */
#define CONTEXT "tendon ticket 1\n"
enum { BODY_MAX = 256, LINK_DIGITS = 32, ENDED_MAX = 256 /* of a box */ };

/* Those for one use are remembered until they are too old, so there cannot be any number of them:
 * a tenant may have so many after a rest, and then so many a second. */
#define ONCE_AT_ONCE 500.0
#define ONCE_PER_SECOND 10.0

static void sign(const char *secret, const char *body, size_t n, unsigned char mac[TN_SHA256_BYTES])
{
    char text[sizeof CONTEXT + BODY_MAX];
    size_t context = sizeof CONTEXT - 1;

    memcpy(text, CONTEXT, context);
    memcpy(text + context, body, n);
    tn_hmac_sha256(secret, strlen(secret), text, context + n, mac);
}

/* In the same time wherever they differ. */
static bool same_mac(const unsigned char *a, const unsigned char *b)
{
    unsigned char difference = 0;

    for (int i = 0; i < TN_SHA256_BYTES; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

/* --- sealing ------------------------------------------------------------------------------- */

static void swap(char *text, char from, char to)
{
    while ((text = strchr(text, from)))
        *text++ = to;
}

int ticket_seal(const char *secret, const struct ticket *t, char out[TICKET_MAX])
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TICKET_MAX - 1);
    unsigned char bytes[TN_SHA256_BYTES + BODY_MAX];
    char *body = (char *)bytes + TN_SHA256_BYTES;
    int n = snprintf(body, BODY_MAX, "%lld\n%s\n%s\n%s", (long long)t->expires, t->key_id, t->box,
                     t->purpose);

    if (n < 0 || n >= BODY_MAX || strchr(t->key_id, '\n') || strchr(t->box, '\n') ||
        strchr(t->purpose, '\n'))
        return -1;
    sign(secret, body, (size_t)n, bytes);
    if (tn_base64_encode_url(&text, bytes, TN_SHA256_BYTES + (size_t)n) < 0)
        return -1;
    snprintf(out, TICKET_MAX, "%s", tn_buf_str(&text));
    return 0;
}

/* --- opening ------------------------------------------------------------------------------- */

static int decode(const char *text, struct tn_buf *out)
{
    char plain[TICKET_MAX + 3];
    size_t n = strlen(text);

    if (n >= TICKET_MAX || strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                        "0123456789-_") != n)
        return -1;
    memcpy(plain, text, n + 1);
    swap(plain, '-', '+');
    swap(plain, '_', '/');
    while (n % 4)
        plain[n++] = '=';
    return tn_base64_decode(out, plain, n, NULL);
}

/* The next line of what we have signed ourselves. */
static bool take(const char **at, char *to, size_t size)
{
    size_t n = strcspn(*at, "\n");

    if (n >= size)
        return false;
    memcpy(to, *at, n);
    to[n] = '\0';
    *at += n + ((*at)[n] == '\n');
    return true;
}

bool ticket_unseal(const char *secret, const char *text, struct ticket *out)
{
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(TN_SHA256_BYTES + BODY_MAX);
    unsigned char mac[TN_SHA256_BYTES];
    char expires[24];

    if (decode(text, &bytes) < 0 || bytes.len < TN_SHA256_BYTES ||
        bytes.len >= TN_SHA256_BYTES + BODY_MAX)
        return false;
    const char *body = bytes.data + TN_SHA256_BYTES;
    sign(secret, body, bytes.len - TN_SHA256_BYTES, mac);
    if (!same_mac(mac, (const unsigned char *)bytes.data))
        return false;
    if (!take(&body, expires, sizeof expires) || !take(&body, out->key_id, sizeof out->key_id) ||
        !take(&body, out->box, sizeof out->box) || !take(&body, out->purpose, sizeof out->purpose))
        return false;
    out->expires = strtoll(expires, NULL, 10);
    return true;
}

/* --- for whom ------------------------------------------------------------------------------ */

int ticket_make(const struct tn_service *s, const struct caller *who, const char *purpose,
                const char *box, double seconds, char out[TICKET_MAX], struct tn_error *err)
{
    struct ticket t = {.expires = (int64_t)(service_time() + seconds)};

    if (strlen(box) >= sizeof t.box || strlen(purpose) >= sizeof t.purpose)
        return tn_fail(err, TN_E_INVALID, "a ticket cannot be for that");
    snprintf(t.key_id, sizeof t.key_id, "%s", who->key_id);
    snprintf(t.box, sizeof t.box, "%s", box);
    snprintf(t.purpose, sizeof t.purpose, "%s", purpose);
    return ticket_seal(s->secret, &t, out) < 0
               ? tn_fail(err, TN_E_INVALID, "a ticket cannot be for that")
               : 0;
}

int ticket_check(struct tn_service *s, const char *ticket, const char *purpose, const char *box,
                 struct caller *who, struct tn_error *err)
{
    struct ticket t;

    if (!ticket_unseal(s->secret, ticket, &t) || strcmp(t.purpose, purpose) != 0 ||
        strcmp(t.box, box) != 0 || (double)t.expires <= service_time() ||
        keyring_find(s->keys, t.key_id, who, NULL) < 0)
        return tn_fail(err, TN_E_DENIED, "This ticket is not, or no longer, good for that");
    return 0;
}

/* --- for one use --------------------------------------------------------------------------- */

/* What is remembered of one tenant; other tenants have no part in its limit. */
struct tenant_tickets {
    struct tenant_tickets *next;
    char tenant[65];
    struct bucket made;
    struct spent {
        char nonce[17];
        double until;
    } * spent; /* used, and not too old yet */
    size_t count, room;
};

/* The number of this process is in each ticket, so that one who does not remember accepts none. */
static struct {
    pthread_mutex_t lock;
    char epoch[9]; /* "": not chosen yet */
    struct tenant_tickets *tenants;
} once = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the lock. */
static struct tenant_tickets *tickets_of(const char *tenant)
{
    struct tenant_tickets *t = once.tenants;

    while (t && strcmp(t->tenant, tenant) != 0)
        t = t->next;
    if (t)
        return t;
    t = tn_calloc(1, sizeof *t);
    snprintf(t->tenant, sizeof t->tenant, "%s", tenant);
    t->next = once.tenants;
    once.tenants = t;
    return t;
}

static int random_digits(char *out, size_t digits, struct tn_error *err)
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return tn_fail_errno(err, errno, "no random bytes");
    for (size_t i = 0; i < digits; i += 2)
        snprintf(out + i, 3, "%02x", bytes[i / 2]);
    return 0;
}

static int know_epoch(char out[9], struct tn_error *err)
{
    pthread_mutex_lock(&once.lock);
    int result = *once.epoch ? 0 : random_digits(once.epoch, 8, err);
    memcpy(out, once.epoch, 9);
    pthread_mutex_unlock(&once.lock);
    return result;
}

/* "once:EPOCH:DIGEST:" of what it is for; the nonce follows. */
static int purpose_once(const char *what, char out[PURPOSE_MAX + 1], struct tn_error *err)
{
    char epoch[9], digest[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 h;

    if (know_epoch(epoch, err) < 0)
        return -1;
    tn_sha256_init(&h);
    tn_sha256_add(&h, what, strlen(what));
    tn_sha256_end_hex(&h, digest);
    snprintf(out, PURPOSE_MAX + 1, "once:%s:%.32s:", epoch, digest);
    return 0;
}

static int may_make(const char *tenant, struct tn_error *err)
{
    pthread_mutex_lock(&once.lock);
    double wait = bucket_take(&tickets_of(tenant)->made, ONCE_PER_SECOND, ONCE_AT_ONCE);
    pthread_mutex_unlock(&once.lock);
    return wait > 0 ? tn_fail(err, TN_E_QUOTA,
                              "a tenant may have %g tickets for one use at once and %g a second: "
                              "try again in a moment",
                              ONCE_AT_ONCE, ONCE_PER_SECOND)
                    : 0;
}

int ticket_make_once(struct tn_service *s, const struct caller *who, const char *box,
                     const char *what, double seconds, char out[TICKET_MAX], struct tn_error *err)
{
    char purpose[PURPOSE_MAX + 1], nonce[17];

    if (may_make(who->tenant, err) < 0 || purpose_once(what, purpose, err) < 0 ||
        random_digits(nonce, 16, err) < 0)
        return -1;
    size_t n = strlen(purpose);
    snprintf(purpose + n, sizeof purpose - n, "%s", nonce);
    return ticket_make(s, who, purpose, box, seconds, out, err);
}

/* --- sign-in links ------------------------------------------------------------------------- */

#define LINK_PURPOSE "login:"

int ticket_make_link(const char *secret, const char *key_id, double seconds, char out[TICKET_MAX],
                     struct tn_error *err)
{
    struct ticket t = {.expires = (int64_t)(service_time() + seconds), .purpose = LINK_PURPOSE};
    const size_t n = sizeof LINK_PURPOSE - 1;

    /* Two of the same moment are two. */
    if (random_digits(t.purpose + n, LINK_DIGITS, err) < 0)
        return -1;
    snprintf(t.key_id, sizeof t.key_id, "%s", key_id);
    return ticket_seal(secret, &t, out) < 0
               ? tn_fail(err, TN_E_INTERNAL, "the ticket cannot be written")
               : 0;
}

struct link_use {
    const struct ticket *ticket;
    int64_t first; /* 1: nobody had used it */
};

static int note_link(struct tn_db *db, void *ctx, struct tn_error *err)
{
    struct link_use *use = ctx;

    if (tn_db_run(db, err,
                  "DELETE FROM setting WHERE name GLOB '" LINK_PURPOSE "*'"
                  " AND CAST(value AS INTEGER) < ?",
                  "i", (int64_t)service_time()) < 0)
        return -1;
    use->first = tn_db_run(
        db, err, "INSERT OR IGNORE INTO setting (name, value) VALUES (?, CAST(? AS TEXT))", "ti",
        use->ticket->purpose, use->ticket->expires);
    return use->first < 0 ? -1 : 0;
}

int ticket_use_link(struct tn_service *s, const char *ticket, struct caller *who,
                    struct tn_error *err)
{
    struct ticket t;
    struct link_use use = {.ticket = &t};

    if (!ticket_unseal(s->secret, ticket, &t) ||
        strncmp(t.purpose, LINK_PURPOSE, sizeof LINK_PURPOSE - 1) != 0 ||
        ticket_check(s, ticket, t.purpose, "", who, NULL) < 0)
        return tn_fail(err, TN_E_DENIED, "This link is too old, or was not made by this service");
    if (tn_db_atomically(s->db, note_link, &use, err))
        return -1;
    return use.first == 1 ? 0
                          : tn_fail(err, TN_E_DENIED, "This link was used already: make another");
}

/* --- tickets that were ended before their time ------------------------------------------------ */

static void name_ended(const struct tn_service *s, const char *ticket, const struct ticket *t,
                       char out[PURPOSE_MAX + 1])
{
    char token[SURFACE_TOKEN];

    surface_token(s, "ticket-ended", ticket, token);
    snprintf(out, PURPOSE_MAX + 1, LINK_PURPOSE "%s:%s", t->box, token);
}

static int take_count(const struct tn_db_row *row, void *ctx)
{
    *(int64_t *)ctx = tn_db_int(row, 0);
    return 0;
}

int ticket_end(struct tn_service *s, const char *ticket, const char *purpose, const char *box,
               struct tn_error *err)
{
    struct ticket t;
    struct link_use use = {.ticket = &t};
    int64_t count = 0;

    if (!ticket_unseal(s->secret, ticket, &t) || strcmp(t.purpose, purpose) != 0 ||
        strcmp(t.box, box) != 0)
        return tn_fail(err, TN_E_NOT_FOUND, "There is no such ticket");
    if (tn_db_each(s->db, take_count, &count, err,
                   "SELECT count(*) FROM setting WHERE name GLOB '" LINK_PURPOSE "' || ?1 || ':*'",
                   "t", box) < 0)
        return -1;
    if (count >= ENDED_MAX)
        return tn_fail(err, TN_E_QUOTA, "%d links of this sandbox were ended: wait", ENDED_MAX);
    name_ended(s, ticket, &t, t.purpose);
    return tn_db_atomically(s->db, note_link, &use, err) ? -1 : 0;
}

bool ticket_has_ended(struct tn_service *s, const char *ticket)
{
    struct ticket t;
    int64_t count = 0;
    char name[PURPOSE_MAX + 1];

    if (!ticket_unseal(s->secret, ticket, &t))
        return true;
    name_ended(s, ticket, &t, name);
    return tn_db_each(s->db, take_count, &count, NULL,
                      "SELECT count(*) FROM setting WHERE name = ?1", "t", name) < 0 ||
           count > 0;
}

/* False: it was used before. */
static bool spend(const struct ticket *t, const char *nonce, const char *tenant)
{
    double now = service_time();
    bool used = false;

    pthread_mutex_lock(&once.lock);
    struct tenant_tickets *of = tickets_of(tenant);
    for (size_t i = 0; i < of->count;) {
        if (of->spent[i].until <= now) {
            of->spent[i] = of->spent[--of->count];
            continue;
        }
        used |= strcmp(of->spent[i++].nonce, nonce) == 0;
    }
    if (!used) {
        if (of->count == of->room) {
            of->room = of->room ? 2 * of->room : 16;
            of->spent = tn_realloc(of->spent, of->room * sizeof *of->spent);
        }
        struct spent *s = &of->spent[of->count++];
        snprintf(s->nonce, sizeof s->nonce, "%s", nonce);
        s->until = (double)t->expires;
    }
    pthread_mutex_unlock(&once.lock);
    return !used;
}

int ticket_use_once(struct tn_service *s, const char *ticket, const char *box, const char *what,
                    struct caller *who, struct tn_error *err)
{
    char purpose[PURPOSE_MAX + 1];
    struct ticket t;

    if (purpose_once(what, purpose, err) < 0)
        return -1;
    size_t n = strlen(purpose);
    if (!ticket_unseal(s->secret, ticket, &t) || strncmp(t.purpose, purpose, n) != 0 ||
        ticket_check(s, ticket, t.purpose, box, who, err) < 0)
        return tn_fail(err, TN_E_DENIED, "This ticket is not, or no longer, good for that");
    return spend(&t, t.purpose + n, who->tenant)
               ? 0
               : tn_fail(err, TN_E_DENIED, "This ticket was used already");
}
