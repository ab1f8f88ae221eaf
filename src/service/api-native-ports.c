/* Ports inside a sandbox, and tickets for what cannot send a key. */
#include <arpa/inet.h>

#include "base/clock.h"
#include "gate/wall.h"
#include "runtime/hand-client.h"
#include "service/api-native.h"
#include "service/proxy.h"
#include "service/ticket.h"

enum { MAX_PORTS = 256, TABLES_MAX = 4 << 20 };
#define LOOK_SECONDS 10.0
#define TICKET_SECONDS 60.0

/* --- ports ----------------------------------------------------------------------------------- */

struct ports {
    int64_t list[MAX_PORTS];
    size_t count;
};

static bool has_port(const struct ports *p, int64_t port)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i] == port)
            return true;
    return false;
}

/* In order, each once. */
static void add_port(struct ports *p, int64_t port)
{
    size_t i = 0;

    if (port < 1 || port > 65535 || p->count == MAX_PORTS || has_port(p, port))
        return;
    while (i < p->count && p->list[i] < port)
        i++;
    memmove(&p->list[i + 1], &p->list[i], (p->count - i) * sizeof p->list[0]);
    p->list[i] = port;
    p->count++;
}

/* The sockets of the gate are in the sandbox's network, and no server inside. */
static bool is_wall(const char *address, unsigned port)
{
    uint32_t words[5] = {0};
    char four[9], six[33];

    inet_pton(AF_INET, TN_WALL_NAMES4, &words[0]);
    inet_pton(AF_INET6, TN_WALL_NAMES6, &words[1]);
    snprintf(four, sizeof four, "%08X", words[0]);
    snprintf(six, sizeof six, "%08X%08X%08X%08X", words[1], words[2], words[3], words[4]);
    return port == TN_WALL_PORT && (strcmp(address, four) == 0 || strcmp(address, six) == 0);
}

/* The kernel's tables ("  0: 0100007F:1F90 00000000:0000 0A ..."; 0A is a socket that listens),
 * then the address of the hand's own page for the browser inside. */
static void add_listeners(struct ports *p, const char *table)
{
    const char *page = strstr(table, "http://");
    unsigned own = 0;

    if (page)
        sscanf(page, "http://%*[^:]:%u", &own);
    for (const char *line = strchr(table, '\n'); line; line = strchr(line + 1, '\n')) {
        char address[33];
        unsigned port, state;
        if (sscanf(line + 1, " %*d: %32[0-9A-F]:%x %*[0-9A-F]:%*x %x", address, &port, &state) ==
                3 &&
            state == 0x0A && port != own && !is_wall(address, port))
            add_port(p, port);
    }
}

/* Asking is no use of the sandbox: it may become idle under a page that shows its ports.  The
 * tables are read in a shell of their own, which is nobody's. */
static int find_listeners(struct tn_sandbox *sb, void *ctx, struct tn_error *err)
{
    static const char command[] = "cat /proc/net/tcp /proc/net/tcp6 /tmp/oh-server-url 2>/dev/null";
    struct tn_action action;
    struct tn_observation tables;
    const char *address, *key;

    if (tn_sandbox_address(sb, &address, &key, tn_deadline_in(LOOK_SECONDS), err))
        return -1;
    struct tn_hand_client *client = tn_hand_client_new(address, key, err);
    if (!client)
        return -1;
    tn_hand_client_expect(client, TABLES_MAX);
    tn_action_init_run(&action, command, LOOK_SECONDS);
    action.run.is_static = action.run.hidden = true;
    int failed = tn_hand_client_execute(client, &action, &tables, err);
    if (!failed) {
        add_listeners(ctx, tables.content.data ? tables.content.data : "");
        tn_observation_done(&tables);
    }
    tn_action_done(&action);
    tn_hand_client_free(client);
    return failed;
}

static void put_port(struct tn_jw *w, const struct tn_service *s, const char *id, int port)
{
    tn_autofree char *url = preview_url(s, id, port);

    tn_jw_kint(w, "port", port);
    tn_jw_kstr(w, "url", url);
}

/* Where the runtime itself leads to a port, beside the preview: a pod's Service or Ingress. */
struct address {
    int port;
    bool make;
    int64_t deadline;
    char *url;
};

static int find_address(struct tn_sandbox *sb, void *ctx, struct tn_error *err)
{
    struct address *a = ctx;
    struct tn_error why = {0};
    bool there;
    tn_autofree char *seen = tn_sandbox_look_url(sb, a->port, &there, a->deadline, &why);

    if (there)
        a->url = TN_TAKE_PTR(seen);
    else if (a->make && (seen || why.code))
        a->url = tn_sandbox_url(sb, a->port, NULL);
    return why.code ? tn_fail(err, why.code, "%s", why.text) : 0;
}

/* The member "address" of a port that the sandbox publishes, for who may use it.  -1: by the
 * deadline nobody told of it. */
static int put_address(struct tn_jw *w, const struct tn_http_exchange *x, struct box *b,
                       const struct box_view *v, int port, bool make, int64_t deadline)
{
    struct address a = {.port = port, .make = make, .deadline = deadline};
    bool published = false;
    int r = 0;

    for (size_t i = 0; i < v->spec.ports.count; i++)
        published |= v->spec.ports.items[i] == port;
    if (published && v->state == BOX_RUNNING && caller_of(x)->scopes & (SCOPE_USE | SCOPE_ADMIN))
        r = box_with_sandbox(b, find_address, &a, deadline, NULL);
    if (a.url)
        tn_jw_kstr(w, "address", a.url);
    free(a.url);
    return r;
}

