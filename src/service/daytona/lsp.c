/* Language servers: programs of the sandbox that speak LSP over their input and output.
 *
 * The service keeps nothing of them.  A server is a process whose tag says its language and
 * project; a question is written to its input, and the answer with its id is looked for in what
 * comes out from then on.  They are told that this client can do nothing, so they ask nothing. */
#include "service/daytona/daytona.h"

enum { MESSAGE_MAX = 16 << 20, TEXT_MAX = 4 << 20 };

static const struct {
    const char *language;
    const char *args[3];
} programs[] = {
    {"python", {"pylsp"}},
    {"python", {"pyright-langserver", "--stdio"}},
    {"typescript", {"typescript-language-server", "--stdio"}},
    {"javascript", {"typescript-language-server", "--stdio"}},
};

/* One server, and what is asked of it. */
struct lsp {
    struct daytona_call *c;
    const char *language; /* borrowed */
    char *project;
    char *path, *uri; /* of a document; or NULL */
    char which[sizeof "tag:lsp:" + SURFACE_TOKEN];
};

static void lsp_done(struct lsp *l)
{
    free(l->project);
    free(l->path);
    free(l->uri);
}
#define autolsp TN_CLEANUP(lsp_done)

static int open_lsp(struct daytona_call *c, const char *language, const char *project,
                    const char *uri, struct lsp *out)
{
    static const char scheme[] = "file://";
    char token[SURFACE_TOKEN];

    if (!language || !project)
        return daytona_fail(c->x, 400, NULL, "languageId and pathToProject: expected texts");
    *out = (struct lsp){.c = c, .language = language, .project = surface_path(c->home, project)};
    tn_autofree char *text = tn_asprintf("%s\n%s", language, out->project);
    surface_token(c->s, "lsp", text, token);
    snprintf(out->which, sizeof out->which, "tag:lsp:%s", token);
    if (!uri)
        return 0;
    if (strncmp(uri, scheme, sizeof scheme - 1) == 0)
        uri += sizeof scheme - 1;
    out->path = surface_path(out->project, uri);
    out->uri = tn_asprintf("%s%s", scheme, out->path);
    return 0;
}

/* --- messages -------------------------------------------------------------------------------- */

bool daytona_lsp_frame(const char *text, size_t n, size_t *begin, size_t *length)
{
    static const char head[] = "Content-Length: ";
    const size_t size = sizeof head - 1;
    const char *at = memmem(text, n, head, size), *end;
    size_t digits = 0;

    *length = 0;
    if (!at) { /* all but what may be the beginning of a head */
        *begin = n < size ? 0 : n - size + 1;
        return false;
    }
    *begin = (size_t)(at - text);
    const char *number = at + size;
    size_t left = n - *begin - size;
    for (; digits < left && digits < 9 && number[digits] >= '0' && number[digits] <= '9'; digits++)
        *length = *length * 10 + (size_t)(number[digits] - '0');
    end = memmem(number, left, "\r\n\r\n", 4);
    if (!end)
        return false;
    size_t body = (size_t)(end + 4 - text);
    if (n - body < *length)
        return false;
    *begin = body;
    return true;
}

struct answer {
    const struct lsp *l;
    struct tn_buf in;
    const char *id;
    struct tn_json *tree;
    struct tn_error *err;
};

/* Whether that message is the answer. */
static bool is_answer(struct answer *a, const char *text, size_t n)
{
    tn_autobuf struct tn_buf one = ANSWER_BUF(a->l->c->x, MESSAGE_MAX);

    if (!memmem(text, n, a->id, strlen(a->id)))
        return false;
    tn_buf_add(&one, text, n);
    if (hold_json(a->l->c->x, &one, &a->tree, NULL) == 0 &&
        strcmp(tn_json_get_str(a->tree, "id", ""), a->id) == 0 && !tn_json_has(a->tree, "method"))
        return true;
    tn_json_free(TN_TAKE_PTR(a->tree));
    return false;
}

static int take_piece(const struct tn_process_piece *piece, void *ctx)
{
    struct answer *a = ctx;
    size_t begin, length;

    if (piece->kind == TN_PROCESS_END)
        return tn_fail(a->err, TN_E_GONE, "the language server has ended");
    if (piece->kind != TN_PROCESS_OUT)
        return 0;
    if (tn_buf_add(&a->in, piece->bytes, piece->n))
        return tn_fail(a->err, TN_E_TOO_LARGE, "the language server says too much");
    while (daytona_lsp_frame(a->in.data, a->in.len, &begin, &length)) {
        if (is_answer(a, a->in.data + begin, length))
            return 1;
        tn_buf_eat(&a->in, begin + length);
    }
    tn_buf_eat(&a->in, begin);
    return 0;
}

