/* Calls of gRPC over one line: what call.c does for all vendors, with messages for bodies and the
 * status at the end of the answer. */
#include "base/base64.h"
#include "runtime/cloud/modal/modal.h"

#define CLIENT "/modal.client.ModalClient/"
#define ROUTER "/modal.task_command_router.TaskCommandRouter/"
#define TYPE "application/grpc+proto"
enum { ASKED_MAX = 4 << 20, OLD_ID = 22 };

static const char *const trailers[] = {"TE: trailers", NULL};
const struct tn_web_call modal_harmless = {.method = "POST",
                                           .target = CLIENT "AuthTokenGet",
                                           .headers = trailers,
                                           .type = TYPE,
                                           .body = "\0\0\0\0",
                                           .body_len = TN_FRAME_HEAD};

struct tn_web *modal_web(const char *url, struct tn_error *err)
{
    const struct tn_web_options options = {.base = url, .http2 = true};

    return tn_web_new(&options, err);
}

void modal_uuid(const unsigned char b[16], char out[MODAL_UUID])
{
    /* Version 4, as if all of it were random. */
    snprintf(out, MODAL_UUID,
             "%02x%02x%02x%02x-%02x%02x-4%01x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6] & 15u, b[7], (b[8] & 0x3fu) | 0x80u, b[9], b[10], b[11],
             b[12], b[13], b[14], b[15]);
}

/* --- how it went ------------------------------------------------------------------------------ */

/* What HTTP would say.  UNAVAILABLE may come from between, after something was begun. */
static const int statuses[] = {
    [TN_GRPC_OK] = 200,
    [TN_GRPC_CANCELLED] = 500,
    [TN_GRPC_UNKNOWN] = 500,
    [TN_GRPC_INVALID_ARGUMENT] = 400,
    [TN_GRPC_DEADLINE_EXCEEDED] = 504,
    [TN_GRPC_NOT_FOUND] = 404,
    [TN_GRPC_ALREADY_EXISTS] = 409,
    [TN_GRPC_PERMISSION_DENIED] = 403,
    [TN_GRPC_RESOURCE_EXHAUSTED] = 429,
    [TN_GRPC_FAILED_PRECONDITION] = 409,
    [TN_GRPC_ABORTED] = 409,
    [TN_GRPC_OUT_OF_RANGE] = 416,
    [TN_GRPC_UNIMPLEMENTED] = 405,
    [TN_GRPC_INTERNAL] = 500,
    [TN_GRPC_UNAVAILABLE] = 502,
    [TN_GRPC_DATA_LOSS] = 500,
    [TN_GRPC_UNAUTHENTICATED] = 401,
};

/* How many seconds the details of a refusal say to wait; 0: nothing. */
static double wait_of(const struct tn_web_answer *answer)
{
    tn_autofree char *text = tn_web_answer_header(answer, "grpc-status-details-bin");
    tn_autobuf struct tn_buf padded = TN_BUF_INIT(TN_WEB_HEADERS_MAX),
                             bytes = TN_BUF_INIT(TN_WEB_HEADERS_MAX);
    tn_autogrpc Modal__RpcStatus *status = NULL;
    double seconds = 0;

    tn_buf_puts(&padded, text ? text : "");
    while (padded.len % 4)
        tn_buf_putc(&padded, '=');
    if (tn_base64_decode(&bytes, tn_buf_str(&padded), padded.len, NULL) == 0)
        status = tn_grpc_read(&modal__rpc_status__descriptor, 0, bytes.data, bytes.len, NULL, NULL);
    for (size_t i = 0; status && i < status->n_details; i++) {
        const Modal__Any *any = status->details[i];
        if (!any->type_url || !any->has_value || !strstr(any->type_url, "RPCRetryPolicy"))
            continue;
        tn_autogrpc Modal__RpcRetryPolicy *policy = tn_grpc_read(
            &modal__rpc_retry_policy__descriptor, 0, any->value.data, any->value.len, NULL, NULL);
        if (policy && policy->has_retry_after_secs)
            seconds = (double)policy->retry_after_secs;
    }
    return seconds;
}

