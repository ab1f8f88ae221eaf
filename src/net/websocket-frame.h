/* What the two WebSocket files share: frame headers, masks, the handshake's proof. */
#ifndef TN_NET_WEBSOCKET_FRAME_H
#define TN_NET_WEBSOCKET_FRAME_H

#include "net/websocket.h"

enum {
    WS_CONTINUATION = 0,
    WS_HEADER_MAX = 14,
    WS_CONTROL_MAX = 125,
};

/* Close codes this side sends by itself. */
enum { WS_CODE_PROTOCOL = 1002, WS_CODE_TEXT = 1007, WS_CODE_TOO_LARGE = 1009 };

/* The header of a final frame; mask may be NULL.  Returns its length. */
size_t ws_frame_header(unsigned char out[WS_HEADER_MAX], int opcode, size_t n,
                       const unsigned char mask[4]);
void ws_mask(char *bytes, size_t n, const unsigned char mask[4]);
/* Whether a close frame may carry the code. */
bool ws_close_code_valid(int code);

#endif
