#include "runtime/ledger.h"

#include <pthread.h>

#include "base/sha256.h"
#include "event/journal.h"
#include "runtime/sandbox-report.h"

enum {
    MAX_KEYS = 4096,  /* as many as a hand remembers */
    LOOK_BACK = 4096, /* events of a journal that are searched for keys of another process */
};

/* The error_id of an observation that stands for one that nobody could give. */
#define NO_ANSWER "no_answer"

/* An idempotency key, by its digest. */
struct known_key {
    unsigned char digest[16];
    int64_t action;                 /* id of its event, or -1 */
    int64_t start;                  /* as struct tn_noted has it */
    char of[TN_ACTION_DIGEST_SIZE]; /* what it was used for; "": not known */
    bool answered, running;
    char *report; /* that was added to the answer, or NULL */
};

/* A key whose action is prepared; as many as there are threads that do it. */
struct claim {
    struct claim *next;
    unsigned char digest[16];
};

struct tn_ledger {
    pthread_mutex_t lock;
    struct claim *claims;
    char *directory;
    struct tn_stream *journal;
    struct known_key *keys; /* a ring once it is full */
    size_t key_count, key_room, key_next;
    int64_t read_to; /* where the journal has not been read for keys; -1: nowhere yet */
};

struct tn_ledger *tn_ledger_new(void)
{
    struct tn_ledger *l = tn_calloc(1, sizeof *l);

    pthread_mutex_init(&l->lock, NULL);
    l->read_to = -1;
    return l;
}

void tn_ledger_free(struct tn_ledger *l)
{
    if (!l)
        return;
    tn_stream_close(l->journal);
    pthread_mutex_destroy(&l->lock);
    for (size_t i = 0; i < l->key_count; i++)
        free(l->keys[i].report);
    free(l->keys);
    free(l->directory);
    free(l);
}

/* --- its journal ------------------------------------------------------------------------------ */

/* Once open, it is until the ledger is freed. */
static struct tn_stream *journal_of(struct tn_ledger *l)
{
    pthread_mutex_lock(&l->lock);
    struct tn_stream *journal = l->journal;
    pthread_mutex_unlock(&l->lock);
    return journal;
}

bool tn_ledger_is_open(struct tn_ledger *l)
{
    return journal_of(l) != NULL;
}

const char *tn_ledger_directory(struct tn_ledger *l)
{
    return journal_of(l) ? l->directory : NULL;
}

void tn_ledger_open(struct tn_ledger *l, const struct tn_sandbox_journal *of)
{
    pthread_mutex_lock(&l->lock);
    if (!l->journal && (l->journal = tn_sandbox_journal_open(of)))
        l->directory = tn_strdup(of->directory);
    pthread_mutex_unlock(&l->lock);
}

int tn_ledger_hide(struct tn_ledger *l, const struct tn_secret *secrets, size_t n,
                   struct tn_error *err)
{
    struct tn_stream *journal = journal_of(l);

    return journal ? tn_stream_update_secrets(journal, secrets, n, err) : 0;
}

int tn_ledger_show(struct tn_ledger *l, const char *text, struct tn_buf *out)
{
    struct tn_stream *journal = journal_of(l);

    return journal ? tn_stream_hide(journal, text, out) : -1;
}

/* --- its keys; all of these under the lock ---------------------------------------------------- */

void tn_action_digest(const struct tn_action *action, char out[TN_ACTION_DIGEST_SIZE])
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_EVENT_MAX);
    struct tn_action bare = *action; /* borrows everything */
    struct tn_jw jw = tn_jw(&text);
    char whole[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 h;

    bare.event = (struct tn_event){0};
    bare.timeout = (struct tn_opt_double){0};
    bare.confirmation_state = TN_CONFIRMED;
    tn_action_to_json(&bare, &jw);
    tn_sha256_init(&h);
    tn_sha256_add(&h, tn_buf_str(&text), text.len);
    tn_sha256_end_hex(&h, whole);
    memcpy(out, whole, TN_ACTION_DIGEST_SIZE - 1);
    out[TN_ACTION_DIGEST_SIZE - 1] = '\0';
}

static void digest_key(const char *key, unsigned char out[16])
{
    struct tn_sha256 h;
    unsigned char whole[TN_SHA256_BYTES];

    tn_sha256_init(&h);
    tn_sha256_add(&h, key, strlen(key));
    tn_sha256_end(&h, whole);
    memcpy(out, whole, 16);
}

static struct known_key *find_key(struct tn_ledger *l, const unsigned char digest[16])
{
    for (size_t i = 0; i < l->key_count; i++)
        if (memcmp(l->keys[i].digest, digest, 16) == 0)
            return &l->keys[i];
    return NULL;
}

