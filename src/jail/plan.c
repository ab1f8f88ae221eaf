#include "jail/plan.h"

#include <ctype.h>
#include <fcntl.h>
#include <math.h>

#include "base/fs.h"
#include "gate/rules.h"

#define PLAN struct tn_jail_plan
#define END struct tn_jail_end
#define LARGEST 9007199254740992.0 /* beyond it a double is not exact */

enum {
    ID_MAX = 32,
    HOSTNAME_MAX = 64,
    END_MAX = 4096,
};

const char *const tn_jail_mappings[] = {
    [TN_JAIL_MAP_AUTO] = "auto",
    [TN_JAIL_MAP_RANGE] = "range",
    [TN_JAIL_MAP_IDENTITY] = "identity",
    [TN_JAIL_MAP_OWN] = "own",
    [TN_JAIL_MAP_SUBIDS] = "subids",
    [TN_JAIL_MAP_NONE] = "none",
    NULL,
};
const char *const tn_jail_networks[] = {
    [TN_JAIL_NET_NONE] = "none",
    [TN_JAIL_NET_HOST] = "host",
    [TN_JAIL_NET_OPEN] = "open",
    [TN_JAIL_NET_ALLOW] = "allow",
    NULL,
};
const char *const tn_jail_platforms[] = {
    [TN_JAIL_PLATFORM_NONE] = "none",
    [TN_JAIL_PLATFORM_SYSTRAP] = "systrap",
    [TN_JAIL_PLATFORM_KVM] = "kvm",
    NULL,
};

static const struct tn_field rows[] = {
    TN_STRING("id", PLAN, id, .flags = TN_FIELD_REQUIRED),
    TN_STRING("directory", PLAN, directory, .flags = TN_FIELD_REQUIRED),
    TN_STRINGS("lowers", PLAN, lowers),
    TN_STRINGS("host_paths", PLAN, host_paths),
    TN_STRINGS("etc_hidden", PLAN, etc_hidden),
    TN_STRING("storage", PLAN, storage, .flags = TN_FIELD_NULLABLE),
    TN_INT("tmpfs_bytes", PLAN, tmpfs_bytes, .max = LARGEST),
    TN_STRING("seed", PLAN, seed, .flags = TN_FIELD_NULLABLE),
    TN_INT("shm_bytes", PLAN, shm_bytes, .max = LARGEST),
    TN_INT("tmp_bytes", PLAN, tmp_bytes, .max = LARGEST),
    TN_STRINGS("devices", PLAN, devices),
    TN_STRING("hostname", PLAN, hostname, .flags = TN_FIELD_NULLABLE),
    TN_STRING("workspace", PLAN, workspace, .flags = TN_FIELD_NULLABLE),
    TN_WORD("mapping", PLAN, mapping, tn_jail_mappings, .fallback = "auto"),
    TN_WORD("network", PLAN, network, tn_jail_networks, .fallback = "none"),
    TN_STRINGS("allow", PLAN, allow),
    TN_DOUBLE("ask_seconds", PLAN, ask_seconds, .min = 0, .max = 3600),
    TN_STRING("gate", PLAN, gate, .flags = TN_FIELD_NULLABLE),
    TN_BOOL("gate_optional", PLAN, gate_optional),
    TN_INT("vault_fd", PLAN, vault_fd, .max = 1023),
    TN_STRING("authority", PLAN, authority, .flags = TN_FIELD_NULLABLE),
    TN_INT("uid", PLAN, uid, .max = 65535),
    TN_INT("gid", PLAN, gid, .max = 65535),
    TN_BOOL("new_privs", PLAN, new_privs),
    TN_INT("memory", PLAN, memory, .max = LARGEST),
    TN_INT("file_size", PLAN, file_size, .max = LARGEST),
    TN_INT("pids", PLAN, pids, .max = 4194304),
    TN_INT("open_files", PLAN, open_files, .max = 1073741824),
    TN_DOUBLE("cpus", PLAN, cpus, .max = 100000),
    TN_DOUBLE("wall_time", PLAN, wall_time, .max = 1e9),
    TN_STRING("hand", PLAN, hand, .flags = TN_FIELD_REQUIRED),
    TN_STRINGS("argv", PLAN, argv),
    TN_STRINGS("env", PLAN, env, .flags = TN_FIELD_SECRET),
    TN_INTS("fds", PLAN, fds),
    TN_STRING("log", PLAN, log, .flags = TN_FIELD_NULLABLE),
    TN_STRING("criu", PLAN, criu, .flags = TN_FIELD_NULLABLE),
    TN_INT("socket_fd", PLAN, socket_fd, .max = 1023),
    TN_BOOL("restored", PLAN, restored),
    TN_STRING("runsc", PLAN, runsc, .flags = TN_FIELD_NULLABLE),
    TN_WORD("platform", PLAN, platform, tn_jail_platforms, .fallback = "none"),
    TN_INT("files_fd", PLAN, files_fd, .max = 1023),
    TN_DOUBLE("files_seconds", PLAN, files_seconds, .max = 1e9),
    TN_INT("owner_pid", PLAN, owner_pid, .max = INT32_MAX),
    TN_INT("owner_start", PLAN, owner_start, .max = INFINITY),
};
static const struct tn_fields plan_fields = TN_FIELDS(rows);

