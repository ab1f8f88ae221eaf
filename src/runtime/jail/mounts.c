#include <ctype.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include "runtime/jail/jail.h"
#include "runtime/volume.h"

/* --- volumes -------------------------------------------------------------------------------- */

#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

/* One of a tenant of the service (service/volume.h) is there, or was deleted meanwhile: it is not
 * made anew. */
static bool is_tenants(const char *name)
{
    return strncmp(name, "tn-", 3) == 0 && strspn(name + 3, "0123456789abcdef") == 16 &&
           name[19] == '-';
}

/* A volume by name is a directory of ours that outlives its sandboxes. */
static char *named_volume(const struct jail_engine *e, const char *name, struct tn_error *err)
{
    tn_autofree char *above = tn_asprintf("%s/volumes", e->host->state);
    tn_autofree char *path = tn_asprintf("%s/%s", above, name);

    if (!*name || name[0] == '.' || strspn(name, NAME_LETTERS) != strlen(name)) {
        tn_fail(err, TN_E_INVALID, "volume %s: a name has letters, digits, '-', '_' and '.'", name);
        return NULL;
    }
    if (!is_tenants(name) && ((mkdir(above, 0700) < 0 && errno != EEXIST) ||
                              (mkdir(path, 0755) < 0 && errno != EEXIST))) {
        tn_fail_errno(err, errno, "volume %s", name);
        return NULL;
    }
    return TN_TAKE_PTR(path);
}

/* Makes a directory of a volume.  Whoever has the volume may put links there: none is followed, not
 * here and not when it is mounted. */
static int make_below(const char *volume, const char *below, struct tn_error *err)
{
    tn_autofree char *path = tn_strdup(below);
    tn_autofd int at = open(volume, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *rest = path + 1;

    for (char *part; at >= 0 && (part = strsep(&rest, "/"));) {
        int made = mkdirat(at, part, 0755);
        int next = made < 0 && errno != EEXIST
                       ? -1
                       : openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(at);
        at = next;
    }
    return at >= 0 ? 0 : tn_fail_errno(err, errno, "volume: its directory %s", below);
}

static int plan_volume(const struct jail_engine *e, const char *text, struct tn_jail_plan *plan,
                       struct tn_error *err)
{
    tn_autovolume struct tn_volume v = {0};

    if (tn_volume_parse(text, &v, err) < 0)
        return -1;
    tn_autofree char *host = v.named ? named_volume(e, v.host, err) : tn_strdup(v.host);
    if (!host)
        return -1;
    char *source = realpath(host, NULL);
    if (!source)
        return tn_fail_errno(err, errno, "volume %s", v.host);
    if (v.below) {
        char *whole = tn_asprintf("%s%s", source, v.below);
        int failed = make_below(source, v.below, err);
        free(source);
        source = whole;
        if (failed) {
            free(source);
            return -1;
        }
    }
    struct tn_jail_mount *mount = tn_jail_plan_add_mount(plan);
    mount->source = source;
    mount->target = tn_strdup(v.inside);
    mount->read_only = v.read_only;
    mount->overlay = v.overlay;
    return 0;
}

/* --- devices -------------------------------------------------------------------------------- */

static void add_device(struct tn_jail_plan *plan, const char *path)
{
    struct tn_str_list *list = &plan->devices;

    list->items = tn_realloc(list->items, (list->count + 2) * sizeof *list->items);
    list->items[list->count++] = tn_strdup(path);
    list->items[list->count] = NULL;
}

static size_t add_matching(struct tn_jail_plan *plan, const char *pattern)
{
    glob_t found = {0};
    size_t count = 0;

    if (glob(pattern, 0, NULL, &found) == 0)
        for (; count < found.gl_pathc; count++)
            add_device(plan, found.gl_pathv[count]);
    globfree(&found);
    return count;
}

/* What every program that uses a GPU needs besides the card itself. */
static const char *const shared_nodes[] = {"/dev/nvidiactl", "/dev/nvidia-uvm*",
                                           "/dev/nvidia-modeset", "/dev/kfd"};

static int plan_gpus(const char *gpus, struct tn_jail_plan *plan, struct tn_error *err)
{
    tn_autofree char *list = tn_strdup(gpus);
    char *rest = list;

    if (strcmp(gpus, "all") == 0) {
        if (add_matching(plan, "/dev/nvidia[0-9]*") + add_matching(plan, "/dev/dri/*") == 0)
            return tn_fail(err, TN_E_NOT_FOUND, "gpus: this machine shows none in /dev");
        rest = NULL;
    }
    for (char *id; rest && (id = strsep(&rest, ","));) {
        char pattern[64];
        if (!*id || strspn(id, "0123456789") != strlen(id) || strlen(id) > 4)
            return tn_fail(err, TN_E_INVALID, "gpus: '%s' is neither \"all\" nor a number", id);
        snprintf(pattern, sizeof pattern, "/dev/nvidia%s", id);
        if (add_matching(plan, pattern) == 0)
            return tn_fail(err, TN_E_NOT_FOUND, "gpus: there is no %s", pattern);
    }
    for (size_t i = 0; i < TN_COUNT(shared_nodes); i++)
        add_matching(plan, shared_nodes[i]);
    return 0;
}

int jail_mounts_share(const struct tn_spec *spec, struct tn_error *err)
{
    bool shares = false;

    for (size_t i = 0; i < spec->volumes.count && !shares; i++) {
        tn_autovolume struct tn_volume v = {0};
        if (tn_volume_parse(spec->volumes.items[i], &v, err) < 0)
            return -1;
        shares = !v.read_only && !v.overlay;
    }
    return shares;
}

int jail_mounts_plan(const struct jail_engine *e, const struct tn_spec *spec,
                     struct tn_jail_plan *plan, struct tn_error *err)
{
    for (size_t i = 0; i < spec->volumes.count; i++)
        if (plan_volume(e, spec->volumes.items[i], plan, err) < 0)
            return -1;
    for (size_t i = 0; i < spec->devices.count; i++)
        add_device(plan, spec->devices.items[i]);
    return spec->gpus ? plan_gpus(spec->gpus, plan, err) : 0;
}