static int send(const struct lsp *l, const struct tn_buf *message, struct tn_error *err)
{
    tn_autobuf struct tn_buf frame = ANSWER_BUF(l->c->x, MESSAGE_MAX);

    tn_buf_printf(&frame, "Content-Length: %zu\r\n\r\n", message->len);
    if (!tn_buf_ok(message) || tn_buf_add(&frame, message->data, message->len))
        return tn_fail(err, TN_E_TOO_LARGE, "it is too large for a language server");
    return process_input(l->c->b, l->which, UINT64_MAX, frame.data, frame.len, NULL,
                         tn_deadline_in(DAYTONA_SECONDS), err);
}

/* {"jsonrpc", "method", "id" (NULL: a notification), "params": {... , to be ended by `say`. */
static struct tn_jw begin_message(struct tn_buf *to, const char *method, const char *id)
{
    struct tn_jw w = tn_jw(to);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "jsonrpc", "2.0");
    tn_jw_kstr(&w, "method", method);
    if (id)
        tn_jw_kstr(&w, "id", id);
    tn_jw_key(&w, "params");
    tn_jw_object(&w);
    return w;
}

static int say(const struct lsp *l, struct tn_jw *w, const struct tn_buf *message,
               struct tn_error *err)
{
    tn_jw_object_end(w);
    tn_jw_object_end(w);
    return send(l, message, err);
}

static bool is_running(const struct lsp *l, struct tn_process_status *status)
{
    return process_look(l->c->b, l->which, status, tn_deadline_in(DAYTONA_SECONDS), NULL) == 0 &&
           status->running;
}

/* The same, and waits for the answer.  The caller frees it; its member "result" is what counts. */
static int ask(const struct lsp *l, struct tn_jw *w, const struct tn_buf *message,
               struct tn_json **out, struct tn_error *err)
{
    tn_autostatus struct tn_process_status status = {0};
    struct tn_process_follow f = {.at = {.err = UINT64_MAX}};
    struct answer a = {
        .l = l, .in = ANSWER_BUF(l->c->x, MESSAGE_MAX), .id = request_id(l->c->x), .err = err};

    if (!is_running(l, &status))
        return tn_fail(err, TN_E_GONE, "the language server has ended");
    f.at.out = status.out.end;
    int found = say(l, w, message, err)
                    ? -1
                    : process_follow(l->c->b, l->which, &f, take_piece, &a, tn_http_fd(l->c->x),
                                     tn_deadline_in(DAYTONA_SECONDS), err);
    tn_buf_done(&a.in);
    if (found != 1)
        return err->code ? -1 : tn_fail(err, TN_E_GONE, "the language server has ended");
    *out = a.tree;
    const char *wrong = tn_json_get_str(tn_json_get(a.tree, "error"), "message", NULL);
    return wrong ? tn_fail(err, TN_E_INVALID, "the language server: %.400s", wrong) : 0;
}

/* --- its life -------------------------------------------------------------------------------- */

static int greet(const struct lsp *l, struct tn_error *err)
{
    tn_autobuf struct tn_buf hello = TN_BUF_INIT(64 << 10), ready = TN_BUF_INIT(1024);
    tn_autofree char *uri = tn_asprintf("file://%s", l->project);
    struct tn_jw w = begin_message(&hello, "initialize", request_id(l->c->x));
    tn_autojson struct tn_json *abilities = NULL;

    tn_jw_kstr(&w, "processId", NULL);
    tn_jw_kstr(&w, "rootUri", uri);
    tn_jw_key(&w, "workspaceFolders");
    tn_jw_array(&w);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "uri", uri);
    tn_jw_kstr(&w, "name", l->project);
    tn_jw_object_end(&w);
    tn_jw_array_end(&w);
    tn_jw_key(&w, "capabilities");
    tn_jw_raw(&w, "{}", 2);
    if (ask(l, &w, &hello, &abilities, err))
        return -1;
    w = begin_message(&ready, "initialized", NULL);
    return say(l, &w, &ready, err);
}

