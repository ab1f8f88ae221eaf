/* The servers of [mcp], checked and brought to one form: objects with all their members. */
#include <strings.h>

#include "base/nearest.h"
#include "base/words.h"
#include "runtime/config-sections.h"

static const char *const schemes[] = {"http://", "https://", "ws://", "wss://"};

/* --- URLs --------------------------------------------------------------------------------- */

int tn_config_check_mcp_url(const char *url, struct tn_error *err)
{
    const char *found = NULL;

    if (!url || !*url)
        return tn_fail(err, TN_E_INVALID, "url is missing");
    for (size_t i = 0; i < TN_COUNT(schemes); i++)
        if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0)
            found = url + strlen(schemes[i]);
    if (!found || !*found || *found == '/' || strpbrk(url, " \t\r\n"))
        return tn_fail(err, TN_E_INVALID,
                       "url: expected http://, https://, ws:// or wss:// and a host");
    return 0;
}

/* --- arguments in one text ---------------------------------------------------------------- */

static int write_words(struct tn_jw *w, const char *text, struct tn_error *err)
{
    tn_jw_array(w);
    for (const char *at = text; *(at += strspn(at, TN_WORD_SPACE));) {
        tn_autobuf struct tn_buf word = TN_BUF_INIT(1 << 20);
        if (!(at = tn_word_next(at, &word, err)))
            return tn_error_context(err, "args");
        tn_jw_str(w, tn_buf_str(&word));
    }
    tn_jw_array_end(w);
    return 0;
}

static int write_args(struct tn_jw *w, const struct tn_json *args, struct tn_error *err)
{
    if (tn_json_type(args) == TN_JSON_STRING)
        return write_words(w, tn_json_str(args, NULL), err);
    if (args && tn_json_type(args) != TN_JSON_ARRAY)
        return tn_fail(err, TN_E_INVALID, "args: expected a list or a text, found %s",
                       tn_json_type_name(args));
    tn_jw_array(w);
    for (size_t i = 0, n = tn_json_count(args); i < n; i++) {
        const char *s = tn_json_str(tn_json_at(args, i), NULL);
        if (!s)
            return tn_fail(err, TN_E_INVALID, "args: expected strings, found %s",
                           tn_json_type_name(tn_json_at(args, i)));
        tn_jw_str(w, s);
    }
    tn_jw_array_end(w);
    return 0;
}

/* --- environment -------------------------------------------------------------------------- */

struct pairs {
    struct tn_jw *w;
    struct tn_error *err;
};

static int write_pair(const char *key, struct tn_json *value, void *ctx)
{
    struct pairs *p = ctx;

    if (!tn_json_str(value, NULL))
        return tn_fail(p->err, TN_E_INVALID, "env: %.60s: expected text, found %s", key,
                       tn_json_type_name(value));
    tn_jw_kstr(p->w, key, tn_json_str(value, NULL));
    return 0;
}

/* K=V,K=V */
static int write_pair_text(struct tn_jw *w, const char *text, struct tn_error *err)
{
    while (*text) {
        tn_autofree char *pair = tn_strndup(text, strcspn(text, ","));
        char *from = pair + strspn(pair, " ");
        char *equals = strchr(from, '=');
        text += strlen(pair) + (text[strlen(pair)] == ',');
        if (!*from)
            continue;
        if (!equals || equals == from)
            return tn_fail(err, TN_E_INVALID, "env: expected NAME=VALUE,NAME=VALUE,...");
        *equals = '\0';
        tn_jw_kstr(w, from, equals + 1);
    }
    return 0;
}

static int write_env(struct tn_jw *w, const struct tn_json *env, struct tn_error *err)
{
    struct pairs p = {.w = w, .err = err};
    int result = 0;

    tn_jw_object(w);
    if (tn_json_type(env) == TN_JSON_STRING)
        result = write_pair_text(w, tn_json_str(env, NULL), err);
    else if (!env || tn_json_type(env) == TN_JSON_OBJECT)
        result = tn_json_each(env, write_pair, &p);
    else
        result = tn_fail(err, TN_E_INVALID, "env: expected an object or a text, found %s",
                         tn_json_type_name(env));
    tn_jw_object_end(w);
    return result;
}

/* --- one server of each kind -------------------------------------------------------------- */

static int write_url_server(struct tn_jw *w, const struct tn_json *v, struct tn_error *err)
{
    const char *url = tn_json_str(v, NULL);
    const struct tn_json *key = tn_json_get(v, "api_key");

    if (!url)
        url = tn_json_get_str(v, "url", NULL);
    if (tn_config_check_mcp_url(url, err) < 0)
        return -1;
    if (key && !tn_json_str(key, NULL))
        return tn_fail(err, TN_E_INVALID, "api_key: expected text, found %s",
                       tn_json_type_name(key));
    tn_jw_kstr(w, "url", url);
    tn_jw_kstr(w, "api_key", tn_json_str(key, NULL));
    return 0;
}

static int write_shttp_server(struct tn_jw *w, const struct tn_json *v, struct tn_error *err)
{
    int64_t timeout = tn_json_int(tn_json_get(v, "timeout"), tn_json_get(v, "timeout") ? -1 : 60);

    if (write_url_server(w, v, err) < 0)
        return -1;
    if (timeout < 1 || timeout > 3600)
        return tn_fail(err, TN_E_INVALID, "timeout: expected seconds from 1 to 3600");
    tn_jw_kint(w, "timeout", timeout);
    return 0;
}

