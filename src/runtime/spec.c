#include "runtime/spec.h"

#include <math.h>

#include "base/sha256.h"
#include "runtime/volume.h"

const char *const tn_networks[] = {
    [TN_NETWORK_DEFAULT] = "default",
    [TN_NETWORK_NONE] = "none",
    [TN_NETWORK_HOST] = "host",
    [TN_NETWORK_BRIDGE] = "bridge",
    [TN_NETWORK_OPEN] = "open",
    [TN_NETWORK_ALLOW] = "allow",
    NULL,
};

const char *const tn_isolations[] = {"native", "gvisor", "kata", NULL};

static size_t strength(const char *isolation)
{
    size_t i = 0;

    while (isolation && tn_isolations[i] && strcmp(tn_isolations[i], isolation) != 0)
        i++;
    return i;
}

bool tn_isolation_weaker(const char *isolation, const char *than)
{
    return strength(isolation) < strength(than);
}

#define SPEC struct tn_spec
#define OPTIONAL (TN_FIELD_NULLABLE | TN_FIELD_SPARSE)

static const struct tn_field rows[] = {
    TN_STRING("runtime", SPEC, runtime, .flags = OPTIONAL, .flag = "--runtime", .letter = 'r',
              .value = "NAME", .help = "backend that holds it: jail, docker, local, cli, ..."),
    TN_STRING("name", SPEC, name, .flags = OPTIONAL, .flag = "--name", .value = "NAME",
              .help = "call it by this name as well as by its id"),
    TN_STRING("image", SPEC, image, .flags = OPTIONAL, .flag = "--image", .letter = 'i',
              .value = "IMAGE", .help = "docker: an image; jail: a directory, tar or saved image"),
    TN_STRING("workspace", SPEC, workspace, .flags = OPTIONAL, .flag = "--workspace", .letter = 'w',
              .value = "DIR", .help = "directory inside where work happens; made if missing"),
    TN_STRING("user", SPEC, user, .flags = OPTIONAL, .flag = "--user", .letter = 'u',
              .value = "USER", .help = "name or uid of the user inside"),
    TN_STRINGS("plugins", SPEC, plugins, .flags = TN_FIELD_SPARSE | TN_FIELD_COMMAS,
               .flag = "--plugins", .value = "NAME,...",
               .help = "plugins of the hand instead of jupyter,agent_skills; '' is none"),
    TN_STRINGS("volumes", SPEC, volumes, .flags = TN_FIELD_SPARSE, .flag = "--volume",
               .letter = 'v', .value = "HOST:DIR[:MODE]",
               .help = "mount HOST (a path or a volume) at DIR; MODE: rw, ro, overlay"),
    TN_JSON("env", SPEC, env, .flags = OPTIONAL | TN_FIELD_MAP | TN_FIELD_ENVIRON | TN_FIELD_SECRET,
            .flag = "--env", .letter = 'e', .value = "NAME[=VALUE]",
            .help = "set a variable inside; NAME alone: to its value here"),
    TN_JSON("labels", SPEC, labels, .flags = OPTIONAL | TN_FIELD_MAP, .flag = "--label",
            .letter = 'l', .value = "NAME=VALUE", .help = "label it, to be found again"),
    TN_STRING("isolation", SPEC, isolation, .flags = OPTIONAL, .words = tn_isolations,
              .flag = "--isolation", .value = "WORD",
              .help = "gvisor: a kernel of its own (runsc) for a jail or a container; kata: a "
                      "virtual machine for a pod; or native"),
    TN_WORD("network", SPEC, network, tn_networks, .fallback = "default", .flag = "--network",
            .value = "WORD", .help = "default is the backend's own choice"),
    TN_STRINGS("allow", SPEC, allow, .flags = TN_FIELD_SPARSE, .flag = "--allow", .value = "RULE",
               .help = "what a network behind a gate reaches: pypi.org, *.x.com:8443, 10.0.0.0/8, "
                       "@packages"),
    TN_BOOL("ask", SPEC, ask, .flags = TN_FIELD_SPARSE, .flag = "--ask",
            .help = "network allow, in a service: a connection without a rule waits while somebody "
                    "is asked"),
    TN_STRINGS("secrets", SPEC, secrets, .flags = TN_FIELD_SPARSE, .flag = "--secret",
               .value = "NAME",
               .help = "a secret that its requests carry and it never sees (tendon secret set)"),
    TN_INTS("ports", SPEC, ports, .flags = TN_FIELD_SPARSE, .flag = "--port", .letter = 'p',
            .value = "PORT",
            .help = "port inside to publish (docker), or to be listed and opened first (jail)"),
    TN_STRINGS("devices", SPEC, devices, .flags = TN_FIELD_SPARSE, .flag = "--device",
               .value = "/dev/NAME", .help = "pass this device through"),
    TN_STRING("gpus", SPEC, gpus, .flags = OPTIONAL, .flag = "--gpus", .value = "all|ID,...",
              .help = "pass GPUs through"),
    TN_STRING("memory", SPEC, memory, .flags = OPTIONAL, .flag = "--memory", .letter = 'm',
              .value = "SIZE", .help = "memory it may use, such as 512m or 2g; 0: no limit"),
    TN_OPT_DOUBLE("cpus", SPEC, cpus, .flags = OPTIONAL, .flag = "--cpus", .min = 0, .max = 4096,
                  .help = "processors it may keep busy, such as 1.5; 0: no limit"),
    TN_OPT_INT("pids", SPEC, pids, .flags = OPTIONAL, .flag = "--pids", .min = 0, .max = 4194304,
               .help = "processes and threads it may have; 0: no limit"),
    TN_STRING("file_size", SPEC, file_size, .flags = OPTIONAL, .flag = "--file-size",
              .value = "SIZE", .help = "size that a file may grow to; 0: no limit"),
    TN_OPT_INT("open_files", SPEC, open_files, .flags = OPTIONAL, .flag = "--open-files", .min = 0,
               .max = 1073741816, .help = "files that a process may hold open; 0: no limit"),
    TN_STRING("disk", SPEC, disk, .flags = OPTIONAL, .flag = "--disk", .value = "SIZE",
              .help = "what it may write to its file system in all; 0: no limit"),
    TN_OPT_DOUBLE("wall_time", SPEC, wall_time, .flags = OPTIONAL, .flag = "--wall-time",
                  .value = "S", .min = 0, .max = INFINITY,
                  .help = "seconds it may run in all; 0: no limit"),
    TN_BOOL("keep", SPEC, keep, .flag = "--keep", .flags = TN_FIELD_SPARSE, .letter = 'k',
            .help = "let it outlive the process that makes it"),
    TN_OPT_DOUBLE("lease", SPEC, lease, .flags = OPTIONAL, .flag = "--lease", .value = "S",
                  .min = 0, .max = INFINITY,
                  .help = "seconds after the last use when it may be removed; 0: never"),
    TN_STRINGS("hand_args", SPEC, hand_args, .flags = TN_FIELD_SPARSE, .flag = "--hand-arg",
               .value = "ARG", .help = "further argument for the hand"),
};

