/* Terminals of the toolbox: a shell each, with a name of the client's. */
#include <strings.h>

#include "base/base64.h"
#include "service/daytona/daytona.h"
#include "service/openhands.h"

#define TAG "pty:"
#define ENVS "X-Daytona-Pty-Envs~"
enum { ENVS_MAX = 32 << 10 };

static void put_info(struct tn_jw *w, const struct tn_process_status *s)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "id", s->spec.tag + sizeof TAG - 1);
    tn_jw_kstr(w, "cwd", s->spec.cwd ? s->spec.cwd : "/");
    tn_jw_key(w, "envs");
    if (s->spec.env)
        tn_jw_tree(w, s->spec.env);
    else
        tn_jw_raw(w, "{}", 2);
    tn_jw_kint(w, "cols", s->spec.columns);
    tn_jw_kint(w, "rows", s->spec.rows);
    openhands_put_time(w, "createdAt", s->started);
    tn_jw_kbool(w, "active", s->running);
    tn_jw_kbool(w, "lazyStart", false);
    tn_jw_object_end(w);
}

/* The terminal of that name; -1: answered. */
static int find(struct daytona_call *c, const char *name, struct tn_process_status *out)
{
    tn_autofree char *which = tn_asprintf("tag:" TAG "%s", name);
    struct tn_error err = {0};

    if (daytona_is_name(name) &&
        process_look(c->b, which, out, tn_deadline_in(DAYTONA_SECONDS), &err) == 0)
        return 0;
    return daytona_fail(c->x, 404, NULL, "PTY session %.100s not found", name);
}

/* Members id, cwd, envs, cols, rows; -1: answered. */
static int start(struct daytona_call *c, const struct tn_json *wish, struct process_started *out)
{
    const char *name = tn_json_get_str(wish, "id", "");
    tn_autofree char *which = tn_asprintf("tag:" TAG "%s", name);
    tn_autoprocess struct tn_process_spec spec = {0};
    tn_autostatus struct tn_process_status before = {0};
    struct tn_error err = {0};

    if (!daytona_is_name(name))
        return daytona_fail(c->x, 400, NULL, "id: expected letters, digits, '.', '_' and '-'");
    if (process_look(c->b, which, &before, tn_deadline_in(DAYTONA_SECONDS), NULL) == 0 &&
        before.running)
        return daytona_fail(c->x, 409, "CONFLICT", "PTY session %s exists already", name);
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return -1;
    daytona_spec(c, &spec, (const char *const[]){daytona_shell(f), "-i", NULL});
    spec.tag = tn_asprintf(TAG "%s", name);
    spec.pty = spec.input = true;
    spec.columns = tn_json_int(tn_json_get(wish, "cols"), 80);
    spec.rows = tn_json_int(tn_json_get(wish, "rows"), 24);
    if (daytona_read_spec(c, wish, &spec, &err) == 0 && daytona_start(c, &spec, out, &err) == 0)
        return 0;
    reply_error(c->x, &err);
    return -1;
}

static void post_pty(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);
    struct process_started started;

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body) || start(c, body, &started))
        return;
    tn_jw_object(&w);
    tn_jw_kstr(&w, "sessionId", tn_json_get_str(body, "id", ""));
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 201, &json);
}

/* Variables come among the offered protocols: base64url of an object. */
static void put_envs(struct daytona_call *c, struct tn_jw *w)
{
    const char *offered = tn_http_header(c->x, "Sec-WebSocket-Protocol");
    const char *at = offered ? strstr(offered, ENVS) : NULL;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(ENVS_MAX), bytes = TN_BUF_INIT(ENVS_MAX);
    tn_autojson struct tn_json *envs = NULL;

    if (!at)
        return;
    at += sizeof ENVS - 1;
    for (size_t n = strcspn(at, ", "); n; n--, at++)
        tn_buf_putc(&text, *at == '-' ? '+' : *at == '_' ? '/' : *at);
    while (text.len % 4)
        tn_buf_putc(&text, '=');
    if (tn_base64_decode(&bytes, tn_buf_str(&text), text.len, NULL) < 0 ||
        tn_json_parse(tn_buf_str(&bytes), bytes.len, &envs, NULL))
        return;
    tn_jw_key(w, "envs");
    tn_jw_tree(w, envs);
}

/* The same as POST and connect in one, its members in the query. */
static void create_connect(struct daytona_call *c)
{
    static const char *const texts[] = {"id", "cwd"}, *const numbers[] = {"cols", "rows"};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(2 * ENVS_MAX);
    tn_autojson struct tn_json *wish = NULL;
    struct tn_jw w = tn_jw(&text);
    struct process_started started;
    struct tn_error err = {0};

    tn_jw_object(&w);
    for (size_t i = 0; i < TN_COUNT(texts); i++) {
        const char *value = tn_http_query(c->x, texts[i]), *size = tn_http_query(c->x, numbers[i]);
        if (value && *value)
            tn_jw_kstr(&w, texts[i], value);
        if (size)
            tn_jw_kint(&w, numbers[i], strtoll(size, NULL, 10));
    }
    put_envs(c, &w);
    tn_jw_object_end(&w);
    if (tn_json_parse(tn_buf_str(&text), text.len, &wish, &err))
        reply_error(c->x, &err);
    else if (start(c, wish, &started) == 0)
        daytona_stream(c, started.id, true);
}

static void connect_pty(struct daytona_call *c)
{
    tn_autostatus struct tn_process_status status = {0};

    if (find(c, c->words[0], &status) == 0)
        daytona_stream(c, status.id, true);
}

static int list_one(const struct tn_process_status *s, void *w)
{
    if (s->running && s->spec.tag && strncmp(s->spec.tag, TAG, sizeof TAG - 1) == 0)
        put_info(w, s);
    return 0;
}

static void get_ptys(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    tn_jw_object(&w);
    tn_jw_key(&w, "sessions");
    tn_jw_array(&w);
    if (process_list(c->b, list_one, &w, tn_deadline_in(DAYTONA_SECONDS), &err)) {
        reply_error(c->x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

static void answer_info(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    tn_autostatus struct tn_process_status status = {0};
    struct tn_jw w = tn_jw(&json);

    if (find(c, c->words[0], &status))
        return;
    put_info(&w, &status);
    tn_http_reply_json(c->x, 200, &json);
}

static void delete_pty(struct daytona_call *c)
{
    tn_autostatus struct tn_process_status status = {0};
    struct tn_error err = {0};

    if (find(c, c->words[0], &status))
        return;
    if (process_remove(c->b, status.id, tn_deadline_in(DAYTONA_SECONDS), &err))
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 200, "application/json", "{}", 2);
}

static void post_resize(struct daytona_call *c)
{
    tn_autostatus struct tn_process_status status = {0};
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body) || find(c, c->words[0], &status))
        return;
    if (process_resize(c->b, status.id, tn_json_int(tn_json_get(body, "cols"), 80),
                       tn_json_int(tn_json_get(body, "rows"), 24), tn_deadline_in(DAYTONA_SECONDS),
                       &err))
        reply_error(c->x, &err);
    else
        answer_info(c);
}

const struct daytona_row daytona_pty_rows[] = {
    {"GET", "process/pty/create-connect", create_connect, NULL},
    {"POST", "process/pty", post_pty, NULL},
    {"GET", "process/pty", get_ptys, NULL},
    {"GET", "process/pty/*", answer_info, NULL},
    {"DELETE", "process/pty/*", delete_pty, NULL},
    {"POST", "process/pty/*/resize", post_resize, NULL},
    {"GET", "process/pty/*/connect", connect_pty, NULL},
    {0},
};
