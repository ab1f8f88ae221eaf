#include "hand/browser/act.h"

#include <stdarg.h>

int act_fail(struct act *a, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    tn_buf_vprintf(a->error, fmt, ap);
    va_end(ap);
    return -1;
}

int act_fail_timeout(struct act *a, const char *why)
{
    return act_fail(a, "TimeoutError: %s: Timeout %dms exceeded.\nCall log:\n  - %s", a->operation,
                    ACT_MS, why);
}

int act_fail_from(struct act *a, const struct tn_error *err)
{
    if (err->code == TN_E_TIMEOUT)
        return act_fail_timeout(a, "the page does not answer");
    return act_fail(a, "Error: %s: %s", a->operation, err->text);
}

int64_t act_within(const struct act *a, double seconds)
{
    int64_t until = tn_deadline_in(seconds);
    return until < a->deadline ? until : a->deadline;
}

const char *act_text(const struct act *a, size_t i)
{
    const char *text = tn_json_str(a->values[i], NULL);
    return text ? text : "";
}

/* Meant for whoever reads the conversation; the page does not care. */
static int say(struct act *a)
{
    return 0;
}

static const act_fn functions[TN_DO_COUNT] = {
    [TN_DO_SEND_MSG_TO_USER] = say,
    [TN_DO_REPORT_INFEASIBLE] = say,
    [TN_DO_NOOP] = act_noop,
    [TN_DO_SCROLL] = act_scroll,
    [TN_DO_FILL] = act_fill,
    [TN_DO_SELECT_OPTION] = act_select_option,
    [TN_DO_CLICK] = act_click,
    [TN_DO_DBLCLICK] = act_dblclick,
    [TN_DO_HOVER] = act_hover,
    [TN_DO_PRESS] = act_press,
    [TN_DO_FOCUS] = act_focus,
    [TN_DO_CLEAR] = act_clear,
    [TN_DO_DRAG_AND_DROP] = act_drag_and_drop,
    [TN_DO_UPLOAD_FILE] = act_upload_file,
    [TN_DO_GOTO] = act_goto,
    [TN_DO_GO_BACK] = act_go_back,
    [TN_DO_GO_FORWARD] = act_go_forward,
    [TN_DO_NEW_TAB] = act_new_tab,
    [TN_DO_TAB_CLOSE] = act_tab_close,
    [TN_DO_TAB_FOCUS] = act_tab_focus,
};

int act_call(struct tn_chrome *chrome, const struct tn_browser_call *call, int64_t deadline,
             struct tn_buf *error)
{
    struct tn_error err;
    struct act a = {
        .chrome = chrome,
        .deadline = deadline,
        .operation = tn_browser_signatures[call->function].operation,
        .values = (struct tn_json **)call->arguments,
        .error = error,
    };

    if (call->error)
        return act_fail(&a, "%s", call->error);
    if (tn_now() >= deadline)
        return act_fail_timeout(&a, "no time is left");
    a.page = act_page(chrome, deadline, &err);
    if (!a.page)
        return act_fail_from(&a, &err);
    size_t before = error->len;
    int r = functions[call->function](&a);
    chrome_lock(chrome);
    bool crashed = a.page->crashed;
    chrome_unlock(chrome);
    tn_page_unref(a.page);
    if (!crashed)
        return r;
    tn_buf_cut(error, before); /* that explains everything else */
    return act_fail(&a, "Error: %s: Page crashed", a.operation);
}
