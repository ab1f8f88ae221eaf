#include "helpers.h"

static void decode(const char *text, struct tn_action *a)
{
    tn_autojson struct tn_json *json = parse(text);
    struct tn_error err = {0};
    if (tn_action_from_json(json, a, &err) < 0)
        fail_msg("%s: %s", text, err.text);
}

static char *encode(const struct tn_action *a)
{
    struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&out);
    tn_action_to_json(a, &w);
    assert_true(tn_buf_ok(&out));
    return tn_buf_take(&out);
}

/* The smallest action of each type, and all that goes out for it. */
static const struct {
    const char *in, *out;
} defaults[TN_ACTION_TYPE_COUNT] = {
    [TN_ACTION_RUN] =
        {"{\"action\":\"run\",\"args\":{\"command\":\"ls\"}}",
         "{\"message\":\"Running command: ls\",\"action\":\"run\",\"args\":{\"command\":\"ls\","
         "\"is_input\":false,\"thought\":\"\",\"blocking\":false,\"is_static\":false,\"cwd\":null,"
         "\"hidden\":false,\"confirmation_state\":\"confirmed\",\"security_risk\":-1}}"},
    [TN_ACTION_RUN_IPYTHON] =
        {"{\"action\":\"run_ipython\",\"args\":{\"code\":\"1+1\"}}",
         "{\"message\":\"Running Python code interactively: 1+1\",\"action\":\"run_ipython\","
         "\"args\":{\"code\":\"1+1\",\"thought\":\"\",\"include_extra\":true,"
         "\"confirmation_state\":\"confirmed\",\"security_risk\":-1,\"kernel_init_code\":\"\"}}"},
    [TN_ACTION_READ] =
        {"{\"action\":\"read\",\"args\":{\"path\":\"/a\"}}",
         "{\"message\":\"Reading file: /a\",\"action\":\"read\",\"args\":{\"path\":\"/a\","
         "\"start\":0,\"end\":-1,\"thought\":\"\",\"security_risk\":-1,\"impl_source\":\"default\","
         "\"view_range\":null}}"},
    [TN_ACTION_WRITE] =
        {"{\"action\":\"write\",\"args\":{\"path\":\"/a\",\"content\":\"x\"}}",
         "{\"message\":\"Writing file: /a\",\"action\":\"write\",\"args\":{\"path\":\"/a\","
         "\"content\":\"x\",\"start\":0,\"end\":-1,\"thought\":\"\",\"security_risk\":-1}}"},
    [TN_ACTION_EDIT] =
        {"{\"action\":\"edit\",\"args\":{\"path\":\"/a\"}}",
         "{\"message\":\"\",\"action\":\"edit\",\"args\":{\"path\":\"/a\",\"command\":\"\","
         "\"file_text\":null,\"old_str\":null,\"new_str\":null,\"insert_line\":null,"
         "\"content\":\"\",\"start\":1,\"end\":-1,\"thought\":\"\",\"security_risk\":-1,"
         "\"impl_source\":\"oh_aci\"}}"},
    [TN_ACTION_BROWSE] =
        {"{\"action\":\"browse\",\"args\":{\"url\":\"http://x\"}}",
         "{\"message\":\"I am browsing the URL: http://x\",\"action\":\"browse\",\"args\":{"
         "\"url\":\"http://x\",\"thought\":\"\",\"security_risk\":-1,\"return_axtree\":false}}"},
    [TN_ACTION_BROWSE_INTERACTIVE] =
        {"{\"action\":\"browse_interactive\",\"args\":{\"browser_actions\":\"noop()\"}}",
         "{\"message\":\"I am interacting with the browser:\\n```\\nnoop()\\n```\","
         "\"action\":\"browse_interactive\",\"args\":{\"browser_actions\":\"noop()\","
         "\"thought\":\"\",\"browsergym_send_msg_to_user\":\"\",\"security_risk\":-1,"
         "\"return_axtree\":false}}"},
    [TN_ACTION_CALL_TOOL_MCP] =
        {"{\"action\":\"call_tool_mcp\",\"args\":{\"name\":\"fetch\"}}",
         "{\"message\":\"I am interacting with the MCP server with name:\\n```\\nfetch\\n```\\n"
         "and arguments:\\n```\\n{}\\n```\",\"action\":\"call_tool_mcp\",\"args\":{"
         "\"name\":\"fetch\",\"arguments\":{},\"thought\":\"\",\"security_risk\":-1}}"},
    [TN_ACTION_PLUGIN] =
        {"{\"action\":\"example.reverse\",\"args\":{\"text\":\"abc\"}}",
         "{\"message\":\"Running the plugin action: example.reverse\","
         "\"action\":\"example.reverse\",\"args\":{\"thought\":\"\",\"security_risk\":-1,"
         "\"text\":\"abc\"}}"},
    [TN_ACTION_NULL] = {"{\"action\":\"null\"}",
                        "{\"message\":\"No action\",\"action\":\"null\",\"args\":{}}"},
    [TN_ACTION_MESSAGE] =
        {"{\"action\":\"message\",\"args\":{\"content\":\"hi\"}}",
         "{\"message\":\"hi\",\"action\":\"message\",\"args\":{\"content\":\"hi\","
         "\"file_urls\":null,\"image_urls\":null,\"wait_for_response\":false,"
         "\"security_risk\":-1}}"},
    [TN_ACTION_SYSTEM] =
        {"{\"action\":\"system\",\"args\":{\"content\":\"be good\"}}",
         "{\"message\":\"be good\",\"action\":\"system\",\"args\":{\"content\":\"be good\","
         "\"tools\":null,\"openhands_version\":null,\"agent_class\":null}}"},
    [TN_ACTION_THINK] = {"{\"action\":\"think\",\"args\":{}}",
                         "{\"message\":\"I am thinking...: \",\"action\":\"think\","
                         "\"args\":{\"thought\":\"\"}}"},
    [TN_ACTION_FINISH] =
        {"{\"action\":\"finish\",\"args\":{}}",
         "{\"message\":\"All done! What's next on the agenda?\",\"action\":\"finish\","
         "\"args\":{\"final_thought\":\"\",\"outputs\":{},\"thought\":\"\"}}"},
    [TN_ACTION_REJECT] = {"{\"action\":\"reject\",\"args\":{}}",
                          "{\"message\":\"Task is rejected by the agent.\",\"action\":\"reject\","
                          "\"args\":{\"outputs\":{},\"thought\":\"\"}}"},
    [TN_ACTION_DELEGATE] =
        {"{\"action\":\"delegate\",\"args\":{\"agent\":\"Bo\",\"inputs\":{}}}",
         "{\"message\":\"I'm asking Bo for help with this task.\",\"action\":\"delegate\","
         "\"args\":{\"agent\":\"Bo\",\"inputs\":{},\"thought\":\"\"}}"},
    [TN_ACTION_RECALL] =
        {"{\"action\":\"recall\",\"args\":{\"recall_type\":\"knowledge\"}}",
         "{\"message\":\"Retrieving content for: \",\"action\":\"recall\","
         "\"args\":{\"recall_type\":\"knowledge\",\"query\":\"\",\"thought\":\"\"}}"},
    [TN_ACTION_CHANGE_AGENT_STATE] =
        {"{\"action\":\"change_agent_state\",\"args\":{\"agent_state\":\"running\"}}",
         "{\"message\":\"Agent state changed to running\",\"action\":\"change_agent_state\","
         "\"args\":{\"agent_state\":\"running\",\"thought\":\"\"}}"},
    [TN_ACTION_CONDENSATION] =
        {"{\"action\":\"condensation\",\"args\":{\"forgotten_event_ids\":[1,2]}}",
         "{\"message\":\"Condenser is dropping the events: [1, 2].\",\"action\":\"condensation\","
         "\"args\":{\"forgotten_event_ids\":[1,2],\"forgotten_events_start_id\":null,"
         "\"forgotten_events_end_id\":null,\"summary\":null,\"summary_offset\":null}}"},
    [TN_ACTION_CONDENSATION_REQUEST] =
        {"{\"action\":\"condensation_request\",\"args\":{}}",
         "{\"message\":\"Requesting a condensation of the conversation history.\","
         "\"action\":\"condensation_request\",\"args\":{}}"},
    [TN_ACTION_TASK_TRACKING] =
        {"{\"action\":\"task_tracking\",\"args\":{}}",
         "{\"message\":\"Clearing the task list.\",\"action\":\"task_tracking\","
         "\"args\":{\"command\":\"view\",\"task_list\":[],\"thought\":\"\"}}"},
    [TN_ACTION_LOOP_RECOVERY] = {"{\"action\":\"loop_recovery\",\"args\":{}}",
                                 "{\"message\":\"\",\"action\":\"loop_recovery\","
                                 "\"args\":{\"option\":1}}"},
    [TN_ACTION_NETWORK] =
        {"{\"action\":\"network\",\"args\":{\"host\":\"a.test\",\"port\":443}}",
         "{\"message\":\"Connecting to a.test:443\",\"action\":\"network\",\"args\":{"
         "\"host\":\"a.test\",\"port\":443,\"protocol\":\"tcp\",\"thought\":\"\","
         "\"security_risk\":-1}}"},
};

