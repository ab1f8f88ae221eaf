/* Names of previews, and the lines that pass between a client and a sandbox. */
#include "service/preview-host.h"
#include "service/preview-lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

static void test_hosts(void **state)
{
    static const struct {
        const char *host, *domain;
        int port; /* 0: none */
    } rows[] = {
        {"8080-abcdefghij.localhost", "localhost", 8080},
        {"8080-abcdefghij.localhost:7171", "localhost", 8080},
        {"1-ABCDEFGHIJ.LocalHost:", "localhost", 1},
        {"65535-0123456789.p.example.org", "p.example.org", 65535},
        {"65536-abcdefghij.localhost", "localhost", 0},
        {"0-abcdefghij.localhost", "localhost", 0},
        {"08-abcdefghij.localhost", "localhost", 0},
        {"-abcdefghij.localhost", "localhost", 0},
        {"80-abcdefghi.localhost", "localhost", 0},
        {"80-abcdefghijk.localhost", "localhost", 0},
        {"80-abcdefghi_.localhost", "localhost", 0},
        {"80-abcdefghij", "localhost", 0},
        {"80-abcdefghij.", "localhost", 0},
        {"80-abcdefghij.localhost.", "localhost", 0},
        {"80-abcdefghij.localhost:71x", "localhost", 0},
        {"80-abcdefghij.localhost.evil", "localhost", 0},
        {"80-abcdefghij.notlocalhost", "localhost", 0},
        {"80-abcdefghij.localhost", "", 0},
        {"", "localhost", 0},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        char id[11] = "";
        int port = 0;
        bool found = preview_parse_host(rows[i].host, rows[i].domain, &port, id);
        assert_int_equal(found, rows[i].port != 0);
        if (found)
            assert_int_equal(port, rows[i].port);
    }
}

static void check_origin(const char *url, const char *domain, const char *wanted)
{
    tn_autofree char *origin = preview_origin(url, domain, "abcdefghij", 80);

    assert_string_equal(origin, wanted);
}

static void test_addresses(void **state)
{
    check_origin("http://127.0.0.1:7171", "localhost", "http://80-abcdefghij.localhost:7171");
    check_origin("https://[::1]:71/x", "p.example", "https://80-abcdefghij.p.example:71");
    check_origin("https://a.example", "p.example", "https://80-abcdefghij.p.example");
    assert_true(preview_reaches("http://127.0.0.1:7171", "localhost"));
    assert_true(preview_reaches("http://localhost", "LocalHost"));
    assert_true(preview_reaches("http://[::1]:80", "localhost"));
    assert_true(preview_reaches("https://a.example", "p.example"));
    assert_false(preview_reaches("https://a.example", "localhost"));
    assert_false(preview_reaches("http://127.evil.example", "localhost"));
    assert_false(preview_reaches("http://192.168.1.2:7171", "localhost"));
}

static void check_target(const char *target, const char *ticket, const char *rest)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);
    char found[32] = "";

    assert_int_equal(target_value(target, TICKET_QUERY, found, sizeof found), ticket != NULL);
    assert_string_equal(found, ticket ? ticket : "");
    target_without_ticket(target, &out);
    assert_string_equal(tn_buf_str(&out), rest);
}

static void test_targets(void **state)
{
    check_target("/a", NULL, "/a");
    check_target("/a?", NULL, "/a?");
    check_target("/a?b=1&&c", NULL, "/a?b=1&&c");
    check_target("/a?tendon-ticket=x", "x", "/a");
    check_target("/a?tendon-ticket=x&b=1&tendon-ticket=y", "x", "/a?b=1");
    check_target("/a?b&tendon-ticket=", "", "/a?b");
    check_target("/a?DAYTONA_SANDBOX_AUTH_KEY=x&b=1&DAYTONA_SANDBOX_AUTH_KEY=", NULL, "/a?b=1");
    check_target("/a?DAYTONA_SANDBOX_AUTH_KEYS=x", NULL, "/a?DAYTONA_SANDBOX_AUTH_KEYS=x");
    check_target("/a?my-tendon-ticket=x", NULL, "/a?my-tendon-ticket=x");
    check_target("/tendon-ticket=x", NULL, "/tendon-ticket=x");
    check_target("/a?tendon-ticket=0123456789012345678901234567890123456789", NULL, "/a");
}

/* wanted NULL: it is dropped. */
static void check_line(tn_http_filter_fn filter, const struct passage *p, const char *name,
                       const char *value, const char *wanted)
{
    tn_autobuf struct tn_buf changed = TN_BUF_INIT(1000);
    struct passage copy = *p;
    enum tn_http_verdict verdict = filter(name, value, &changed, &copy);
    const char *got = verdict == TN_HTTP_DROP   ? NULL
                      : verdict == TN_HTTP_PASS ? value
                                                : tn_buf_str(&changed);

    assert_int_equal(got == NULL, wanted == NULL);
    if (wanted)
        assert_string_equal(got, wanted);
}

