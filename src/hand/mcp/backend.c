#include "hand/mcp/backend.h"

#include <inttypes.h>

#include "base/thread.h"
#include "hand/mcp/backend-internal.h"

enum { PAGES_MAX = 256, TRIES = 3 };
#define END_SECONDS 1.0
#define LISTEN_SECONDS 1.0
#define LIST_MAX ((size_t)16 << 20)
#define PARAMS_MAX ((size_t)32 << 20)

struct mcp_backend *mcp_backend_new(struct tn_hand *hand, struct mcp_spec *spec,
                                    const struct mcp_backend_ops *ops, void *ctx)
{
    struct mcp_backend *b = tn_calloc(1, sizeof *b);

    b->hand = hand;
    b->spec = *spec;
    *spec = (struct mcp_spec){0};
    b->ops = ops;
    b->ctx = ctx;
    b->refs = 1;
    pthread_mutex_init(&b->lock, NULL);
    tn_cond_init(&b->changed);
    return b;
}

struct mcp_backend *mcp_backend_ref(struct mcp_backend *b)
{
    pthread_mutex_lock(&b->lock);
    b->refs++;
    pthread_mutex_unlock(&b->lock);
    return b;
}

void mcp_backend_unref(struct mcp_backend *b)
{
    pthread_mutex_lock(&b->lock);
    bool last = --b->refs == 0;
    pthread_mutex_unlock(&b->lock);
    if (!last)
        return;
    for (int i = 0; i < MCP_LIST_COUNT; i++)
        mcp_items_unref(b->lists[i]);
    tn_json_free(b->hello);
    free(b->last_error);
    mcp_spec_done(&b->spec);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->changed);
    free(b);
}

const struct mcp_spec *mcp_backend_spec(const struct mcp_backend *b)
{
    return &b->spec;
}

/* --- up and down ---------------------------------------------------------------------------- */

void mcp_backend_wake(struct mcp_backend *b)
{
    pthread_mutex_lock(&b->lock);
    if (b->state == MCP_OFF && !b->ended)
        mcp_start(b);
    pthread_mutex_unlock(&b->lock);
}

/* The present run, with a reference, once it is up; or NULL with err. */
static struct mcp_run *take_run(struct mcp_backend *b, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    struct mcp_run *run = NULL;
    const char *name = b->spec.name;

    pthread_mutex_lock(&b->lock);
    unsigned before = b->attempts;
    while (!run) {
        if (b->ended) {
            tn_fail(err, TN_E_GONE, "MCP server '%s' was removed", name);
            break;
        }
        if (b->state == MCP_UP) {
            run = b->run;
            run->refs++;
            break;
        }
        if (b->state == MCP_OFF && b->attempts != before) {
            tn_fail(err, TN_E_PEER, "MCP server '%s' could not be started: %s", name,
                    b->last_error ? b->last_error : "it was stopped");
            break;
        }
        if (tn_now() >= deadline) {
            tn_fail(err, TN_E_TIMEOUT, "MCP server '%s' is still starting", name);
            break;
        }
        if (b->state == MCP_OFF)
            mcp_start(b);
        else
            pthread_cond_timedwait(&b->changed, &b->lock, &until);
    }
    pthread_mutex_unlock(&b->lock);
    return run;
}

int mcp_backend_ready(struct mcp_backend *b, int64_t deadline, struct tn_error *err)
{
    struct mcp_run *run = take_run(b, deadline, err);

    if (!run)
        return -1;
    mcp_run_unref(run);
    return 0;
}

void mcp_backend_end(struct mcp_backend *b, bool forever)
{
    pthread_mutex_lock(&b->lock);
    b->ended |= forever;
    if (b->run) {
        b->run->wanted_end = true;
        tn_mcp_pipe_stop(b->run->pipe);
        if (b->state == MCP_UP) {
            b->state = MCP_OFF;
            b->run = NULL;
        }
    }
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

void mcp_backend_await(struct mcp_backend *b, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);

    pthread_mutex_lock(&b->lock);
    while (b->threads > 0 && tn_now() < deadline)
        pthread_cond_timedwait(&b->changed, &b->lock, &until);
    pthread_mutex_unlock(&b->lock);
}

/* --- calls ---------------------------------------------------------------------------------- */