static int write_stdio_server(struct tn_jw *w, const struct tn_json *v, struct tn_error *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *name = tn_json_get_str(v, "name", ""), *command = tn_json_get_str(v, "command", "");

    if (!*name || name[strspn(name, letters)])
        return tn_fail(err, TN_E_INVALID, "name: expected letters, digits, '_' and '-'");
    if (!*command || strpbrk(command, " \t\r\n"))
        return tn_fail(err, TN_E_INVALID,
                       "%.60s: command: expected one word (what follows belongs in args)", name);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "command", command);
    tn_jw_key(w, "args");
    if (write_args(w, tn_json_get(v, "args"), err) < 0)
        return tn_error_context(err, "%.60s", name);
    tn_jw_key(w, "env");
    if (write_env(w, tn_json_get(v, "env"), err) < 0)
        return tn_error_context(err, "%.60s", name);
    return 0;
}

/* --- the three lists ---------------------------------------------------------------------- */

struct kind {
    const char *key;
    const char *unique; /* the member that no two may share */
    const char *members[5];
    bool text; /* a plain URL will do */
    int (*write)(struct tn_jw *w, const struct tn_json *v, struct tn_error *err);
};

static const struct kind kinds[] = {
    {"sse_servers", "url", {"url", "api_key"}, true, write_url_server},
    {"shttp_servers", "url", {"url", "api_key", "timeout"}, true, write_shttp_server},
    {"stdio_servers", "name", {"name", "command", "args", "env"}, false, write_stdio_server},
};

struct members {
    struct tn_config *config;
    const struct kind *kind;
};

static int warn_if_unknown(const char *key, struct tn_json *value, void *ctx)
{
    const struct members *m = ctx;
    struct tn_nearest near = tn_nearest(key);

    for (size_t i = 0; m->kind->members[i]; i++) {
        if (strcmp(m->kind->members[i], key) == 0)
            return 0;
        tn_nearest_offer(&near, m->kind->members[i]);
    }
    tn_config_warn(m->config, "mcp.%s: unknown key %.60s%s%s%s", m->kind->key, key,
                   near.best ? "; did you mean " : "", near.best ? near.best : "",
                   near.best ? "?" : "");
    return 0;
}

static int refuse_twice(const struct kind *kind, const struct tn_json *list, struct tn_error *err)
{
    for (size_t i = 0, n = tn_json_count(list); i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(tn_json_get_str(tn_json_at(list, i), kind->unique, ""),
                       tn_json_get_str(tn_json_at(list, k), kind->unique, "")) == 0)
                return tn_fail(err, TN_E_INVALID, "items %zu and %zu have the same %s", k + 1,
                               i + 1, kind->unique);
    return 0;
}

/* The list in its long form, with complaints to c, if there is one. */
static int settle_list(struct tn_config *c, const struct kind *kind, const struct tn_json *list,
                       struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16u << 20);
    tn_autojson struct tn_json *settled = NULL;
    struct tn_jw w = tn_jw(&text);
    struct members m = {.config = c, .kind = kind};

    tn_jw_array(&w);
    for (size_t i = 0, n = tn_json_count(list); i < n; i++) {
        const struct tn_json *v = tn_json_at(list, i);
        enum tn_json_type type = tn_json_type(v);
        if (type != TN_JSON_OBJECT && !(kind->text && type == TN_JSON_STRING))
            return tn_fail(err, TN_E_INVALID, "item %zu: expected an object%s, found %s", i + 1,
                           kind->text ? " or a URL" : "", tn_json_type_name(v));
        if (c)
            tn_json_each(v, warn_if_unknown, &m);
        tn_jw_object(&w);
        if (kind->write(&w, v, err) < 0)
            return tn_error_context(err, "item %zu", i + 1);
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "too large");
    if (tn_json_parse(text.data, text.len, &settled, err) < 0 ||
        refuse_twice(kind, settled, err) < 0)
        return -1;
    *out = TN_TAKE_PTR(settled);
    return 0;
}

int tn_config_settle_programs(const struct tn_json *list, struct tn_json **out,
                              struct tn_error *err)
{
    const struct kind *kind = &kinds[TN_COUNT(kinds) - 1];

    if (tn_json_type(list) != TN_JSON_ARRAY)
        return tn_fail(err, TN_E_INVALID, "%s: expected a list, found %s", kind->key,
                       tn_json_type_name(list));
    return settle_list(NULL, kind, list, out, err) < 0 ? tn_error_context(err, "%s", kind->key) : 0;
}

int tn_config_finalise_mcp(struct tn_config *c, struct tn_error *err)
{
    struct tn_json **const lists[] = {&c->mcp.sse_servers, &c->mcp.shttp_servers,
                                      &c->mcp.stdio_servers};

    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        struct tn_json *settled;
        if (!*lists[i])
            continue;
        if (settle_list(c, &kinds[i], *lists[i], &settled, err) < 0)
            return tn_error_context(err, "mcp.%s", kinds[i].key);
        tn_json_free(*lists[i]);
        *lists[i] = settled;
    }
    return 0;
}
