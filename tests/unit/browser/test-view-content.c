/* The text given to the agent, to the letter. */
#include "hand/browser/view.h"

#include "unit.h"

static char tree[] = "RootWebArea 'x'\n\t[1] button 'y'", page[] = "# x\n", bid[] = "12";

static bool loading;

static void check(bool interactive, const struct tn_view_facts *facts, char *tree_error,
                  const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 14);
    const struct tn_view view = {
        .tree = tree, .tree_error = tree_error, .text = page, .focused = bid, .loading = loading};

    if (interactive)
        tn_view_put_interactive(&out, facts, &view);
    else
        tn_view_put_browse(&out, facts, &view);
    assert_string_equal(tn_buf_str(&out), expected);
}

#define TREE                                                                                 \
    "Accessibility tree of the COMPLETE webpage:\n"                                          \
    "Note: [bid] is the unique alpha-numeric identifier at the beginning of lines for each " \
    "element in the AXTree. Always use bid to refer to elements in your actions.\n"          \
    "============== BEGIN accessibility tree ==============\n"                               \
    "RootWebArea 'x'\n\t[1] button 'y'\n"                                                    \
    "============== END accessibility tree ==============\n"

static void test_interactive(void **state)
{
    check(true, &(struct tn_view_facts){.url = "u:", .error = ""}, NULL,
          "[Current URL: u:]\n[Focused element bid: 12]\n\n[Action executed successfully.]\n" TREE);
    check(true, &(struct tn_view_facts){.url = "u:", .screenshot_path = "/p.png"}, NULL,
          "[Current URL: u:]\n[Focused element bid: 12]\n[Screenshot saved to: /p.png]\n\n"
          "[Action executed successfully.]\n" TREE);
    check(true, &(struct tn_view_facts){.url = "u:", .error = "ValueError: bad"}, NULL,
          "[Current URL: u:]\n[Focused element bid: 12]\n\n"
          "================ BEGIN error message ===============\n"
          "The following error occurred when executing the last action:\nValueError: bad\n"
          "================ END error message ===============\n" TREE);
}

static void test_without_a_tree(void **state)
{
    char why[] = "it is busy";

    check(true, &(struct tn_view_facts){.url = "u:"}, why,
          "[Current URL: u:]\n[Focused element bid: 12]\n\n[Action executed successfully.]\n"
          "\n[Error encountered when processing the accessibility tree: it is busy]");
    check(false, &(struct tn_view_facts){.url = "u:"}, why,
          "[Current URL: u:]\n============== BEGIN webpage content ==============\n"
          "[Error encountered when processing the webpage: it is busy]\n# x\n\n"
          "============== END webpage content ==============\n");
}

static void test_browse(void **state)
{
    check(false, &(struct tn_view_facts){.url = "u:"}, NULL,
          "[Current URL: u:]\n============== BEGIN webpage content ==============\n# x\n\n"
          "============== END webpage content ==============\n");
    check(false, &(struct tn_view_facts){.url = "u:", .error = "Error: no"}, NULL,
          "[Current URL: u:]\n================ BEGIN error message ===============\n"
          "The following error occurred when trying to visit the URL:\nError: no\n"
          "================ END error message ===============\n"
          "============== BEGIN webpage content ==============\n# x\n\n"
          "============== END webpage content ==============\n");
}

static void test_loading(void **state)
{
    loading = true;
    check(true, &(struct tn_view_facts){.url = "u:"}, NULL,
          "[Current URL: u:]\n[Focused element bid: 12]\n"
          "[The page is still loading: this is what has come of it so far.]\n\n"
          "[Action executed successfully.]\n" TREE);
    check(false, &(struct tn_view_facts){.url = "u:"}, NULL,
          "[Current URL: u:]\n[The page is still loading: this is what has come of it so far.]\n"
          "============== BEGIN webpage content ==============\n# x\n\n"
          "============== END webpage content ==============\n");
    loading = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interactive),
        cmocka_unit_test(test_without_a_tree),
        cmocka_unit_test(test_browse),
        cmocka_unit_test(test_loading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
