#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/rules.h"

static struct tn_rules rules_of(const char *text)
{
    struct tn_rules r;
    struct tn_error err = {0};

    if (tn_rules_parse(text, strlen(text), &r, &err) < 0)
        fail_msg("%s", err.text);
    return r;
}

static void refuses_nonsense(void **state)
{
    static const char *const wrong[] = {
        "",
        "a b",
        "*",
        "*.",
        "a..b",
        "-x-:0",
        "good.test:65536",
        "good.test:9-8",
        "good.test:",
        "tcp://good.test",
        "udp://good.test",
        "tcp://good.test:1/path",
        "GET good.test",
        "GET 10.0.0.1",
        "10.0.0.0/33",
        "10.0.0.0/8/9",
        "[::1",
        "[::1]/129",
        "ftp://good.test",
        "http://good.test/a*b",
        "@nothing",
        "good.test:80x",
        "http://good.test/\n10.0.0.0/8:*",
        "http://good.test/\r",
        "GET http://good.test/\x7f",
    };

    for (size_t i = 0; i < TN_COUNT(wrong); i++) {
        tn_autorules struct tn_rules r = {0};
        struct tn_error err = {0};
        if (tn_rules_add(&r, wrong[i], &err) == 0)
            fail_msg("'%s' is no rule", wrong[i]);
        assert_int_equal(err.code, TN_E_INVALID);
    }
}

static void ships_lists(void **state)
{
    for (size_t i = 0; i < tn_rule_list_count; i++) {
        tn_autorules struct tn_rules r = {0};
        tn_autofree char *name = tn_asprintf("@%s", tn_rule_lists[i].name);
        struct tn_error err = {0};
        if (tn_rules_add(&r, name, &err) < 0)
            fail_msg("%s: %s", name, err.text);
        assert_true(r.count > 5);
    }
}

static void knows_names(void **state)
{
    tn_autorules struct tn_rules r = rules_of("allow\ngood.test\n*.deep.test\nUPPER.test\n");

    assert_true(tn_rules_know_name(&r, "good.test"));
    assert_true(tn_rules_know_name(&r, "a.deep.test"));
    assert_true(tn_rules_know_name(&r, "b.a.deep.test"));
    assert_true(tn_rules_know_name(&r, "upper.test"));
    assert_false(tn_rules_know_name(&r, "deep.test"));
    assert_false(tn_rules_know_name(&r, "xdeep.test"));
    assert_false(tn_rules_know_name(&r, "x.good.test"));
    assert_false(tn_rules_know_name(&r, "ood.test"));
}

static unsigned pass_of(const struct tn_rules *r, const char *name, uint16_t port, bool udp)
{
    return tn_rules_allow_name(r, name, &(struct tn_wish){.port = port, .udp = udp});
}

static void judges_ports_and_protocols(void **state)
{
    tn_autorules struct tn_rules r =
        rules_of("allow\nplain.test\nssh.test:22\nhttps://tls.test\nhttp://web.test\n"
                 "tcp://raw.test:443\nudp://time.test:123\nmany.test:8000-8002\nstar.test:*\n");

    assert_int_equal(pass_of(&r, "plain.test", 443, false), TN_PASS_TLS | TN_PASS_HTTP);
    assert_int_equal(pass_of(&r, "plain.test", 80, false), TN_PASS_TLS | TN_PASS_HTTP);
    assert_int_equal(pass_of(&r, "plain.test", 8080, false), TN_PASS_NOT);
    assert_int_equal(pass_of(&r, "plain.test", 443, true), TN_PASS_NOT);
    assert_int_equal(pass_of(&r, "ssh.test", 22, false), TN_PASS_TLS | TN_PASS_HTTP | TN_PASS_RAW);
    assert_int_equal(pass_of(&r, "ssh.test", 443, false), TN_PASS_NOT);
    assert_int_equal(pass_of(&r, "tls.test", 443, false), TN_PASS_TLS);
    assert_int_equal(pass_of(&r, "tls.test", 80, false), TN_PASS_NOT);
    assert_int_equal(pass_of(&r, "web.test", 80, false), TN_PASS_HTTP);
    assert_int_equal(pass_of(&r, "web.test", 443, false), TN_PASS_NOT);
    assert_int_equal(pass_of(&r, "raw.test", 443, false), TN_PASS_BLIND);
    assert_int_equal(pass_of(&r, "time.test", 123, true), TN_PASS_BLIND);
    assert_int_equal(pass_of(&r, "time.test", 123, false), TN_PASS_NOT);
    assert_int_equal(pass_of(&r, "many.test", 8002, false) & TN_PASS_RAW, TN_PASS_RAW);
    assert_int_equal(pass_of(&r, "many.test", 8003, false), TN_PASS_NOT);
    assert_int_equal(pass_of(&r, "star.test", 1, false) & TN_PASS_RAW, TN_PASS_RAW);
    assert_int_equal(pass_of(&r, "star.test", 443, false), TN_PASS_TLS | TN_PASS_HTTP);
}

