#include "base/utf8.h"
#include "helpers.h"

static void decode(const char *text, struct tn_observation *o)
{
    tn_autojson struct tn_json *json = parse(text);
    struct tn_error err = {0};
    if (tn_observation_from_json(json, o, &err) < 0)
        fail_msg("%s: %s", text, err.text);
}

static char *encode(const struct tn_observation *o)
{
    struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&out);
    tn_observation_to_json(o, &w);
    assert_true(tn_buf_ok(&out));
    return tn_buf_take(&out);
}

/* The smallest observation of each type, and all that goes out for it. */
static const struct {
    const char *in, *out;
} defaults[TN_OBSERVATION_TYPE_COUNT] = {
    [TN_OBSERVATION_RUN] =
        {"{\"observation\":\"run\",\"content\":\"a\\nb\",\"extras\":{\"command\":\"ls\"}}",
         "{\"message\":\"Command `ls` executed with exit code -1.\",\"observation\":\"run\","
         "\"content\":\"a\\nb\",\"extras\":{\"command\":\"ls\",\"metadata\":{\"exit_code\":-1,"
         "\"pid\":-1,\"username\":null,\"hostname\":null,\"working_dir\":null,"
         "\"py_interpreter_path\":null,\"prefix\":\"\",\"suffix\":\"\"},\"hidden\":false},"
         "\"success\":false}"},
    [TN_OBSERVATION_RUN_IPYTHON] =
        {"{\"observation\":\"run_ipython\",\"content\":\"2\",\"extras\":{\"code\":\"1+1\"}}",
         "{\"message\":\"Code executed in IPython cell.\",\"observation\":\"run_ipython\","
         "\"content\":\"2\",\"extras\":{\"code\":\"1+1\",\"image_urls\":null},\"success\":true}"},
    [TN_OBSERVATION_READ] =
        {"{\"observation\":\"read\",\"content\":\"x\",\"extras\":{\"path\":\"/a\"}}",
         "{\"message\":\"I read the file /a.\",\"observation\":\"read\",\"content\":\"x\","
         "\"extras\":{\"path\":\"/a\",\"impl_source\":\"default\"}}"},
    [TN_OBSERVATION_WRITE] =
        {"{\"observation\":\"write\",\"extras\":{\"path\":\"/a\"}}",
         "{\"message\":\"I wrote to the file /a.\",\"observation\":\"write\",\"content\":\"\","
         "\"extras\":{\"path\":\"/a\"}}"},
    [TN_OBSERVATION_EDIT] =
        {"{\"observation\":\"edit\",\"content\":\"c\",\"extras\":{\"path\":\"/a\"}}",
         "{\"message\":\"I edited the file /a.\",\"observation\":\"edit\",\"content\":\"c\","
         "\"extras\":{\"path\":\"/a\",\"prev_exist\":false,\"old_content\":null,"
         "\"new_content\":null,\"impl_source\":\"oh_aci\",\"diff\":null,\"_diff_cache\":null}}"},
    [TN_OBSERVATION_BROWSE] =
        {"{\"observation\":\"browse\",\"content\":\"c\",\"extras\":{\"url\":\"u\","
         "\"trigger_by_action\":\"browse\"}}",
         "{\"message\":\"Visited u\",\"observation\":\"browse\",\"content\":\"c\",\"extras\":{"
         "\"url\":\"u\",\"trigger_by_action\":\"browse\",\"screenshot\":\"\","
         "\"screenshot_path\":null,\"set_of_marks\":\"\",\"error\":false,\"goal_image_urls\":[],"
         "\"open_pages_urls\":[],\"active_page_index\":-1,\"dom_object\":{},\"axtree_object\":{},"
         "\"extra_element_properties\":{},\"last_browser_action\":\"\","
         "\"last_browser_action_error\":\"\",\"focused_element_bid\":\"\","
         "\"filter_visible_only\":false}}"},
    [TN_OBSERVATION_DOWNLOAD] =
        {"{\"observation\":\"download\",\"content\":\"c\",\"extras\":{\"file_path\":\"/f\"}}",
         "{\"message\":\"Downloaded the file at location: /f\",\"observation\":\"download\","
         "\"content\":\"c\",\"extras\":{\"file_path\":\"/f\"}}"},
    [TN_OBSERVATION_ERROR] = {"{\"observation\":\"error\",\"content\":\"oh\"}",
                              "{\"message\":\"oh\",\"observation\":\"error\",\"content\":\"oh\","
                              "\"extras\":{\"error_id\":\"\"}}"},
    [TN_OBSERVATION_NULL] = {"{\"observation\":\"null\"}",
                             "{\"message\":\"No observation\",\"observation\":\"null\","
                             "\"content\":\"\",\"extras\":{}}"},
    [TN_OBSERVATION_THINK] = {"{\"observation\":\"think\",\"content\":\"logged\",\"extras\":{}}",
                              "{\"message\":\"logged\",\"observation\":\"think\","
                              "\"content\":\"logged\",\"extras\":{}}"},
    [TN_OBSERVATION_USER_REJECTED] = {"{\"observation\":\"user_rejected\",\"content\":\"no\"}",
                                      "{\"message\":\"no\",\"observation\":\"user_rejected\","
                                      "\"content\":\"no\",\"extras\":{}}"},
    [TN_OBSERVATION_MCP] = {"{\"observation\":\"mcp\",\"content\":\"{}\"}",
                            "{\"message\":\"{}\",\"observation\":\"mcp\",\"content\":\"{}\","
                            "\"extras\":{\"name\":\"\",\"arguments\":{}}}"},
    [TN_OBSERVATION_DELEGATE] = {"{\"observation\":\"delegate\",\"content\":\"c\"}",
                                 "{\"message\":\"\",\"observation\":\"delegate\","
                                 "\"content\":\"c\",\"extras\":{\"outputs\":{}}}"},
    [TN_OBSERVATION_SUCCESS] = {"{\"observation\":\"success\",\"content\":\"c\"}",
                                "{\"message\":\"c\",\"observation\":\"success\","
                                "\"content\":\"c\",\"extras\":{}}"},
    [TN_OBSERVATION_AGENT_STATE_CHANGED] =
        {"{\"observation\":\"agent_state_changed\",\"extras\":{\"agent_state\":\"running\"}}",
         "{\"message\":\"\",\"observation\":\"agent_state_changed\",\"content\":\"\","
         "\"extras\":{\"agent_state\":\"running\",\"reason\":\"\"}}"},
    [TN_OBSERVATION_CONDENSE] = {"{\"observation\":\"condense\",\"content\":\"c\"}",
                                 "{\"message\":\"c\",\"observation\":\"condense\","
                                 "\"content\":\"c\",\"extras\":{}}"},
    [TN_OBSERVATION_RECALL] =
        {"{\"observation\":\"recall\",\"extras\":{\"recall_type\":\"workspace_context\"}}",
         "{\"message\":\"Added workspace context\",\"observation\":\"recall\",\"content\":\"\","
         "\"extras\":{\"recall_type\":\"workspace_context\",\"repo_name\":\"\","
         "\"repo_directory\":\"\",\"repo_branch\":\"\",\"repo_instructions\":\"\","
         "\"runtime_hosts\":{},\"additional_agent_instructions\":\"\",\"date\":\"\","
         "\"custom_secrets_descriptions\":{},\"conversation_instructions\":\"\","
         "\"working_dir\":\"\",\"microagent_knowledge\":[]}}"},
    [TN_OBSERVATION_TASK_TRACKING] =
        {"{\"observation\":\"task_tracking\",\"content\":\"c\"}",
         "{\"message\":\"c\",\"observation\":\"task_tracking\",\"content\":\"c\","
         "\"extras\":{\"command\":\"\",\"task_list\":[]}}"},
    [TN_OBSERVATION_LOOP_DETECTION] = {"{\"observation\":\"loop_detection\",\"content\":\"c\"}",
                                       "{\"message\":\"\",\"observation\":\"loop_detection\","
                                       "\"content\":\"c\",\"extras\":{}}"},
};