static int launch(const struct lsp *l, struct tn_error *err)
{
    struct process_started started;
    bool known = false, begun = false;

    for (size_t i = 0; i < TN_COUNT(programs) && !begun; i++) {
        tn_autoprocess struct tn_process_spec spec = {.input = true};
        if (strcmp(programs[i].language, l->language) != 0)
            continue;
        known = true;
        *err = (struct tn_error){0};
        daytona_spec(l->c, &spec, programs[i].args);
        free(spec.cwd);
        spec.cwd = tn_strdup(l->project);
        spec.tag = tn_strdup(l->which + 4);
        begun = surface_process_env(l->c->x, l->c->home, NULL, &spec.env, err) == 0 &&
                daytona_start(l->c, &spec, &started, err) == 0;
        if (!begun && err->code != TN_E_INVALID)
            return -1;
    }
    if (!known)
        return tn_fail(err, TN_E_INVALID, "no language server is known for %.40s", l->language);
    return begun ? 0
                 : tn_error_context(err, "the sandbox has no language server for %s", l->language);
}

/* What the vendor's own daemon says where there is none. */
static void fail(struct daytona_call *c, const struct tn_error *err)
{
    if (err->code == TN_E_INVALID || err->code == TN_E_GONE)
        daytona_fail(c->x, 400, "LSP_SERVER_NOT_INITIALIZED", "%s", err->text);
    else
        reply_error(c->x, err);
}

static void reply_done(struct daytona_call *c, const struct tn_error *err)
{
    if (err->code)
        fail(c, err);
    else
        tn_http_reply(c->x, 200, NULL, NULL, 0);
}

static void start(struct daytona_call *c)
{
    tn_autostatus struct tn_process_status status = {0};
    tn_autojson struct tn_json *body = NULL;
    autolsp struct lsp l = {0};
    struct tn_error err = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body) ||
        open_lsp(c, tn_json_get_str(body, "languageId", NULL),
                 tn_json_get_str(body, "pathToProject", NULL), NULL, &l))
        return;
    if (!is_running(&l, &status) && launch(&l, &err) == 0 && greet(&l, &err))
        process_remove(c->b, l.which, tn_deadline_in(DAYTONA_SECONDS), NULL);
    reply_done(c, &err);
}

static void stop(struct daytona_call *c)
{
    tn_autojson struct tn_json *body = NULL;
    autolsp struct lsp l = {0};
    struct tn_error err = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body) ||
        open_lsp(c, tn_json_get_str(body, "languageId", NULL),
                 tn_json_get_str(body, "pathToProject", NULL), NULL, &l))
        return;
    process_remove(c->b, l.which, tn_deadline_in(DAYTONA_SECONDS), &err);
    if (err.code == TN_E_NOT_FOUND)
        err.code = TN_E_GONE;
    reply_done(c, &err);
}

/* --- documents ------------------------------------------------------------------------------- */

static int add_text(const void *bytes, size_t n, void *ctx, struct tn_error *err)
{
    return tn_buf_add(ctx, bytes, n) ? tn_fail(err, TN_E_TOO_LARGE, "the document is too large")
                                     : 0;
}

static void put_document(struct tn_jw *w, const struct lsp *l)
{
    tn_jw_key(w, "textDocument");
    tn_jw_object(w);
    tn_jw_kstr(w, "uri", l->uri);
}

/* didOpen with its text, or didClose. */
static void tell(struct daytona_call *c)
{
    tn_autobuf struct tn_buf message = ANSWER_BUF(c->x, MESSAGE_MAX),
                             text = ANSWER_BUF(c->x, TEXT_MAX);
    tn_autostatus struct tn_process_status status = {0};
    tn_autojson struct tn_json *body = NULL;
    autolsp struct lsp l = {0};
    struct tn_error err = {0};
    bool opens = strcmp(c->row->words, "textDocument/didOpen") == 0;

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body) ||
        open_lsp(c, tn_json_get_str(body, "languageId", NULL),
                 tn_json_get_str(body, "pathToProject", NULL), tn_json_get_str(body, "uri", ""),
                 &l))
        return;
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    if (!is_running(&l, &status))
        tn_fail(&err, TN_E_GONE, "the language server is not started");
    else if (opens)
        tn_hand_files_fetch(f, l.path, add_text, &text, tn_deadline_in(DAYTONA_SECONDS), &err);
    struct tn_jw w = begin_message(&message, c->row->words, NULL);
    put_document(&w, &l);
    if (opens) {
        tn_jw_kstr(&w, "languageId", l.language);
        tn_jw_kint(&w, "version", 1);
        tn_jw_key(&w, "text");
        tn_jw_strn(&w, tn_buf_str(&text), text.len);
    }
    tn_jw_object_end(&w);
    if (!err.code)
        say(&l, &w, &message, &err);
    reply_done(c, &err);
}

