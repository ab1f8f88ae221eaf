/* One TCP connection of the sandbox and the one that the gate makes for it. */
#ifndef TN_GATE_LINK_H
#define TN_GATE_LINK_H

#include "gate/gate.h"
#include "net/http-parse.h"

struct side {
    struct watch watch;
    bool in, out; /* there may be something to read, room to write */
};

struct way {
    int pipe[2]; /* -1: none while nothing is on its way */
    size_t held; /* bytes in it */
    bool ended;  /* the side that it comes from has closed */
};

/* What the client says is looked at before it is passed on; the bytes stay in the socket
 * (MSG_PEEK) until it is known how many of them may go. */
enum guard {
    GUARD_NONE,   /* all may go */
    GUARD_FIRST,  /* the first bytes: which protocol? */
    GUARD_HEAD,   /* the head of a request */
    GUARD_CHUNKS, /* its body, in chunks */
    GUARD_SWITCH, /* what the server says to another protocol */
};

#define GRANT_ALL INT64_MAX

struct link {
    struct grave grave; /* first: it is freed by it */
    struct link *before, *after;
    struct timer timer;
    struct again again;
    struct side client, server;
    struct way up, down;
    bool connected;
    struct tn_address address;
    uint16_t port;
    enum guard guard;
    unsigned pass;   /* enum tn_rule_pass */
    int64_t granted; /* bytes of the client that may go */
    struct tn_http_scan scan;
    struct tn_http_chunked chunks;
};

void link_end(struct gate *g, struct link *l);

/* Looks at what is there; false: the link was ended. */
bool guard_client(struct gate *g, struct link *l);
bool guard_server(struct gate *g, struct link *l);

#endif