static void test_defaults_of_every_type(void **state)
{
    for (size_t i = 0; i < TN_ACTION_TYPE_COUNT; i++) {
        tn_autoaction struct tn_action a;
        decode(defaults[i].in, &a);
        assert_int_equal(a.type, i);
        tn_autofree char *out = encode(&a);
        assert_string_equal(out, defaults[i].out);
    }
}

/* Everything set: what goes out is what came in. */
static const char *const complete[] = {
    "{\"id\":12,\"timestamp\":\"2025-11-28T10:00:00.000000\",\"source\":\"agent\",\"cause\":11,"
    "\"message\":\"Running command: ls\",\"action\":\"run\",\"tool_call_metadata\":{\"a\":[1]},"
    "\"llm_metrics\":{\"cost\":0.5},\"args\":{\"command\":\"ls\",\"is_input\":true,"
    "\"thought\":\"t\",\"blocking\":true,\"is_static\":true,\"cwd\":\"/x\",\"hidden\":true,"
    "\"confirmation_state\":\"awaiting_confirmation\",\"security_risk\":2,\"session\":\"two\","
    "\"script\":true,\"literal\":true},\"timeout\":120.0}",
    "{\"message\":\"m\",\"action\":\"run_ipython\",\"args\":{\"code\":\"x\",\"thought\":\"t\","
    "\"include_extra\":false,\"confirmation_state\":\"rejected\",\"security_risk\":0,"
    "\"kernel_init_code\":\"k\"},\"timeout\":0.5}",
    "{\"message\":\"m\",\"action\":\"read\",\"args\":{\"path\":\"p\",\"start\":1,\"end\":2,"
    "\"thought\":\"t\",\"security_risk\":1,\"impl_source\":\"oh_aci\",\"view_range\":[1,-1]}}",
    "{\"message\":\"m\",\"action\":\"write\",\"args\":{\"path\":\"p\",\"content\":\"a\\u0000b\\n\","
    "\"start\":1,\"end\":2,\"thought\":\"t\",\"security_risk\":1}}",
    "{\"message\":\"m\",\"action\":\"edit\",\"args\":{\"path\":\"p\",\"command\":\"insert\","
    "\"file_text\":\"f\",\"old_str\":\"\",\"new_str\":\"\\u0000\",\"insert_line\":\"7x\","
    "\"content\":\"c\",\"start\":2,\"end\":3,\"thought\":\"t\",\"security_risk\":1,"
    "\"impl_source\":\"llm_based_edit\"}}",
    "{\"message\":\"m\",\"action\":\"browse\",\"args\":{\"url\":\"u\",\"thought\":\"t\","
    "\"security_risk\":1,\"return_axtree\":true}}",
    "{\"message\":\"m\",\"action\":\"browse_interactive\",\"args\":{\"browser_actions\":\"b\","
    "\"thought\":\"t\",\"browsergym_send_msg_to_user\":\"s\",\"security_risk\":1,"
    "\"return_axtree\":true}}",
    "{\"message\":\"m\",\"action\":\"call_tool_mcp\",\"args\":{\"name\":\"n\","
    "\"arguments\":{\"a\":{\"b\":[null]}},\"thought\":\"t\",\"security_risk\":1}}",
    "{\"message\":\"m\",\"action\":\"a-b.c_d\",\"args\":{\"thought\":\"t\",\"security_risk\":1,"
    "\"confirmation_state\":\"rejected\",\"x\":null,\"y\":[{\"z\":1.5}]},\"timeout\":3.0}",
    "{\"message\":\"m\",\"action\":\"message\",\"args\":{\"content\":\"c\",\"file_urls\":[],"
    "\"image_urls\":[\"a\",\"b\"],\"wait_for_response\":true,\"security_risk\":1}}",
    "{\"message\":\"m\",\"action\":\"system\",\"args\":{\"content\":\"c\",\"tools\":[{\"x\":1}],"
    "\"openhands_version\":\"1\",\"agent_class\":\"A\"}}",
    "{\"message\":\"m\",\"action\":\"finish\",\"args\":{\"final_thought\":\"f\","
    "\"outputs\":{\"o\":1},\"thought\":\"t\"}}",
    "{\"message\":\"m\",\"action\":\"recall\",\"args\":{\"recall_type\":\"workspace_context\","
    "\"query\":\"q\",\"thought\":\"t\"}}",
    "{\"message\":\"m\",\"action\":\"condensation\",\"args\":{\"forgotten_event_ids\":null,"
    "\"forgotten_events_start_id\":1,\"forgotten_events_end_id\":9,\"summary\":\"s\","
    "\"summary_offset\":0}}",
    "{\"message\":\"m\",\"action\":\"task_tracking\",\"args\":{\"command\":\"plan\","
    "\"task_list\":[{\"id\":\"1\"}],\"thought\":\"t\"}}",
    "{\"message\":\"m\",\"action\":\"loop_recovery\",\"args\":{\"option\":3}}",
    "{\"message\":\"m\",\"action\":\"network\",\"args\":{\"host\":\"::1\",\"port\":1,"
    "\"protocol\":\"tcp\",\"thought\":\"t\",\"security_risk\":2}}",
};

