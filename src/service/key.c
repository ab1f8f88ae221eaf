#include "service/key.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "base/fs.h"
#include "base/hex.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "runtime/spec.h"
#include "service/bucket.h"
#include "service/clock.h"

#define PREFIX "tnk_"
#define E2B_PREFIX "e2b_"
enum {
    ID = 12,
    SECRET = KEY_SECRET,
    WHOLE = sizeof PREFIX - 1 + ID + 1 + SECRET,
    BUCKETS = 256,
    NAME_MAX_BYTES = 64,
    FIRST_NAMES = 100,   /* tried, when somebody has the usual one */
    NOTE_USE_EVERY = 60, /* seconds */
};

const char *const scope_words[] = {"read", "use", "manage", "admin", "metrics", NULL};

/* Rows that this process changed: the database tells only of other processes. */
static atomic_uint changes;

unsigned scope_bit(const char *word)
{
    for (unsigned i = 0; scope_words[i]; i++)
        if (strcmp(scope_words[i], word) == 0)
            return 1u << i;
    return 0;
}

/* --- the text of a key --------------------------------------------------------------------- */

static const char id_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
static const char secret_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static bool parse_usual(const char *text, char id[ID + 1], char secret[SECRET + 1])
{
    size_t prefix = sizeof PREFIX - 1;
    const char *after = text + prefix + ID + 1;

    if (strlen(text) != prefix + ID + 1 + SECRET || strncmp(text, PREFIX, prefix) != 0 ||
        strspn(text + prefix, id_letters) != ID || text[prefix + ID] != '_' ||
        strspn(after, secret_letters) != SECRET)
        return false;
    snprintf(id, ID + 1, "%s", text + prefix);
    snprintf(secret, SECRET + 1, "%s", after);
    return true;
}

void key_spell_e2b(const char *text, char out[KEY_E2B_SIZE])
{
    int n = snprintf(out, KEY_E2B_SIZE, E2B_PREFIX);

    for (const char *c = text + sizeof PREFIX - 1; *c && n + 2 < KEY_E2B_SIZE; c++)
        n += snprintf(out + n, (size_t)(KEY_E2B_SIZE - n), "%02x", (unsigned)(unsigned char)*c);
}

/* In the usual spelling; "" when it is none. */
static void usual_spelling(const char *text, char out[WHOLE + 1])
{
    size_t prefix = sizeof PREFIX - 1, n = prefix;
    const char *at = text + sizeof E2B_PREFIX - 1;

    snprintf(out, WHOLE + 1, PREFIX);
    for (; n < WHOLE && tn_hex_digit(at[0]) >= 0 && tn_hex_digit(at[1]) >= 0; at += 2)
        out[n++] = (char)(tn_hex_digit(at[0]) << 4 | tn_hex_digit(at[1]));
    out[*at ? 0 : n] = '\0';
}

bool key_parse(const char *text, char id[ID + 1], char secret[SECRET + 1])
{
    char usual[WHOLE + 1];

    if (strncmp(text, E2B_PREFIX, sizeof E2B_PREFIX - 1) == 0) {
        usual_spelling(text, usual);
        bool good = parse_usual(usual, id, secret);
        explicit_bzero(usual, sizeof usual);
        return good;
    }
    return parse_usual(text, id, secret);
}

/* n characters of the alphabet, evenly. */
static int random_word(char *out, size_t n, const char *alphabet, struct tn_error *err)
{
    unsigned char bytes[64];
    size_t size = strlen(alphabet);

    for (size_t i = 0; i < n;) {
        if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
            return tn_fail_errno(err, errno, "no random bytes");
        for (size_t j = 0; j < sizeof bytes && i < n; j++)
            if (bytes[j] < 256 / size * size)
                out[i++] = alphabet[bytes[j] % size];
    }
    explicit_bzero(bytes, sizeof bytes);
    out[n] = '\0';
    return 0;
}

static void digest_of(const char *secret, char out[2 * TN_SHA256_BYTES + 1])
{
    struct tn_sha256 hash;

    tn_sha256_init(&hash);
    tn_sha256_add(&hash, secret, strlen(secret));
    tn_sha256_end_hex(&hash, out);
}

