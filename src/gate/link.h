/* One TCP connection of the sandbox and the one that the gate makes for it. */
#ifndef TN_GATE_LINK_H
#define TN_GATE_LINK_H

#include "gate/body.h"
#include "gate/gate.h"

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
    struct tn_address address; /* that the sandbox wanted */
    uint16_t port;
    struct tn_rules *own; /* what somebody allowed for it alone; NULL: the rules of the gate */
    enum guard guard;
    unsigned pass;   /* enum tn_rule_pass */
    int64_t granted; /* bytes of the client that may go */
    bool free;       /* all may go; it is looked at for TLS that is to be ended */
    struct tn_http_scan scan;
    struct body body;
    struct ended *ended; /* not NULL: see ended.c; then nothing above counts */
};

enum { REQUEST_HEAD_MAX = 16 << 10 };
extern const struct tn_http_limits request_limits;

/* A connection of the sandbox: what is to become of it.  Takes fd. */
void link_judge(struct gate *g, int fd, const struct tn_wish *w);
/* ...which is known, and with it where the gate connects to.  Takes fd and own (or NULL). */
void link_begin(struct gate *g, int fd, const struct tn_wish *w, const struct judgement *j,
                const struct tn_address *to, struct tn_rules *own);
static inline const struct tn_rules *link_rules(const struct gate *g, const struct link *l)
{
    return l->own ? l->own : &g->rules;
}
void link_close_hard(int fd);
void link_end(struct gate *g, struct link *l);
void link_cut(struct gate *g, struct link *l); /* with a reset: an end that nobody meant */

/* Looks at what is there; false: the link was ended. */
bool guard_client(struct gate *g, struct link *l);
bool guard_server(struct gate *g, struct link *l);
/* Why the request may not pass, with what it is for; NULL: it may.  inside: the name that the TLS
 * around it is for, NULL: there is none. */
const char *guard_request(struct gate *g, const struct link *l, const char *inside,
                          const struct tn_http_head *head, const char *bytes,
                          char what[TARGET_TEXT]);
/* The last answer of a connection, which says so. */
enum { REFUSAL_TEXT = TARGET_TEXT + 400 };
size_t guard_refusal(char out[REFUSAL_TEXT], const char *status, const char *what, const char *why);

/* --- ended.c: a link whose TLS ends here, on both sides --------------------------------------- */

/* What the client has said so far is still in the socket.  False: there are too many already. */
bool ended_begin(struct gate *g, struct link *l, const char *name);
void ended_advance(struct gate *g, struct link *l);
void ended_unreachable(struct ended *e, int error);
/* Its time for the handshake is over: true when it is the server's fault, which is to be said. */
bool ended_is_late(struct gate *g, struct link *l);
void ended_free(struct gate *g, struct ended *e);

#endif