static struct known_key *find_action(struct tn_ledger *l, int64_t id)
{
    for (size_t i = 0; i < l->key_count; i++)
        if (l->keys[i].action == id)
            return &l->keys[i];
    return NULL;
}

static struct known_key *add_key(struct tn_ledger *l, const unsigned char digest[16],
                                 int64_t action, int64_t start)
{
    if (l->key_count == l->key_room && l->key_room < MAX_KEYS) {
        l->key_room = l->key_room ? 2 * l->key_room : 16;
        l->keys = tn_realloc(l->keys, l->key_room * sizeof *l->keys);
    }
    if (l->key_count < l->key_room)
        l->key_next = l->key_count++;
    else
        free(l->keys[l->key_next].report);
    struct known_key *k = &l->keys[l->key_next];
    l->key_next = (l->key_next + 1) % MAX_KEYS;
    *k = (struct known_key){.action = action, .start = start};
    memcpy(k->digest, digest, 16);
    return k;
}

static bool is_answer(const struct tn_json *event)
{
    const char *id = tn_json_get_str(tn_json_get(event, "extras"), "error_id", "");

    return tn_event_kind(event) == TN_EVENT_OBSERVATION && strcmp(id, NO_ANSWER) != 0;
}

/* What an answer of a process before this one reports: the hand would tell it again without. */
static char *report_in(const struct tn_json *event)
{
    struct tn_observation observation;

    if (tn_observation_from_json(event, &observation, NULL))
        return NULL;
    char *report = tn_report_of(&observation);
    tn_observation_done(&observation);
    return report;
}

static void read_key(struct tn_ledger *l, int64_t id, const struct tn_json *event)
{
    const char *key = tn_json_get_str(event, "idempotency_key", NULL);
    int64_t cause = tn_json_int(tn_json_get(event, "cause"), -1);
    struct known_key *of = cause >= 0 ? find_action(l, cause) : NULL;
    unsigned char digest[16];

    if (key && tn_event_kind(event) == TN_EVENT_ACTION) {
        digest_key(key, digest);
        if (find_key(l, digest))
            return;
        struct known_key *k =
            add_key(l, digest, id, tn_json_int(tn_json_get(event, "start"), TN_START_UNKNOWN));
        snprintf(k->of, sizeof k->of, "%s", tn_json_get_str(event, "digest", ""));
    } else if (of && !of->answered && is_answer(event)) {
        of->answered = true;
        free(of->report);
        of->report = report_in(event);
    }
}

/* What the journal says of the keys of other processes, as far as it was not read before. */
static void read_keys(struct tn_ledger *l)
{
    int64_t last = tn_journal_newest(l->directory, NULL);
    struct tn_journal_event event;

    if (l->read_to < last - LOOK_BACK)
        l->read_to = last - LOOK_BACK;
    if (l->read_to < 0)
        l->read_to = 0;
    tn_autojournalreader struct tn_journal_reader *r =
        tn_journal_reader_new(l->directory, l->read_to, NULL);
    while (r && tn_journal_next(r, &event, NULL) == 1 && event.id <= last) {
        tn_autojson struct tn_json *tree = NULL;
        if (!tn_json_parse(event.json, event.len, &tree, NULL))
            read_key(l, event.id, tree);
        l->read_to = event.id + 1;
    }
}

void tn_ledger_catch_up(struct tn_ledger *l)
{
    pthread_mutex_lock(&l->lock);
    if (l->journal)
        read_keys(l);
    pthread_mutex_unlock(&l->lock);
}

/* By an idempotency key, whose digest is put out. */
static struct known_key *look_up(struct tn_ledger *l, const char *key, unsigned char digest[16])
{
    if (l->journal && l->read_to < 0)
        read_keys(l);
    digest_key(key, digest);
    return find_key(l, digest);
}

bool tn_ledger_knows(struct tn_ledger *l, const char *key)
{
    unsigned char digest[16];

    pthread_mutex_lock(&l->lock);
    bool known = look_up(l, key, digest);
    pthread_mutex_unlock(&l->lock);
    return known;
}

static struct claim **find_claim(struct tn_ledger *l, const unsigned char digest[16])
{
    struct claim **at = &l->claims;

    while (*at && memcmp((*at)->digest, digest, 16) != 0)
        at = &(*at)->next;
    return at;
}

enum tn_claim tn_ledger_claim(struct tn_ledger *l, const char *key)
{
    enum tn_claim answer = TN_CLAIM_KNOWN;
    unsigned char digest[16];

