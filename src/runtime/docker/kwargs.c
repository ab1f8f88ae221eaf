/* docker_runtime_kwargs: arguments of the Python SDK's containers.run() as members of the API. */
#include "base/nearest.h"
#include "runtime/docker/docker.h"

enum kind {
    KIND_INT,
    KIND_SIZE, /* a number of bytes, or "512m" */
    KIND_TEXT,
    KIND_BOOL,
    KIND_TEXTS,   /* a list; a single text is one of one */
    KIND_OBJECT,  /* as it is */
    KIND_LIST,    /* as it is */
    KIND_HOSTS,   /* {"name": "ip"} or ["name:ip"] */
    KIND_TMPFS,   /* {"/path": "options"} or ["/path"] */
    KIND_DEVICES, /* ["/dev/a:/dev/b:rwm"] */
    KIND_ULIMITS, /* [{"name": "nofile", "soft": 1, "hard": 1}] */
    KIND_REFUSED, /* ours to set: .api says how to say it instead */
};

static const struct kwarg {
    const char *name;
    enum kind kind;
    const char *api;
    bool config; /* a member of the container, not of its HostConfig */
} kwargs_table[] = {
    {"blkio_weight", KIND_INT, "BlkioWeight", false},
    {"blkio_weight_device", KIND_LIST, "BlkioWeightDevice", false},
    {"cap_add", KIND_TEXTS, "CapAdd", false},
    {"cap_drop", KIND_TEXTS, "CapDrop", false},
    {"cgroup_parent", KIND_TEXT, "CgroupParent", false},
    {"cgroupns", KIND_TEXT, "CgroupnsMode", false},
    {"cpu_count", KIND_INT, "CpuCount", false},
    {"cpu_percent", KIND_INT, "CpuPercent", false},
    {"cpu_period", KIND_INT, "CpuPeriod", false},
    {"cpu_quota", KIND_INT, "CpuQuota", false},
    {"cpu_rt_period", KIND_INT, "CpuRealtimePeriod", false},
    {"cpu_rt_runtime", KIND_INT, "CpuRealtimeRuntime", false},
    {"cpu_shares", KIND_INT, "CpuShares", false},
    {"cpuset_cpus", KIND_TEXT, "CpusetCpus", false},
    {"cpuset_mems", KIND_TEXT, "CpusetMems", false},
    {"device_cgroup_rules", KIND_TEXTS, "DeviceCgroupRules", false},
    {"device_read_bps", KIND_LIST, "BlkioDeviceReadBps", false},
    {"device_read_iops", KIND_LIST, "BlkioDeviceReadIOps", false},
    {"device_requests", KIND_LIST, "DeviceRequests", false},
    {"device_write_bps", KIND_LIST, "BlkioDeviceWriteBps", false},
    {"device_write_iops", KIND_LIST, "BlkioDeviceWriteIOps", false},
    {"devices", KIND_DEVICES, "Devices", false},
    {"dns", KIND_TEXTS, "Dns", false},
    {"dns_opt", KIND_TEXTS, "DnsOptions", false},
    {"dns_search", KIND_TEXTS, "DnsSearch", false},
    {"domainname", KIND_TEXT, "Domainname", true},
    {"extra_hosts", KIND_HOSTS, "ExtraHosts", false},
    {"group_add", KIND_TEXTS, "GroupAdd", false},
    {"healthcheck", KIND_OBJECT, "Healthcheck", true},
    {"hostname", KIND_TEXT, "Hostname", true},
    {"init", KIND_BOOL, "Init", false},
    {"ipc_mode", KIND_TEXT, "IpcMode", false},
    {"isolation", KIND_TEXT, "Isolation", false},
    {"kernel_memory", KIND_SIZE, "KernelMemory", false},
    {"log_config", KIND_OBJECT, "LogConfig", false},
    {"mac_address", KIND_TEXT, "MacAddress", true},
    {"mem_limit", KIND_SIZE, "Memory", false},
    {"mem_reservation", KIND_SIZE, "MemoryReservation", false},
    {"mem_swappiness", KIND_INT, "MemorySwappiness", false},
    {"memswap_limit", KIND_SIZE, "MemorySwap", false},
    {"nano_cpus", KIND_INT, "NanoCpus", false},
    {"network", KIND_TEXT, "NetworkMode", false},
    {"network_disabled", KIND_BOOL, "NetworkDisabled", true},
    {"network_mode", KIND_TEXT, "NetworkMode", false},
    {"oom_kill_disable", KIND_BOOL, "OomKillDisable", false},
    {"oom_score_adj", KIND_INT, "OomScoreAdj", false},
    {"pid_mode", KIND_TEXT, "PidMode", false},
    {"pids_limit", KIND_INT, "PidsLimit", false},
    {"privileged", KIND_BOOL, "Privileged", false},
    {"publish_all_ports", KIND_BOOL, "PublishAllPorts", false},
    {"read_only", KIND_BOOL, "ReadonlyRootfs", false},
    {"restart_policy", KIND_OBJECT, "RestartPolicy", false},
    {"runtime", KIND_TEXT, "Runtime", false},
    {"security_opt", KIND_TEXTS, "SecurityOpt", false},
    {"shm_size", KIND_SIZE, "ShmSize", false},
    {"storage_opt", KIND_OBJECT, "StorageOpt", false},
    {"sysctls", KIND_OBJECT, "Sysctls", false},
    {"tmpfs", KIND_TMPFS, "Tmpfs", false},
    {"ulimits", KIND_ULIMITS, "Ulimits", false},
    {"user", KIND_TEXT, "User", true},
    {"userns_mode", KIND_TEXT, "UsernsMode", false},
    {"uts_mode", KIND_TEXT, "UTSMode", false},
    {"volume_driver", KIND_TEXT, "VolumeDriver", false},
    {"volumes_from", KIND_TEXTS, "VolumesFrom", false},

    {"auto_remove", KIND_REFUSED, "a sandbox is removed with `tendon rm`", false},
    {"command", KIND_REFUSED, "the hand is what runs", false},
    {"detach", KIND_REFUSED, "it always is", false},
    {"entrypoint", KIND_REFUSED, "the hand is the entry point", false},
    {"environment", KIND_REFUSED, "use sandbox.runtime_startup_env_vars", false},
    {"image", KIND_REFUSED, "use sandbox.runtime_container_image", false},
    {"labels", KIND_REFUSED, "use the labels of the sandbox", false},
    {"mounts", KIND_REFUSED, "use sandbox.volumes", false},
    {"name", KIND_REFUSED, "use the name of the sandbox", false},
    {"platform", KIND_REFUSED, "use sandbox.platform", false},
    {"ports", KIND_REFUSED, "use the ports of the sandbox", false},
    {"remove", KIND_REFUSED, "a sandbox is removed with `tendon rm`", false},
    {"stdin_open", KIND_REFUSED, "nothing reads it", false},
    {"stop_signal", KIND_REFUSED, "the hand ends on SIGTERM", false},
    {"tty", KIND_REFUSED, "the hand's log needs none", false},
    {"volumes", KIND_REFUSED, "use sandbox.volumes", false},
    {"working_dir", KIND_REFUSED, "use the workspace of the sandbox", false},
};

