#include "service/desk.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "event/journal.h"
#include "runtime/sandbox-journal.h"
#include "runtime/sandbox-report.h"
#include "service/proxy.h"

enum {
    BUCKETS = 512,
    MAX_DESKS = 1024, /* kept at a time, unless more are in use */
    MAX_IDLE = 4,     /* connections of one desk that nobody uses */
    MAX_KEYS = 4096,  /* as many as a hand remembers */
    LOOK_BACK = 4096, /* events of a journal that are searched for keys of another process */
};

enum { START_UNKNOWN = -1 }; /* of an action that a service before noted without it */

/* The error_id of an observation that stands for one that nobody could give. */
#define NO_ANSWER "no_answer"

/* An idempotency key that the journal knows, by its digest. */
struct known_key {
    unsigned char digest[16];
    int64_t action; /* id of its event */
    int64_t start;  /* as struct noted has it */
    bool answered;
    char *report; /* that was added to the answer, or NULL */
};

/* `refs`, `next` and `forgotten` are under the lock of all desks, the rest under its own. */
struct desk {
    struct desks *all;
    struct desk *next;
    char id[11];
    int refs;
    bool forgotten; /* out of the table: whoever leaves it last frees it */
    int64_t used;
    pthread_mutex_t lock;
    char *address; /* of the idle clients */
    struct tn_hand_client *idle[MAX_IDLE];
    int idle_count;
    struct tn_stream *journal;
    struct known_key *keys; /* a ring once it is full */
    size_t key_count, key_room, key_next;
    bool keys_read;
};

struct desks {
    pthread_mutex_t lock;
    struct desk *buckets[BUCKETS];
    size_t count;
};

/* --- the table ------------------------------------------------------------------------------- */

struct desks *desks_new(void)
{
    struct desks *all = tn_calloc(1, sizeof *all);

    pthread_mutex_init(&all->lock, NULL);
    return all;
}

static void drop_clients(struct desk *d)
{
    while (d->idle_count)
        tn_hand_client_free(d->idle[--d->idle_count]);
    free(TN_TAKE_PTR(d->address));
}

static void free_desk(struct desk *d)
{
    drop_clients(d);
    if (d->journal)
        tn_stream_close(d->journal);
    pthread_mutex_destroy(&d->lock);
    for (size_t i = 0; i < d->key_count; i++)
        free(d->keys[i].report);
    free(d->keys);
    free(d);
}

void desks_free(struct desks *all)
{
    if (!all)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (all->buckets[i]) {
            struct desk *d = all->buckets[i];
            all->buckets[i] = d->next;
            free_desk(d);
        }
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static struct desk **bucket(struct desks *all, const char *id)
{
    unsigned hash = 5381;

    for (; *id; id++)
        hash = hash * 33 + (unsigned char)*id;
    return &all->buckets[hash % BUCKETS];
}

/* Takes the one out that was not used for longest; NULL when all are in use.  Under the lock. */
static struct desk *take_oldest(struct desks *all)
{
    struct desk **oldest = NULL;

    for (size_t i = 0; i < BUCKETS; i++)
        for (struct desk **d = &all->buckets[i]; *d; d = &(*d)->next)
            if (!(*d)->refs && (!oldest || (*d)->used < (*oldest)->used))
                oldest = d;
    if (!oldest)
        return NULL;
    struct desk *d = *oldest;
    *oldest = d->next;
    all->count--;
    return d;
}

struct desk *desk_take(struct box *b)
{
    struct desks *all = box_service(b)->desks;
    struct desk *d, *spare = NULL;

    pthread_mutex_lock(&all->lock);
    for (d = *bucket(all, box_id(b)); d && strcmp(d->id, box_id(b)) != 0;)
        d = d->next;
    if (!d) {
        if (all->count >= MAX_DESKS)
            spare = take_oldest(all);
        struct desk **first = bucket(all, box_id(b));
        d = tn_calloc(1, sizeof *d);
        d->all = all;
        snprintf(d->id, sizeof d->id, "%s", box_id(b));
        pthread_mutex_init(&d->lock, NULL);
        d->next = *first;
        *first = d;
        all->count++;
    }
    d->refs++;
    d->used = tn_now();
    pthread_mutex_unlock(&all->lock);
    if (spare)
        free_desk(spare);
    return d;
}

void desk_release(struct desk *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->all->lock);
    bool last = --d->refs == 0 && d->forgotten;
    pthread_mutex_unlock(&d->all->lock);
    if (last)
        free_desk(d);
}