static void test_complete_round_trip(void **state)
{
    for (size_t i = 0; i < TN_COUNT(complete); i++) {
        tn_autoaction struct tn_action a;
        decode(complete[i], &a);
        tn_autofree char *out = encode(&a);
        assert_string_equal(out, complete[i]);
    }
}

static void test_decoded_values(void **state)
{
    tn_autoaction struct tn_action run, write;

    decode(complete[0], &run);
    assert_int_equal(run.event.id.value, 12);
    assert_int_equal(run.event.cause.value, 11);
    assert_string_equal(run.event.source, "agent");
    assert_true(run.timeout.set && run.timeout.value == 120);
    assert_string_equal(run.run.command, "ls");
    assert_true(run.run.is_input && run.run.blocking && run.run.is_static && run.run.hidden);
    assert_true(run.run.script && run.run.literal);
    assert_string_equal(run.run.session, "two");
    assert_int_equal(run.confirmation_state, TN_AWAITING_CONFIRMATION);
    assert_int_equal(run.security_risk, TN_RISK_HIGH);
    assert_true(tn_action_hidden(&run));
    decode(complete[3], &write);
    assert_int_equal(write.write.content.len, 4);
    assert_memory_equal(write.write.content.data, "a\0b\n", 5);
    assert_false(tn_action_hidden(&write));
    assert_false(write.timeout.set);
}

