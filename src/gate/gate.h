/* Inside the gate: one process, one loop, everything without waiting.
 *
 * The keeper of a sandbox starts `tendon-gate` when something arrives at the sockets of its wall
 * (wall.h), with these descriptors; it ends by itself when nothing has happened for a while.
 *     tendon-gate
 *         GATE_CONTROL  packets: refusals to the keeper ("WHAT\tWHY") and questions
 *                       (program.h), new settings and answers from it
 *         GATE_PINS     the table of pins.h
 *         GATE_SETTINGS a file: "nameserver ADDRESS" lines, perhaps "ask SECONDS", the rules
 *         GATE_VAULT    vault.h, or /dev/null
 *         GATE_WALL...  the sockets of the wall in their order; /dev/null where there is none */
#ifndef TN_GATE_GATE_H
#define TN_GATE_GATE_H

#include <sys/epoll.h>

#include "base/clock.h"
#include "gate/dns.h"
#include "gate/pins.h"
#include "gate/program.h"
#include "gate/rules.h"
#include "gate/vault.h"
#include "gate/wall.h"

struct gate;

/* --- loop.c: descriptors, time, and what is to be freed -------------------------------------- */

/* Something with a descriptor.  Events come once for each change (EPOLLET). */
struct watch {
    int fd;
    void (*ready)(struct gate *g, struct watch *w, uint32_t events);
};
int watch_begin(struct gate *g, struct watch *w);

/* Each kind has one span, so that a list in the order of beginning is one in the order of end. */
enum timer_kind {
    TIMER_JUDGE,   /* until a client has said what it wants */
    TIMER_CONNECT, /* until the other side has taken a connection */
    TIMER_HALF,    /* of a connection with one end, or between two requests, without a byte */
    TIMER_HELD,    /* of what may be half a value of a secret */
    TIMER_LINGER,  /* until a client has taken the last word */
    TIMER_FLOW,    /* of datagrams, without one */
    TIMER_QUERY,   /* until a nameserver has answered */
    TIMER_LEFT,    /* until one is looked for that waits and will send no more */
    TIMER_ASKED,   /* until somebody has said whether it may pass; as long as the settings say */
    TIMER_KINDS,
};

struct timer {
    struct timer *before, *after; /* NULL: it does not run */
    enum timer_kind kind;
    int64_t at;
    void (*over)(struct gate *g, struct timer *t);
};
void timer_start(struct gate *g, struct timer *t, enum timer_kind kind); /* anew if it runs */
void timer_stop(struct timer *t);

/* Freed after the events of this round, some of which may still speak of it. */
struct grave {
    struct grave *next;
};
void bury(struct gate *g, struct grave *grave);

/* Called again in the next round, without an event. */
struct again {
    struct again *next;
    bool waits;
    void (*run)(struct gate *g, struct again *a);
};
void run_again(struct gate *g, struct again *a);

/* A socket of the wall: what it has is taken in rounds, so that nobody else waits. */
struct source {
    struct watch watch;
    struct again again;
};
enum { TAKEN_A_ROUND = 64 };

#define CONTAINER(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* --- judge.c: what may pass ------------------------------------------------------------------ */

/* LOOK: by what the client says first; see `pass`.  FREE: whatever it says, but TLS for the host of
 * a secret is ended. */
enum verdict { REFUSED, PASSES, LOOK, FREE };

struct judgement {
    enum verdict verdict;
    unsigned pass; /* enum tn_rule_pass of all names that the address has */
    const char *why;
    bool ask;     /* REFUSED, unless somebody who is asked lets it through */
    bool look_up; /* the address stands for a name, which is to be looked up first */
};

/* By the names that the address had at that time. */
struct judgement judge(struct gate *g, const struct tn_address *a, uint16_t port, bool udp,
                       int64_t at);
/* The name that the address was given for, or the address: who is asked about it. */
void target_host(struct gate *g, const struct tn_address *a, char out[TN_NAME_MAX + 1]);
/* What is said to the keeper, and by it to whoever runs the sandbox. */
void refuse(struct gate *g, const char *what, const char *why);
/* "name:443", or "1.2.3.4:443" where no name is known. */
enum { TARGET_TEXT = 300 };
const char *target_text(struct gate *g, const struct tn_address *a, uint16_t port,
                        char out[TARGET_TEXT]);
/* Whether the name may have that address in an answer. */
bool may_answer(struct gate *g, const struct tn_address *a);
/* Whether the address is far enough, or a rule by address names it with that port. */
bool may_reach(struct gate *g, const struct tn_address *a, uint16_t port);

/* --- route.c --------------------------------------------------------------------------------- */

