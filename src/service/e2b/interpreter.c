/* The code interpreter: cells of Python on port 49999, carried out as run_ipython actions.
 *
 * The kernel tells each event of a cell as a line of JSON after a mark (python/e2b_cells.py); what
 * is on other lines was written by programs that it started, or is a note of the hand. */
#include <sys/random.h>

#include "service/e2b/cells.h"
#include "service/e2b/e2b.h"
#include "service/proxy.h"

enum { CODE_MAX = 4 << 20, CONTEXT_DIGITS = 16, NAME_SIZE = 64 };
static const char mark[] = "@@e2b ";
static const char no_output[] = "[Code executed successfully with no output]";
/* Clients give up by themselves; the kernel is interrupted some time after. */
#define CELL_SECONDS 3600.0

/* --- a cell ---------------------------------------------------------------------------------- */

static void put_action(struct tn_buf *out, const char *code, const char *kernel)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_key(&w, "action");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "action", "run_ipython");
    tn_jw_key(&w, "args");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "code", code);
    tn_jw_kbool(&w, "include_extra", false);
    tn_jw_kstr(&w, "session", kernel);
    tn_jw_kstr(&w, "kernel_init_code", (const char *)e2b_cells[0].bytes);
    tn_jw_object_end(&w);
    tn_jw_kdouble(&w, "timeout", CELL_SECONDS);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
}

/* Carries it out: its observation, or NULL: answered. */
static struct tn_json *run_cell(struct e2b_call *c, const char *code, const char *kernel)
{
    tn_autobuf struct tn_buf body = ANSWER_BUF(c->x, ACTION_MAX);
    tn_autobuf struct tn_buf out = ANSWER_BUF(c->x, OBSERVATION_MAX);
    const struct act_how how = {.request = request_id(c->x), .watch = tn_http_fd(c->x)};
    struct tn_json *observation = NULL;
    struct act_news news = {0};
    struct tn_error err = {0};

    put_action(&body, code, kernel);
    int status = act(c->b, caller_of(c->x), tn_buf_str(&body), body.len, &how, &news, &out, &err);
    if (status < 0) {
        reply_error(c->x, &err);
    } else if (status != 200) {
        native_refuse(c->x, status == ACT_WAITS ? TN_E_CONFLICT : TN_E_INVALID, "%s",
                      status == ACT_WAITS ? "this code waits for somebody's confirmation"
                                          : "the code could not be run");
    } else if (hold_json(c->x, &out, &observation, &err)) {
        reply_error(c->x, &err);
    } else if (strcmp(tn_json_get_str(observation, "observation", ""), "error") == 0) {
        native_refuse(c->x, TN_E_INVALID, "%.400s", tn_json_get_str(observation, "content", ""));
        tn_json_free(TN_TAKE_PTR(observation));
    }
    return observation;
}

/* "e2b-NAME", the kernel of a context; NULL: of the one that is always there.  -1: answered. */
static int kernel_of(struct e2b_call *c, const char *context, char out[NAME_SIZE])
{
    size_t n = context ? strspn(context, "0123456789abcdef") : 0;

    if (context && (!n || context[n] || n != CONTEXT_DIGITS) && strcmp(context, "default") != 0)
        return native_refuse(c->x, TN_E_NOT_FOUND, "Context %.40s not found", context);
    snprintf(out, NAME_SIZE, "e2b-%s", context ? context : "default");
    return 0;
}

/* --- what came of it ------------------------------------------------------------------------- */

static bool is_event(const char *line, size_t n)
{
    tn_autojson struct tn_json *event = NULL;

    return tn_json_parse(line, n, &event, NULL) == 0 && tn_json_type(event) == TN_JSON_OBJECT &&
           tn_json_get_str(event, "type", NULL);
}

static void put_text(struct tn_buf *out, const char *text, size_t n)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "stdout");
    tn_jw_key(&w, "text");
    tn_jw_strn(&w, text, n);
    tn_jw_kint(&w, "timestamp", 0);
    tn_jw_object_end(&w);
    tn_buf_putc(out, '\n');
}

static void put_events(struct tn_buf *out, const char *content)
{
    static const size_t marked = sizeof mark - 1;

    for (const char *line = content; *line; line += strspn(line, "\n")) {
        size_t n = strcspn(line, "\n");
        if (strncmp(line, mark, marked) == 0 && is_event(line + marked, n - marked)) {
            tn_buf_add(out, line + marked, n - marked);
            tn_buf_putc(out, '\n');
        } else if (n && strncmp(line, no_output, sizeof no_output - 1) != 0) {
            put_text(out, line, n + (line[n] == '\n'));
        }
        line += n;
    }
    tn_buf_puts(out, "{\"type\":\"end_of_execution\"}\n");
}

/* --- calls ----------------------------------------------------------------------------------- */

/* Python alone; -1: answered. */
static int check_language(struct e2b_call *c, const struct tn_json *body)
{
    const char *language = tn_json_get_str(body, "language", "python");

    if (strcmp(language, "python") == 0)
        return 0;
    return native_refuse(c->x, TN_E_INVALID, "language: only python is served here, not %.40s",
                         language);
}

void e2b_execute(struct e2b_call *c)
{
    tn_autobuf struct tn_buf out = ANSWER_BUF(c->x, OBSERVATION_MAX);
    tn_autojson struct tn_json *body = NULL;
    char kernel[NAME_SIZE];

    if (surface_body(c->x, CODE_MAX, &body) || check_language(c, body) ||
        kernel_of(c, tn_json_get_str(body, "context_id", NULL), kernel))
        return;
    const char *code = tn_json_get_str(body, "code", NULL);
    if (!code || tn_json_count(tn_json_get(body, "env_vars"))) {
        native_refuse(c->x, TN_E_INVALID, "%s",
                      code ? "env_vars are not served here: set them when the sandbox is made"
                           : "code: expected a cell");
        return;
    }
    tn_autojson struct tn_json *observation = run_cell(c, code, kernel);
    if (!observation)
        return;
    put_events(&out, tn_json_get_str(observation, "content", ""));
    tn_http_reply(c->x, 200, "application/x-ndjson", tn_buf_str(&out), out.len);
}

/* A kernel of its own, which starts in that directory. */
void e2b_create_context(struct e2b_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10), code = TN_BUF_INIT(64 << 10);
    tn_autojson struct tn_json *body = NULL;
    unsigned char bytes[CONTEXT_DIGITS / 2];
    char id[CONTEXT_DIGITS + 1], kernel[NAME_SIZE];
    struct tn_jw w = tn_jw(&code);

    if (surface_body(c->x, E2B_BODY_MAX, &body) || check_language(c, body))
        return;
    tn_autofree char *cwd = e2b_path(c, tn_json_get_str(body, "cwd", NULL));
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        native_refuse(c->x, TN_E_INTERNAL, "no random bytes");
        return;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    tn_buf_puts(&code, "%cd -q ");
    tn_jw_str(&w, cwd);
    if (kernel_of(c, id, kernel))
        return;
    tn_autojson struct tn_json *observation = run_cell(c, tn_buf_str(&code), kernel);
    if (!observation)
        return;
    w = tn_jw(&json);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "id", id);
    tn_jw_kstr(&w, "language", "python");
    tn_jw_kstr(&w, "cwd", cwd);
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}