static const struct kwarg *find(const char *name)
{
    for (size_t i = 0; i < TN_COUNT(kwargs_table); i++)
        if (strcmp(kwargs_table[i].name, name) == 0)
            return &kwargs_table[i];
    return NULL;
}

static bool is_among(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

/* --- values --------------------------------------------------------------------------------- */

static int wrong(const char *expected, const struct tn_json *value, struct tn_error *err)
{
    return tn_fail(err, TN_E_INVALID, "expected %s, found %s", expected, tn_json_type_name(value));
}

static int put_int(const struct tn_json *v, struct tn_jw *w, struct tn_error *err)
{
    if (tn_json_type(v) != TN_JSON_INT)
        return wrong("an integer", v, err);
    tn_jw_int(w, tn_json_int(v, 0));
    return 0;
}

static int put_size(const struct tn_json *v, struct tn_jw *w, struct tn_error *err)
{
    const char *text = tn_json_str(v, NULL);
    uint64_t bytes = 0;

    if (!text)
        return put_int(v, w, err);
    if (strcmp(text, "-1") != 0 && tn_size_parse(text, &bytes, err) < 0)
        return -1;
    tn_jw_int(w, strcmp(text, "-1") == 0 ? -1 : (int64_t)bytes);
    return 0;
}

static int put_text(const struct tn_json *v, struct tn_jw *w, struct tn_error *err)
{
    if (tn_json_type(v) == TN_JSON_INT) { /* user: 1000 */
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)tn_json_int(v, 0));
        tn_jw_str(w, number);
        return 0;
    }
    if (!tn_json_str(v, NULL))
        return wrong("text", v, err);
    tn_jw_str(w, tn_json_str(v, NULL));
    return 0;
}

