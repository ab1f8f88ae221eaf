/* A server of one's own on stdio: what an owner gives, and what a client gets. */
#include "unit.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/thread.h"
#include "mcp/serve.h"

struct fixture {
    struct tn_mcp_server *server;
    int ours, theirs;
    pthread_t thread;
    struct tn_buf in;
    int opened, closed, told;
};

static void describe(void *ctx, struct tn_buf *capabilities, struct tn_buf *instructions)
{
    tn_buf_puts(capabilities, "{\"tools\":{}}");
    tn_buf_puts(instructions, "be kind");
}

static void *open_client(void *ctx, struct tn_mcp_client *client)
{
    struct fixture *f = ctx;
    f->opened++;
    return f;
}

static void close_client(void *ctx, void *state)
{
    ((struct fixture *)ctx)->closed++;
}

static int handle(void *ctx, void *state, struct tn_mcp_request *request, struct tn_buf *result)
{
    const char *method = tn_mcp_request_message(request)->method;
    struct tn_mcp_client *client = tn_mcp_request_client(request);
    tn_autorpc struct tn_rpc answer = {0};
    struct tn_error err;

    if (strcmp(method, "wait") == 0) {
        struct pollfd p = {.fd = tn_mcp_request_cancel_fd(request), .events = POLLIN};
        tn_mcp_request_notify(request, "notifications/waiting", "{}");
        assert_int_equal(poll(&p, 1, 60000), 1);
        return tn_mcp_refuse(request, 1, "cancelled");
    }
    if (strcmp(method, "ask") == 0) {
        if (tn_mcp_client_call(client, request, "sampling/createMessage", "{}", tn_deadline_in(60),
                               &answer, &err) < 0)
            return tn_mcp_refuse(request, 2, "%s", err.text);
        tn_buf_printf(result, "{\"got\":%" PRId64 "}",
                      tn_json_int(tn_json_get(answer.result, "n"), -1));
        return 0;
    }
    if (strcmp(method, "step") == 0) {
        assert_true(tn_mcp_client_can(client, "sampling"));
        assert_false(tn_mcp_client_can(client, "roots"));
        tn_mcp_progress(request, 1, 2, "half");
        return 0;
    }
    return tn_mcp_refuse(request, TN_RPC_METHOD_NOT_FOUND, "no %s", method);
}

static void note(void *ctx, void *state, const struct tn_rpc *message)
{
    ((struct fixture *)ctx)->told++;
}

static const struct tn_mcp_server_ops ops = {
    .name = "unit",
    .version = "1",
    .describe = describe,
    .client_open = open_client,
    .client_close = close_client,
    .request = handle,
    .notification = note,
};

static void *run(void *arg)
{
    struct fixture *f = arg;
    tn_mcp_stdio(f->server, f->ours, f->ours);
    return NULL;
}

static int begin(void **state)
{
    struct fixture *f = tn_calloc(1, sizeof *f);
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    f->ours = fds[0];
    f->theirs = fds[1];
    tn_buf_init(&f->in, 1 << 20);
    f->server = tn_mcp_server_new(&ops, f);
    assert_int_equal(tn_thread_start(&f->thread, run, f), 0);
    *state = f;
    return 0;
}

static int end(void **state)
{
    struct fixture *f = *state;

    shutdown(f->theirs, SHUT_RDWR);
    pthread_join(f->thread, NULL);
    assert_int_equal(tn_mcp_server_stop(f->server, tn_deadline_in(60)), 0);
    assert_int_equal(f->closed, f->opened);
    tn_mcp_server_free(f->server);
    tn_buf_done(&f->in);
    close(f->ours);
    close(f->theirs);
    free(f);
    return 0;
}

static void say(struct fixture *f, const char *text)
{
    assert_int_equal(write(f->theirs, text, strlen(text)), strlen(text));
    assert_int_equal(write(f->theirs, "\n", 1), 1);
}

/* The next line must be this. */
static void hear(struct fixture *f, const char *expected)
{
    char *end;

    while (!(end = memchr(tn_buf_str(&f->in), '\n', f->in.len))) {
        char bytes[4096];
        struct pollfd p = {.fd = f->theirs, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 60000), 1);
        ssize_t n = read(f->theirs, bytes, sizeof bytes);
        assert_true(n > 0);
        tn_buf_add(&f->in, bytes, (size_t)n);
    }
    *end = '\0';
    assert_string_equal(tn_buf_str(&f->in), expected);
    tn_buf_eat(&f->in, (size_t)(end - f->in.data) + 1);
}

#define MESSAGE(text) "{\"jsonrpc\":\"2.0\"," text "}"