void desks_forget(struct desks *all, const char *id)
{
    struct desk **at = bucket(all, id), *d;

    pthread_mutex_lock(&all->lock);
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    d = *at;
    if (d) {
        *at = d->next;
        all->count--;
        d->forgotten = true;
    }
    bool unused = d && d->refs == 0;
    pthread_mutex_unlock(&all->lock);
    if (unused)
        free_desk(d);
}

/* --- connections ----------------------------------------------------------------------------- */

struct tn_hand_client *desk_client(struct desk *d, const char *address, const char *key,
                                   struct tn_error *err)
{
    struct tn_hand_client *client = NULL;

    pthread_mutex_lock(&d->lock);
    if (d->address && strcmp(d->address, address) != 0)
        drop_clients(d);
    if (d->idle_count)
        client = d->idle[--d->idle_count];
    pthread_mutex_unlock(&d->lock);
    return client ? client : tn_hand_client_new(address, key, err);
}

void desk_put_client(struct desk *d, const char *address, struct tn_hand_client *client)
{
    pthread_mutex_lock(&d->lock);
    if (!d->address)
        d->address = tn_strdup(address);
    bool keep = d->idle_count < MAX_IDLE && strcmp(d->address, address) == 0;
    if (keep)
        d->idle[d->idle_count++] = client;
    pthread_mutex_unlock(&d->lock);
    if (!keep)
        tn_hand_client_free(client);
}

/* --- the journal ----------------------------------------------------------------------------- */

/* Under the desk's lock. */
static struct tn_stream *open_journal(struct desk *d, struct box *b)
{
    autoview struct box_view view = {0};
    struct tn_sandbox_journal of = {.directory = box_directory(b),
                                    .config = tn_runtime_host(box_service(b)->rt)->config};