enum route { ROUTE_NONE, ROUTE_OUT, ROUTE_HERE };
/* Where this machine would send it; HERE is an address of its own. */
enum route route_of(int socket, const struct tn_address *a);

/* --- names.c, names-tcp.c: DNS --------------------------------------------------------------- */

/* Whoever asked a question: by a datagram, on a connection (then not NULL), or asked.c. */
struct asker {
    bool here;
    struct tn_address client, server;
    uint16_t client_port, server_port;
    struct name_conn *conn;
};

void names_ask(struct gate *g, const struct asker *who, const uint8_t *bytes, size_t size);
/* Looks it up for asked.c, which gets the addresses in asked_found. */
void names_find(struct gate *g, const char *name, enum tn_dns_type type);
void names_accept(struct gate *g, int fd); /* takes it */
void names_reply(struct gate *g, struct name_conn *conn, const struct tn_buf *message);
void names_forget(struct gate *g, const struct name_conn *conn);

/* --- packet.c: datagrams to the sandbox, from any address ------------------------------------ */

struct ends {
    struct tn_address from, to;
    uint16_t from_port, to_port;
};
void packet_send(struct gate *g, const struct ends *e, const void *bytes, size_t size);
/* "Prohibited", about a datagram that e->from sent to e->to. */
void packet_prohibit(struct gate *g, const struct ends *e, size_t size);

/* --- link.c, guard.c, ended.c: TCP; flow.c: UDP ---------------------------------------------- */

void links_accept(struct gate *g, struct watch *w, uint32_t events);
void flows_receive(struct gate *g, struct watch *w, uint32_t events);

/* --- asked.c: connections that wait for an answer, or for their address ----------------------- */

/* An address that stands for a name without a rule, which nobody looks up before somebody has
 * allowed a connection to it; false: there is none. */
bool asked_stand_in(struct gate *g, const char *name, struct tn_address *out);
bool asked_stands_in(const struct tn_address *a);
/* Takes fd and keeps it waiting; false: too many wait, and fd is the caller's. */
bool asked_hold(struct gate *g, int fd, const struct tn_wish *w, const struct judgement *j);
/* The keeper's answer (program.h): HOST TAB PORT. */
void asked_answered(struct gate *g, char sign, const char *what, size_t size);
void asked_found(struct gate *g, const struct tn_dns_question *q, const struct tn_dns_answer *a);
/* Rules, or whether anybody can be asked, have changed. */
void asked_again(struct gate *g);

/* --- confine.c ------------------------------------------------------------------------------- */

int gate_confine(struct tn_error *err);

/* --- pod.c ----------------------------------------------------------------------------------- */

/* What tendon-gate is in a pod beside a gate (pod.h). */
int pod_main(int argc, char **argv);

/* --- the whole ------------------------------------------------------------------------------- */

enum {
    LINKS_MAX = 16384,
    ENDED_MAX = 256, /* of these, whose TLS the gate ends */
    FLOWS_MAX = 2048,
    FLOW_BUCKETS = 1024,
    QUERIES_MAX = 512,
    NAME_CONNS_MAX = 64,
    HELD_MAX = 256, /* connections that wait for an answer */
    SERVERS_MAX = 3,
    PIPES_KEPT = 64,
    PIPES_MAX = 512, /* open at once; whoever gets none is copied for */
    FILES_APART = 2 * PIPES_MAX + FLOWS_MAX + QUERIES_MAX + NAME_CONNS_MAX + HELD_MAX + 64,
    BUFFER = 64 << 10,
};

struct gate {
    int epoll;
    struct tn_wall wall;
    struct source listeners[2], datagrams[2];
    struct watch control;
    int route;
    bool ipv6;               /* this machine has a way out */
    enum tn_dns_type family; /* of addresses that stand for names, and are looked up first */
    struct tn_rules rules;
    struct vault vault;
    struct ending *ending; /* NULL: there is no vault */
    struct tn_pins *pins;
    struct tn_address servers[SERVERS_MAX];
    size_t server_count;
    double ask_seconds; /* 0: nobody is there to be asked */
    unsigned settings;  /* how often it was given some */

    struct timer timers[TIMER_KINDS]; /* heads of rings */
    struct grave *graves;
    struct again *again, **again_end;
    int64_t now, quiet; /* since when nothing is open */

    bool full; /* connections wait in the kernel until another ends */
    struct link *links;
    struct flow *flows[FLOW_BUCKETS];
    struct query *queries;
    struct asked *asked;
    size_t held_count;
    size_t link_count, ended_count, flow_count, query_count, name_conn_count;
    int pipes[PIPES_KEPT][2];
    size_t pipe_count, pipes_open, links_max;
    int64_t refusals_from; /* the second in which... */
    int refusals;          /* ...so many were reported */
    uint8_t buffer[BUFFER];
};

#endif
