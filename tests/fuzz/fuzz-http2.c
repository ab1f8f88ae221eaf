/* A whole connection of HTTP/2 that gets the bytes from a socket, with a server behind it: frames
 * into our callbacks, and what becomes of them. */
#include <stdint.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/http2.h"

enum { MAX_INPUT = 20000 };

static void echo(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(MAX_INPUT);

    if (tn_http_read_all(x, &body, NULL) < 0)
        tn_http_reply_detail(x, 400, "no");
    else
        tn_http_reply(x, 200, "text/plain", body.data, body.len);
}

static const struct tn_route rows[] = {
    {"GET", "/", echo, NULL, 0},
    {"POST", "/{rest...}", echo, NULL, 0},
    {0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static const struct tn_route *const tables[] = {rows, NULL};
    const struct tn_http_options options = {.routes = tables,
                                            .http2 = tn_http2_serve,
                                            .max_header_bytes = 2000,
                                            .max_target_bytes = 200};
    struct tn_http_server *server = tn_http_server_new(&options);
    char scrap[4096];
    int fds[2];

    if (size > MAX_INPUT || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        abort();
    if (tn_http_server_adopt_as(server, fds[1], "fuzz", NULL) == 0 &&
        send(fds[0], preface, sizeof preface - 1, MSG_NOSIGNAL) > 0 &&
        (size == 0 || send(fds[0], data, size, MSG_NOSIGNAL) > 0) && shutdown(fds[0], SHUT_WR) == 0)
        while (recv(fds[0], scrap, sizeof scrap, 0) > 0)
            ;
    close(fds[0]);
    if (tn_http_server_stop(server, 10) != 0)
        abort(); /* it hangs */
    tn_http_server_free(server);
    return 0;
}
