/* envd, the agent inside: files, processes (Connect's protocol with JSON), names of ports. */
#include "base/base64.h"
#include "base/clock.h"
#include "net/url.h"
#include "runtime/cloud/e2b/e2b.h"

enum {
    ENVD_PORT = 49983,
    EVENT_MAX = 1 << 20, /* of one event; envd's own have 32 KiB of output at most */
    ANSWER_MAX = 1 << 20,
    HEADERS = 8,
};

/* --- where it is ------------------------------------------------------------------------------ */

char *e2b_port(const struct cloud *c, struct cloud_view *v, int port, int64_t deadline,
               struct tn_error *err)
{
    /* As secure as the control plane is. */
    return c->unmarked ? tn_asprintf("http://localhost:%d", port)
                       : tn_asprintf("%.*s://%d-%s.%s", (int)strcspn(c->line.url, ":"), c->line.url,
                                     port, v->id, v->domain ? v->domain : e2b_of(c)->domain);
}

char *e2b_address(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                  struct tn_error *err)
{
    const struct e2b *e = e2b_of(c);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    tn_autofree char *url = e2b_port(c, v, CLOUD_HAND_PORT, deadline, err);
    const char *before = "#";

    tn_buf_puts(&out, e->sandbox_url && !c->unmarked ? e->sandbox_url : url);
    if (e->sandbox_url && !c->unmarked) {
        tn_buf_puts(&out, "#Host=");
        tn_url_encode(&out, strstr(url, "://") + 3, "");
        before = "&";
    }
    if (v->entry) {
        tn_buf_printf(&out, "%sE2b-Traffic-Access-Token=", before);
        tn_url_encode(&out, v->entry, "");
    }
    if (!tn_buf_ok(&out)) {
        tn_fail(err, TN_E_PEER, "E2B: its names and tokens are too long");
        return NULL;
    }
    return tn_buf_take(&out);
}

/* --- one request ------------------------------------------------------------------------------ */

/* Who a request goes to, with its headers. */
struct agent {
    struct cloud_line line;
    const char *headers[HEADERS];
    char *owned[HEADERS];
    size_t count;
};

static void agent_done(struct agent *a)
{
    for (size_t i = 0; i < a->count; i++) {
        explicit_bzero(a->owned[i], strlen(a->owned[i]));
        free(a->owned[i]);
    }
}
#define autoagent TN_CLEANUP(agent_done)

static void add_header(struct agent *a, char *line)
{
    a->headers[a->count] = a->owned[a->count] = line;
    a->count++;
}