static const struct tn_field mount_rows[] = {
    TN_STRING("source", struct tn_jail_mount, source, .flags = TN_FIELD_REQUIRED),
    TN_STRING("target", struct tn_jail_mount, target, .flags = TN_FIELD_REQUIRED),
    TN_BOOL("read_only", struct tn_jail_mount, read_only),
    TN_BOOL("overlay", struct tn_jail_mount, overlay),
};
static const struct tn_fields mount_fields = TN_FIELDS(mount_rows);

static const struct tn_field end_rows[] = {
    TN_OPT_INT("status", END, status, .flags = TN_FIELD_NULLABLE),
    TN_OPT_INT("signal", END, signal, .flags = TN_FIELD_NULLABLE),
    TN_INT("oom_kills", END, oom_kills),
    TN_INT("pids_hits", END, pids_hits),
    TN_BOOL("wall_time", END, wall_time),
    TN_DOUBLE("at", END, at),
};
const struct tn_fields tn_jail_end_fields = TN_FIELDS(end_rows);

void tn_jail_plan_init(struct tn_jail_plan *plan)
{
    *plan = (struct tn_jail_plan){0};
    tn_fields_defaults(&plan_fields, plan);
}

void tn_jail_plan_done(struct tn_jail_plan *plan)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        tn_fields_done(&mount_fields, &plan->mounts[i]);
    free(TN_TAKE_PTR(plan->mounts));
    plan->mount_count = 0;
    tn_fields_done(&plan_fields, plan);
}

struct tn_jail_mount *tn_jail_plan_add_mount(struct tn_jail_plan *plan)
{
    plan->mounts = tn_realloc(plan->mounts, (plan->mount_count + 1) * sizeof *plan->mounts);
    struct tn_jail_mount *m = &plan->mounts[plan->mount_count++];
    tn_fields_defaults(&mount_fields, m);
    return m;
}