int modal_status(struct tn_web_answer *answer, char **words)
{
    tn_autofree char *type = tn_web_answer_header(answer, "content-type"),
                     *code = tn_web_answer_header(answer, "grpc-status");
    char *end = NULL;
    unsigned long status = code ? strtoul(code, &end, 10) : 0;

    if (answer->stopped || answer->status != 200)
        return answer->status;
    if (!type || strncmp(type, "application/grpc", 16) != 0 || !code || end == code || *end) {
        *words = tn_strdup("its answer is not gRPC");
        return 500;
    }
    if (status == TN_GRPC_OK)
        return 200;
    *words = tn_web_answer_header(answer, "grpc-message");
    if (*words)
        tn_grpc_plain_text(*words);
    else
        *words = tn_strdup(tn_grpc_status_name((unsigned)status));
    double seconds = wait_of(answer);
    if (seconds > 0)
        tn_buf_printf(&answer->headers, "retry-after: %g\n", seconds);
    return status < TN_COUNT(statuses) ? statuses[status] : 500;
}

/* --- messages --------------------------------------------------------------------------------- */

/* Reads the messages of an answer. */
struct hearing {
    const ProtobufCMessageDescriptor *of;
    struct tn_frame_reader frames;
    modal_said_fn fn;
    void *ctx;
    bool nonsense;
};

static int hear(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    struct hearing *h = ctx;
    tn_autogrpc void *message = tn_grpc_read(h->of, kind, bytes, n, NULL, NULL);

    h->nonsense = !message;
    return h->nonsense ? -1 : h->fn(message, h->ctx);
}

static int feed(const void *bytes, size_t n, void *ctx)
{
    struct hearing *h = ctx;
    int stop = tn_frame_read(&h->frames, bytes, n, hear, h, NULL);

    h->nonsense |= stop < 0;
    return stop;
}

struct one {
    const ProtobufCMessageDescriptor *of;
    void *message;
};

static int take_one(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    struct one *one = ctx;

    if (one->message)
        return -1;
    one->message = tn_grpc_read(one->of, kind, bytes, n, NULL, NULL);
    return one->message ? 0 : -1;
}

int modal_read_one(const ProtobufCMessageDescriptor *of, const void *bytes, size_t n, void **out,
                   struct tn_error *err)
{
    struct tn_frame_reader frames;
    struct one one = {.of = of};

    tn_frame_reader_init(&frames, CLOUD_ANSWER_MAX);
    bool good = tn_frame_read(&frames, bytes, n, take_one, &one, NULL) == 0 && !frames.held.len &&
                one.message;
    tn_frame_reader_done(&frames);
    if (good) {
        *out = one.message;
        return 0;
    }
    if (one.message)
        protobuf_c_message_free_unpacked(one.message, NULL);
    return tn_fail(err, TN_E_PEER, "it makes no sense");
}

/* --- calls ------------------------------------------------------------------------------------ */

/* "sb-" and 22 letters and digits is what ids of the first generation are. */
static bool is_new(const char *id)
{
    return strncmp(id, "sb-", 3) != 0 || strlen(id) != 3 + OLD_ID;
}

/* A router has a token of its own, and is sent no other. */
static struct cloud_line line_of(const struct cloud *c, const struct modal_call *call)
{
    const struct cloud_view *v = call->router;
    struct cloud_line line = v ? (struct cloud_line){.web = v->agent,
                                                     .who = "Modal's router",
                                                     .url = v->agent_url,
                                                     .secrets = {v->token},
                                                     .seconds = c->line.seconds,
                                                     .status = modal_status}
                               : c->line;

    line.seconds = call->patient ? 0 : line.seconds;
    return line;
}

static int send(const struct cloud *c, const struct modal_call *call, struct hearing *h,
                struct tn_web_answer *answer, int64_t deadline, struct tn_error *err)
{
    static const Modal__Empty empty = MODAL__EMPTY__INIT;
    tn_autobuf struct tn_buf body = TN_BUF_INIT(ASKED_MAX);
    tn_autofree char *key = call->key ? tn_asprintf("X-Idempotency-Key: %s", call->key) : NULL;
    tn_autofree char *target = tn_asprintf("%s%s%s", call->router ? ROUTER : CLIENT, call->method,
                                           call->about && is_new(call->about) ? "V2" : "");
    const char *const headers[] = {trailers[0], key, NULL};
    struct cloud_line line = line_of(c, call);

