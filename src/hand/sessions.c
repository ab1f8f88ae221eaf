#include "hand/sessions.h"

#include <ctype.h>
#include <pthread.h>

struct tn_sessions {
    pthread_mutex_t lock;
    struct tn_session_options defaults;
    struct tn_session **items;
    size_t count, max;
    unsigned long temporaries;
    bool closing;
};

struct tn_sessions *tn_sessions_new(const struct tn_session_options *defaults, size_t max)
{
    struct tn_sessions *r = tn_calloc(1, sizeof *r);

    pthread_mutex_init(&r->lock, NULL);
    r->defaults = *defaults;
    r->defaults.closing = &r->closing;
    r->max = max;
    r->items = tn_calloc(max, sizeof *r->items);
    return r;
}

void tn_sessions_close(struct tn_sessions *r)
{
    __atomic_store_n(&r->closing, true, __ATOMIC_RELEASE);
}

void tn_sessions_free(struct tn_sessions *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        tn_session_unref(r->items[i]);
    free(r->items);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

int tn_sessions_check_name(const char *name, struct tn_error *err)
{
    size_t n = strlen(name);
    bool good = n > 0 && n <= 40 && name[0] != '.';

    for (size_t i = 0; good && i < n; i++)
        good = isalnum((unsigned char)name[i]) || strchr("-_.", name[i]);
    return good ? 0
                : tn_fail(err, TN_E_INVALID,
                          "a session name has 1 to 40 letters, digits, '-', '_' or '.'");
}

static struct tn_session **find(struct tn_sessions *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(tn_session_name(r->items[i]), name) == 0)
            return &r->items[i];
    }
    return NULL;
}

static struct tn_session *add(struct tn_sessions *r, const char *name, const char *program,
                              const char *cwd, struct tn_error *err)
{
    struct tn_session_options options = r->defaults;

    if (tn_sessions_check_name(name, err) < 0)
        return NULL;
    if (r->count == r->max) {
        tn_fail(err, TN_E_BUSY, "there are %zu sessions already; remove one first", r->count);
        return NULL;
    }
    options.name = name;
    if (program)
        options.program = program;
    if (cwd)
        options.cwd = cwd;
    return r->items[r->count++] = tn_shell_session_new(&options);
}

struct tn_session *tn_sessions_create(struct tn_sessions *r, const char *name, const char *program,
                                      const char *cwd, struct tn_error *err)
{
    struct tn_session *s = NULL;

    pthread_mutex_lock(&r->lock);
    if (find(r, name))
        tn_fail(err, TN_E_CONFLICT, "session %s exists already", name);
    else if ((s = add(r, name, program, cwd, err)))
        tn_session_ref(s);
    pthread_mutex_unlock(&r->lock);
    return s;
}

struct tn_session *tn_sessions_get(struct tn_sessions *r, const char *name, struct tn_error *err)
{
    pthread_mutex_lock(&r->lock);
    struct tn_session **at = find(r, name);
    struct tn_session *s = at ? tn_session_ref(*at) : NULL;
    pthread_mutex_unlock(&r->lock);
    if (!s)
        tn_fail(err, TN_E_NOT_FOUND, "no session named %s", name);
    return s;
}

struct tn_session *tn_sessions_ensure(struct tn_sessions *r, const char *name, struct tn_error *err)
{
    pthread_mutex_lock(&r->lock);
    struct tn_session **at = find(r, name);
    struct tn_session *s = at ? *at : add(r, name, NULL, NULL, err);
    if (s)
        tn_session_ref(s);
    pthread_mutex_unlock(&r->lock);
    return s;
}

int tn_sessions_remove(struct tn_sessions *r, const char *name, struct tn_error *err)
{
    struct tn_session *s = NULL;

    if (strcmp(name, TN_MAIN_SESSION) == 0)
        return tn_fail(err, TN_E_CONFLICT, "the main session cannot be removed; reset it instead");
    pthread_mutex_lock(&r->lock);
    struct tn_session **at = find(r, name);
    if (at) {
        s = *at;
        *at = r->items[--r->count];
    }
    pthread_mutex_unlock(&r->lock);
    if (!s)
        return tn_fail(err, TN_E_NOT_FOUND, "no session named %s", name);
    tn_session_reset(s, false); /* whoever waits on it hears about it now */
    tn_session_unref(s);
    return 0;
}

void tn_sessions_each(struct tn_sessions *r, void (*fn)(struct tn_session *s, void *ctx), void *ctx)
{
    /* Outside the lock: one session that does not answer must not stop the others. */
    pthread_mutex_lock(&r->lock);
    size_t count = r->count;
    tn_autofree struct tn_session **items = tn_calloc(count, sizeof *items);
    for (size_t i = 0; i < count; i++)
        items[i] = tn_session_ref(r->items[i]);
    pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < count; i++) {
        fn(items[i], ctx);
        tn_session_unref(items[i]);
    }
}

struct tn_session *tn_sessions_temporary(struct tn_sessions *r, const char *cwd)
{
    struct tn_session_options options = r->defaults;
    char name[48];

    snprintf(name, sizeof name, "static-%lu",
             __atomic_add_fetch(&r->temporaries, 1, __ATOMIC_RELAXED));
    options.name = name;
    options.setup = NULL;
    options.must_enter = true;
    if (cwd)
        options.cwd = cwd;
    return tn_shell_session_new(&options);
}
