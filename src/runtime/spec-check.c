/* What can be wrong with a spec, one function per field that needs more than its type. */
#include "runtime/spec.h"
#include "runtime/volume.h"
#include "security/safe.h"

enum {
    SPEC_MAX = 512 << 10,     /* bytes of all of it, as JSON */
    VARIABLE_MAX = 128 << 10, /* the kernel's, of NAME=value with its end */
    ENV_MAX = 1024,
    LIST_MAX = 256,
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* 1 to max characters: letters, digits and, but not in front, those in others. */
static bool is_word(const char *s, const char *others, size_t max)
{
    size_t n = 0;

    for (; s[n]; n++)
        if (!is_letter(s[n]) && !is_digit(s[n]) && (n == 0 || !strchr(others, s[n])))
            return false;
    return n > 0 && n <= max;
}

static bool is_variable(const char *s)
{
    size_t n = 0;

    for (; s[n]; n++)
        if (!is_letter(s[n]) && s[n] != '_' && (n == 0 || !is_digit(s[n])))
            return false;
    return n > 0;
}

static bool is_clean_path(const char *s)
{
    return s[0] == '/' && !strstr(s, "/../") &&
           !(strlen(s) >= 3 && strcmp(s + strlen(s) - 3, "/..") == 0);
}

/* --- one field each ----------------------------------------------------------------------- */

static int check_name(const struct tn_spec *spec, struct tn_error *err)
{
    if (!spec->name || is_word(spec->name, "_.-", 63))
        return 0;
    return tn_fail(err, TN_E_INVALID,
                   "expected 1 to 63 letters, digits, '_', '.' or '-', a letter or digit first, "
                   "found '%.80s'",
                   spec->name);
}

static int check_runtime(const struct tn_spec *spec, struct tn_error *err)
{
    if (!spec->runtime || is_word(spec->runtime, "_.-", 63))
        return 0;
    return tn_fail(err, TN_E_INVALID, "'%.80s' is no name of a runtime", spec->runtime);
}

bool tn_spec_may_be_image(const char *image)
{
    return strspn(image,
                  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@-[]") ==
               strlen(image) &&
           !strchr("/-.:@", *image);
}

static int check_image(const struct tn_spec *spec, struct tn_error *err)
{
    return !spec->image || *spec->image ? 0 : tn_fail(err, TN_E_INVALID, "it is empty");
}

static int check_workspace(const struct tn_spec *spec, struct tn_error *err)
{
    if (!spec->workspace)
        return 0;
    if (!is_clean_path(spec->workspace))
        return tn_fail(err, TN_E_INVALID, "expected an absolute path without '..', found '%.120s'",
                       spec->workspace);
    if (tn_inside_is_ours(spec->workspace))
        return tn_fail(err, TN_E_INVALID,
                       "%.120s is in " TN_INSIDE ", which is ours: expected another directory",
                       spec->workspace);
    return 0;
}

static int check_user(const struct tn_spec *spec, struct tn_error *err)
{
    const char *s = spec->user;

    if (!s)
        return 0;
    if (is_digit(*s)) {
        char *end;
        errno = 0;
        unsigned long long uid = strtoull(s, &end, 10);
        if (*end || errno == ERANGE || uid >= UINT32_MAX)
            return tn_fail(err, TN_E_INVALID, "'%.40s' is neither a uid nor a name", s);
        return 0;
    }
    if (is_word(*s == '_' ? s + 1 : s, "_.-", 31))
        return 0;
    return tn_fail(err, TN_E_INVALID, "'%.40s' is no name of a user", s);
}

static int check_plugins(const struct tn_spec *spec, struct tn_error *err)
{
    for (size_t i = 0; i < spec->plugins.count; i++)
        if (!is_word(spec->plugins.items[i], "_-", 48))
            return tn_fail(err, TN_E_INVALID, "'%.40s' is no name of a plugin",
                           spec->plugins.items[i]);
    return 0;
}

static int check_volumes(const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_str_list *list = &spec->volumes;

    for (size_t i = 0; i < list->count; i++) {
        tn_autovolume struct tn_volume v = {0};
        if (tn_volume_parse(list->items[i], &v, err) < 0)
            return -1;
        for (size_t k = 0; k < i; k++) {
            tn_autovolume struct tn_volume earlier = {0};
            if (tn_volume_parse(list->items[k], &earlier, err) < 0)
                return -1;
            if (strcmp(v.inside, earlier.inside) == 0)
                return tn_fail(err, TN_E_INVALID, "two volumes are to be mounted at %.120s",
                               v.inside);
        }
    }
    return 0;
}

static int check_text(const char *key, const struct tn_json *value, struct tn_error *err)
{
    size_t n;
    const char *s = tn_json_str(value, &n);

    if (!s)
        return tn_fail(err, TN_E_INVALID, "%.60s: expected text, found %s", key,
                       tn_json_type_name(value));
    if (strlen(s) != n)
        return tn_fail(err, TN_E_INVALID, "%.60s: the value holds a NUL byte", key);
    return 0;
}

static int check_variable(const char *key, struct tn_json *value, void *err)
{
    if (!is_variable(key))
        return tn_fail(err, TN_E_INVALID,
                       "'%.60s' is no name of a variable: letters, digits and '_', no digit first",
                       key);
    if (check_text(key, value, err))
        return -1;
    return strlen(key) + 1 + strlen(tn_json_str(value, NULL)) < VARIABLE_MAX
               ? 0
               : tn_fail(err, TN_E_TOO_LARGE,
                         "%.60s: with a variable of %d KiB no program can be started", key,
                         VARIABLE_MAX >> 10);
}

static int check_env(const struct tn_spec *spec, struct tn_error *err)
{
    return tn_json_each(spec->env, check_variable, err);
}

static int check_label(const char *key, struct tn_json *value, void *err)
{
    if (!is_word(key, "_./-", 128))
        return tn_fail(err, TN_E_INVALID,
                       "'%.60s' is no name of a label: letters, digits, '_', '.', '/' and '-'",
                       key);
    return check_text(key, value, err);
}

static int check_labels(const struct tn_spec *spec, struct tn_error *err)
{
    return tn_json_each(spec->labels, check_label, err);
}

static int check_ports(const struct tn_spec *spec, struct tn_error *err)
{
    for (size_t i = 0; i < spec->ports.count; i++) {
        int64_t port = spec->ports.items[i];
        if (port < 1 || port > 65535)
            return tn_fail(err, TN_E_INVALID, "expected a port from 1 to 65535, found %lld",
                           (long long)port);
        for (size_t k = 0; k < i; k++)
            if (spec->ports.items[k] == port)
                return tn_fail(err, TN_E_INVALID, "%lld is there twice", (long long)port);
    }
    return 0;
}

static int check_devices(const struct tn_spec *spec, struct tn_error *err)
{
    for (size_t i = 0; i < spec->devices.count; i++) {
        const char *s = spec->devices.items[i];
        if (strncmp(s, "/dev/", 5) != 0 || !s[5] || strchr(s, ':') || !is_clean_path(s))
            return tn_fail(err, TN_E_INVALID, "expected a path below /dev, found '%.80s'", s);
    }
    return 0;
}

static int check_gpus(const struct tn_spec *spec, struct tn_error *err)
{
    for (const char *at = spec->gpus; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        tn_autofree char *id = tn_strndup(at, strcspn(at, ","));
        if (!is_word(id, "_-", 64))
            return tn_fail(err, TN_E_INVALID,
                           "expected 'all' or ids with commas between them, found '%.80s'",
                           spec->gpus);
    }
    return 0;
}

static int check_allow(const struct tn_spec *spec, struct tn_error *err)
{
    bool gated = spec->network == TN_NETWORK_OPEN || spec->network == TN_NETWORK_ALLOW ||
                 spec->network == TN_NETWORK_DEFAULT;

    if (spec->allow.count && !gated)
        return tn_fail(err, TN_E_INVALID, "expected network open or allow with it, found %s",
                       tn_networks[spec->network]);
    return 0;
}

static int check_ask(const struct tn_spec *spec, struct tn_error *err)
{
    if (spec->ask && spec->network != TN_NETWORK_ALLOW && spec->network != TN_NETWORK_DEFAULT)
        return tn_fail(err, TN_E_INVALID, "expected network allow with it, found %s",
                       tn_networks[spec->network]);
    return 0;
}

static int check_secrets(const struct tn_spec *spec, struct tn_error *err)
{
    bool gated = spec->network == TN_NETWORK_OPEN || spec->network == TN_NETWORK_ALLOW ||
                 spec->network == TN_NETWORK_DEFAULT;

    if (spec->secrets.count && !gated)
        return tn_fail(err, TN_E_INVALID,
                       "only a gate can put them in: expected network open or allow, found %s",
                       tn_networks[spec->network]);
    for (size_t i = 0; i < spec->secrets.count; i++) {
        const char *name = tn_secret_name(spec->secrets.items[i]);
        if (!tn_safe_is_name(name))
            return tn_fail(err, TN_E_INVALID, "expected the name of a secret, found '%.80s'",
                           spec->secrets.items[i]);
        if (tn_json_has(spec->env, name))
            return tn_fail(err, TN_E_INVALID, "%s is a variable of env too", name);
        for (size_t k = 0; k < i; k++)
            if (strcmp(tn_secret_name(spec->secrets.items[k]), name) == 0)
                return tn_fail(err, TN_E_INVALID, "%s is there twice", name);
    }
    return 0;
}

static const struct {
    const char *field;
    int (*check)(const struct tn_spec *spec, struct tn_error *err);
} checks[] = {
    {"secrets", check_secrets}, {"allow", check_allow},     {"runtime", check_runtime},
    {"name", check_name},       {"image", check_image},     {"workspace", check_workspace},
    {"user", check_user},       {"plugins", check_plugins}, {"volumes", check_volumes},
    {"env", check_env},         {"labels", check_labels},   {"ports", check_ports},
    {"devices", check_devices}, {"gpus", check_gpus},       {"ask", check_ask},
};

/* Whoever runs sandboxes of others keeps their specs for as long as they live. */
static int check_size(const struct tn_spec *spec, struct tn_error *err)
{
    const struct {
        const char *field;
        size_t count, most;
    } lists[] = {
        {"plugins", spec->plugins.count, LIST_MAX},
        {"volumes", spec->volumes.count, LIST_MAX},
        {"allow", spec->allow.count, ENV_MAX},
        {"secrets", spec->secrets.count, LIST_MAX},
        {"ports", spec->ports.count, LIST_MAX},
        {"devices", spec->devices.count, LIST_MAX},
        {"env", tn_json_count(spec->env), ENV_MAX},
        {"labels", tn_json_count(spec->labels), ENV_MAX},
    };
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    struct tn_jw w = tn_jw(&text);

    for (size_t i = 0; i < TN_COUNT(lists); i++)
        if (lists[i].count > lists[i].most)
            return tn_fail(err, TN_E_TOO_LARGE, "%s: at most %zu of them, found %zu",
                           lists[i].field, lists[i].most, lists[i].count);
    tn_fields_to_json(&tn_spec_fields, spec, &w);
    return tn_buf_ok(&text) ? 0
                            : tn_fail(err, TN_E_TOO_LARGE,
                                      "what is asked of a sandbox has more than %d KiB together",
                                      SPEC_MAX >> 10);
}

/* With less than that a hand and its shell do not come up: measured, and rounded up. 0 is no limit.
 */
static int check_floors(const struct tn_limits *l, struct tn_error *err)
{
    const struct {
        const char *field;
        double value, least;
        const char *text;
    } floors[] = {
        {"memory", (double)l->memory, 8 << 20, "8m"},
        {"pids", (double)l->pids, 12, "12"},
        {"open_files", (double)l->open_files, 48, "48"},
        {"disk", (double)l->disk, 1 << 20, "1m"},
        {"file_size", (double)l->file_size, 512 << 10, "512k"},
        {"wall_time", l->wall_time, 1, "1"},
    };

    for (size_t i = 0; i < TN_COUNT(floors); i++)
        if (floors[i].value > 0 && floors[i].value < floors[i].least)
            return tn_fail(err, TN_E_INVALID,
                           "%s: no sandbox lives with so little: expected at least %s, or 0 for no "
                           "limit, found %.6g",
                           floors[i].field, floors[i].text, floors[i].value);
    return 0;
}

int tn_spec_check(const struct tn_spec *spec, struct tn_error *err)
{
    struct tn_limits limits;

    if (check_size(spec, err))
        return -1;
    for (size_t i = 0; i < TN_COUNT(checks); i++)
        if (checks[i].check(spec, err) != 0)
            return tn_error_context(err, "%s", checks[i].field);
    return tn_spec_limits(spec, &limits, err) ? -1 : check_floors(&limits, err);
}