static bool reaches(const struct tn_rules *r, const char *text, uint16_t port, bool udp)
{
    struct tn_address a;

    assert_true(tn_address_parse(text, &a));
    return tn_rules_allow_address(r, &(struct tn_wish){.address = &a, .port = port, .udp = udp});
}

static void judges_addresses(void **state)
{
    tn_autorules struct tn_rules r = rules_of("allow\n10.1.0.0/16:5432\n192.0.2.7\n[fd00::]/9:80\n"
                                              "udp://192.0.2.0/25:53\n");

    assert_true(reaches(&r, "10.1.255.1", 5432, false));
    assert_false(reaches(&r, "10.1.255.1", 5433, false));
    assert_false(reaches(&r, "10.2.0.1", 5432, false));
    assert_true(reaches(&r, "192.0.2.7", 1, false));
    assert_true(reaches(&r, "::ffff:192.0.2.7", 1, false));
    assert_false(reaches(&r, "192.0.2.8", 1, false));
    assert_false(reaches(&r, "192.0.2.7", 1, true));
    assert_true(reaches(&r, "192.0.2.7", 53, true));
    assert_false(reaches(&r, "192.0.2.128", 53, true));
    assert_true(reaches(&r, "fd7f::1", 80, false));
    assert_false(reaches(&r, "fd80::1", 80, false));
}

static void nets_are_too_wide(void **state)
{
    tn_autorules struct tn_rules r =
        rules_of("allow\n0.0.0.0/0:*\n0.0.0.0/1:*\n172.0.0.0/8:*\n192.168.0.0/15:*\n[::]/0:*\n"
                 "[fc00::]/6:*\n8.0.0.0/8:*\n10.0.0.0/8:*\n172.16.0.0/12:*\n1.1.1.1:*\n"
                 "[fc00::]/7:*\nname.test\n");

    for (size_t i = 0; i < r.count; i++)
        assert_int_equal(tn_rule_is_too_wide(&r.items[i]), i < 6);
}

static void near_nets_are_out_of_reach(void **state)
{
    tn_autorules struct tn_rules r =
        rules_of("open\n~2600:1f14::/36\n~203.0.113.0/24\n[2600:1f14::7]:443\n203.0.113.7\n"
                 "[2600:2f14::7]:443\n");
    static const char *const wrong[] = {"~", "~10.0.0.1", "~[::]/8", "~::/0", "~::/129", "~::/8x"};
    struct tn_address a;

    assert_false(reaches(&r, "2600:1f14::7", 443, false));
    assert_false(reaches(&r, "203.0.113.7", 80, false));
    assert_true(reaches(&r, "2600:2f14::7", 443, false));
    assert_true(tn_address_parse("2600:1f14:fff::1", &a));
    assert_true(tn_rules_are_near(&r, &a));
    assert_true(tn_address_parse("2600:1f15::1", &a));
    assert_false(tn_rules_are_near(&r, &a));
    for (size_t i = 0; i < TN_COUNT(wrong); i++) {
        tn_autofree char *text = tn_asprintf("open\n%s\n", wrong[i]);
        tn_autorules struct tn_rules none = {0};
        assert_int_equal(tn_rules_parse(text, strlen(text), &none, NULL), -1);
        assert_int_equal(tn_rules_add(&r, wrong[i], NULL), -1); /* not a tenant's to say */
    }
}

