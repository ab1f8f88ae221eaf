#include <sys/eventfd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/mcp/challenge.h"
#include "runtime/mcp/oauth-grant.h"
#include "runtime/mcp/oauth-person.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

static const char *shown(const char *text)
{
    return text ? text : "-";
}

static void test_challenges(void **state)
{
    static const struct {
        const char *header, *metadata, *scope, *error;
    } rows[] = {
        {"", "-", "-", "-"},
        {"Bearer", "-", "-", "-"},
        {"Bearer resource_metadata=\"https://x/y\", scope=\"a b\"", "https://x/y", "a b", "-"},
        {"bearer error=insufficient_scope,scope=\"a\"", "-", "a", "insufficient_scope"},
        {"Basic realm=\"a, Bearer scope=\\\"z\\\"\", Bearer scope=\"b\"", "-", "b", "-"},
        {"Negotiate dG9rZW4=, Bearer scope = \"c\" , error=\"e\"", "-", "c", "e"},
        {"Bearer scope=\"a\", Basic scope=\"b\", Bearer scope=\"c\", error=\"d\"", "-", "a", "-"},
        {"Bearer scope=\"a\", scope=\"b\"", "-", "a", "-"},
        {"Bearer scope=\"not closed", "-", "-", "-"},
        {"Bearer scope=\"a\", error=\"", "-", "a", "-"},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        mcp_autochallenge struct mcp_challenge c;
        mcp_challenge_read(rows[i].header, &c);
        assert_string_equal(shown(c.metadata), rows[i].metadata);
        assert_string_equal(shown(c.scope), rows[i].scope);
        assert_string_equal(shown(c.error), rows[i].error);
    }
}

static void test_urls(void **state)
{
    static const struct {
        const char *text, *origin, *path, *query;
    } good[] = {
        {"https://A.example:443/X?y=Z", "https://a.example", "/X", "?y=Z"},
        {"HTTP://a.example:80", "http://a.example", "", ""},
        {"http://[::1]:8080/", "http://[::1]:8080", "/", ""},
        {"https://a.example:8443?x", "https://a.example:8443", "", "?x"},
    };
    static const char *const bad[] = {
        "",
        "ftp://a",
        "https://",
        "https:///x",
        "https://u@a/",
        "https://a#",
        "https://a:b/",
        "https://a:1:2/",
        "https://[::1/x",
        "https://a b/",
        "https://a\\b",
        "https://a:123456/",
        "https://a/\xc3\xa4",
        "javascript:alert(1)",
    };

    for (size_t i = 0; i < TN_COUNT(good); i++) {
        mcp_autourl struct mcp_url u;
        assert_int_equal(mcp_url_read(good[i].text, &u, NULL), 0);
        assert_string_equal(u.origin, good[i].origin);
        assert_string_equal(u.path, good[i].path);
        assert_string_equal(u.query, good[i].query);
    }
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        struct mcp_url u;
        struct tn_error err = {0};
        assert_int_equal(mcp_url_read(bad[i], &u, &err), -1);
        assert_int_equal(err.code, TN_E_INVALID);
    }
}

static void test_resources(void **state)
{
    static const struct {
        const char *resource, *url;
        bool covers;
    } rows[] = {
        {"https://a.example/mcp", "https://a.example/mcp", true},
        {"https://a.example", "https://a.example/mcp", true},
        {"https://a.example/", "https://A.example:443/mcp", true},
        {"https://a.example/mc", "https://a.example/mcp", false},
        {"https://a.example/mcp/x", "https://a.example/mcp", false},
        {"http://a.example/mcp", "https://a.example/mcp", false},
        {"https://b.example/mcp", "https://a.example/mcp", false},
        {"https://a.example:444/mcp", "https://a.example/mcp", false},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        mcp_autourl struct mcp_url resource, url;
        assert_int_equal(mcp_url_read(rows[i].resource, &resource, NULL), 0);
        assert_int_equal(mcp_url_read(rows[i].url, &url, NULL), 0);
        assert_int_equal(mcp_url_covers(&resource, &url), rows[i].covers);
    }
}

static void test_scopes(void **state)
{
    tn_autofree char *joined = mcp_scope_join(" a b  a", "c b");
    tn_autofree char *none = mcp_scope_join(NULL, "");

    assert_string_equal(joined, "a b c");
    assert_string_equal(none, "");
    assert_true(mcp_scope_has("a b", "b") && mcp_scope_has(NULL, NULL) && mcp_scope_has("a", " "));
    assert_false(mcp_scope_has("ab", "a") || mcp_scope_has(NULL, "a"));
}