/* --- rows ---------------------------------------------------------------------------------- */

#define COLUMNS                                                                                 \
    "id, name, tenant, scopes, max_sandboxes, max_running, max_memory, max_cpus, max_seconds, " \
    "requests_per_second, created, used, expires, revoked, digest, max_pids, max_disk, "        \
    "security, gvisor, network"

void key_info_done(struct key_info *k)
{
    free(k->name);
    free(k->tenant);
    k->name = k->tenant = NULL;
}

struct key_security key_security_of(const struct tn_thresholds *own)
{
    const int rows[] = {(int)own->low, (int)own->medium, (int)own->high, (int)own->unknown,
                        (int)own->mode};
    struct key_security s = {.own = *own, .set = *own->analyzers};

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        s.set |= rows[i] >= 0;
    return s;
}

struct tn_thresholds caller_thresholds(const struct caller *who, const struct tn_thresholds *usual)
{
    return who->security.set ? tn_thresholds_over(usual, &who->security.own) : *usual;
}

/* What cannot be read blocks what is not of low risk: nobody knows what was meant. */
static struct key_security read_security(const char *text)
{
    tn_autojson struct tn_json *json = NULL;
    struct tn_thresholds own = {0};

    tn_fields_defaults(&tn_thresholds_fields, &own);
    if (text && tn_json_parse(text, strlen(text), &json, NULL) == 0 &&
        tn_fields_from_json(&tn_thresholds_fields, &own, json, NULL) == 0) {
        snprintf(own.analyzers, sizeof own.analyzers, "%s", tn_json_get_str(json, "analyzers", ""));
        return key_security_of(&own);
    }
    return (struct key_security){.set = true,
                                 .own = {.low = TN_ASK,
                                         .medium = TN_BLOCK,
                                         .high = TN_BLOCK,
                                         .unknown = TN_BLOCK,
                                         .mode = TN_CONFIRM_RISKY}};
}

static void put_security(struct tn_jw *w, const struct key_security *s)
{
    tn_jw_object(w);
    if (s->set)
        tn_fields_to_json(&tn_thresholds_fields, &s->own, w);
    tn_jw_object_end(w);
}

/* As the store keeps it: with the analyzers, as one text. */
static void write_security(struct tn_jw *w, const struct key_security *s)
{
    tn_jw_object(w);
    if (s->set) {
        tn_fields_to_json(&tn_thresholds_fields, &s->own, w);
        tn_jw_kstr(w, "analyzers", s->own.analyzers);
    }
    tn_jw_object_end(w);
}

/* One that a later version wrote is the narrowest. */
static int read_network(const char *text)
{
    for (int i = 0; text && tn_networks[i]; i++)
        if (strcmp(tn_networks[i], text) == 0)
            return i;
    return TN_NETWORK_NONE;
}

/* Strings of the row are borrowed. */
static void read_row(const struct tn_db_row *row, struct key_info *k)
{
    snprintf(k->id, sizeof k->id, "%s", tn_db_text(row, 0));
    k->name = (char *)(uintptr_t)tn_db_text(row, 1);
    k->tenant = (char *)(uintptr_t)tn_db_text(row, 2);
    k->scopes = (unsigned)tn_db_int(row, 3);
    k->limits = (struct key_limits){
        .max_sandboxes = tn_db_int(row, 4),
        .max_running = tn_db_int(row, 5),
        .max_memory = tn_db_int(row, 6),
        .max_cpus = tn_db_double(row, 7),
        .max_seconds = tn_db_double(row, 8),
        .requests_per_second = tn_db_double(row, 9),
        .max_pids = tn_db_int(row, 15),
        .max_disk = tn_db_int(row, 16),
        .gvisor = tn_db_int(row, 18) != 0,
        .network = read_network(tn_db_text(row, 19)),
    };
    k->security = read_security(tn_db_text(row, 17));
    k->created = tn_db_double(row, 10);
    k->used = tn_db_double(row, 11);
    k->expires = tn_db_double(row, 12);
    k->revoked = tn_db_int(row, 13) != 0;
}

struct listing {
    key_fn fn;
    void *ctx;
};

