#include "event/stream.h"

#include <pthread.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "event/journal.h"
#include "event/mirror.h"

#define CLOSE_SECONDS 2.0

const char *const tn_source_words[] = {
    [TN_SOURCE_AGENT] = "agent",
    [TN_SOURCE_USER] = "user",
    [TN_SOURCE_ENVIRONMENT] = "environment",
    NULL,
};

const char *const tn_subscriber_words[] = {
    [TN_SUBSCRIBER_AGENT_CONTROLLER] = "agent_controller",
    [TN_SUBSCRIBER_OPENHANDS_RESOLVER] = "openhands_resolver",
    [TN_SUBSCRIBER_SERVER] = "server",
    [TN_SUBSCRIBER_RUNTIME] = "runtime",
    [TN_SUBSCRIBER_MEMORY] = "memory",
    [TN_SUBSCRIBER_MAIN] = "main",
    [TN_SUBSCRIBER_TEST] = "test",
    NULL,
};

/* One who reads along: a subscriber, or the copy in OpenHands' layout.  `told`, `stop` and `ended`
 * are under the stream's lock, everything else belongs to its thread while that runs. */
struct follower {
    struct follower *next;
    struct tn_stream *stream;
    enum tn_subscriber who;
    char *callback_id; /* NULL: the copy */
    tn_stream_fn fn;
    void *ctx;
    struct mirror *mirror;
    struct tn_journal_reader *reader;
    int64_t told; /* id of the last event it got, or from - 1 */
    bool stop, ended;
    pthread_t thread;
};

/* lock: journal, followers, last, and the order of ids.  Who holds it never waits for a follower.
 * Secrets have a lock of their own, because hiding them is the long part of adding an event. */
struct tn_stream {
    char *directory;
    bool log_only;
    pthread_mutex_t lock;
    pthread_cond_t more;     /* an event came, or a follower must stop */
    pthread_cond_t progress; /* a follower was told something, or ended */
    struct tn_journal *journal;
    int64_t last;
    struct follower *followers;
    struct follower *copy; /* not in the list; NULL until the first event */
    pthread_rwlock_t mask_lock;
    struct tn_mask *mask;
};

/* --- followers -------------------------------------------------------------------------------- */

static int tell(struct follower *f, const struct tn_journal_event *event)
{
    tn_autojson struct tn_json *tree = NULL;

    if (f->mirror)
        /* A full disk or a removed directory: the next one to open the stream makes up for it. */
        return mirror_add(f->mirror, event, NULL);
    if (tn_json_parse(event->json, event->len, &tree, NULL))
        return 0;
    struct tn_stream_event e = {.id = event->id,
                                .kind = tn_event_kind(tree),
                                .tree = tree,
                                .json = event->json,
                                .len = event->len};
    return f->fn(&e, f->ctx);
}

/* Waits for an event this follower has not got; false when it is to end. */
static bool wait_for_more(struct follower *f)
{
    struct tn_stream *s = f->stream;

    pthread_mutex_lock(&s->lock);
    while (!f->stop && f->told >= s->last)
        pthread_cond_wait(&s->more, &s->lock);
    bool more = !f->stop;
    pthread_mutex_unlock(&s->lock);
    return more;
}

/* Notes how far it is; false when it is to end. */
static bool note(struct follower *f, int64_t told, bool ended)
{
    struct tn_stream *s = f->stream;

    pthread_mutex_lock(&s->lock);
    f->told = told;
    f->ended = ended;
    bool more = !f->stop && !ended;
    pthread_cond_broadcast(&s->progress);
    pthread_mutex_unlock(&s->lock);
    return more;
}

static void *follow(void *arg)
{
    struct follower *f = arg;
    struct tn_journal_event event;

    while (wait_for_more(f)) {
        int found = tn_journal_next(f->reader, &event, NULL);
        if (found != 1) {
            /* It was there and is not any more: the journal is gone or broken. */
            note(f, f->told, true);
            break;
        }
        bool over = tell(f, &event) != 0;
        if (!note(f, event.id, over))
            break;
    }
    return NULL;
}

/* The copy finds out for itself where it ends, so that nobody has to wait for that. */
static void *follow_as_copy(void *arg)
{
    struct follower *f = arg;
    const char *directory = f->stream->directory;
    int64_t from;

    f->mirror = mirror_open(directory, f->told + 1, &from, NULL);
    f->reader = f->mirror ? tn_journal_reader_new(directory, from, NULL) : NULL;
    if (f->reader)
        return follow(f);
    note(f, f->told, true);
    return NULL;
}

static void free_follower(struct follower *f)
{
    if (!f)
        return;
    tn_journal_reader_free(f->reader);
    mirror_close(f->mirror);
    free(f->callback_id);
    free(f);
}

/* Starts the thread; takes the follower over, also when it fails. */
static struct follower *start(struct follower *f, void *(*run)(void *), struct tn_error *err)
{
    int failed = tn_thread_start(&f->thread, run, f);

    if (!failed)
        return f;
    free_follower(f);
    tn_fail_errno(err, failed, "cannot start a thread");
    return NULL;
}

