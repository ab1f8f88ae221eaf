/* A server that shows everything src/net can do, for the tests in tests/net: echoes over plain
 * HTTP, chunks, events, WebSocket and an upgraded connection; counts what it serves.
 *
 *   echo-server ADDRESS [option=value]...     prints "ready PORT" once it listens; stops on
 * SIGTERM, then prints "stopped LEFT". */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/json.h"
#include "net/http-client.h"
#include "net/http-server.h"
#include "net/http2.h"
#include "net/listen.h"
#include "net/multipart.h"
#include "net/sse.h"
#include "net/websocket.h"

enum { MEGABYTE = 1 << 20 };

/* --- plain HTTP ---------------------------------------------------------------------------- */

static void alive(struct tn_http_exchange *x, void *ctx)
{
    tn_http_reply(x, 200, "application/json", "{\"status\":\"ok\"}", 15);
}

/* What the server understood of the request. */
static void describe(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MEGABYTE);
    struct tn_jw w = tn_jw(&out);
    const char *names[] = {"name", "rest", "other"};

    tn_jw_object(&w);
    tn_jw_kstr(&w, "method", tn_http_method(x));
    tn_jw_kstr(&w, "path", tn_http_path(x));
    tn_jw_kstr(&w, "target", tn_http_target(x));
    tn_jw_kstr(&w, "peer", tn_http_peer(x));
    tn_jw_kint(&w, "length", tn_http_content_length(x));
    tn_jw_kstr(&w, "query_a", tn_http_query(x, "a"));
    tn_jw_kstr(&w, "query_b", tn_http_query(x, "b"));
    tn_jw_kstr(&w, "header", tn_http_header(x, "x-test"));
    for (size_t i = 0; i < TN_COUNT(names); i++)
        tn_jw_kstr(&w, names[i], tn_http_param(x, names[i]));
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &out);
}

static void echo(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(8 * MEGABYTE);
    struct tn_error err;

    if (tn_http_read_all(x, &body, &err) < 0)
        tn_http_reply_error(x, &err);
    else
        tn_http_reply(x, 200, tn_http_header(x, "content-type"), body.data, body.len);
}

/* Answers while it reads; the answer has the request's kind of framing. */
static void echo_stream(struct tn_http_exchange *x, void *ctx)
{
    char block[16 * 1024];
    ssize_t n;
    struct tn_error err;

    tn_http_start(x, 200, "application/octet-stream", tn_http_content_length(x));
    while ((n = tn_http_read(x, block, sizeof block, &err)) > 0)
        if (tn_http_write(x, block, (size_t)n) < 0)
            return;
    if (n == 0)
        tn_http_end(x);
    else
        tn_http_abort(x);
}

/* Reads in steps of one byte. */
static void count_slowly(struct tn_http_exchange *x, void *ctx)
{
    char byte, text[32];
    ssize_t n;
    long total = 0;
    struct tn_error err;

    while ((n = tn_http_read(x, &byte, 1, &err)) > 0)
        total++;
    if (n < 0) {
        tn_http_reply_error(x, &err);
        return;
    }
    tn_http_reply(x, 200, "text/plain", text, (size_t)snprintf(text, sizeof text, "%ld", total));
}

static void status(struct tn_http_exchange *x, void *ctx)
{
    long code = strtol(tn_http_param(x, "code"), NULL, 10);

    tn_http_reply(x, (int)code, "text/plain", "body", 4);
}

static void nothing(struct tn_http_exchange *x, void *ctx)
{
}

static void headers(struct tn_http_exchange *x, void *ctx)
{
    const char *value = tn_http_query(x, "value");

    tn_http_set_header(x, "X-Good", "fine");
    tn_http_set_header(x, "X-Value", value ? value : "");
    tn_http_set_header(x, value ? value : "", "name");
    tn_http_set_header(x, "Content-Length", "999");
    if (tn_http_query(x, "close"))
        tn_http_set_header(x, "Connection", "close");
    tn_http_reply(x, 200, "text/plain", "ok", 2);
}

