/* The table of the remote backend. */
#include "base/clock.h"
#include "runtime/hand-address.h"
#include "runtime/owner.h"
#include "runtime/remote/remote.h"

#define OPEN_SECONDS 10.0

/* --- opening ---------------------------------------------------------------------------------- */

/* The address without its final slashes; NULL with err. */
static char *api_of(const struct tn_config_sandbox *c, struct tn_error *err)
{
    const char *url = c->remote_runtime_api_url ? c->remote_runtime_api_url : "";
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/')
        n--;
    tn_autofree char *api = tn_strndup(url, n);
    if (tn_hand_is_url(api))
        return TN_TAKE_PTR(api);
    tn_fail(err, TN_E_INVALID,
            "sandbox.remote_runtime_api_url: expected http(s)://HOST[:PORT][/PATH]");
    return NULL;
}

/* Only a Tendon knows whose key it was asked with; any other answer than a refusal of the key is
 * OpenHands'. */
static int learn_dialect(struct remote *r, int64_t deadline, struct tn_error *err)
{
    const struct remote_call call = {.target = "/v1/me", .hurried = true};
    tn_autojson struct tn_json *me = NULL;
    struct tn_error why = {0};

    if (remote_ask(r, &call, &me, deadline, &why) == 0) {
        bool ours = tn_json_has(me, "tenant") && tn_json_has(me, "scopes");
        r->dialect = ours ? &remote_native : &remote_openhands;
        return 0;
    }
    if (why.code == TN_E_NOT_FOUND || why.code == TN_E_METHOD) {
        r->dialect = &remote_openhands;
        return 0;
    }
    if (err)
        *err = why;
    return -1;
}

static int choose_dialect(struct remote *r, int64_t deadline, struct tn_error *err)
{
    static const struct remote_dialect *const known[] = {
        [TN_DIALECT_NATIVE] = &remote_native,
        [TN_DIALECT_OPENHANDS] = &remote_openhands,
    };

    r->dialect = known[r->host->config->remote.dialect];
    return r->dialect ? 0 : learn_dialect(r, deadline, err);
}

static int connect_service(struct remote *r, struct tn_error *err)
{
    const struct tn_config_sandbox *c = remote_config(r);

    r->api = api_of(c, err);
    if (!r->api)
        return -1;
    if (!c->api_key || !*c->api_key)
        return tn_fail(err, TN_E_DENIED,
                       "there is no key for %s: set SANDBOX_API_KEY, or sandbox.api_key", r->api);
    struct tn_web_options options = {.base = r->api};
    r->web = tn_web_new(&options, err);
    return r->web && tn_web_header(r->web, "X-API-Key", c->api_key, err) == 0 ? 0 : -1;
}

struct remote *remote_open(const struct tn_host *host, int64_t deadline, struct tn_error *err)
{
    struct remote *r = tn_calloc(1, sizeof *r);

    r->host = host;
    tn_state_mark(host->state, r->mark);
    if (connect_service(r, err) == 0 && choose_dialect(r, deadline, err) == 0)
        return r;
    remote_close(r);
    return NULL;
}

void remote_close(struct remote *r)
{
    if (!r)
        return;
    tn_web_free(r->web);
    free(r->api);
    free(r);
}

static int open_engine(const struct tn_host *host, void **engine, struct tn_error *err)
{
    *engine = remote_open(host, tn_deadline_in(OPEN_SECONDS), err);
    return *engine ? 0 : -1;
}

static void close_engine(void *engine)
{
    remote_close(engine);
}

/* --- doctor ----------------------------------------------------------------------------------- */

int remote_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    struct tn_error why = {0};
    struct remote *r = remote_open(host, tn_deadline_in(OPEN_SECONDS), &why);
    struct tn_symptom service = {
        .what = "runtime service", .good = r != NULL, .needed = true, .detail = why.text};
    tn_autofree char *detail =
        r ? tn_asprintf("%s speaks the %s API", r->api, r->dialect->name) : NULL;

    if (detail)
        service.detail = detail;
    fn(&service, ctx);
    if (r && strncmp(r->api, "https:", 6) != 0) {
        const struct tn_symptom plain = {
            .what = "encryption",
            .detail = "keys and everything else travel in the clear: fine on this machine only"};
        fn(&plain, ctx);
    }
    remote_close(r);
    return 0;
}

const struct tn_backend tn_backend_remote = {
    .name = "remote",
    .summary = "sandboxes of a service: another Tendon, or an OpenHands runtime API",
    .abilities = TN_CAN_PAUSE | TN_CAN_STOP | TN_CAN_SNAPSHOT | TN_CAN_LIMIT | TN_CAN_ISOLATE |
                 TN_CAN_IMAGE | TN_CAN_NETWORK_NONE | TN_CAN_GVISOR | TN_CAN_KATA | TN_CAN_SECRETS,
    .elsewhere = true,
    .judges = true,
    .open = open_engine,
    .close = close_engine,
    .check = remote_check,
    .create = remote_create,
    .inspect = remote_inspect,
    .drive = remote_drive,
    .list = remote_list,
    .put = remote_put,
    .exec = remote_exec,
    .url = remote_url,
    .logs = remote_logs,
    .usage = remote_usage,
    .snapshot = remote_snapshot,
    .forget = remote_forget,
    .rollback = remote_rollback,
    .fork = remote_fork,
    .doctor = remote_doctor,
};
