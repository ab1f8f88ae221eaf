/* Calls: which method, for whom, one message or many, and how it ends. */
#include "base/log.h"
#include "service/front.h"
#include "service/jws.h"
#include "service/modal/modal.h"

/* Of what is written to a file, 16 megabytes at most. */
enum { MESSAGE_MAX = (16 << 20) + (64 << 10), TEXT_MAX = 4 << 10 };
#define TOKEN_SECONDS 3600
#define CLIENT "/modal.client.ModalClient/"
#define ROUTER "/modal.task_command_router.TaskCommandRouter/"
static const char type[] = "application/grpc";

/* --- how a call ends ------------------------------------------------------------------------- */

/* The two trailers, as lines. */
static void put_status(struct tn_buf *out, unsigned status, const char *text)
{
    tn_buf_printf(out, "grpc-status: %u\r\n", status);
    if (status != TN_GRPC_OK) {
        tn_buf_puts(out, "grpc-message: ");
        tn_grpc_add_text(out, text);
        tn_buf_puts(out, "\r\n");
    }
}

/* Nothing but how it ended: fields of the head then. */
static int reply_status_only(struct tn_http_exchange *x, unsigned status, const char *text)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(TEXT_MAX);
    char number[16];

    snprintf(number, sizeof number, "%u", status);
    tn_grpc_add_text(&message, text);
    tn_http_set_header(x, "grpc-status", number);
    tn_http_set_header(x, "grpc-message", tn_buf_str(&message));
    return tn_http_reply(x, 200, type, NULL, 0);
}

/* For whoever answers with a status of HTTP, which the first code with that status means. */
static int reply(struct tn_http_exchange *x, int status, const char *code, const char *detail)
{
    enum tn_grpc_status told = TN_GRPC_INTERNAL;

    for (int i = TN_CODE_COUNT - 1; i > TN_OK; i--)
        if (tn_code_row((enum tn_code)i)->http_status == status)
            told = tn_grpc_status_of((enum tn_code)i);
    return reply_status_only(x, status == 401 ? TN_GRPC_UNAUTHENTICATED : told, detail);
}

int modal_exists(struct modal_call *c, const char *what, const char *name)
{
    char text[256];

    snprintf(text, sizeof text, "%s '%.100s' exists already", what, name);
    reply_status_only(c->x, TN_GRPC_ALREADY_EXISTS, text);
    return MODAL_ANSWERED;
}

/* What a client sent and makes no sense is its own fault. */
static void fail(struct modal_call *c, const struct tn_error *err)
{
    tn_autobuf struct tn_buf lines = TN_BUF_INIT(TEXT_MAX);
    enum tn_grpc_status status = tn_grpc_status_of(err->code);

    if (!c->started) {
        reply_status_only(c->x, status, err->text);
        return;
    }
    put_status(&lines, status, err->text);
    tn_http_end_with(c->x, tn_buf_str(&lines));
}

int modal_send(struct modal_call *c, const void *message, struct tn_error *err)
{
    tn_autobuf struct tn_buf bytes = ANSWER_BUF(c->x, 64 << 20);

    if (tn_grpc_add(&bytes, message))
        return tn_fail(err, TN_E_BUSY, "There is no memory for the answer just now");
    if (!c->started && tn_http_start(c->x, 200, type, -1))
        return tn_fail(err, TN_E_GONE, "the client is gone");
    c->started = true;
    return tn_http_write(c->x, tn_buf_str(&bytes), bytes.len)
               ? tn_fail(err, TN_E_GONE, "the client is gone")
               : 0;
}

static void finish(struct modal_call *c, int result, struct tn_error *err)
{
    const Modal__Empty nothing = MODAL__EMPTY__INIT;

    if (result == MODAL_ANSWERED)
        return;
    if (result == 0 && !c->started)
        result = modal_send(c, &nothing, err);
    if (result == 0)
        tn_http_end_with(c->x, "grpc-status: 0\r\n");
    else if (tn_http_peer_gone(c->x) && c->started)
        tn_http_abort(c->x);
    else
        fail(c, err);
}

/* --- requests -------------------------------------------------------------------------------- */

int modal_read(struct modal_call *c, tn_frame_fn fn, void *ctx, struct tn_error *err)
{
    struct tn_frame_reader reader;
    char piece[16 << 10];
    int result = 0;
    ssize_t n;

    tn_frame_reader_init(&reader, MESSAGE_MAX);
    reader.held.purse = purse_of(c->x);
    while (!result && (n = tn_http_read(c->x, piece, sizeof piece, err)) != 0)
        result = n < 0 ? -1 : tn_frame_read(&reader, piece, (size_t)n, fn, ctx, err);
    if (!result && reader.held.len)
        result = tn_fail(err, TN_E_INVALID, "the last message is cut short");
    if (result < 0 && err->code == TN_E_PEER)
        err->code = TN_E_TOO_LARGE;
    tn_frame_reader_done(&reader);
    return result;
}

struct only {
    const ProtobufCMessageDescriptor *of;
    void *message;
    struct tn_held held;
    struct tn_error *err;
};

static int take_only(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    struct only *only = ctx;

    if (only->message)
        return tn_fail(only->err, TN_E_INVALID, "more than one message");
    only->message = tn_grpc_read(only->of, kind, bytes, n, &only->held, only->err);
    if (only->err->code == TN_E_PEER)
        only->err->code = TN_E_INVALID;
    return only->message ? 0 : -1;
}