/* n bytes in steps; ?broken stops in the middle, ?short ends too early, ?long goes too far. */
static void stream(struct tn_http_exchange *x, void *ctx)
{
    static char block[64 * 1024];
    const char *size = tn_http_query(x, "n");
    int64_t n = size ? strtoll(size, NULL, 10) : 0;

    tn_http_start(x, 200, "application/octet-stream", tn_http_query(x, "length") ? n : -1);
    if (tn_http_query(x, "short"))
        n /= 2;
    if (tn_http_query(x, "long"))
        n += 1;
    for (int64_t done = 0; done < n;) {
        size_t step = n - done < (int64_t)sizeof block ? (size_t)(n - done) : sizeof block;
        if (tn_http_write(x, block, step) < 0)
            return;
        done += (int64_t)step;
        if (tn_http_query(x, "broken")) {
            tn_http_abort(x);
            return;
        }
    }
    if (!tn_http_query(x, "noend"))
        tn_http_end(x);
}

static void file(struct tn_http_exchange *x, void *ctx)
{
    const char *path = tn_http_query(x, "path"), *size = tn_http_query(x, "n");
    tn_autofd int fd = open(path ? path : "", O_RDONLY | O_CLOEXEC);
    int64_t n = size ? strtoll(size, NULL, 10) : 0;

    if (fd < 0) {
        tn_http_reply_detail(x, 404, "no such file");
        return;
    }
    tn_http_start(x, 200, "application/octet-stream", tn_http_query(x, "chunked") ? -1 : n);
    if (tn_http_write_file(x, fd, 0, n) == 0)
        tn_http_end(x);
}

/* Answers once the client is gone: the counters tell. */
static _Atomic long waiting_count, gone_count;

static void wait_gone(struct tn_http_exchange *x, void *ctx)
{
    int64_t deadline = tn_deadline_in(10);

    waiting_count++;
    while (!tn_http_peer_gone(x) && tn_now() < deadline) {
        struct pollfd p = {.fd = tn_http_fd(x), .events = POLLRDHUP};
        poll(&p, 1, tn_poll_ms(deadline));
    }
    if (tn_http_peer_gone(x))
        gone_count++;
    tn_http_reply(x, 200, "text/plain", "still here", 10);
}

static void look_gone(struct tn_http_exchange *x, void *ctx)
{
    tn_http_reply(x, 200, "text/plain", tn_http_peer_gone(x) ? "gone" : "here", 4);
}

static void reply_number(struct tn_http_exchange *x, long number)
{
    char text[32];

    tn_http_reply(x, 200, "text/plain", text, (size_t)snprintf(text, sizeof text, "%ld", number));
}

static void waiting(struct tn_http_exchange *x, void *ctx)
{
    reply_number(x, waiting_count);
}

static void gone(struct tn_http_exchange *x, void *ctx)
{
    reply_number(x, gone_count);
}

/* --- multipart, events, upgrades ----------------------------------------------------------- */

static ssize_t from_exchange(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_http_read(ctx, to, n, err);
}

static int describe_part(struct tn_multipart *m, const struct tn_part *part, struct tn_jw *w,
                         struct tn_error *err)
{
    char block[4096];
    int64_t size = 0;
    unsigned sum = 0;
    ssize_t n;

    while ((n = tn_multipart_read(m, block, sizeof block, err)) > 0) {
        size += n;
        for (ssize_t i = 0; i < n; i++)
            sum = sum * 31 + (unsigned char)block[i];
    }
    if (n < 0)
        return -1;
    tn_jw_object(w);
    tn_jw_kstr(w, "name", part->name);
    tn_jw_kstr(w, "filename", part->filename);
    tn_jw_kstr(w, "type", part->type);
    tn_jw_kint(w, "size", size);
    tn_jw_kint(w, "sum", sum);
    tn_jw_object_end(w);
    return 0;
}

static void form(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MEGABYTE);
    struct tn_jw w = tn_jw(&out);
    const struct tn_part *part;
    struct tn_error err;

    struct tn_multipart *m =
        tn_multipart_new(tn_http_header(x, "content-type"), from_exchange, x, &err);
    int more = m ? 0 : -1;
    tn_jw_array(&w);
    while (m && (more = tn_multipart_next(m, &part, &err)) > 0)
        if ((more = describe_part(m, part, &w, &err)) < 0)
            break;
    tn_jw_array_end(&w);
    tn_multipart_free(m);
    if (more < 0)
        tn_http_reply_error(x, &err);
    else
        tn_http_reply_json(x, 200, &out);
}

static void events(struct tn_http_exchange *x, void *ctx)
{
    if (tn_sse_start(x) < 0)
        return;
    tn_sse_send(x, NULL, NULL, "one", 3);
    tn_sse_send(x, "named", "7", "two\nlines\r\nand\rmore\n", 20);
    tn_sse_beat(x);
    tn_sse_send(x, "evil\ndata: injected", NULL, "", 0);
    tn_http_end(x);
}

