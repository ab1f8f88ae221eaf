#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "mcp/peer.h"

/* What the peer sends is kept here, a line each. */
struct other {
    struct tn_mcp_peer *peer;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct tn_buf sent;
    int lines;
    bool refuse;
    int asked, told;
};

static int keep(void *ctx, void *route, const char *text, size_t n, int64_t deadline,
                struct tn_error *err)
{
    struct other *o = ctx;

    if (o->refuse)
        return tn_fail(err, TN_E_PEER, "refused");
    pthread_mutex_lock(&o->lock);
    tn_buf_add(&o->sent, text, n);
    tn_buf_putc(&o->sent, '\n');
    o->lines++;
    pthread_cond_broadcast(&o->more);
    pthread_mutex_unlock(&o->lock);
    return 0;
}

static void note_request(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *m)
{
    ((struct other *)ctx)->asked++;
    tn_mcp_answer(peer, m->id, TN_RPC_METHOD_NOT_FOUND, "no", NULL);
}

static void note_notification(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *m)
{
    ((struct other *)ctx)->told++;
}

static const struct tn_mcp_peer_ops ops = {
    .send = keep,
    .request = note_request,
    .notification = note_notification,
};

static void begin(struct other *o)
{
    *o = (struct other){.sent = TN_BUF_INIT(1 << 20)};
    pthread_mutex_init(&o->lock, NULL);
    tn_cond_init(&o->more);
    o->peer = tn_mcp_peer_new(&ops, o);
}

static void end(struct other *o)
{
    tn_mcp_peer_free(o->peer);
    tn_buf_done(&o->sent);
}

static void await_lines(struct other *o, int n)
{
    struct timespec until = tn_timespec(tn_deadline_in(60));

    pthread_mutex_lock(&o->lock);
    while (o->lines < n)
        assert_int_equal(pthread_cond_timedwait(&o->more, &o->lock, &until), 0);
    pthread_mutex_unlock(&o->lock);
}

static void feed(struct other *o, const char *text)
{
    assert_int_equal(tn_mcp_peer_feed(o->peer, text, strlen(text), NULL), 0);
}

/* A call in a thread of its own. */
struct caller {
    struct other *other;
    struct tn_mcp_call call;
    pthread_t thread;
    int result;
    struct tn_rpc answer;
    struct tn_error err;
};

static void *run_call(void *arg)
{
    struct caller *c = arg;
    c->result = tn_mcp_call(c->other->peer, &c->call, &c->answer, &c->err);
    return NULL;
}

static void call(struct caller *c, struct other *o, const char *method)
{
    *c = (struct caller){.other = o,
                         .call = {.method = method, .deadline = tn_deadline_in(60), .cancel = -1}};
}

static void start(struct caller *c)
{
    assert_int_equal(tn_thread_start(&c->thread, run_call, c), 0);
}

static void test_asking_without_waiting(void **state)
{
    struct caller caller;
    struct other o;

    begin(&o);
    assert_true(tn_mcp_ask(o.peer, "forget", "{}", NULL) > 0);
    assert_string_equal(tn_buf_str(&o.sent),
                        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"forget\",\"params\":{}}\n");
    call(&caller, &o, "m");
    start(&caller);
    await_lines(&o, 2);
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":1}}");
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"n\":2}}");
    pthread_join(caller.thread, NULL);
    assert_int_equal(caller.result, 0);
    assert_int_equal(tn_json_int(tn_json_get(caller.answer.result, "n"), 0), 2);
    tn_rpc_done(&caller.answer);
    end(&o);
}

static void test_answers_in_any_order(void **state)
{
    struct caller callers[3];
    struct other o;

    begin(&o);
    for (int i = 0; i < 3; i++) {
        call(&callers[i], &o, "m");
        start(&callers[i]);
        await_lines(&o, i + 1); /* so that the ids are 1, 2, 3 */
    }
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"n\":3}}");
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":1}}");
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":9,\"message\":\"two\"}}");
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}"); /* too late */
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}");
    for (int i = 0; i < 3; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].result, 0);
    }
    assert_int_equal(tn_json_int(tn_json_get(callers[0].answer.result, "n"), 0), 1);
    assert_int_equal(callers[1].answer.kind, TN_RPC_ERROR);
    assert_int_equal(tn_json_int(tn_json_get(callers[2].answer.result, "n"), 0), 3);
    struct tn_error err;
    assert_int_equal(tn_mcp_fail_answer(&callers[1].answer, &err), -1);
    assert_string_equal(err.text, "two (error 9)");
    for (int i = 0; i < 3; i++)
        tn_rpc_done(&callers[i].answer);
    end(&o);
}

static void test_deadline(void **state)
{
    struct other o;
    struct caller c;

    begin(&o);
    call(&c, &o, "m");
    c.call.deadline = tn_now();
    run_call(&c);
    assert_int_equal(c.result, -1);
    assert_int_equal(c.err.code, TN_E_TIMEOUT);
    assert_non_null(strstr(tn_buf_str(&o.sent), "notifications/cancelled"));
    end(&o);
}