static void call(struct modal_call *c, const struct modal_method *m)
{
    struct tn_error err = {0};
    struct only only = {.of = m->request, .held.purse = purse_of(c->x), .err = &err};
    int result = 0;

    if (m->request)
        result = modal_read(c, take_only, &only, &err);
    if (!result && m->request && !only.message)
        result = tn_fail(&err, TN_E_INVALID, "no message");
    if (!result)
        result = m->call(c, only.message, &err);
    if (only.message)
        protobuf_c_message_free_unpacked(only.message, NULL);
    tn_purse_give(only.held.purse, only.held.bytes);
    finish(c, result, &err);
}

/* What is called XxxV2 is Xxx, unless it has a row of its own. */
static const struct modal_method *find(const struct modal_method *const *tables, const char *name)
{
    size_t n = strlen(name), plain = n > 2 && strcmp(name + n - 2, "V2") == 0 ? n - 2 : n;
    const struct modal_method *other = NULL;

    for (; *tables; tables++)
        for (const struct modal_method *m = *tables; m->name; m++) {
            if (strcmp(m->name, name) == 0)
                return m;
            if (strlen(m->name) == plain && strncmp(m->name, name, plain) == 0)
                other = m;
        }
    return other;
}

static void dispatch(struct modal_call *c, const struct modal_method *const *tables)
{
    const char *name = tn_http_param(c->x, "method");
    const struct modal_method *m = find(tables, name);
    char text[160];

    c->who = caller_of(c->x);
    snprintf(text, sizeof text, "%.60s is not served here: see docs/clouds/modal.md", name);
    if (!m)
        reply_status_only(c->x, TN_GRPC_UNIMPLEMENTED, text);
    else if (caller_may(c->x, m->scope))
        call(c, m);
}

static void post_client(struct tn_http_exchange *x, void *ctx)
{
    static const struct modal_method *const tables[] = {
        modal_account, modal_secrets, modal_creates,  modal_sandboxes, modal_lists,   modal_tunnels,
        modal_mounts,  modal_images,  modal_commands, modal_volumes,   modal_file_io, NULL};

    dispatch(&(struct modal_call){.x = x, .s = ctx}, tables);
}

/* --- the router ------------------------------------------------------------------------------ */

static void router_secret(const struct tn_service *s, char out[SURFACE_TOKEN])
{
    surface_token(s, "modal-router", "", out);
}

char *modal_token(const struct modal_call *c, const char *box)
{
    tn_autobuf struct tn_buf token = TN_BUF_INIT(JWS_MAX);
    char secret[SURFACE_TOKEN];

    router_secret(c->s, secret);
    tn_autofree char *claims =
        tn_asprintf("{\"box\":\"%s\",\"key\":\"%s\",\"exp\":%lld}", box, c->who->key_id,
                    (long long)service_time() + TOKEN_SECONDS);
    jws_sign(secret, claims, &token);
    explicit_bzero(secret, sizeof secret);
    return tn_buf_take(&token);
}

/* Clients in JavaScript and Go want https and, where the service is on their own machine, speak
 * without TLS all the same; Python means what it says. */
char *modal_router_url(const struct modal_call *c)
{
    const char *client = tn_http_header(c->x, "X-Modal-Client-Type");
    tn_autofree char *url = base_url(c->x);
    const char *rest = strstr(url, "://");

    return client && strcmp(client, "1") != 0 && rest ? tn_asprintf("https%s", rest)
                                                      : TN_TAKE_PTR(url);
}

/* Whoever shows a token is the key that asked for it, for that box alone.  NULL: answered. */
static struct box *enter(struct tn_http_exchange *x, struct tn_service *s)
{
    static const char scheme[] = "Bearer ";
    const char *given = tn_http_header(x, "Authorization");
    tn_autojson struct tn_json *claims = NULL;
    char secret[SURFACE_TOKEN];
    struct caller who;

    router_secret(s, secret);
    bool known = given && strncmp(given, scheme, sizeof scheme - 1) == 0 &&
                 jws_check(secret, given + sizeof scheme - 1, service_time(), &claims, NULL) == 0 &&
                 keyring_find(s->keys, tn_json_get_str(claims, "key", ""), &who, NULL) == 0;
    explicit_bzero(secret, sizeof secret);
    if (!known) {
        reply_unauthorized(x, "The token of this task is missing, or does not count any more");
        return NULL;
    }
    who.scopes &= SCOPES_USUAL;
    if (!caller_enter(x, &who))
        return NULL;
    struct box *b = box_find(s, who.tenant, tn_json_get_str(claims, "box", ""), NULL);
    if (!b)
        native_refuse(x, TN_E_NOT_FOUND, "this task has ended");
    return b;
}

static void post_router(struct tn_http_exchange *x, void *ctx)
{
    static const struct modal_method *const tables[] = {modal_router, NULL};
    autobox struct box *b = enter(x, ctx);

    if (b)
        dispatch(&(struct modal_call){.x = x, .s = ctx, .box = b}, tables);
}

bool modal_take(struct tn_service *s, struct tn_http_exchange *x)
{
    const char *path = tn_http_path(x);

    if (modal_take_tunnel(s, x))
        return true;
    if (strncmp(path, CLIENT, sizeof CLIENT - 1) == 0 ||
        strncmp(path, ROUTER, sizeof ROUTER - 1) == 0)
        surface_speak(x, reply);
    return false;
}

const struct tn_route routes_modal[] = {
    {"POST", CLIENT "{method}", post_client, "Modal: apps, images, sandboxes", 0},
    {"POST", ROUTER "{method}", post_router, "Modal: commands in a sandbox", TN_ROUTE_OPEN},
    {0},
};
