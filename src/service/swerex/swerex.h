/* The routes of a SWE-ReX server, for each sandbox: SERVICE/swerex/ID is the host that SWE-agent's
 * remote deployment is given, a key of ours its token.
 *
 * What its server raises in Python is raised again at the client: an answer of 511 names the class.
 * A request that gets no further than this service is refused like any other. */
#ifndef TN_SERVICE_SWEREX_H
#define TN_SERVICE_SWEREX_H

#include "service/api-native.h"

#define REX_SECONDS 60.0 /* for what is done at once */
enum {
    REX_BODY_MAX = 16 << 20,
    REX_TEXT_MAX = 16 << 20, /* of a file, or of what a command says */
    REX_ANSWER_MAX = 64 << 20,
};

#define REX_EXCEPTION "swerex.exceptions.SwerexException"
#define REX_TIMEOUT "swerex.exceptions.CommandTimeoutError"
#define REX_EXIT_CODE "swerex.exceptions.NonZeroExitCodeError"
#define REX_SYNTAX "swerex.exceptions.BashIncorrectSyntaxError"
#define REX_SESSION_EXISTS "swerex.exceptions.SessionExistsError"
#define REX_NO_SESSION "swerex.exceptions.SessionDoesNotExistError"
#define REX_VALUE "builtins.ValueError"

void rex_raise(struct tn_http_exchange *x, const char *class, const char *fmt, ...) TN_PRINTF(3, 4);
/* The same of an error of ours: those of files as Python has them. */
void rex_raise_error(struct tn_http_exchange *x, const struct tn_error *err);
/* "Command ... failed with exit code 3": what its text and its output add to that. */
void rex_raise_exit(struct tn_http_exchange *x, const struct tn_json *body, int64_t code,
                    const char *output);
/* {} */
void rex_reply_nothing(struct tn_http_exchange *x);

#endif