static void test_defaults_of_every_type(void **state)
{
    for (size_t i = 0; i < TN_OBSERVATION_TYPE_COUNT; i++) {
        tn_autoobservation struct tn_observation o;
        decode(defaults[i].in, &o);
        assert_int_equal(o.type, i);
        tn_autofree char *out = encode(&o);
        assert_string_equal(out, defaults[i].out);
        enum tn_observation_type type;
        assert_int_equal(tn_observation_type_from_name(tn_observation_name(i), &type, NULL), 0);
        assert_int_equal(type, i);
    }
}

/* Everything set: what goes out is what came in. */
static const char *const complete[] = {
    "{\"id\":3,\"timestamp\":\"now\",\"source\":\"environment\",\"cause\":2,"
    "\"message\":\"Command `ls` executed with exit code 0.\",\"observation\":\"run\","
    "\"tool_call_metadata\":{},\"llm_metrics\":{},\"content\":\"a\\nb\","
    "\"extras\":{\"command\":\"ls\",\"metadata\":{\"exit_code\":0,\"pid\":7,"
    "\"username\":\"openhands\",\"hostname\":\"h\",\"working_dir\":\"/workspace\","
    "\"py_interpreter_path\":\"\",\"prefix\":\"[p]\","
    "\"suffix\":\"\\n[The command completed with exit code 0.]\",\"duration\":0.25,"
    "\"user_time\":0.0,\"system_time\":1e-06,\"peak_memory\":4096,\"output_bytes\":4,"
    "\"signal\":\"SIGKILL\",\"end\":\"completed\",\"command_id\":\"c1\",\"output_path\":\"/o\","
    "\"output_size\":0,\"output_dropped\":0},\"hidden\":true},\"success\":true}",
    "{\"message\":\"Code executed in IPython cell.\",\"observation\":\"run_ipython\","
    "\"content\":\"c\",\"extras\":{\"code\":\"c\",\"image_urls\":[\"data:\"]},\"success\":false}",
    "{\"message\":\"I read the file p.\",\"observation\":\"read\",\"content\":\"c\","
    "\"extras\":{\"path\":\"p\",\"impl_source\":\"oh_aci\"}}",
    "{\"message\":\"I edited the file p.\",\"observation\":\"edit\",\"content\":\"c\","
    "\"extras\":{\"path\":\"p\",\"prev_exist\":true,\"old_content\":\"o\\u0000\","
    "\"new_content\":\"\",\"impl_source\":\"llm_based_edit\",\"diff\":\"--- p\",\"_diff_cache\":null}}",
    "{\"message\":\"Visited u\",\"observation\":\"browse\",\"content\":\"c\",\"extras\":{"
    "\"url\":\"u\",\"trigger_by_action\":\"browse_interactive\",\"screenshot\":\"s\","
    "\"screenshot_path\":\"/s\",\"set_of_marks\":\"m\",\"error\":true,\"goal_image_urls\":[\"g\"],"
    "\"open_pages_urls\":[\"a\",\"b\"],\"active_page_index\":1,\"dom_object\":{\"d\":1},"
    "\"axtree_object\":{\"nodes\":[]},\"extra_element_properties\":{\"1\":{}},"
    "\"last_browser_action\":\"l\",\"last_browser_action_error\":\"e\","
    "\"focused_element_bid\":\"12\",\"filter_visible_only\":true}}",
    "{\"message\":\"c\",\"observation\":\"error\",\"content\":\"c\","
    "\"extras\":{\"error_id\":\"AGENT_ERROR$BAD_ACTION\"}}",
    "{\"message\":\"c\",\"observation\":\"mcp\",\"content\":\"c\","
    "\"extras\":{\"name\":\"n\",\"arguments\":{\"a\":1}}}",
    "{\"message\":\"\",\"observation\":\"delegate\",\"content\":\"c\","
    "\"extras\":{\"outputs\":{\"a\":1}}}",
    "{\"message\":\"\",\"observation\":\"agent_state_changed\",\"content\":\"\","
    "\"extras\":{\"agent_state\":\"s\",\"reason\":\"r\"}}",
    "{\"message\":\"Added microagent knowledge\",\"observation\":\"recall\",\"content\":\"\","
    "\"extras\":{\"recall_type\":\"knowledge\",\"repo_name\":\"a\",\"repo_directory\":\"b\","
    "\"repo_branch\":\"c\",\"repo_instructions\":\"d\",\"runtime_hosts\":{\"h\":1},"
    "\"additional_agent_instructions\":\"e\",\"date\":\"f\","
    "\"custom_secrets_descriptions\":{\"k\":\"v\"},\"conversation_instructions\":\"g\","
    "\"working_dir\":\"h\",\"microagent_knowledge\":[{\"name\":\"n\"}]}}",
    "{\"message\":\"c\",\"observation\":\"task_tracking\",\"content\":\"c\","
    "\"extras\":{\"command\":\"plan\",\"task_list\":[{}]}}",
};

