#include "service/volume.h"

#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "runtime/owner.h"
#include "runtime/registry.h"
#include "service/box-internal.h"
#include "service/internal.h"
#include "service/surface.h"

#define DIRECTORY "volumes" /* of the state directory: runtime/jail/mounts.c */
#define GONE ".gone-"       /* no volume has such a name: what is being removed */
#define SLICE_SECONDS 0.2
#define STALE_SECONDS 60.0 /* nobody has gone on counting: the sandboxes may be gone */
enum { MOST = 100, PREFIX = 3 + 16 + 1 };

/* "tn-TOKEN-": what all names of a tenant begin with. */
static void prefix_of(const struct tn_service *s, const char *tenant, char out[PREFIX + 1])
{
    char token[SURFACE_TOKEN];

    surface_token(s, "volumes", tenant, token);
    snprintf(out, PREFIX + 1, "tn-%.16s-", token);
}

/* Its directory is one component of a path. */
static int check_name(const char *name, struct tn_error *err)
{
    size_t n = name ? strlen(name) : 0;

    for (size_t i = 0; i < n; i++)
        if (!isascii(name[i]) ||
            !(isalnum((unsigned char)name[i]) || (i && strchr("._-", name[i]))))
            n = 0;
    return n && n < VOLUME_NAME
               ? 0
               : tn_fail(err, TN_E_INVALID,
                         "the name of a volume has 1 to %d letters, digits, '.', '_' or '-'",
                         VOLUME_NAME - 1);
}

static char *whole_name(const struct tn_service *s, const char *tenant, const char *name)
{
    char prefix[PREFIX + 1];

    prefix_of(s, tenant, prefix);
    return tn_asprintf("%s%s", prefix, name);
}

/* The directory of all; -1 with err. */
static int open_all(const struct tn_service *s, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" DIRECTORY, tn_runtime_host(s->rt)->state);

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "volumes");
    return tn_fs_open(TN_FS_ANYWHERE, path, O_RDONLY | O_DIRECTORY, 0, err);
}

static double birth_of(int all, const char *whole)
{
    struct statx x = {0};

    if (statx(all, whole, AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_CTIME, &x) < 0)
        return 0;
    const struct statx_timestamp *t = x.stx_mask & STATX_BTIME ? &x.stx_btime : &x.stx_ctime;
    return (double)t->tv_sec + (double)t->tv_nsec / 1e9;
}

int volume_each(struct tn_service *s, const char *tenant, volume_fn fn, void *ctx)
{
    int all = open_all(s, NULL), result = 0;
    DIR *d = all < 0 ? NULL : fdopendir(all);
    char prefix[PREFIX + 1];

    prefix_of(s, tenant, prefix);
    for (struct dirent *e; d && !result && (e = readdir(d));) {
        struct volume v;
        if (strncmp(e->d_name, prefix, PREFIX) != 0 || check_name(e->d_name + PREFIX, NULL))
            continue;
        v.created = birth_of(all, e->d_name);
        snprintf(v.name, sizeof v.name, "%s", e->d_name + PREFIX);
        result = fn(&v, ctx);
    }
    if (d)
        closedir(d);
    else if (all >= 0)
        close(all);
    return result;
}

static int count_one(const struct volume *v, void *ctx)
{
    return ++*(int *)ctx >= MOST;
}

int volume_create(struct tn_service *s, const char *tenant, const char *name, struct tn_error *err)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    int count = 0, failed = 0;

    if (check_name(name, err))
        return -1;
    tn_autofree char *whole = whole_name(s, tenant, name);
    tn_autofd int all = open_all(s, err);
    if (all < 0)
        return -1;
    pthread_mutex_lock(&one_at_a_time);
    bool full = volume_each(s, tenant, count_one, &count);
    if (!full && mkdirat(all, whole, 0755) < 0)
        failed = errno;
    pthread_mutex_unlock(&one_at_a_time);
    if (full)
        return tn_fail(err, TN_E_QUOTA, "a tenant may have %d volumes", MOST);
    if (!failed)
        return 0;
    return failed == EEXIST
               ? tn_fail(err, TN_E_CONFLICT, "Volume with name %s already exists", name)
               : tn_fail_errno(err, failed, "volume %s", name);
}

int volume_find(struct tn_service *s, const char *tenant, const char *name, struct volume *out,
                struct tn_error *err)
{
    tn_autofree char *whole = whole_name(s, tenant, name);
    tn_autofd int all = check_name(name, NULL) ? -1 : open_all(s, NULL);