static void enter(struct mcp_backend *b, struct mcp_active *active)
{
    pthread_mutex_lock(&b->lock);
    active->next = b->active;
    b->active = active;
    pthread_mutex_unlock(&b->lock);
}

static void leave(struct mcp_backend *b, struct mcp_active *active)
{
    pthread_mutex_lock(&b->lock);
    for (struct mcp_active **at = &b->active; *at; at = &(*at)->next) {
        if (*at == active) {
            *at = active->next;
            break;
        }
    }
    pthread_mutex_unlock(&b->lock);
}

/* One that lets calls run out of time and says nothing at all in between is beyond help. */
static void note_timeout(struct mcp_backend *b, struct mcp_run *run)
{
    pthread_mutex_lock(&b->lock);
    mcp_set_error(b, "a call got no answer within %d s", b->spec.timeout);
    if (++run->silent >= MCP_SILENT_MAX)
        tn_mcp_pipe_stop(run->pipe);
    pthread_mutex_unlock(&b->lock);
}

/* What could not even be sent may be tried again, once it is clear that the server has ended. */
static bool has_ended(struct mcp_backend *b, const struct mcp_run *run)
{
    int64_t deadline = tn_deadline_in(END_SECONDS);
    struct timespec until = tn_timespec(deadline);

    pthread_mutex_lock(&b->lock);
    while (!run->dead && tn_now() < deadline)
        pthread_cond_timedwait(&b->changed, &b->lock, &until);
    bool dead = run->dead;
    pthread_mutex_unlock(&b->lock);
    return dead;
}

static void forward_progress(void *ctx, const struct tn_json *params)
{
    tn_mcp_progress_forward(ctx, params);
}

/* What a client has that servers may ask of it. */
static void put_capabilities(struct tn_buf *out, const struct tn_mcp_client *client)
{
    static const char *const asked[] = {"roots", "sampling", "elicitation"};
    const struct tn_json *all = tn_json_get(tn_mcp_client_hello(client), "capabilities");
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    for (size_t i = 0; i < TN_COUNT(asked); i++) {
        const struct tn_json *one = tn_json_get(all, asked[i]);
        if (tn_json_type(one) == TN_JSON_OBJECT) {
            tn_jw_key(&w, asked[i]);
            tn_jw_tree(&w, one);
        }
    }
    tn_jw_object_end(&w);
}

/* A server without sessions is told with every request whom it is for. */
static int put_params(struct mcp_backend *b, struct tn_buf *out, const char *params,
                      const char *inputs, struct tn_mcp_request *request, struct tn_error *err)
{
    tn_autobuf struct tn_buf capabilities = TN_BUF_INIT(1 << 20);
    const struct tn_mcp_client *client = request ? tn_mcp_request_client(request) : NULL;
    struct tn_mcp_meta meta = MCP_HAND_META;

    if (client) {
        put_capabilities(&capabilities, client);
        if (tn_buf_ok(&capabilities))
            meta.capabilities = tn_buf_str(&capabilities);
        meta.log_level = b->ops->level(b->ctx, client);
    }
    if (tn_mcp_put_params(out, params, inputs, &meta, err) < 0)
        return -1;
    return tn_buf_ok(out) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "the request is too large");
}

/* 1: it was not sent, and the server has ended. */
static int call_run(struct mcp_backend *b, struct mcp_run *run, const char *method,
                    const char *params, const char *inputs, struct tn_mcp_request *request,
                    int64_t deadline, struct tn_rpc *answer, struct tn_error *err)
{
    tn_autobuf struct tn_buf modern = TN_BUF_INIT(PARAMS_MAX);
    struct mcp_active active = {.request = request};

    if (run->modern) {
        mcp_listen_again(run);
        if (put_params(b, &modern, params, inputs, request, err) < 0)
            return -1;
        params = tn_buf_str(&modern);
    }
    struct tn_mcp_call call = {
        .method = method,
        .params = params,
        .deadline = deadline,
        .patience = b->spec.timeout,
        .progress = request && tn_mcp_wants_progress(request) ? forward_progress : NULL,
        .progress_ctx = request,
        .cancel = request ? tn_mcp_request_cancel_fd(request) : -1,
    };
    if (request)
        enter(b, &active);
    int result = tn_mcp_call(run->peer, &call, answer, err);
    if (request)
        leave(b, &active);
    if (result < 0 && err->code == TN_E_TIMEOUT) {
        note_timeout(b, run);
        tn_fail(err, TN_E_TIMEOUT, "MCP server '%s' did not answer within %d s", b->spec.name,
                b->spec.timeout);
    }
    if (result < 0 && err->code == TN_E_PEER && err->sys == EPIPE) {
        if (has_ended(b, run))
            return 1;
        tn_error_context(err, "MCP server '%s'", b->spec.name);
    }
    return result;
}