    pthread_mutex_lock(&l->lock);
    if (!look_up(l, key, digest)) {
        struct claim **at = find_claim(l, digest);
        answer = *at ? TN_CLAIM_OTHERS : TN_CLAIM_MINE;
        if (!*at) {
            *at = tn_calloc(1, sizeof **at);
            memcpy((*at)->digest, digest, 16);
        }
    }
    pthread_mutex_unlock(&l->lock);
    return answer;
}

void tn_ledger_unclaim(struct tn_ledger *l, const char *key)
{
    unsigned char digest[16];

    digest_key(key, digest);
    pthread_mutex_lock(&l->lock);
    struct claim **at = find_claim(l, digest), *mine = *at;
    if (mine)
        *at = mine->next;
    pthread_mutex_unlock(&l->lock);
    free(mine);
}

/* --- noting ----------------------------------------------------------------------------------- */

struct tn_noted tn_ledger_begin(struct tn_ledger *l, const struct tn_action *action,
                                const char *key, int64_t start)
{
    struct tn_noted noted = {.keyed = key, .start = start};
    struct tn_action entry = *action; /* borrows everything */
    struct known_key *known = NULL;
    char digest[TN_ACTION_DIGEST_SIZE] = "";

    if (key)
        tn_action_digest(action, digest);
    /* what the action itself says of a key is a stranger's word */
    entry.event.idempotency_key = (char *)(uintptr_t)key;
    entry.event.digest = key ? digest : NULL;
    entry.event.start = (struct tn_opt_int){.set = key, .value = start};
    pthread_mutex_lock(&l->lock);
    if (key)
        known = look_up(l, key, noted.digest);
    noted.known = known;
    noted.other = known && *known->of && strcmp(known->of, digest) != 0;
    noted.id = known ? known->action : tn_note_action(l->journal, &entry);
    if (key && !known) {
        known = add_key(l, noted.digest, noted.id, start);
        memcpy(known->of, digest, sizeof digest);
    }
    if (known && !noted.other) {
        noted.answered = known->answered;
        noted.running = noted.known && known->running;
        noted.start = known->start;
        known->running = !known->answered;
    }
    pthread_mutex_unlock(&l->lock);
    return noted;
}

bool tn_ledger_end(struct tn_ledger *l, const struct tn_action *action,
                   const struct tn_noted *noted, tn_ledger_report_fn fn, void *ctx,
                   struct tn_observation *observation)
{
    tn_autofree char *report = NULL;

    pthread_mutex_lock(&l->lock);
    struct known_key *key = noted->keyed ? find_key(l, noted->digest) : NULL;
    bool first = !key || !key->answered;
    if (tn_report_is_due(observation)) {
        if (!first)
            report = tn_strdup_or_null(key->report);
        else if (fn)
            report = fn(ctx);
    }
    if (key && first) {
        key->running = false;
        key->answered = true;
        key->report = tn_strdup_or_null(report);
    }
    struct tn_stream *journal = l->journal;
    pthread_mutex_unlock(&l->lock);
    bool changed = tn_report_add(observation, report);
    if (first) /* outside the lock: a slow disk holds up this action alone */
        tn_note_observation(journal, action, noted->id, observation);
    return changed;
}

void tn_ledger_fail(struct tn_ledger *l, const struct tn_action *action,
                    const struct tn_noted *noted, const char *why)
{
    tn_autoobservation struct tn_observation failure;

    tn_observation_init_error(&failure, NULL, "%s", why);
    free(failure.error_id);
    failure.error_id = tn_strdup(NO_ANSWER);
    pthread_mutex_lock(&l->lock);
    struct known_key *key = noted->keyed ? find_key(l, noted->digest) : NULL;
    if (key)
        key->running = false;
    struct tn_stream *journal = l->journal;
    pthread_mutex_unlock(&l->lock);
    tn_note_observation(journal, action, noted->id, &failure);
}

int tn_ledger_answer(struct tn_ledger *l, const struct tn_noted *noted, struct tn_buf *out)
{
    struct tn_journal_event event;

    if (noted->id < 0 || !tn_ledger_is_open(l))
        return -1;
    tn_autojournalreader struct tn_journal_reader *r =
        tn_journal_reader_new(l->directory, noted->id + 1, NULL);
    while (r && tn_journal_next(r, &event, NULL) == 1) {
        tn_autojson struct tn_json *tree = NULL;
        if (tn_json_parse(event.json, event.len, &tree, NULL) || !is_answer(tree) ||
            tn_json_int(tn_json_get(tree, "cause"), -1) != noted->id)
            continue;
        tn_buf_reset(out);
        return tn_buf_add(out, event.json, event.len);
    }
    return -1;
}
