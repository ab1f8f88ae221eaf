#include "unit.h"

#include <pthread.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/sha1.h"
#include "net/websocket-frame.h"

static void test_sha1(void **state)
{
    static const struct {
        const char *text;
        int repeat;
        const char *hex;
    } rows[] = {
        /* FIPS 180 examples and lengths around the padding */
        {"abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {"", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
        {"a", 55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"},
        {"a", 56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"},
        {"a", 63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5"},
        {"a", 64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"},
        {"a", 65, "11655326c708d70319be2610e8a57d9a5b959d3b"},
        {"a", 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(2000000);
        unsigned char digest[NET_SHA1_BYTES];
        char hex[2 * NET_SHA1_BYTES + 1];
        for (int k = 0; k < rows[i].repeat; k++)
            tn_buf_puts(&text, rows[i].text);
        net_sha1(tn_buf_str(&text), text.len, digest);
        for (int k = 0; k < NET_SHA1_BYTES; k++)
            snprintf(hex + 2 * k, 3, "%02x", digest[k]);
        assert_string_equal(hex, rows[i].hex);
    }
}

/* --- frames -------------------------------------------------------------------------------- */

/* Every length, masked or not: what the header writer writes the parser reads, in every cut. */
static void test_headers_round_trip(void **state)
{
    static const size_t lengths[] = {0, 1, 125, 126, 127, 65535, 65536, 70000};
    static const unsigned char mask[4] = {1, 2, 3, 4};
    static unsigned char bytes[WS_HEADER_MAX + 70000];

    for (size_t i = 0; i < TN_COUNT(lengths); i++)
        for (int masked = 0; masked < 2; masked++) {
            struct tn_ws_frame f;
            size_t n = ws_frame_header(bytes, TN_WS_BINARY, lengths[i], masked ? mask : NULL);
            size_t whole = n + lengths[i];
            for (size_t have = 0; have < n; have++)
                assert_int_equal(tn_ws_parse(bytes, have, masked, 70000, &f), 0);
            if (lengths[i])
                assert_int_equal(tn_ws_parse(bytes, whole - 1, masked, 70000, &f), 0);
            assert_int_equal(tn_ws_parse(bytes, whole, masked, 70000, &f), 1);
            assert_int_equal(f.header, n);
            assert_int_equal(f.length, lengths[i]);
            assert_int_equal(f.opcode, TN_WS_BINARY);
            assert_true(f.fin);
            assert_int_equal(f.masked, masked);
            if (masked)
                assert_memory_equal(f.mask, mask, 4);
            assert_int_equal(tn_ws_parse(bytes, whole, !masked, 70000, &f), -1);
            if (lengths[i])
                assert_int_equal(tn_ws_parse(bytes, whole, masked, lengths[i] - 1, &f), -2);
        }
}

static void test_first_bytes(void **state)
{
    for (int first = 0; first < 256; first++)
        for (int length = 0; length < 128; length++) {
            unsigned char bytes[14 + 128] = {
                (unsigned char)first, (unsigned char)length, 1, 2, 3, 4, 5, 6, 7, 8};
            int opcode = first & 15;
            bool control = opcode >= 8;
            bool known = opcode <= 2 || (opcode >= 8 && opcode <= 10);
            bool bad = first & 0x70 || !known || (control && (!(first & 0x80) || length > 125));
            struct tn_ws_frame f;
            int r = tn_ws_parse(bytes, sizeof bytes, false, SIZE_MAX, &f);
            assert_int_equal(r, bad ? -1 : length > 125 ? 0 : 1);
        }
}

static void test_lengths(void **state)
{
    static const struct {
        unsigned char bytes[10];
        int result;
    } rows[] = {
        {{0x82, 126, 0, 125}, -1},
        {{0x82, 126, 0, 126}, 0},
        {{0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, -1},
        {{0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0}, 0},
        {{0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, -1},
        {{0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -2},
        {{0x88, 126, 0, 126}, -1},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_ws_frame f;
        assert_int_equal(tn_ws_parse(rows[i].bytes, 10, false, 1 << 20, &f), rows[i].result);
    }
}

static void test_mask(void **state)
{
    static const unsigned char mask[4] = {0x12, 0x34, 0x56, 0x78};

    for (size_t n = 0; n < 40; n++) {
        char bytes[48], plain[48];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = plain[i] = (char)(i * 13);
        ws_mask(bytes, n, mask);
        for (size_t i = 0; i < sizeof bytes; i++)
            assert_int_equal((unsigned char)bytes[i],
                             (unsigned char)plain[i] ^ (i < n ? mask[i % 4] : 0));
    }
}

static void test_close_codes(void **state)
{
    static const int good[] = {1000, 1001, 1002, 1003, 1007, 1008, 1009,
                               1010, 1011, 1012, 1013, 1014, 3000, 4999};
    static const int bad[] = {0, 1, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535};

    for (size_t i = 0; i < TN_COUNT(good); i++)
        assert_true(ws_close_code_valid(good[i]));
    for (size_t i = 0; i < TN_COUNT(bad); i++)
        assert_false(ws_close_code_valid(bad[i]));
}

/* --- conversations ------------------------------------------------------------------------- */

struct ends {
    int fds[2];
    struct tn_ws server, client;
};

static void open_ends(struct ends *e, size_t max)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->fds), 0);
    e->server = (struct tn_ws){.fd = e->fds[0], .max_message = max};
    e->client = (struct tn_ws){.fd = e->fds[1], .max_message = max, .client = true};
    tn_buf_init(&e->server.in, max + 16384);
    tn_buf_init(&e->client.in, max + 16384);
    tn_buf_init(&e->server.message, max);
    tn_buf_init(&e->client.message, max);
}

static void close_ends(struct ends *e)
{
    tn_ws_done(&e->server);
    tn_ws_done(&e->client);
    close(e->fds[0]);
    close(e->fds[1]);
}

static void test_messages_both_ways(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100000);
    struct ends e;
    char text[60000];
    struct tn_error err;
    int64_t soon = tn_deadline_in(5);

    open_ends(&e, 65536);
    memset(text, 'x', sizeof text);
    for (size_t n = 0; n <= sizeof text; n = n * 3 + 1) {
        assert_int_equal(tn_ws_send(&e.client, TN_WS_TEXT, text, n, soon), 0);
        assert_int_equal(tn_ws_recv(&e.server, &out, soon, &err), TN_WS_TEXT);
        assert_int_equal(out.len, n);
        assert_memory_equal(tn_buf_str(&out), text, n);
        assert_int_equal(tn_ws_send(&e.server, TN_WS_BINARY, text, n, soon), 0);
        assert_int_equal(tn_ws_recv(&e.client, &out, soon, &err), TN_WS_BINARY);
        assert_int_equal(out.len, n);
    }
    close_ends(&e);
}

static void test_nothing_comes(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    struct ends e;
    struct tn_error err;

    open_ends(&e, 100);
    assert_int_equal(tn_ws_recv(&e.server, &out, 0, &err), 0);
    int64_t start = tn_now();
    assert_int_equal(tn_ws_recv(&e.server, &out, start + 50 * TN_MILLI, &err), 0);
    assert_true(tn_now() - start >= 50 * TN_MILLI);
    close_ends(&e);
}

static void test_buffered(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    struct ends e;
    struct tn_error err;
    int64_t soon = tn_deadline_in(5);

    open_ends(&e, 100);
    assert_false(tn_ws_buffered(&e.server));
    for (int i = 0; i < 3; i++)
        tn_ws_send(&e.client, TN_WS_TEXT, "hi", 2, soon);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tn_ws_recv(&e.server, &out, soon, &err), TN_WS_TEXT);
        assert_int_equal(tn_ws_buffered(&e.server), i < 2);
    }
    close_ends(&e);
}

static void test_pings_and_closing(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(200);
    struct ends e;
    struct tn_error err;
    int64_t soon = tn_deadline_in(5);

    open_ends(&e, 100);
    assert_int_equal(tn_ws_send(&e.client, TN_WS_PING, "p", 1, soon), 0);
    assert_int_equal(tn_ws_send(&e.client, TN_WS_TEXT, "t", 1, soon), 0);
    assert_int_equal(tn_ws_recv(&e.server, &out, soon, &err), TN_WS_TEXT);
    assert_int_equal(tn_ws_recv(&e.client, &out, soon, &err), TN_WS_PONG);
    assert_string_equal(tn_buf_str(&out), "p");

    char reason[200];
    memset(reason, 'r', sizeof reason);
    memcpy(reason + 121, "\xe2\x82\xac", 4); /* would be cut in the middle */
    assert_int_equal(tn_ws_close(&e.server, 1011, reason), 0);
    assert_int_equal(tn_ws_send(&e.server, TN_WS_TEXT, "x", 1, soon), -1);
    assert_int_equal(tn_ws_recv(&e.client, &out, soon, &err), TN_WS_CLOSE);
    assert_int_equal(out.len, 2 + 121);
    assert_int_equal(tn_ws_recv(&e.server, &out, soon, &err), TN_WS_CLOSE);
    assert_int_equal(out.len, 2);
    assert_int_equal(tn_ws_send(&e.client, TN_WS_PING, reason, 126, soon), -1);
    close_ends(&e);
}

/* Raw bytes to one side: what it says about them. */
static void test_broken_peers(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        bool to_client;
        int result;
        enum tn_code code;
        int close_code; /* 0: none was sent */
    } rows[] = {
        {"\x81\x02hi", 4, false, -1, TN_E_PEER, 1002},           /* not masked */
        {"\x81\x82\0\0\0\0hi", 8, true, -1, TN_E_PEER, 1002},    /* masked by a server */
        {"\x82\x7e\x01\x00", 4, true, -1, TN_E_TOO_LARGE, 1009}, /* longer than 100 */
        {"\x81\x01\xff", 3, true, -1, TN_E_PEER, 1007},
        {"\x00\x01x", 3, true, -1, TN_E_PEER, 1002},
        {"\x88\x01x", 3, true, -1, TN_E_PEER, 1002},
        {"\x81\x02h", 3, true, -1, TN_E_PEER, 0}, /* cut */
        {"", 0, true, -1, TN_E_PEER, 0},
        {"\x01\x01h\x89\x00\x80\x01i", 8, true, TN_WS_TEXT, TN_OK, 0},
        {"\x88\x00", 2, true, TN_WS_CLOSE, TN_OK, 0},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(200);
        struct ends e;
        struct tn_error err = {0};
        int64_t soon = tn_deadline_in(5);

        open_ends(&e, 100);
        struct tn_ws *ws = rows[i].to_client ? &e.client : &e.server;
        struct tn_ws *peer = rows[i].to_client ? &e.server : &e.client;
        assert_int_equal(send(peer->fd, rows[i].bytes, rows[i].n, MSG_NOSIGNAL), rows[i].n);
        shutdown(peer->fd, SHUT_WR);
        assert_int_equal(tn_ws_recv(ws, &out, soon, &err), rows[i].result);
        assert_int_equal(err.code, rows[i].code);
        if (rows[i].close_code) {
            assert_int_equal(tn_ws_recv(peer, &out, soon, &err), TN_WS_CLOSE);
            assert_int_equal((unsigned char)out.data[0] << 8 | (unsigned char)out.data[1],
                             rows[i].close_code);
        }
        close_ends(&e);
    }
}

/* Fragments may not add up to more than the limit either. */
static void test_fragments_over_the_limit(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(200);
    char frame[62] = "\x02\x3c", next[62] = "\x00\x3c"; /* 60 bytes each, the limit is 100 */
    struct ends e;
    struct tn_error err = {0};

    open_ends(&e, 100);
    assert_int_equal(send(e.fds[0], frame, sizeof frame, 0), sizeof frame);
    assert_int_equal(send(e.fds[0], next, sizeof next, 0), sizeof next);
    assert_int_equal(tn_ws_recv(&e.client, &out, tn_deadline_in(5), &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    close_ends(&e);
}

static void test_peer_that_does_not_read(void **state)
{
    struct ends e;
    static char block[1 << 20];

    open_ends(&e, 100);
    int64_t start = tn_now();
    while (tn_ws_send(&e.server, TN_WS_BINARY, block, sizeof block, start + 50 * TN_MILLI) == 0)
        ;
    assert_true(tn_now() - start < 5 * TN_SECOND);
    /* the frame was cut: nothing may follow */
    assert_int_equal(tn_ws_send(&e.server, TN_WS_TEXT, "x", 1, tn_deadline_in(1)), -1);
    close_ends(&e);
}

/* --- the client's handshake ---------------------------------------------------------------- */

struct fake_server {
    int fd;
    const char *answer;
};

static void *answer_once(void *arg)
{
    struct fake_server *f = arg;
    char request[4096];

    if (recv(f->fd, request, sizeof request, 0) > 0)
        send(f->fd, f->answer, strlen(f->answer), MSG_NOSIGNAL);
    shutdown(f->fd, SHUT_WR);
    return NULL;
}

static void test_bad_answers_to_the_handshake(void **state)
{
    static const struct {
        const char *answer;
        enum tn_code code;
    } rows[] = {
        {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", TN_E_DENIED},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", TN_E_PEER},
        {"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", TN_E_PEER},
        {"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
         "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
         TN_E_PEER},
        {"nonsense\r\n\r\n", TN_E_INVALID},
        {"", TN_E_PEER},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        int fds[2];
        pthread_t thread;
        struct tn_ws ws;
        struct tn_error err = {0};
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        struct fake_server f = {.fd = fds[0], .answer = rows[i].answer};
        assert_int_equal(pthread_create(&thread, NULL, answer_once, &f), 0);
        assert_int_equal(
            tn_ws_connect(&ws, fds[1], "h", "/", "X-Key: 1\r\n", 100, tn_deadline_in(5), &err), -1);
        assert_int_equal(err.code, rows[i].code);
        pthread_join(thread, NULL);
        close(fds[0]);
        close(fds[1]);
    }
    struct tn_ws ws;
    struct tn_error err;
    assert_int_equal(tn_ws_connect(&ws, -1, "h", "/ /", NULL, 100, 0, &err), -1);
    assert_int_equal(err.code, TN_E_INVALID);
    assert_int_equal(tn_ws_connect(&ws, -1, "h", "/base/%2E./x?y", NULL, 100, 0, &err), -1);
    assert_int_equal(err.code, TN_E_INVALID);
    assert_int_equal(tn_ws_connect(&ws, -1, "h", "/", "X: y\r\n\r\n", 100, 0, &err), -1);
    assert_int_equal(err.code, TN_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha1),
        cmocka_unit_test(test_headers_round_trip),
        cmocka_unit_test(test_first_bytes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_close_codes),
        cmocka_unit_test(test_messages_both_ways),
        cmocka_unit_test(test_nothing_comes),
        cmocka_unit_test(test_buffered),
        cmocka_unit_test(test_pings_and_closing),
        cmocka_unit_test(test_broken_peers),
        cmocka_unit_test(test_fragments_over_the_limit),
        cmocka_unit_test(test_peer_that_does_not_read),
        cmocka_unit_test(test_bad_answers_to_the_handshake),
    };

    return cmocka_run_group_tests_name("websocket", tests, NULL, NULL);
}
