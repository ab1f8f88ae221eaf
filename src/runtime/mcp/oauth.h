/* OAuth 2.1 as MCP has it, for one server: finds out who gives tokens for it, gets them, keeps them
 * and renews them.  For any number of threads and processes.
 *
 * Where the server sends us is not believed: addresses must be https (http only on this machine,
 * for a server that is there itself) and no nearer than the server; an issuer is who it says it is,
 * and a resource is the server or above it.  Nothing is redirected. */
#ifndef TN_RUNTIME_MCP_OAUTH_H
#define TN_RUNTIME_MCP_OAUTH_H

#include "runtime/toolbox.h"
#include "web/web.h"

struct mcp_oauth;

/* state: the state directory.  url: the server's.  visit as toolbox.h has it; NULL: there is nobody
 * who could log in.  All are copied. */
struct mcp_oauth *mcp_oauth_new(const char *state, const char *url, tn_toolbox_visit_fn visit,
                                void *visit_ctx);
void mcp_oauth_free(struct mcp_oauth *o);

/* What is sent with requests. */
struct mcp_access {
    char *token;         /* NULL: there is none yet */
    struct mcp_key *key; /* that it is bound to (DPoP): it is sent with a proof; or NULL */
};
void mcp_access_done(struct mcp_access *access);
#define mcp_autoaccess TN_CLEANUP(mcp_access_done)

/* The token to send, into uninitialised memory.  One that has run out is renewed if that is
 * possible.  stop: a descriptor that is readable when nobody waits any more, or -1. */
int mcp_oauth_token(struct mcp_oauth *o, struct mcp_access *access, int stop, int64_t deadline,
                    struct tn_error *err);

/* The server refused a request with that token (NULL: none) by 401 or 403.  0 when there is another
 * one now and the request is worth repeating; -1 with err.  alone: no person waits for it, and none
 * is asked to log in. */
int mcp_oauth_refused(struct mcp_oauth *o, const char *token, const struct tn_web_answer *answer,
                      bool alone, int stop, int64_t deadline, struct tn_error *err);
/* Whether it was refused only because the proof must repeat something: the header DPoP-Nonce, on
 * the heap; else NULL. */
char *mcp_oauth_nonce(const struct tn_web_answer *answer);

/* Whether a person may be asked, who takes his time. */
bool mcp_oauth_is_patient(const struct mcp_oauth *o);

/* Forgets tokens and clients of before, and keeps how to log in from now on. */
int mcp_oauth_prepare(struct mcp_oauth *o, const struct tn_toolbox_login *login,
                      struct tn_error *err);
/* Forgets everything about the server; 0 also when there was nothing. */
int mcp_oauth_forget(struct mcp_oauth *o, struct tn_error *err);

#endif