static void denies(void **state)
{
    tn_autorules struct tn_rules r =
        rules_of("open\n!203.0.113.0/24\n203.0.113.64/26:443\n!203.0.113.65\n203.0.113.65:80\n"
                 "!0.0.0.0/0\n198.51.100.7\n![2001:db8::]/32\n");
    static const char *const wrong[] = {"!",          "!a.test",         "!203.0.113.0/33",
                                        "!::1",       "!203.0.113.0:80", "!tcp://203.0.113.0",
                                        "!@packages", "!!203.0.113.0",   "GET !203.0.113.0"};
    struct tn_address a;

    assert_false(reaches(&r, "203.0.113.7", 443, false));
    assert_true(reaches(&r, "203.0.113.66", 443, false));
    assert_false(reaches(&r, "203.0.113.66", 80, false));
    assert_true(reaches(&r, "203.0.113.65", 80, false)); /* of nets as small it goes before */
    assert_false(reaches(&r, "203.0.113.65", 443, false));
    assert_true(reaches(&r, "198.51.100.7", 22, false));
    assert_true(tn_address_parse("192.0.2.1", &a) && tn_rules_deny(&r, &a));
    assert_false(tn_rules_know_address(&r, &a, false));
    assert_true(tn_address_parse("203.0.113.66", &a) && tn_rules_know_address(&r, &a, false));
    assert_true(tn_address_parse("2001:db8::7", &a) && tn_rules_deny(&r, &a));
    assert_true(tn_address_parse("2001:db9::7", &a) && !tn_rules_deny(&r, &a));
    /* What leads to an address of IPv4 is as far as that one. */
    tn_autorules struct tn_rules nat =
        rules_of("allow\n[::]/0:*\n!203.0.113.0/24\n~198.51.100.0/24\n");
    assert_true(tn_address_parse("64:ff9b::203.0.113.7", &a) && tn_rules_deny(&nat, &a));
    assert_false(reaches(&nat, "64:ff9b::203.0.113.7", 443, false));
    assert_false(reaches(&nat, "2002:cb00:7107::1", 443, false));
    assert_false(reaches(&nat, "64:ff9b::198.51.100.7", 443, false));
    assert_true(reaches(&nat, "64:ff9b::192.0.2.7", 443, false));
    assert_false(tn_rules_know_name(&r, "203.0.113.0"));
    for (size_t i = 0; i < TN_COUNT(wrong); i++)
        assert_int_equal(tn_rules_add(&r, wrong[i], NULL), -1);
}

static const char *lacks(const char *these, const char *others, char out[TN_ADDRESS_TEXT])
{
    tn_autorules struct tn_rules a = rules_of(these), b = rules_of(others);
    const struct tn_rule *rule = tn_rules_denial_without(&a, &b);

    return rule ? tn_address_text(&rule->net, out) : "";
}

static void denials_are_kept(void **state)
{
    char out[TN_ADDRESS_TEXT];

    assert_string_equal(lacks("open\n8.8.8.8\n", "open\n", out), "");
    assert_string_equal(lacks("open\n!8.8.8.0/24\n", "open\n", out), "8.8.8.0");
    assert_string_equal(lacks("open\n!8.8.8.0/24\n", "open\n8.8.8.0/24\n", out), "8.8.8.0");
    assert_string_equal(lacks("open\n!8.8.8.0/24\n", "open\n!8.8.8.8\n", out), "8.8.8.0");
    assert_string_equal(lacks("open\n!8.8.8.0/24\n", "open\n!8.8.0.0/16\n", out), "8.8.8.0");
    assert_string_equal(lacks("open\n!8.8.8.0/24\n", "allow\n!8.8.8.0/24\n", out), "");
    assert_string_equal(lacks("open\n!8.8.8.8\n![::]/0\n", "open\n!8.8.8.8\n", out), "::");
}

/* A rule for the whole world is none for what is near. */
static void wide_nets_are_public(void **state)
{
    tn_autorules struct tn_rules r =
        rules_of("allow\n0.0.0.0/0\n[::]/0\n8.0.0.0/5\n203.0.113.0/24\n"
                 "203.0.113.7:80\n");
    struct tn_address a;

    assert_true(reaches(&r, "198.51.100.1", 80, false));
    assert_true(reaches(&r, "2001:db8::1", 80, false));
    assert_false(reaches(&r, "10.0.0.1", 80, false));
    assert_false(reaches(&r, "169.254.169.254", 80, false));
    assert_false(reaches(&r, "fd00::1", 80, false));
    assert_true(tn_address_parse("203.0.113.8", &a));
    assert_false(tn_rules_know_address(&r, &a, true));
    assert_true(tn_rules_know_address(&r, &a, false));
    assert_true(tn_address_parse("203.0.113.7", &a));
    assert_true(tn_rules_know_address(&r, &a, true));
}