static void test_complete_round_trip(void **state)
{
    for (size_t i = 0; i < TN_COUNT(complete); i++) {
        tn_autoobservation struct tn_observation o;
        decode(complete[i], &o);
        tn_autofree char *out = encode(&o);
        assert_string_equal(out, complete[i]);
    }
}

/* Hosts splat the extras into constructors with exactly these parameters. */
static const char *const host_extras[TN_OBSERVATION_TYPE_COUNT] = {
    [TN_OBSERVATION_RUN] = " command metadata hidden ",
    [TN_OBSERVATION_RUN_IPYTHON] = " code image_urls ",
    [TN_OBSERVATION_READ] = " path impl_source ",
    [TN_OBSERVATION_WRITE] = " path ",
    [TN_OBSERVATION_EDIT] =
        " path prev_exist old_content new_content impl_source diff _diff_cache ",
    [TN_OBSERVATION_BROWSE] =
        " url trigger_by_action screenshot screenshot_path set_of_marks error goal_image_urls "
        "open_pages_urls active_page_index dom_object axtree_object extra_element_properties "
        "last_browser_action last_browser_action_error focused_element_bid filter_visible_only ",
    [TN_OBSERVATION_DOWNLOAD] = " file_path ",
    [TN_OBSERVATION_ERROR] = " error_id ",
    [TN_OBSERVATION_MCP] = " name arguments ",
    [TN_OBSERVATION_DELEGATE] = " outputs ",
    [TN_OBSERVATION_AGENT_STATE_CHANGED] = " agent_state reason ",
    [TN_OBSERVATION_RECALL] =
        " recall_type repo_name repo_directory repo_branch repo_instructions runtime_hosts "
        "additional_agent_instructions date custom_secrets_descriptions conversation_instructions "
        "working_dir microagent_knowledge ",
    [TN_OBSERVATION_TASK_TRACKING] = " command task_list ",
};

