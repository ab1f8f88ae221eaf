#include "service/cells.h"

#include <sys/random.h>

#include "service/caller.h"
#include "service/e2b/cells.h"
#include "service/proxy.h"

static const char mark[] = "@@e2b ", variables[] = "#@@e2b-env ";
static const char no_output[] = "[Code executed successfully with no output]";
static const char late[] = "[Execution timed out (";

int cells_new_id(char out[CELLS_ID], struct tn_error *err)
{
    unsigned char bytes[CELLS_ID / 2];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return tn_fail(err, TN_E_INTERNAL, "no random bytes");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

bool cells_is_id(const char *text)
{
    return strspn(text, "0123456789abcdef") == CELLS_ID - 1 && !text[CELLS_ID - 1];
}

/* --- a cell ---------------------------------------------------------------------------------- */

/* Its variables, if there are any, in a line before it that the kernel takes away. */
static void put_code(struct tn_jw *w, const struct cells_wish *wish, struct tn_purse *purse)
{
    tn_autobuf struct tn_buf code = {.max = ACTION_MAX, .purse = purse};
    struct tn_jw inner = tn_jw(&code);

    if (tn_json_count(wish->env)) {
        tn_buf_puts(&code, variables);
        tn_jw_tree(&inner, wish->env);
        tn_buf_puts(&code, "\n");
    }
    tn_buf_puts(&code, wish->code);
    tn_jw_key(w, "code");
    tn_jw_strn(w, tn_buf_str(&code), code.len);
}

static void put_start(struct tn_jw *w, const struct cells_wish *wish)
{
    tn_autobuf struct tn_buf code = TN_BUF_INIT(ACTION_MAX);

    for (int i = 0; i <= wish->charts; i++)
        tn_buf_add(&code, e2b_cells[i].bytes, e2b_cells[i].size);
    tn_jw_key(w, "kernel_init_code");
    tn_jw_strn(w, tn_buf_str(&code), code.len);
}

void cells_put_action(struct tn_buf *out, const struct cells_wish *wish)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_key(&w, "action");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "action", "run_ipython");
    tn_jw_key(&w, "args");
    tn_jw_object(&w);
    put_code(&w, wish, out->purse);
    tn_jw_kbool(&w, "include_extra", false);
    tn_jw_kstr(&w, "session", wish->kernel);
    put_start(&w, wish);
    tn_jw_object_end(&w);
    tn_jw_kdouble(&w, "timeout", wish->seconds);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
}

int cells_run(struct tn_http_exchange *x, struct box *b, const struct cells_wish *wish,
              struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = ANSWER_BUF(x, ACTION_MAX);
    tn_autobuf struct tn_buf answer = ANSWER_BUF(x, OBSERVATION_MAX);
    const struct act_how how = {.request = request_id(x), .watch = wish->watch};
    tn_autojson struct tn_json *observation = NULL;
    struct act_news news = {0};

    cells_put_action(&body, wish);
    int status = act(b, caller_of(x), tn_buf_str(&body), body.len, &how, &news, &answer, err);
    if (status < 0)
        return -1;
    if (status == ACT_WAITS)
        return tn_fail(err, TN_E_CONFLICT, "this code waits for somebody's confirmation");
    if (status != 200)
        return tn_fail(err, TN_E_INVALID, "the code could not be run");
    if (hold_json(x, &answer, &observation, err))
        return -1;
    if (strcmp(tn_json_get_str(observation, "observation", ""), "error") == 0)
        return tn_fail(err, TN_E_INVALID, "%.400s", tn_json_get_str(observation, "content", ""));
    *out = TN_TAKE_PTR(observation);
    return 0;
}

/* --- what came of it ------------------------------------------------------------------------- */

static const char *content_of(const struct tn_json *observation)
{
    return tn_json_get_str(observation, "content", "");
}

bool cells_was_late(const struct tn_json *observation)
{
    const char *text = content_of(observation), *found = strstr(text, late);

    while (found && found != text && found[-1] != '\n')
        found = strstr(found + 1, late);
    return found != NULL;
}

/* False: it is no event. */
static bool tell_event(const char *line, size_t n, cells_event_fn fn, void *ctx)
{
    tn_autojson struct tn_json *event = NULL;

    if (tn_json_parse(line, n, &event, NULL) || tn_json_type(event) != TN_JSON_OBJECT ||
        !tn_json_get_str(event, "type", NULL))
        return false;
    fn(tn_json_get_str(event, "type", ""), line, n, ctx);
    return true;
}

static void tell_text(const char *text, size_t n, cells_event_fn fn, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(OBSERVATION_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "stdout");
    tn_jw_key(&w, "text");
    tn_jw_strn(&w, text, n);
    tn_jw_kint(&w, "timestamp", 0);
    tn_jw_object_end(&w);
    fn("stdout", tn_buf_str(&json), json.len, ctx);
}

void cells_line(const char *line, size_t n, cells_event_fn fn, void *ctx)
{
    static const size_t marked = sizeof mark - 1;

    if (n > marked && strncmp(line, mark, marked) == 0 &&
        tell_event(line + marked, n - marked, fn, ctx))
        return;
    if (n && strncmp(line, no_output, sizeof no_output - 1) != 0)
        tell_text(line, n + (line[n] == '\n'), fn, ctx);
}

void cells_each_event(const struct tn_json *observation, cells_event_fn fn, void *ctx)
{
    for (const char *line = content_of(observation); *line; line += strspn(line, "\n")) {
        size_t n = strcspn(line, "\n");
        cells_line(line, n, fn, ctx);
        line += n;
    }
}
