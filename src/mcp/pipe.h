/* Messages on two descriptors, one per line: the stdio transport, for either side.
 *
 * One thread runs the pipe: it reads lines and writes what had no room at once.  Senders never wait
 * for each other, and the thread that reads never waits for the one that should read from us, so
 * two talkative sides cannot stop each other. */
#ifndef TN_MCP_PIPE_H
#define TN_MCP_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct tn_mcp_pipe;

struct tn_mcp_pipe_options {
    int in, out;       /* stay the caller's; made non-blocking */
    size_t line_max;   /* longer lines are skipped */
    size_t unsent_max; /* bytes that wait for the other side to read */
    /* A line without its end, in the thread that runs; text is NULL for one that was too long.
     * Empty lines are left out. */
    void (*line)(void *ctx, const char *text, size_t n);
    /* After the end of the input: whether something is still to be sent.  The pipe runs on until it
     * is not (tn_mcp_pipe_wake makes it ask again), or nobody reads any more.  May be NULL. */
    bool (*owes)(void *ctx);
    void *ctx;
};

struct tn_mcp_pipe *tn_mcp_pipe_new(const struct tn_mcp_pipe_options *options);
/* After run has returned, and with no sender left. */
void tn_mcp_pipe_free(struct tn_mcp_pipe *pipe);

/* Writes one line, or what fits of it, leaving the rest to the thread that runs.  Waits for room
 * until the deadline (0: not at all).  -1 with TN_E_TIMEOUT, or TN_E_PEER (and EPIPE in sys) when
 * nobody reads any more.  Any thread. */
int tn_mcp_pipe_send(struct tn_mcp_pipe *pipe, const char *text, size_t n, int64_t deadline,
                     struct tn_error *err);

/* Reads until the other side closes and nothing is owed to it, or stop is called: 0; or -1 with
 * err. */
int tn_mcp_pipe_run(struct tn_mcp_pipe *pipe, struct tn_error *err);
void tn_mcp_pipe_wake(struct tn_mcp_pipe *pipe); /* any thread; see owes */
void tn_mcp_pipe_stop(struct tn_mcp_pipe *pipe); /* any thread, at any time */

#endif