/* What an original client sends must not contain what only Tendon knows. */
static void test_own_arguments_are_sparse(void **state)
{
    tn_autoaction struct tn_action a;
    tn_action_init(&a, TN_ACTION_RUN);
    a.run.command = tn_strdup("x");
    tn_autofree char *out = encode(&a);
    assert_null(strstr(out, "session"));
    assert_null(strstr(out, "script"));
    assert_null(strstr(out, "literal"));
    assert_null(strstr(out, "timeout"));
}

/* Any action may wait for a user's word, and must not forget that it does: what is lost on the way
 * would be executed. */
static void test_every_type_keeps_its_confirmation(void **state)
{
    static const char *const words[] = {"rejected", "awaiting_confirmation"};

    for (size_t i = 0; i < TN_ACTION_TYPE_COUNT; i++)
        for (size_t k = 0; k < TN_COUNT(words); k++) {
            tn_autoaction struct tn_action first, second;
            tn_autofree char *expected = tn_asprintf("\"confirmation_state\":\"%s\"", words[k]);
            decode(defaults[i].in, &first);
            first.confirmation_state = k ? TN_AWAITING_CONFIRMATION : TN_REJECTED;
            tn_autofree char *text = encode(&first);
            assert_non_null(strstr(text, expected));
            assert_null(strstr(strstr(text, expected) + 1, expected));
            decode(text, &second);
            assert_int_equal(second.confirmation_state, first.confirmation_state);
        }
}

