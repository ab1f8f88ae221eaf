#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "runtime/mcp/courier.h"
#include "runtime/mcp/dial.h"
#include "runtime/mcp/result.h"
#include "runtime/mcp/servers.h"
#include "runtime/mcp/site.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

static struct tn_json *parse(const char *text)
{
    struct tn_json *json = NULL;
    struct tn_error err = {0};

    if (tn_json_parse(text, strlen(text), &json, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return json;
}

/* --- results ------------------------------------------------------------------------------ */

static void test_results(void **state)
{
    static const struct {
        const char *result, *expected;
    } rows[] = {
        {"{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}",
         "{\"meta\":null,\"content\":[{\"type\":\"text\",\"text\":\"hi\",\"annotations\":null,"
         "\"meta\":null}],\"structuredContent\":null,\"isError\":false}"},
        {"{\"isError\":true,\"_meta\":{\"a\":1},\"structuredContent\":{\"x\":[1]},\"later\":2}",
         "{\"meta\":{\"a\":1},\"content\":[],\"structuredContent\":{\"x\":[1]},\"isError\":true,"
         "\"later\":2}"},
        {"{\"content\":[{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"AA==\","
         "\"annotations\":{\"priority\":0.5,\"lastModified\":\"now\"}}]}",
         "{\"meta\":null,\"content\":[{\"type\":\"image\",\"data\":\"AA==\",\"mimeType\":"
         "\"image/png\",\"annotations\":{\"audience\":null,\"priority\":0.5,\"lastModified\":"
         "\"now\"},\"meta\":null}],\"structuredContent\":null,\"isError\":false}"},
        {"{\"content\":[{\"type\":\"audio\",\"data\":\"AA==\",\"mimeType\":\"audio/wav\"},"
         "{\"type\":\"resource_link\",\"uri\":\"file:///x\",\"name\":\"x\"}]}",
         "{\"meta\":null,\"content\":[{\"type\":\"audio\",\"data\":\"AA==\",\"mimeType\":"
         "\"audio/wav\",\"annotations\":null,\"meta\":null},{\"name\":\"x\",\"title\":null,"
         "\"uri\":\"file:///x\",\"description\":null,\"mimeType\":null,\"size\":null,"
         "\"annotations\":null,\"meta\":null,\"type\":\"resource_link\"}],"
         "\"structuredContent\":null,\"isError\":false}"},
        {"{\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":\"u:\",\"blob\":\"AA==\","
         "\"_meta\":{}}},{\"type\":\"new\",\"y\":null},3]}",
         "{\"meta\":null,\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":\"u:\","
         "\"mimeType\":null,\"meta\":{},\"blob\":\"AA==\"},\"annotations\":null,\"meta\":null},"
         "{\"type\":\"new\",\"y\":null},3],\"structuredContent\":null,\"isError\":false}"},
        {"null", "{\"meta\":null,\"content\":[],\"structuredContent\":null,\"isError\":false}"},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autojson struct tn_json *result = parse(rows[i].result);
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
        struct tn_jw w = tn_jw(&out);
        mcp_put_result(&w, result);
        assert_string_equal(tn_buf_str(&out), rows[i].expected);
    }
}

static void test_failures_and_functions(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
    tn_autojson struct tn_json *tool =
        parse("{\"name\":\"n\",\"title\":\"T\",\"inputSchema\":{\"type\":\"object\"}}");
    tn_autojson struct tn_json *bare = parse("{\"name\":\"n\",\"description\":\"d\"}");
    struct tn_jw w = tn_jw(&out);

    tn_jw_array(&w);
    mcp_put_failure(&w, "Tool \"x\" timed out after 1 seconds");
    tn_tool_put_function(&w, tool);
    tn_tool_put_function(&w, bare);
    tn_jw_array_end(&w);
    assert_string_equal(
        tn_buf_str(&out),
        "[{\"isError\":true,\"error\":\"Tool \\\"x\\\" timed out after 1 seconds\",\"content\":[]},"
        "{\"type\":\"function\",\"function\":{\"name\":\"n\",\"description\":null,"
        "\"parameters\":{\"type\":\"object\"}}},"
        "{\"type\":\"function\",\"function\":{\"name\":\"n\",\"description\":\"d\","
        "\"parameters\":{}}}]");
}

/* --- servers ------------------------------------------------------------------------------ */

#define PROGRAM(name, args, env) \
    "{\"name\":\"" name "\",\"command\":\"c\",\"args\":[" args "],\"env\":{" env "}}"

static void test_programs(void **state)
{
    struct mcp_programs p = {0};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
    tn_autojson struct tn_json *first =
        parse("[" PROGRAM("b", "\"1\"", "\"X\":\"1\",\"Y\":\"2\"") "," PROGRAM("a", "", "") "]");
    tn_autojson struct tn_json *same =
        parse("[" PROGRAM("b", "\"1\"", "\"Y\":\"2\",\"X\":\"1\"") "]");
    tn_autojson struct tn_json *other = parse("[" PROGRAM("b", "\"2\"", "") "]");
    struct tn_jw w = tn_jw(&out);

    assert_true(mcp_programs_add(&p, first));
    assert_false(mcp_programs_add(&p, first));
    assert_false(mcp_programs_add(&p, same));
    assert_true(mcp_programs_add(&p, other));
    assert_int_equal(p.count, 2);
    mcp_programs_put(&p, &w);
    assert_string_equal(tn_buf_str(&out),
                        "[" PROGRAM("a", "", "") "," PROGRAM("b", "\"2\"", "") "]");
    mcp_programs_done(&p);
}

static void assert_defaults(const struct tn_config *c, const char *programs, const char *shttp)
{
    tn_autojson struct tn_json *p = mcp_default_programs(c), *s = mcp_default_shttp(c);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
    tn_autofree char *expected = tn_asprintf("%s%s", programs, shttp);
    struct tn_jw w = tn_jw(&out);

    tn_jw_tree(&w, p);
    w.comma = false;
    tn_jw_tree(&w, s);
    assert_string_equal(tn_buf_str(&out), expected);
}

static void test_defaults(void **state)
{
    struct tn_config c;
    struct tn_error err = {0};

    tn_config_init(&c);
    assert_defaults(&c, "[]", "[]");
    assert_int_equal(tn_config_set(&c, "core.search_api_key", "other-1", &err), 0);
    assert_defaults(&c, "[]", "[]");
    assert_int_equal(tn_config_set(&c, "core.search_api_key", "tvly-1", &err), 0);
    assert_int_equal(tn_config_set(&c, "core.mcp_host", "host:3000", &err), 0);
    assert_defaults(
        &c,
        "[{\"name\":\"tavily\",\"command\":\"npx\",\"args\":[\"-y\",\"tavily-mcp@0.2.1\"],"
        "\"env\":{\"TAVILY_API_KEY\":\"tvly-1\"}}]",
        "[{\"url\":\"http://host:3000/mcp/mcp\",\"timeout\":60}]");
    assert_int_equal(tn_config_set(&c, "mcp.stdio_servers",
                                   "[{\"name\":\"tavily\",\"command\":\"mine\"}]", &err),
                     0);
    assert_defaults(&c, "[{\"name\":\"tavily\",\"command\":\"mine\",\"args\":[],\"env\":{}}]",
                    "[{\"url\":\"http://host:3000/mcp/mcp\",\"timeout\":60}]");
    tn_config_done(&c);
}

static void test_labels_hold_no_secrets(void **state)
{
    struct mcp_server s = mcp_server_any("https://user:pass@host:1/a/b?key=secret#x", "k", "sid");

    assert_string_equal(s.label, "https://host:1/a/b");
    assert_string_equal(s.ways[1].url, "https://user:pass@host:1/a/b?key=secret#x");
    mcp_server_done(&s);
}

/* --- places ------------------------------------------------------------------------------- */

static void test_moves(void **state)
{
    static const struct {
        const char *to, *target; /* NULL: refused */
    } rows[] = {
        {"/messages?x=1#y", "/messages?x=1"},
        {"messages", "/a/messages"},
        {"http://h:1/c", "/c"},
        {"HTTP://H:1?q", "/?q"},
        {"http://h:1", "/"},
        {"http://h:11/c", NULL},
        {"http://h:1.evil/c", NULL},
        {"http://h:1@evil/c", NULL},
        {"https://h:1/c", NULL},
        {"//evil/c", NULL},
        {"/\\evil", NULL},
        {"/a b", NULL},
        {"/a\r\nX: y", NULL},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct mcp_server server = {0};
        struct mcp_site site;
        struct tn_error err = {0};

        assert_int_equal(mcp_site_open(&site, &server, "http://h:1/a/b?c=d", &err), 0);
        assert_string_equal(site.base, "http://h:1");
        assert_string_equal(site.target, "/a/b?c=d");
        int moved = mcp_site_move(&site, rows[i].to, &err);
        assert_int_equal(moved, rows[i].target ? 0 : -1);
        assert_string_equal(site.target, rows[i].target ? rows[i].target : "/a/b?c=d");
        mcp_site_done(&site);
    }
}

/* --- the courier -------------------------------------------------------------------------- */

static void collect(void *ctx, const char *text, size_t n)
{
    tn_buf_add(ctx, text, n);
}

static void test_courier(void **state)
{
    tn_autobuf struct tn_buf got = TN_BUF_INIT(1 << 16);
    struct tn_error err = {0};
    struct mcp_courier *c = mcp_courier_new(collect, &got, &err);

    assert_non_null(c);
    assert_int_equal(mcp_courier_wait(c, tn_now(), &err), 0);
    for (char letter = 'a'; letter <= 'z'; letter++)
        assert_int_equal(mcp_courier_put(c, &letter, 1, &err), 0);
    assert_int_equal(mcp_courier_wait(c, tn_deadline_in(60), &err), 0);
    assert_string_equal(tn_buf_str(&got), "abcdefghijklmnopqrstuvwxyz");
    mcp_courier_free(c);
}

static void stand(void *ctx, const char *text, size_t n)
{
    pthread_mutex_lock(ctx);
    pthread_mutex_unlock(ctx);
}

static void test_courier_that_stands(void **state)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    struct tn_error err = {0};
    struct mcp_courier *c = mcp_courier_new(stand, &gate, &err);
    int put = 0;

    pthread_mutex_lock(&gate);
    while (mcp_courier_put(c, "x", 1, &err) == 0)
        put++;
    assert_int_equal(put, 64);
    assert_int_equal(err.code, TN_E_BUSY);
    assert_int_equal(mcp_courier_wait(c, tn_deadline_in(0.01), &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    pthread_mutex_unlock(&gate);
    mcp_courier_free(c);
}

/* --- dialling --------------------------------------------------------------------------------- */

static void *stop_dial(void *arg)
{
    mcp_dial_stop(arg);
    return NULL;
}

/* A listener whose queue is full lets nobody connect, and does not say no either. */
static void test_dialling_is_interrupted(void **state)
{
    enum { FULL = 8 };
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), waiting[FULL];
    struct tn_error err = {0};
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(1 << 10);
    pthread_t thread;

    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    for (int i = 0; i < FULL; i++) {
        waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(waiting[i], (struct sockaddr *)&a, sizeof a);
    }
    tn_autofree char *address = tn_asprintf("127.0.0.1:%d", ntohs(a.sin_port));
    struct mcp_dial *dial = mcp_dial_new(address);
    const struct tn_web_call call = {.target = "/", .deadline = TN_NEVER};
    assert_int_equal(pthread_create(&thread, NULL, stop_dial, dial), 0);
    assert_int_equal(mcp_dial_call(dial, &call, &answer, &err), -1);
    pthread_join(thread, NULL);
    assert_int_not_equal(err.code, TN_E_TIMEOUT);
    mcp_dial_free(dial);
    for (int i = 0; i < FULL; i++)
        tn_close(waiting[i]);
    tn_close(listener);
}

/* A hand behind a service chooses the target, and not what stands before it. */
static void test_targets_that_climb(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    tn_autofd int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct tn_error err = {0};
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(1 << 10);

    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    tn_autofree char *address = tn_asprintf("http://127.0.0.1:%d/base", ntohs(a.sin_port));
    struct mcp_dial *dial = mcp_dial_new(address);
    const struct tn_web_call call = {.target = "/%2e./secrets", .deadline = tn_deadline_in(60)};
    assert_int_equal(mcp_dial_call(dial, &call, &answer, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    mcp_dial_free(dial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_failures_and_functions),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_labels_hold_no_secrets),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_courier),
        cmocka_unit_test(test_dialling_is_interrupted),
        cmocka_unit_test(test_targets_that_climb),
        cmocka_unit_test(test_courier_that_stands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