/* Not in the list any more: ends its thread and frees it.  Without the lock. */
static void end(struct follower *f)
{
    struct tn_stream *s = f->stream;

    pthread_mutex_lock(&s->lock);
    f->stop = true;
    pthread_cond_broadcast(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(f->thread, NULL);
    free_follower(f);
}

/* --- subscribing ------------------------------------------------------------------------------ */

/* The place in the list that points to it, or to NULL at the end. */
static struct follower **find(struct tn_stream *s, enum tn_subscriber who, const char *callback_id)
{
    struct follower **f = &s->followers;

    while (*f && ((*f)->who != who || strcmp((*f)->callback_id, callback_id) != 0))
        f = &(*f)->next;
    return f;
}

/* Under the lock. */
static struct follower *subscribe(struct follower *f, int64_t from, struct tn_error *err)
{
    f->told = from - 1;
    f->reader = tn_journal_reader_new(f->stream->directory, from, err);
    if (f->reader)
        return start(f, follow, err);
    free_follower(f);
    return NULL;
}

int tn_stream_subscribe(struct tn_stream *s, enum tn_subscriber who, const char *callback_id,
                        int64_t from, tn_stream_fn fn, void *ctx, struct tn_error *err)
{
    struct follower *f = tn_calloc(1, sizeof *f), **place;
    int result = 0;

    *f = (struct follower){
        .stream = s, .who = who, .callback_id = tn_strdup(callback_id), .fn = fn, .ctx = ctx};
    pthread_mutex_lock(&s->lock);
    place = find(s, who, callback_id);
    if (*place) {
        free_follower(f);
        result = tn_fail(err, TN_E_CONFLICT, "%s has a callback '%s' already",
                         tn_subscriber_words[who], callback_id);
    } else {
        *place = subscribe(f, from < 0 ? s->last + 1 : from, err);
        result = *place ? 0 : -1;
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

int tn_stream_unsubscribe(struct tn_stream *s, enum tn_subscriber who, const char *callback_id,
                          struct tn_error *err)
{
    pthread_mutex_lock(&s->lock);
    struct follower **place = find(s, who, callback_id), *f = *place;
    if (f)
        *place = f->next;
    pthread_mutex_unlock(&s->lock);
    if (!f)
        return tn_fail(err, TN_E_NOT_FOUND, "%s has no callback '%s'", tn_subscriber_words[who],
                       callback_id);
    end(f);
    return 0;
}

static bool all_told(const struct follower *f, int64_t last)
{
    for (; f; f = f->next)
        if (!f->ended && f->told < last)
            return false;
    return true;
}

/* Under the lock.  `f` is checked with its successors. */
static bool wait_until_told(struct tn_stream *s, struct follower *const *f, int64_t deadline)
{
    int64_t last = s->last;
    struct timespec until = tn_timespec(deadline);
    bool told;
    int late = 0;

    while (!(told = all_told(*f, last)) && !late)
        late = deadline == TN_NEVER ? pthread_cond_wait(&s->progress, &s->lock)
                                    : pthread_cond_timedwait(&s->progress, &s->lock, &until);
    return told;
}

int tn_stream_flush(struct tn_stream *s, int64_t deadline, struct tn_error *err)
{
    pthread_mutex_lock(&s->lock);
    bool told = wait_until_told(s, &s->followers, deadline);
    pthread_mutex_unlock(&s->lock);
    return told ? 0 : tn_fail(err, TN_E_TIMEOUT, "not all subscribers have heard everything");
}

/* --- adding ----------------------------------------------------------------------------------- */

/* As Python's datetime.now().isoformat() has it: local time, microseconds, no zone. */
static void put_timestamp(char out[48])
{
    struct timeval now;
    struct tm local;

    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &local);
    size_t n = strftime(out, 48, "%Y-%m-%dT%H:%M:%S", &local);
    snprintf(out + n, 48 - n, ".%06ld", (long)now.tv_usec);
}

static int hide_secrets(struct tn_stream *s, const struct tn_buf *event, struct tn_buf *hidden,
                        struct tn_error *err)
{
    pthread_rwlock_rdlock(&s->mask_lock);
    int failed = tn_mask_event(s->mask, tn_buf_str(event), event->len, hidden, err);
    pthread_rwlock_unlock(&s->mask_lock);
    return failed;
}

/* Under the lock.  The copy is only a convenience: without it the stream works just as well. */
static void start_copy(struct tn_stream *s, int64_t first)
{
    struct follower *f = tn_calloc(1, sizeof *f);

    s->log_only = true; /* tried once */
    *f = (struct follower){.stream = s, .told = first - 1};
    s->copy = start(f, follow_as_copy, NULL);
}

static int add(struct tn_stream *s, const struct tn_buf *event, int64_t *id, struct tn_error *err)
{
    tn_autobuf struct tn_buf hidden = TN_BUF_INIT(TN_EVENT_MAX);
    int64_t given;

    if (!tn_buf_ok(event))
        return tn_fail(err, TN_E_TOO_LARGE, "event: larger than %zu MiB", TN_EVENT_MAX >> 20);
    if (hide_secrets(s, event, &hidden, err))
        return -1;
    pthread_mutex_lock(&s->lock);
    int failed = tn_journal_append(s->journal, hidden.data, hidden.len, &given, err);
    if (!failed) {
        s->last = given;
        if (!s->log_only)
            start_copy(s, given);
        if (s->followers || s->copy)
            pthread_cond_broadcast(&s->more);
    }
    pthread_mutex_unlock(&s->lock);
    if (!failed && id)
        *id = given;
    return failed;
}

static int check_new(const struct tn_event *e, struct tn_error *err)
{
    return e->id.set ? tn_fail(err, TN_E_CONFLICT, "the event has the id %lld already",
                               (long long)e->id.value)
                     : 0;
}

/* Borrowed strings: the copy of an event that gets them is only written, never freed. */
static void sign(struct tn_event *e, char timestamp[48], enum tn_source source)
{
    put_timestamp(timestamp);
    e->timestamp = timestamp;
    e->source = (char *)(uintptr_t)tn_source_words[source];
}

int tn_stream_add_action(struct tn_stream *s, const struct tn_action *action, enum tn_source source,
                         int64_t *id, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_EVENT_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_action copy = *action;
    char timestamp[48];

    if (check_new(&action->event, err))
        return -1;
    sign(&copy.event, timestamp, source);
    tn_action_to_json(&copy, &w);
    return add(s, &text, id, err);
}

int tn_stream_add_observation(struct tn_stream *s, const struct tn_observation *observation,
                              enum tn_source source, int64_t cause, int64_t *id,
                              struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_EVENT_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_observation copy = *observation;
    char timestamp[48];

    if (check_new(&observation->event, err))
        return -1;
    sign(&copy.event, timestamp, source);
    if (cause >= 0)
        copy.event.cause = (struct tn_opt_int){.set = true, .value = cause};
    tn_observation_to_json(&copy, &w);
    return add(s, &text, id, err);
}

int tn_stream_set_secrets(struct tn_stream *s, const struct tn_secret *secrets, size_t count,
                          struct tn_error *err)
{
    pthread_rwlock_wrlock(&s->mask_lock);
    int failed = tn_mask_set(s->mask, secrets, count, err);
    pthread_rwlock_unlock(&s->mask_lock);
    return failed;
}

int tn_stream_update_secrets(struct tn_stream *s, const struct tn_secret *secrets, size_t count,
                             struct tn_error *err)
{
    pthread_rwlock_wrlock(&s->mask_lock);
    int failed = tn_mask_update(s->mask, secrets, count, err);
    pthread_rwlock_unlock(&s->mask_lock);
    return failed;
}

int tn_stream_hide(struct tn_stream *s, const char *text, struct tn_buf *out)
{
    pthread_rwlock_rdlock(&s->mask_lock);
    int failed = tn_mask_text(s->mask, text, strlen(text), out);
    pthread_rwlock_unlock(&s->mask_lock);
    return failed;
}

int64_t tn_stream_last_id(struct tn_stream *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t last = s->last;
    pthread_mutex_unlock(&s->lock);
    return last;
}

/* --- opening and closing ---------------------------------------------------------------------- */

struct tn_stream *tn_stream_open(const struct tn_stream_options *options, struct tn_error *err)
{
    struct tn_journal *journal = tn_journal_open(
        options->directory,
        (options->sync ? TN_JOURNAL_SYNC : 0) | (options->existing ? TN_JOURNAL_EXISTING : 0), err);

    if (!journal)
        return NULL;
    /* Readers come later, when this process may be in another directory. */
    char *directory = realpath(options->directory, NULL);
    if (!directory) {
        tn_fail_errno(err, errno, "%s", options->directory);
        tn_journal_close(journal);
        return NULL;
    }
    struct tn_stream *s = tn_calloc(1, sizeof *s);
    *s = (struct tn_stream){.directory = directory,
                            .log_only = options->log_only,
                            .journal = journal,
                            .last = tn_journal_next_id(journal) - 1,
                            .mask = tn_mask_new()};
    pthread_mutex_init(&s->lock, NULL);
    pthread_rwlock_init(&s->mask_lock, NULL);
    tn_cond_init(&s->more);
    tn_cond_init(&s->progress);
    return s;
}

static void end_subscriptions(struct tn_stream *s)
{
    struct follower *f;

    do {
        pthread_mutex_lock(&s->lock);
        f = s->followers;
        if (f)
            s->followers = f->next;
        pthread_mutex_unlock(&s->lock);
        if (f)
            end(f);
    } while (f);
}

void tn_stream_close(struct tn_stream *s)
{
    if (!s)
        return;
    end_subscriptions(s);
    if (s->copy) {
        pthread_mutex_lock(&s->lock);
        wait_until_told(s, &s->copy, tn_deadline_in(CLOSE_SECONDS));
        pthread_mutex_unlock(&s->lock);
        end(s->copy);
    }
    tn_journal_close(s->journal);
    tn_mask_free(s->mask);
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->progress);
    pthread_rwlock_destroy(&s->mask_lock);
    pthread_mutex_destroy(&s->lock);
    free(s->directory);
    free(s);
}
