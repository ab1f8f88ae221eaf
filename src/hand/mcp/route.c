/* Requests of clients: which server they are for, and under which name it knows the thing. */
#include "hand/mcp/proxy-internal.h"
#include "mcp/meta.h"

#define PARAMS_MAX ((size_t)32 << 20)
enum { SUBSCRIPTIONS_MAX = 1024 };

/* --- clients -------------------------------------------------------------------------------- */

static void *client_open(void *ctx, struct tn_mcp_client *client)
{
    struct mcp_proxy *p = ctx;
    struct mcp_listener *l = tn_calloc(1, sizeof *l);

    l->client = client;
    if (tn_mcp_client_is_modern(client)) {
        int level = mcp_level(tn_json_get_str(tn_mcp_client_hello(client), "logLevel", ""));
        l->level = level < 0 ? MCP_LEVELS : level;
    }
    pthread_mutex_lock(&p->lock);
    l->next = p->listeners;
    p->listeners = l;
    pthread_mutex_unlock(&p->lock);
    return l;
}

bool mcp_subscribed(const struct mcp_listener *l, const char *uri)
{
    for (size_t i = 0; i < l->subscription_count; i++) {
        if (strcmp(l->subscriptions[i].uri, uri) == 0)
            return true;
    }
    return false;
}

/* Whether some client still wants to hear of it.  With the lock held. */
static bool is_wanted(const struct mcp_proxy *p, const char *uri)
{
    for (const struct mcp_listener *l = p->listeners; l; l = l->next) {
        if (mcp_subscribed(l, uri))
            return true;
    }
    return false;
}

static void put_uri(struct tn_buf *params, const char *uri)
{
    struct tn_jw w = tn_jw(params);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "uri", uri);
    tn_jw_object_end(&w);
}

static struct mcp_backend *find_server(const struct mcp_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(mcp_backend_spec(set->backends[i])->name, name) == 0)
            return set->backends[i];
    }
    return NULL;
}

/* Takes a subscription off its server when nobody else holds the like, and frees it.  Does not wait
 * for the server: this may be the thread that reads from it, or the one that ends the hand. */
static void unsubscribe(struct mcp_proxy *p, struct mcp_subscription *s)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 20);

    pthread_mutex_lock(&p->lock);
    bool wanted = is_wanted(p, s->uri);
    pthread_mutex_unlock(&p->lock);
    struct mcp_set *set = mcp_set_take(p);
    struct mcp_backend *b = find_server(set, s->server);
    if (!wanted && b && mcp_backend_is_modern(b)) {
        mcp_relisten(p, b, NULL);
    } else if (!wanted && b) {
        put_uri(&params, s->uri);
        mcp_backend_ask(b, "resources/unsubscribe", tn_buf_str(&params));
    }
    mcp_set_release(p, set);
    free(s->uri);
    free(s->server);
}

static void client_close(void *ctx, void *state)
{
    struct mcp_proxy *p = ctx;
    struct mcp_listener *l = state;

    pthread_mutex_lock(&p->lock);
    for (struct mcp_listener **at = &p->listeners; *at; at = &(*at)->next) {
        if (*at == l) {
            *at = l->next;
            break;
        }
    }
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < l->subscription_count; i++)
        unsubscribe(p, &l->subscriptions[i]);
    free(l->subscriptions);
    free(l);
}

/* The same whatever servers there are: clients ask only once. */
static void describe(void *ctx, struct tn_buf *capabilities, struct tn_buf *instructions)
{
    tn_buf_puts(capabilities, "{\"tools\":{\"listChanged\":true},"
                              "\"prompts\":{\"listChanged\":true},"
                              "\"resources\":{\"listChanged\":true,\"subscribe\":true},"
                              "\"logging\":{},\"completions\":{}}");
}

/* --- passing on ----------------------------------------------------------------------------- */

struct copy {
    struct tn_jw *w;
    const char *member, *value; /* is written instead */
};

/* What concerns the conversation with this client only, not the server's with us. */
static int copy_meta(const char *key, struct tn_json *value, void *ctx)
{
    if (strcmp(key, "progressToken") != 0 && strncmp(key, "io.modelcontextprotocol/", 24) != 0) {
        tn_jw_key(ctx, key);
        tn_jw_tree(ctx, value);
    }
    return 0;
}

