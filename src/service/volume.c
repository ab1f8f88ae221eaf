#include "service/volume.h"

#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/registry.h"
#include "service/box-internal.h"
#include "service/surface.h"

#define DIRECTORY "volumes" /* of the state directory: runtime/jail/mounts.c */
#define MEASURE_SECONDS 0.2 /* for each, at a time */
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
    int count = 0;

    if (check_name(name, err))
        return -1;
    tn_autofree char *whole = whole_name(s, tenant, name);
    tn_autofd int all = open_all(s, err);
    if (all < 0)
        return -1;
    if (volume_each(s, tenant, count_one, &count))
        return tn_fail(err, TN_E_QUOTA, "a tenant may have %d volumes", MOST);
    if (mkdirat(all, whole, 0755) == 0)
        return 0;
    return errno == EEXIST ? tn_fail(err, TN_E_CONFLICT, "Volume with name %s already exists", name)
                           : tn_fail_errno(err, errno, "volume %s", name);
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
                 const char *inside, struct tn_spec *spec, struct tn_error *err)
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
    tn_autofree char *text = tn_asprintf("volume:%s%s%s:%s", whole, all ? "" : "/",
                                         all ? "" : below + strspn(below, "/"), inside);
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

struct measure {
    const struct tn_service *s;
    const char *tenant;
    int64_t bytes, deadline;
    bool *partial;
};

static int measure_one(const struct volume *v, void *ctx)
{
    struct measure *m = ctx;
    tn_autofree char *whole = whole_name(m->s, m->tenant, v->name);
    tn_autofd int all = open_all(m->s, NULL);
    tn_autofd int fd =
        all < 0 ? -1 : openat(all, whole, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        m->bytes += tn_volume_measure(fd, m->deadline, m->partial);
    return 0;
}

int64_t volume_measure(struct tn_service *s, const char *tenant, const struct tn_spec *spec,
                       bool *partial)
{
    struct measure m = {
        .s = s, .tenant = tenant, .deadline = tn_deadline_in(MEASURE_SECONDS), .partial = partial};

    if (mentions(s, tenant, spec, NULL))
        volume_each(s, tenant, measure_one, &m);
    return m.bytes;
}

/* --- the end --------------------------------------------------------------------------------- */

static int has_it(struct box *b, void *name)
{
    autoview struct box_view v;

    box_look(b, &v);
    return v.goal != BOX_GONE && mentions(box_service(b), box_tenant(b), &v.spec, name);
}

int volume_delete(struct tn_service *s, const char *tenant, const char *name, struct tn_error *err)
{
    struct volume v;

    if (volume_find(s, tenant, name, &v, err))
        return -1;
    if (box_each(s, &(struct box_filter){.tenant = tenant}, has_it, (void *)name, NULL))
        return tn_fail(err, TN_E_CONFLICT, "Volume %s is in use by a sandbox", name);
    tn_autofree char *whole = whole_name(s, tenant, name);
    tn_autofd int all = open_all(s, err);
    return all < 0 || tn_fs_remove_tree(all, whole, 0, err) ? -1 : 0;
}
