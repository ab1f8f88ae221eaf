/* A link whose TLS ends here: what the client asks is read, judged, changed and asked anew on a
 * connection of the gate's own, and what the server answers is looked through for secrets.
 *
 * One request at a time: the next head is read when the answer to the one before is complete, so
 * that every answer is known to be that of its request.  Each direction holds one record and what
 * has become of it; no more is read before that has gone. */
#include <sys/socket.h>

#include "base/key-file.h"
#include "gate/ending.h"
#include "gate/link.h"
#include "gate/mask.h"
#include "gate/rewrite.h"

enum {
    RECORD = 16 << 10, /* the most that TLS carries in one piece */
    ANSWER_HEAD_MAX = 64 << 10,
    OUT_MAX = 256 << 10,
    ROUNDS = 16, /* before others have their turn */
    WHY = 96,
};

static const struct tn_http_limits answer_limits = {.target = 8 << 10, .fields = ANSWER_HEAD_MAX};

struct channel {
    struct tn_buf in, out; /* as it came, and as it goes on */
    size_t sent;           /* of out */
    bool ended, broken;    /* nothing more comes; without a word of goodbye */
    bool deaf;             /* nobody takes it any more */
};

enum request { REQUEST_HEAD, REQUEST_BODY, REQUEST_SENT, REQUEST_SWITCHED };
enum answer { ANSWER_NONE, ANSWER_HEAD, ANSWER_BODY, ANSWER_SWITCHED };

struct ended {
    char name[TN_NAME_MAX + 1];
    SSL *client, *server;
    bool client_ready, server_ready;
    char failed[WHY]; /* why there is no server; "" as long as there may be one */
    struct channel up, down;
    enum request request;
    enum answer answer;
    struct tn_http_scan request_scan, answer_scan;
    struct body request_body, answer_body;
    int64_t request_data, answer_data; /* bytes of the body that need no look */
    bool bodiless, switches;           /* of the request: HEAD, and one for another protocol */
    bool closing, told, cut;           /* after what is on its way; the client knows; at once */
    struct mask mask;
    struct tn_buf clear, encoded; /* what was masked; Basic credentials of the last request */
    struct needle *needles;
    size_t needle_count, secret_count; /* with those credentials, and without */
    struct link *link;
    struct timer held; /* until what the mask holds is no value that is cut in two */
};

static void held_too_long(struct gate *g, struct timer *t);

/* --- beginning and end ----------------------------------------------------------------------- */

static void find_needles(struct gate *g, struct link *l, struct ended *e)
{
    e->needles = tn_calloc(g->vault.count + 1, sizeof *e->needles);
    for (size_t i = 0; i < g->vault.count; i++) {
        const struct vault_secret *s = &g->vault.secrets[i];
        if (vault_secret_is_for(s, e->name, l->port))
            e->needles[e->secret_count++] = (struct needle){s->value, s->value_size};
    }
    e->needle_count = e->secret_count;
}

bool ended_begin(struct gate *g, struct link *l, const char *name)
{
    if (g->ended_count >= ENDED_MAX)
        return false;
    struct ended *e = tn_calloc(1, sizeof *e);
    *e = (struct ended){
        .up = {.in = TN_BUF_INIT(REQUEST_HEAD_MAX + RECORD), .out = TN_BUF_INIT(OUT_MAX)},
        .down = {.in = TN_BUF_INIT(ANSWER_HEAD_MAX + RECORD), .out = TN_BUF_INIT(OUT_MAX)},
        .mask = MASK_INIT,
        .clear = TN_BUF_INIT(OUT_MAX),
        .encoded = TN_BUF_INIT(MASK_HELD),
        .link = l,
        .held = {.over = held_too_long},
    };
    g->ended_count++;
    l->ended = e;
    snprintf(e->name, sizeof e->name, "%s", name);
    find_needles(g, l, e);
    e->client = ending_towards_client(g->ending, name, l->client.watch.fd);
    e->server = ending_towards_server(g->ending, name, l->server.watch.fd);
    l->client.in = true;
    e->cut = !e->client || !e->server;
    timer_start(g, &l->timer, TIMER_JUDGE);
    return true;
}