static int list_row(const struct tn_db_row *row, void *ctx)
{
    const struct listing *l = ctx;
    struct key_info k;

    read_row(row, &k);
    return l->fn(&k, l->ctx);
}

int key_each(struct tn_db *db, key_fn fn, void *ctx, struct tn_error *err)
{
    struct listing l = {.fn = fn, .ctx = ctx};
    int result = tn_db_each(db, list_row, &l, err,
                            "SELECT " COLUMNS " FROM api_key ORDER BY created, id", "");

    return result < 0 ? -1 : 0;
}

static const struct tn_field limit_rows[] = {
    TN_INT("max_sandboxes", struct key_limits, max_sandboxes, .min = 0, .max = 1e9,
           .help = "that exist at a time"),
    TN_INT("max_running", struct key_limits, max_running, .min = 0, .max = 1e9,
           .help = "that run at a time"),
    TN_INT("max_memory", struct key_limits, max_memory, .min = 0, .max = 1e15,
           .help = "bytes, of those that run together"),
    TN_DOUBLE("max_cpus", struct key_limits, max_cpus, .min = 0, .max = 1e6,
              .help = "of those that run together"),
    TN_INT("max_pids", struct key_limits, max_pids, .min = 0, .max = 1e12,
           .help = "processes, of those that run together"),
    TN_INT("max_disk", struct key_limits, max_disk, .min = 0, .max = 1e15,
           .help = "bytes, of those that exist together"),
    TN_DOUBLE("max_seconds", struct key_limits, max_seconds, .min = 0, .max = 1e9,
              .help = "time to live of each"),
    TN_DOUBLE("requests_per_second", struct key_limits, requests_per_second, .min = 0, .max = 1e6,
              .help = "over it requests are refused"),
    TN_BOOL("gvisor", struct key_limits, gvisor, .help = "each must have isolation gvisor"),
    TN_WORD("network", struct key_limits, network, tn_networks, .fallback = "default",
            .help = "the widest that each may have: none, allow, open, bridge, host"),
};
const struct tn_fields key_limit_fields = TN_FIELDS(limit_rows);

void key_put_scopes(struct tn_jw *w, unsigned scopes)
{
    tn_jw_key(w, "scopes");
    tn_jw_array(w);
    for (unsigned i = 0; scope_words[i]; i++)
        if (scopes & 1u << i)
            tn_jw_str(w, scope_words[i]);
    tn_jw_array_end(w);
}

void key_put_limits(struct tn_jw *w, const struct key_limits *limits)
{
    tn_jw_key(w, "limits");
    tn_jw_object(w);
    tn_fields_to_json(&key_limit_fields, limits, w);
    tn_jw_object_end(w);
}

void key_info_put(const struct key_info *k, struct tn_jw *w)
{
    tn_jw_kstr(w, "id", k->id);
    tn_jw_kstr(w, "name", k->name);
    tn_jw_kstr(w, "tenant", k->tenant);
    key_put_scopes(w, k->scopes);
    key_put_limits(w, &k->limits);
    tn_jw_key(w, "security");
    put_security(w, &k->security);
    tn_jw_key(w, "analyzers");
    tn_thresholds_put_analyzers(&k->security.own, w);
    put_time(w, "created", k->created);
    put_time(w, "used", k->used);
    put_time(w, "expires", k->expires);
    tn_jw_kbool(w, "revoked", k->revoked);
}

/* --- making and revoking ------------------------------------------------------------------- */

static int check_word(const char *what, const char *text, struct tn_error *err)
{
    size_t n = text ? strlen(text) : 0;

    for (size_t i = 0; i < n; i++)
        if (!isascii(text[i]) || !(isalnum((unsigned char)text[i]) || strchr("._-@", text[i])))
            n = 0;
    if (n == 0 || n > NAME_MAX_BYTES)
        return tn_fail(err, TN_E_INVALID,
                       "the %s of a key has 1 to %d letters, digits, '.', '_', '-' or '@'", what,
                       NAME_MAX_BYTES);
    return 0;
}