static void websocket(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MEGABYTE);
    struct tn_error err;
    struct tn_ws ws;
    int kind;

    if (tn_http_query(x, "protocol"))
        tn_http_set_header(x, "Sec-WebSocket-Protocol", tn_http_query(x, "protocol"));
    if (tn_ws_accept(x, &ws, MEGABYTE) < 0)
        return;
    while ((kind = tn_ws_recv(&ws, &message, tn_deadline_in(10), &err)) > 0) {
        if (kind == TN_WS_CLOSE)
            break;
        if (kind == TN_WS_TEXT && strcmp(tn_buf_str(&message), "please close") == 0)
            tn_ws_close(&ws, 4001, "as you wish");
        else if (kind == TN_WS_TEXT && strcmp(tn_buf_str(&message), "please ping") == 0)
            tn_ws_send(&ws, TN_WS_PING, "hey", 3, tn_deadline_in(5));
        else if (kind == TN_WS_PONG)
            tn_ws_send(&ws, TN_WS_TEXT, "got pong", 8, tn_deadline_in(5));
        else
            tn_ws_send(&ws, (enum tn_ws_kind)kind, message.data, message.len, tn_deadline_in(5));
    }
    tn_ws_done(&ws);
}

/* Dials this server's own WebSocket (?address=) and passes one message through our client side. */
static void websocket_client(struct tn_http_exchange *x, void *ctx)
{
    const char *address = tn_http_query(x, "address"), *text = tn_http_query(x, "text");
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MEGABYTE);
    int64_t deadline = tn_deadline_in(5);
    struct tn_error err;
    struct tn_ws ws;

    tn_autofd int fd = tn_dial(address, deadline, &err);
    if (fd < 0 || tn_ws_connect(&ws, fd, address, "/ws", NULL, MEGABYTE, deadline, &err) < 0) {
        tn_http_reply_error(x, &err);
        return;
    }
    tn_ws_send(&ws, TN_WS_TEXT, text, strlen(text), deadline);
    int kind = tn_ws_recv(&ws, &message, deadline, &err);
    tn_ws_close(&ws, 1000, NULL);
    if (kind == TN_WS_TEXT)
        tn_http_reply(x, 200, "text/plain", message.data, message.len);
    else
        tn_http_reply_detail(x, 502, "no echo");
    tn_ws_done(&ws);
}

static void upgrade(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf early = TN_BUF_INIT(MEGABYTE);
    char block[4096];
    ssize_t n;

    int fd = tn_http_upgrade(x, "echo", &early);
    if (fd < 0)
        return;
    send(fd, tn_buf_str(&early), early.len, MSG_NOSIGNAL);
    while ((n = recv(fd, block, sizeof block, 0)) > 0)
        if (send(fd, block, (size_t)n, MSG_NOSIGNAL) < 0)
            break;
}

/* Fetches ?target= from ?address= with our own client. */
static void proxy(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(MEGABYTE);
    struct tn_error err;
    struct tn_http_client *c = tn_http_client_new(tn_http_query(x, "address"), &err);
    struct tn_http_call call = {.method = tn_http_query(x, "method"),
                                .target = tn_http_query(x, "target"),
                                .deadline = tn_deadline_in(5)};
    int code = c ? tn_http_client_call(c, &call, &body, &err) : -1;

    if (code < 0)
        tn_http_reply_error(x, &err);
    else
        tn_http_reply(x, code, tn_http_client_answer(c, "content-type"), body.data, body.len);
    tn_http_client_free(c);
}