static int put_bool(const struct tn_json *v, struct tn_jw *w, struct tn_error *err)
{
    if (tn_json_type(v) != TN_JSON_BOOL)
        return wrong("true or false", v, err);
    tn_jw_bool(w, tn_json_bool(v, false));
    return 0;
}

static int put_texts(const struct tn_json *v, struct tn_jw *w, struct tn_error *err)
{
    int r = 0;

    tn_jw_array(w);
    if (tn_json_type(v) != TN_JSON_ARRAY)
        r = put_text(v, w, err);
    for (size_t i = 0; r == 0 && tn_json_type(v) == TN_JSON_ARRAY && i < tn_json_count(v); i++)
        r = put_text(tn_json_at(v, i), w, err);
    tn_jw_array_end(w);
    return r;
}

static int put_as_is(const struct tn_json *v, enum tn_json_type type, struct tn_jw *w,
                     struct tn_error *err)
{
    if (tn_json_type(v) != type)
        return wrong(type == TN_JSON_ARRAY ? "a list" : "an object", v, err);
    tn_jw_tree(w, v);
    return 0;
}

static int put_host(const char *name, struct tn_json *ip, void *ctx)
{
    tn_autofree char *text =
        tn_asprintf("%s:%s", name, tn_json_str(ip, NULL) ? tn_json_str(ip, NULL) : "");

    tn_jw_str(ctx, text);
    return tn_json_str(ip, NULL) ? 0 : -1;
}

static int put_hosts(const struct tn_json *v, struct tn_jw *w, struct tn_error *err)
{
    if (tn_json_type(v) != TN_JSON_OBJECT)
        return put_texts(v, w, err);
    tn_jw_array(w);
    int r = tn_json_each(v, put_host, w);
    tn_jw_array_end(w);
    return r ? tn_fail(err, TN_E_INVALID, "expected addresses as text") : 0;
}

static int put_tmpfs(const struct tn_json *v, struct tn_jw *w, struct tn_error *err)
{
    if (tn_json_type(v) == TN_JSON_OBJECT)
        return put_as_is(v, TN_JSON_OBJECT, w, err);
    if (tn_json_type(v) != TN_JSON_ARRAY)
        return wrong("an object or a list", v, err);
    tn_jw_object(w);
    for (size_t i = 0; i < tn_json_count(v); i++) {
        const char *path = tn_json_str(tn_json_at(v, i), NULL);
        if (path)
            tn_jw_kstr(w, path, "");
    }
    tn_jw_object_end(w);
    return 0;
}

void docker_put_device(const char *text, struct tn_jw *w)
{
    size_t host = strcspn(text, ":");
    const char *inside = text[host] ? text + host + 1 : text;
    size_t n = strcspn(inside, ":");
    tn_autofree char *from = tn_strndup(text, host), *to = tn_strndup(inside, n);

    tn_jw_object(w);
    tn_jw_kstr(w, "PathOnHost", from);
    tn_jw_kstr(w, "PathInContainer", to);
    tn_jw_kstr(w, "CgroupPermissions", inside[n] ? inside + n + 1 : "rwm");
    tn_jw_object_end(w);
}

static int put_devices(const struct tn_json *v, struct tn_jw *w, struct tn_error *err)
{
    if (tn_json_type(v) != TN_JSON_ARRAY)
        return wrong("a list", v, err);
    tn_jw_array(w);
    for (size_t i = 0; i < tn_json_count(v); i++)
        if (tn_json_str(tn_json_at(v, i), NULL))
            docker_put_device(tn_json_str(tn_json_at(v, i), NULL), w);
    tn_jw_array_end(w);
    return 0;
}

static const struct tn_json *either(const struct tn_json *v, const char *a, const char *b)
{
    return tn_json_get(v, a) ? tn_json_get(v, a) : tn_json_get(v, b);
}

static const char *ulimit_name(const struct tn_json *ulimit)
{
    return tn_json_str(either(ulimit, "name", "Name"), NULL);
}

static int put_ulimit_list(const struct tn_json *v, const char *const *but, struct tn_jw *w,
                           struct tn_error *err)
{
    for (size_t i = 0; i < tn_json_count(v); i++) {
        const struct tn_json *one = tn_json_at(v, i);
        const struct tn_json *soft = either(one, "soft", "Soft"),
                             *hard = either(one, "hard", "Hard");
        const char *name = ulimit_name(one);
        if (!name || !(soft || hard))
            return tn_fail(err, TN_E_INVALID, "expected objects of name, soft and hard");
        if (is_among(but, name))
            continue;
        tn_jw_object(w);
        tn_jw_kstr(w, "Name", name);
        tn_jw_kint(w, "Soft", tn_json_int(soft ? soft : hard, 0));
        tn_jw_kint(w, "Hard", tn_json_int(hard ? hard : soft, 0));
        tn_jw_object_end(w);
    }
    return 0;
}

