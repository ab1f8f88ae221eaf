/* Frames: the parser alone, then a whole connection that gets the bytes from a socket and talks
 * back.  The first byte chooses the side. */
#include <assert.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "net/websocket.h"

enum { MAX_MESSAGE = 1000, MAX_INPUT = 20000 };

static void parse_all(const uint8_t *data, size_t size, bool masked)
{
    struct tn_ws_frame f;

    while (tn_ws_parse(data, size, masked, MAX_MESSAGE, &f) == 1) {
        assert(f.header >= 2 && f.header <= 14 && f.header + f.length <= size);
        assert(f.length <= MAX_MESSAGE && f.masked == masked);
        assert(f.opcode < 8 || (f.fin && f.length <= 125));
        data += f.header + f.length;
        size -= f.header + f.length;
    }
}

static void converse(const uint8_t *data, size_t size, bool client)
{
    int fds[2];
    struct tn_ws ws = {.client = client, .max_message = MAX_MESSAGE};
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MAX_MESSAGE);
    struct tn_error err;
    int kind;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        abort();
    ws.fd = fds[0];
    tn_buf_init(&ws.in, MAX_MESSAGE + 16384);
    tn_buf_init(&ws.message, MAX_MESSAGE);
    if (send(fds[1], data, size, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
    shutdown(fds[1], SHUT_WR);
    while ((kind = tn_ws_recv(&ws, &message, tn_deadline_in(1), &err)) > 0) {
        assert(message.len <= MAX_MESSAGE);
        if (kind == TN_WS_TEXT)
            assert(tn_utf8_valid(tn_buf_str(&message), message.len));
        if (kind == TN_WS_CLOSE)
            break;
    }
    assert(kind != 0); /* the peer has closed: there is nothing to wait for */
    tn_ws_done(&ws);
    close(fds[0]);
    close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > MAX_INPUT)
        return 0;
    bool client = data[0] & 1;
    uint8_t *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    parse_all(copy, size - 1, !client);
    converse(copy, size - 1, client);
    free(copy);
    return 0;
}
