/* Accessibility trees: the text of a real one, joining frames, and what is left out. */
#include "hand/browser/view-tree.h"

#include "base/json.h"
#include "unit.h"

static const char *directory;

static void check(const struct tn_tree_source *sources, size_t count, const char *expected)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_error err;
    struct tn_tree *t = tn_tree_read(sources, count, &err);

    if (!t)
        fail_msg("%s", err.text);
    tn_tree_put_text(t, &text, 1 << 19);
    tn_tree_free(t);
    assert_string_equal(tn_buf_str(&text), expected);
}

static void check_one(const char *json, const char *expected)
{
    const struct tn_tree_source source = {.json = json, .n = strlen(json)};
    check(&source, 1, expected);
}

static void test_real_page(void **state)
{
    size_t snapshot_len, tree_len, n;
    tn_autofree char *snapshot = unit_file(directory, "page.snapshot.json", &snapshot_len);
    tn_autofree char *json = unit_file(directory, "page.tree.json", &tree_len);
    tn_autofree char *expected = unit_file(directory, "page.tree.txt", &n);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_dom dom;

    assert_int_equal(tn_dom_read(&dom, snapshot, snapshot_len, NULL), 0);
    const struct tn_tree_source source = {.json = json, .n = tree_len, .dom = &dom};
    expected[n - 1] = '\0'; /* the file ends with a newline */
    check(&source, 1, expected);

    struct tn_tree *t = tn_tree_read(&source, 1, NULL);
    tn_tree_put_text(t, &text, 100);
    assert_non_null(strstr(tn_buf_str(&text), "\n[... the tree has more than 0 kB"));
    assert_memory_equal(text.data, expected, 60);

    tn_autojson struct tn_json *object = NULL;
    tn_buf_reset(&text);
    tn_tree_put_object(t, &text);
    assert_int_equal(tn_json_parse(text.data, text.len, &object, NULL), 0);
    const struct tn_json *nodes = tn_json_get(object, "nodes");
    bool found = false;
    for (size_t i = 0; i < tn_json_count(nodes); i++) {
        const struct tn_json *node = tn_json_at(nodes, i);
        const char *role = tn_json_get_str(tn_json_get(node, "role"), "value", "");
        assert_null(tn_json_get(node, "description")); /* only ours, which is empty */
        assert_string_not_equal(role, "InlineTextBox");
        if (strcmp(role, "combobox") == 0) {
            assert_string_equal(tn_json_get_str(node, "browsergym_id", ""), "31");
            found = true;
        }
    }
    assert_true(found);
    tn_tree_free(t);
    tn_dom_done(&dom);
}

#define NODE(id, role, name, rest)                                                          \
    "{\"nodeId\":\"" id "\",\"role\":{\"type\":\"role\",\"value\":\"" role "\"},\"name\":{" \
    "\"type\":\"computedString\",\"value\":\"" name "\"}," rest "}"

static void test_lines(void **state)
{
    check_one("{\"nodes\":[" NODE("1", "button", " it's \\u00a0", "\"childIds\":[]") "]}",
              "button \"it's\"");
    check_one("{\"nodes\":[" NODE("1", "generic", "", "\"childIds\":[]") "]}", "generic");
    check_one("{\"nodes\":[" NODE("1", "generic", "x", "\"childIds\":[]") "]}", "generic 'x'");
    check_one("{\"nodes\":[" NODE("1", "a", "both ' and \\\"", "\"childIds\":[]") "]}",
              "a 'both \\' and \"'");
    check_one("{\"nodes\":[" NODE("1", "a", "l\\nm\\t\\u200b\\\\\\u0007", "\"childIds\":[]") "]}",
              "a 'l\\nm\\t\\u200b\\\\\\x07'");
    check_one("{\"nodes\":[" NODE("1", "slider", "",
                                  "\"value\":{\"type\":\"number\",\"value\":0.5},"
                                  "\"properties\":["
                                  "{\"name\":\"required\",\"value\":{\"type\":"
                                  "\"boolean\",\"value\":false}},"
                                  "{\"name\":\"focused\",\"value\":{\"type\":"
                                  "\"boolean\",\"value\":true}},"
                                  "{\"name\":\"level\",\"value\":{\"type\":"
                                  "\"integer\",\"value\":2}},"
                                  "{\"name\":\"labelledby\",\"value\":{\"type\":"
                                  "\"nodeList\"}},"
                                  "{\"name\":\"checked\",\"value\":{\"type\":"
                                  "\"tristate\",\"value\":\"mixed\"}},"
                                  "{\"name\":\"busy\",\"value\":{\"type\":"
                                  "\"boolean\",\"value\":true}}],"
                                  "\"childIds\":[]") "]}",
              "slider '' value=0.5, focused, checked='mixed', busy=True");
}