/* --- questions ------------------------------------------------------------------------------- */

/* Newer servers may leave out where a symbol of the document is but for its range. */
static void put_symbol(struct tn_jw *w, const struct lsp *l, const struct tn_json *one)
{
    const struct tn_json *location = tn_json_get(one, "location");

    tn_jw_object(w);
    tn_jw_kstr(w, "name", tn_json_get_str(one, "name", ""));
    tn_jw_kint(w, "kind", tn_json_int(tn_json_get(one, "kind"), 0));
    tn_jw_key(w, "location");
    if (location) {
        tn_jw_tree(w, location);
    } else {
        tn_jw_object(w);
        tn_jw_kstr(w, "uri", l->uri);
        tn_jw_key(w, "range");
        tn_jw_tree(w, tn_json_get(one, "range"));
        tn_jw_object_end(w);
    }
    tn_jw_object_end(w);
}

/* Symbols of a document, or (with a query) of the project. */
static void get_symbols(struct daytona_call *c)
{
    tn_autobuf struct tn_buf message = ANSWER_BUF(c->x, 64 << 10),
                             json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    const char *query = tn_http_query(c->x, "query"), *uri = tn_http_query(c->x, "uri");
    bool document = strcmp(c->row->words, "textDocument/documentSymbol") == 0;
    struct tn_jw w = begin_message(&message, c->row->words, request_id(c->x));
    tn_autojson struct tn_json *tree = NULL;
    autolsp struct lsp l = {0};
    struct tn_error err = {0};

    if (open_lsp(c, tn_http_query(c->x, "languageId"), tn_http_query(c->x, "pathToProject"),
                 document ? uri ? uri : "" : NULL, &l))
        return;
    if (document) {
        put_document(&w, &l);
        tn_jw_object_end(&w);
    } else {
        tn_jw_kstr(&w, "query", query ? query : "");
    }
    if (ask(&l, &w, &message, &tree, &err)) {
        fail(c, &err);
        return;
    }
    const struct tn_json *result = tn_json_get(tree, "result");
    w = tn_jw(&json);
    tn_jw_array(&w);
    for (size_t i = 0; i < tn_json_count(result); i++)
        put_symbol(&w, &l, tn_json_at(result, i));
    tn_jw_array_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

/* They answer with a list that may have more, or with an array. */
static void post_completions(struct daytona_call *c)
{
    tn_autobuf struct tn_buf message = ANSWER_BUF(c->x, 64 << 10),
                             json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    struct tn_jw w = begin_message(&message, c->row->words, request_id(c->x));
    tn_autojson struct tn_json *body = NULL, *tree = NULL;
    autolsp struct lsp l = {0};
    struct tn_error err = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body) ||
        open_lsp(c, tn_json_get_str(body, "languageId", NULL),
                 tn_json_get_str(body, "pathToProject", NULL), tn_json_get_str(body, "uri", ""),
                 &l))
        return;
    put_document(&w, &l);
    tn_jw_object_end(&w);
    tn_jw_key(&w, "position");
    tn_jw_tree(&w, tn_json_get(body, "position"));
    if (ask(&l, &w, &message, &tree, &err)) {
        fail(c, &err);
        return;
    }
    const struct tn_json *result = tn_json_get(tree, "result");
    const struct tn_json *items =
        tn_json_type(result) == TN_JSON_ARRAY ? result : tn_json_get(result, "items");
    w = tn_jw(&json);
    tn_jw_object(&w);
    tn_jw_kbool(&w, "isIncomplete", tn_json_bool(tn_json_get(result, "isIncomplete"), false));
    tn_jw_key(&w, "items");
    tn_jw_array(&w);
    for (size_t i = 0; i < tn_json_count(items); i++)
        tn_jw_tree(&w, tn_json_at(items, i));
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

const struct daytona_row daytona_lsp_rows[] = {
    {"POST", "lsp/start", start, NULL},
    {"POST", "lsp/stop", stop, NULL},
    {"POST", "lsp/did-open", tell, "textDocument/didOpen"},
    {"POST", "lsp/did-close", tell, "textDocument/didClose"},
    {"GET", "lsp/document-symbols", get_symbols, "textDocument/documentSymbol"},
    {"GET", "lsp/workspacesymbols", get_symbols, "workspace/symbol"},
    {"GET", "lsp/workspace-symbols", get_symbols, "workspace/symbol"},
    {"POST", "lsp/completions", post_completions, "textDocument/completion"},
    {0},
};