    if (all < 0 || faccessat(all, whole, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return tn_fail(err, TN_E_NOT_FOUND, "Volume with name %.100s not found", name);
    out->created = birth_of(all, whole);
    snprintf(out->name, sizeof out->name, "%s", name);
    return 0;
}

/* --- in specs -------------------------------------------------------------------------------- */

int volume_mount(struct tn_service *s, const char *tenant, const char *name, const char *below,
                 const char *inside, bool read_only, struct tn_spec *spec, struct tn_error *err)
{
    static const char *const system[] = {"/proc", "/sys", "/dev"};
    const struct tn_backend *backend = spec_backend(s, spec, err);
    tn_autovolume struct tn_volume read = {0};
    struct volume v;

    if (!backend || volume_find(s, tenant, name, &v, err))
        return -1;
    if (strcmp(backend->name, tn_backend_jail.name) != 0)
        return tn_fail(err, TN_E_UNSUPPORTED, "volumes: %s has none here", backend->name);
    tn_autofree char *whole = whole_name(s, tenant, name);
    if (strchr(inside, ':') || (below && strchr(below, ':')))
        return tn_fail(err, TN_E_INVALID, "volume %s: there is a ':' in its path", name);
    bool all = !below || !below[strspn(below, "/")];
    tn_autofree char *text =
        tn_asprintf("volume:%s%s%s:%s%s", whole, all ? "" : "/",
                    all ? "" : below + strspn(below, "/"), inside, read_only ? ":ro" : "");
    if (tn_volume_parse(text, &read, err))
        return tn_fail(err, TN_E_INVALID,
                       "volume %s: expected an absolute path inside, and a path in it without '..'",
                       name);
    for (size_t i = 0; i < TN_COUNT(system); i++) {
        size_t n = strlen(system[i]);
        if (strncmp(read.inside, system[i], n) == 0 && (!read.inside[n] || read.inside[n] == '/'))
            return tn_fail(err, TN_E_INVALID, "volume %s: nothing is mounted in %s", name,
                           system[i]);
    }
    surface_add_arg(&spec->volumes, text);
    return 0;
}

bool volume_read(const struct tn_service *s, const char *tenant, const char *entry,
                 struct tn_volume *v, const char **name)
{
    char prefix[PREFIX + 1];

    prefix_of(s, tenant, prefix);
    if (tn_volume_parse(entry, v, NULL))
        return false;
    *name = v->named && strncmp(v->host, prefix, PREFIX) == 0 ? v->host + PREFIX : NULL;
    if (!*name)
        tn_volume_done(v);
    return *name;
}

/* Whether the spec has that volume; NULL: any. */
static bool mentions(const struct tn_service *s, const char *tenant, const struct tn_spec *spec,
                     const char *name)
{
    for (size_t i = 0; i < spec->volumes.count; i++) {
        tn_autovolume struct tn_volume v = {0};
        const char *other;
        if (volume_read(s, tenant, spec->volumes.items[i], &v, &other) &&
            (!name || strcmp(other, name) == 0))
            return true;
    }
    return false;
}

/* --- how much is in them ---------------------------------------------------------------------- */

/* However many files a tenant has there, they are counted to the end, in slices: one volume after
 * the other. */
struct count {
    struct count *next;
    char *tenant;
    bool busy;                 /* a thread is at it; the lock is for this, seen and the list */
    struct tn_str_list left;   /* names of volumes, of which the last is being counted */
    struct tn_tree_walk *walk; /* of that one */
    bool lost;                 /* something could not be counted */
    int64_t bytes;             /* in those before it */
    int64_t seen;              /* in all so far */
    int64_t whole;             /* in all, when they were counted to the end */
    int64_t began, ended;
    int64_t stale; /* after that nobody goes on with it */
};

struct volumes {
    pthread_mutex_t lock;
    struct count *list;
};

struct volumes *volumes_new(void)
{
    struct volumes *all = tn_calloc(1, sizeof *all);

    pthread_mutex_init(&all->lock, NULL);
    return all;
}

/* Begins anew next time. */
static void drop_rest(struct count *c)
{
    tn_volume_walk_end(&c->walk);
    c->lost = true;
    while (c->left.count)
        free(c->left.items[--c->left.count]);
}

void volumes_free(struct volumes *all)
{
    for (struct count *c; all && (c = all->list); free(c)) {
        all->list = c->next;
        drop_rest(c);
        free(c->left.items);
        free(c->tenant);
    }
    if (all)
        pthread_mutex_destroy(&all->lock);
    free(all);
}

/* That of the tenant; *seen is what it knows.  NULL: another thread has it. */
static struct count *take(struct volumes *all, const char *tenant, int64_t *seen)
{
    struct count *found = NULL;

    pthread_mutex_lock(&all->lock);
    for (struct count *c = all->list; c; c = c->next) {
        if (strcmp(c->tenant, tenant) == 0)
            found = c;
        else if (!c->busy && tn_now() > c->stale)
            drop_rest(c); /* it has directories open */
    }
    if (!found) {
        found = tn_calloc(1, sizeof *found);
        found->tenant = tn_strdup(tenant);
        found->next = all->list;
        all->list = found;
    }
    *seen = found->seen;
    if (found->busy)
        found = NULL;
    else
        found->busy = true;
    pthread_mutex_unlock(&all->lock);
    return found;
}

static int add_left(const struct volume *v, void *ctx)
{
    surface_add_arg(ctx, v->name);
    return 0;
}

/* Until the deadline; nothing is left when all is counted. */
static int64_t go_on(struct tn_service *s, struct count *c, int64_t deadline)
{
    tn_autofd int all = open_all(s, NULL);
    int64_t last = 0;

    while (c->left.count && tn_now() < deadline) {
        tn_autofree char *whole = whole_name(s, c->tenant, c->left.items[c->left.count - 1]);
        tn_autofd int fd = openat(all, whole, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        bool partial = fd < 0 && errno != ENOENT;
        if (fd < 0)
            tn_volume_walk_end(&c->walk);
        else
            last = tn_volume_measure(fd, &c->walk, deadline, &partial);
        if (c->walk)
            break;
        c->lost = c->lost || partial;
        c->bytes += last;
        last = 0;
        free(c->left.items[--c->left.count]);
    }
    return c->bytes + last;
}

static void begin(struct tn_service *s, struct count *c)
{
    c->began = tn_now();
    c->bytes = 0;
    c->lost = false;
    volume_each(s, c->tenant, add_left, &c->left);
}

static int64_t count_on(struct tn_service *s, const char *tenant, bool *partial)
{
    int64_t seen = 0, now = tn_now(), deadline = tn_deadline_in(SLICE_SECONDS);

    struct count *c = take(s->volumes, tenant, &seen);
    if (!c) {
        *partial = true;
        return seen;
    }
    /* All sandboxes of the tenant count together: one that took several slices is news for each. */
    if (c->left.count || c->lost || now - c->ended >= c->ended - c->began) {
        if (!c->left.count)
            begin(s, c);
        seen = go_on(s, c, deadline);
        c->ended = tn_now();
    }
    bool all = !c->left.count && !c->lost;
    *partial = *partial || !all;
    pthread_mutex_lock(&s->volumes->lock);
    c->seen = seen;
    if (all)
        c->whole = seen;
    c->stale = tn_deadline_in(STALE_SECONDS);
    c->busy = false;
    pthread_mutex_unlock(&s->volumes->lock);
    return seen;
}

int64_t volume_measure(struct tn_service *s, const char *tenant, const struct tn_spec *spec,
                       bool *partial)
{
    return mentions(s, tenant, spec, NULL) ? count_on(s, tenant, partial) : 0;
}

int64_t volume_charge(struct tn_service *s, const char *tenant)
{
    bool partial = false;
    int64_t seen = count_on(s, tenant, &partial);

    pthread_mutex_lock(&s->volumes->lock);
    for (const struct count *c = s->volumes->list; partial && c; c = c->next)
        if (strcmp(c->tenant, tenant) == 0 && c->whole > seen)
            seen = c->whole;
    pthread_mutex_unlock(&s->volumes->lock);
    return seen;
}

/* --- the end --------------------------------------------------------------------------------- */

struct use {
    const char *name;
    const char *ends; /* that record: once stopped it counts no more; NULL: all do */
};

static int has_it(struct box *b, void *ctx)
{
    const struct use *use = ctx;
    autoview struct box_view v;

    box_look(b, &v);
    bool over = use->ends && v.state == BOX_STOPPED && tn_json_has(v.metadata, use->ends);
    return v.goal != BOX_GONE && !over &&
           mentions(box_service(b), box_tenant(b), &v.spec, use->name);
}

int volume_delete(struct tn_service *s, const char *tenant, const char *name, const char *ends,
                  struct tn_error *err)
{
    struct use use = {.name = name, .ends = ends};
    struct volume v;

    if (volume_find(s, tenant, name, &v, err))
        return -1;
    if (box_each(s, &(struct box_filter){.tenant = tenant}, has_it, &use, NULL))
        return tn_fail(err, TN_E_CONFLICT, "Volume %s is in use by a sandbox", name);
    tn_autofree char *whole = whole_name(s, tenant, name);
    tn_autofd int all = open_all(s, err);
    char id[11];
    if (all < 0 || tn_new_id(id, err))
        return -1;
    tn_autofree char *gone = tn_asprintf(GONE "%s", id);
    if (renameat(all, whole, all, gone) < 0)
        return tn_fail_errno(err, errno, "volume %s", name);
    return tn_fs_remove_tree(all, gone, 0, err);
}

void volumes_begin(struct tn_service *s)
{
    int all = open_all(s, NULL);
    DIR *d = all < 0 ? NULL : fdopendir(all);
    struct tn_error err = {0};

    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, GONE, sizeof GONE - 1) == 0 &&
            tn_fs_remove_tree(all, e->d_name, 0, &err))
            tn_log(TN_LOG_WARN, "a volume that was deleted is still there",
                   tn_log_str("why", err.text));
    if (d)
        closedir(d);
    else if (all >= 0)
        close(all);
}