static void test_strange_envelope_is_ignored(void **state)
{
    tn_autoaction struct tn_action a;
    decode("{\"action\":\"run\",\"id\":\"x\",\"timestamp\":5,\"source\":[],\"message\":{},"
           "\"cause\":\"c\",\"llm_metrics\":null,\"surprise\":1,\"observation\":\"run\","
           "\"timeout\":null,\"args\":{\"command\":\"\",\"what\":\"ever\"}}",
           &a);
    assert_false(a.event.id.set);
    assert_null(a.event.timestamp);
    assert_null(a.event.source);
    assert_false(a.event.cause.set);
    assert_null(a.message);
    assert_false(a.timeout.set);
    tn_autoaction struct tn_action minus;
    decode("{\"action\":\"null\",\"id\":-1}", &minus);
    assert_false(minus.event.id.set);
}

static void test_deprecated_arguments(void **state)
{
    tn_autoaction struct tn_action run, message, finish;

    decode("{\"action\":\"run\",\"args\":{\"command\":\"x\",\"keep_prompt\":true,"
           "\"timestamp\":\"now\",\"is_confirmed\":\"rejected\",\"security_risk\":7}}",
           &run);
    assert_int_equal(run.confirmation_state, TN_REJECTED);
    assert_int_equal(run.security_risk, TN_RISK_UNKNOWN);
    tn_autofree char *out = encode(&run);
    assert_null(strstr(out, "keep_prompt"));
    assert_null(strstr(out, "timestamp"));
    assert_null(strstr(out, "is_confirmed"));

    decode("{\"action\":\"message\",\"args\":{\"content\":\"x\",\"images_urls\":[\"u\"]}}",
           &message);
    assert_int_equal(message.message_to_user.image_urls.count, 1);
    assert_string_equal(message.message_to_user.image_urls.items[0], "u");

    decode("{\"action\":\"finish\",\"args\":{\"task_completed\":\"true\",\"final_thought\":\"f\"}}",
           &finish);
    tn_autofree char *finished = encode(&finish);
    assert_null(strstr(finished, "task_completed"));
}

static void test_security_risk(void **state)
{
    static const struct {
        const char *value;
        int64_t risk;
    } cases[] = {{"-1", -1},    {"0", 0},   {"1", 1},    {"2", 2},     {"3", -1},    {"-2", -1},
                 {"\"2\"", -1}, {"2.0", 2}, {"1.5", -1}, {"null", -1}, {"true", -1}, {"[]", -1}};
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autofree char *text =
            tn_asprintf("{\"action\":\"browse\",\"args\":{\"url\":\"u\",\"security_risk\":%s}}",
                        cases[i].value);
        tn_autoaction struct tn_action a;
        decode(text, &a);
        assert_int_equal(a.security_risk, cases[i].risk);
    }
}

