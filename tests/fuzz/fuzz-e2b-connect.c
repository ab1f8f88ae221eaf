/* What a client of E2B sends to envd: a call that is one message, a stream that begins with one,
 * and a stream of them, each cut where the client likes.  Whoever reads them is told JSON, or
 * nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "service/e2b/e2b.h"
#include "service/front.h"
#include "service/internal.h"
#include "service/purses.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_INPUT = 20000, MOST = 4096 };

static void answer(struct e2b_call *c, const struct tn_json *message)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 * MAX_INPUT);
    struct tn_jw w = tn_jw(&json);

    if (message)
        tn_jw_tree(&w, message);
    else
        tn_buf_puts(&json, "{}");
    e2b_answer(c, &json);
}

static int send_on(struct tn_json *message, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 * MAX_INPUT);
    struct tn_jw w = tn_jw(&json);

    if (message)
        tn_jw_tree(&w, message);
    return e2b_stream_send(ctx, &json);
}

static void stream(struct e2b_call *c, const struct tn_json *message)
{
    if (e2b_stream_start(c) == 0 && send_on((struct tn_json *)(uintptr_t)message, c) == 0)
        e2b_stream_end(c, NULL);
}

static int count(struct tn_json *message, void *ctx)
{
    (*(size_t *)ctx)++;
    return 0;
}

static void read_all(struct e2b_call *c, const struct tn_json *message)
{
    size_t n = 0;

    if (e2b_read_messages(c, MOST, count, &n) == 0)
        answer(c, NULL);
    if (n > MAX_INPUT)
        abort();
}

static const struct e2b_method methods[] = {
    {.name = "One", .call = answer},
    {.name = "Stream", .call = stream, .stream = true},
    {.name = "Reads", .call = read_all, .stream = true, .reads = true},
    {0},
};

static void call(struct tn_http_exchange *x, void *ctx)
{
    struct e2b_call c = {.s = ctx, .x = x};

    front_begin(x, ctx);
    e2b_rpc(&c, methods, tn_http_param(x, "name"));
}

static const struct tn_route rows[] = {{"POST", "/{name}", call, NULL, 0}, {0}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct tn_route *const tables[] = {rows, NULL};
    static const char *const names[] = {"One", "Stream", "Reads", "None"};
    struct tn_service s = {.purses = purses_new(1 << 20)};
    const struct tn_http_options options = {.routes = tables, .ctx = &s};
    struct tn_http_server *server = tn_http_server_new(&options);
    int fds[2];
    char head[256], scrap[4096];
    unsigned which = size ? data[0] : 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        abort();
    data += size > 0;
    size = size > MAX_INPUT ? MAX_INPUT : size - (size > 0);
    int n = snprintf(head, sizeof head,
                     "POST /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "
                     "application/%s\r\nContent-Length: %zu\r\n\r\n",
                     names[which % TN_COUNT(names)],
                     which % TN_COUNT(names) ? "connect+json" : "json", size);
    if (tn_http_server_adopt_as(server, fds[1], "fuzz", NULL) == 0 &&
        send(fds[0], head, (size_t)n, MSG_NOSIGNAL) > 0 &&
        (size == 0 || send(fds[0], data, size, MSG_NOSIGNAL) > 0) && shutdown(fds[0], SHUT_WR) == 0)
        while (recv(fds[0], scrap, sizeof scrap, 0) > 0)
            ;
    close(fds[0]);
    if (tn_http_server_stop(server, 10) != 0)
        abort(); /* it hangs */
    tn_http_server_free(server);
    purses_free(s.purses);
    return 0;
}
