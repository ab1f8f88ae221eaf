#include <pthread.h>
#include <semaphore.h>

#include "base/clock.h"
#include "event/stream.h"
#include "session.h"

#define SOON tn_deadline_in(60)

static struct tn_stream *open_stream(const char *directory, bool log_only)
{
    struct tn_stream_options options = {.directory = directory, .log_only = log_only};
    struct tn_error err = {0};
    struct tn_stream *s = tn_stream_open(&options, &err);
    if (!s)
        fail_msg("%s", err.text);
    return s;
}

static int64_t add_run(struct tn_stream *s, const char *command)
{
    tn_autoaction struct tn_action a;
    struct tn_error err = {0};
    int64_t id = -1;

    tn_action_init(&a, TN_ACTION_RUN);
    a.run.command = tn_strdup(command);
    if (tn_stream_add_action(s, &a, TN_SOURCE_AGENT, &id, &err))
        fail_msg("%s", err.text);
    return id;
}

static int64_t add_answer(struct tn_stream *s, const char *content, int64_t cause)
{
    tn_autoobservation struct tn_observation o;
    struct tn_error err = {0};
    int64_t id = -1;

    tn_observation_init(&o, TN_OBSERVATION_RUN);
    tn_observation_set_content(&o, content);
    if (tn_stream_add_observation(s, &o, TN_SOURCE_AGENT, cause, &id, &err))
        fail_msg("%s", err.text);
    return id;
}

/* The event as it is in the journal. */
static struct tn_json *stored(const char *directory, int64_t id)
{
    tn_autojournalreader struct tn_journal_reader *r = open_reader(directory, id);
    struct tn_journal_event e;
    struct tn_json *tree = NULL;

    assert_int_equal(tn_journal_next(r, &e, NULL), 1);
    assert_int_equal(e.id, id);
    assert_int_equal(tn_json_parse(e.json, e.len, &tree, NULL), 0);
    return tree;
}

/* --- adding ----------------------------------------------------------------------------------- */

static void test_what_an_event_gets(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);

    assert_int_equal(tn_stream_last_id(s), -1);
    assert_int_equal(add_run(s, "ls"), 0);
    assert_int_equal(add_answer(s, "a b", 0), 1);
    assert_int_equal(tn_stream_last_id(s), 1);
    tn_stream_close(s);

    tn_autojson struct tn_json *action = stored(dir, 0), *observation = stored(dir, 1);
    assert_int_equal(tn_json_int(tn_json_get(action, "id"), -1), 0);
    assert_string_equal(tn_json_get_str(action, "source", ""), "agent");
    assert_string_equal(tn_json_get_str(action, "message", ""), "Running command: ls");
    assert_false(tn_json_has(action, "cause"));
    assert_int_equal(tn_json_int(tn_json_get(observation, "cause"), -1), 0);
    assert_string_equal(tn_json_get_str(observation, "content", ""), "a b");
    const char *time = tn_json_get_str(action, "timestamp", "");
    assert_int_equal(strlen(time), strlen("2026-11-15T05:16:50.123456"));
    assert_true(time[10] == 'T' && time[19] == '.');

    s = open_stream(dir, true);
    assert_int_equal(add_run(s, "pwd"), 2);
    tn_stream_close(s);
}

static void test_event_with_an_id_is_refused(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);
    tn_autoaction struct tn_action a;
    struct tn_error err = {0};

    tn_action_init(&a, TN_ACTION_THINK);
    a.event.id = (struct tn_opt_int){.set = true, .value = 5};
    assert_int_equal(tn_stream_add_action(s, &a, TN_SOURCE_USER, NULL, &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_int_equal(tn_stream_last_id(s), -1);
    tn_stream_close(s);
}

static void test_secrets_are_not_stored(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, false);
    struct tn_secret old = {"TOKEN", "ghp_oldtoken"}, new = {"TOKEN", "ghp_newtoken"};

    assert_int_equal(tn_stream_set_secrets(s, &old, 1, NULL), 0);
    assert_int_equal(tn_stream_update_secrets(s, &new, 1, NULL), 0);
    add_run(s, "curl -H ghp_oldtoken");
    add_answer(s, "ghp_newtoken", 0);
    tn_stream_close(s);
    tn_autofree char *log = read_whole(dir, TN_JOURNAL_LOG, NULL),
                     *file = read_whole(dir, "events/0.json", NULL);
    assert_null(strstr(log, "ghp_"));
    assert_null(strstr(file, "ghp_"));
    assert_non_null(strstr(file, "curl -H " TN_SECRET_HIDDEN));
}