static void test_translated_code(void **state)
{
    tn_autoaction struct tn_action edit, read, other, broken;

    decode("{\"action\":\"edit\",\"args\":{\"path\":\"/old\",\"translated_ipython_code\":"
           "\"print(file_editor(**{'command': 'str_replace', 'path': '/new', "
           "'old_str': 'it\\\\'s', 'new_str': \\\"a\\\\nb\\\", 'insert_line': 5, "
           "'view_range': None}))\"}}",
           &edit);
    assert_string_equal(edit.edit.path, "/new");
    assert_string_equal(edit.edit.command, "str_replace");
    assert_string_equal(edit.edit.old_str.data, "it's");
    assert_string_equal(edit.edit.new_str.data, "a\nb");
    assert_int_equal(tn_json_int(edit.edit.insert_line, 0), 5);

    decode("{\"action\":\"read\",\"args\":{\"translated_ipython_code\":"
           "\"print(file_editor(**{'command': 'view', 'path': '/f', 'view_range': [1, 5]}))\"}}",
           &read);
    assert_string_equal(read.read.path, "/f");
    int64_t first, last;
    assert_int_equal(tn_view_range(read.read.view_range, &first, &last), 1);
    assert_int_equal(last, 5);

    decode("{\"action\":\"edit\",\"args\":{\"path\":\"/p\",\"command\":\"create\","
           "\"translated_ipython_code\":\"print(file_editor(**{'command': 'view'}))\"}}",
           &other);
    assert_string_equal(other.edit.command, "");

    static const char *const ignored[] = {
        "null",
        "5",
        "\"print(1)\"",
        "\"print(file_editor(**\"",
        "\"print(file_editor(**))\"",
        "\"print(file_editor(**{'path': open('/etc/passwd')}))\"",
        "\"print(file_editor(**['path']))\"",
    };
    for (size_t i = 0; i < TN_COUNT(ignored); i++) {
        tn_autofree char *text =
            tn_asprintf("{\"action\":\"edit\",\"args\":{\"path\":\"/p\",\"command\":\"view\","
                        "\"translated_ipython_code\":%s}}",
                        ignored[i]);
        decode(text, &broken);
        assert_string_equal(broken.edit.path, "/p");
        assert_string_equal(broken.edit.command, "view");
        if (i + 1 < TN_COUNT(ignored))
            tn_action_done(&broken);
    }
}

static void test_insert_line_stays_as_given(void **state)
{
    static const char *const values[] = {"5", "\"5\"", "\"x\"", "1.5", "[]"};
    for (size_t i = 0; i < TN_COUNT(values); i++) {
        tn_autofree char *text = tn_asprintf(
            "{\"action\":\"edit\",\"args\":{\"path\":\"p\",\"insert_line\":%s}}", values[i]);
        tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
        struct tn_jw w = tn_jw(&out);
        tn_autoaction struct tn_action a;
        decode(text, &a);
        tn_jw_tree(&w, a.edit.insert_line);
        assert_string_equal(tn_buf_str(&out), values[i]);
    }
}

static void test_view_range(void **state)
{
    static const char *const wrong[] = {"5",       "[1]", "[1,2,3]", "[1,\"2\"]",
                                        "[1.0,2]", "{}",  "[null,1]"};
    int64_t first = 0, last = 0;

    assert_int_equal(tn_view_range(NULL, &first, &last), 0);
    tn_autojson struct tn_json *good = parse("[3,-1]");
    assert_int_equal(tn_view_range(good, &first, &last), 1);
    assert_int_equal(first, 3);
    assert_int_equal(last, -1);
    for (size_t i = 0; i < TN_COUNT(wrong); i++) {
        tn_autojson struct tn_json *bad = parse(wrong[i]);
        assert_int_equal(tn_view_range(bad, &first, &last), -1);
    }
}