static int check_wish(const struct key_info *k, double now, struct tn_error *err)
{
    if (check_word("name", k->name, err) < 0 || check_word("tenant", k->tenant, err) < 0)
        return -1;
    if (!k->scopes)
        return tn_fail(err, TN_E_INVALID, "a key without any scope opens nothing");
    if (k->expires > 0 && k->expires <= now)
        return tn_fail(err, TN_E_INVALID, "a key that has expired already opens nothing");
    return 0;
}

/* A fresh id and the text that goes with it. */
static int make_text(struct key_info *k, char text[64], struct tn_error *err)
{
    char secret[SECRET + 1];

    if (random_word(k->id, ID, id_letters, err) < 0 ||
        random_word(secret, SECRET, secret_letters, err) < 0)
        return -1;
    snprintf(text, 64, PREFIX "%s_%s", k->id, secret);
    explicit_bzero(secret, sizeof secret);
    return 0;
}

static int add_row(struct tn_db *db, const struct key_info *k, const char *text,
                   struct tn_error *err)
{
    char digest[2 * TN_SHA256_BYTES + 1];
    const struct key_limits *l = &k->limits;
    tn_autobuf struct tn_buf security = TN_BUF_INIT(512);
    struct tn_jw w = tn_jw(&security);

    write_security(&w, &k->security);
    digest_of(text + sizeof PREFIX + ID, digest);
    int added =
        tn_db_run(db, err,
                  "INSERT INTO api_key (" COLUMNS
                  ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 0, ?, ?, ?, ?, ?, ?)",
                  "tttiiiidddddtiitit", k->id, k->name, k->tenant, (int64_t)k->scopes,
                  l->max_sandboxes, l->max_running, l->max_memory, l->max_cpus, l->max_seconds,
                  l->requests_per_second, k->created, k->expires, digest, l->max_pids, l->max_disk,
                  tn_buf_str(&security), (int64_t)l->gvisor, tn_networks[l->network]);
    if (added < 0 && err && err->code == TN_E_CONFLICT)
        return tn_fail(err, TN_E_CONFLICT, "there is a key of the name %s already", k->name);
    return added < 0 ? -1 : 0;
}

int key_create(struct tn_db *db, struct key_info *k, char text[64], struct tn_error *err)
{
    struct tn_error why = {0};

    k->created = service_time();
    k->used = 0;
    k->revoked = false;
    if (check_wish(k, k->created, &why) < 0 || make_text(k, text, &why) < 0 ||
        add_row(db, k, text, &why) < 0) {
        explicit_bzero(text, 64);
        if (err)
            *err = why;
        return -1;
    }
    atomic_fetch_add(&changes, 1);
    return 0;
}

static int no_such_key(const char *id_or_name, struct tn_error *err)
{
    return tn_fail(err, TN_E_NOT_FOUND, "there is no key %.80s that counts", id_or_name);
}

static int take_row(const struct tn_db_row *row, void *ctx)
{
    struct key_info *k = ctx;

    read_row(row, k);
    k->name = tn_strdup_or_null(k->name);
    k->tenant = tn_strdup(k->tenant);
    return 1;
}

int key_find(struct tn_db *db, const char *id_or_name, struct key_info *out, struct tn_error *err)
{
    *out = (struct key_info){0};
    int found = tn_db_each(db, take_row, out, err,
                           "SELECT " COLUMNS " FROM api_key WHERE revoked = 0 AND "
                           "(id = ?1 OR name = ?1) ORDER BY id = ?1 DESC LIMIT 1",
                           "t", id_or_name);

    if (found < 0)
        return -1;
    return out->tenant ? 0 : no_such_key(id_or_name, err);
}

int key_change(struct tn_db *db, const struct key_info *k, struct tn_error *err)
{
    const struct key_limits *l = &k->limits;
    tn_autobuf struct tn_buf security = TN_BUF_INIT(512);
    struct tn_jw w = tn_jw(&security);

    if (check_wish(k, service_time(), err) < 0)
        return -1;
    write_security(&w, &k->security);
    int changed = tn_db_run(
        db, err,
        "UPDATE api_key SET scopes = ?, max_sandboxes = ?, max_running = ?, max_memory = ?, "
        "max_cpus = ?, max_seconds = ?, requests_per_second = ?, expires = ?, max_pids = ?, "
        "max_disk = ?, security = ?, gvisor = ?, network = ? WHERE id = ?",
        "iiiiddddiititt", (int64_t)k->scopes, l->max_sandboxes, l->max_running, l->max_memory,
        l->max_cpus, l->max_seconds, l->requests_per_second, k->expires, l->max_pids, l->max_disk,
        tn_buf_str(&security), (int64_t)l->gvisor, tn_networks[l->network], k->id);
    atomic_fetch_add(&changes, 1);
    return changed < 0 ? -1 : 0;
}