static const struct tn_route routes[] = {
    {"GET", "/alive", alive, "is it up?", TN_ROUTE_OPEN},
    {"GET", "/describe", describe, "what the server understood", 0},
    {"GET", "/describe/{name}", describe, "with a parameter", 0},
    {"GET", "/describe/fixed", alive, "a literal wins", 0},
    {"GET", "/describe/{name}/x/{other}", describe, "with two", 0},
    {"GET", "/rest/{rest...}", describe, "with the rest of the path", 0},
    {"POST", "/echo", echo, "the body", 0},
    {"PUT", "/echo", echo, "the body", 0},
    {"POST", "/echo-stream", echo_stream, "the body, while it comes", 0},
    {"POST", "/count", count_slowly, "bytes of the body", 0},
    {"GET", "/status/{code}", status, "any status", 0},
    {"GET", "/nothing", nothing, "a handler that forgets to answer", 0},
    {"POST", "/nothing", nothing, "a handler that forgets to answer", 0},
    {"GET", "/headers", headers, "answer headers", 0},
    {"GET", "/stream", stream, "?n= bytes", 0},
    {"GET", "/file", file, "?path= through sendfile", 0},
    {"GET", "/wait-gone", wait_gone, "until the client is gone", 0},
    {"POST", "/look-gone", look_gone, "is the client gone?", 0},
    {"GET", "/waiting", waiting, "how many clients were waited for", 0},
    {"GET", "/gone", gone, "how many were gone", 0},
    {"POST", "/form", form, "multipart/form-data", 0},
    {"GET", "/events", events, "server-sent events", 0},
    {"GET", "/ws", websocket, "WebSocket echo", 0},
    {"GET", "/ws-client", websocket_client, "our own client against a WebSocket echo", 0},
    {"GET", "/upgrade", upgrade, "raw echo", 0},
    {"POST", "/upgrade", upgrade, "raw echo", 0},
    {"GET", "/proxy", proxy, "our own client", 0},
    {0},
};

/* --- the program --------------------------------------------------------------------------- */

static bool allow(struct tn_http_exchange *x, void *ctx)
{
    const char *key = tn_http_header(x, "x-refuse");

    if (!key)
        return true;
    tn_http_reply_detail(x, 403, "Invalid API Key");
    return false;
}

static void log_line(const struct tn_http_exchange *x, int status_code, int64_t nanoseconds,
                     void *ctx)
{
    const char *header = tn_http_header(x, "x-test");

    fprintf(stderr, "%s %s %d %s\n", tn_http_method(x), tn_http_target(x), status_code,
            header ? header : "-");
}

static void set_option(struct tn_http_options *o, const char *text)
{
    const struct {
        const char *name;
        double *seconds;
    } waits[] = {{"header", &o->header_seconds},
                 {"idle", &o->idle_seconds},
                 {"body", &o->body_seconds},
                 {"write", &o->write_seconds}};
    size_t n = strcspn(text, "=");
    double value = text[n] ? strtod(text + n + 1, NULL) : 0;

    for (size_t i = 0; i < TN_COUNT(waits); i++)
        if (strncmp(text, waits[i].name, n) == 0)
            *waits[i].seconds = value;
    if (strncmp(text, "connections", n) == 0)
        o->max_connections = (int)value;
    if (strncmp(text, "max-body", n) == 0)
        o->max_body_bytes = (int64_t)value;
    if (strncmp(text, "http2", n) == 0)
        o->http2 = tn_http2_serve;
    if (strncmp(text, "strangers", n) == 0)
        o->max_strangers = (int)value;
    if (strncmp(text, "log", n) == 0)
        o->log = log_line;
}

static int bound_port(int fd)
{
    struct sockaddr_in addr = {0};
    socklen_t len = sizeof addr;

    getsockname(fd, (struct sockaddr *)&addr, &len);
    return addr.sin_family == AF_INET ? ntohs(addr.sin_port) : 0;
}

int main(int argc, char **argv)
{
    static const struct tn_route *const tables[] = {routes, NULL};
    struct tn_http_options options = {.routes = tables, .allow = allow};
    struct tn_listen_address address;
    struct tn_error err;
    sigset_t stop;
    int signal_number;

    if (argc < 2) {
        fprintf(stderr, "usage: echo-server ADDRESS [option=value]...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        set_option(&options, argv[i]);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);

    int fd = tn_listen_parse(argv[1], &address, &err) < 0 ? -1 : tn_listen_open(&address, &err);
    int port = bound_port(fd);
    struct tn_http_server *server = tn_http_server_new(&options);
    if (fd < 0 || tn_http_server_listen(server, fd, &err) < 0) {
        fprintf(stderr, "echo-server: %s\n", err.text);
        if (tn_http_server_stop(server, 0) == 0)
            tn_http_server_free(server);
        return 1;
    }
    printf("ready %d\n", port);
    fflush(stdout);
    sigwait(&stop, &signal_number);
    int left = tn_http_server_stop(server, 2);
    printf("stopped %d\n", left);
    if (left == 0)
        tn_http_server_free(server);
    return left != 0;
}