static int assert_known(const char *key, struct tn_json *value, void *ctx)
{
    tn_autofree char *word = tn_asprintf(" %s ", key);
    if (!strstr(ctx, word))
        fail_msg("no host knows the extra %s", key);
    return 0;
}

static void assert_extras_known(const struct tn_observation *o)
{
    const char *known = host_extras[o->type] ? host_extras[o->type] : "";
    tn_autofree char *text = encode(o), *words = tn_strdup(known);
    tn_autojson struct tn_json *json = parse(text);
    tn_json_each(tn_json_get(json, "extras"), assert_known, words);
}

static void test_no_unknown_extras(void **state)
{
    for (size_t i = 0; i < TN_OBSERVATION_TYPE_COUNT; i++) {
        tn_autoobservation struct tn_observation o;
        tn_observation_init(&o, i);
        assert_extras_known(&o);
    }
    for (size_t i = 0; i < TN_COUNT(complete); i++) {
        tn_autoobservation struct tn_observation o;
        decode(complete[i], &o);
        assert_extras_known(&o);
    }
}

/* What a hand forgets to set must not become null where a host wants a string. */
static void test_unset_required_strings(void **state)
{
    tn_autoobservation struct tn_observation o;
    tn_observation_init(&o, TN_OBSERVATION_BROWSE);
    tn_autofree char *out = encode(&o);
    assert_non_null(strstr(out, "\"url\":\"\",\"trigger_by_action\":\"\""));
    assert_non_null(strstr(out, "\"content\":\"\""));
}

static void test_errors_of_hidden_actions(void **state)
{
    tn_autoaction struct tn_action hidden, plain;
    tn_autoobservation struct tn_observation run, error, orphan;

    tn_action_init(&hidden, TN_ACTION_RUN);
    hidden.run.command = tn_strdup("git status");
    hidden.run.hidden = true;
    tn_observation_init_error(&run, &hidden, "no %s", "shell");
    assert_int_equal(run.type, TN_OBSERVATION_RUN);
    tn_autofree char *out = encode(&run);
    assert_string_equal(
        out,
        "{\"message\":\"Command `git status` executed with exit code -1.\",\"observation\":\"run\","
        "\"content\":\"no shell\",\"extras\":{\"command\":\"git status\",\"metadata\":{"
        "\"exit_code\":-1,\"pid\":-1,\"username\":null,\"hostname\":null,\"working_dir\":null,"
        "\"py_interpreter_path\":null,\"prefix\":\"\",\"suffix\":\"\"},\"hidden\":true},"
        "\"success\":false}");

    tn_action_init(&plain, TN_ACTION_RUN);
    tn_observation_init_error(&error, &plain, "100%%");
    assert_int_equal(error.type, TN_OBSERVATION_ERROR);
    assert_string_equal(error.content.data, "100%");
    tn_observation_init_error(&orphan, NULL, "x");
    assert_int_equal(orphan.type, TN_OBSERVATION_ERROR);
}