static void test_vault(void **state)
{
    char base[] = "/tmp/tendon-oauth-XXXXXX";
    struct mcp_vault v, other;
    struct mcp_grant g;
    struct tn_error err = {0};
    struct stat st;

    assert_non_null(mkdtemp(base));
    tn_autofree char *state_directory = tn_asprintf("%s/state", base);
    mcp_vault_init(&v, state_directory, "https://a.example/mcp");
    mcp_vault_init(&other, state_directory, "https://b.example/mcp");
    assert_string_not_equal(v.path, other.path);
    assert_int_equal(mcp_vault_read(&v, &g, &err), 0);
    assert_null(g.access);
    int lock = mcp_vault_lock(&v, -1, tn_deadline_in(30), &err);
    assert_true(lock >= 0);
    assert_int_equal(mcp_vault_lock(&v, -1, 0, &err), -1); /* not for a second one, */
    int free_lock = mcp_vault_lock(&other, -1, tn_deadline_in(30), &err);
    assert_true(free_lock >= 0); /* but for another server */
    tn_close(free_lock);
    g = (struct mcp_grant){
        .issuer = tn_strdup("https://i"), .access = tn_strdup("a"), .machine = true, .expires = 77};
    assert_int_equal(mcp_vault_write(&v, &g, &err), 0);
    mcp_grant_done(&g);
    tn_close(lock);
    assert_int_equal(stat(v.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(mcp_vault_read(&v, &g, &err), 0);
    assert_string_equal(g.issuer, "https://i");
    assert_string_equal(g.access, "a");
    assert_null(g.refresh);
    assert_true(g.machine && !g.given && g.expires == 77);
    mcp_grant_done(&g);
    assert_int_equal(mcp_vault_remove(&v, &err), 0);
    assert_int_equal(mcp_vault_remove(&v, &err), 0);
    mcp_vault_done(&v);
    mcp_vault_done(&other);
    tn_autofd int tmp = tn_fs_open(TN_FS_ANYWHERE, "/tmp", O_RDONLY | O_DIRECTORY, 0, &err);
    assert_int_equal(tn_fs_remove_tree(tmp, base + strlen("/tmp/"), 0, &err), 0);
}

static int visit_nowhere(const char *url, char **ended, int stop, int64_t deadline, void *ctx,
                         struct tn_error *err)
{
    return 0;
}

/* Nobody waits for a login that nobody wants any more: not for the browser, nor for the lock. */
static void test_giving_up(void **state)
{
    char base[] = "/tmp/tendon-oauth-XXXXXX";
    tn_autofd int stop = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    struct mcp_issuer issuer = {.issuer = (char *)(uintptr_t) "https://i",
                                .authorize_url = (char *)(uintptr_t) "https://i/a"};
    struct mcp_visit visit = {.issuer = &issuer,
                              .client = "c",
                              .challenge = "x",
                              .visit = visit_nowhere,
                              .deadline = tn_deadline_in(300),
                              .stop = stop};
    struct mcp_vault v;
    struct tn_error err;
    int64_t before = tn_now();

    struct mcp_doorstep *door = mcp_doorstep_new(0, &err);
    assert_non_null(door);
    assert_null(mcp_doorstep_visit(door, &visit, &err));
    assert_int_equal(err.code, TN_E_GONE);
    mcp_doorstep_free(door);
    assert_non_null(mkdtemp(base));
    mcp_vault_init(&v, base, "http://x/mcp");
    int lock = mcp_vault_lock(&v, -1, tn_deadline_in(30), &err);
    assert_true(lock >= 0);
    assert_int_equal(mcp_vault_lock(&v, stop, tn_deadline_in(300), &err), -1);
    assert_int_equal(err.code, TN_E_GONE);
    assert_true(tn_now() - before < 100 * TN_SECOND);
    tn_close(lock);
    mcp_vault_done(&v);
    tn_autofd int tmp = tn_fs_open(TN_FS_ANYWHERE, "/tmp", O_RDONLY | O_DIRECTORY, 0, &err);
    assert_int_equal(tn_fs_remove_tree(tmp, base + strlen("/tmp/"), 0, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_challenges), cmocka_unit_test(test_urls),
        cmocka_unit_test(test_resources),  cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_vault),      cmocka_unit_test(test_giving_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