static void test_confirmation_survives(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);
    tn_autoaction struct tn_action a, back;

    tn_action_init(&a, TN_ACTION_EDIT);
    a.edit.path = tn_strdup("/x");
    a.confirmation_state = TN_AWAITING_CONFIRMATION;
    assert_int_equal(tn_stream_add_action(s, &a, TN_SOURCE_AGENT, NULL, NULL), 0);
    tn_stream_close(s);
    tn_autojson struct tn_json *tree = stored(dir, 0);
    assert_int_equal(tn_action_from_json(tree, &back, NULL), 0);
    assert_int_equal(back.confirmation_state, TN_AWAITING_CONFIRMATION);
}

/* --- being told ------------------------------------------------------------------------------- */

struct ear {
    sem_t heard, go;
    bool wait; /* for go, in each call */
    int64_t first, last;
    int count;
    bool ordered;
    int stop_after;           /* or 0 */
    struct tn_stream *answer; /* or NULL */
};

static void ear_init(struct ear *e)
{
    *e = (struct ear){.first = -1, .last = -1, .ordered = true};
    sem_init(&e->heard, 0, 0);
    sem_init(&e->go, 0, 0);
}

static int hear(const struct tn_stream_event *event, void *ctx)
{
    struct ear *e = ctx;

    if (e->count++ == 0)
        e->first = event->id;
    if (event->id <= e->last || tn_json_int(tn_json_get(event->tree, "id"), -1) != event->id)
        e->ordered = false;
    e->last = event->id;
    sem_post(&e->heard);
    if (e->wait)
        sem_wait(&e->go);
    if (e->answer && event->kind == TN_EVENT_ACTION)
        add_answer(e->answer, "done", event->id);
    return e->stop_after && e->count == e->stop_after;
}

static void test_order(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);
    struct ear from_now, from_start;

    ear_init(&from_now);
    ear_init(&from_start);
    add_run(s, "before");
    assert_int_equal(tn_stream_subscribe(s, TN_SUBSCRIBER_TEST, "now", -1, hear, &from_now, NULL),
                     0);
    assert_int_equal(
        tn_stream_subscribe(s, TN_SUBSCRIBER_TEST, "start", 0, hear, &from_start, NULL), 0);
    for (int i = 0; i < 200; i++)
        add_run(s, "x");
    assert_int_equal(tn_stream_flush(s, SOON, NULL), 0);
    assert_true(from_now.ordered && from_start.ordered);
    assert_int_equal(from_now.first, 1);
    assert_int_equal(from_now.count, 200);
    assert_int_equal(from_start.count, 201);
    tn_stream_close(s);
}

