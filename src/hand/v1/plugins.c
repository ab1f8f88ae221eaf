/* /v1/plugins: what this hand can do beyond shell and files, what runs, what is missing. */
#include "base/clock.h"
#include "hand/plugin.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"

enum { JSON_MAX = 4 << 20 };

static const struct tn_plugin *plugin_in_path(struct tn_http_exchange *x, struct tn_hand *hand)
{
    const char *name = tn_http_param(x, "name");
    struct tn_error err;

    for (size_t i = 0; i < tn_plugins_count(hand); i++) {
        if (strcmp(tn_plugins_at(hand, i)->name, name) == 0)
            return tn_plugins_at(hand, i);
    }
    tn_fail(&err, TN_E_NOT_FOUND, "there is no plugin '%.60s'", name);
    tn_http_reply_error(x, &err);
    return NULL;
}

static void write_actions(const struct tn_plugin_action *action, struct tn_jw *w)
{
    tn_jw_key(w, "actions");
    tn_jw_array(w);
    for (; action->execute; action++) {
        tn_jw_object(w);
        tn_jw_kstr(w, "name", tn_action_name(action->type));
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
}

static void write_plugin(struct tn_hand *hand, const struct tn_plugin *plugin, struct tn_jw *w)
{
    void *state = tn_plugin_state(hand, plugin);
    tn_autobuf struct tn_buf found = TN_BUF_INIT(8192);
    struct tn_error err = {0};
    bool usable = plugin->probe(state, &found, &err) == 0;

    tn_jw_object(w);
    tn_jw_kstr(w, "name", plugin->name);
    tn_jw_kstr(w, "help", plugin->help);
    tn_jw_kbool(w, "enabled", tn_plugin_enabled(hand, plugin));
    tn_jw_kbool(w, "usable", usable);
    tn_jw_kstr(w, "found", usable ? tn_buf_str(&found) : NULL);
    tn_jw_kstr(w, "missing", usable ? NULL : err.text);
    tn_jw_kstr(w, "install", usable ? NULL : plugin->install);
    if (plugin->actions)
        write_actions(plugin->actions, w);
    plugin->status(state, w);
    tn_jw_object_end(w);
}

static void reply_plugin(struct tn_http_exchange *x, struct tn_hand *hand,
                         const struct tn_plugin *plugin)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(JSON_MAX);
    struct tn_jw w = tn_jw(&json);

    write_plugin(hand, plugin, &w);
    tn_http_reply_json(x, 200, &json);
}

static void list_plugins(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(JSON_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_key(&w, "plugins");
    tn_jw_array(&w);
    for (size_t i = 0; i < tn_plugins_count(hand); i++)
        write_plugin(hand, tn_plugins_at(hand, i), &w);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void get_plugin(struct tn_http_exchange *x, void *ctx)
{
    const struct tn_plugin *plugin = plugin_in_path(x, ctx);

    if (plugin)
        reply_plugin(x, ctx, plugin);
}

static void start_plugin(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    const struct tn_plugin *plugin = plugin_in_path(x, hand);
    int64_t seconds = plugin ? tn_v1_query_number(x, "timeout", hand->options.plugin_seconds) : -1;
    struct tn_error err = {0};

    if (seconds < 0)
        return; /* answered */
    int64_t deadline = tn_deadline_in((double)seconds);
    if (tn_plugin_enable(hand, plugin, &err) < 0 ||
        plugin->start(tn_plugin_state(hand, plugin), deadline, &err) < 0)
        tn_http_reply_error(x, &err);
    else
        reply_plugin(x, hand, plugin);
}

static void stop_plugin(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    const struct tn_plugin *plugin = plugin_in_path(x, hand);

    if (!plugin)
        return;
    plugin->stop(tn_plugin_state(hand, plugin));
    reply_plugin(x, hand, plugin);
}

static void interrupt_plugin(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    const struct tn_plugin *plugin = plugin_in_path(x, hand);

    if (!plugin)
        return;
    if (plugin->cancel)
        plugin->cancel(tn_plugin_state(hand, plugin));
    reply_plugin(x, hand, plugin);
}

const struct tn_route tn_routes_plugins[] = {
    {"GET", "/v1/plugins", list_plugins, "abilities: what is there, runs, is missing", 0},
    {"GET", "/v1/plugins/{name}", get_plugin, "one of them", 0},
    {"POST", "/v1/plugins/{name}/start", start_plugin, "starts it, and waits until it is ready", 0},
    {"POST", "/v1/plugins/{name}/interrupt", interrupt_plugin, "ends what it is doing now", 0},
    {"POST", "/v1/plugins/{name}/stop", stop_plugin, "ends it; its next use starts it again", 0},
    {0},
};