    if (d->journal || !of.directory)
        return d->journal;
    box_look(b, &view);
    of.key = view.session_key;
    of.env = view.spec.env;
    d->journal = tn_sandbox_journal_open(&of);
    return d->journal;
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

static struct known_key *find_key(struct desk *d, const unsigned char digest[16])
{
    for (size_t i = 0; i < d->key_count; i++)
        if (memcmp(d->keys[i].digest, digest, 16) == 0)
            return &d->keys[i];
    return NULL;
}

static struct known_key *find_action(struct desk *d, int64_t id)
{
    for (size_t i = 0; i < d->key_count; i++)
        if (d->keys[i].action == id)
            return &d->keys[i];
    return NULL;
}

static struct known_key *add_key(struct desk *d, const unsigned char digest[16], int64_t action,
                                 int64_t start)
{
    if (d->key_count == d->key_room && d->key_room < MAX_KEYS) {
        d->key_room = d->key_room ? 2 * d->key_room : 16;
        d->keys = tn_realloc(d->keys, d->key_room * sizeof *d->keys);
    }
    if (d->key_count < d->key_room)
        d->key_next = d->key_count++;
    else
        free(d->keys[d->key_next].report);
    struct known_key *k = &d->keys[d->key_next];
    d->key_next = (d->key_next + 1) % MAX_KEYS;
    *k = (struct known_key){.action = action, .start = start};
    memcpy(k->digest, digest, 16);
    return k;
}

static bool is_answer(const struct tn_json *event)
{
    const char *id = tn_json_get_str(tn_json_get(event, "extras"), "error_id", "");

    return tn_event_kind(event) == TN_EVENT_OBSERVATION && strcmp(id, NO_ANSWER) != 0;
}

/* What an answer of a service before this one reports: the hand would tell it again without. */
static char *report_in(const struct tn_json *event)
{
    struct tn_observation observation;

    if (tn_observation_from_json(event, &observation, NULL))
        return NULL;
    char *report = tn_report_of(&observation);
    tn_observation_done(&observation);
    return report;
}

/* One event of the journal.  Under the desk's lock. */
static void read_key(struct desk *d, int64_t id, const struct tn_json *event)
{
    const char *key = tn_json_get_str(event, "idempotency_key", NULL);
    int64_t cause = tn_json_int(tn_json_get(event, "cause"), -1);
    struct known_key *of = cause >= 0 ? find_action(d, cause) : NULL;
    unsigned char digest[16];

    if (key && tn_event_kind(event) == TN_EVENT_ACTION) {
        digest_key(key, digest);
        add_key(d, digest, id, tn_json_int(tn_json_get(event, "start"), START_UNKNOWN));
    } else if (of && is_answer(event)) {
        of->answered = true;
        free(of->report);
        of->report = report_in(event);
    }
}

/* What the journal says of the keys of a service before this one.  Under the desk's lock. */
static void read_keys(struct desk *d, const char *directory)
{
    int64_t last = tn_stream_last_id(d->journal);
    struct tn_journal_event event;

    d->keys_read = true;
    tn_autojournalreader struct tn_journal_reader *r =
        tn_journal_reader_new(directory, last > LOOK_BACK ? last - LOOK_BACK : 0, NULL);
    while (r && tn_journal_next(r, &event, NULL) == 1 && event.id <= last) {
        tn_autojson struct tn_json *tree = NULL;
        if (!tn_json_parse(event.json, event.len, &tree, NULL))
            read_key(d, event.id, tree);
    }
}

static int64_t start_of(struct box *b)
{
    autoview struct box_view view = {0};

    box_look(b, &view);
    return view.restarts;
}

struct noted desk_note_action(struct desk *d, struct box *b, const struct tn_action *action,
                              const char *idempotency)
{
    struct tn_action entry = *action; /* borrows everything */
    const struct known_key *key = NULL;
    struct noted noted = {0};
    unsigned char digest[16];

    entry.event.idempotency_key = (char *)(uintptr_t)idempotency;
    entry.event.start = (struct tn_opt_int){.set = idempotency, .value = start_of(b)};
    pthread_mutex_lock(&d->lock);
    struct tn_stream *journal = open_journal(d, b);
    if (journal && idempotency) {
        if (!d->keys_read)
            read_keys(d, box_directory(b));
        digest_key(idempotency, digest);
        key = find_key(d, digest);
    }
    noted.known = key != NULL;
    noted.id = key ? key->action : tn_note_action(journal, &entry);
    if (!key && idempotency && noted.id >= 0)
        key = add_key(d, digest, noted.id, entry.event.start.value);
    if (key) {
        noted.answered = key->answered;
        noted.start = key->start;
    }
    pthread_mutex_unlock(&d->lock);
    return noted;
}

bool desk_note_observation(struct desk *d, struct box *b, const struct tn_action *action,
                           int64_t id, const char *known, struct tn_observation *observation)
{
    tn_autofree char *report = NULL;

    pthread_mutex_lock(&d->lock);
    struct known_key *key = find_action(d, id);
    bool first = !key || !key->answered;
    if (tn_report_is_due(observation))
        report = first ? box_take_report(b, known) : tn_strdup_or_null(key->report);
    if (key && first) {
        key->answered = true;
        key->report = tn_strdup_or_null(report);
    }
    struct tn_stream *journal = d->journal;
    pthread_mutex_unlock(&d->lock);
    bool changed = tn_report_add(observation, report);
    if (first)
        tn_note_observation(journal, action, id, observation);
    return changed;
}

void desk_note_failure(struct desk *d, const struct tn_action *action, int64_t id, const char *why)
{
    tn_autoobservation struct tn_observation failure;

    if (id < 0)
        return;
    tn_observation_init(&failure, TN_OBSERVATION_ERROR);
    tn_observation_set_content(&failure, why);
    free(failure.error_id);
    failure.error_id = tn_strdup(NO_ANSWER);
    tn_note_observation(d->journal, action, id, &failure);
}

int desk_read_answer(struct box *b, int64_t id, struct tn_buf *out)
{
    tn_autojournalreader struct tn_journal_reader *r =
        tn_journal_reader_new(box_directory(b), id + 1, NULL);
    struct tn_journal_event event;

    while (r && tn_journal_next(r, &event, NULL) == 1) {
        tn_autojson struct tn_json *tree = NULL;
        if (tn_json_parse(event.json, event.len, &tree, NULL) || !is_answer(tree) ||
            tn_json_int(tn_json_get(tree, "cause"), -1) != id)
            continue;
        tn_buf_reset(out);
        return tn_buf_add(out, event.json, event.len);
    }
    return -1;
}

int desk_hide(struct desk *d, const char *text, struct tn_buf *out)
{
    return d->journal ? tn_stream_hide(d->journal, text, out) : -1;
}