void tn_jail_plan_to_json(const struct tn_jail_plan *plan, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_fields_to_json(&plan_fields, plan, w);
    tn_jw_key(w, "mounts");
    tn_jw_array(w);
    for (size_t i = 0; i < plan->mount_count; i++) {
        tn_jw_object(w);
        tn_fields_to_json(&mount_fields, &plan->mounts[i], w);
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

static int refuse_unknown(const char *key, struct tn_json *value, void *ctx)
{
    if (strcmp(key, "mounts") == 0 || tn_fields_find(&plan_fields, key))
        return 0;
    return tn_fail(ctx, TN_E_UNPROCESSABLE, "unknown key %.60s", key);
}

static int mounts_from_json(const struct tn_json *list, struct tn_jail_plan *plan,
                            struct tn_error *err)
{
    if (list && tn_json_type(list) != TN_JSON_ARRAY)
        return tn_fail(err, TN_E_UNPROCESSABLE, "mounts: expected a list, found %s",
                       tn_json_type_name(list));
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *item = tn_json_at(list, i);
        struct tn_jail_mount *m = tn_jail_plan_add_mount(plan);
        if (tn_fields_from_json(&mount_fields, m, item, err) < 0 ||
            tn_fields_refuse_unknown(&mount_fields, item, err) < 0 ||
            tn_fields_check(&mount_fields, m, err) < 0)
            return tn_error_context(err, "mounts: item %zu", i + 1);
    }
    return 0;
}

int tn_jail_plan_from_json(const struct tn_json *json, struct tn_jail_plan *plan,
                           struct tn_error *err)
{
    if (tn_fields_from_json(&plan_fields, plan, json, err) < 0 ||
        tn_json_each(json, refuse_unknown, err) != 0 ||
        mounts_from_json(tn_json_get(json, "mounts"), plan, err) < 0)
        return -1;
    return tn_jail_plan_check(plan, err);
}

/* --- what makes no sense --------------------------------------------------------------- */

static int invalid(struct tn_error *err, const char *field, const char *expected, const char *found)
{
    return tn_fail(err, TN_E_INVALID, "%s: expected %s, found '%.100s'", field, expected, found);
}

/* Absolute and without "..", which nobody needs and everybody gets wrong. */
static int check_path(const char *field, const char *path, struct tn_error *err)
{
    if (!path)
        return 0;
    if (path[0] != '/')
        return invalid(err, field, "an absolute path", path);
    for (const char *at = strstr(path, "/.."); at; at = strstr(at + 1, "/.."))
        if (at[3] == '/' || at[3] == '\0')
            return invalid(err, field, "a path without ..", path);
    return 0;
}

static int check_paths(const char *field, const struct tn_str_list *list, struct tn_error *err)
{
    for (size_t i = 0; i < list->count; i++)
        if (check_path(field, list->items[i], err) < 0)
            return -1;
    return 0;
}

static int check_id(const char *id, struct tn_error *err)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");

    if (n == 0 || n > ID_MAX || id[n])
        return invalid(err, "id", "1 to 32 letters a-z and digits", id);
    return 0;
}

int tn_jail_check_hostname(const char *name, struct tn_error *err)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.");

    if (n == 0 || n > HOSTNAME_MAX || name[n])
        return invalid(err, "hostname", "1 to 64 letters, digits, - and .", name);
    return 0;
}

static int check_lists(const struct tn_jail_plan *plan, struct tn_error *err)
{
    for (size_t i = 0; i < plan->env.count; i++) {
        const char *equals = strchr(plan->env.items[i], '=');
        if (!equals || equals == plan->env.items[i])
            return tn_fail(err, TN_E_INVALID, "env: item %zu is not NAME=value", i + 1);
    }
    for (size_t i = 0; i < plan->fds.count; i++)
        if (plan->fds.items[i] < 3 || plan->fds.items[i] > 1000)
            return tn_fail(err, TN_E_INVALID, "fds: expected numbers from 3 to 1000, found %lld",
                           (long long)plan->fds.items[i]);
    for (size_t i = 0; i < plan->devices.count; i++)
        if (strncmp(plan->devices.items[i], "/dev/", 5) != 0)
            return invalid(err, "devices", "paths below /dev", plan->devices.items[i]);
    for (size_t i = 0; i < plan->etc_hidden.count; i++) {
        const char *entry = plan->etc_hidden.items[i];
        if (entry[0] == '/' || entry[0] == '\0' || strstr(entry, ".."))
            return invalid(err, "etc_hidden", "names relative to /etc", entry);
    }
    for (size_t i = 0; i < plan->mount_count; i++)
        if (check_path("mounts: source", plan->mounts[i].source, err) < 0 ||
            check_path("mounts: target", plan->mounts[i].target, err) < 0)
            return -1;
    return 0;
}

static int check_network(const struct tn_jail_plan *plan, struct tn_error *err)
{
    tn_autorules struct tn_rules rules = {0};
    bool gated = plan->network == TN_JAIL_NET_OPEN || plan->network == TN_JAIL_NET_ALLOW;

    if (!plan->vault_fd != !plan->authority || (plan->vault_fd && (!gated || plan->vault_fd < 3)))
        return tn_fail(err, TN_E_INVALID,
                       "expected both vault_fd, from 3 on, and authority, and network open or "
                       "allow; or none of them");
    if (plan->vault_fd && (plan->runsc || plan->criu)) /* nobody shows the authority there */
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "secrets, and rules about requests inside TLS: not %s",
                       plan->runsc ? "under gVisor" : "in a jail that can be suspended");
    if (!gated)
        return 0;
    if (!plan->gate)
        return tn_fail(err, TN_E_INVALID, "network %s: expected gate, the program",
                       tn_jail_networks[plan->network]);
    for (size_t i = 0; i < plan->allow.count; i++)
        if (tn_rules_add(&rules, plan->allow.items[i], err) < 0)
            return tn_error_context(err, "network");
    return 0;
}