static int copy_param(const char *key, struct tn_json *value, void *ctx)
{
    const struct copy *c = ctx;

    tn_jw_key(c->w, key);
    if (strcmp(key, "_meta") == 0) {
        tn_jw_object(c->w);
        tn_json_each(value, copy_meta, c->w);
        tn_jw_object_end(c->w);
    } else if (c->member && strcmp(key, c->member) == 0) {
        tn_jw_str(c->w, c->value);
    } else {
        tn_jw_tree(c->w, value);
    }
    return 0;
}

void mcp_copy_params(struct tn_buf *out, const struct tn_json *params, const char *member,
                     const char *value)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_json_each(params, copy_param, &(struct copy){&w, member, value});
    tn_jw_object_end(&w);
}

/* A tool that could not be asked: said to the model, which can go on from there. */
static int put_failure(struct tn_buf *result, const char *text)
{
    struct tn_jw w = tn_jw(result);

    tn_jw_object(&w);
    tn_jw_key(&w, "content");
    tn_jw_array(&w);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "text");
    tn_jw_kstr(&w, "text", text);
    tn_jw_object_end(&w);
    tn_jw_array_end(&w);
    tn_jw_kbool(&w, "isError", true);
    tn_jw_object_end(&w);
    return 0;
}

static int fail(struct tn_mcp_request *request, struct tn_buf *result, const struct tn_error *err)
{
    if (err->code != TN_E_GONE &&
        strcmp(tn_mcp_request_message(request)->method, "tools/call") == 0)
        return put_failure(result, err->text);
    return tn_mcp_refuse(request, TN_RPC_INTERNAL_ERROR, "%s", err->text);
}

/* What results of the revision without sessions say of themselves: their client is told anew. */
static int copy_result(const char *key, struct tn_json *value, void *ctx)
{
    static const char *const own[] = {"resultType", "ttlMs", "cacheScope"};

    for (size_t i = 0; i < TN_COUNT(own); i++) {
        if (strcmp(own[i], key) == 0)
            return 0;
    }
    tn_jw_key(ctx, key);
    tn_jw_tree(ctx, value);
    return 0;
}

static int take_answer(struct tn_mcp_request *request, const struct tn_rpc *answer,
                       struct tn_buf *result)
{
    struct tn_jw w = tn_jw(result);
    bool asks = tn_mcp_is_input_required(answer->result) &&
                tn_mcp_client_is_modern(tn_mcp_request_client(request));

    if (answer->kind == TN_RPC_ERROR)
        return tn_mcp_refuse_with(request, answer->code, answer->message, answer->data);
    if (asks) {
        tn_mcp_request_asks(request);
        tn_jw_tree(&w, answer->result);
        return 0;
    }
    tn_jw_object(&w);
    tn_json_each(answer->result, copy_result, &w);
    tn_jw_object_end(&w);
    return 0;
}

/* The request as it came, but with another value for one member of its params. */
static int pass_on(struct mcp_backend *b, struct tn_mcp_request *request, const char *member,
                   const char *value, struct tn_buf *result)
{
    const struct tn_rpc *m = tn_mcp_request_message(request);
    tn_autobuf struct tn_buf params = TN_BUF_INIT(PARAMS_MAX);
    tn_autorpc struct tn_rpc answer = {0};
    struct tn_error err;

    mcp_copy_params(&params, m->params, member, value);
    if (mcp_call_in_rounds(b, tn_buf_str(&params), request, &answer, &err) < 0)
        return fail(request, result, &err);
    return take_answer(request, &answer, result);
}

/* --- lists ---------------------------------------------------------------------------------- */

static const struct {
    const char *member;
    bool named; /* by names that servers may share */
} lists[] = {
    [MCP_TOOLS] = {"tools", true},
    [MCP_PROMPTS] = {"prompts", true},
    [MCP_RESOURCES] = {"resources", false},
    [MCP_TEMPLATES] = {"resourceTemplates", false},
};

