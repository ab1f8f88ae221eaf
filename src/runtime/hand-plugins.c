#include "runtime/hand-plugins.h"

#include "base/clock.h"
#include "net/url.h"

enum { TARGET_MAX = 512, ANSWER_MAX = 4 << 20 };

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
