/* API keys: their text, what is kept of them, and who may come in how often. */
#include "../base/scratch.h"

#include "service/key.h"

struct place {
    char path[128];
    struct tn_db *db;
    struct keyring *keys;
};

static int set_up(void **state)
{
    struct place *p = tn_calloc(1, sizeof *p);

    assert_int_equal(scratch_open(state), 0);
    snprintf(p->path, sizeof p->path, "%s/tendon.db", scratch_path);
    p->db = tn_db_open(p->path, NULL);
    assert_non_null(p->db);
    p->keys = keyring_new(p->db);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;

    keyring_free(p->keys);
    tn_db_close(p->db);
    free(p);
    return scratch_close(state);
}

static char team[] = "team";

static struct key_info wish(const char *name)
{
    return (struct key_info){
        .name = (char *)(uintptr_t)name, .tenant = team, .scopes = SCOPES_USUAL};
}

static void make(const struct place *p, struct key_info *k, char text[64])
{
    struct tn_error err = {0};

    if (key_create(p->db, k, text, &err) < 0)
        fail_msg("%s", err.text);
}

static bool opens(const struct place *p, const char *text)
{
    struct caller who;
    struct tn_error err = {0};

    if (keyring_check(p->keys, text, &who, &err) == 0)
        return true;
    assert_int_equal(err.code, TN_E_DENIED);
    assert_string_equal(err.text, "The API key is not valid");
    return false;
}

/* --- the text ------------------------------------------------------------------------------ */

#define ID12 "abcdefghij01"
#define SECRET43 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklm-_09"

static void test_a_key_has_one_form(void **state)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"tnk_" ID12 "_" SECRET43, true},
        {"", false},
        {"tnk_", false},
        {"tnk_" ID12, false},
        {"tnk_" ID12 "_", false},
        {"TNK_" ID12 "_" SECRET43, false},
        {" tnk_" ID12 "_" SECRET43, false},
        {"tnk_" ID12 "_" SECRET43 "x", false},
        {"tnk_" ID12 "_" SECRET43 "\n", false},
        {"tnk_" ID12 "-" SECRET43, false},
        {"tnk_ABCDEFGHIJ01_" SECRET43, false},
        {"tnk_abcdefghij0'_" SECRET43, false},
        {"tnk_abcdefghij0__" SECRET43, false},
        {"tnk_" ID12 "_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklm-_0 ", false},
        {"tnk_" ID12 "_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklm-_0\xff", false},
    };
    char id[13], secret[KEY_SECRET + 1];

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        assert_int_equal(key_parse(rows[i].text, id, secret), rows[i].good);
    assert_true(key_parse(rows[0].text, id, secret));
    assert_string_equal(id, ID12);
    assert_string_equal(secret, SECRET43);
}

/* As clients of E2B want it: ^e2b_[0-9a-f]+$. */
static void test_a_key_has_a_second_spelling(void **state)
{
    char e2b[KEY_E2B_SIZE], id[13], secret[KEY_SECRET + 1];

    key_spell_e2b("tnk_" ID12 "_" SECRET43, e2b);
    assert_int_equal(strlen(e2b), KEY_E2B_SIZE - 1);
    assert_int_equal(strspn(e2b + 4, "0123456789abcdef"), KEY_E2B_SIZE - 5);
    assert_true(key_parse(e2b, id, secret));
    assert_string_equal(id, ID12);
    assert_string_equal(secret, SECRET43);
    for (size_t n = strlen(e2b); n-- > 0;) {
        char c = e2b[n];
        e2b[n] = '\0';
        assert_false(key_parse(e2b, id, secret));
        e2b[n] = c;
    }
    e2b[7] = 'g';
    assert_false(key_parse(e2b, id, secret));
    assert_false(key_parse("e2b_00", id, secret));
}