int mcp_backend_call(struct mcp_backend *b, const char *method, const char *params,
                     struct tn_mcp_request *request, struct tn_rpc *answer, struct tn_error *err)
{
    return mcp_backend_call_again(b, method, params, "", request, answer, err);
}

int mcp_backend_call_again(struct mcp_backend *b, const char *method, const char *params,
                           const char *inputs, struct tn_mcp_request *request,
                           struct tn_rpc *answer, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(b->spec.timeout);
    int result = 1;

    for (int i = 0; i < TRIES && result > 0; i++) {
        struct mcp_run *run = take_run(b, deadline, err);
        if (!run)
            return -1;
        result = call_run(b, run, method, params, inputs, request, deadline, answer, err);
        mcp_run_unref(run);
    }
    return result > 0 ? tn_error_context(err, "MCP server '%s'", b->spec.name) : result;
}

/* The one that is up, with a reference; or NULL. */
static struct mcp_run *present_run(struct mcp_backend *b)
{
    struct mcp_run *run = NULL;

    pthread_mutex_lock(&b->lock);
    if (b->state == MCP_UP) {
        run = b->run;
        run->refs++;
    }
    pthread_mutex_unlock(&b->lock);
    return run;
}

void mcp_backend_ask(struct mcp_backend *b, const char *method, const char *params)
{
    struct mcp_run *run = present_run(b);

    if (run) {
        tn_mcp_ask(run->peer, method, params, NULL);
        mcp_run_unref(run);
    }
}

bool mcp_backend_can(struct mcp_backend *b, const char *capability)
{
    pthread_mutex_lock(&b->lock);
    bool can = tn_json_has(tn_json_get(b->hello, "capabilities"), capability);
    pthread_mutex_unlock(&b->lock);
    return can;
}

bool mcp_backend_subscribes(struct mcp_backend *b)
{
    pthread_mutex_lock(&b->lock);
    const struct tn_json *all = tn_json_get(b->hello, "capabilities");
    bool can = tn_json_bool(tn_json_get(tn_json_get(all, "resources"), "subscribe"), false);
    pthread_mutex_unlock(&b->lock);
    return can;
}

bool mcp_backend_is_modern(struct mcp_backend *b)
{
    pthread_mutex_lock(&b->lock);
    bool modern = b->modern;
    pthread_mutex_unlock(&b->lock);
    return modern;
}

bool mcp_backend_note_level(struct mcp_backend *b, int level)
{
    pthread_mutex_lock(&b->lock);
    bool is_new = b->run && b->run->level != level + 1;
    if (is_new)
        b->run->level = level + 1;
    pthread_mutex_unlock(&b->lock);
    return is_new;
}

static void cancel_listen(struct mcp_run *run, int64_t number)
{
    tn_autofree char *params = tn_asprintf("{\"requestId\":%" PRId64 "}", number);

    tn_mcp_notify(run->peer, "notifications/cancelled", params, NULL);
}

static int listen_anew(struct mcp_run *run, const char *notifications, struct tn_error *err)
{
    tn_autofree char *wish = tn_asprintf("{\"notifications\":%s}", notifications);
    tn_autobuf struct tn_buf params = TN_BUF_INIT(PARAMS_MAX);

    if (tn_mcp_put_params(&params, wish, "", &MCP_HAND_META, err) < 0)
        return -1;
    int64_t number = tn_mcp_ask(run->peer, "subscriptions/listen", tn_buf_str(&params), err);
    if (number < 0)
        return -1;
    pthread_mutex_lock(&run->backend->lock);
    int64_t before = run->listening;
    run->listening = number;
    run->listened = tn_now();
    run->unheard = false;
    pthread_mutex_unlock(&run->backend->lock);
    if (before)
        cancel_listen(run, before);
    return 0;
}