static void test_cancelling(void **state)
{
    tn_autofd int cancel = eventfd(1, EFD_CLOEXEC);
    struct other o;
    struct caller c;

    begin(&o);
    call(&c, &o, "m");
    c.call.cancel = cancel;
    run_call(&c);
    assert_int_equal(c.err.code, TN_E_GONE);
    assert_non_null(strstr(tn_buf_str(&o.sent), "\"requestId\":1"));
    end(&o);
}

static void test_lost(void **state)
{
    struct other o;
    struct caller c;

    begin(&o);
    call(&c, &o, "m");
    start(&c);
    await_lines(&o, 1);
    tn_mcp_peer_lost(o.peer, "it went away");
    pthread_join(c.thread, NULL);
    assert_int_equal(c.err.code, TN_E_PEER);
    assert_string_equal(c.err.text, "it went away");
    run_call(&c);
    assert_string_equal(c.err.text, "it went away");
    end(&o);
}

static void test_a_call_that_cannot_be_sent(void **state)
{
    struct other o;
    struct caller c;

    begin(&o);
    o.refuse = true;
    call(&c, &o, "m");
    run_call(&c);
    assert_string_equal(c.err.text, "refused");
    end(&o);
}

static void note_progress(void *ctx, const struct tn_json *params)
{
    *(int64_t *)ctx += tn_json_int(tn_json_get(params, "progress"), 0);
}

static void test_progress(void **state)
{
    int64_t sum = 0;
    struct other o;
    struct caller c;

    begin(&o);
    call(&c, &o, "m");
    c.call.params = "{\"a\":1,\"_meta\":{\"b\":2,\"progressToken\":\"theirs\"}}";
    c.call.progress = note_progress;
    c.call.progress_ctx = &sum;
    c.call.deadline = tn_deadline_in(1);
    c.call.patience = 60;
    start(&c);
    await_lines(&o, 1);
    assert_string_equal(tn_buf_str(&o.sent),
                        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":1,"
                        "\"_meta\":{\"b\":2,\"progressToken\":1}}}\n");
    feed(&o, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
             "\"params\":{\"progressToken\":1,\"progress\":5}}");
    feed(&o, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
             "\"params\":{\"progressToken\":2,\"progress\":100}}");
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    pthread_join(c.thread, NULL);
    assert_int_equal(c.result, 0);
    assert_int_equal(sum, 5);
    assert_int_equal(o.told, 1); /* what belongs to no call of ours */
    tn_rpc_done(&c.answer);
    end(&o);
}

static void test_what_the_other_side_asks(void **state)
{
    struct other o;
    struct tn_error err;

    begin(&o);
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}");
    assert_string_equal(tn_buf_str(&o.sent), "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}\n");
    feed(&o, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"else\"}");
    assert_int_equal(o.asked, 1);
    assert_int_equal(tn_mcp_peer_feed(o.peer, "nonsense", 8, &err), -1);
    end(&o);
}

struct greeting {
    struct other *other;
    struct tn_rpc server;
    struct tn_error err;
    int result;
};

static void *greet(void *arg)
{
    struct greeting *g = arg;
    struct tn_mcp_hello hello = {"t", "1", "{}"};
    g->result = tn_mcp_initialize(g->other->peer, &hello, tn_deadline_in(60), &g->server, &g->err);
    return NULL;
}

static void test_initialize(void **state)
{
    static const struct {
        const char *answer;
        const char *problem; /* NULL: none */
    } rows[] = {
        {"\"result\":{\"protocolVersion\":\"2024-11-05\",\"capabilities\":{}}", NULL},
        {"\"result\":{\"protocolVersion\":\"2025-11-25\"}", NULL},
        {"\"result\":{\"protocolVersion\":\"1\"}", "it speaks MCP 1; expected 2024-11-05 to "
                                                   "2025-11-25"},
        {"\"result\":{}", "it speaks MCP of no version; expected 2024-11-05 to 2025-11-25"},
        {"\"error\":{\"code\":1,\"message\":\"no\"}", "initialize: no (error 1)"},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct other o;
        struct greeting g = {.other = &o};
        pthread_t thread;
        char answer[256];
        begin(&o);
        assert_int_equal(tn_thread_start(&thread, greet, &g), 0);
        await_lines(&o, 1);
        snprintf(answer, sizeof answer, "{\"jsonrpc\":\"2.0\",\"id\":1,%s}", rows[i].answer);
        feed(&o, answer);
        pthread_join(thread, NULL);
        assert_int_equal(g.result, rows[i].problem ? -1 : 0);
        if (rows[i].problem) {
            assert_string_equal(g.err.text, rows[i].problem);
        } else {
            assert_non_null(strstr(tn_buf_str(&o.sent), "notifications/initialized"));
            tn_rpc_done(&g.server);
        }
        end(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asking_without_waiting),
        cmocka_unit_test(test_answers_in_any_order),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_cancelling),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_a_call_that_cannot_be_sent),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_what_the_other_side_asks),
        cmocka_unit_test(test_initialize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