static void test_a_fresh_key_has_that_form_and_no_two_are_the_same(void **state)
{
    const struct place *p = *state;
    struct key_info one = wish("one"), two = wish("two");
    char a[64], b[64], id[13], secret[KEY_SECRET + 1];

    make(p, &one, a);
    make(p, &two, b);
    assert_true(key_parse(a, id, secret));
    assert_string_equal(id, one.id);
    assert_string_not_equal(a, b);
    assert_string_not_equal(one.id, two.id);
}

/* --- what is kept -------------------------------------------------------------------------- */

static void test_the_secret_is_nowhere_in_the_store(void **state)
{
    const struct place *p = *state;
    static const char *const files[] = {"tendon.db", "tendon.db-wal"};
    struct key_info k = wish("one");
    char text[64], id[13], secret[KEY_SECRET + 1], path[256];
    size_t seen = 0;

    make(p, &k, text);
    assert_true(key_parse(text, id, secret));
    for (size_t i = 0; i < TN_COUNT(files); i++) {
        tn_autobuf struct tn_buf bytes = TN_BUF_INIT(64 << 20);
        snprintf(path, sizeof path, "%s/%s", scratch_path, files[i]);
        assert_int_equal(tn_fs_read(TN_FS_ANYWHERE, path, &bytes, NULL), 0);
        assert_null(memmem(bytes.data, bytes.len, secret, KEY_SECRET));
        seen += memmem(bytes.data, bytes.len, id, 12) != NULL;
    }
    assert_true(seen > 0); /* the search finds what is there */
}

/* What becomes of risky actions: its own where that was said, else as the service says. */
static void test_thresholds_of_a_key(void **state)
{
    const struct place *p = *state;
    const struct tn_thresholds usual = {TN_ALLOW, TN_ASK, TN_BLOCK, TN_ASK, TN_CONFIRM_RISKY, ""};
    struct key_info k = wish("one"), plain = wish("two");
    struct tn_thresholds own = {0};
    struct caller who;
    char text[64], plain_text[64];

    tn_fields_defaults(&tn_thresholds_fields, &own);
    assert_false(key_security_of(&own).set);
    own.medium = TN_BLOCK;
    own.mode = TN_CONFIRM_ALWAYS;
    k.security = key_security_of(&own);
    make(p, &k, text);
    make(p, &plain, plain_text);
    assert_int_equal(keyring_check(p->keys, text, &who, NULL), 0);
    struct tn_thresholds t = caller_thresholds(&who, &usual);
    assert_int_equal(t.low, TN_ALLOW);
    assert_int_equal(t.medium, TN_BLOCK);
    assert_int_equal(t.high, TN_BLOCK);
    assert_int_equal(t.mode, TN_CONFIRM_ALWAYS);
    assert_int_equal(keyring_check(p->keys, plain_text, &who, NULL), 0);
    t = caller_thresholds(&who, &usual);
    assert_memory_equal(&t, &usual, sizeof t);

    /* What nobody can read is strict. */
    assert_true(tn_db_run(p->db, NULL, "UPDATE api_key SET security = '{\"low\": 7}'", "") >= 0);
    struct keyring *fresh = keyring_new(p->db);
    assert_int_equal(keyring_check(fresh, text, &who, NULL), 0);
    assert_int_equal(caller_thresholds(&who, &usual).medium, TN_BLOCK);
    assert_int_equal(caller_thresholds(&who, &usual).unknown, TN_BLOCK);
    keyring_free(fresh);
}