static void put_items(struct tn_jw *w, const struct tn_json *items, const char *server)
{
    for (size_t i = 0, n = tn_json_count(items); i < n; i++) {
        const struct tn_json *item = tn_json_at(items, i);
        tn_autofree char *name =
            server ? tn_asprintf("%s_%s", server, tn_json_get_str(item, "name", "")) : NULL;
        tn_jw_object(w);
        tn_json_each(item, copy_param, &(struct copy){w, server ? "name" : NULL, name});
        tn_jw_object_end(w);
    }
}

/* What could be had; an error only when that is nothing. */
static int put_list(struct mcp_proxy *p, const struct mcp_set *set, enum mcp_list which,
                    struct tn_mcp_request *request, struct tn_buf *result)
{
    struct tn_error err = {0};
    struct tn_jw w = tn_jw(result);
    size_t failed = 0;

    if (tn_json_has(tn_mcp_request_message(request)->params, "cursor"))
        return tn_mcp_refuse(request, TN_RPC_INVALID_PARAMS, "cursor: there are no pages");
    tn_jw_object(&w);
    tn_jw_key(&w, lists[which].member);
    tn_jw_array(&w);
    for (size_t i = 0; i < set->count; i++) {
        const char *server = mcp_backend_spec(set->backends[i])->name;
        mcp_autoitems struct mcp_items *items = mcp_backend_list(set->backends[i], which, &err);
        if (items)
            put_items(&w, items->array, lists[which].named && set->count > 1 ? server : NULL);
        else
            failed++;
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    if (failed && failed == set->count)
        return tn_mcp_refuse(request, TN_RPC_INTERNAL_ERROR, "%s", err.text);
    return 0;
}

/* --- names ---------------------------------------------------------------------------------- */

static bool lists_name(struct mcp_backend *b, enum mcp_list which, const char *member,
                       const char *name)
{
    struct tn_error err;
    mcp_autoitems struct mcp_items *items = mcp_backend_list(b, which, &err);

    for (size_t i = 0, n = items ? tn_json_count(items->array) : 0; i < n; i++) {
        if (strcmp(tn_json_get_str(tn_json_at(items->array, i), member, ""), name) == 0)
            return true;
    }
    return false;
}

/* The name within that server when `name` begins with the server's, else NULL. */
static const char *within(const struct mcp_backend *b, const char *name)
{
    const char *server = mcp_backend_spec(b)->name;
    size_t n = strlen(server);

    return strncmp(name, server, n) == 0 && name[n] == '_' ? name + n + 1 : NULL;
}

/* Looks for servers that have it in the one form: how many, the first in *found. */
static int look(const struct mcp_set *set, enum mcp_list which, const char *name, bool prefixed,
                struct mcp_backend **found, const char **inner)
{
    int count = 0;

    for (size_t i = 0; i < set->count; i++) {
        const char *own = prefixed ? within(set->backends[i], name) : name;
        if (own && lists_name(set->backends[i], which, "name", own) && count++ == 0) {
            *found = set->backends[i];
            *inner = own;
        }
    }
    return count;
}

/* The server of a tool or prompt, and its name there; NULL when no server can be meant. */
static struct mcp_backend *resolve(const struct mcp_set *set, enum mcp_list which, const char *name,
                                   const char **inner)
{
    bool several = set->count > 1;
    struct mcp_backend *found = NULL, *other = NULL;
    const char *other_inner = NULL;

    if (look(set, which, name, several, &found, inner) > 0)
        return found;
    if (look(set, which, name, !several, &other, &other_inner) == 1) {
        *inner = other_inner;
        return other;
    }
    /* Listed by nobody: its server may know better. */
    for (size_t i = 0; i < set->count; i++) {
        *inner = several ? within(set->backends[i], name) : name;
        if (*inner)
            return set->backends[i];
    }
    return NULL;
}

static int call_named(struct mcp_proxy *p, const struct mcp_set *set, enum mcp_list which,
                      struct tn_mcp_request *request, struct tn_buf *result)
{
    const char *kind = which == MCP_TOOLS ? "tool" : "prompt", *inner = NULL;
    const char *name = tn_json_get_str(tn_mcp_request_message(request)->params, "name", NULL);

