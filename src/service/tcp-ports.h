/* Ports of this machine that lead to ports of sandboxes, byte by byte, for whoever connects.
 *
 * Each belongs to one box: a row of the database from when it is opened until the box has ended
 * (stopped, failed, deleted, or at rest since its time-out), so that it is the same one after a
 * restart of the service, and never somebody else's meanwhile.  Which ports there are, and how many
 * a tenant may have, is the operator's word (options.tcp_ports, max_tcp_ports).  They are on the
 * address of the service. */
#ifndef TN_SERVICE_TCP_PORTS_H
#define TN_SERVICE_TCP_PORTS_H

#include "service/box.h"

/* So many connections at a time, of a tenant no more than are free; others wait until they are
 * accepted. */
struct tcp_ports *tcp_ports_new(struct tn_service *s, int connections);
/* Opens those of the database, and lets clients in.  One that cannot be opened is logged, and told
 * by tcp_ports_open. */
int tcp_ports_begin(struct tcp_ports *p, struct tn_error *err);
/* Whether the operator's words make sense. */
int tcp_ports_check(const struct tn_service_options *options, struct tn_error *err);

/* Whether the tenant (NULL: anybody) may have so many more: TN_E_QUOTA. */
int tcp_ports_allow(struct tcp_ports *p, const char *tenant, size_t more, struct tn_error *err);
/* The port that leads to port `inside` of the box, which is opened unless it is open: its number,
 * or -1 with TN_E_QUOTA (also when all are taken), TN_E_INVALID (the operator gives none),
 * TN_E_CONFLICT (it had one that somebody else has taken since). */
int tcp_ports_open(struct tcp_ports *p, struct box *b, int inside, struct tn_error *err);
/* The box has changed: when it has ended its ports are closed, and what goes through them. */
void tcp_ports_changed(struct tcp_ports *p, const char *box);

/* Every now and then: cuts what a key that was revoked has opened. */
void tcp_ports_tick(struct tcp_ports *p);
/* Nobody is let in any more, and connections are cut.  False: at the deadline one still uses a box.
 */
bool tcp_ports_end(struct tcp_ports *p, int64_t deadline);
void tcp_ports_free(struct tcp_ports *p);

#endif