int key_revoke(struct tn_db *db, const char *id_or_name, struct tn_error *err)
{
    int changed = tn_db_run(
        db, err, "UPDATE api_key SET revoked = 1 WHERE revoked = 0 AND (id = ?1 OR name = ?1)", "t",
        id_or_name);

    if (changed < 0)
        return -1;
    atomic_fetch_add(&changes, 1);
    return changed == 0 ? no_such_key(id_or_name, err) : 0;
}

static int count_row(const struct tn_db_row *row, void *ctx)
{
    *(int64_t *)ctx = tn_db_int(row, 0);
    return 0;
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    return tn_fs_write(fd, ctx, strlen(ctx), err);
}

/* "admin", unless somebody has that name already. */
static int add_first(struct tn_db *db, struct key_info *k, const char *text, struct tn_error *err)
{
    struct tn_error why = {0};
    char name[32] = "admin";

    k->name = name;
    for (int i = 2; add_row(db, k, text, &why) < 0; i++) {
        if (why.code != TN_E_CONFLICT || i > FIRST_NAMES) {
            if (err)
                *err = why;
            return -1;
        }
        snprintf(name, sizeof name, "admin-%d", i);
    }
    k->name = NULL;
    return 0;
}

int key_make_first(struct tn_db *db, const char *path, struct tn_error *err)
{
    struct key_info k = {.tenant = (char[]){"default"},
                         .scopes = SCOPES_USUAL | SCOPE_ADMIN,
                         .created = service_time()};
    const struct tn_fs_replace how = {.mode = 0600, .sync = true};
    char text[64], line[66];
    int64_t count = 0;

    if (tn_db_each(db, count_row, &count, err, "SELECT count(*) FROM api_key WHERE scopes & ?", "i",
                   (int64_t)SCOPE_ADMIN) < 0)
        return -1;
    if (count > 0)
        return 0;
    if (make_text(&k, text, err) < 0)
        return -1;
    /* The file first: who dies in between makes another one next time. */
    snprintf(line, sizeof line, "%s\n", text);
    unlink(path);
    int result = tn_fs_replace(TN_FS_ANYWHERE, path, &how, write_text, line, err);
    if (result == 0)
        result = add_first(db, &k, text, err);
    explicit_bzero(text, sizeof text);
    explicit_bzero(line, sizeof line);
    return result < 0 ? -1 : 1;
}

/* --- settings ------------------------------------------------------------------------------ */

static int take_secret(const struct tn_db_row *row, void *ctx)
{
    snprintf(ctx, 65, "%s", tn_db_text(row, 0));
    return 0;
}

int service_secret(struct tn_db *db, const char *name, char out[65], struct tn_error *err)
{
    char fresh[65];

    if (random_word(fresh, 64, "0123456789abcdef", err) < 0 ||
        tn_db_run(db, err, "INSERT OR IGNORE INTO setting (name, value) VALUES (?, ?)", "tt", name,
                  fresh) < 0)
        return -1;
    explicit_bzero(fresh, sizeof fresh);
    int found = tn_db_each(db, take_secret, out, err, "SELECT value FROM setting WHERE name = ?",
                           "t", name);
    if (found < 0)
        return -1;
    return found == 1 ? 0 : tn_fail(err, TN_E_INTERNAL, "the store lost the secret %s", name);
}

/* --- the ring ------------------------------------------------------------------------------ */

/* What is known of one key. */
struct entry {
    struct entry *next;
    struct caller who;
    char digest[2 * TN_SHA256_BYTES + 1];
    double expires;
    bool revoked;
    int64_t version; /* of the database when the row was read */
    unsigned changes;
    double noted; /* when its use was written down last */
    struct bucket requests;
};

