/* The Chrome DevTools Protocol over a helper's pipes: NUL-terminated JSON both ways.
 *
 * Commands may be sent by any number of threads; each waits for its own answer.  Events arrive in
 * the connection's one reader thread, through the table given at the start; a handler must not wait
 * for anything, but may post commands.  What the browser says is bounded: a message over the limit
 * fails the command it answers and nothing else. */
#ifndef TN_HAND_BROWSER_CDP_H
#define TN_HAND_BROWSER_CDP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

struct tn_helper;
struct tn_cdp;

/* An event that somebody wants; others are not even parsed.  session is "" for the browser's own.
 */
struct tn_cdp_event {
    const char *method;
    void (*handle)(void *ctx, const char *session, const struct tn_json *params);
};

/* Starts the reader.  The helper must outlive the connection.  events ends with {0} and is
 * borrowed; `ended` is called once, in the reader thread, when the browser has closed its end. */
struct tn_cdp *tn_cdp_new(struct tn_helper *helper, const struct tn_cdp_event *events,
                          void (*ended)(void *ctx), void *ctx, struct tn_error *err);
/* Ends the reader.  No call may be under way; the helper must have ended. */
void tn_cdp_free(struct tn_cdp *c);
/* Fails every call under way and all to come with TN_E_PEER. */
void tn_cdp_break(struct tn_cdp *c);

/* One command and its answer.  session NULL is the browser itself; params_json is an object or NULL
 * for none.  0 with *result (an object; may be NULL when nobody wants it), which the caller frees.
 * -1: TN_E_TIMEOUT at the deadline; TN_E_PEER when the browser is gone; TN_E_GONE when the page,
 * frame or context is not there any more (look again: the page has moved on); TN_E_TOO_LARGE;
 * TN_E_INVALID for everything else the browser refuses, with its words. */
int tn_cdp_call(struct tn_cdp *c, const char *session, const char *method, const char *params_json,
                int64_t deadline, struct tn_json **result, struct tn_error *err);

/* The session has ended: fails its calls under way with TN_E_GONE and `why`. */
void tn_cdp_forget_session(struct tn_cdp *c, const char *session, const char *why);

/* Several commands at once: all are sent before any answer is waited for. */
struct tn_cdp_command {
    const char *session, *method, *params_json;
    bool raw;               /* the result is wanted as text, not as a tree: it may be huge */
    double grace;           /* seconds for it when the others have been answered, or as long as
                               those took; 0: as long as there is time */
    int status;             /* out: 0 or -1 with err */
    struct tn_json *result; /* out: the caller frees it; raw: NULL */
    char *text;             /* out, raw: the result's JSON text; the caller frees it */
    size_t text_len;
    struct tn_error err;
};
/* 0 when all have succeeded, otherwise -1 with err of the first that has not. */
int tn_cdp_call_all(struct tn_cdp *c, struct tn_cdp_command *commands, size_t count,
                    int64_t deadline, struct tn_error *err);
/* Frees the results and texts. */
void tn_cdp_commands_done(struct tn_cdp_command *commands, size_t count);

/* Sends a command and does not wait; for event handlers.  `answered` (may be NULL) is called once,
 * in the reader thread with the result, or with NULL and err when it failed; when it could not be
 * sent, perhaps in the caller's own before this returns; never after tn_cdp_free. */
typedef void (*tn_cdp_answer_fn)(void *ctx, const struct tn_json *result,
                                 const struct tn_error *err);
void tn_cdp_post(struct tn_cdp *c, const char *session, const char *method, const char *params_json,
                 tn_cdp_answer_fn answered, void *ctx);

/* While hurried, the deadline of every call has passed. */
void tn_cdp_hurry(struct tn_cdp *c, bool hurried);

/* Calls a JavaScript function ("(a, b) => ...", which may be async) in an execution context with
 * arguments from a JSON array ("[1, \"x\"]" or NULL).  0 with its value (*value may be NULL: null
 * or undefined), or -1 as above; TN_E_INVALID with the exception's text when it throws. */
int tn_cdp_function(struct tn_cdp *c, const char *session, int64_t context, const char *function,
                    const char *arguments_json, int64_t deadline, struct tn_json **value,
                    struct tn_error *err);
/* Appends the params of Runtime.callFunctionOn for that, to send it with tn_cdp_call_all, and takes
 * such a command's value apart: 0, or -1 with the exception. */
void tn_cdp_put_function(struct tn_buf *out, int64_t context, const char *function,
                         const char *arguments_json);
int tn_cdp_function_value(const struct tn_json *result, struct tn_json **value,
                          struct tn_error *err);

#endif
