/* Forms and the keyboard. */
#include "hand/browser/act.h"

enum { VALUE_MAX = 16 << 20 };

/* What is in the element has been selected: the text takes its place. */
static int type_over(struct act *a, const char *text, size_t len)
{
    struct tn_error err;
    int64_t until = act_within(a, ACT_SLACK_SECONDS);
    int r = len ? input_text(a->page, text, len, until, &err)
                : input_keys(a->page, "Delete", until, &err);

    return r < 0 ? act_fail_from(a, &err) : 0;
}

static int fill(struct act *a, const char *text, size_t len)
{
    tn_autobuf struct tn_buf value = TN_BUF_INIT(VALUE_MAX);
    tn_autojson struct tn_json *answer = NULL;
    struct tn_jw w = tn_jw(&value);

    tn_jw_strn(&w, text, len);
    if (act_ask(a, act_text(a, 0), "fill", tn_buf_str(&value), &answer) < 0)
        return -1;
    return tn_json_has(answer, "type") ? type_over(a, text, len) : 0;
}

int act_fill(struct act *a)
{
    size_t len = 0;
    const char *text = tn_json_str(a->values[1], &len);

    return fill(a, text, len);
}

int act_clear(struct act *a)
{
    return fill(a, "", 0);
}

int act_select_option(struct act *a)
{
    tn_autobuf struct tn_buf wanted = TN_BUF_INIT(VALUE_MAX);
    tn_autojson struct tn_json *answer = NULL;
    struct tn_jw w = tn_jw(&wanted);
    bool one = tn_json_str(a->values[1], NULL) != NULL;

    if (one)
        tn_jw_array(&w);
    tn_jw_tree(&w, a->values[1]);
    if (one)
        tn_jw_array_end(&w);
    return act_ask(a, act_text(a, 0), "select", tn_buf_str(&wanted), &answer);
}

int act_focus(struct act *a)
{
    tn_autojson struct tn_json *answer = NULL;
    return act_ask(a, act_text(a, 0), "focus", NULL, &answer);
}

int act_press(struct act *a)
{
    tn_autojson struct tn_json *answer = NULL;
    struct tn_error err;

    if (act_ask(a, act_text(a, 0), "focus", NULL, &answer) < 0)
        return -1;
    if (input_keys(a->page, act_text(a, 1), act_within(a, ACT_SLACK_SECONDS), &err) < 0 &&
        err.code != TN_E_GONE)
        return act_fail_from(a, &err);
    return 0;
}