static void get_ports(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = native_box(x, s, SCOPE_READ);
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, 1 << 20);
    struct tn_jw w = tn_jw(&json);
    struct ports open = {0};
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    if (v.state == BOX_RUNNING && v.spec.network != TN_NETWORK_HOST)
        box_with_sandbox(b, find_listeners, &open, tn_deadline_in(LOOK_SECONDS), NULL);
    /* A cluster that does not answer for one port is not asked for the others. */
    int64_t deadline = tn_deadline_in(LOOK_SECONDS);
    int told = 0;
    struct ports all = open;
    for (size_t i = 0; i < v.spec.ports.count; i++)
        add_port(&all, v.spec.ports.items[i]);
    tn_jw_object(&w);
    tn_jw_key(&w, "ports");
    tn_jw_array(&w);
    for (size_t i = 0; i < all.count; i++) {
        tn_jw_object(&w);
        put_port(&w, s, box_id(b), (int)all.list[i]);
        tn_jw_kbool(&w, "listening", has_port(&open, all.list[i]));
        if (told == 0)
            told = put_address(&w, x, b, &v, (int)all.list[i], false, deadline);
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void post_port(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autobox struct box *b = native_box(x, s, SCOPE_USE);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    char *end;

    if (!b || native_read_nothing(x))
        return;
    long port = strtol(tn_http_param(x, "port"), &end, 10);
    if (*end || port < 1 || port > 65535) {
        native_refuse(x, TN_E_UNPROCESSABLE, "expected a port from 1 to 65535");
        return;
    }
    tn_autofree char *link =
        preview_link(s, caller_of(x), box_id(b), (int)port, tn_http_query(x, "open"), &err);
    if (!link) {
        reply_error(x, &err);
        return;
    }
    autoview struct box_view v = {0};
    box_look(b, &v);
    tn_jw_object(&w);
    put_port(&w, s, box_id(b), (int)port);
    put_address(&w, x, b, &v, (int)port, true, tn_deadline_in(LOOK_SECONDS));
    tn_jw_kstr(&w, "link", link);
    tn_jw_object_end(&w);
    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_reply_json(x, 201, &json);
}

/* --- tickets --------------------------------------------------------------------------------- */

struct ticket_wish {
    char *purpose, *sandbox, *path;
};
static const char *const purposes[] = {"ws", "download", NULL};
static const struct tn_field ticket_rows[] = {
    TN_STRING("purpose", struct ticket_wish, purpose, .flags = TN_FIELD_REQUIRED, .words = purposes,
              .help = "what it opens"),
    TN_STRING("sandbox", struct ticket_wish, sandbox, .flags = TN_FIELD_REQUIRED,
              .help = "id of the sandbox that it opens it for"),
    TN_STRING("path", struct ticket_wish, path, .help = "of the file that is to be downloaded"),
};
static const struct tn_fields ticket_fields = TN_FIELDS(ticket_rows);

static int make_ticket(struct tn_service *s, const struct caller *who, const struct ticket_wish *w,
                       char ticket[TICKET_MAX], struct tn_error *err)
{
    autobox struct box *b = box_find(s, native_tenant(who), w->sandbox, err);
    bool download = !strcmp(w->purpose, "download");

    if (b && download != (w->path != NULL))
        return tn_fail(err, TN_E_UNPROCESSABLE, "path: expected for a download, and only there");
    if (b && download)
        return ticket_make_once(s, who, box_id(b), w->path, TICKET_SECONDS, ticket, err);
    return b ? ticket_make(s, who, w->purpose, box_id(b), TICKET_SECONDS, ticket, err) : -1;
}

static void post_ticket(struct tn_http_exchange *x, void *ctx)
{
    static const struct tn_fields *const tables[] = {&ticket_fields, NULL};
    struct tn_service *s = ctx;
    tn_autojson struct tn_json *body = NULL;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    struct ticket_wish wish = {0};
    struct tn_error err = {0};
    char ticket[TICKET_MAX];

    if (!caller_may(x, SCOPE_READ) || native_read(x, tables, &body))
        return;
    if (tn_fields_from_json(&ticket_fields, &wish, body, &err) ||
        tn_fields_check(&ticket_fields, &wish, &err) ||
        make_ticket(s, caller_of(x), &wish, ticket, &err)) {
        if (err.code == TN_E_QUOTA) /* they are made too quickly */
            refuse_rate(x, 1, err.text);
        else
            reply_error(x, &err);
    } else {
        tn_jw_object(&w);
        tn_jw_kstr(&w, "ticket", ticket);
        tn_jw_kdouble(&w, "seconds", TICKET_SECONDS);
        tn_jw_object_end(&w);
        tn_http_set_header(x, "Cache-Control", "no-store");
        tn_http_reply_json(x, 201, &json);
    }
    tn_fields_done(&ticket_fields, &wish);
}

#define BOX "/v1/sandboxes/{id}"
const struct tn_route routes_native_ports[] = {
    {"GET", BOX "/ports", get_ports, "ports that are open inside, and where to see them", 0},
    {"POST", BOX "/ports/{port}", post_port, "a link that opens a port in a browser", 0},
    {"POST", "/v1/tickets", post_ticket, "lets a page open a WebSocket, or download a file", 0},
    {0},
};
