/* Sandboxes that exist: listed, looked at, changed, driven. */
#include <inttypes.h>

#include "base/clock.h"
#include "net/url.h"
#include "service/api-native.h"

enum { USUAL_PAGE = 100, LARGEST_PAGE = 1000 };
#define LONGEST_WAIT 300.0
#define ORDER_SECONDS 60.0

/* --- GET /v1/sandboxes ----------------------------------------------------------------------- */

/* A page token names the last box of the page before: order, time of creation, id. */
static void put_token(struct tn_buf *out, bool newest_first, double created, const char *id)
{
    uint64_t bits;

    memcpy(&bits, &created, sizeof bits);
    tn_buf_printf(out, "%c%016" PRIx64 "%s", newest_first ? 'n' : 'o', bits, id);
}

static int read_token(struct tn_http_exchange *x, struct box_filter *f, char id[11])
{
    const char *token = tn_http_query(x, "page");
    uint64_t bits;
    char order;

    if (!token)
        return 0;
    if (strlen(token) != 27 ||
        sscanf(token, "%c%16" SCNx64 "%10[a-z0-9]", &order, &bits, id) != 3 || strlen(id) != 10 ||
        order != (f->newest_first ? 'n' : 'o'))
        return native_refuse(x, TN_E_UNPROCESSABLE,
                             "page: expected what `next` of the page before says");
    memcpy(&f->after_created, &bits, sizeof bits);
    f->after = id;
    return 0;
}

static int read_states(struct tn_http_exchange *x, unsigned *states)
{
    const char *text = tn_http_query(x, "state");

    while (text && *text) {
        size_t n = strcspn(text, ","), i = 0;
        while (i < BOX_STATES &&
               (strlen(box_state_words[i]) != n || strncmp(box_state_words[i], text, n) != 0))
            i++;
        if (i == BOX_STATES)
            return native_refuse(x, TN_E_UNPROCESSABLE,
                                 "state: expected starting, running, paused, stopped, error or "
                                 "missing, several with commas; found %.40s",
                                 text);
        *states |= 1u << i;
        text += n + (text[n] == ',');
    }
    return 0;
}

struct page {
    struct tn_jw w;
    char id[11];
    double created;
};

static int put_one(struct box *b, void *ctx)
{
    struct page *p = ctx;
    autoview struct box_view v;

    native_put_box(&p->w, b, 0);
    box_look(b, &v);
    memcpy(p->id, v.id, sizeof p->id);
    p->created = v.created;
    return 0;
}

/* The rest of the list, for clients that follow links. */
static void set_link(struct tn_http_exchange *x, const char *token)
{
    static const char *const kept[] = {"state", "template", "runtime", "session",
                                       "name",  "tenant",   "limit",   "order"};
    tn_autobuf struct tn_buf link = TN_BUF_INIT(16 << 10);

    tn_buf_printf(&link, "</v1/sandboxes?page=%s", token);
    for (size_t i = 0; i < TN_COUNT(kept); i++) {
        const char *value = tn_http_query(x, kept[i]);
        if (!value)
            continue;
        tn_buf_printf(&link, "&%s=", kept[i]);
        tn_url_encode(&link, value, "");
    }
    tn_buf_puts(&link, ">; rel=\"next\"");
    if (tn_buf_ok(&link))
        tn_http_set_header(x, "Link", link.data);
}

static int read_order(struct tn_http_exchange *x, bool *newest_first)
{
    const char *order = tn_http_query(x, "order");

    *newest_first = order && strcmp(order, "newest") == 0;
    if (!order || *newest_first || strcmp(order, "oldest") == 0)
        return 0;
    return native_refuse(x, TN_E_UNPROCESSABLE, "order: expected oldest or newest, found %.40s",
                         order);
}

static void get_sandboxes(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, NATIVE_ANSWER_MAX), token = TN_BUF_INIT(64);
    struct page page = {.w = tn_jw(&json)};
    int64_t limit = USUAL_PAGE;
    bool more = false;
    char after[11];

    if (!caller_may(x, SCOPE_READ))
        return;
    const char *tenant = native_tenant(caller_of(x));
    struct box_filter f = {
        .tenant = tenant ? tenant : tn_http_query(x, "tenant"),
        .template = tn_http_query(x, "template"),
        .runtime = tn_http_query(x, "runtime"),
        .session = tn_http_query(x, "session"),
        .name = tn_http_query(x, "name"),
    };
    if (native_query_int(x, "limit", 1, LARGEST_PAGE, &limit) || read_states(x, &f.states) ||
        read_order(x, &f.newest_first) || read_token(x, &f, after))
        return;
    f.limit = (size_t)limit;
    tn_jw_object(&page.w);
    tn_jw_key(&page.w, "sandboxes");
    tn_jw_array(&page.w);
    box_each(s, &f, put_one, &page, &more);
    tn_jw_array_end(&page.w);
    if (more)
        put_token(&token, f.newest_first, page.created, page.id);
    tn_jw_kstr(&page.w, "next", more ? tn_buf_str(&token) : NULL);
    tn_jw_object_end(&page.w);
    if (more)
        set_link(x, tn_buf_str(&token));
    tn_http_reply_json(x, 200, &json);
}

/* --- one ------------------------------------------------------------------------------------- */