static const struct passage host = {.host = "80-x.localhost:7171", .port = 80};
static const struct passage path = {.prefix = "/preview/x/8080", .host = "h:7171", .port = 8080};

static bool is_ours(const char *text, void *ctx)
{
    return strcmp(text, "ours") == 0;
}
static const struct passage keyed = {.host = "h:7171", .port = 80, .is_session_key = is_ours};

static void test_requests(void **state)
{
    check_line(passage_request, &host, "X-API-Key", "tnk_abc", NULL);
    check_line(passage_request, &host, "x-api-key", "TNT_abc", NULL);
    check_line(passage_request, &host, "X-API-Key", "theirs", "theirs");
    check_line(passage_request, &host, "Authorization", "bearer  tnk_abc", NULL);
    check_line(passage_request, &host, "Authorization", "Bearer abc", "Bearer abc");
    check_line(passage_request, &host, "X-Session-Api-Key", "theirs", "theirs");
    check_line(passage_request, &host, "X-Session-Api-Key", "tnk_abc", NULL);
    check_line(passage_request, &keyed, "X-Session-Api-Key", "theirs", "theirs");
    check_line(passage_request, &keyed, "X-Session-Api-Key", "ours", NULL);
    check_line(passage_request, &keyed, "X-API-Key", "ours", NULL);
    check_line(passage_request, &keyed, "Authorization", "Bearer ours", NULL);
    check_line(hand_request, &host, "X-Session-Api-Key", "abc", NULL);
    check_line(passage_request, &host, "X-Forwarded-Anything", "abc", NULL);
    check_line(passage_request, &host, "Cookie", "tendon-a=1; b=2; __Host-Tendon-c=3", "b=2");
    check_line(passage_request, &host, "Cookie", "tendon-a=1", NULL);
    check_line(passage_request, &path, "Cookie", "tendon-app-a=1; b=2; tendon-c=3", "a=1");
    check_line(passage_request, &host, "Referer", "http://x/?tendon-ticket=y", NULL);
    check_line(passage_request, &host, "Referer", "http://x/?DAYTONA_SANDBOX_AUTH_KEY=y", NULL);
    check_line(passage_request, &host, "Referer", "http://x/?y", "http://x/?y");
    check_line(passage_request, &host, "X-Daytona-Preview-Token", "abc", NULL);
    check_line(passage_request, &host, "E2b-Traffic-Access-Token", "abc", NULL);
    check_line(passage_request, &host, "x-runloop-tunnel-authorization", "Bearer abc", NULL);
    check_line(hand_request, &host, "Cookie", "b=2", NULL);
    check_line(hand_request, &host, "Authorization", "Basic x", NULL);
    check_line(hand_request, &host, "Sec-WebSocket-Protocol", "tendon, ticket.abc", NULL);
    check_line(hand_request, &host, "Content-Type", "a/b", "a/b");
}

static void test_answers(void **state)
{
    check_line(hand_answer, &host, "Location", "https://elsewhere.example/", NULL);
    check_line(hand_answer, &host, "Set-Cookie", "a=1", NULL);
    check_line(hand_answer, &host, "Clear-Site-Data", "*", NULL);
    check_line(hand_answer, &host, "WWW-Authenticate", "Bearer", NULL);
    check_line(hand_answer, &host, "ETag", "\"1\"", "\"1\"");
    check_line(passage_answer, &path, "Service-Worker-Allowed", "/", NULL);
    check_line(passage_answer, &host, "Service-Worker-Allowed", "/", "/");
    check_line(passage_answer, &host, "Clear-Site-Data", "*", NULL);
    check_line(passage_answer, &host, "Set-Cookie", "a=1; Domain=x; Secure", "a=1; Secure");
    check_line(passage_answer, &host, "Set-Cookie", "Tendon-a=1", NULL);
    check_line(passage_answer, &path, "Set-Cookie", "a=1; Path=x; Secure",
               "tendon-app-a=1; Path=/preview/x/8080/; Secure");
    check_line(passage_answer, &host, "Location", "http://localhost/a", "/a");
    check_line(passage_answer, &host, "Location", "http://80-X.localhost:7171/a", "/a");
    check_line(passage_answer, &path, "Location", "https://H:7171?a", "/preview/x/8080/?a");
    check_line(passage_answer, &path, "Location", "//127.0.0.1:8080\\\\evil",
               "/preview/x/8080/evil");
    check_line(passage_answer, &path, "Location", "http://localhost:8080.evil/",
               "http://localhost:8080.evil/");
    check_line(passage_answer, &path, "Location", "/preview/x/8080/a", "/preview/x/8080/a");
    check_line(passage_answer, &path, "Location", "/preview/x/80801",
               "/preview/x/8080/preview/x/80801");
    check_line(passage_answer, &path, "Location", "javascript:x", "javascript:x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),   cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_targets), cmocka_unit_test(test_requests),
        cmocka_unit_test(test_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