    if (tn_grpc_add(&body, call->in ? call->in : &empty.base) < 0)
        return tn_fail(err, TN_E_TOO_LARGE, "Modal: what %s is given is too large", call->method);
    const struct cloud_call web = {.web = {.method = "POST",
                                           .target = target,
                                           .headers = headers,
                                           .type = TYPE,
                                           .body = body.data,
                                           .body_len = body.len,
                                           .sink = h ? feed : NULL,
                                           .sink_ctx = h,
                                           .cancel = call->cancel},
                                   .unsafe = call->unsafe,
                                   .ends = call->ends};
    return cloud_ask_raw(&line, &web, answer, deadline, err);
}

static int ask(const struct cloud *c, const struct modal_call *call, void *out, int64_t deadline,
               struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(CLOUD_ANSWER_MAX);

    if (out)
        *(void **)out = NULL;
    if (send(c, call, NULL, &answer, deadline, err) < 0)
        return -1;
    if (!out || answer.status == 404)
        return 0;
    if (modal_read_one(call->out, answer.body.data, answer.body.len, out, err) < 0)
        return tn_error_context(err, "Modal: its answer to %s", call->method);
    return 0;
}

/* --- the control plane ------------------------------------------------------------------------ */

/* Calls carry a token, which is had for the other two.  Older platforms have none. */
static int sign_in(struct modal *m, int64_t deadline, struct tn_error *err)
{
    const struct modal_call call = {.method = "AuthTokenGet",
                                    .out = &modal__auth_token_get_response__descriptor};
    tn_autogrpc Modal__AuthTokenGetResponse *got = NULL;
    struct tn_error why = {0};

    if (ask(&m->cloud, &call, &got, deadline, &why) < 0) {
        if (why.code == TN_E_METHOD)
            return 0;
        return cloud_fail(err, &why);
    }
    if (!got->token || !cloud_is_token(got->token))
        return tn_fail(err, TN_E_PEER, "Modal: its token makes no sense");
    return tn_web_header(m->cloud.line.web, "x-modal-auth-token", got->token, err);
}

/* Nobody waits for another's call: of two at once both get a token, and either is good. */
static int be_known(struct modal *m, bool anew, int64_t deadline, struct tn_error *err)
{
    if (m->signed_in && !anew)
        return 0;
    if (sign_in(m, deadline, err) < 0)
        return -1;
    m->signed_in = true;
    return 0;
}

int modal_ask(const struct cloud *c, const struct modal_call *call, void *out, int64_t deadline,
              struct tn_error *err)
{
    struct modal *m = modal_of(c);
    struct tn_error why = {0};

    if (call->router)
        return ask(c, call, out, deadline, err);
    if (be_known(m, false, deadline, err) < 0)
        return -1;
    if (ask(c, call, out, deadline, &why) == 0)
        return 0;
    /* Tokens end: with another one it may be heard. */
    if (why.code == TN_E_DENIED && be_known(m, true, deadline, NULL) == 0)
        return ask(c, call, out, deadline, err);
    return cloud_fail(err, &why);
}

int modal_listen(const struct cloud *c, const struct modal_call *call, modal_said_fn fn, void *ctx,
                 int64_t deadline, struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(CLOUD_BODY_MAX);
    struct hearing h = {.of = call->out, .fn = fn, .ctx = ctx};
    struct tn_error why = {0};

    if (!call->router && be_known(modal_of(c), false, deadline, err) < 0)
        return -1;
    tn_frame_reader_init(&h.frames, CLOUD_ANSWER_MAX);
    int failed = send(c, call, &h, &answer, deadline, &why);
    bool half = !failed && !answer.stopped && h.frames.held.len;
    tn_frame_reader_done(&h.frames);
    if (h.nonsense || half)
        return tn_fail(err, TN_E_PEER, "Modal: the stream of %s makes no sense", call->method);
    /* Tokens end: whoever goes on from where it was has another one. */
    if (failed && why.code == TN_E_DENIED && !call->router &&
        be_known(modal_of(c), true, deadline, NULL) == 0)
        why.code = TN_E_BUSY;
    return failed ? cloud_fail(err, &why) : answer.stopped;
}
