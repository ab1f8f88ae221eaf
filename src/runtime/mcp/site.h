/* Where an MCP server is reached over HTTP: its address, the headers that every request has, and
 * one request. */
#ifndef TN_RUNTIME_MCP_SITE_H
#define TN_RUNTIME_MCP_SITE_H

#include <pthread.h>

#include "net/sse-read.h"
#include "runtime/mcp/dial.h"
#include "runtime/mcp/link.h"
#include "web/web.h"

struct mcp_site {
    struct tn_web *web;      /* either this */
    struct mcp_dial *dial;   /* or that */
    char *base;              /* scheme, host and port */
    struct mcp_oauth *oauth; /* or NULL */
    int stop;                /* an event: readable when everything is to end */
    pthread_mutex_t lock;    /* of what follows */
    char *target;            /* path and query */
    char *nonce;             /* what proofs must repeat (DPoP), or NULL */
};

/* -1 with err for an address that nobody can talk HTTP to. */
int mcp_site_open(struct mcp_site *site, const struct mcp_server *server, const char *url,
                  struct tn_error *err);
/* Also of one that could not be opened. */
void mcp_site_done(struct mcp_site *site);
/* Makes requests under way give up. */
void mcp_site_stop(struct mcp_site *site);

/* Requests go to this place from now on: a URL of the same origin, or relative to the one before.
 * -1 when it is somewhere else, where our key has no business. */
int mcp_site_move(struct mcp_site *site, const char *to, struct tn_error *err);

/* Sends the request, whose target is filled in here, and follows redirections within the origin.
 * When the server wants a login, or another one, and that can be had, it is sent again; a login by
 * a person moves the deadline, and is not asked for when nobody waits for the answer (alone).  What
 * is no success is one, as tn_web_call has it. */
int mcp_site_call(struct mcp_site *site, struct tn_web_call *call, bool alone,
                  struct tn_web_answer *answer, struct tn_error *err);

/* Makes an error of an answer that is not 2xx; the reason is that of the JSON-RPC error in it, or
 * its text. */
int mcp_site_refused(const struct tn_web_answer *answer, struct tn_error *err);

/* "application/json" and so on, on the heap, without parameters and in lower case. */
char *mcp_site_type(const struct tn_web_answer *answer);

/* Sleeps, or returns false when the site stops meanwhile. */
bool mcp_site_pause(const struct mcp_site *site, int64_t milliseconds, int64_t deadline);

#endif