    if (!name)
        return tn_mcp_refuse(request, TN_RPC_INVALID_PARAMS, "name: expected a string");
    struct mcp_backend *b = resolve(set, which, name, &inner);
    if (!b)
        return tn_mcp_refuse(request, TN_RPC_INVALID_PARAMS, "Unknown %s: %.200s", kind, name);
    return pass_on(b, request, "name", inner, result);
}

/* --- resources ------------------------------------------------------------------------------ */

/* Asks the server that lists the URI; when none does, all with resources until one has it.  The one
 * that answered is in *who. */
static int ask_owner(const struct mcp_set *set, struct tn_mcp_request *request,
                     struct tn_buf *result, struct mcp_backend **who)
{
    const struct tn_rpc *m = tn_mcp_request_message(request);
    const char *uri = tn_json_get_str(m->params, "uri", NULL);
    bool subscribes = strcmp(m->method, "resources/subscribe") == 0;
    int outcome = -1;

    if (!uri)
        return tn_mcp_refuse(request, TN_RPC_INVALID_PARAMS, "uri: expected a string");
    for (size_t i = 0; i < set->count; i++) {
        if (lists_name(set->backends[i], MCP_RESOURCES, "uri", uri)) {
            *who = set->backends[i];
            return pass_on(*who, request, NULL, NULL, result);
        }
    }
    tn_mcp_refuse(request, TN_RPC_NOT_FOUND, "Resource not found: %.300s", uri);
    for (size_t i = 0; i < set->count && outcome < 0; i++) {
        *who = set->backends[i];
        if (mcp_backend_can(*who, "resources") && !(subscribes && mcp_backend_is_modern(*who)))
            outcome = pass_on(*who, request, NULL, NULL, result);
    }
    return outcome;
}

static int read_resource(struct mcp_proxy *p, const struct mcp_set *set, struct mcp_listener *l,
                         struct tn_mcp_request *request, struct tn_buf *result)
{
    struct mcp_backend *who;
    return ask_owner(set, request, result, &who);
}

/* The first server without sessions that tells of resources; of this one, where that is listed.  Or
 * NULL. */
static struct mcp_backend *find_teller(const struct mcp_set *set, const char *listed)
{
    for (size_t i = 0; i < set->count; i++) {
        struct mcp_backend *b = set->backends[i];
        if ((!listed || lists_name(b, MCP_RESOURCES, "uri", listed)) && mcp_backend_is_modern(b) &&
            mcp_backend_subscribes(b))
            return b;
    }
    return NULL;
}

static void keep_subscription(struct mcp_proxy *p, struct mcp_listener *l, const char *uri,
                              const struct mcp_backend *who)
{
    pthread_mutex_lock(&p->lock);
    if (!mcp_subscribed(l, uri)) {
        l->subscriptions =
            tn_realloc(l->subscriptions, (l->subscription_count + 1) * sizeof *l->subscriptions);
        l->subscriptions[l->subscription_count++] = (struct mcp_subscription){
            .uri = tn_strdup(uri),
            .server = tn_strdup(mcp_backend_spec(who)->name),
        };
    }
    pthread_mutex_unlock(&p->lock);
}

/* The client's subscription to it, taken out; no uri: there is none. */
static struct mcp_subscription take_subscription(struct mcp_proxy *p, struct mcp_listener *l,
                                                 const char *uri)
{
    struct mcp_subscription gone = {0};

    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < l->subscription_count && !gone.uri; i++) {
        if (strcmp(l->subscriptions[i].uri, uri) == 0) {
            gone = l->subscriptions[i];
            l->subscriptions[i] = l->subscriptions[--l->subscription_count];
        }
    }
    pthread_mutex_unlock(&p->lock);
    return gone;
}

static int listen_to(struct mcp_proxy *p, struct mcp_listener *l, struct mcp_backend *who,
                     struct tn_mcp_request *request, const char *uri, struct tn_buf *result)
{
    struct tn_error err;

    keep_subscription(p, l, uri, who);
    if (mcp_relisten(p, who, &err) < 0) {
        struct mcp_subscription gone = take_subscription(p, l, uri);
        free(gone.uri);
        free(gone.server);
        return tn_mcp_refuse(request, TN_RPC_INVALID_REQUEST, "%s", err.text);
    }
    tn_buf_puts(result, "{}");
    return 0;
}

