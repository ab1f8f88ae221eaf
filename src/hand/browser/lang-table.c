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
                                "send_msg_to_user",
                                {{"text", TN_TAKES_TEXT, NULL}}},
    [TN_DO_REPORT_INFEASIBLE] = {"report_infeasible",
                                 "report_infeasible",
                                 {{"reason", TN_TAKES_TEXT, NULL}}},
    [TN_DO_NOOP] = {"noop", "Page.wait_for_timeout", {{"wait_ms", TN_TAKES_NUMBER, "1000"}}},
    [TN_DO_SCROLL] = {"scroll",
                      "Mouse.wheel",
                      {{"delta_x", TN_TAKES_NUMBER, NULL}, {"delta_y", TN_TAKES_NUMBER, NULL}}},
    [TN_DO_FILL] = {"fill",
                    "Locator.fill",
                    {{"bid", TN_TAKES_BID, NULL}, {"value", TN_TAKES_TEXT, NULL}}},
    [TN_DO_SELECT_OPTION] = {"select_option",
                             "Locator.select_option",
                             {{"bid", TN_TAKES_BID, NULL}, {"options", TN_TAKES_TEXTS, NULL}}},
    [TN_DO_CLICK] = {"click", "Locator.click", CLICK_PARAMETERS},
    [TN_DO_DBLCLICK] = {"dblclick", "Locator.dblclick", CLICK_PARAMETERS},
    [TN_DO_HOVER] = {"hover", "Locator.hover", {{"bid", TN_TAKES_BID, NULL}}},
    [TN_DO_PRESS] = {"press",
                     "Locator.press",
                     {{"bid", TN_TAKES_BID, NULL}, {"key_comb", TN_TAKES_TEXT, NULL}}},
    [TN_DO_FOCUS] = {"focus", "Locator.focus", {{"bid", TN_TAKES_BID, NULL}}},
    [TN_DO_CLEAR] = {"clear", "Locator.clear", {{"bid", TN_TAKES_BID, NULL}}},
    [TN_DO_DRAG_AND_DROP] = {"drag_and_drop",
                             "Locator.hover",
                             {{"from_bid", TN_TAKES_BID, NULL}, {"to_bid", TN_TAKES_BID, NULL}}},
    [TN_DO_UPLOAD_FILE] = {"upload_file",
                           "FileChooser.set_files",
                           {{"bid", TN_TAKES_BID, NULL}, {"file", TN_TAKES_TEXTS, NULL}}},
    [TN_DO_GOTO] = {"goto", "Page.goto", {{"url", TN_TAKES_TEXT, NULL}}},
    [TN_DO_GO_BACK] = {"go_back", "Page.go_back", {{0}}},
    [TN_DO_GO_FORWARD] = {"go_forward", "Page.go_forward", {{0}}},
    [TN_DO_NEW_TAB] = {"new_tab", "new_tab", {{0}}},
    [TN_DO_TAB_CLOSE] = {"tab_close", "tab_close", {{0}}},
    [TN_DO_TAB_FOCUS] = {"tab_focus", "tab_focus", {{"index", TN_TAKES_INT, NULL}}},
};
