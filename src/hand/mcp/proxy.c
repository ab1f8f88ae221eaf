#include "hand/mcp/proxy.h"

#include "base/log.h"
#include "base/thread.h"
#include "hand/mcp/proxy-internal.h"

#define START_SECONDS 32.0 /* a little more than one start may take */
#define END_SECONDS 5.0

/* --- sets ----------------------------------------------------------------------------------- */

static struct mcp_set *new_set(size_t count)
{
    struct mcp_set *set = tn_calloc(1, sizeof *set + count * sizeof *set->backends);

    set->refs = 1;
    set->count = count;
    return set;
}

struct mcp_set *mcp_set_take(struct mcp_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    struct mcp_set *set = p->set;
    set->refs++;
    pthread_mutex_unlock(&p->lock);
    return set;
}

void mcp_set_release(struct mcp_proxy *p, struct mcp_set *set)
{
    pthread_mutex_lock(&p->lock);
    bool last = --set->refs == 0;
    pthread_mutex_unlock(&p->lock);
    if (!last)
        return;
    for (size_t i = 0; i < set->count; i++)
        mcp_backend_unref(set->backends[i]);
    free(set);
}

static bool holds(const struct mcp_set *set, const struct mcp_backend *b)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->backends[i] == b)
            return true;
    }
    return false;
}

/* --- life ----------------------------------------------------------------------------------- */

struct mcp_proxy *mcp_proxy_new(struct tn_hand *hand)
{
    struct mcp_proxy *p = tn_calloc(1, sizeof *p);

    p->hand = hand;
    p->server = tn_mcp_server_new(&mcp_server_ops, p);
    p->set = new_set(0);
    pthread_mutex_init(&p->updating, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->listening, NULL);
    tn_cond_init(&p->fewer);
    return p;
}

/* Ends those of a set that are not in the other, and waits for that. */
static void end_others(struct mcp_set *set, const struct mcp_set *but)
{
    int64_t deadline = tn_deadline_in(END_SECONDS);

    for (size_t i = 0; i < set->count; i++) {
        if (!holds(but, set->backends[i]))
            mcp_backend_end(set->backends[i], true);
    }
    for (size_t i = 0; i < set->count; i++) {
        if (!holds(but, set->backends[i]))
            mcp_backend_await(set->backends[i], deadline);
    }
}

void mcp_proxy_free(struct mcp_proxy *p)
{
    int64_t deadline = tn_deadline_in(END_SECONDS);
    struct timespec until = tn_timespec(deadline);
    struct mcp_set *none = new_set(0);

    end_others(p->set, none);
    pthread_mutex_lock(&p->lock);
    while (p->relays > 0 && tn_now() < deadline)
        pthread_cond_timedwait(&p->fewer, &p->lock, &until);
    pthread_mutex_unlock(&p->lock);
    mcp_set_release(p, p->set);
    free(none);
    tn_mcp_server_free(p->server);
    pthread_mutex_destroy(&p->updating);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->listening);
    pthread_cond_destroy(&p->fewer);
    free(p);
}

struct tn_mcp_server *mcp_proxy_server(struct mcp_proxy *p)
{
    return p->server;
}

/* --- replacing the servers ------------------------------------------------------------------ */

static void free_specs(struct mcp_spec *specs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mcp_spec_done(&specs[i]);
    free(specs);
}

static int refuse_twice(const struct mcp_spec *specs, size_t n, struct tn_error *err)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(specs[i].name, specs[k].name) == 0)
                return tn_fail(err, TN_E_INVALID, "items %zu and %zu have the same name", k + 1,
                               i + 1);
    return 0;
}

static struct mcp_spec *read_specs(const struct tn_json *entries, struct tn_error *err)
{
    size_t n = tn_json_count(entries);

    if (n > MCP_SERVERS_MAX) {
        tn_fail(err, TN_E_INVALID, "%zu servers, the most is %d", n, MCP_SERVERS_MAX);
        return NULL;
    }
    struct mcp_spec *specs = tn_calloc(n, sizeof *specs);
    for (size_t i = 0; i < n; i++) {
        if (mcp_spec_read(tn_json_at(entries, i), &specs[i], err) < 0) {
            tn_error_context(err, "item %zu", i + 1);
            free_specs(specs, i);
            return NULL;
        }
    }
    if (refuse_twice(specs, n, err) == 0)
        return specs;
    free_specs(specs, n);
    return NULL;
}

/* The one that fits, or a new one. */
static struct mcp_backend *adopt(struct mcp_proxy *p, const struct mcp_set *old,
                                 struct mcp_spec *spec)
{
    for (size_t i = 0; i < old->count; i++) {
        if (mcp_spec_equal(mcp_backend_spec(old->backends[i]), spec))
            return mcp_backend_ref(old->backends[i]);
    }
    return mcp_backend_new(p->hand, spec, &mcp_relay_ops, p);
}