static void test_errors(void **state)
{
    static const struct {
        const char *json;
        enum tn_code code;
        const char *text;
    } cases[] = {
        {"5", TN_E_INVALID, "expected an object with the key action, found integer"},
        {"null", TN_E_INVALID, "expected an object with the key action, found null"},
        {"{}", TN_E_INVALID, "expected an object with the key action, found one without it"},
        {"{\"observation\":\"run\",\"content\":\"\"}", TN_E_INVALID, "400: Invalid action type"},
        {"{\"observation\":\"no such\"}", TN_E_INVALID, "400: Invalid action type"},
        {"{\"action\":5}", TN_E_INVALID, "action: expected a string, found integer"},
        {"{\"action\":null}", TN_E_INVALID, "action: expected a string, found null"},
        {"{\"action\":\"rum\"}", TN_E_UNSUPPORTED,
         "unknown action type 'rum'; did you mean 'run'?"},
        {"{\"action\":\"levitate\"}", TN_E_UNSUPPORTED, "unknown action type 'levitate'"},
        {"{\"action\":\"send_pr\"}", TN_E_UNSUPPORTED, "unknown action type 'send_pr'"},
        {"{\"action\":\"a.\"}", TN_E_UNSUPPORTED, "unknown action type 'a.'"},
        {"{\"action\":\".a\"}", TN_E_UNSUPPORTED, "unknown action type '.a'"},
        {"{\"action\":\"a/../b.c\"}", TN_E_UNSUPPORTED, "unknown action type 'a/../b.c'"},
        {"{\"action\":\"a.b.c\"}", TN_E_UNSUPPORTED, "unknown action type 'a.b.c'"},
        {"{\"action\":\"a.b\",\"args\":[]}", TN_E_UNPROCESSABLE,
         "action NAME.ACTION: args: expected an object, found array"},
        {"{\"action\":\"run\"}", TN_E_UNPROCESSABLE, "action run: args: command is required"},
        {"{\"action\":\"run\",\"args\":null}", TN_E_UNPROCESSABLE,
         "action run: args: command is required"},
        {"{\"action\":\"run\",\"args\":{\"command\":null}}", TN_E_UNPROCESSABLE,
         "action run: args: command is required"},
        {"{\"action\":\"run\",\"args\":[]}", TN_E_UNPROCESSABLE,
         "action run: args: expected an object, found array"},
        {"{\"action\":\"run\",\"args\":{\"command\":1}}", TN_E_UNPROCESSABLE,
         "action run: args: command: expected a string, found integer"},
        {"{\"action\":\"run\",\"args\":{\"command\":\"a\\u0000b\"}}", TN_E_UNPROCESSABLE,
         "action run: args: command: expected a string, found one with a NUL byte"},
        {"{\"action\":\"run\",\"args\":{\"command\":\"\"},\"timeout\":\"5\"}", TN_E_UNPROCESSABLE,
         "action run: timeout: expected a number from 0 to 1e+15 or null, found string"},
        {"{\"action\":\"run\",\"args\":{\"command\":\"\"},\"timeout\":-1}", TN_E_UNPROCESSABLE,
         "action run: timeout: expected a number from 0 to 1e+15 or null, found -1"},
        {"{\"action\":\"write\",\"args\":{\"path\":\"p\"}}", TN_E_UNPROCESSABLE,
         "action write: args: content is required"},
        {"{\"action\":\"read\",\"args\":{\"path\":\"p\",\"start\":\"1\"}}", TN_E_UNPROCESSABLE,
         "action read: args: start: expected an integer, found string"},
        {"{\"action\":\"read\",\"args\":{\"path\":\"p\",\"impl_source\":\"x\"}}",
         TN_E_UNPROCESSABLE,
         "action read: args: impl_source: expected one of default, oh_aci, found 'x'"},
        {"{\"action\":\"run\",\"args\":{\"command\":\"\",\"is_confirmed\":\"maybe\"}}",
         TN_E_UNPROCESSABLE,
         "action run: args: is_confirmed: expected one of confirmed, rejected, "
         "awaiting_confirmation, found 'maybe'"},
        {"{\"action\":\"call_tool_mcp\",\"args\":{\"name\":\"n\",\"arguments\":[]}}",
         TN_E_UNPROCESSABLE,
         "action call_tool_mcp: args: arguments: expected an object, found array"},
        {"{\"action\":\"recall\",\"args\":{}}", TN_E_UNPROCESSABLE,
         "action recall: args: recall_type is required"},
        {"{\"action\":\"condensation\",\"args\":{\"forgotten_events_start_id\":1}}",
         TN_E_UNPROCESSABLE,
         "action condensation: args: expected either forgotten_event_ids or "
         "forgotten_events_start_id and forgotten_events_end_id"},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autojson struct tn_json *json = parse(cases[i].json);
        struct tn_action a;
        struct tn_error err = {0};
        if (tn_action_from_json(json, &a, &err) == 0)
            fail_msg("accepted: %s", cases[i].json);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(err.code, cases[i].code);
        assert_int_equal(tn_action_from_json(json, &a, NULL), -1);
    }
}

