/* Where a session meets the rest: a sandbox, and the application that keeps the tokens. */
#include "net/url.h"
#include "runtime/sandbox.h"
#include "runtime/session.h"
#include "web/web.h"

#define REFRESH_SECONDS 15.0

int tn_session_in_sandbox(void *sandbox, const struct tn_action *action,
                          struct tn_observation *observation, struct tn_error *err)
{
    return tn_sandbox_execute(sandbox, action, observation, err);
}

int tn_session_setup_in_sandbox(void *sandbox, const struct tn_action *action,
                                struct tn_observation *observation, struct tn_error *err)
{
    return tn_sandbox_execute_own(sandbox, action, observation, err);
}

void tn_session_hide_in_sandbox(void *sandbox, const struct tn_secret *secret)
{
    tn_sandbox_hide(sandbox, secret);
}

static char *ask(const char *host, const char *target, struct tn_error *err)
{
    tn_autofree char *base = tn_asprintf("https://%s", host);
    const struct tn_web_options options = {.base = base};
    tn_autoweb struct tn_web *web = tn_web_new(&options, err);
    const char *key = getenv("SESSION_API_KEY");
    const struct tn_web_call call = {.target = target, .deadline = tn_deadline_in(REFRESH_SECONDS)};
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(1 << 20);
    tn_autojson struct tn_json *json = NULL;

    if (!web || (key && *key && tn_web_header(web, "X-Session-API-Key", key, err) < 0) ||
        tn_web_call(web, &call, &answer, err) < 0)
        return NULL;
    if (answer.status < 200 || answer.status >= 300) {
        tn_web_refused(&answer, NULL, err);
        return NULL;
    }
    if (tn_json_parse(tn_buf_str(&answer.body), answer.body.len, &json, err) < 0)
        return NULL;
    const char *token = tn_json_get_str(json, "token", "");
    if (!*token) {
        tn_fail(err, TN_E_PEER, "the answer has no token");
        return NULL;
    }
    return tn_strdup(token);
}

char *tn_session_refresh_token(enum tn_git_provider provider, const char *session, void *ctx,
                               struct tn_error *err)
{
    const char *host = getenv("WEB_HOST");
    tn_autobuf struct tn_buf target = TN_BUF_INIT(4096);

    if (!host || !*host) {
        tn_fail(err, TN_E_UNSUPPORTED, "WEB_HOST is not set");
        return NULL;
    }
    tn_buf_printf(&target, "/api/refresh-tokens?provider=%s&sid=", tn_git_provider_name(provider));
    tn_url_encode(&target, session, "");
    char *token = ask(host, tn_buf_str(&target), err);
    if (!token)
        tn_error_context(err, "refresh of the token");
    return token;
}