static void greet(struct fixture *f, const char *version)
{
    char text[512];

    snprintf(text, sizeof text,
             MESSAGE("\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\","
                     "\"capabilities\":{\"sampling\":{}}}"),
             version);
    say(f, text);
    snprintf(text, sizeof text,
             MESSAGE("\"id\":0,\"result\":{\"protocolVersion\":\"%s\",\"capabilities\":"
                     "{\"tools\":{}},\"serverInfo\":{\"name\":\"unit\",\"version\":\"1\"},"
                     "\"instructions\":\"be kind\"}"),
             version);
    hear(f, text);
    say(f, MESSAGE("\"method\":\"notifications/initialized\""));
}

static void test_requests(void **state)
{
    struct fixture *f = *state;

    say(f, MESSAGE("\"id\":1,\"method\":\"step\""));
    hear(f, MESSAGE("\"id\":1,\"error\":{\"code\":-32600,\"message\":\"the first request must be "
                    "initialize\"}"));
    greet(f, "2025-06-18");
    say(f, MESSAGE("\"id\":\"p\",\"method\":\"ping\""));
    hear(f, MESSAGE("\"id\":\"p\",\"result\":{}"));
    say(f, MESSAGE("\"id\":2,\"method\":\"none\""));
    hear(f, MESSAGE("\"id\":2,\"error\":{\"code\":-32601,\"message\":\"no none\"}"));
    say(f, MESSAGE("\"id\":3,\"method\":\"step\",\"params\":{\"_meta\":{\"progressToken\":9}}"));
    hear(f, MESSAGE("\"method\":\"notifications/progress\",\"params\":{\"progressToken\":9,"
                    "\"progress\":1.0,\"total\":2.0,\"message\":\"half\"}"));
    hear(f, MESSAGE("\"id\":3,\"result\":{}"));
    say(f, "nonsense");
    hear(f, MESSAGE("\"id\":null,\"error\":{\"code\":-32700,\"message\":\"JSON: expected a value "
                    "at byte 0, found 'n'\"}"));
    say(f, "[" MESSAGE("\"id\":5,\"method\":\"ping\"") "]");
    hear(f, MESSAGE("\"id\":null,\"error\":{\"code\":-32600,\"message\":\"expected one message, "
                    "found a batch\"}"));
}

static void test_batches(void **state)
{
    struct fixture *f = *state;

    greet(f, "2025-03-26");
    say(f, "[" MESSAGE("\"id\":5,\"method\":\"ping\"") "," MESSAGE(
               "\"id\":6,\"method\":\"ping\"") "]");
    hear(f, MESSAGE("\"id\":5,\"result\":{}"));
    hear(f, MESSAGE("\"id\":6,\"result\":{}"));
}

static void test_cancelling(void **state)
{
    struct fixture *f = *state;

    greet(f, "2025-11-25");
    say(f, MESSAGE("\"id\":1,\"method\":\"wait\""));
    hear(f, MESSAGE("\"method\":\"notifications/waiting\",\"params\":{}"));
    say(f, MESSAGE("\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"1\"}"));
    say(f, MESSAGE("\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}"));
    say(f, MESSAGE("\"id\":2,\"method\":\"ping\""));
    hear(f, MESSAGE("\"id\":2,\"result\":{}")); /* the other one is not answered */
}

static void test_asking_the_client(void **state)
{
    struct fixture *f = *state;

    greet(f, "2025-11-25");
    say(f, MESSAGE("\"id\":1,\"method\":\"ask\""));
    hear(f, MESSAGE("\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{}"));
    say(f, MESSAGE("\"id\":1,\"result\":{\"n\":42}"));
    hear(f, MESSAGE("\"id\":1,\"result\":{\"got\":42}"));
    tn_mcp_server_notify(f->server, "notifications/x", "{}");
    hear(f, MESSAGE("\"method\":\"notifications/x\",\"params\":{}"));
}

static void test_leaving_while_asked(void **state)
{
    struct fixture *f = *state;

    greet(f, "2025-11-25");
    say(f, MESSAGE("\"id\":1,\"method\":\"ask\""));
    hear(f, MESSAGE("\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{}"));
    say(f, MESSAGE("\"id\":2,\"method\":\"wait\""));
    hear(f, MESSAGE("\"method\":\"notifications/waiting\",\"params\":{}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests, begin, end),
        cmocka_unit_test_setup_teardown(test_batches, begin, end),
        cmocka_unit_test_setup_teardown(test_cancelling, begin, end),
        cmocka_unit_test_setup_teardown(test_asking_the_client, begin, end),
        cmocka_unit_test_setup_teardown(test_leaving_while_asked, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