static void test_legacy_extras(void **state)
{
    static const struct {
        const char *extras;
        int64_t exit_code, pid;
    } cases[] = {
        {"{\"command\":\"c\",\"exit_code\":3,\"command_id\":44}", 3, 44},
        {"{\"command\":\"c\",\"exit_code\":3,\"metadata\":{\"exit_code\":1,\"pid\":5}}", 3, 5},
        {"{\"command\":\"c\",\"metadata\":{\"exit_code\":\"12\",\"pid\":\"\"}}", 12, -1},
        {"{\"command\":\"c\",\"metadata\":{\"exit_code\":\"1.0\",\"pid\":8.9,\"new\":{}}}", 1, 8},
        {"{\"command\":\"c\",\"metadata\":null,\"formatted_output_and_error\":\"x\"}", -1, -1},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autofree char *text = tn_asprintf(
            "{\"observation\":\"run\",\"content\":\"\",\"extras\":%s}", cases[i].extras);
        tn_autoobservation struct tn_observation o;
        decode(text, &o);
        assert_int_equal(o.run.metadata.exit_code, cases[i].exit_code);
        assert_int_equal(o.run.metadata.pid, cases[i].pid);
        tn_autofree char *out = encode(&o);
        assert_null(strstr(out, "command_id"));
        assert_null(strstr(out, "formatted"));
    }
}

/* --- the cut --------------------------------------------------------------------------- */

#define NOTE "\n[... Observation truncated due to length ...]\n"

/* n characters, each the given one but the first and the last, which are a and z. */
static void fill(struct tn_buf *b, const char *one, size_t n)
{
    tn_buf_reset(b);
    for (size_t i = 0; i < n; i++)
        tn_buf_puts(b, i == 0 ? "a" : i + 1 == n ? "z" : one);
}

static void assert_cut(const char *one, size_t n, bool hidden, size_t expected)
{
    tn_autobuf struct tn_buf content = TN_BUF_INIT(1 << 20);
    tn_autoobservation struct tn_observation o;

    fill(&content, one, n);
    tn_observation_init(&o, TN_OBSERVATION_RUN);
    o.run.hidden = hidden;
    tn_observation_take_content(&o, &content);
    tn_autofree char *out = encode(&o);
    tn_autojson struct tn_json *json = parse(out);
    size_t len;
    const char *text = tn_json_str(tn_json_get(json, "content"), &len);
    assert_int_equal(tn_utf8_length(text, len), expected);
    assert_true(text[0] == 'a' && text[len - 1] == 'z');
    bool cut = expected != n;
    assert_int_equal(strstr(text, NOTE) != NULL, cut);
    if (cut) {
        size_t head = (size_t)(strstr(text, NOTE) - text);
        assert_int_equal(tn_utf8_length(text, head), TN_CONTENT_LIMIT / 2);
    }
    /* A host that cuts again changes nothing. */
    tn_autoobservation struct tn_observation again;
    decode(out, &again);
    assert_int_equal(again.content.len, len);
    assert_memory_equal(again.content.data, text, len);
}

static void test_cut(void **state)
{
    const size_t cut = TN_CONTENT_LIMIT + sizeof NOTE - 1;
    static const char *const characters[] = {"x", "é", "€", "😀", "\xff", "\xa9"};

    for (size_t i = 0; i < TN_COUNT(characters); i++) {
        assert_cut(characters[i], TN_CONTENT_LIMIT, false, TN_CONTENT_LIMIT);
        assert_cut(characters[i], TN_CONTENT_LIMIT + 1, false, cut);
        assert_cut(characters[i], TN_CONTENT_LIMIT * 2, false, cut);
        assert_cut(characters[i], TN_CONTENT_LIMIT * 5, false, cut);
        assert_cut(characters[i], TN_CONTENT_LIMIT * 2, true, TN_CONTENT_LIMIT * 2);
    }
}

static void test_only_run_is_cut(void **state)
{
    tn_autobuf struct tn_buf content = TN_BUF_INIT(1 << 20);
    tn_autoobservation struct tn_observation o;

    fill(&content, "x", 50000);
    tn_observation_init(&o, TN_OBSERVATION_READ);
    tn_observation_take_content(&o, &content);
    tn_autofree char *out = encode(&o);
    assert_true(strlen(out) > 50000);
}