static bool asks_by(bool tls, const struct tn_rules *r, const char *name, const char *method,
                    const char *path)
{
    return tn_rules_allow_request(r, &(struct tn_rule_request){.name = name,
                                                               .port = tls ? 443 : 80,
                                                               .tls = tls,
                                                               .method = method,
                                                               .method_size = strlen(method),
                                                               .target = path,
                                                               .target_size = strlen(path)});
}

static bool asks(const struct tn_rules *r, const char *name, const char *method, const char *path)
{
    return asks_by(false, r, name, method, path);
}

static void judges_requests(void **state)
{
    tn_autorules struct tn_rules r =
        rules_of("allow\nGET,HEAD http://api.test/v1/*\nhttp://api.test/exact\nall.test\n");

    assert_true(asks(&r, "api.test", "GET", "/v1/x?y=%41"));
    assert_true(asks(&r, "api.test", "HEAD", "/v1/"));
    assert_false(asks(&r, "api.test", "POST", "/v1/x"));
    assert_false(asks(&r, "api.test", "GET", "/v2"));
    assert_true(asks(&r, "api.test", "POST", "/exact"));
    assert_true(asks(&r, "api.test", "POST", "/exact?a"));
    assert_false(asks(&r, "api.test", "POST", "/exactly"));
    assert_false(asks(&r, "api.test", "GET", "/v1/../v2"));
    assert_false(asks(&r, "api.test", "GET", "/v1/%2e%2e/v2"));
    assert_false(asks(&r, "api.test", "GET", "/v1//v2"));
    assert_false(asks(&r, "api.test", "GET", "/v1/.."));
    assert_false(asks(&r, "api.test", "GET", "/v1/./x"));
    assert_true(asks(&r, "api.test", "GET", "/v1/.hidden/..."));
    assert_false(asks(&r, "api.test", "GET", "/v1/\\..\\v2"));
    assert_true(asks(&r, "all.test", "DELETE", "/any/../thing"));
    assert_false(asks(&r, "other.test", "GET", "/v1/"));
}

static void judges_requests_inside_tls(void **state)
{
    tn_autorules struct tn_rules plain = rules_of("allow\nhttps://api.test\nhttp://api.test/x\n");
    tn_autorules struct tn_rules r =
        rules_of("allow\nGET https://api.test/v1/*\nhttp://api.test/plain\nall.test\n"
                 "POST https://*.deep.test:8443\n");

    assert_false(tn_rules_look_inside(&plain));
    assert_true(tn_rules_look_inside(&r));
    assert_true(tn_rules_end_tls(&r, "api.test", 443));
    assert_false(tn_rules_end_tls(&r, "api.test", 80));
    assert_false(tn_rules_end_tls(&r, "all.test", 443));
    assert_true(tn_rules_end_tls(&r, "a.deep.test", 8443));
    assert_false(tn_rules_end_tls(&r, "deep.test", 8443));
    assert_true(asks_by(true, &r, "api.test", "GET", "/v1/x"));
    assert_false(asks_by(true, &r, "api.test", "GET", "/V1/x"));
    assert_false(asks_by(true, &r, "api.test", "get", "/v1/x"));
    assert_false(asks_by(true, &r, "api.test", "GET", "/plain"));
    assert_false(asks_by(false, &r, "api.test", "GET", "/v1/x"));
    assert_true(asks_by(false, &r, "api.test", "GET", "/plain"));
    assert_true(asks_by(true, &r, "all.test", "PUT", "/any"));
}

static bool narrows(const char *wide, const char *rule)
{
    tn_autorules struct tn_rules w = rules_of(wide), r = {0};

    assert_int_equal(tn_rules_add(&r, rule, NULL), 0);
    return tn_rules_cover(&w, &r.items[0]);
}