static void test_what_is_skipped(void **state)
{
    /* Nodes that are skipped do not indent; text that the parent's name has is not repeated. */
    check_one(
        "{\"nodes\":[" NODE(
            "1", "RootWebArea", "t",
            "\"childIds\":[\"2\",\"9\",\"1\"]") ","
                                                "{\"nodeId\":\"2\",\"role\":{\"value\":\"none\"},\"childIds\":[\"3\",\"5\"]}," NODE("3", "button", "Go on", "\"childIds\":[\"4\",\"6\"]") "," NODE(
                                                    "4", "StaticText", "Go",
                                                    "\"childIds\":[\"-7\"]") "," NODE("-7",
                                                                                      "InlineTextBox",
                                                                                      "Go",
                                                                                      "\"childIds\":[]") "," NODE("5",
                                                                                                                  "LineBreak",
                                                                                                                  "\\n",
                                                                                                                  "\"childIds\":[]") "," NODE("6",
                                                                                                                                              "StaticText",
                                                                                                                                              "more",
                                                                                                                                              "\"childIds\":[]") "]}",
        "RootWebArea 't'\n\tbutton 'Go on'\n\t\tStaticText 'more'");
}

static void test_circles_end(void **state)
{
    check_one("{\"nodes\":[" NODE("1", "a", "x", "\"childIds\":[\"2\",\"2\"]") "," NODE(
                  "2", "b", "y", "\"childIds\":[\"1\",\"2\"]") "]}",
              "a 'x'\n\tb 'y'");
}

static void test_frames(void **state)
{
    static const char outer[] =
        "{\"nodes\":[" NODE("1", "RootWebArea", "out", "\"childIds\":[\"2\",\"3\"]") "," NODE(
            "2", "Iframe", "",
            "\"backendDOMNodeId\":20,\"childIds\":[]") "," NODE("3", "Iframe", "",
                                                                "\"backendDOMNodeId\":30,\"childIds\":[]") "]}";
    static const char inner[] =
        "{\"nodes\":[" NODE("1", "RootWebArea", "in", "\"parentId\":\"9\",\"childIds\":[]") "]}";
    struct tn_tree_source sources[] = {
        {.json = outer, .n = sizeof outer - 1},
        {.json = NULL, .parent = 0, .owner = 20},
        {.json = inner, .n = sizeof inner - 1, .parent = 0, .owner = 30, .session = 1},
    };
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 14);

    check(sources, 3, "RootWebArea 'out'\n\tIframe ''\n\tIframe ''\n\t\tRootWebArea 'in'");
    struct tn_tree *t = tn_tree_read(sources, 3, NULL);
    tn_tree_put_object(t, &text);
    tn_tree_free(t);
    assert_non_null(strstr(tn_buf_str(&text), "\"nodeId\":\"1:1\""));
    assert_non_null(strstr(tn_buf_str(&text), "\"childIds\":[\"1:1\"]"));
    assert_non_null(strstr(tn_buf_str(&text), "\"parentId\":\"1:9\""));

    sources[2].parent = 1; /* in the frame that did not answer: nowhere to be shown */
    check(sources, 3, "RootWebArea 'out'\n\tIframe ''\n\tIframe ''");
}

static void test_nonsense_is_refused(void **state)
{
    static const char *const texts[] = {
        "", "{}", "[]", "{\"nodes\":[]}", "{\"nodes\":[1]}", "{\"nodes\":[{\"nodeId\""};

    for (size_t i = 0; i < TN_COUNT(texts); i++) {
        const struct tn_tree_source source = {.json = texts[i], .n = strlen(texts[i])};
        struct tn_error err = {0};
        assert_null(tn_tree_read(&source, 1, &err));
        assert_int_equal(err.code, TN_E_PEER);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_page),       cmocka_unit_test(test_lines),
        cmocka_unit_test(test_what_is_skipped), cmocka_unit_test(test_circles_end),
        cmocka_unit_test(test_frames),          cmocka_unit_test(test_nonsense_is_refused),
    };
    directory = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