static void test_wishes_that_make_no_sense(void **state)
{
    const struct place *p = *state;
    static const char *const names[] = {
        "",    "a b",      "a'b",
        "a\n", "\xc3\xa4", "a2345678901234567890123456789012345678901234567890123456789012345"};
    struct tn_error err;
    char text[64];

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        struct key_info k = wish(names[i]);
        assert_int_equal(key_create(p->db, &k, text, &err), -1);
        assert_int_equal(err.code, TN_E_INVALID);
    }
    struct key_info nothing = wish("one"), late = wish("one"), twice = wish("one");
    nothing.scopes = 0;
    assert_int_equal(key_create(p->db, &nothing, text, &err), -1);
    late.expires = 1;
    assert_int_equal(key_create(p->db, &late, text, &err), -1);
    make(p, &twice, text);
    assert_int_equal(key_create(p->db, &twice, text, &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_int_equal(text[0], 0);
}

/* --- who may come in ----------------------------------------------------------------------- */

static void test_a_key_opens_and_its_row_says_what(void **state)
{
    const struct place *p = *state;
    struct key_info k = wish("one");
    struct caller who;
    char text[64];

    k.limits = (struct key_limits){.max_sandboxes = 3, .max_cpus = 1.5};
    make(p, &k, text);
    assert_int_equal(keyring_check(p->keys, text, &who, NULL), 0);
    assert_string_equal(who.key_id, k.id);
    assert_string_equal(who.tenant, "team");
    assert_int_equal(who.scopes, SCOPES_USUAL);
    assert_int_equal(who.limits.max_sandboxes, 3);
    assert_true(who.limits.max_cpus == 1.5);
}

static void test_wrong_keys_are_all_refused_alike(void **state)
{
    const struct place *p = *state;
    struct key_info k = wish("one"), other = wish("two");
    char text[64], foreign[64], mixed[64];

    make(p, &k, text);
    make(p, &other, foreign);
    assert_true(opens(p, text));
    assert_false(opens(p, ""));
    assert_false(opens(p, "tnk_" ID12 "_" SECRET43));
    snprintf(mixed, sizeof mixed, "%.17s%s", text, foreign + 17);
    assert_false(opens(p, mixed));
    snprintf(mixed, sizeof mixed, "%s", text);
    mixed[59] = mixed[59] == 'A' ? 'B' : 'A';
    assert_false(opens(p, mixed));
}

static void test_a_revoked_key_opens_nothing(void **state)
{
    const struct place *p = *state;
    struct key_info k = wish("one"), again = wish("one");
    struct caller who;
    struct tn_error err;
    char text[64], second[64];

    make(p, &k, text);
    assert_true(opens(p, text));
    assert_int_equal(keyring_find(p->keys, k.id, &who, NULL), 0);
    assert_int_equal(key_revoke(p->db, "one", NULL), 0);
    assert_false(opens(p, text));
    assert_int_equal(keyring_find(p->keys, k.id, &who, NULL), -1);
    assert_int_equal(key_revoke(p->db, "one", &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    make(p, &again, second); /* the name is free again */
    assert_true(opens(p, second));
    assert_false(opens(p, text));
}

static void test_the_widest_limits_of_a_tenant(void **state)
{
    const struct place *p = *state;
    struct key_info all[] = {wish("one"), wish("two"), wish("reader"), wish("other")};
    struct key_limits most;
    struct tn_error err;
    char text[64];

    assert_int_equal(keyring_widest(p->keys, team, &most, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    all[0].limits = (struct key_limits){.max_running = 1, .max_memory = 5, .max_cpus = 2};
    all[1].limits = (struct key_limits){.max_running = 3, .max_cpus = 1, .gvisor = true};
    all[2].scopes = SCOPE_READ;
    all[3].tenant = (char *)(uintptr_t) "another";
    for (size_t i = 0; i < TN_COUNT(all); i++)
        make(p, &all[i], text);
    assert_int_equal(keyring_widest(p->keys, team, &most, NULL), 0);
    assert_true(most.max_running == 3 && most.max_memory == 0 && most.max_cpus == 2);
    assert_false(most.gvisor);
    assert_int_equal(key_revoke(p->db, "two", NULL), 0);
    assert_int_equal(keyring_widest(p->keys, team, &most, NULL), 0);
    assert_true(most.max_running == 1 && most.max_memory == 5 && most.max_cpus == 2);
    assert_int_equal(key_revoke(p->db, "one", NULL), 0);
    assert_int_equal(keyring_widest(p->keys, team, &most, NULL), -1);
}

static void test_somebody_else_revokes_it(void **state)
{
    const struct place *p = *state;
    struct key_info k = wish("one");
    struct tn_db *other = tn_db_open(p->path, NULL);
    char text[64];

    make(p, &k, text);
    assert_true(opens(p, text));
    /* As another process does it: this ring is told by nothing but the database. */
    assert_int_equal(tn_db_run(other, NULL, "UPDATE api_key SET revoked = 1", ""), 1);
    assert_false(opens(p, text));
    tn_db_close(other);
}

static void test_an_expired_key_opens_nothing(void **state)
{
    const struct place *p = *state;
    struct key_info k = wish("one");
    struct tn_db *other = tn_db_open(p->path, NULL);
    char text[64];

    k.expires = 1e11;
    make(p, &k, text);
    assert_true(opens(p, text));
    assert_int_equal(tn_db_run(other, NULL, "UPDATE api_key SET expires = 5", ""), 1);
    assert_false(opens(p, text));
    tn_db_close(other);
}

static void test_requests_per_second(void **state)
{
    const struct place *p = *state;
    struct key_info k = wish("one"), free_one = wish("two");
    struct caller who;
    char text[64];

    k.limits.requests_per_second = 0.001; /* one, and the next in a quarter of an hour */
    make(p, &k, text);
    assert_int_equal(keyring_check(p->keys, text, &who, NULL), 0);
    assert_true(keyring_take(p->keys, &who) == 0);
    double wait = keyring_take(p->keys, &who);
    assert_true(wait > 900 && wait <= 1000);
    make(p, &free_one, text); /* the row is read again; what was used stays used */
    assert_int_equal(keyring_find(p->keys, k.id, &who, NULL), 0);
    assert_true(keyring_take(p->keys, &who) > 900);
    assert_int_equal(keyring_check(p->keys, text, &who, NULL), 0);
    for (int i = 0; i < 1000; i++)
        assert_true(keyring_take(p->keys, &who) == 0);
}

/* --- the first one ------------------------------------------------------------------------- */

static void test_the_first_key_is_written_to_a_file(void **state)
{
    const struct place *p = *state;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(100);
    char path[256];
    struct caller who;
    struct stat st;

    snprintf(path, sizeof path, "%s/service.key", scratch_path);
    assert_int_equal(symlink("/nowhere/else", path), 0); /* is replaced, not followed */
    assert_int_equal(key_make_first(p->db, path, NULL), 1);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(tn_fs_read(TN_FS_ANYWHERE, path, &text, NULL), 0);
    assert_int_equal(text.data[text.len - 1], '\n');
    tn_buf_cut(&text, text.len - 1);
    assert_int_equal(keyring_check(p->keys, text.data, &who, NULL), 0);
    assert_true(who.scopes & SCOPE_ADMIN);
    assert_int_equal(key_make_first(p->db, path, NULL), 0);
}

static void test_a_secret_is_made_once(void **state)
{
    const struct place *p = *state;
    char a[65], b[65], c[65];

    assert_int_equal(service_secret(p->db, "x", a, NULL), 0);
    assert_int_equal(service_secret(p->db, "x", b, NULL), 0);
    assert_int_equal(service_secret(p->db, "y", c, NULL), 0);
    assert_int_equal(strspn(a, "0123456789abcdef"), 64);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_has_one_form),
        cmocka_unit_test(test_a_key_has_a_second_spelling),
        TEST(test_a_fresh_key_has_that_form_and_no_two_are_the_same),
        TEST(test_the_secret_is_nowhere_in_the_store),
        TEST(test_thresholds_of_a_key),
        TEST(test_wishes_that_make_no_sense),
        TEST(test_a_key_opens_and_its_row_says_what),
        TEST(test_wrong_keys_are_all_refused_alike),
        TEST(test_a_revoked_key_opens_nothing),
        TEST(test_the_widest_limits_of_a_tenant),
        TEST(test_somebody_else_revokes_it),
        TEST(test_an_expired_key_opens_nothing),
        TEST(test_requests_per_second),
        TEST(test_the_first_key_is_written_to_a_file),
        TEST(test_a_secret_is_made_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
