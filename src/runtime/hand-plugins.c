#include "runtime/hand-plugins.h"

#include "base/clock.h"
#include "base/program-search.h"
#include "event/action.h"
#include "net/url.h"

#define PREFIX "tendon-plugin-"
#define PATH_VARIABLE "TENDON_PLUGIN_PATH"

enum { TARGET_MAX = 512, ANSWER_MAX = 4 << 20 };

/* --- before there is a hand ------------------------------------------------------------------- */

/* What PATH is in a jail; a hand without one has that of this process, too. */
static const char *const places[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                     "/usr/bin",        "/sbin",          "/bin"};
static const struct tn_str_list place_list = {.items = (char **)(uintptr_t)places,
                                              .count = TN_COUNT(places)};

static bool has_own_places(const struct tn_spec *spec)
{
    static const char flag[] = "--plugin-path";
    bool own = spec->volumes.count || tn_json_has(spec->env, "PATH") ||
               tn_json_has(spec->env, PATH_VARIABLE) || getenv(PATH_VARIABLE);

    for (size_t i = 0; i < spec->hand_args.count; i++)
        own = own || strncmp(spec->hand_args.items[i], flag, sizeof flag - 1) == 0;
    return own;
}

static bool is_built_in(const char *name)
{
    size_t i = 0;

    while (tn_plugin_names[i] && strcmp(tn_plugin_names[i], name) != 0)
        i++;
    return tn_plugin_names[i];
}

static void put_name(const char *name, const char *path, void *ctx)
{
    struct tn_buf *known = ctx;

    tn_buf_printf(known, "%s%s", known->len ? ", " : "", name);
}

int tn_plugins_check(const struct tn_spec *spec, struct tn_error *err)
{
    tn_autobuf struct tn_buf known = TN_BUF_INIT(300);
    const char *lost = NULL;

    for (size_t i = 0; i < spec->plugins.count && !lost; i++) {
        const char *name = spec->plugins.items[i];
        tn_autofree char *program =
            is_built_in(name) ? NULL : tn_program_search(&place_list, PREFIX, name);
        lost = program || is_built_in(name) ? NULL : name;
    }
    if (!lost || has_own_places(spec))
        return 0;
    for (size_t i = 0; tn_plugin_names[i]; i++)
        put_name(tn_plugin_names[i], NULL, &known);
    tn_program_each(&place_list, PREFIX, put_name, &known);
    return tn_fail(err, TN_E_INVALID,
                   "plugins: %s not found: put a program " PREFIX
                   "%s into a directory of " PATH_VARIABLE
                   " or PATH of the hand, or name another: there are %s",
                   lost, lost, tn_buf_str(&known));
}

/* --- of a hand -------------------------------------------------------------------------------- */

static int ask(const struct tn_hand_address *at, const char *method, const char *target,
               struct tn_json **out, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(ANSWER_MAX);
    const struct tn_buf nothing = TN_BUF_INIT(0);

    if (tn_hand_ask(at, method, target, &nothing, &answer, deadline, err) < 0)
        return -1;
    return tn_json_parse(tn_buf_str(&answer), answer.len, out, err);
}

int tn_hand_plugins(const struct tn_hand_address *at, struct tn_json **out, int64_t deadline,
                    struct tn_error *err)
{
    tn_autojson struct tn_json *answer = NULL;

    if (ask(at, "GET", "/v1/plugins", &answer, deadline, err) < 0)
        return -1;
    *out = tn_json_ref(tn_json_get(answer, "plugins"));
    if (tn_json_type(*out) == TN_JSON_ARRAY)
        return 0;
    tn_json_free(TN_TAKE_PTR(*out));
    return tn_fail(err, TN_E_PEER, "the hand did not answer with a list of plugins");
}

static void put_target(struct tn_buf *target, const char *name, const char *what)
{
    tn_buf_puts(target, "/v1/plugins/");
    tn_url_encode(target, name, "");
    tn_buf_printf(target, "/%s", what);
}

int tn_hand_plugin_start(const struct tn_hand_address *at, const char *name, struct tn_json **out,
                         int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    int64_t left = deadline - tn_now();

    put_target(&target, name, "start");
    tn_buf_printf(&target, "?timeout=%lld", left > TN_SECOND ? (long long)(left / TN_SECOND) : 0);
    return ask(at, "POST", tn_buf_str(&target), out, deadline, err);
}

int tn_hand_plugin_interrupt(const struct tn_hand_address *at, const char *name, int64_t deadline,
                             struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    tn_autojson struct tn_json *answer = NULL;

    put_target(&target, name, "interrupt");
    return ask(at, "POST", tn_buf_str(&target), &answer, deadline, err);
}

const struct tn_json *tn_hand_plugin_named(const struct tn_json *plugins, const char *name)
{
    for (size_t i = 0; i < tn_json_count(plugins); i++) {
        const struct tn_json *plugin = tn_json_at(plugins, i);
        if (strcmp(tn_json_get_str(plugin, "name", ""), name) == 0)
            return plugin;
    }
    return NULL;
}