const struct tn_fields tn_spec_fields = TN_FIELDS(rows);

void tn_spec_init(struct tn_spec *spec)
{
    tn_fields_defaults(&tn_spec_fields, spec);
}

void tn_spec_done(struct tn_spec *spec)
{
    tn_fields_done(&tn_spec_fields, spec);
}

int tn_spec_resolve(struct tn_spec *spec, struct tn_error *err)
{
    for (size_t i = 0; i < spec->volumes.count; i++) {
        char *absolute = tn_volume_absolute(spec->volumes.items[i], err);
        if (!absolute)
            return -1;
        free(spec->volumes.items[i]);
        spec->volumes.items[i] = absolute;
    }
    return 0;
}

const char *tn_secret_name(const char *secret)
{
    const char *slash = strchr(secret, '/');

    return slash ? slash + 1 : secret;
}

/* --- sizes -------------------------------------------------------------------------------- */

static int bad_size(const char *text, struct tn_error *err)
{
    return tn_fail(err, TN_E_INVALID,
                   "expected a size such as 65536, 64k, 512m, 1.5g or 1t, found '%.40s'", text);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The power of two that a unit stands for, or -1. */
static int unit_shift(const char *unit)
{
    static const char letters[] = "bkmgt";
    char lower = (char)(*unit >= 'A' && *unit <= 'Z' ? *unit + ('a' - 'A') : *unit);
    const char *found = lower ? strchr(letters, lower) : NULL;

    if (!*unit)
        return 0;
    if (!found)
        return -1;
    const char *rest = unit + 1;
    if (found != letters) {
        if ((rest[0] == 'i' || rest[0] == 'I') && (rest[1] == 'b' || rest[1] == 'B'))
            rest += 2;
        else if (rest[0] == 'b' || rest[0] == 'B')
            rest++;
    }
    return *rest ? -1 : 10 * (int)(found - letters);
}

int tn_size_parse(const char *text, uint64_t *bytes, struct tn_error *err)
{
    const char *at = text;
    uint64_t whole = 0, part = 0, scale = 1;

    if (!is_digit(*at))
        return bad_size(text, err);
    for (; is_digit(*at); at++)
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*at - '0'), &whole))
            return bad_size(text, err);
    bool fraction = at[0] == '.' && is_digit(at[1]);
    if (fraction)
        for (at++; is_digit(*at); at++)
            if (scale < 1000000) { /* more digits than anybody means */
                part = part * 10 + (uint64_t)(*at - '0');
                scale *= 10;
            }
    int shift = unit_shift(at);
    if (shift < 0 || (fraction && shift == 0) || whole > (uint64_t)INT64_MAX >> shift)
        return bad_size(text, err);
    *bytes = (whole << shift) + (part << shift) / scale;
    return *bytes > (uint64_t)INT64_MAX ? bad_size(text, err) : 0;
}

