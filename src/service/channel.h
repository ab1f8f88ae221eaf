/* A process over a WebSocket: what it says, and for a terminal what is typed. */
#ifndef TN_SERVICE_CHANNEL_H
#define TN_SERVICE_CHANNEL_H

#include "net/websocket.h"
#include "service/process.h"

struct channel {
    struct tn_http_exchange *x; /* borrowed, like the box */
    struct box *box;
    bool terminal; /* it is typed on, and all it says is binary messages; else each message begins
                        with three bytes that are 1 (output) or 2 (errors), and nobody is heard */
    bool over;     /* out: the process has ended, with this exit code */
    int64_t exit_code;
    struct tn_ws ws;
    int quiet; /* beats since the client was heard */
};

/* Accepts the WebSocket: 0, or -1 (answered).  channel_close follows. */
int channel_open(struct channel *ch);
/* Until the process ends (over) or nobody listens; it goes on without them. */
void channel_converse(struct channel *ch, const char *which);
/* 0, or 1: the client is gone. */
int channel_say(struct channel *ch, enum tn_ws_kind kind, const void *bytes, size_t n);
void channel_close(struct channel *ch, int code, const char *reason);

#endif