void mcp_listen_again(struct mcp_run *run)
{
    struct mcp_backend *b = run->backend;

    pthread_mutex_lock(&b->lock);
    bool due = run->unheard && b->run == run &&
               tn_now() - run->listened >= (int64_t)(LISTEN_SECONDS * TN_SECOND);
    if (due) {
        run->unheard = false;
        for (int i = 0; i < MCP_LIST_COUNT; i++) /* it may have changed them meanwhile */
            mcp_forget_list(b, (enum mcp_list)i);
    }
    pthread_mutex_unlock(&b->lock);
    if (due)
        b->ops->listen(b->ctx, b);
}

int mcp_backend_listen(struct mcp_backend *b, const char *notifications, struct tn_error *err)
{
    struct mcp_run *run = present_run(b);
    int result = run && run->modern ? listen_anew(run, notifications, err) : 0;

    if (run)
        mcp_run_unref(run);
    return result;
}

size_t mcp_backend_requests(struct mcp_backend *b, struct tn_mcp_request ***requests)
{
    size_t n = 0;

    *requests = NULL;
    pthread_mutex_lock(&b->lock);
    for (struct mcp_active *at = b->active; at; at = at->next) {
        if (tn_mcp_client_is_modern(tn_mcp_request_client(at->request))) {
            *requests = tn_realloc(*requests, (n + 1) * sizeof **requests);
            (*requests)[n++] = tn_mcp_request_ref(at->request);
        }
    }
    pthread_mutex_unlock(&b->lock);
    return n;
}

struct tn_mcp_request *mcp_backend_cause(struct mcp_backend *b, const char *capability)
{
    struct tn_mcp_request *found = NULL;

    pthread_mutex_lock(&b->lock);
    for (struct mcp_active *at = b->active; at && !found; at = at->next) {
        if (tn_mcp_client_can(tn_mcp_request_client(at->request), capability))
            found = tn_mcp_request_ref(at->request);
    }
    pthread_mutex_unlock(&b->lock);
    return found;
}

/* --- lists ---------------------------------------------------------------------------------- */

static const struct {
    const char *method, *capability, *member;
} lists[] = {
    [MCP_TOOLS] = {"tools/list", "tools", "tools"},
    [MCP_PROMPTS] = {"prompts/list", "prompts", "prompts"},
    [MCP_RESOURCES] = {"resources/list", "resources", "resources"},
    [MCP_TEMPLATES] = {"resources/templates/list", "resources", "resourceTemplates"},
};

/* Appends one page and leaves the cursor of the next, or NULL, in *cursor. */
static int read_page(struct mcp_backend *b, enum mcp_list which, struct tn_jw *w, char **cursor,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 20);
    tn_autorpc struct tn_rpc answer = {0};
    struct tn_jw p = tn_jw(&params);

    tn_jw_object(&p);
    if (*cursor)
        tn_jw_kstr(&p, "cursor", *cursor);
    tn_jw_object_end(&p);
    if (mcp_backend_call(b, lists[which].method, tn_buf_str(&params), NULL, &answer, err) < 0)
        return -1;
    if (answer.kind == TN_RPC_ERROR) {
        tn_mcp_fail_answer(&answer, err);
        return tn_error_context(err, "MCP server '%s': %s", b->spec.name, lists[which].method);
    }
    const struct tn_json *items = tn_json_get(answer.result, lists[which].member);
    for (size_t i = 0, n = tn_json_count(items); i < n; i++) {
        if (tn_json_type(tn_json_at(items, i)) == TN_JSON_OBJECT)
            tn_jw_tree(w, tn_json_at(items, i));
    }
    free(*cursor);
    *cursor = tn_strdup_or_null(tn_json_get_str(answer.result, "nextCursor", NULL));
    return 0;
}