static void test_names_are_unique(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);
    struct tn_error err = {0};
    struct ear e;

    ear_init(&e);
    assert_int_equal(tn_stream_subscribe(s, TN_SUBSCRIBER_MAIN, "a", -1, hear, &e, &err), 0);
    assert_int_equal(tn_stream_subscribe(s, TN_SUBSCRIBER_MAIN, "a", -1, hear, &e, &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_int_equal(tn_stream_subscribe(s, TN_SUBSCRIBER_MEMORY, "a", -1, hear, &e, &err), 0);
    assert_int_equal(tn_stream_unsubscribe(s, TN_SUBSCRIBER_MAIN, "a", &err), 0);
    assert_int_equal(tn_stream_unsubscribe(s, TN_SUBSCRIBER_MAIN, "a", &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(tn_stream_subscribe(s, TN_SUBSCRIBER_MAIN, "a", -1, hear, &e, &err), 0);
    tn_stream_close(s);
}

/* One that stands still holds up nobody, and gets everything later. */
static void test_slow_subscriber(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);
    struct tn_error err = {0};
    struct ear slow, quick;

    ear_init(&slow);
    ear_init(&quick);
    slow.wait = true;
    tn_stream_subscribe(s, TN_SUBSCRIBER_TEST, "slow", -1, hear, &slow, NULL);
    tn_stream_subscribe(s, TN_SUBSCRIBER_TEST, "quick", -1, hear, &quick, NULL);
    for (int i = 0; i < 50; i++)
        add_run(s, "x");
    for (int i = 0; i < 50; i++)
        sem_wait(&quick.heard);
    sem_wait(&slow.heard);
    assert_int_equal(tn_stream_flush(s, tn_deadline_in(0.01), &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    for (int i = 0; i < 50; i++)
        sem_post(&slow.go);
    assert_int_equal(tn_stream_flush(s, SOON, NULL), 0);
    assert_int_equal(slow.count, 50);
    assert_true(slow.ordered);
    tn_stream_close(s);
}

/* Takes its time after it was called. */
static int dawdle(const struct tn_stream_event *event, void *ctx)
{
    struct ear *e = ctx;

    sem_post(&e->heard);
    for (int64_t until = tn_now() + 20 * TN_MILLI; tn_now() < until;)
        ;
    e->count++;
    return 0;
}

static void test_unsubscribe_waits(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);
    struct ear e;

    ear_init(&e);
    tn_stream_subscribe(s, TN_SUBSCRIBER_TEST, "t", -1, dawdle, &e, NULL);
    add_run(s, "x");
    sem_wait(&e.heard);
    assert_int_equal(tn_stream_unsubscribe(s, TN_SUBSCRIBER_TEST, "t", NULL), 0);
    assert_int_equal(e.count, 1);
    add_run(s, "y");
    assert_int_equal(e.count, 1);
    tn_stream_close(s);
}

static void test_callback_ends_its_subscription(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);
    struct ear e;

    ear_init(&e);
    e.stop_after = 3;
    tn_stream_subscribe(s, TN_SUBSCRIBER_TEST, "t", -1, hear, &e, NULL);
    for (int i = 0; i < 10; i++)
        add_run(s, "x");
    assert_int_equal(tn_stream_flush(s, SOON, NULL), 0);
    assert_int_equal(e.count, 3);
    assert_int_equal(tn_stream_unsubscribe(s, TN_SUBSCRIBER_TEST, "t", NULL), 0);
    tn_stream_close(s);
}

/* As a runtime does: each action is answered from the callback. */
static void test_callback_adds_events(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);
    struct ear runtime, other;

    ear_init(&runtime);
    ear_init(&other);
    runtime.answer = s;
    tn_stream_subscribe(s, TN_SUBSCRIBER_RUNTIME, "r", -1, hear, &runtime, NULL);
    tn_stream_subscribe(s, TN_SUBSCRIBER_SERVER, "s", -1, hear, &other, NULL);
    for (int i = 0; i < 20; i++)
        add_run(s, "x");
    for (int i = 0; i < 40; i++)
        sem_wait(&other.heard);
    assert_true(other.ordered);
    assert_int_equal(tn_stream_last_id(s), 39);
    tn_stream_close(s);
}

static void test_events_of_others(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true), *other = open_stream(dir, true);
    struct ear e;

    ear_init(&e);
    tn_stream_subscribe(s, TN_SUBSCRIBER_TEST, "t", 0, hear, &e, NULL);
    assert_int_equal(add_run(other, "a"), 0);
    assert_int_equal(add_run(other, "b"), 1);
    assert_int_equal(add_run(s, "c"), 2);
    assert_int_equal(tn_stream_flush(s, SOON, NULL), 0);
    assert_int_equal(e.count, 3);
    assert_true(e.ordered);
    tn_stream_close(other);
    tn_stream_close(s);
}

/* --- many threads ----------------------------------------------------------------------------- */

enum { ADDERS = 4, EACH = 100 };

static void *add_many(void *arg)
{
    for (int i = 0; i < EACH; i++)
        add_run(arg, "some-secret-value");
    return NULL;
}

static void *change_secrets(void *arg)
{
    struct tn_secret secrets[] = {{"A", "some-secret-value"}, {"B", "another-value"}};

    for (int i = 0; i < 50; i++) {
        tn_stream_update_secrets(arg, secrets, 2, NULL);
        tn_stream_set_secrets(arg, secrets, 1, NULL);
    }
    return NULL;
}