static int subscribe(struct mcp_proxy *p, const struct mcp_set *set, struct mcp_listener *l,
                     struct tn_mcp_request *request, struct tn_buf *result)
{
    struct mcp_backend *who = NULL;
    const char *uri = tn_json_get_str(tn_mcp_request_message(request)->params, "uri", "");

    if (l->subscription_count >= SUBSCRIPTIONS_MAX)
        return tn_mcp_refuse(request, TN_RPC_INVALID_REQUEST, "more than %d subscriptions",
                             SUBSCRIPTIONS_MAX);
    struct mcp_backend *teller = find_teller(set, uri);
    if (teller)
        return listen_to(p, l, teller, request, uri, result);
    if (ask_owner(set, request, result, &who) == 0) {
        keep_subscription(p, l, uri, who);
        return 0;
    }
    teller = *uri ? find_teller(set, NULL) : NULL;
    return teller ? listen_to(p, l, teller, request, uri, result) : -1;
}

static int end_subscription(struct mcp_proxy *p, const struct mcp_set *set, struct mcp_listener *l,
                            struct tn_mcp_request *request, struct tn_buf *result)
{
    const char *uri = tn_json_get_str(tn_mcp_request_message(request)->params, "uri", "");
    struct mcp_subscription gone = take_subscription(p, l, uri);

    if (gone.uri)
        unsubscribe(p, &gone);
    tn_buf_puts(result, "{}");
    return 0;
}

/* --- completion and logging ----------------------------------------------------------------- */

static int complete_prompt(const struct mcp_set *set, struct tn_mcp_request *request,
                           const char *name, struct tn_buf *result)
{
    const struct tn_rpc *m = tn_mcp_request_message(request);
    const char *inner = NULL;
    struct mcp_backend *b = resolve(set, MCP_PROMPTS, name, &inner);
    tn_autobuf struct tn_buf ref = TN_BUF_INIT(1 << 20), params = TN_BUF_INIT(PARAMS_MAX);
    tn_autorpc struct tn_rpc answer = {0};
    struct tn_jw w = tn_jw(&params);
    struct tn_error err;

    if (!b)
        return tn_mcp_refuse(request, TN_RPC_INVALID_PARAMS, "Unknown prompt: %.200s", name);
    mcp_copy_params(&ref, tn_json_get(m->params, "ref"), "name", inner);
    tn_jw_object(&w);
    tn_jw_key(&w, "ref");
    tn_jw_raw(&w, tn_buf_str(&ref), ref.len);
    tn_jw_key(&w, "argument");
    tn_jw_tree(&w, tn_json_get(m->params, "argument"));
    if (tn_json_has(m->params, "context")) {
        tn_jw_key(&w, "context");
        tn_jw_tree(&w, tn_json_get(m->params, "context"));
    }
    tn_jw_object_end(&w);
    if (mcp_backend_call(b, m->method, tn_buf_str(&params), request, &answer, &err) < 0)
        return fail(request, result, &err);
    return take_answer(request, &answer, result);
}

static int complete(struct mcp_proxy *p, const struct mcp_set *set, struct mcp_listener *l,
                    struct tn_mcp_request *request, struct tn_buf *result)
{
    const struct tn_json *ref = tn_json_get(tn_mcp_request_message(request)->params, "ref");
    const char *name = tn_json_get_str(ref, "name", NULL), *uri = tn_json_get_str(ref, "uri", "");

    if (name && strcmp(tn_json_get_str(ref, "type", ""), "ref/prompt") == 0)
        return complete_prompt(set, request, name, result);
    for (size_t i = 0; i < set->count; i++) {
        if (lists_name(set->backends[i], MCP_TEMPLATES, "uriTemplate", uri) ||
            lists_name(set->backends[i], MCP_RESOURCES, "uri", uri))
            return pass_on(set->backends[i], request, NULL, NULL, result);
    }
    return tn_mcp_refuse(request, TN_RPC_INVALID_PARAMS, "ref: nothing of that name: %.200s", uri);
}

static int set_level(struct mcp_proxy *p, const struct mcp_set *set, struct mcp_listener *l,
                     struct tn_mcp_request *request, struct tn_buf *result)
{
    const char *name = tn_json_get_str(tn_mcp_request_message(request)->params, "level", "");
    int level = mcp_level(name);

