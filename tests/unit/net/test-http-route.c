#include "unit.h"

#include "net/http-route.h"

static void handler(struct tn_http_exchange *x, void *ctx)
{
}

#define ROW(method, pattern)              \
    {                                     \
        method, pattern, handler, NULL, 0 \
    }

static const struct tn_route first[] = {
    ROW("GET", "/"),
    ROW("GET", "/alive"),
    ROW("POST", "/items"),
    ROW("GET", "/items/{id}"),
    ROW("DELETE", "/items/{name}"),
    ROW("GET", "/items/new"),
    ROW("GET", "/items/{id}/parts/{part}"),
    {0},
};
static const struct tn_route second[] = {
    ROW("GET", "/alive"), /* a second row for the same thing: the first answers */
    ROW("GET", "/files/{path...}"),
    ROW("PUT", "/files/{dir}/{path...}"),
    ROW("GET", "/files/{dir}/list"),
    ROW("PROPFIND", "/dav"),
    ROW("GET", "/trailing/"),
    ROW("GET", "/a b/c"),
    {0},
};
static const struct tn_route *const tables[] = {first, second, NULL};

static const struct {
    const char *method, *path;
    const char *pattern; /* NULL: none */
    const char *captures;
    const char *allow; /* when there is none */
} rows[] = {
    {"GET", "/", "/", "", NULL},
    {"GET", "/alive", "/alive", "", NULL},
    {"HEAD", "/alive", "/alive", "", NULL},
    {"GET", "/%61live", "/alive", "", NULL},
    {"POST", "/alive", NULL, "", "GET, HEAD"},
    {"GET", "/alive/", NULL, "", ""},
    {"GET", "//alive", NULL, "", ""},
    {"GET", "/aliv", NULL, "", ""},
    {"GET", "/alivee", NULL, "", ""},
    {"GET", "/alive%2F", NULL, "", ""},
    {"POST", "/items", "/items", "", NULL},
    {"HEAD", "/items", NULL, "", "POST"},
    {"GET", "/items/7", "/items/{id}", "id=7 ", NULL},
    {"DELETE", "/items/7", "/items/{name}", "name=7 ", NULL},
    {"DELETE", "/items/new", "/items/{name}", "name=new ", NULL},
    {"GET", "/items/new", "/items/new", "", NULL},
    {"GET", "/items/newer", "/items/{id}", "id=newer ", NULL},
    {"GET", "/items/", NULL, "", ""},
    {"PATCH", "/items/new", NULL, "", "GET, HEAD, DELETE"},
    {"GET", "/items/a%2Fb", "/items/{id}", "id=a%2Fb ", NULL},
    {"GET", "/items/1/parts/2", "/items/{id}/parts/{part}", "id=1 part=2 ", NULL},
    {"GET", "/items/new/parts/2", "/items/{id}/parts/{part}", "id=new part=2 ", NULL},
    {"GET", "/items/1/parts/", NULL, "", ""},
    {"GET", "/items/1/parts", NULL, "", ""},
    {"GET", "/files/", "/files/{path...}", "path= ", NULL},
    {"GET", "/files", NULL, "", ""},
    {"GET", "/files/a/b/c", "/files/{path...}", "path=a/b/c ", NULL},
    {"GET", "/files/x/list", "/files/{dir}/list", "dir=x ", NULL},
    {"GET", "/files/x/list/", "/files/{path...}", "path=x/list/ ", NULL},
    {"PUT", "/files/x/list", "/files/{dir}/{path...}", "dir=x path=list ", NULL},
    {"PUT", "/files/x/", "/files/{dir}/{path...}", "dir=x path= ", NULL},
    {"PUT", "/files/x", NULL, "", "GET, HEAD"},
    {"POST", "/files/x/y", NULL, "", "GET, HEAD, PUT"},
    {"PROPFIND", "/dav", "/dav", "", NULL},
    {"GET", "/trailing/", "/trailing/", "", NULL},
    {"GET", "/trailing", NULL, "", ""},
    {"GET", "/a%20b/c", "/a b/c", "", NULL},
    {"GET", "*", NULL, "", ""},
    {"GET", "", NULL, "", ""},
};

static void captures_of(const struct http_match *m, char line[200])
{
    line[0] = '\0';
    for (int i = 0; i < m->count; i++) {
        size_t used = strlen(line);
        snprintf(line + used, 200 - used, "%.*s=%.*s ", (int)m->captures[i].name_len,
                 m->captures[i].name, (int)m->captures[i].len, m->captures[i].text);
    }
}

static void test_matches(void **state)
{
    struct http_routes *r = http_routes_new(tables);
    char line[200];

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf allow = TN_BUF_INIT(200);
        struct http_match m;
        http_routes_match(r, rows[i].method, rows[i].path, strlen(rows[i].path), &m);
        if (!m.route != !rows[i].pattern)
            fail_msg("%s %s", rows[i].method, rows[i].path);
        if (m.route) {
            assert_string_equal(m.route->pattern, rows[i].pattern);
            captures_of(&m, line);
            assert_string_equal(line, rows[i].captures);
            continue;
        }
        http_routes_allow(r, m.allowed, &allow);
        assert_string_equal(tn_buf_str(&allow), rows[i].allow);
    }
    http_routes_free(r);
}

static void test_first_row_wins(void **state)
{
    struct http_routes *r = http_routes_new(tables);
    struct http_match m;

    http_routes_match(r, "GET", "/alive", 6, &m);
    assert_ptr_equal(m.route, &first[1]);
    http_routes_free(r);
}

static void test_methods(void **state)
{
    struct http_routes *r = http_routes_new(tables);

    assert_true(http_routes_known_method(r, "PATCH"));
    assert_true(http_routes_known_method(r, "PROPFIND"));
    assert_false(http_routes_known_method(r, "COPY"));
    assert_false(http_routes_known_method(r, "get"));
    assert_false(http_routes_known_method(r, ""));
    http_routes_free(r);
    http_routes_free(NULL);
}

/* Nothing in a path makes the search long or deep. */
static void test_hostile_paths(void **state)
{
    struct http_routes *r = http_routes_new(tables);
    char path[8000];
    struct http_match m;

    memset(path, '/', sizeof path);
    http_routes_match(r, "GET", path, sizeof path, &m);
    assert_null(m.route);
    memset(path + 1, 'a', sizeof path - 1);
    http_routes_match(r, "GET", path, sizeof path, &m);
    assert_null(m.route);
    for (size_t i = 1; i + 3 <= sizeof path; i += 3)
        memcpy(path + i, "%61", 3);
    http_routes_match(r, "GET", path, sizeof path - 2, &m);
    assert_null(m.route);
    http_routes_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches),
        cmocka_unit_test(test_first_row_wins),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_hostile_paths),
    };

    return cmocka_run_group_tests_name("http-route", tests, NULL, NULL);
}
