/* Other variables for a box that exists: in its hand, which gives them to what it starts, and in
 * its spec, which the next start reads. */
#include "base/clock.h"
#include "service/box-internal.h"
#include "service/desk.h"
#include "service/process.h"

#define CHANGE_SECONDS 10.0

enum { ENV_MAX = 512 << 10 }; /* as specs have it */

struct merge {
    struct tn_jw w;
    const struct tn_json *unset, *set;
};

static bool lists(const struct tn_json *names, const char *name)
{
    for (size_t i = 0; i < tn_json_count(names); i++) {
        const char *one = tn_json_str(tn_json_at(names, i), NULL);
        if (one && strcmp(one, name) == 0)
            return true;
    }
    return false;
}

static int put_kept(const char *name, struct tn_json *value, void *ctx)
{
    struct merge *m = ctx;

    if (!lists(m->unset, name) && !tn_json_has(m->set, name)) {
        tn_jw_key(&m->w, name);
        tn_jw_tree(&m->w, value);
    }
    return 0;
}

static int put_new(const char *name, struct tn_json *value, void *ctx)
{
    struct merge *m = ctx;

    tn_jw_key(&m->w, name);
    tn_jw_tree(&m->w, value);
    return 0;
}

static int merge(const struct tn_json *old, const struct tn_json *unset, const struct tn_json *set,
                 struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(ENV_MAX);
    struct merge m = {.w = tn_jw(&text), .unset = unset, .set = set};

    tn_jw_object(&m.w);
    tn_json_each(old, put_kept, &m);
    tn_json_each(set, put_new, &m);
    tn_jw_object_end(&m.w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "env: more than %d KiB", ENV_MAX >> 10);
    return tn_json_parse(tn_buf_str(&text), text.len, out, err);
}

struct secrets {
    struct tn_secret *list;
    size_t count;
};

static int take_secret(const char *name, struct tn_json *value, void *ctx)
{
    struct secrets *all = ctx;
    const char *text = tn_json_str(value, NULL);

    if (tn_names_secret(name) && text && *text)
        all->list[all->count++] = (struct tn_secret){.name = name, .value = text};
    return 0;
}

/* Journals do not show what is called a secret, as with those that it was made with.  One has room
 * for so many; what was replaced stays, since whoever runs may still print it. */
static int hide(struct tn_ledger *ledger, const struct tn_json *set, struct tn_error *err)
{
    tn_autofree struct tn_secret *list = tn_calloc(tn_json_count(set) + 1, sizeof *list);
    struct secrets all = {.list = list};

    tn_json_each(set, take_secret, &all);
    return tn_ledger_hide(ledger, list, all.count, err);
}

/* The store of the runtime, then the row, then what everybody sees. */
static int keep(struct box *b, struct tn_sandbox *sb, const struct tn_spec *wanted,
                struct tn_error *err)
{
    if (tn_sandbox_change_env(sb, wanted->env, tn_deadline_in(CHANGE_SECONDS), err))
        return -1;
    pthread_mutex_lock(&b->row);
    struct tn_spec now = b->spec; /* borrows everything */
    now.env = wanted->env;
    int failed = row_spec(b, &now, err);
    if (!failed) {
        struct tn_json *env = tn_json_copy(wanted->env);
        pthread_mutex_lock(&b->lock);
        struct tn_json *old = b->spec.env;
        b->spec.env = env;
        box_bump(b);
        pthread_mutex_unlock(&b->lock);
        tn_json_free(old);
    }
    pthread_mutex_unlock(&b->row);
    return failed;
}

static int change(struct box *b, const struct tn_json *unset, const struct tn_json *set,
                  int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *env = NULL;
    autodesk struct desk *desk = NULL;
    autoview struct box_view v;

    box_look(b, &v);
    if (merge(v.spec.env, unset, set, &env, err))
        return -1;
    struct tn_spec wanted = v.spec; /* borrows everything */
    wanted.env = env;
    if (tn_spec_check(&wanted, err))
        return -1;
    tn_autosandbox struct tn_sandbox *sb =
        box_await_known(b, deadline, err) ? NULL : box_attach(b, err);
    if (!sb)
        return -1;
    const struct tn_backend *backend = tn_sandbox_backend(sb);
    if (!(backend->abilities & TN_CAN_CHANGE_ENV))
        return tn_fail(err, TN_E_UNSUPPORTED, "%s: variables of a sandbox stay as it was made with",
                       backend->name);
    desk = desk_take(b);
    /* What the hand does not take is not kept; what cannot be kept is told, and asked for again. */
    return hide(desk_ledger(desk, b), set, err) ||
                   process_change_env(b, unset, set, deadline, err) || keep(b, sb, &wanted, err)
               ? -1
               : 0;
}

/* One change at a time: each begins with what the one before it left. */
static int begin(struct box *b, int64_t deadline, struct tn_error *err)
{
    int result = 0;

    pthread_mutex_lock(&b->lock);
    while (!result && b->changes_env)
        result = b->gone ? box_deleted(b, err) : box_sleep(b, deadline, err);
    if (!result)
        b->changes_env = true;
    else if (err && err->code == TN_E_TIMEOUT)
        tn_fail(err, TN_E_BUSY, "the variables of sandbox %s are being changed", b->names.id);
    pthread_mutex_unlock(&b->lock);
    return result;
}

static void end(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    b->changes_env = false;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

int box_change_env(struct box *b, const struct tn_json *unset, const struct tn_json *set,
                   struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(CHANGE_SECONDS);

    if (begin(b, deadline, err))
        return -1;
    int result = change(b, unset, set, deadline, err);
    end(b);
    if (!result)
        box_tell(b);
    return result;
}
