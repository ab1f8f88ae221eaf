#include "runtime/mcp/servers.h"

/* --- at URLs -------------------------------------------------------------------------------- */

/* Without user, query and fragment, which may hold keys. */
static char *label_of(const char *url)
{
    const char *host = strstr(url, "://");
    size_t scheme = host ? (size_t)(host + 3 - url) : 0;
    size_t n = strcspn(url + scheme, "/?#");
    const char *at = memrchr(url + scheme, '@', n);
    const char *start = at ? at + 1 : url + scheme;

    return tn_asprintf("%.*s%.*s", (int)scheme, url, (int)strcspn(start, "?#"), start);
}

static struct mcp_server server_at(const char *url, const char *key, const char *session)
{
    return (struct mcp_server){
        .label = label_of(url),
        .key = key && *key ? tn_strdup(key) : NULL,
        .session = tn_strdup_or_null(session),
    };
}

struct mcp_server mcp_server_sse(const struct tn_json *entry, const char *session)
{
    const char *url = tn_json_get_str(entry, "url", "");
    struct mcp_server s = server_at(url, tn_json_get_str(entry, "api_key", NULL), session);

    s.ways[0] = (struct mcp_way){&mcp_over_sse, tn_strdup(url)};
    return s;
}

struct mcp_server mcp_server_shttp(const struct tn_json *entry, const char *session)
{
    const char *url = tn_json_get_str(entry, "url", "");
    struct mcp_server s = server_at(url, tn_json_get_str(entry, "api_key", NULL), session);

    s.ways[0] = (struct mcp_way){&mcp_over_http, tn_strdup(url)};
    s.timeout = tn_json_double(tn_json_get(entry, "timeout"), 60);
    return s;
}

struct mcp_server mcp_server_any(const char *url, const char *key, const char *session)
{
    struct mcp_server s = server_at(url, key, session);

    s.ways[0] = (struct mcp_way){&mcp_over_http, tn_strdup(url)};
    s.ways[1] = (struct mcp_way){&mcp_over_sse, tn_strdup(url)};
    return s;
}

/* --- programs on this machine --------------------------------------------------------------- */

/* What every program needs; keys and tokens of ours are none of its business. */
static char **plain_environment(void)
{
    static const char *const names[] = {"HOME", "LANG",  "LC_ALL", "LC_CTYPE", "LOGNAME",
                                        "PATH", "SHELL", "TERM",   "TMPDIR",   "USER"};
    char **env = tn_calloc(TN_COUNT(names) + 1, sizeof *env);
    size_t n = 0;

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value)
            env[n++] = tn_asprintf("%s=%s", names[i], value);
    }
    return env;
}

struct mcp_server mcp_server_program(const char *command)
{
    char **argv = tn_calloc(4, sizeof *argv);

    argv[0] = tn_strdup("/bin/sh");
    argv[1] = tn_strdup("-c");
    argv[2] = tn_asprintf("exec %s", command);
    return (struct mcp_server){
        .label = tn_strdup(command),
        .ways = {{&mcp_over_pipes, NULL}},
        .argv = argv,
        .env = plain_environment(),
    };
}

/* --- programs in the sandbox ---------------------------------------------------------------- */

static const char *name_of(const struct tn_json *program)
{
    return tn_json_get_str(program, "name", "");
}

/* As text, with the variables by name: equal programs have equal texts. */
static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct keys {
    const char **items;
    size_t count;
};

static int collect_key(const char *key, struct tn_json *value, void *ctx)
{
    struct keys *k = ctx;

    k->items[k->count++] = key;
    return 0;
}

static void put_canonical(const struct tn_json *program, struct tn_buf *out)
{
    const struct tn_json *env = tn_json_get(program, "env");
    tn_autofree const char **names = tn_calloc(tn_json_count(env), sizeof *names);
    struct keys keys = {.items = names};
    struct tn_jw w = tn_jw(out);

    tn_json_each(env, collect_key, &keys);
    qsort(names, keys.count, sizeof *names, by_key);
    tn_jw_array(&w);
    tn_jw_str(&w, name_of(program));
    tn_jw_str(&w, tn_json_get_str(program, "command", ""));
    tn_jw_tree(&w, tn_json_get(program, "args"));
    for (size_t i = 0; i < keys.count; i++) {
        tn_jw_str(&w, names[i]);
        tn_jw_tree(&w, tn_json_get(env, names[i]));
    }
    tn_jw_array_end(&w);
}

