/* The network of a sandbox: /v1/sandboxes/{id}/network. */
#include "service/api-native.h"
#include "service/audit.h"

static void reply_network(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    tn_jw_object(&w);
    int failed = box_put_network(b, &w, &err);
    tn_jw_object_end(&w);
    if (failed)
        reply_error(x, &err);
    else
        tn_http_reply_json(x, 200, &json);
}

static void get_network(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_READ);

    if (!b)
        return;
    box_note_refusals(b);
    reply_network(x, b);
}

static void put_rules(struct tn_buf *out, const char *word, const struct tn_str_list *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        tn_buf_printf(out, "%s%s %.200s", out->len ? "; " : "", word, rules->items[i]);
}

/* Says which rules; -1: answered. */
static int audit(struct tn_http_exchange *x, struct tn_service *s, const struct box *b,
                 const struct tn_rules_change *c, const struct tn_error *why)
{
    tn_autobuf struct tn_buf detail = TN_BUF_INIT(64 << 10);
    struct tn_error err = {0};

    if (c->network != TN_NETWORK_DEFAULT)
        tn_buf_printf(&detail, "network %s", tn_networks[c->network]);
    put_rules(&detail, "allow", &c->allow);
    put_rules(&detail, "deny", &c->deny);
    const struct audit_entry entry = {.who = caller_of(x),
                                      .what = "network.change",
                                      .box = box_id(b),
                                      .result = tn_code_row(why ? why->code : TN_OK)->name,
                                      .request_id = request_id(x),
                                      .detail = why ? why->text : tn_buf_str(&detail)};
    if (audit_write(s->audit, &entry, &err) == 0)
        return 0;
    reply_error(x, &err);
    return -1;
}

static void patch_network(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&tn_rules_change_fields, NULL};
    struct tn_service *s = ctx;
    autobox struct box *b = native_box(x, s, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    struct tn_rules_change c = {0};
    struct tn_error err = {0};

    if (!b || native_read(x, tables, &body))
        return;
    tn_fields_defaults(&tn_rules_change_fields, &c);
    int failed = tn_fields_from_json(&tn_rules_change_fields, &c, body, &err) ||
                 box_change_rules(b, caller_of(x), &c, &err);
    if (audit(x, s, b, &c, failed ? &err : NULL) == 0) {
        if (failed)
            reply_error(x, &err);
        else
            reply_network(x, b);
    }
    tn_fields_done(&tn_rules_change_fields, &c);
}

const struct tn_route routes_native_network[] = {
    {"GET", "/v1/sandboxes/{id}/network", get_network, "its network, and what that refused", 0},
    {"PATCH", "/v1/sandboxes/{id}/network", patch_network,
     "changes it, or adds and takes away rules", 0},
    {0},
};