static int put_ulimits(const struct tn_json *v, struct tn_jw *w, struct tn_error *err)
{
    static const char *const none[] = {NULL};

    if (tn_json_type(v) != TN_JSON_ARRAY)
        return wrong("a list", v, err);
    tn_jw_array(w);
    int r = put_ulimit_list(v, none, w, err);
    tn_jw_array_end(w);
    return r;
}

void docker_kwargs_put_ulimits(const struct tn_json *kwargs, const char *const *but,
                               struct tn_jw *w)
{
    put_ulimit_list(tn_json_get(kwargs, "ulimits"), but, w, NULL);
}

static int put_value(const struct kwarg *k, const struct tn_json *v, struct tn_jw *w,
                     struct tn_error *err)
{
    switch (k->kind) {
    case KIND_INT:
        return put_int(v, w, err);
    case KIND_SIZE:
        return put_size(v, w, err);
    case KIND_TEXT:
        return put_text(v, w, err);
    case KIND_BOOL:
        return put_bool(v, w, err);
    case KIND_TEXTS:
        return put_texts(v, w, err);
    case KIND_OBJECT:
        return put_as_is(v, TN_JSON_OBJECT, w, err);
    case KIND_LIST:
        return put_as_is(v, TN_JSON_ARRAY, w, err);
    case KIND_HOSTS:
        return put_hosts(v, w, err);
    case KIND_TMPFS:
        return put_tmpfs(v, w, err);
    case KIND_DEVICES:
        return put_devices(v, w, err);
    case KIND_ULIMITS:
        return put_ulimits(v, w, err);
    case KIND_REFUSED:
        break;
    }
    return tn_fail(err, TN_E_INVALID, "it is not for the user to set: %s", k->api);
}

/* --- all of them ---------------------------------------------------------------------------- */

struct walk {
    bool host_config;
    const char *const *done;
    struct tn_jw *w;
    struct tn_error *err;
};

static int unknown(const char *name, struct tn_error *err)
{
    struct tn_nearest nearest = tn_nearest(name);

    for (size_t i = 0; i < TN_COUNT(kwargs_table); i++)
        if (kwargs_table[i].kind != KIND_REFUSED)
            tn_nearest_offer(&nearest, kwargs_table[i].name);
    return tn_fail(err, TN_E_INVALID, "sandbox.docker_runtime_kwargs: unknown key '%s'%s%s%s", name,
                   nearest.best ? " (did you mean '" : "", nearest.best ? nearest.best : "",
                   nearest.best ? "'?)" : "");
}

static int check_one(const char *name, struct tn_json *value, void *ctx)
{
    struct walk *walk = ctx;
    tn_autobuf struct tn_buf scratch = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&scratch);
    const struct kwarg *k = find(name);

    if (!k)
        return unknown(name, walk->err);
    if (!value)
        return 0;
    if (put_value(k, value, &w, walk->err) < 0)
        return tn_error_context(walk->err, "sandbox.docker_runtime_kwargs: %s", name);
    return 0;
}

int docker_kwargs_check(const struct tn_json *kwargs, struct tn_error *err)
{
    struct walk walk = {.err = err};

    return tn_json_each(kwargs, check_one, &walk);
}

bool docker_kwargs_sets(const struct tn_json *kwargs, const char *api_field)
{
    for (size_t i = 0; i < TN_COUNT(kwargs_table); i++)
        if (strcmp(kwargs_table[i].api, api_field) == 0 &&
            tn_json_get(kwargs, kwargs_table[i].name))
            return true;
    return false;
}

static int put_one(const char *name, struct tn_json *value, void *ctx)
{
    struct walk *walk = ctx;
    const struct kwarg *k = find(name);

    if (!value || !k || k->config == walk->host_config || is_among(walk->done, k->api))
        return 0;
    tn_jw_key(walk->w, k->api);
    return put_value(k, value, walk->w, walk->err);
}

int docker_kwargs_put(const struct tn_json *kwargs, bool host_config, const char *const *done,
                      struct tn_jw *w, struct tn_error *err)
{
    struct walk walk = {.host_config = host_config, .done = done, .w = w, .err = err};

    return tn_json_each(kwargs, put_one, &walk);
}