void mcp_items_unref(struct mcp_items *items)
{
    if (items && __atomic_sub_fetch(&items->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        tn_json_free(items->array);
        free(items);
    }
}

static struct mcp_items *items_ref(struct mcp_items *items)
{
    __atomic_add_fetch(&items->refs, 1, __ATOMIC_RELAXED);
    return items;
}

static int read_list(struct mcp_backend *b, enum mcp_list which, struct tn_json **list,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(LIST_MAX);
    tn_autofree char *cursor = NULL;
    struct tn_jw w = tn_jw(&text);
    int pages = 0;

    tn_jw_array(&w);
    do {
        if (read_page(b, which, &w, &cursor, err) < 0)
            return -1;
    } while (cursor && ++pages < PAGES_MAX && tn_buf_ok(&text));
    tn_jw_array_end(&w);
    if (!tn_buf_ok(&text) || cursor)
        return tn_fail(err, TN_E_TOO_LARGE, "MCP server '%s': %s has no end", b->spec.name,
                       lists[which].method);
    return tn_json_parse(tn_buf_str(&text), text.len, list, err);
}

struct mcp_items *mcp_backend_list(struct mcp_backend *b, enum mcp_list which, struct tn_error *err)
{
    struct mcp_items *items = NULL;
    struct tn_json *array = NULL;

    if (mcp_backend_ready(b, tn_deadline_in(b->spec.timeout), err) < 0)
        return NULL;
    pthread_mutex_lock(&b->lock);
    unsigned version = b->list_version[which];
    if (b->lists[which])
        items = items_ref(b->lists[which]);
    pthread_mutex_unlock(&b->lock);
    if (items)
        return items;
    bool has = mcp_backend_can(b, lists[which].capability);
    if ((has ? read_list(b, which, &array, err) : tn_json_parse("[]", 2, &array, err)) < 0)
        return NULL;
    items = tn_malloc(sizeof *items);
    *items = (struct mcp_items){.refs = 1, .array = array};
    pthread_mutex_lock(&b->lock);
    if (b->list_version[which] == version && !b->lists[which])
        b->lists[which] = items_ref(items);
    pthread_mutex_unlock(&b->lock);
    return items;
}

/* --- status --------------------------------------------------------------------------------- */

pid_t mcp_backend_pid(struct mcp_backend *b)
{
    pthread_mutex_lock(&b->lock);
    pid_t pid = b->run ? tn_helper_pid(b->run->helper) : 0;
    pthread_mutex_unlock(&b->lock);
    return pid;
}

void mcp_backend_status(struct mcp_backend *b, struct tn_jw *w, struct mcp_backend_totals *totals)
{
    static const char *const states[] = {"stopped", "starting", "running"};
    struct mcp_run *run = NULL;

    pthread_mutex_lock(&b->lock);
    if ((run = b->run))
        run->refs++;
    pthread_mutex_unlock(&b->lock);
    int64_t memory = run ? tn_helper_memory(run->helper) : 0;
    pthread_mutex_lock(&b->lock);
    const struct tn_json *info = tn_json_get(b->hello, "serverInfo");
    const char *version = tn_json_get_str(b->hello, "protocolVersion", NULL);
    if (!info)
        info = tn_json_get(tn_json_get(b->hello, "_meta"), TN_MCP_META "serverInfo");
    int restarts = b->starts > 1 ? b->starts - 1 : 0;
    bool failed = b->state == MCP_OFF && b->backoff.failures > 0;
    tn_jw_object(w);
    tn_jw_kstr(w, "name", b->spec.name);
    tn_jw_kstr(w, "state", failed ? "failed" : states[b->state]);
    tn_jw_kint(w, "pid", run ? tn_helper_pid(run->helper) : 0);
    tn_jw_kint(w, "memory", memory);
    tn_jw_kint(w, "restarts", restarts);
    tn_jw_kstr(w, "version", b->modern ? TN_MCP_MODERN : version);
    tn_jw_kstr(w, "server", tn_json_get_str(info, "name", NULL));
    tn_jw_key(w, "tools");
    tn_jw_array(w);
    const struct tn_json *tools = b->lists[MCP_TOOLS] ? b->lists[MCP_TOOLS]->array : NULL;
    for (size_t i = 0, n = tn_json_count(tools); i < n; i++)
        tn_jw_str(w, tn_json_get_str(tn_json_at(tools, i), "name", ""));
    tn_jw_array_end(w);
    tn_jw_kint(w, "noise", b->noise);
    tn_jw_kint(w, "dropped", b->dropped);
    tn_jw_kstr(w, "last_error", b->last_error);
    tn_jw_object_end(w);
    totals->running += b->state == MCP_UP;
    totals->memory += memory;
    totals->restarts += restarts;
    pthread_mutex_unlock(&b->lock);
    if (run)
        mcp_run_unref(run);
}