static void test_messages(void **state)
{
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{\"action\":\"finish\",\"args\":{\"thought\":\"it is done\"}}", "it is done"},
        {"{\"action\":\"reject\",\"args\":{\"outputs\":{\"reason\":\"no\"}}}",
         "Task is rejected by the agent. Reason: no"},
        {"{\"action\":\"think\",\"args\":{\"thought\":\"hm\"}}", "I am thinking...: hm"},
        {"{\"action\":\"recall\",\"args\":{\"recall_type\":\"knowledge\",\"query\":"
         "\"éééééééééééééééééééééééééééééééééééééééééééééééééééé\"}}",
         "Retrieving content for: éééééééééééééééééééééééééééééééééééééééééééééééééé"},
        {"{\"action\":\"condensation\",\"args\":{\"forgotten_event_ids\":[],\"summary\":\"s\"}}",
         "Summary: s"},
        {"{\"action\":\"condensation\",\"args\":{\"forgotten_events_start_id\":1,"
         "\"forgotten_events_end_id\":4611686018427387904}}",
         "Condenser is dropping the events: 1 to 4611686018427387904."},
        {"{\"action\":\"task_tracking\",\"args\":{\"task_list\":[1]}}", "Managing 1 task item."},
        {"{\"action\":\"task_tracking\",\"args\":{\"task_list\":[1,2]}}", "Managing 2 task items."},
        {"{\"action\":\"run\",\"args\":{\"command\":\"echo {thought} }\"}}",
         "Running command: echo {thought} }"},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 12);
        tn_autoaction struct tn_action a;
        decode(cases[i].json, &a);
        tn_action_put_message(&a, &out);
        assert_string_equal(tn_buf_str(&out), cases[i].message);
    }
}

static void test_names(void **state)
{
    for (size_t i = 0; i < TN_ACTION_TYPE_COUNT; i++) {
        enum tn_action_type type;
        assert_int_equal(tn_action_type_from_name(tn_action_name(i), &type, NULL), 0);
        assert_int_equal(type, i);
        assert_int_equal(tn_action_runnable(i), i < TN_ACTION_NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_of_every_type),
        cmocka_unit_test(test_complete_round_trip),
        cmocka_unit_test(test_decoded_values),
        cmocka_unit_test(test_own_arguments_are_sparse),
        cmocka_unit_test(test_every_type_keeps_its_confirmation),
        cmocka_unit_test(test_strange_envelope_is_ignored),
        cmocka_unit_test(test_deprecated_arguments),
        cmocka_unit_test(test_security_risk),
        cmocka_unit_test(test_translated_code),
        cmocka_unit_test(test_insert_line_stays_as_given),
        cmocka_unit_test(test_view_range),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