static void *come_and_go(void *arg)
{
    struct ear e;

    ear_init(&e);
    for (int i = 0; i < 20; i++) {
        tn_stream_subscribe(arg, TN_SUBSCRIBER_MEMORY, "guest", 0, hear, &e, NULL);
        tn_stream_unsubscribe(arg, TN_SUBSCRIBER_MEMORY, "guest", NULL);
        e.last = -1;
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, false);
    pthread_t threads[ADDERS + 2];
    struct ear ears[3];
    static const char *const names[] = {"a", "b", "c"};

    for (int i = 0; i < 3; i++) {
        ear_init(&ears[i]);
        tn_stream_subscribe(s, TN_SUBSCRIBER_TEST, names[i], -1, hear, &ears[i], NULL);
    }
    for (int i = 0; i < ADDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, s), 0);
    assert_int_equal(pthread_create(&threads[ADDERS], NULL, change_secrets, s), 0);
    assert_int_equal(pthread_create(&threads[ADDERS + 1], NULL, come_and_go, s), 0);
    for (int i = 0; i < ADDERS + 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(tn_stream_flush(s, SOON, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ears[i].count, ADDERS * EACH);
        assert_true(ears[i].ordered);
    }
    assert_int_equal(tn_stream_last_id(s), ADDERS * EACH - 1);
    tn_stream_close(s);
    assert_true(exists_in(dir, "event_cache/375-400.json"));
}

/* --- OpenHands' layout ------------------------------------------------------------------------ */

static void test_layout_of_openhands(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, false);

    for (int i = 0; i < 55; i++)
        add_run(s, "x");
    tn_stream_close(s);
    assert_true(exists_in(dir, "events/54.json"));
    assert_true(exists_in(dir, "event_cache/25-50.json"));
    assert_false(exists_in(dir, "event_cache/50-75.json"));
    tn_autofree char *page = read_whole(dir, "event_cache/25-50.json", NULL);
    tn_autojson struct tn_json *events = parse(page);
    assert_int_equal(tn_json_count(events), 25);
    for (size_t i = 0; i < 25; i++)
        assert_int_equal(tn_json_int(tn_json_get(tn_json_at(events, i), "id"), -1), 25 + i);
}

/* The copy was not finished, or the disk lost the newest of it: the next writer makes up for it. */
static void test_layout_is_mended(void **state)
{
    autosession char *dir = make_session();
    struct tn_stream *s = open_stream(dir, true);
    tn_autofree char *gone = path_in(dir, "events/47.json"),
                     *page = path_in(dir, "event_cache/25-50.json");

    for (int i = 0; i < 60; i++)
        add_run(s, "x");
    tn_stream_close(s);
    assert_false(exists_in(dir, "events"));

    s = open_stream(dir, false);
    add_run(s, "x");
    tn_stream_close(s);
    assert_true(exists_in(dir, "events/0.json"));
    assert_true(exists_in(dir, "events/60.json"));
    assert_true(exists_in(dir, "event_cache/0-25.json"));
    assert_true(exists_in(dir, "event_cache/25-50.json"));

    write_whole(dir, "events/58.json", "", 0);
    assert_int_equal(unlink(gone), 0);
    assert_int_equal(unlink(page), 0);
    s = open_stream(dir, false);
    add_run(s, "x");
    tn_stream_close(s);
    assert_true(exists_in(dir, "events/47.json"));
    assert_true(exists_in(dir, "event_cache/25-50.json"));
    tn_autofree char *text = read_whole(dir, "events/58.json", NULL);
    tn_autojson struct tn_json *event = parse(text);
    assert_int_equal(tn_json_int(tn_json_get(event, "id"), -1), 58);
}

static void test_bad_directory(void **state)
{
    struct tn_stream_options options = {.directory = "/dev/null/x"};
    struct tn_error err = {0};

    assert_null(tn_stream_open(&options, &err));
    assert_true(err.code != TN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_an_event_gets),
        cmocka_unit_test(test_event_with_an_id_is_refused),
        cmocka_unit_test(test_secrets_are_not_stored),
        cmocka_unit_test(test_confirmation_survives),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_slow_subscriber),
        cmocka_unit_test(test_unsubscribe_waits),
        cmocka_unit_test(test_callback_ends_its_subscription),
        cmocka_unit_test(test_callback_adds_events),
        cmocka_unit_test(test_events_of_others),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_layout_of_openhands),
        cmocka_unit_test(test_layout_is_mended),
        cmocka_unit_test(test_bad_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