static void get_sandbox(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_READ);
    double seconds = 0;
    int64_t version = -1;
    unsigned states = 0;
    struct tn_error err = {0};
    int waited = 0;

    if (!b || native_query_seconds(x, "wait", LONGEST_WAIT, &seconds) ||
        native_query_int(x, "version", 0, INT64_MAX, &version) || read_states(x, &states))
        return;
    if (seconds > 0 && version >= 0)
        waited = box_wait_change(b, (uint64_t)version, tn_deadline_in(seconds), &err);
    else if (seconds > 0 && states)
        waited = box_wait(b, states, tn_deadline_in(seconds), &err);
    if (waited && err.code != TN_E_TIMEOUT)
        reply_error(x, &err);
    else
        native_reply_box(x, 200, b);
}

struct change {
    struct tn_text name; /* "" takes it away */
    struct tn_json *metadata;
    struct tn_opt_double idle_pause, idle_stop, ttl;
};

static const struct tn_field change_rows[] = {
    TN_TEXT("name", struct change, name, .help = "for people; empty: none"),
    TN_JSON("metadata", struct change, metadata, .flags = TN_FIELD_MAP,
            .help = "replaces what was there"),
    TN_OPT_DOUBLE("idle_pause", struct change, idle_pause, .min = 0, .max = 1e9,
                  .help = "seconds without use until it is paused; 0: never"),
    TN_OPT_DOUBLE("idle_stop", struct change, idle_stop, .min = 0, .max = 1e9,
                  .help = "seconds without use until it is stopped; 0: never"),
    TN_OPT_DOUBLE("ttl", struct change, ttl, .min = 0, .max = 1e9,
                  .help = "seconds from now until it is deleted; 0: never"),
};
static const struct tn_fields change_fields = TN_FIELDS(change_rows);

static int apply(struct box *b, const struct caller *who, const struct change *c,
                 struct tn_error *err)
{
    const char *name = c->name.data;
    const struct box_change change = {
        .name = name,
        .metadata = c->metadata,
        .idle_pause = c->idle_pause.set ? &c->idle_pause.value : NULL,
        .idle_stop = c->idle_stop.set ? &c->idle_stop.value : NULL,
        .ttl = c->ttl.set ? &c->ttl.value : NULL,
    };

    if (name && strlen(name) != c->name.len)
        return tn_fail(err, TN_E_UNPROCESSABLE, "name: control characters are not allowed");
    return native_check_names(name && *name ? name : NULL, NULL, c->metadata, err) ||
                   box_change(b, who, &change, err)
               ? -1
               : 0;
}

static void patch_sandbox(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&change_fields, NULL};
    struct tn_service *s = ctx;
    autobox struct box *b = native_box(x, s, SCOPE_MANAGE);
    tn_autojson struct tn_json *body = NULL;
    struct change c = {0};
    struct tn_error err = {0};

    if (!b || native_read(x, tables, &body))
        return;
    tn_fields_defaults(&change_fields, &c);
    int failed =
        tn_fields_from_json(&change_fields, &c, body, &err) || apply(b, caller_of(x), &c, &err);
    if (native_audit(x, s, "sandbox.change", box_id(b), failed ? &err : NULL) == 0) {
        if (failed)
            reply_error(x, &err);
        else
            native_reply_box(x, 200, b);
    }
    tn_fields_done(&change_fields, &c);
}

/* --- orders ---------------------------------------------------------------------------------- */

/* 200 (204: it is gone) when it is done, 202 when it goes on behind our back. */
static void drive(struct tn_http_exchange *x, struct tn_service *s, enum box_order order)
{
    autobox struct box *b = native_box(x, s, SCOPE_MANAGE);
    double seconds = ORDER_SECONDS;
    struct tn_error err = {0};
    char what[32];

    if (!b || native_query_seconds(x, "wait", LONGEST_WAIT, &seconds) || native_read_nothing(x))
        return;
    int failed = box_order(b, caller_of(x), order, tn_deadline_in(seconds), &err);
    bool later = failed && err.code == TN_E_TIMEOUT;
    snprintf(what, sizeof what, "sandbox.%s", box_order_words[order]);
    if (native_audit(x, s, what, box_id(b), failed ? &err : NULL))
        return;
    if (failed && !later)
        reply_error(x, &err);
    else if (order == ORDER_DELETE && !later)
        tn_http_reply(x, 204, NULL, NULL, 0);
    else
        native_reply_box(x, later ? 202 : 200, b);
}

static void post_pause(struct tn_http_exchange *x, void *ctx)
{
    drive(x, ctx, ORDER_PAUSE);
}

static void post_resume(struct tn_http_exchange *x, void *ctx)
{
    drive(x, ctx, ORDER_RESUME);
}

static void post_stop(struct tn_http_exchange *x, void *ctx)
{
    drive(x, ctx, ORDER_STOP);
}

static void delete_sandbox(struct tn_http_exchange *x, void *ctx)
{
    drive(x, ctx, ORDER_DELETE);
}

const struct tn_route routes_native_boxes[] = {
    {"GET", "/v1/sandboxes", get_sandboxes, "sandboxes, in pages", 0},
    {"GET", "/v1/sandboxes/{id}", get_sandbox, "one; with ?wait= once it changes", 0},
    {"PATCH", "/v1/sandboxes/{id}", patch_sandbox, "name, metadata and times", 0},
    {"DELETE", "/v1/sandboxes/{id}", delete_sandbox, "removes it", 0},
    {"POST", "/v1/sandboxes/{id}/pause", post_pause, "freezes its processes", 0},
    {"POST", "/v1/sandboxes/{id}/resume", post_resume, "lets them go on, or starts it again", 0},
    {"POST", "/v1/sandboxes/{id}/stop", post_stop, "ends its processes, keeps its files", 0},
    {0},
};
