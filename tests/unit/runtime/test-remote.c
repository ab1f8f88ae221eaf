/* What the remote backend makes of addresses and of the words of services. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/hand-address.h"
#include "runtime/remote/body.h"

static struct tn_config config;
static struct tn_host host = {.config = &config};
static struct remote service = {
    .host = &host, .api = (char *)"https://api.example", .mark = "0123456789abcdef"};

static void test_addresses(void **state)
{
    static const struct {
        const char *address, *host, *base;
        bool far;
    } cases[] = {
        {"unix:/tmp/s", "hand", "", false},
        {"127.0.0.1:80", "hand", "", false},
        {"http://host", "host", "", true},
        {"http://host:8000/a/b", "host:8000", "/a/b", true},
        {"https://a-b.example_x/%7Eme", "a-b.example_x", "/%7Eme", true},
        {"https://[::1]:443/x", "[::1]:443", "/x", true},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_hand_place place;
        assert_int_equal(tn_hand_place(cases[i].address, &place, NULL), 0);
        assert_string_equal(place.host, cases[i].host);
        assert_string_equal(place.base, cases[i].base);
        assert_int_equal(place.far, cases[i].far);
    }
}

static void test_addresses_with_headers(void **state)
{
    static const char address[] = "https://host/a#X-Token=a%2Bb%3D&Host=8-x.e.org%3A81&Y=z";
    struct tn_hand_place place;

    assert_int_equal(tn_hand_place(address, &place, NULL), 0);
    assert_string_equal(place.host, "8-x.e.org:81");
    assert_string_equal(place.base, "/a");
    assert_string_equal(place.headers, "X-Token: a+b=\r\nY: z\r\n");
    assert_int_equal(tn_hand_address_shown(address), strlen("https://host/a"));
    assert_int_equal(tn_hand_address_shown("unix:/a#b"), 9);
}

static void test_wrong_addresses(void **state)
{
    static const char *const cases[] = {
        "http://",
        "http:///path",
        "http://host/",
        "http://host:/x",
        "http://host:x",
        "http://host:123456",
        "http://u@host",
        "http://u:p@host/x",
        "http://host/?q",
        "http://host/#f",
        "http://ho st/",
        "http://host/a b",
        "http://host/%",
        "http://host/%00",
        "http://host/\r\nX:",
        "https://[::1",
        "https://[]:1",
        "https://[x]",
        "http://host\\x",
        "http://h\xc3\xb6st",
        "http://host#f",
        "http://host#A=",
        "http://host#A=b%0D%0Ac",
        "http://host#A%20b=c",
        "http://host#Host=a%2Fb",
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_hand_place place;
        struct tn_error err = {0};
        if (tn_hand_place(cases[i], &place, &err) == 0)
            fail_msg("%s is taken", cases[i]);
        assert_int_equal(err.code, TN_E_INVALID);
        assert_null(strstr(err.text, "host/"));
        assert_null(tn_hand_http(cases[i], NULL, NULL));
        assert_int_equal(tn_hand_dial(cases[i], 0, NULL), -1);
    }
}

static void test_whose_session(void **state)
{
    char session[REMOTE_SESSION_MAX];

    remote_session(&service, "abcdefghij", session);
    assert_string_equal(session, "tendon-0123456789abcdef-abcdefghij");
    assert_string_equal(remote_own_id(&service, session), "abcdefghij");
    assert_null(remote_own_id(&service, "tendon-0123456789abcdee-abcdefghij"));
    assert_null(remote_own_id(&service, "tendon-"));
    assert_null(remote_own_id(&service, ""));
}

static void test_refs(void **state)
{
    static const struct {
        const char *ref, *id;
        int result;
    } cases[] = {
        {NULL, NULL, 0},
        {"no json", NULL, 0},
        {"{}", NULL, 0},
        {"{\"api\": \"https://api.example\", \"id\": \"r1\"}", "r1", 0},
        {"{\"api\": \"https://other.example\", \"id\": \"r1\"}", NULL, -1},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_subject s = {.ref = cases[i].ref};
        tn_autofree char *id = NULL;
        assert_int_equal(remote_ref_id(&service, &s, &id, NULL), cases[i].result);
        if (cases[i].id)
            assert_string_equal(id, cases[i].id);
        else
            assert_null(id);
    }
}

static void test_words_of_openhands(void **state)
{
    static const struct {
        const char *status, *pod;
        enum tn_status result;
    } cases[] = {
        {"running", "ready", TN_STATUS_RUNNING},
        {"running", "Ready", TN_STATUS_RUNNING},
        {"running", "pending", TN_STATUS_STARTING},
        {"running", "running", TN_STATUS_STARTING},
        {"running", "not found", TN_STATUS_STARTING},
        {"running", "brand new word", TN_STATUS_STARTING},
        {"running", "failed", TN_STATUS_ERROR},
        {"starting", "CrashLoopBackOff", TN_STATUS_ERROR},
        {"running", NULL, TN_STATUS_RUNNING},
        {"paused", "not found", TN_STATUS_PAUSED},
        {"paused", "ready", TN_STATUS_PAUSED},
        {"stopped", "not found", TN_STATUS_MISSING},
        {"error", NULL, TN_STATUS_ERROR},
        {NULL, "ready", TN_STATUS_RUNNING},
        {NULL, NULL, TN_STATUS_STARTING},
        {"word", NULL, TN_STATUS_STARTING},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
        tn_autojson struct tn_json *tree = NULL;
        autoremoteview struct remote_view view = {0};
        struct tn_jw w = tn_jw(&text);

        tn_jw_object(&w);
        tn_jw_kstr(&w, "runtime_id", "r");
        tn_jw_kstr(&w, "status", cases[i].status);
        tn_jw_kstr(&w, "pod_status", cases[i].pod);
        tn_jw_object_end(&w);
        assert_int_equal(tn_json_parse(tn_buf_str(&text), text.len, &tree, NULL), 0);
        assert_int_equal(remote_read_openhands(&service, tree, &view, NULL), 0);
        assert_int_equal(view.status, cases[i].result);
        assert_int_equal(view.reason != NULL, view.status == TN_STATUS_ERROR);
    }
}

static void test_no_way_down_from_tls(void **state)
{
    static const char text[] = "{\"runtime_id\": \"r\", \"url\": \"http://api.example/r\"}";
    tn_autojson struct tn_json *tree = NULL;
    autoremoteview struct remote_view view = {0};
    struct tn_error err = {0};

    assert_int_equal(tn_json_parse(text, strlen(text), &tree, NULL), 0);
    assert_int_equal(remote_read_openhands(&service, tree, &view, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
}

static int parse(const char *text, struct remote_view *view)
{
    tn_autojson struct tn_json *tree = NULL;

    assert_int_equal(tn_json_parse(text, strlen(text), &tree, NULL), 0);
    int r = remote_read_native(&service, tree, view, NULL);
    return r;
}

static void test_native_objects(void **state)
{
    autoremoteview struct remote_view view = {0};

    assert_int_equal(parse("{\"id\": \"abcdefghij\", \"state\": \"running\", \"version\": 7,"
                           " \"session_key\": \"k\", \"isolation\": {\"pid\": true}}",
                           &view),
                     0);
    assert_string_equal(view.address, "https://api.example/abcdefghij");
    assert_string_equal(view.key, "k");
    assert_int_equal(view.version, 7);
    remote_view_done(&view);
    assert_int_equal(
        parse(
            "{\"id\": \"x\", \"state\": \"error\", \"reason\": \"a\\nb\", \"session_key\": \"k\"}",
            &view),
        0);
    assert_int_equal(view.status, TN_STATUS_ERROR);
    assert_string_equal(view.reason, "a b");
    assert_null(view.address);
    assert_null(view.key);
}

static void test_native_nonsense(void **state)
{
    static const char *const cases[] = {
        "{}",
        "[]",
        "5",
        "{\"id\": \"\", \"state\": \"running\"}",
        "{\"id\": \"a b\", \"state\": \"running\"}",
        "{\"id\": \"a\", \"state\": \"dancing\"}",
        "{\"id\": \"a\"}",
        "{\"id\": 5, \"state\": \"running\"}",
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        autoremoteview struct remote_view view = {0};
        assert_int_equal(parse(cases[i], &view), -1);
    }
}

static void test_native_body(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(REMOTE_BODY_MAX);
    tn_autojson struct tn_json *body = NULL;
    struct tn_spec spec;
    struct tn_error err = {0};
    struct tn_subject s = {.id = "abcdefghij", .spec = &spec};

    tn_spec_init(&spec);
    spec.runtime = tn_strdup("remote");
    spec.name = tn_strdup("web");
    spec.memory = tn_strdup("1g");
    spec.keep = true;
    assert_int_equal(remote_native_body(&service, &s, 5, &out, &err), 0);
    assert_int_equal(tn_json_parse(tn_buf_str(&out), out.len, &body, NULL), 0);
    assert_string_equal(tn_json_get_str(body, "memory", ""), "1g");
    assert_string_equal(tn_json_get_str(body, "session", ""), "tendon-0123456789abcdef-abcdefghij");
    assert_string_equal(tn_json_get_str(body, "name", ""), "web");
    static const char *const absent[] = {"runtime", "keep", "lease", "network", "resource_factor"};
    for (size_t i = 0; i < TN_COUNT(absent); i++)
        assert_false(tn_json_has(body, absent[i]));

    spec.volumes.items = tn_calloc(2, sizeof *spec.volumes.items);
    spec.volumes.items[0] = tn_strdup("/a:/b");
    spec.volumes.count = 1;
    tn_buf_reset(&out);
    assert_int_equal(remote_native_body(&service, &s, 5, &out, &err), -1);
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
    assert_ptr_equal(strstr(err.text, "volumes:"), err.text);
    tn_spec_done(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_addresses_with_headers),
        cmocka_unit_test(test_wrong_addresses),
        cmocka_unit_test(test_whose_session),
        cmocka_unit_test(test_refs),
        cmocka_unit_test(test_words_of_openhands),
        cmocka_unit_test(test_no_way_down_from_tls),
        cmocka_unit_test(test_native_objects),
        cmocka_unit_test(test_native_nonsense),
        cmocka_unit_test(test_native_body),
    };

    tn_config_init(&config);
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    tn_config_done(&config);
    return r;
}
