/* Asking the client's user about an action: elicitation, where the client can. */
#include "base/clock.h"
#include "cli/mcp/mcp.h"
#include "runtime/pending.h"

enum { MESSAGE_MAX = 64 << 10 };

#define SCHEMA                                                                                 \
    "{\"type\":\"object\",\"properties\":{\"confirm\":{\"type\":\"boolean\",\"title\":"        \
    "\"Carry it out\",\"description\":\"Whether the action is carried out in the sandbox\"}}," \
    "\"required\":[\"confirm\"]}"

static void put_findings(const struct tn_json *verdict, struct tn_buf *out)
{
    const struct tn_json *findings = tn_json_get(verdict, "findings");

    for (size_t i = 0, n = tn_json_count(findings); i < n; i++) {
        const struct tn_json *f = tn_json_at(findings, i);
        const char *part = tn_json_get_str(f, "part", "");
        tn_buf_printf(out, "\n%s (%s risk): %s%s%s", tn_json_get_str(f, "analyzer", ""),
                      tn_json_get_str(f, "risk", "unknown"), tn_json_get_str(f, "text", ""),
                      *part ? ": " : "", part);
    }
}

/* What it would do, as the journal shows it, and why somebody is asked. */
static void put_question(const char *sandbox, const char *directory, const struct tn_pending *p,
                         struct tn_buf *out)
{
    tn_autojson struct tn_json *event = tn_pending_event(directory, p->id);
    struct tn_action action;

    tn_buf_printf(out, "May this action be carried out in sandbox %s?\n", sandbox);
    if (event && !tn_action_from_json(event, &action, NULL)) {
        tn_action_put_message(&action, out);
        tn_buf_putc(out, '\n');
        tn_pending_put_diff(&action, out);
        tn_action_done(&action);
    }
    put_findings(p->verdict, out);
}

static void put_params(const char *message, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "message", message);
    tn_jw_key(&w, "requestedSchema");
    tn_jw_raw(&w, SCHEMA, sizeof SCHEMA - 1);
    tn_jw_object_end(&w);
}

/* Everything but a clear yes is a no, once the user has been asked. */
static enum tn_confirmation read_answer(const struct tn_rpc *answer)
{
    const char *action = tn_json_get_str(answer->result, "action", "");
    const struct tn_json *content = tn_json_get(answer->result, "content");

    return strcmp(action, "accept") == 0 && tn_json_bool(tn_json_get(content, "confirm"), false)
               ? TN_CONFIRMED
               : TN_REJECTED;
}

enum tn_confirmation mcp_elicit(void *ctx, const char *sandbox, const char *directory,
                                const struct tn_pending *p)
{
    const struct tool_call *c = ctx;
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX), params = TN_BUF_INIT(1 << 20);
    struct tn_mcp_client *client = tn_mcp_client_ref(tn_mcp_request_client(c->request));
    enum tn_confirmation said = TN_AWAITING_CONFIRMATION;
    struct tn_rpc answer;

    if (client && tn_mcp_client_can(client, "elicitation")) {
        put_question(sandbox, directory, p, &message);
        put_params(tn_buf_str(&message), &params);
        if (tn_buf_ok(&params) &&
            !tn_mcp_client_call(client, c->request, "elicitation/create", tn_buf_str(&params),
                                tn_pending_deadline(p), &answer, NULL)) {
            said = read_answer(&answer);
            tn_rpc_done(&answer);
        }
    }
    tn_mcp_client_unref(client);
    return said;
}
