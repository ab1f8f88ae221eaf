#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/yaml-tree.h"
#include "runtime/setup/microagent.h"

/* --- YAML --------------------------------------------------------------------------------- */

static void test_yaml(void **state)
{
    static const struct {
        const char *yaml, *json;
    } cases[] = {
        {"", NULL},
        {"# only a comment\n", NULL},
        {"a: 1\nb: -2.5\nc: text\nd: 'quoted'\ne: \"12\"\n",
         "{\"a\":1,\"b\":-2.5,\"c\":\"text\",\"d\":\"quoted\",\"e\":\"12\"}"},
        {"a: true\nb: False\nc: yes\nd: ~\ne: null\nf:\n",
         "{\"a\":true,\"b\":false,\"c\":\"yes\",\"d\":null,\"e\":null,\"f\":null}"},
        {"a: 1.2.3\nb: 007\nc: 1:30\nd: 2024-01-02\ne: 1e3\nf: .5\n",
         "{\"a\":\"1.2.3\",\"b\":\"007\",\"c\":\"1:30\",\"d\":\"2024-01-02\",\"e\":1000.0,"
         "\"f\":0.5}"},
        {"- a\n- [b, {c: d}]\n-\n  - e\n", "[\"a\",[\"b\",{\"c\":\"d\"}],[\"e\"]]"},
        {"a: |\n  two\n  lines\nb: >\n  folded\n  text\n",
         "{\"a\":\"two\\nlines\\n\",\"b\":\"folded text\\n\"}"},
        {"{}", "{}"},
        {"[]", "[]"},
        {"a: {b: [], c: {}}\nd: x\n", "{\"a\":{\"b\":[],\"c\":{}},\"d\":\"x\"}"},
        {"just text", "\"just text\""},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autojson struct tn_json *tree = NULL;
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 12);
        struct tn_jw w = tn_jw(&out);
        struct tn_error err = {0};
        if (tn_yaml_parse(cases[i].yaml, strlen(cases[i].yaml), 10000, &tree, &err) < 0)
            fail_msg("%s: %s", cases[i].yaml, err.text);
        if (!cases[i].json) {
            assert_null(tree);
            continue;
        }
        tn_jw_tree(&w, tree);
        assert_string_equal(tn_buf_str(&out), cases[i].json);
    }
}

static void refuse_yaml(const char *yaml, const char *expected)
{
    struct tn_json *tree = NULL;
    struct tn_error err = {0};

    assert_int_equal(tn_yaml_parse(yaml, strlen(yaml), 10000, &tree, &err), -1);
    if (!strstr(err.text, expected))
        fail_msg("%s", err.text);
    assert_null(tree);
}

static void test_refused_yaml(void **state)
{
    tn_autobuf struct tn_buf deep = TN_BUF_INIT(1 << 12), wide = TN_BUF_INIT(1 << 16);

    refuse_yaml("a: [1\n", "YAML, line ");
    refuse_yaml("a: &x 1\nb: *x\n", "line 2: aliases");
    refuse_yaml("? [a]\n: b\n", "a key must be plain text");
    refuse_yaml("a: 1\n---\nb: 2\n", "more than one document");
    refuse_yaml("a: \xff\n", "YAML, line ");
    refuse_yaml("a: b: c\n", "YAML, line ");
    for (int i = 0; i < 33; i++)
        tn_buf_putc(&deep, '[');
    refuse_yaml(tn_buf_str(&deep), "too deep");
    tn_buf_putc(&wide, '[');
    for (int i = 0; i < 10000; i++)
        tn_buf_puts(&wide, "1,");
    tn_buf_putc(&wide, ']');
    refuse_yaml(tn_buf_str(&wide), "too many values");
}

/* --- files -------------------------------------------------------------------------------- */

static void test_files(void **state)
{
    static const struct {
        const char *text;
        enum tn_microagent_type type;
        const char *content;
        size_t triggers;
        const char *version;
    } cases[] = {
        {"", TN_MICROAGENT_REPO, "", 0, "1.0.0"},
        {"just text\n", TN_MICROAGENT_REPO, "just text", 0, "1.0.0"},
        {"---\ntriggers: [a, b]\n---\n\n\nbody\n---\nmore\n\n", TN_MICROAGENT_KNOWLEDGE,
         "body\n---\nmore", 2, "1.0.0"},
        {"---\r\ntriggers:\r\n- a\r\nversion: 3\r\n---\r\nbody\r\n", TN_MICROAGENT_KNOWLEDGE,
         "body", 1, "3.0"},
        {"\xef\xbb\xbf---\nversion: 1.2.3\n---\nbody", TN_MICROAGENT_REPO, "body", 0, "1.2.3"},
        {"---\ntriggers: one\n---\nbody", TN_MICROAGENT_KNOWLEDGE, "body", 1, "1.0.0"},
        {"---\ninputs: [{name: x}]\ntriggers: [y]\n---\nbody", TN_MICROAGENT_TASK, "body", 2,
         "1.0.0"},
        {"---\ninputs: [{name: x}]\ntriggers: [/name]\n---\nbody", TN_MICROAGENT_TASK, "body", 1,
         "1.0.0"},
        {"---\ntriggers: []\ninputs: []\ntype: knowledge\n---\nbody", TN_MICROAGENT_REPO, "body", 0,
         "1.0.0"},
        {"---\n---\nbody", TN_MICROAGENT_REPO, "body", 0, "1.0.0"},
        {"---\nno end\nof it", TN_MICROAGENT_REPO, "---\nno end\nof it", 0, "1.0.0"},
        {"----\ntriggers: [a]\n----\n", TN_MICROAGENT_REPO, "----\ntriggers: [a]\n----", 0,
         "1.0.0"},
        {"---\nunknown: {deep: [1]}\nagent:\n---\nbody", TN_MICROAGENT_REPO, "body", 0, "1.0.0"},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_automicroagents struct tn_microagents list = {0};
        struct tn_error err = {0};
        if (tn_microagents_add(&list, "name", "dir/name.md", cases[i].text, strlen(cases[i].text),
                               &err) < 0)
            fail_msg("%s: %s", cases[i].text, err.text);
        const struct tn_microagent *m = &list.items[0];
        assert_int_equal(list.count, 1);
        assert_string_equal(m->name, "name");
        assert_string_equal(m->source, "dir/name.md");
        assert_string_equal(m->agent, "CodeActAgent");
        assert_string_equal(m->content.data, cases[i].content);
        assert_int_equal(m->content.len, strlen(cases[i].content));
        assert_int_equal(m->type, cases[i].type);
        assert_int_equal(m->triggers.count, cases[i].triggers);
        assert_string_equal(m->version, cases[i].version);
    }
}

static void test_wrong_files(void **state)
{
    static const char *const cases[] = {
        "---\n[a]\n---\nbody",
        "---\ntext\n---\nbody",
        "---\ntriggers: {a: b}\n---\nbody",
        "---\ntriggers: [1]\n---\nbody",
        "---\ninputs: text\n---\nbody",
        "---\nmcp_tools: []\n---\nbody",
        "---\na: *b\n---\nbody",
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_automicroagents struct tn_microagents list = {0};
        struct tn_error err = {0};
        assert_int_equal(
            tn_microagents_add(&list, "n", "the-source", cases[i], strlen(cases[i]), &err), -1);
        assert_int_equal(strncmp(err.text, "the-source: ", 12), 0);
        assert_int_equal(list.count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_refused_yaml),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_wrong_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