static void test_content_of_any_bytes(void **state)
{
    tn_autoobservation struct tn_observation o;
    static const char bytes[] = "\0\x1b[31m\xff\xc3\xa9\xed\xa0\x80\"\\\n";

    tn_observation_init(&o, TN_OBSERVATION_ERROR);
    struct tn_buf content = TN_BUF_INIT(100);
    tn_buf_add(&content, bytes, sizeof bytes - 1);
    tn_observation_take_content(&o, &content);
    tn_autofree char *out = encode(&o);
    assert_string_equal(out,
                        "{\"message\":\"\\u0000\\u001b[31m\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf"
                        "\xbd\xef\xbf\xbd\\\"\\\\\\n\",\"observation\":\"error\",\"content\":"
                        "\"\\u0000\\u001b[31m\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf"
                        "\xbd\xef\xbf\xbd\\\"\\\\\\n\",\"extras\":{\"error_id\":\"\"}}");
    tn_autoobservation struct tn_observation back;
    decode(out, &back);
    assert_int_equal(back.content.data[0], '\0');
    tn_observation_set_content(&back, "new");
    assert_string_equal(back.content.data, "new");
    assert_int_equal(back.content.len, 3);
}

static void test_errors(void **state)
{
    static const struct {
        const char *json;
        enum tn_code code;
        const char *text;
    } cases[] = {
        {"[]", TN_E_INVALID, "expected an object with the key observation, found array"},
        {"{}", TN_E_INVALID, "expected an object with the key observation, found one without it"},
        {"{\"action\":\"run\"}", TN_E_INVALID,
         "expected an object with the key observation, found one without it"},
        {"{\"observation\":7}", TN_E_INVALID, "observation: expected a string, found integer"},
        {"{\"observation\":\"eror\"}", TN_E_UNSUPPORTED,
         "unknown observation type 'eror'; did you mean 'error'?"},
        {"{\"observation\":\"chat\"}", TN_E_UNSUPPORTED, "unknown observation type 'chat'"},
        {"{\"observation\":\"run\"}", TN_E_UNPROCESSABLE,
         "observation run: extras: command is required"},
        {"{\"observation\":\"run\",\"extras\":5}", TN_E_UNPROCESSABLE,
         "observation run: extras: expected an object, found integer"},
        {"{\"observation\":\"run\",\"extras\":{\"command\":\"c\",\"metadata\":{\"prefix\":1}}}",
         TN_E_UNPROCESSABLE,
         "observation run: extras: metadata: prefix: expected a string, found integer"},
        {"{\"observation\":\"error\",\"content\":{}}", TN_E_UNPROCESSABLE,
         "observation error: content: expected a string, found object"},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autojson struct tn_json *json = parse(cases[i].json);
        struct tn_observation o;
        struct tn_error err = {0};
        if (tn_observation_from_json(json, &o, &err) == 0)
            fail_msg("accepted: %s", cases[i].json);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(err.code, cases[i].code);
    }
}

static void test_a_full_buffer_is_reported(void **state)
{
    struct tn_buf small = TN_BUF_INIT(40);
    struct tn_jw w = tn_jw(&small);
    tn_autoobservation struct tn_observation o;

    tn_observation_init(&o, TN_OBSERVATION_RUN);
    tn_observation_to_json(&o, &w);
    assert_false(tn_buf_ok(&small));
    tn_buf_done(&small);
}

static void test_kinds(void **state)
{
    static const struct {
        const char *json;
        enum tn_event_kind kind;
    } cases[] = {
        {"{\"action\":\"x\"}", TN_EVENT_ACTION},
        {"{\"observation\":null}", TN_EVENT_OBSERVATION},
        {"{\"observation\":\"x\",\"action\":\"y\"}", TN_EVENT_ACTION},
        {"{}", TN_EVENT_NONE},
        {"\"action\"", TN_EVENT_NONE},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autojson struct tn_json *json = parse(cases[i].json);
        assert_int_equal(tn_event_kind(json), cases[i].kind);
    }
    assert_int_equal(tn_event_kind(NULL), TN_EVENT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_of_every_type),
        cmocka_unit_test(test_complete_round_trip),
        cmocka_unit_test(test_no_unknown_extras),
        cmocka_unit_test(test_unset_required_strings),
        cmocka_unit_test(test_errors_of_hidden_actions),
        cmocka_unit_test(test_legacy_extras),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_only_run_is_cut),
        cmocka_unit_test(test_content_of_any_bytes),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_a_full_buffer_is_reported),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