static bool same_program(const struct tn_json *a, const struct tn_json *b)
{
    tn_autobuf struct tn_buf first = TN_BUF_INIT(16 << 20), second = TN_BUF_INIT(16 << 20);

    put_canonical(a, &first);
    put_canonical(b, &second);
    return first.len == second.len && strcmp(tn_buf_str(&first), tn_buf_str(&second)) == 0;
}

void mcp_programs_done(struct mcp_programs *p)
{
    for (size_t i = 0; i < p->count; i++)
        tn_json_free(p->items[i]);
    free(p->items);
}

static bool add_one(struct mcp_programs *p, const struct tn_json *program)
{
    size_t at = 0;

    while (at < p->count && strcmp(name_of(p->items[at]), name_of(program)) < 0)
        at++;
    if (at < p->count && strcmp(name_of(p->items[at]), name_of(program)) == 0) {
        if (same_program(p->items[at], program))
            return false;
        tn_json_free(p->items[at]);
    } else {
        p->items = tn_realloc(p->items, (p->count + 1) * sizeof *p->items);
        memmove(p->items + at + 1, p->items + at, (p->count - at) * sizeof *p->items);
        p->count++;
    }
    p->items[at] = tn_json_copy(program);
    return true;
}

bool mcp_programs_add(struct mcp_programs *p, const struct tn_json *list)
{
    bool added = false;

    for (size_t i = 0, n = tn_json_count(list); i < n; i++)
        added |= add_one(p, tn_json_at(list, i));
    return added;
}

void mcp_programs_put(const struct mcp_programs *p, struct tn_jw *w)
{
    tn_jw_array(w);
    for (size_t i = 0; i < p->count; i++)
        tn_jw_tree(w, p->items[i]);
    tn_jw_array_end(w);
}

/* --- what follows from the configuration ---------------------------------------------------- */

#define SEARCH_NAME "tavily"
#define SEARCH_PACKAGE "tavily-mcp@0.2.1"
#define SEARCH_KEY_PREFIX "tvly-"

static bool has_program(const struct tn_json *list, const char *name)
{
    for (size_t i = 0, n = tn_json_count(list); i < n; i++)
        if (strcmp(name_of(tn_json_at(list, i)), name) == 0)
            return true;
    return false;
}

static void put_search(struct tn_jw *w, const char *key)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "name", SEARCH_NAME);
    tn_jw_kstr(w, "command", "npx");
    tn_jw_key(w, "args");
    tn_jw_array(w);
    tn_jw_str(w, "-y");
    tn_jw_str(w, SEARCH_PACKAGE);
    tn_jw_array_end(w);
    tn_jw_key(w, "env");
    tn_jw_object(w);
    tn_jw_kstr(w, "TAVILY_API_KEY", key);
    tn_jw_object_end(w);
    tn_jw_object_end(w);
}

/* A copy of the list with one entry more. */
static struct tn_json *extended(const struct tn_json *list,
                                void (*put)(struct tn_jw *w, const char *value), const char *value)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 20);
    struct tn_json *result = NULL;
    struct tn_jw w = tn_jw(&text);

    tn_jw_array(&w);
    for (size_t i = 0, n = tn_json_count(list); i < n; i++)
        tn_jw_tree(&w, tn_json_at(list, i));
    if (value)
        put(&w, value);
    tn_jw_array_end(&w);
    tn_json_parse(tn_buf_str(&text), text.len, &result, NULL);
    return result;
}

struct tn_json *mcp_default_programs(const struct tn_config *config)
{
    const struct tn_json *list = config->mcp.stdio_servers;
    const char *key = config->core.search_api_key;
    bool search = key && strncmp(key, SEARCH_KEY_PREFIX, strlen(SEARCH_KEY_PREFIX)) == 0 &&
                  !has_program(list, SEARCH_NAME);

    return extended(list, put_search, search ? key : NULL);
}

static void put_application(struct tn_jw *w, const char *host)
{
    tn_autofree char *url = tn_asprintf("http://%s/mcp/mcp", host);

    tn_jw_object(w);
    tn_jw_kstr(w, "url", url);
    tn_jw_kint(w, "timeout", 60);
    tn_jw_object_end(w);
}

struct tn_json *mcp_default_shttp(const struct tn_config *config)
{
    bool told = tn_config_origin(config, "core.mcp_host") != TN_FROM_DEFAULT;
    const char *host = config->core.mcp_host;

    return extended(config->mcp.shttp_servers, put_application,
                    told && host && *host ? host : NULL);
}