static void only_narrows(void **state)
{
    assert_true(narrows("allow\n*.good.test\n", "a.good.test"));
    assert_true(narrows("allow\n*.good.test\n", "*.b.good.test"));
    assert_true(narrows("allow\n*.good.test\n", "https://a.good.test"));
    assert_false(narrows("allow\n*.good.test\n", "good.test"));
    assert_false(narrows("allow\na.good.test\n", "*.good.test"));
    assert_false(narrows("allow\ngood.test\n", "good.test:22"));
    assert_false(narrows("allow\ngood.test\n", "tcp://good.test:443"));
    assert_false(narrows("allow\nhttps://good.test\n", "good.test"));
    assert_true(narrows("allow\nGET http://good.test/a\n", "GET http://good.test/a"));
    assert_false(narrows("allow\nGET http://good.test/a\n", "http://good.test/a"));
    assert_true(narrows("allow\ngood.test\n", "GET https://good.test/a"));
    assert_true(narrows("allow\nGET,PUT https://good.test/a/*\n", "GET https://good.test/a/b/*"));
    assert_true(narrows("allow\nGET,PUT https://good.test/a/*\n", "PUT,GET https://good.test/a/b"));
    assert_false(narrows("allow\nGET https://good.test/a/*\n", "GET,PUT https://good.test/a/b"));
    assert_false(narrows("allow\nGET https://good.test/a/*\n", "GET https://good.test/a/../b"));
    assert_false(narrows("allow\nGET https://good.test/a\n", "GET https://good.test/a*"));
    assert_false(narrows("allow\nGET https://good.test/a/*\n", "GET https://good.test"));
    assert_false(narrows("allow\nGET https://good.test/a/*\n", "https://good.test"));
    assert_false(narrows("allow\nGET http://good.test/a/*\n", "GET https://good.test/a/b"));
    assert_true(narrows("allow\n10.0.0.0/8\n", "10.1.0.0/16:80"));
    assert_false(narrows("allow\n10.1.0.0/16:80\n", "10.0.0.0/8:80"));
    assert_true(narrows("open\n", "any.test:22"));
    assert_false(narrows("open\n", "10.0.0.1"));
    assert_true(narrows("open\n", "0.0.0.0/0:*"));
    assert_true(narrows("open\n", "[::]/0:*"));
    assert_true(narrows("open\n", "8.8.8.0/24:53"));
    assert_true(narrows("open\n", "[2001:4860::]/32:*"));
    assert_false(narrows("open\n", "8.8.8.8:53")); /* it may be this machine's */
    assert_false(narrows("open\n", "10.0.0.0/8"));
    assert_false(narrows("open\n", "127.0.0.0/8:*"));
    assert_false(narrows("open\n", "[2002:a00::]/24:*"));
    assert_false(narrows("open\n", "[fc00::]/7:*"));
    assert_false(narrows("allow\n", "0.0.0.0/0:*"));
    assert_true(narrows("open\n10.0.0.1\n", "10.0.0.1:80"));
    assert_true(narrows("allow\n", "!8.8.8.0/24"));
    assert_false(narrows("allow\n!8.8.8.0/24\n", "8.8.8.0/24"));
    assert_false(narrows("open\n!8.8.8.0/24\n", "8.8.8.0/24:*"));
    assert_false(narrows("open\n!8.8.8.0/24\n", "8.8.8.0/25:*"));
    assert_true(narrows("open\n!8.8.8.0/24\n", "8.8.0.0/16:*")); /* what is denied stays so */
    assert_true(narrows("open\n!8.8.8.0/24\n", "0.0.0.0/0:*"));
    assert_true(narrows("open\n!8.8.8.0/24\n", "8.8.9.0/24:*"));
    assert_true(narrows("open\n!8.8.8.0/24\n", "[2001:4860::]/32:*"));
    assert_true(narrows("open\n!8.8.8.0/24\n", "any.test"));
    assert_true(narrows("open\n!8.8.8.0/24\n8.8.8.8:53\n", "8.8.8.8:53"));
    assert_true(narrows("open\n!8.8.8.8\n8.8.8.0/24\n", "8.8.8.0/24"));
    assert_true(narrows("allow\n10.0.0.0/8\n!10.1.0.0/16\n", "10.0.0.0/8"));
    assert_true(narrows("allow\n10.0.0.0/8\n!10.1.0.0/16\n", "10.0.0.0/15"));
    assert_false(narrows("allow\n10.0.0.0/8\n!10.1.0.0/16\n", "10.1.0.0/16"));
    assert_false(narrows("allow\n10.0.0.0/8\n!10.1.0.0/16\n", "10.1.2.3"));
}