static int read_size(const char *name, const char *text, uint64_t *bytes, struct tn_error *err)
{
    *bytes = 0;
    if (text && tn_size_parse(text, bytes, err) < 0)
        return tn_error_context(err, "%s", name);
    return 0;
}

int tn_spec_limits(const struct tn_spec *spec, struct tn_limits *out, struct tn_error *err)
{
    *out = (struct tn_limits){
        .cpus = spec->cpus.set ? spec->cpus.value : 0,
        .wall_time = spec->wall_time.set ? spec->wall_time.value : 0,
        .pids = spec->pids.set ? (uint64_t)spec->pids.value : 0,
        .open_files = spec->open_files.set ? (uint64_t)spec->open_files.value : 0,
    };
    if (read_size("memory", spec->memory, &out->memory, err) < 0 ||
        read_size("file_size", spec->file_size, &out->file_size, err) < 0)
        return -1;
    return read_size("disk", spec->disk, &out->disk, err);
}

/* --- JSON, copies, digests ---------------------------------------------------------------- */

int tn_spec_from_json(const struct tn_json *json, struct tn_spec *spec, struct tn_error *err)
{
    if (tn_fields_refuse_unknown(&tn_spec_fields, json, err) < 0)
        return -1;
    return tn_fields_from_json(&tn_spec_fields, spec, json, err);
}

/* No rules are something else than none of its own, which would be the configured ones. */
static void put_no_rules(const struct tn_spec *spec, struct tn_jw *w)
{
    if (!spec->allow.items || spec->allow.count)
        return;
    tn_jw_key(w, "allow");
    tn_jw_array(w);
    tn_jw_array_end(w);
}

void tn_spec_to_json(const struct tn_spec *spec, struct tn_jw *w)
{
    tn_fields_to_json(&tn_spec_fields, spec, w);
    put_no_rules(spec, w);
}

/* Far more than arguments and environment of a program may be. */
#define SPEC_BYTES_MAX (64u << 20)