    if (level < 0)
        return tn_mcp_refuse(request, TN_RPC_INVALID_PARAMS, "level: there is no '%.40s'", name);
    pthread_mutex_lock(&p->lock);
    l->level = level;
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < set->count; i++)
        mcp_send_level(p, set->backends[i]);
    tn_buf_puts(result, "{}");
    return 0;
}

/* --- the table ------------------------------------------------------------------------------ */

struct handler {
    const char *method;
    /* either */
    int (*handle)(struct mcp_proxy *p, const struct mcp_set *set, struct mcp_listener *l,
                  struct tn_mcp_request *request, struct tn_buf *result);
    /* or one of the lists */
    int (*of_list)(struct mcp_proxy *p, const struct mcp_set *set, enum mcp_list which,
                   struct tn_mcp_request *request, struct tn_buf *result);
    enum mcp_list which;
};

static const struct handler handlers[] = {
    {.method = "tools/list", .of_list = put_list, .which = MCP_TOOLS},
    {.method = "tools/call", .of_list = call_named, .which = MCP_TOOLS},
    {.method = "prompts/list", .of_list = put_list, .which = MCP_PROMPTS},
    {.method = "prompts/get", .of_list = call_named, .which = MCP_PROMPTS},
    {.method = "resources/list", .of_list = put_list, .which = MCP_RESOURCES},
    {.method = "resources/templates/list", .of_list = put_list, .which = MCP_TEMPLATES},
    {.method = "resources/read", .handle = read_resource},
    {.method = "resources/subscribe", .handle = subscribe},
    {.method = "resources/unsubscribe", .handle = end_subscription},
    {.method = "completion/complete", .handle = complete},
    {.method = "logging/setLevel", .handle = set_level},
};

static int handle_request(void *ctx, void *state, struct tn_mcp_request *request,
                          struct tn_buf *result)
{
    struct mcp_proxy *p = ctx;
    const char *method = tn_mcp_request_message(request)->method;
    const struct handler *h = NULL;

    for (size_t i = 0; i < TN_COUNT(handlers) && !h; i++) {
        if (strcmp(handlers[i].method, method) == 0)
            h = &handlers[i];
    }
    if (!h)
        return tn_mcp_refuse(request, TN_RPC_METHOD_NOT_FOUND, "Method not found");
    struct mcp_set *set = mcp_set_take(p);
    struct mcp_listener *l = state;
    /* Who has no session sets its level with the request. */
    bool sets_level = l->level < MCP_LEVELS && tn_mcp_client_is_modern(l->client);
    for (size_t i = 0; i < set->count && sets_level; i++)
        mcp_send_level(p, set->backends[i]);
    int outcome = h->handle ? h->handle(p, set, state, request, result)
                            : h->of_list(p, set, h->which, request, result);
    mcp_set_release(p, set);
    return outcome;
}

/* The definition of a tool that wants arguments in headers, for whoever checks those. */
static struct tn_json *find_tool(void *ctx, const char *name)
{
    struct mcp_proxy *p = ctx;
    struct mcp_set *set = mcp_set_take(p);
    const char *inner = NULL;
    struct mcp_backend *b = resolve(set, MCP_TOOLS, name, &inner);
    struct tn_json *found = NULL;
    struct tn_error err;
    mcp_autoitems struct mcp_items *items = b ? mcp_backend_list(b, MCP_TOOLS, &err) : NULL;

    for (size_t i = 0, n = items ? tn_json_count(items->array) : 0; i < n && !found; i++) {
        const struct tn_json *tool = tn_json_at(items->array, i);
        if (strcmp(tn_json_get_str(tool, "name", ""), inner) == 0 &&
            tn_mcp_param_headers_wanted(tool))
            found = tn_json_copy(tool);
    }
    mcp_set_release(p, set);
    return found;
}

const struct tn_mcp_server_ops mcp_server_ops = {
    .name = "tendon",
    .version = TN_VERSION,
    .title = "MCP servers of the sandbox",
    .describe = describe,
    .client_open = client_open,
    .client_close = client_close,
    .request = handle_request,
    .tool = find_tool,
};