static void announce(struct mcp_proxy *p)
{
    tn_mcp_server_notify(p->server, "notifications/tools/list_changed", "");
    tn_mcp_server_notify(p->server, "notifications/prompts/list_changed", "");
    tn_mcp_server_notify(p->server, "notifications/resources/list_changed", "");
}

/* Ready means that its tools are known as well. */
static void await_servers(const struct mcp_set *set, int64_t deadline, struct tn_buf *log)
{
    struct tn_error err;

    for (size_t i = 0; i < set->count; i++)
        mcp_backend_wake(set->backends[i]);
    for (size_t i = 0; i < set->count; i++) {
        mcp_autoitems struct mcp_items *tools = NULL;
        if (mcp_backend_ready(set->backends[i], deadline, &err) < 0 ||
            !(tools = mcp_backend_list(set->backends[i], MCP_TOOLS, &err)))
            tn_buf_printf(log, "%s%s", log->len ? "\n" : "", err.text);
    }
}

int mcp_proxy_update(struct mcp_proxy *p, const struct tn_json *entries, struct tn_buf *log,
                     struct tn_error *err)
{
    size_t n = tn_json_count(entries);
    struct mcp_spec *specs = read_specs(entries, err);

    if (!specs)
        return -1;
    pthread_mutex_lock(&p->updating);
    struct mcp_set *old = mcp_set_take(p), *set = new_set(n);
    bool changed = n != old->count;
    for (size_t i = 0; i < n; i++) {
        set->backends[i] = adopt(p, old, &specs[i]);
        changed |= !holds(old, set->backends[i]);
    }
    pthread_mutex_lock(&p->lock);
    p->set = set;
    old->refs--; /* the proxy's; ours is left */
    set->refs++;
    pthread_mutex_unlock(&p->lock);
    end_others(old, set);
    await_servers(set, tn_deadline_in(START_SECONDS), log);
    if (changed)
        announce(p);
    mcp_set_release(p, old);
    mcp_set_release(p, set);
    pthread_mutex_unlock(&p->updating);
    free_specs(specs, n);
    return 0;
}

/* --- as a plugin ---------------------------------------------------------------------------- */

bool mcp_proxy_empty(struct mcp_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    bool empty = p->set->count == 0;
    pthread_mutex_unlock(&p->lock);
    return empty;
}

int mcp_proxy_start(struct mcp_proxy *p, int64_t deadline, struct tn_error *err)
{
    struct mcp_set *set = mcp_set_take(p);
    int result = 0;

    for (size_t i = 0; i < set->count; i++)
        mcp_backend_wake(set->backends[i]);
    for (size_t i = 0; i < set->count && result == 0; i++)
        result = mcp_backend_ready(set->backends[i], deadline, err);
    mcp_set_release(p, set);
    return result;
}

void mcp_proxy_stop(struct mcp_proxy *p)
{
    struct mcp_set *set = mcp_set_take(p);
    int64_t deadline = tn_deadline_in(END_SECONDS);

    for (size_t i = 0; i < set->count; i++)
        mcp_backend_end(set->backends[i], false);
    for (size_t i = 0; i < set->count; i++)
        mcp_backend_await(set->backends[i], deadline);
    mcp_set_release(p, set);
}

void mcp_proxy_interrupt(struct mcp_proxy *p)
{
    struct mcp_set *set = mcp_set_take(p);

    for (size_t i = 0; i < set->count; i++)
        mcp_backend_end(set->backends[i], true);
    mcp_set_release(p, set);
}

void mcp_proxy_status(struct mcp_proxy *p, struct tn_jw *w)
{
    struct mcp_set *set = mcp_set_take(p);
    struct mcp_backend_totals totals = {0};

    tn_jw_key(w, "pids");
    tn_jw_array(w);
    for (size_t i = 0; i < set->count; i++) {
        pid_t pid = mcp_backend_pid(set->backends[i]);
        if (pid)
            tn_jw_int(w, pid);
    }
    tn_jw_array_end(w);
    tn_jw_key(w, "servers");
    tn_jw_array(w);
    for (size_t i = 0; i < set->count; i++)
        mcp_backend_status(set->backends[i], w, &totals);
    tn_jw_array_end(w);
    tn_jw_kbool(w, "running", totals.running > 0);
    tn_jw_kint(w, "memory", totals.memory);
    tn_jw_kint(w, "restarts", totals.restarts);
    mcp_set_release(p, set);
}