struct keyring {
    struct tn_db *db;
    _Atomic int64_t seen; /* version of the database */
    atomic_bool news;     /* it has changed since keyring_news */
    pthread_mutex_t lock; /* never held while the database is asked */
    struct entry *buckets[BUCKETS];
};

struct keyring *keyring_new(struct tn_db *db)
{
    struct keyring *k = tn_calloc(1, sizeof *k);

    k->db = db;
    pthread_mutex_init(&k->lock, NULL);
    return k;
}

void keyring_free(struct keyring *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (k->buckets[i]) {
            struct entry *next = k->buckets[i]->next;
            free(k->buckets[i]);
            k->buckets[i] = next;
        }
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* Where it hangs, or would.  Ids are random: their first letters are as good as any hash. */
static struct entry **place_of(struct keyring *k, const char *id)
{
    struct entry **at = &k->buckets[((unsigned char)id[0] * 36u + (unsigned char)id[1]) % BUCKETS];

    while (*at && strcmp((*at)->who.key_id, id) != 0)
        at = &(*at)->next;
    return at;
}

static int read_entry(const struct tn_db_row *row, void *ctx)
{
    struct entry *e = ctx;
    struct key_info k;

    read_row(row, &k);
    snprintf(e->who.key_id, sizeof e->who.key_id, "%s", k.id);
    snprintf(e->who.tenant, sizeof e->who.tenant, "%s", k.tenant);
    e->who.scopes = k.scopes;
    e->who.limits = k.limits;
    e->who.security = k.security;
    e->expires = k.expires;
    e->revoked = k.revoked;
    e->noted = k.used;
    snprintf(e->digest, sizeof e->digest, "%s", tn_db_text(row, 14));
    return 0;
}

/* Keeps what was read; what the entry knows of requests so far stays. */
static void keep_entry(struct keyring *k, struct entry *fresh)
{
    pthread_mutex_lock(&k->lock);
    struct entry **at = place_of(k, fresh->who.key_id), *e = *at;
    if (!e) {
        e = *at = tn_calloc(1, sizeof *e);
    } else {
        fresh->next = e->next;
        fresh->requests = e->requests;
        fresh->noted = e->noted > fresh->noted ? e->noted : fresh->noted;
    }
    *e = *fresh;
    pthread_mutex_unlock(&k->lock);
}

/* A copy of what is known of that key, read anew when something changed; 0, or -1: unknown. */
static int look_up(struct keyring *k, const char *id, struct entry *out, struct tn_error *err)
{
    unsigned changed = atomic_load(&changes);
    int64_t version = tn_db_version(k->db);

    if (atomic_exchange(&k->seen, version) != version)
        atomic_store(&k->news, true);
    pthread_mutex_lock(&k->lock);
    const struct entry *e = *place_of(k, id);
    bool current = e && e->version == version && e->changes == changed;
    if (current)
        *out = *e;
    pthread_mutex_unlock(&k->lock);
    if (current)
        return 0;

    *out = (struct entry){.version = version, .changes = changed};
    int found = tn_db_each(k->db, read_entry, out, err,
                           "SELECT " COLUMNS " FROM api_key WHERE id = ?", "t", id);
    if (found < 0)
        return -1;
    if (found == 0)
        return tn_fail(err, TN_E_DENIED, "no such key");
    keep_entry(k, out);
    return 0;
}

static bool counts(const struct entry *e, double now)
{
    return !e->revoked && (e->expires <= 0 || now < e->expires);
}

/* Now and then, so that people see which keys are in use. */
static void note_use(struct keyring *k, const struct entry *e, double now)
{
    bool due = false;

    if (now - e->noted < NOTE_USE_EVERY)
        return;
    pthread_mutex_lock(&k->lock);
    struct entry *own = *place_of(k, e->who.key_id);
    if (own && now - own->noted >= NOTE_USE_EVERY) {
        own->noted = now;
        due = true;
    }
    pthread_mutex_unlock(&k->lock);
    if (due)
        tn_db_run(k->db, NULL, "UPDATE api_key SET used = ? WHERE id = ?", "dt", now,
                  e->who.key_id);
}

/* The one sentence.  A store that cannot be read is another matter. */
static int refuse(struct tn_error *err, const struct tn_error *why)
{
    if (why->code != TN_OK && why->code != TN_E_DENIED) {
        if (err)
            *err = *why;
        return -1;
    }
    return tn_fail(err, TN_E_DENIED, "The API key is not valid");
}

/* Has the length of a digest and is none. */
static const char nobody[] = "----------------------------------------------------------------";

int keyring_check(struct keyring *k, const char *text, struct caller *out, struct tn_error *err)
{
    char id[ID + 1] = "", secret[SECRET + 1] = "", digest[2 * TN_SHA256_BYTES + 1];
    struct tn_error why = {0};
    struct entry e = {0};
    double now = service_time();

    bool known = key_parse(text, id, secret) && look_up(k, id, &e, &why) == 0;
    digest_of(secret, digest);
    explicit_bzero(secret, sizeof secret);
    bool same = tn_same_secret(digest, known ? e.digest : nobody);
    if (!known || !same || !counts(&e, now))
        return refuse(err, &why);
    note_use(k, &e, now);
    *out = e.who;
    return 0;
}

int keyring_find(struct keyring *k, const char *id, struct caller *out, struct tn_error *err)
{
    struct tn_error why = {0};
    struct entry e;

    if (look_up(k, id, &e, &why) < 0 || !counts(&e, service_time()))
        return refuse(err, &why);
    *out = e.who;
    return 0;
}

/* 0 is no limit, which is the widest. */
static void widen(int64_t *most, int64_t other)
{
    *most = *most && other ? (other > *most ? other : *most) : 0;
}

static void widen_double(double *most, double other)
{
    *most = *most > 0 && other > 0 ? fmax(*most, other) : 0;
}

struct widest {
    bool any;
    struct key_limits limits;
};

static int widen_by(const struct tn_db_row *row, void *ctx)
{
    struct widest *w = ctx;
    struct key_info k;

    read_row(row, &k);
    const struct key_limits *other = &k.limits;
    if (!w->any)
        w->limits = (struct key_limits){.max_sandboxes = other->max_sandboxes,
                                        .max_running = other->max_running,
                                        .max_memory = other->max_memory,
                                        .max_cpus = other->max_cpus,
                                        .max_pids = other->max_pids,
                                        .max_disk = other->max_disk,
                                        .max_seconds = other->max_seconds};
    w->any = true;
    widen(&w->limits.max_sandboxes, other->max_sandboxes);
    widen(&w->limits.max_running, other->max_running);
    widen(&w->limits.max_memory, other->max_memory);
    widen_double(&w->limits.max_cpus, other->max_cpus);
    widen(&w->limits.max_pids, other->max_pids);
    widen(&w->limits.max_disk, other->max_disk);
    widen_double(&w->limits.max_seconds, other->max_seconds);
    return 0;
}

int keyring_widest(struct keyring *k, const char *tenant, struct key_limits *out,
                   struct tn_error *err)
{
    struct widest w = {0};

    if (tn_db_each(k->db, widen_by, &w, err,
                   "SELECT " COLUMNS " FROM api_key WHERE tenant = ? AND revoked = 0"
                   " AND (expires <= 0 OR expires > ?) AND scopes & ?",
                   "tdi", tenant, service_time(),
                   (int64_t)(SCOPE_USE | SCOPE_MANAGE | SCOPE_ADMIN)) < 0)
        return -1;
    *out = w.limits;
    return w.any ? 0 : tn_fail(err, TN_E_DENIED, "tenant %s has no key that counts", tenant);
}

bool keyring_news(struct keyring *k)
{
    return atomic_load(&k->news) && atomic_exchange(&k->news, false);
}

double keyring_take(struct keyring *k, const struct caller *who)
{
    double rate = who->limits.requests_per_second, most = rate > 1 ? rate : 1, wait = 0;

    if (rate <= 0)
        return 0;
    pthread_mutex_lock(&k->lock);
    struct entry *e = *place_of(k, who->key_id);
    if (e)
        wait = bucket_take(&e->requests, rate, most);
    pthread_mutex_unlock(&k->lock);
    return wait;
}