int tn_jail_plan_check(const struct tn_jail_plan *plan, struct tn_error *err)
{
    const struct {
        const char *field, *path;
    } paths[] = {
        {"directory", plan->directory}, {"storage", plan->storage}, {"seed", plan->seed},
        {"workspace", plan->workspace}, {"hand", plan->hand},       {"log", plan->log},
        {"criu", plan->criu},           {"gate", plan->gate},       {"runsc", plan->runsc},
    };

    if (tn_fields_check(&plan_fields, plan, err) < 0 || check_id(plan->id, err) < 0 ||
        (plan->hostname && tn_jail_check_hostname(plan->hostname, err) < 0) ||
        check_paths("lowers", &plan->lowers, err) < 0 ||
        check_paths("host_paths", &plan->host_paths, err) < 0 ||
        check_paths("devices", &plan->devices, err) < 0 || check_lists(plan, err) < 0 ||
        check_network(plan, err) < 0)
        return -1;
    for (size_t i = 0; i < TN_COUNT(paths); i++)
        if (check_path(paths[i].field, paths[i].path, err) < 0)
            return -1;
    if (!plan->lowers.count && !plan->host_paths.count)
        return tn_fail(err, TN_E_INVALID, "a root file system: expected lowers or host_paths");
    if (!plan->storage == !plan->tmpfs_bytes)
        return tn_fail(err, TN_E_INVALID, "expected either storage or tmpfs_bytes");
    if (plan->criu ? plan->socket_fd < 3 : plan->restored)
        return tn_fail(err, TN_E_INVALID,
                       plan->criu ? "criu: expected socket_fd from 3 on"
                                  : "restored: expected criu too");
    if (!plan->runsc != !plan->platform)
        return tn_fail(err, TN_E_INVALID, "expected both runsc and platform, or none of them");
    if (plan->runsc &&
        (plan->criu || plan->socket_fd < 3 || plan->fds.count || plan->devices.count || plan->uid))
        return tn_fail(err, TN_E_INVALID,
                       "runsc: expected socket_fd from 3 on and uid 0, and neither criu nor other "
                       "descriptors nor devices");
    if (plan->files_fd && !plan->lowers.count)
        return tn_fail(err, TN_E_INVALID,
                       "files_fd: expected lowers, the first of which is filled");
    if (plan->seed && !plan->tmpfs_bytes)
        return tn_fail(err, TN_E_INVALID, "a seed is for a tmpfs: expected tmpfs_bytes too");
    return 0;
}

bool tn_jail_plan_shares(const struct tn_jail_plan *plan)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        if (!plan->mounts[i].read_only && !plan->mounts[i].overlay)
            return true;
    return false;
}

bool tn_jail_in_first_userns(void)
{
    tn_autofile FILE *f = fopen("/proc/self/uid_map", "re");
    unsigned inside, outside, count;

    return f && fscanf(f, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
           outside == 0 && count == UINT32_MAX;
}

/* --- the end --------------------------------------------------------------------------- */

int tn_jail_end_read(const char *directory, struct tn_jail_end *end, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(END_MAX);
    tn_autofree char *path = tn_asprintf("%s/end.json", directory);
    tn_autojson struct tn_json *json = NULL;

    tn_fields_defaults(&tn_jail_end_fields, end);
    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, err) < 0 ||
        tn_json_parse(tn_buf_str(&text), text.len, &json, err) < 0)
        return -1;
    return tn_fields_from_json(&tn_jail_end_fields, end, json, err);
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;
    return tn_fs_write(fd, tn_buf_str(text), text->len, err);
}

int tn_jail_end_write(int directory, const struct tn_jail_end *end, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(END_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_fs_replace how = {.mode = 0600};

    tn_jw_object(&w);
    tn_fields_to_json(&tn_jail_end_fields, end, &w);
    tn_jw_object_end(&w);
    tn_buf_putc(&text, '\n');
    return tn_fs_replace(directory, "end.json", &how, write_text, &text, err);
}
