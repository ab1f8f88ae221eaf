#include "runtime/mcp/sandbox.h"

#include <pthread.h>

#include "base/clock.h"
#include "runtime/hand-address.h"
#include "runtime/hand-answer.h"

#define UPDATE "/update_mcp_server"
#define UPDATE_SECONDS 60.0
#define BASE "http://localhost"

struct mcp_sandbox {
    tn_toolbox_reach_fn reach;
    void *reach_ctx;
    tn_toolbox_note_fn note;
    void *note_ctx;
    pthread_mutex_t lock; /* of what follows */
    struct mcp_programs programs;
    bool told;       /* of some programs, */
    bool news;       /* but not of all of them */
    char *complaint; /* what it said last, or NULL */
};

struct mcp_sandbox *mcp_sandbox_new(const struct tn_toolbox_options *o)
{
    struct mcp_sandbox *s = tn_calloc(1, sizeof *s);

    s->reach = o->reach;
    s->reach_ctx = o->reach_ctx;
    s->note = o->note;
    s->note_ctx = o->note_ctx;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void mcp_sandbox_free(struct mcp_sandbox *s)
{
    mcp_programs_done(&s->programs);
    free(s->complaint);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

bool mcp_sandbox_add(struct mcp_sandbox *s, const struct tn_json *list)
{
    pthread_mutex_lock(&s->lock);
    bool added = mcp_programs_add(&s->programs, list);
    s->news |= added;
    pthread_mutex_unlock(&s->lock);
    return added;
}

bool mcp_sandbox_used(struct mcp_sandbox *s)
{
    pthread_mutex_lock(&s->lock);
    bool used = s->programs.count > 0;
    pthread_mutex_unlock(&s->lock);
    return used;
}

/* --- the update ----------------------------------------------------------------------------- */

static void note_log(struct mcp_sandbox *s, const struct tn_buf *answer)
{
    tn_autojson struct tn_json *json = NULL;

    tn_json_parse(tn_buf_str(answer), answer->len, &json, NULL);
    const char *log = tn_json_get_str(json, "router_error_log", "");
    pthread_mutex_lock(&s->lock);
    free(s->complaint);
    s->complaint = *log ? tn_strdup(log) : NULL;
    pthread_mutex_unlock(&s->lock);
    if (*log && s->note) {
        tn_autofree char *text = tn_asprintf("MCP servers in the sandbox: %s", log);
        s->note(text, s->note_ctx);
    }
}

static void write_programs(struct mcp_sandbox *s, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    pthread_mutex_lock(&s->lock);
    mcp_programs_put(&s->programs, &w);
    s->told = true;
    s->news = false;
    pthread_mutex_unlock(&s->lock);
}

/* The status of the answer, or -1. */
static int send_programs(struct mcp_sandbox *s, const char *address, const char *key,
                         int64_t deadline, struct tn_buf *answer, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(16 << 20);
    struct tn_http_client *http = tn_hand_http(address, key, err);
    int64_t limit = tn_deadline_in(UPDATE_SECONDS);

    if (!http)
        return -1;
    write_programs(s, &body);
    const struct tn_http_call call = {
        .method = "POST",
        .target = UPDATE,
        .type = "application/json",
        .body = tn_buf_str(&body),
        .body_len = body.len,
        .deadline = deadline < limit ? deadline : limit,
    };
    int status = tn_http_client_call(http, &call, answer, err);
    tn_http_client_free(http);
    if (body.data)
        explicit_bzero(body.data, body.len);
    return status;
}

static int update(struct mcp_sandbox *s, const char *address, const char *key, int64_t deadline,
                  struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(1 << 20);
    int status = send_programs(s, address, key, deadline, &answer, err);

    if (status == 200) {
        note_log(s, &answer);
        return 0;
    }
    pthread_mutex_lock(&s->lock);
    s->news = true;
    pthread_mutex_unlock(&s->lock);
    if (status > 0)
        tn_hand_refused_text(status, tn_buf_str(&answer), answer.len, err);
    return tn_error_context(err, UPDATE);
}

void mcp_sandbox_complain(struct mcp_sandbox *s, tn_tool_problem_fn problem, void *ctx)
{
    struct tn_error err = {0};

    pthread_mutex_lock(&s->lock);
    if (s->complaint)
        tn_fail(&err, TN_E_PEER, "%s", s->complaint);
    pthread_mutex_unlock(&s->lock);
    if (err.code)
        problem("sandbox", &err, ctx);
}

/* --- the server ----------------------------------------------------------------------------- */

/* The sandbox may have been started anew, somewhere else and knowing nothing. */
static int before(void *ctx, struct mcp_server *server, int64_t deadline, struct tn_error *err)
{
    struct mcp_sandbox *s = ctx;
    tn_autofree char *address = NULL, *key = NULL;

    if (s->reach(s->reach_ctx, &address, &key, deadline, err) < 0 ||
        update(s, address, key, deadline, err) < 0)
        return -1;
    free(server->address);
    server->address = TN_TAKE_PTR(address);
    free(server->key);
    server->key = TN_TAKE_PTR(key);
    return 0;
}

struct mcp_server mcp_sandbox_server(struct mcp_sandbox *s, const char *session)
{
    return (struct mcp_server){
        .label = tn_strdup("sandbox"),
        .ways = {{&mcp_over_http, tn_strdup(BASE "/mcp")},
                 {&mcp_over_sse, tn_strdup(BASE "/mcp/sse")}},
        .session = tn_strdup_or_null(session),
        .before = before,
        .ctx = s,
    };
}

int mcp_sandbox_update(struct mcp_sandbox *s, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *address = NULL, *key = NULL;

    pthread_mutex_lock(&s->lock);
    bool needed = s->told && s->news;
    pthread_mutex_unlock(&s->lock);
    if (!needed)
        return 0;
    if (s->reach(s->reach_ctx, &address, &key, deadline, err) < 0 ||
        update(s, address, key, deadline, err) < 0)
        return -1;
    return 1;
}
