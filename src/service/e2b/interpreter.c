/* The code interpreter: cells of Python on port 49999 (service/cells.h). */
#include "service/cells.h"
#include "service/e2b/e2b.h"
#include "service/proxy.h"

enum { CODE_MAX = 4 << 20, NAME_SIZE = 64 };
/* Clients give up by themselves; the kernel is interrupted some time after. */
#define CELL_SECONDS 3600.0

/* Carries it out: its observation, or NULL: answered. */
static struct tn_json *run_cell(struct e2b_call *c, const char *code, const char *kernel)
{
    const struct cells_wish wish = {
        .code = code, .kernel = kernel, .seconds = CELL_SECONDS, .watch = tn_http_fd(c->x)};
    struct tn_json *observation = NULL;
    struct tn_error err = {0};

    if (cells_run(c->x, c->b, &wish, &observation, &err))
        reply_error(c->x, &err);
    return observation;
}

/* "e2b-NAME", the kernel of a context; NULL: of the one that is always there.  -1: answered. */
static int kernel_of(struct e2b_call *c, const char *context, char out[NAME_SIZE])
{
    if (context && !cells_is_id(context) && strcmp(context, "default") != 0)
        return native_refuse(c->x, TN_E_NOT_FOUND, "Context %.40s not found", context);
    snprintf(out, NAME_SIZE, "e2b-%s", context ? context : "default");
    return 0;
}

static void put_event(const char *json, size_t n, void *out)
{
    tn_buf_add(out, json, n);
    tn_buf_putc(out, '\n');
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
    cells_each_event(observation, put_event, &out);
    tn_buf_puts(&out, "{\"type\":\"end_of_execution\"}\n");
    tn_http_reply(c->x, 200, "application/x-ndjson", tn_buf_str(&out), out.len);
}

/* A kernel of its own, which starts in that directory. */
void e2b_create_context(struct e2b_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10), code = TN_BUF_INIT(64 << 10);
    tn_autojson struct tn_json *body = NULL;
    char id[CELLS_ID], kernel[NAME_SIZE];
    struct tn_jw w = tn_jw(&code);
    struct tn_error err = {0};

    if (surface_body(c->x, E2B_BODY_MAX, &body) || check_language(c, body))
        return;
    tn_autofree char *cwd = e2b_path(c, tn_json_get_str(body, "cwd", NULL));
    if (cells_new_id(id, &err)) {
        reply_error(c->x, &err);
        return;
    }
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