void ended_free(struct gate *g, struct ended *e)
{
    if (!e)
        return;
    timer_stop(&e->held);
    ending_lib(g->ending)->SSL_free(e->client);
    ending_lib(g->ending)->SSL_free(e->server);
    tn_key_file_done(&e->up.in);
    tn_key_file_done(&e->up.out);
    tn_key_file_done(&e->down.in);
    tn_buf_done(&e->down.out);
    tn_key_file_done(&e->mask.seen);
    mask_done(&e->mask);
    tn_buf_done(&e->clear);
    tn_key_file_done(&e->encoded);
    free(e->needles);
    free(e);
    g->ended_count--;
}

void ended_unreachable(struct ended *e, int error)
{
    snprintf(e->failed, sizeof e->failed, "it cannot be reached: %s", strerror(error));
}

bool ended_is_late(struct gate *g, struct link *l)
{
    struct ended *e = l->ended;

    if (!e || l->timer.kind != TIMER_JUDGE || e->server_ready || e->failed[0])
        return false;
    snprintf(e->failed, sizeof e->failed, "it did not answer in time");
    timer_start(g, &l->timer, TIMER_HALF);
    return true;
}

/* --- TLS ------------------------------------------------------------------------------------- */

/* What the library waits for after that result; false: it is over. */
static bool waits(const struct tn_tls_lib *lib, SSL *ssl, struct side *s, int result)
{
    int error = lib->SSL_get_error(ssl, result);

    s->in &= error != SSL_ERROR_WANT_READ;
    s->out &= error != SSL_ERROR_WANT_WRITE;
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

/* The client has to know the sandbox's authority; one that does not is the sandbox's business. */
static void client_failed(struct gate *g, struct link *l)
{
    char what[TARGET_TEXT], why[WHY];

    snprintf(what, sizeof what, "%s:%u", l->ended->name, l->port);
    snprintf(why, sizeof why, "the client broke off TLS: %s",
             ending_why(g->ending, l->ended->client));
    refuse(g, what, why);
    l->ended->closing = true;
}

static bool shake_hands(struct gate *g, struct link *l)
{
    const struct tn_tls_lib *lib = ending_lib(g->ending);
    struct ended *e = l->ended;
    bool moved = false;

    if (!e->client_ready && !e->closing) {
        lib->ERR_clear_error();
        int n = lib->SSL_accept(e->client);
        e->client_ready = moved = n == 1;
        if (n != 1 && !waits(lib, e->client, &l->client, n))
            client_failed(g, l);
    }
    if (!e->server_ready && !e->failed[0] && l->connected) {
        lib->ERR_clear_error();
        int n = lib->SSL_connect(e->server);
        e->server_ready = n == 1;
        if (n != 1 && waits(lib, e->server, &l->server, n))
            return moved;
        if (n != 1)
            snprintf(e->failed, sizeof e->failed, "TLS with it failed: %s",
                     ending_why(g->ending, e->server));
        moved = true;
    }
    return moved;
}

/* One record at most, when what came before has gone. */
static bool pull(const struct tn_tls_lib *lib, SSL *ssl, struct side *s, struct channel *c,
                 size_t most)
{
    if (c->ended || !s->in || c->out.len > 0 || c->in.len >= most)
        return false;
    char *to = tn_buf_reserve(&c->in, RECORD);
    lib->ERR_clear_error();
    int n = to ? lib->SSL_read(ssl, to, RECORD) : 0;
    if (n > 0)
        tn_buf_grew(&c->in, (size_t)n);
    else if (to && waits(lib, ssl, s, n))
        return false;
    c->ended = n <= 0;
    c->broken = n <= 0 && (!to || lib->SSL_get_error(ssl, n) != SSL_ERROR_ZERO_RETURN);
    return true;
}

static bool push(const struct tn_tls_lib *lib, SSL *ssl, struct side *s, struct channel *c)
{
    if (c->out.len == 0 || (!s->out && !c->deaf))
        return false;
    lib->ERR_clear_error();
    int n = c->deaf ? 0 : lib->SSL_write(ssl, c->out.data + c->sent, (int)(c->out.len - c->sent));
    if (n > 0)
        c->sent += (size_t)n;
    else if (!c->deaf && waits(lib, ssl, s, n))
        return false;
    c->deaf |= n <= 0;
    if (c->sent == c->out.len || c->deaf) {
        explicit_bzero(c->out.data, c->out.len);
        tn_buf_reset(&c->out);
        c->sent = 0;
    }
    return true;
}

/* --- requests -------------------------------------------------------------------------------- */

/* The last word to this client. */
static bool give_up(struct gate *g, struct ended *e, const char *status, const char *what,
                    const char *why)
{
    char text[REFUSAL_TEXT];

    refuse(g, what, why);
    tn_buf_add(&e->down.out, text, guard_refusal(text, status, what, why));
    e->closing = true;
    return true;
}

static void begin_request(struct ended *e, const struct tn_http_head *head, const char *bytes)
{
    e->request_scan = e->answer_scan = (struct tn_http_scan){0};
    e->request_body = body_of(head->chunked, head->length);
    e->request_data = 0;
    e->bodiless = tn_http_same(bytes + head->method.at, head->method.len, "HEAD");
    e->switches = head->upgrade;
    e->request = REQUEST_BODY;
    e->answer = ANSWER_HEAD;
    e->needle_count = e->secret_count;
    if (e->encoded.len > 0)
        e->needles[e->needle_count++] = (struct needle){e->encoded.data, e->encoded.len};
}

static bool take_request(struct gate *g, struct link *l)
{
    struct ended *e = l->ended;
    struct tn_buf *in = &e->up.in;
    struct tn_http_head head;
    char what[TARGET_TEXT];

    e->closing |= in->len == 0 && e->up.ended;
    if (in->len == 0 || (!e->server_ready && !e->failed[0]))
        return false;
    snprintf(what, sizeof what, "%s:%u", e->name, l->port);
    ssize_t n = tn_http_scan(&e->request_scan, in->data, in->len, &request_limits, NULL);
    e->cut |= n == 0 && e->up.ended;
    if (n == 0 && in->len < REQUEST_HEAD_MAX)
        return false;
    if (n <= 0 || tn_http_parse_request(in->data, (size_t)n, &request_limits, &head, NULL) < 0)
        return give_up(g, e, "400 Bad Request", what, "HTTP that cannot be read");
    const char *why = guard_request(g, l, e->name, &head, in->data, what);
    if (why)
        return give_up(g, e, "403 Forbidden", what, why);
    if (e->failed[0])
        return give_up(g, e, "502 Bad Gateway", what, e->failed);
    tn_buf_reset(&e->encoded);
    if (rewrite_head(&head, in->data, &g->vault, e->name, l->port, &e->up.out, &e->encoded) < 0)
        return give_up(g, e, "400 Bad Request", what, "a head that became too large");
    timer_stop(&l->timer);
    begin_request(e, &head, in->data);
    tn_buf_eat(in, (size_t)n);
    return true;
}

/* Framing and all, as it came. */
static bool pass_request_body(struct ended *e)
{
    struct tn_buf *in = &e->up.in;
    size_t at = 0;

    while (e->request_data > 0 || !body_ended(&e->request_body)) {
        size_t left = in->len - at;
        int64_t before = e->request_data;
        size_t n = before < (int64_t)left ? (size_t)before : left;
        ssize_t framing = 0;
        if (before > 0)
            e->request_data -= (int64_t)n;
        else
            framing = body_next(&e->request_body, in->data + at, left, &e->request_data);
        e->cut |= framing < 0;
        if (framing < 0 || left == 0)
            break;
        at += n + (size_t)framing;
    }
    tn_buf_add(&e->up.out, in->data, at);
    tn_buf_eat(in, at);
    if (e->request_data == 0 && body_ended(&e->request_body)) {
        e->request = REQUEST_SENT;
        return true;
    }
    e->cut |= e->up.ended;
    return at > 0;
}

static bool step_request(struct gate *g, struct link *l)
{
    struct ended *e = l->ended;
    size_t n = e->up.in.len;

    if (e->closing || e->up.out.len > 0)
        return false;
    switch (e->request) {
    case REQUEST_HEAD:
        return take_request(g, l);
    case REQUEST_BODY:
        return pass_request_body(e);
    case REQUEST_SENT:
        if (e->answer != ANSWER_NONE)
            return false;
        e->request = REQUEST_HEAD;
        timer_start(g, &l->timer, TIMER_HALF);
        return true;
    case REQUEST_SWITCHED:
        tn_buf_add(&e->up.out, e->up.in.data, n);
        tn_buf_reset(&e->up.in);
        e->closing |= n == 0 && e->up.ended;
        return n > 0;
    }
    return false;
}

/* --- answers --------------------------------------------------------------------------------- */

/* Bytes of an answer that are no framing; last: nothing follows that belongs to them. */
static void show(struct ended *e, const char *bytes, size_t n, bool last)
{
    struct tn_buf *out = &e->down.out;
    bool chunked = e->answer == ANSWER_BODY && e->answer_body.chunked;

    tn_buf_reset(&e->clear);
    mask_push(&e->mask, e->needles, e->needle_count, bytes, n, &e->clear);
    if (last)
        mask_flush(&e->mask, &e->clear);
    e->cut |= !tn_buf_ok(&e->clear);
    if (chunked && e->clear.len > 0)
        tn_buf_printf(out, "%zx\r\n", e->clear.len);
    tn_buf_add(out, e->clear.data, e->clear.len);
    if (chunked && e->clear.len > 0)
        tn_buf_puts(out, "\r\n");
}

static void begin_answer(struct ended *e, const struct tn_http_head *head)
{
    bool none = e->bodiless || head->status == 204 || head->status == 304;
    int64_t length = head->length < 0 ? BODY_ENDLESS : head->length;

    if (head->status == 101) {
        e->answer = ANSWER_SWITCHED;
        e->request = REQUEST_SWITCHED;
    } else if (head->status >= 200) {
        e->answer_body = body_of(head->chunked && !none, none ? 0 : length);
        e->answer_data = 0;
        e->answer = ANSWER_BODY;
    }
}

static bool take_answer(struct gate *g, struct link *l)
{
    struct ended *e = l->ended;
    struct tn_buf *in = &e->down.in;
    struct tn_http_head head;
    char what[TARGET_TEXT];
    ssize_t n = tn_http_scan(&e->answer_scan, tn_buf_str(in), in->len, &answer_limits, NULL);

    if (n == 0 && in->len < ANSWER_HEAD_MAX) {
        e->closing |= e->down.ended; /* a client knows what to do about that */
        return false;
    }
    snprintf(what, sizeof what, "%s:%u", e->name, l->port);
    if (n <= 0 || tn_http_parse_response(in->data, (size_t)n, &head, NULL) < 0 ||
        (head.status == 101 && (!e->switches || e->request != REQUEST_SENT)))
        return give_up(g, e, "502 Bad Gateway", what, "an answer that cannot be read");
    e->answer_scan = (struct tn_http_scan){0};
    show(e, in->data, (size_t)n, true);
    begin_answer(e, &head);
    tn_buf_eat(in, (size_t)n);
    return true;
}

/* A byte of framing: the data is put into chunks anew, as the mask lets go of it. */
static bool pass_framing(struct ended *e, char byte)
{
    enum tn_http_chunk_state before = e->answer_body.chunks.state;

    if (body_next(&e->answer_body, &byte, 1, &e->answer_data) < 0)
        return false;
    if (before >= TN_CHUNK_TRAILER_START) {
        mask_push(&e->mask, e->needles, e->needle_count, &byte, 1, &e->down.out);
    } else if (e->answer_body.chunks.state == TN_CHUNK_TRAILER_START) {
        show(e, NULL, 0, true);
        tn_buf_puts(&e->down.out, "0\r\n");
    }
    if (e->answer_body.chunks.state == TN_CHUNK_END)
        mask_flush(&e->mask, &e->down.out);
    return true;
}

static bool pass_answer_body(struct ended *e)
{
    struct tn_buf *in = &e->down.in;
    struct body *b = &e->answer_body;
    size_t at = 0;

    if (!b->chunked && b->left > 0)
        body_next(b, NULL, 0, &e->answer_data);
    while (at < in->len && !e->cut && (e->answer_data > 0 || !body_ended(b))) {
        size_t left = in->len - at;
        size_t n = e->answer_data < (int64_t)left ? (size_t)e->answer_data : left;
        if (n > 0)
            show(e, in->data + at, n, false);
        else
            e->cut |= !pass_framing(e, in->data[at]);
        e->answer_data -= (int64_t)n;
        at += n > 0 ? n : 1;
    }
    tn_buf_eat(in, at);
    bool endless = !b->chunked && e->answer_data > INT64_MAX / 2;
    bool over = e->down.ended && in->len == 0;
    if ((e->answer_data == 0 && body_ended(b)) || (endless && over && !e->down.broken)) {
        if (!b->chunked)
            show(e, NULL, 0, true);
        e->answer = ANSWER_NONE;
        return true;
    }
    e->cut |= over;
    return at > 0;
}

static bool step_answer(struct gate *g, struct link *l)
{
    struct ended *e = l->ended;
    size_t n = e->down.in.len;

    if (e->closing || e->down.out.len > 0)
        return false;
    switch (e->answer) {
    case ANSWER_NONE:
        e->cut |= n > 0; /* of nobody's asking */
        e->closing |= e->down.ended;
        return false;
    case ANSWER_HEAD:
        return take_answer(g, l);
    case ANSWER_BODY:
        return pass_answer_body(e);
    case ANSWER_SWITCHED:
        show(e, e->down.in.data, n, e->down.ended);
        tn_buf_reset(&e->down.in);
        e->closing |= e->down.ended;
        return n > 0;
    }
    return false;
}

/* --- all of it ------------------------------------------------------------------------------- */

/* Bytes that only look like the beginning of a value must not keep an answer from arriving. */
static void held_too_long(struct gate *g, struct timer *t)
{
    struct ended *e = CONTAINER(t, struct ended, held);

    if (e->answer == ANSWER_BODY || e->answer == ANSWER_SWITCHED)
        show(e, NULL, 0, true);
    run_again(g, &e->link->again);
}

/* Once the client has its last word, it is waited for: a reset would take it back. */
static void close_client(struct gate *g, struct link *l)
{
    struct ended *e = l->ended;
    ssize_t n;

    if (!e->told) {
        if (e->client_ready)
            ending_lib(g->ending)->SSL_shutdown(e->client);
        shutdown(l->client.watch.fd, SHUT_WR);
        timer_start(g, &l->timer, TIMER_LINGER);
        e->told = true;
    }
    while ((n = recv(l->client.watch.fd, g->buffer, sizeof g->buffer, MSG_DONTWAIT)) > 0)
        ;
    if (n == 0 || errno != EAGAIN)
        link_end(g, l);
}

static bool turn(struct gate *g, struct link *l)
{
    const struct tn_tls_lib *lib = ending_lib(g->ending);
    struct ended *e = l->ended;
    bool moved = shake_hands(g, l);

    if (e->client_ready && !e->closing)
        moved |= pull(lib, e->client, &l->client, &e->up, REQUEST_HEAD_MAX);
    if (e->up.broken && e->request == REQUEST_HEAD && e->up.in.len == 0 && !e->closing &&
        l->timer.kind == TIMER_JUDGE)
        client_failed(g, l);
    moved |= step_request(g, l);
    if (e->server_ready) {
        moved |= push(lib, e->server, &l->server, &e->up);
        moved |= pull(lib, e->server, &l->server, &e->down, ANSWER_HEAD_MAX);
        moved |= step_answer(g, l);
    }
    if (e->client_ready)
        moved |= push(lib, e->client, &l->client, &e->down);
    e->cut |= e->down.deaf || !tn_buf_ok(&e->up.out) || !tn_buf_ok(&e->down.out);
    return moved;
}

void ended_advance(struct gate *g, struct link *l)
{
    struct ended *e = l->ended;
    bool moved = true;

    for (int i = 0; moved && !e->cut && i < ROUNDS; i++)
        moved = turn(g, l);
    if (e->cut) {
        link_cut(g, l);
        return;
    }
    if (moved)
        run_again(g, &l->again);
    if (e->mask.seen.len == 0)
        timer_stop(&e->held);
    else if (!e->held.after)
        timer_start(g, &e->held, TIMER_HELD);
    if (e->closing && e->down.out.len == 0)
        close_client(g, l);
}