/* What a net of the operator lets through is less than its addresses. */
static void narrows_by_kind(void **state)
{
    assert_true(narrows("allow\n0.0.0.0/0:*\n", "8.8.8.0/24:*"));
    assert_true(narrows("allow\n0.0.0.0/0:*\n", "128.0.0.0/1:*"));
    assert_false(narrows("allow\n0.0.0.0/0:*\n", "10.0.0.0/8:*"));
    assert_false(narrows("allow\n0.0.0.0/0:*\n", "169.254.0.0/16:80"));
    assert_false(narrows("open\n0.0.0.0/0:*\n", "169.254.169.254:80"));
    assert_false(narrows("allow\n[::]/0:*\n", "[fd00::]/64:80"));
    assert_false(narrows("allow\n[::]/0:*\n", "10.0.0.0/8:*"));
    assert_false(narrows("allow\n8.0.0.0/6:*\n", "10.0.0.0/8:*"));
    assert_true(narrows("allow\n10.0.0.0/8:*\n", "10.1.2.2/31:*"));
    assert_false(narrows("allow\n10.0.0.0/8:*\n", "10.1.2.3:*")); /* it may be this machine's */
    assert_false(narrows("allow\n8.8.8.0/24:*\n", "8.8.8.8:53"));
    assert_true(narrows("allow\n8.8.8.8\n", "8.8.8.8:53"));
    assert_true(narrows("allow\n169.254.0.0/16\n", "169.254.169.0/24:80"));
    assert_false(narrows("allow\n169.0.0.0/8\n", "169.254.169.254/8")); /* the same net */
    assert_false(narrows("allow\n168.63.0.0/16\n", "168.63.129.16/16"));
    assert_true(narrows("allow\n172.16.0.1/8\n", "172.16.0.0/8"));
}

static void normalises_names(void **state)
{
    char out[TN_NAME_MAX + 1];

    assert_true(tn_name_normalise("Good.TEST.", 10, out));
    assert_string_equal(out, "good.test");
    assert_false(tn_name_normalise(".", 1, out));
    assert_false(tn_name_normalise("a..b", 4, out));
    assert_false(tn_name_normalise("a\0b", 3, out));
    assert_false(tn_name_normalise("[::1]", 5, out));
}

static void offers_rules(void **state)
{
    static const struct {
        const char *host;
        unsigned port;
        const char *rule;
    } rows[] = {
        {"a.test", 443, "a.test"},         {"a.test", 80, "a.test"},
        {"a.test", 22, "a.test:22"},       {"1.2.3.4", 443, "1.2.3.4:443"},
        {"fd00::1", 80, "[fd00::1]:80"},   {"a.test", 0, NULL},
        {"a.test", 65536, NULL},           {"@packages", 443, NULL},
        {"*.a.test", 443, NULL},           {"a b", 443, NULL},
        {"tcp://a.test", 443, NULL},       {"", 443, NULL},
        {"GET http://a.test/x", 80, NULL}, {"a.test/x", 443, NULL},
    };
    char out[TN_RULE_FOR];

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        assert_int_equal(tn_rule_for(rows[i].host, rows[i].port, out), rows[i].rule != NULL);
        if (rows[i].rule)
            assert_string_equal(out, rows[i].rule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_nonsense),
        cmocka_unit_test(ships_lists),
        cmocka_unit_test(knows_names),
        cmocka_unit_test(judges_ports_and_protocols),
        cmocka_unit_test(judges_addresses),
        cmocka_unit_test(nets_are_too_wide),
        cmocka_unit_test(denies),
        cmocka_unit_test(denials_are_kept),
        cmocka_unit_test(narrows_by_kind),
        cmocka_unit_test(wide_nets_are_public),
        cmocka_unit_test(near_nets_are_out_of_reach),
        cmocka_unit_test(judges_requests),
        cmocka_unit_test(only_narrows),
        cmocka_unit_test(normalises_names),
        cmocka_unit_test(judges_requests_inside_tls),
        cmocka_unit_test(offers_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
