/* Who judges actions here, and what follows: for the dashboard, and for whoever wonders. */
#include "security/judge.h"
#include "service/api-native.h"
#include "service/internal.h"

static void put_analyzer(struct tn_jw *w, const char *name)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "about", tn_judge_about(name));
    tn_jw_object_end(w);
}

static void put_analyzers(struct tn_jw *w, const struct tn_security_settings *s)
{
    bool openhands = s->confirmation_mode && s->security_analyzer && *s->security_analyzer;

    tn_jw_key(w, "analyzers");
    tn_jw_array(w);
    for (size_t i = 0; i < s->analyzers.count; i++) {
        openhands = openhands && strcmp(s->analyzers.items[i], s->security_analyzer) != 0;
        put_analyzer(w, s->analyzers.items[i]);
    }
    if (openhands)
        put_analyzer(w, s->security_analyzer);
    tn_jw_array_end(w);
}

static void put_thresholds(struct tn_jw *w, const char *key, const struct tn_thresholds *t)
{
    tn_jw_key(w, key);
    tn_jw_object(w);
    tn_fields_to_json(&tn_thresholds_fields, t, w);
    tn_jw_object_end(w);
}

static void get_security(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const struct tn_security_settings *settings = &tn_runtime_host(s->rt)->config->security;
    const struct tn_thresholds usual = tn_security_thresholds(settings);
    const struct tn_thresholds own = caller_thresholds(caller_of(x), &usual);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_object(&w);
    tn_jw_kbool(&w, "judged", tn_security_on(settings));
    put_analyzers(&w, settings);
    put_thresholds(&w, "service", &usual);
    put_thresholds(&w, "key", &own);
    tn_jw_key(&w, "key_analyzers");
    tn_thresholds_put_analyzers(&own, &w);
    tn_jw_kdouble(&w, "confirm_seconds", settings->confirm_seconds);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route routes_native_security[] = {
    {"GET", "/v1/security", get_security, "who judges actions, and what follows", 0},
    {0},
};