int tn_spec_tree(const struct tn_spec *spec, struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_BYTES_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_spec_to_json(spec, &w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the spec is larger than %u MiB", SPEC_BYTES_MAX >> 20);
    return tn_json_parse(text.data, text.len, out, err);
}

static bool is_among(const char *name, const char *const *names)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

int tn_spec_refuse(const struct tn_json *tree, const char *who, const struct tn_spec_bar *bars,
                   size_t n, const char *const *kept, struct tn_error *err)
{
    for (const struct tn_spec_bar *bar = bars; bar < bars + n; bar++)
        if (tn_json_get(tree, bar->name) && !is_among(bar->name, kept))
            return tn_fail(err, TN_E_UNSUPPORTED, "%s: %s cannot have that: %s", bar->name, who,
                           bar->why);
    return 0;
}

int tn_spec_copy(const struct tn_spec *from, struct tn_spec *to, struct tn_error *err)
{
    tn_autojson struct tn_json *json = NULL;

    tn_spec_init(to);
    if (tn_spec_tree(from, &json, err) == 0 &&
        tn_fields_from_json(&tn_spec_fields, to, json, err) == 0)
        return 0;
    tn_spec_done(to);
    return -1;
}

void tn_spec_borrow_bounds(struct tn_spec *spec, const struct tn_spec *from)
{
    spec->isolation = from->isolation;
    spec->network = from->network;
    spec->allow = from->allow;
    spec->ask = from->ask;
    spec->memory = from->memory;
    spec->cpus = from->cpus;
    spec->pids = from->pids;
    spec->open_files = from->open_files;
    spec->disk = from->disk;
}

const char *tn_spec_bounds_differ(const struct tn_spec *a, const struct tn_spec *b)
{
    struct tn_spec bounded = *a; /* differs from it in what bounds alone */

    tn_spec_borrow_bounds(&bounded, b);
    for (size_t i = 0; i < tn_spec_fields.count; i++) {
        const struct tn_field *row = &tn_spec_fields.rows[i];
        tn_autobuf struct tn_buf one = TN_BUF_INIT(SPEC_BYTES_MAX);
        tn_autobuf struct tn_buf other = TN_BUF_INIT(SPEC_BYTES_MAX);
        tn_field_put_text(row, a, &one);
        tn_field_put_text(row, &bounded, &other);
        if (strcmp(tn_buf_str(&one), tn_buf_str(&other)) != 0)
            return row->name;
    }
    return !a->allow.items == !b->allow.items ? NULL : "allow";
}

struct members {
    struct {
        const char *key;
        struct tn_json *value;
    } * items;
    size_t count;
};

static int collect(const char *key, struct tn_json *value, void *ctx)
{
    struct members *m = ctx;

    m->items = tn_realloc(m->items, (m->count + 1) * sizeof *m->items);
    m->items[m->count].key = key;
    m->items[m->count++].value = value;
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The order in which variables were given means nothing. */
static void write_sorted(struct tn_jw *w, const struct tn_json *object)
{
    struct members m = {0};

    tn_json_each(object, collect, &m);
    if (m.count)
        qsort(m.items, m.count, sizeof *m.items, by_key);
    tn_jw_object(w);
    for (size_t i = 0; i < m.count; i++) {
        tn_jw_key(w, m.items[i].key);
        tn_jw_tree(w, m.items[i].value);
    }
    tn_jw_object_end(w);
    free(m.items);
}

void tn_spec_digest(const struct tn_spec *spec, char out[17])
{
    static const char *const differ[] = {"runtime", "name", "labels", "lease", "keep", "env"};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_BYTES_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_sha256 hash;
    char digest[2 * TN_SHA256_BYTES + 1];

    tn_jw_object(&w);
    for (size_t i = 0; i < tn_spec_fields.count; i++) {
        const struct tn_fields one = {.rows = &tn_spec_fields.rows[i], .count = 1};
        bool skip = false;
        for (size_t k = 0; k < TN_COUNT(differ); k++)
            skip |= strcmp(differ[k], one.rows->name) == 0;
        if (!skip)
            tn_fields_to_json(&one, spec, &w);
    }
    tn_jw_key(&w, "env");
    write_sorted(&w, spec->env);
    put_no_rules(spec, &w);
    tn_jw_object_end(&w);
    tn_sha256_init(&hash);
    tn_sha256_add(&hash, tn_buf_str(&text), text.len);
    tn_sha256_end_hex(&hash, digest);
    memcpy(out, digest, 16);
    out[16] = '\0';
}
