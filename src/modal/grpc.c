#include "modal/grpc.h"

#include <arpa/inet.h>
#include <limits.h>

#include "base/hex.h"

/* --- how a call ended ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum tn_code code; /* that an answer of theirs means */
} statuses[] = {
    [TN_GRPC_OK] = {"OK", TN_OK},
    [TN_GRPC_CANCELLED] = {"CANCELLED", TN_E_PEER},
    [TN_GRPC_UNKNOWN] = {"UNKNOWN", TN_E_PEER},
    [TN_GRPC_INVALID_ARGUMENT] = {"INVALID_ARGUMENT", TN_E_INVALID},
    [TN_GRPC_DEADLINE_EXCEEDED] = {"DEADLINE_EXCEEDED", TN_E_TIMEOUT},
    [TN_GRPC_NOT_FOUND] = {"NOT_FOUND", TN_E_NOT_FOUND},
    [TN_GRPC_ALREADY_EXISTS] = {"ALREADY_EXISTS", TN_E_CONFLICT},
    [TN_GRPC_PERMISSION_DENIED] = {"PERMISSION_DENIED", TN_E_DENIED},
    [TN_GRPC_RESOURCE_EXHAUSTED] = {"RESOURCE_EXHAUSTED", TN_E_QUOTA},
    [TN_GRPC_FAILED_PRECONDITION] = {"FAILED_PRECONDITION", TN_E_CONFLICT},
    [TN_GRPC_ABORTED] = {"ABORTED", TN_E_CONFLICT},
    [TN_GRPC_OUT_OF_RANGE] = {"OUT_OF_RANGE", TN_E_RANGE},
    [TN_GRPC_UNIMPLEMENTED] = {"UNIMPLEMENTED", TN_E_UNSUPPORTED},
    [TN_GRPC_INTERNAL] = {"INTERNAL", TN_E_PEER},
    [TN_GRPC_UNAVAILABLE] = {"UNAVAILABLE", TN_E_BUSY},
    [TN_GRPC_DATA_LOSS] = {"DATA_LOSS", TN_E_PEER},
    [TN_GRPC_UNAUTHENTICATED] = {"UNAUTHENTICATED", TN_E_DENIED},
};

/* What we answer; every other code is INTERNAL. */
static const unsigned char answers[TN_CODE_COUNT] = {
    [TN_E_INVALID] = TN_GRPC_INVALID_ARGUMENT,
    [TN_E_DENIED] = TN_GRPC_PERMISSION_DENIED,
    [TN_E_NOT_FOUND] = TN_GRPC_NOT_FOUND,
    [TN_E_METHOD] = TN_GRPC_UNIMPLEMENTED,
    [TN_E_TIMEOUT] = TN_GRPC_DEADLINE_EXCEEDED,
    [TN_E_CONFLICT] = TN_GRPC_FAILED_PRECONDITION,
    [TN_E_GONE] = TN_GRPC_NOT_FOUND,
    [TN_E_TOO_LARGE] = TN_GRPC_RESOURCE_EXHAUSTED,
    [TN_E_RANGE] = TN_GRPC_OUT_OF_RANGE,
    [TN_E_UNPROCESSABLE] = TN_GRPC_INVALID_ARGUMENT,
    [TN_E_QUOTA] = TN_GRPC_RESOURCE_EXHAUSTED,
    [TN_E_UNSUPPORTED] = TN_GRPC_FAILED_PRECONDITION,
    [TN_E_BUSY] = TN_GRPC_UNAVAILABLE,
    [TN_E_PEER] = TN_GRPC_UNAVAILABLE,
};

const char *tn_grpc_status_name(unsigned status)
{
    return statuses[status < TN_COUNT(statuses) ? status : TN_GRPC_UNKNOWN].name;
}

enum tn_grpc_status tn_grpc_status_of(enum tn_code code)
{
    if (code == TN_OK)
        return TN_GRPC_OK;
    return code < TN_CODE_COUNT && answers[code] ? answers[code] : TN_GRPC_INTERNAL;
}

enum tn_code tn_grpc_code(unsigned status)
{
    return statuses[status < TN_COUNT(statuses) ? status : TN_GRPC_UNKNOWN].code;
}

int tn_grpc_add_text(struct tn_buf *to, const char *text)
{
    for (; *text; text++)
        if (*text >= ' ' && *text <= '~' && *text != '%')
            tn_buf_putc(to, *text);
        else
            tn_buf_printf(to, "%%%02X", (unsigned char)*text);
    return tn_buf_ok(to) ? 0 : -1;
}

void tn_grpc_plain_text(char *text)
{
    char *to = text;

    for (; *text; text++) {
        int high = *text == '%' ? tn_hex_digit(text[1]) : -1;
        int low = high < 0 ? -1 : tn_hex_digit(text[2]);
        bool escape = low >= 0 && (high || low); /* never the end of a string */
        *to++ = escape ? (char)(high << 4 | low) : *text;
        text += escape ? 2 : 0;
    }
    *to = '\0';
}

/* --- messages ------------------------------------------------------------------------------ */

int tn_grpc_add(struct tn_buf *to, const ProtobufCMessage *message)
{
    size_t n = protobuf_c_message_get_packed_size(message);
    char *at = n > UINT_MAX ? NULL : tn_buf_reserve(to, TN_FRAME_HEAD + n);

    if (!at)
        return -1;
    tn_frame_head((unsigned char *)at, 0, (uint32_t)n);
    protobuf_c_message_pack(message, (uint8_t *)at + TN_FRAME_HEAD);
    tn_buf_grew(to, TN_FRAME_HEAD + n);
    return 0;
}

/* Two bytes of a repeated message become a hundred in memory: so many are allowed. */
enum { MEMORY_FREE = 256 << 10, MEMORY_FACTOR = 8, MALLOC_BYTES = 16 };

struct bounded {
    size_t left;
    struct tn_held *held;
    bool poor;
};

static void *take_bounded(void *ctx, size_t n)
{
    struct bounded *b = ctx;
    size_t price = n + MALLOC_BYTES;

    if (n > b->left)
        return NULL;
    b->left -= n;
    b->poor = b->held && !tn_purse_take(b->held->purse, price);
    if (b->poor)
        return NULL;
    if (b->held)
        b->held->bytes += price;
    return malloc(n);
}

static void give_back(void *ctx, void *p)
{
    free(p);
}

void *tn_grpc_read(const ProtobufCMessageDescriptor *of, char kind, const void *bytes, size_t n,
                   struct tn_held *held, struct tn_error *err)
{
    struct bounded bounds = {.left = MEMORY_FREE + MEMORY_FACTOR * n, .held = held};
    ProtobufCAllocator bounded = {take_bounded, give_back, &bounds};

    if (kind != 0) {
        tn_fail(err, TN_E_PEER, "a gRPC message of kind %d: compression was not agreed on", kind);
        return NULL;
    }
    void *message = protobuf_c_message_unpack(of, &bounded, n, bytes);
    if (!message && bounds.poor)
        tn_fail(err, TN_E_BUSY, "There is no memory for the message just now; try again");
    else if (!message)
        tn_fail(err, TN_E_PEER, "%zu bytes that are no %s", n, of->short_name);
    return message;
}