static int reach(const struct cloud *c, struct cloud_view *v, struct agent *a, struct tn_error *err)
{
    const struct e2b *e = e2b_of(c);

    *a = (struct agent){
        .line = {.who = "E2B's envd", .secrets = {v->token}},
    };
    if (!e->agents && !v->agent) {
        tn_autofree char *url = e2b_port(c, v, ENVD_PORT, 0, err);
        struct tn_web_options options = {.base = url};
        v->agent = tn_web_new(&options, err);
        if (!v->agent)
            return -1;
    }
    a->line.web = e->agents ? e->agents : v->agent;
    add_header(a, tn_asprintf("E2b-Sandbox-Id: %s", v->id));
    add_header(a, tn_asprintf("E2b-Sandbox-Port: %d", ENVD_PORT));
    if (v->token)
        add_header(a, tn_asprintf("X-Access-Token: %s", v->token));
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

int e2b_put(const struct cloud *c, struct cloud_view *v, const char *user, const char *path,
            const void *bytes, size_t n, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *named = cloud_target("/files?path=", path, user ? "&username=" : "");
    tn_autofree char *target = cloud_target(named, user ? user : "", "");
    autoagent struct agent a = {0};

    if (reach(c, v, &a, err) < 0)
        return -1;
    return cloud_upload(&a.line, target, a.headers, NULL, bytes, n, deadline, err);
}

/* --- processes -------------------------------------------------------------------------------- */

void e2b_events_init(struct e2b_events *e, tn_log_fn out, void *ctx)
{
    *e = (struct e2b_events){.out = out, .ctx = ctx};
    tn_frame_reader_init(&e->frames, EVENT_MAX);
}

void e2b_events_done(struct e2b_events *e)
{
    tn_frame_reader_done(&e->frames);
    free(e->problem);
}

/* envd says "signal: killed", and a shell 128 and the number. */
static int status_of(const struct tn_json *end)
{
    static const struct {
        const char *text;
        int number;
    } signals[] = {{"signal: killed", 9},    {"signal: terminated", 15},
                   {"signal: interrupt", 2}, {"signal: segmentation fault", 11},
                   {"signal: aborted", 6},   {"signal: hangup", 1}};
    const char *text = tn_json_get_str(end, "status", "");
    const struct tn_json *code = tn_json_get(end, "exitCode");
    int64_t value = tn_json_int(code ? code : tn_json_get(end, "exit_code"), 0);

    for (size_t i = 0; i < TN_COUNT(signals); i++)
        if (strcmp(signals[i].text, text) == 0)
            return 128 + signals[i].number;
    return value >= 0 && value <= 255 ? (int)value : 255;
}

static int take_output(struct e2b_events *e, const struct tn_json *data)
{
    static const char *const streams[] = {"stdout", "stderr", "pty"};

    for (size_t i = 0; i < TN_COUNT(streams); i++) {
        tn_autobuf struct tn_buf bytes = TN_BUF_INIT(EVENT_MAX);
        size_t n = 0;
        const char *text = tn_json_str(tn_json_get(data, streams[i]), &n);
        if (!text || tn_base64_decode(&bytes, text, n, NULL) < 0 || !bytes.len)
            continue;
        if (e->out(bytes.data, bytes.len, e->ctx)) {
            e->stopped = true;
            return 1;
        }
    }
    return 0;
}

static const struct {
    const char *word;
    enum tn_code code;
} codes[] = {
    {"not_found", TN_E_NOT_FOUND},        {"unauthenticated", TN_E_DENIED},
    {"permission_denied", TN_E_DENIED},   {"deadline_exceeded", TN_E_TIMEOUT},
    {"invalid_argument", TN_E_INVALID},   {"resource_exhausted", TN_E_BUSY},
    {"failed_precondition", TN_E_DENIED}, {"unimplemented", TN_E_UNSUPPORTED},
};

static int take_event(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    struct e2b_events *e = ctx;
    tn_autojson struct tn_json *tree = NULL;
    bool last = kind & 2;

    if (kind & 1 || tn_json_parse((const char *)bytes, n, &tree, NULL) < 0) {
        e->problem = tn_strdup("its stream makes no sense");
        return 1;
    }
    const struct tn_json *event = tn_json_get(tree, "event"), *error = tn_json_get(tree, "error");
    const struct tn_json *end = tn_json_get(event, "end");
    if (end) {
        e->exited = true;
        e->status = status_of(end);
    }
    if (last && error) {
        tn_autofree char *text =
            tn_asprintf("%.60s: %.400s", tn_json_get_str(error, "code", "unknown"),
                        tn_json_get_str(error, "message", ""));
        e->problem = cloud_sentence(text);
    }
    e->ended = last;
    return last || take_output(e, tn_json_get(event, "data"));
}

int e2b_events_feed(const void *bytes, size_t n, void *ctx)
{
    struct e2b_events *e = ctx;
    int stop = tn_frame_read(&e->frames, bytes, n, take_event, e, NULL);

    if (stop < 0 && !e->problem)
        e->problem = tn_strdup("its stream makes no sense");
    return stop;
}

static int put_member(const char *name, struct tn_json *value, void *ctx)
{
    tn_jw_key(ctx, name);
    tn_jw_tree(ctx, value);
    return 0;
}

/* One envelope. */
static int write_start(const struct cloud_run *run, struct tn_buf *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(CLOUD_BODY_MAX);
    unsigned char head[TN_FRAME_HEAD];
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_key(&w, "process");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "cmd", run->argv[0]);
    tn_jw_key(&w, "args");
    tn_jw_array(&w);
    for (const char *const *word = run->argv + 1; *word; word++)
        tn_jw_str(&w, *word);
    tn_jw_array_end(&w);
    if (run->cwd)
        tn_jw_kstr(&w, "cwd", run->cwd);
    tn_jw_key(&w, "envs");
    tn_jw_object(&w);
    tn_json_each(run->env, put_member, &w);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    tn_jw_kbool(&w, "stdin", false);
    tn_jw_object_end(&w);
    tn_frame_head(head, 0, (uint32_t)json.len);
    tn_buf_add(out, head, sizeof head);
    tn_buf_add(out, tn_buf_str(&json), json.len);
    return tn_buf_ok(&json) && tn_buf_ok(out)
               ? 0
               : tn_fail(err, TN_E_TOO_LARGE, "the command is too long");
}

static void add_user(struct agent *a, const char *user)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1024);
    tn_autofree char *name = user ? tn_asprintf("%.100s:", user) : NULL;

    if (!name)
        return;
    tn_base64_encode(&text, name, strlen(name));
    add_header(a, tn_asprintf("Authorization: Basic %s", tn_buf_str(&text)));
}

static int judge(const struct e2b_events *e, int *status, struct tn_error *err)
{
    enum tn_code code = TN_E_PEER;

    if (e->stopped)
        return tn_fail(err, TN_E_TOO_LARGE, "its output was more than was wanted");
    if (e->exited) {
        *status = e->status;
        return 0;
    }
    for (size_t i = 0; e->problem && i < TN_COUNT(codes); i++) {
        size_t n = strlen(codes[i].word);
        if (strncmp(e->problem, codes[i].word, n) == 0 && e->problem[n] == ':')
            code = codes[i].code;
    }
    return tn_fail(err, code, "E2B's envd: %s",
                   e->problem ? e->problem : "its stream ended before the command did");
}

int e2b_run(const struct cloud *c, struct cloud_view *v, const struct cloud_run *run, int *status,
            int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(CLOUD_BODY_MAX);
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(ANSWER_MAX);
    TN_CLEANUP(e2b_events_done) struct e2b_events events;
    autoagent struct agent a = {0};
    int left = tn_poll_ms(deadline);

    e2b_events_init(&events, run->out, run->ctx);
    if (reach(c, v, &a, err) < 0 || write_start(run, &body, err) < 0)
        return -1;
    add_header(&a, tn_strdup("Connect-Protocol-Version: 1"));
    if (left >= 0) /* envd ends it then, whether we are still here or not */
        add_header(&a, tn_asprintf("Connect-Timeout-Ms: %d", left > 0 ? left : 1));
    add_user(&a, run->user);
    const struct cloud_call call = {
        .web = {.method = "POST",
                .target = "/process.Process/Start",
                .headers = a.headers,
                .type = "application/connect+json",
                .body = tn_buf_str(&body),
                .body_len = body.len,
                .sink = e2b_events_feed,
                .sink_ctx = &events},
        .unsafe = true,
    };
    if (cloud_ask_raw(&a.line, &call, &answer, deadline, err) < 0 && !events.exited)
        return -1;
    return judge(&events, status, err);
}
