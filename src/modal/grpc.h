/* gRPC: the messages of its streams, each behind five bytes of head (net/frame.h has these), and
 * how a call ended.  The messages are those of modal.proto, by protobuf-c. */
#ifndef TN_MODAL_GRPC_H
#define TN_MODAL_GRPC_H

#include "base/buf.h"
#include "base/error.h"
#include "modal/modal.pb-c.h"
#include "net/frame.h"

/* The status of a call, as on the wire. */
enum tn_grpc_status {
    TN_GRPC_OK = 0,
    TN_GRPC_CANCELLED = 1,
    TN_GRPC_UNKNOWN = 2,
    TN_GRPC_INVALID_ARGUMENT = 3,
    TN_GRPC_DEADLINE_EXCEEDED = 4,
    TN_GRPC_NOT_FOUND = 5,
    TN_GRPC_ALREADY_EXISTS = 6,
    TN_GRPC_PERMISSION_DENIED = 7,
    TN_GRPC_RESOURCE_EXHAUSTED = 8,
    TN_GRPC_FAILED_PRECONDITION = 9,
    TN_GRPC_ABORTED = 10,
    TN_GRPC_OUT_OF_RANGE = 11,
    TN_GRPC_UNIMPLEMENTED = 12,
    TN_GRPC_INTERNAL = 13,
    TN_GRPC_UNAVAILABLE = 14,
    TN_GRPC_DATA_LOSS = 15,
    TN_GRPC_UNAUTHENTICATED = 16,
};

/* "NOT_FOUND"; "UNKNOWN" for a number that is none. */
const char *tn_grpc_status_name(unsigned status);
/* What to answer to an error of ours, and the code for an answer of theirs. */
enum tn_grpc_status tn_grpc_status_of(enum tn_code code);
enum tn_code tn_grpc_code(unsigned status);

/* Adds the text as a grpc-message has it: what is not plain ASCII as %XX. */
int tn_grpc_add_text(struct tn_buf *to, const char *text);
/* The text of a grpc-message in place; what is no %XX stays. */
void tn_grpc_plain_text(char *text);

/* Adds the message with its head: 0, or -1 when the buffer is full. */
int tn_grpc_add(struct tn_buf *to, const ProtobufCMessage *message);

/* The message of this kind that was in a frame (kind is its first byte: compressed ones are not
 * taken), to be freed with protobuf_c_message_free_unpacked(m, NULL).  All that it takes in
 * memory is bounded by n and a constant, whatever it says, and taken from the purse of held (NULL:
 * none), whose bytes grow: the caller gives them back when the message is gone.  NULL with
 * TN_E_PEER when it is not one, TN_E_BUSY when there is not enough in the purse. */
void *tn_grpc_read(const ProtobufCMessageDescriptor *of, char kind, const void *bytes, size_t n,
                   struct tn_held *held, struct tn_error *err);

static inline void tn_grpc_freep(void *at)
{
    protobuf_c_message_free_unpacked(*(ProtobufCMessage **)at, NULL);
}
#define tn_autogrpc TN_CLEANUP(tn_grpc_freep)

#endif
