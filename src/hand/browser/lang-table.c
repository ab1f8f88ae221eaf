/* The functions of the language. */
#include "hand/browser/lang.h"

#define CLICK_PARAMETERS                                                    \
    {                                                                       \
        {"bid", TN_TAKES_BID, NULL}, {"button", TN_TAKES_BUTTON, "'left'"}, \
        {                                                                   \
            "modifiers", TN_TAKES_MODIFIERS, "[]"                           \
        }                                                                   \
    }

const struct tn_browser_signature tn_browser_signatures[TN_DO_COUNT] = {
    [TN_DO_SEND_MSG_TO_USER] = {"send_msg_to_user",
                                "Send a message to the user.",
                                "send_msg_to_user",
                                {{"text", TN_TAKES_TEXT, NULL}}},
    [TN_DO_REPORT_INFEASIBLE] = {"report_infeasible",
                                 "Tell the user that it cannot be done.",
                                 "report_infeasible",
                                 {{"reason", TN_TAKES_TEXT, NULL}}},
    [TN_DO_NOOP] = {"noop",
                    "Do nothing for a while.",
                    "Page.wait_for_timeout",
                    {{"wait_ms", TN_TAKES_NUMBER, "1000"}}},
    [TN_DO_SCROLL] = {"scroll",
                      "Turn the mouse wheel, in pixels.",
                      "Mouse.wheel",
                      {{"delta_x", TN_TAKES_NUMBER, NULL}, {"delta_y", TN_TAKES_NUMBER, NULL}}},
    [TN_DO_FILL] = {"fill",
                    "Replace the text of a field.",
                    "Locator.fill",
                    {{"bid", TN_TAKES_BID, NULL}, {"value", TN_TAKES_TEXT, NULL}}},
    [TN_DO_SELECT_OPTION] = {"select_option",
                             "Select options by value or label.",
                             "Locator.select_option",
                             {{"bid", TN_TAKES_BID, NULL}, {"options", TN_TAKES_TEXTS, NULL}}},
    [TN_DO_CLICK] = {"click", "Click an element.", "Locator.click", CLICK_PARAMETERS},
    [TN_DO_DBLCLICK] = {"dblclick", "Click an element twice.", "Locator.dblclick",
                        CLICK_PARAMETERS},
    [TN_DO_HOVER] = {"hover",
                     "Move the mouse over an element.",
                     "Locator.hover",
                     {{"bid", TN_TAKES_BID, NULL}}},
    [TN_DO_PRESS] = {"press",
                     "Focus an element and press keys, such as Control+a.",
                     "Locator.press",
                     {{"bid", TN_TAKES_BID, NULL}, {"key_comb", TN_TAKES_TEXT, NULL}}},
    [TN_DO_FOCUS] = {"focus", "Focus an element.", "Locator.focus", {{"bid", TN_TAKES_BID, NULL}}},
    [TN_DO_CLEAR] = {"clear", "Empty a field.", "Locator.clear", {{"bid", TN_TAKES_BID, NULL}}},
    [TN_DO_DRAG_AND_DROP] = {"drag_and_drop",
                             "Drag one element onto another.",
                             "Locator.hover",
                             {{"from_bid", TN_TAKES_BID, NULL}, {"to_bid", TN_TAKES_BID, NULL}}},
    [TN_DO_UPLOAD_FILE] = {"upload_file",
                           "Click an element and give files to it.",
                           "FileChooser.set_files",
                           {{"bid", TN_TAKES_BID, NULL}, {"file", TN_TAKES_TEXTS, NULL}}},
    [TN_DO_GOTO] = {"goto", "Open an address.", "Page.goto", {{"url", TN_TAKES_TEXT, NULL}}},
    [TN_DO_GO_BACK] = {"go_back", "Go to the previous page.", "Page.go_back", {{0}}},
    [TN_DO_GO_FORWARD] = {"go_forward", "Go to the next page.", "Page.go_forward", {{0}}},
    [TN_DO_NEW_TAB] = {"new_tab", "Open a tab; it becomes active.", "new_tab", {{0}}},
    [TN_DO_TAB_CLOSE] = {"tab_close", "Close the active tab.", "tab_close", {{0}}},
    [TN_DO_TAB_FOCUS] = {"tab_focus",
                         "Make the tab with that index active.",
                         "tab_focus",
                         {{"index", TN_TAKES_INT, NULL}}},
};

void tn_browser_help(struct tn_buf *out)
{
    for (size_t f = 0; f < TN_DO_COUNT; f++) {
        const struct tn_browser_signature *s = &tn_browser_signatures[f];
        tn_buf_printf(out, "%s(", s->name);
        for (const struct tn_browser_parameter *p = s->parameters; p->name; p++)
            tn_buf_printf(out, "%s%s%s%s", p == s->parameters ? "" : ", ", p->name,
                          p->fallback ? "=" : "", p->fallback ? p->fallback : "");
        tn_buf_printf(out, ")  %s\n", s->help);
    }
}
