/* The safe, the authority and the vault. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "helpers.h"
#include "security/vault.h"

#define VALUE "sk-Zm9vYmFy_canary/9"

struct place {
    char path[64];
    char *state, *key;
    struct tn_safe safe;
};

static int start(void **state)
{
    static struct place p;

    p = (struct place){.path = "/tmp/tn-safe-XXXXXX"};
    assert_non_null(mkdtemp(p.path));
    p.state = tn_asprintf("%s/state", p.path);
    p.key = tn_asprintf("%s/config/secret.key", p.path);
    assert_int_equal(mkdir(p.state, 0700), 0);
    p.safe = (struct tn_safe){.state = p.state, .key = p.key};
    *state = &p;
    return 0;
}

static int stop(void **state)
{
    struct place *p = *state;
    tn_autofd int above = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    tn_fs_remove_tree(above, p->path + strlen("/tmp/"), 0, NULL);
    free(p->state);
    free(p->key);
    return 0;
}

static struct tn_safe_entry entry_of(const char *name, const char *host, const char *value)
{
    struct tn_safe_entry e = {.name = tn_strdup(name), .value = tn_strdup(value)};

    e.hosts.items = tn_calloc(2, sizeof *e.hosts.items);
    e.hosts.items[e.hosts.count++] = tn_strdup(host);
    return e;
}

static int put(const struct place *p, const char *owner, const char *name, const char *value,
               int64_t most, struct tn_error *err)
{
    tn_autosafeentry struct tn_safe_entry e = entry_of(name, "api.example.com", value);

    return tn_safe_put(&p->safe, owner, &e, most, err);
}

static int get(const struct place *p, const char *owner, const char *name, const char *value,
               struct tn_error *err)
{
    tn_autosafeentry struct tn_safe_entry e = {0};
    int r = tn_safe_get(&p->safe, owner, name, &e, err);

    if (r == 0 && value)
        assert_string_equal(e.value, value);
    return r;
}

static void test_what_is_put_is_got_and_not_plain(void **state)
{
    const struct place *p = *state;
    tn_autofree char *file = tn_asprintf("%s/secrets/own/A_KEY", p->state);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct stat st;

    assert_int_equal(put(p, NULL, "A_KEY", VALUE, 0, NULL), 0);
    assert_int_equal(get(p, NULL, "A_KEY", VALUE, NULL), 0);
    assert_int_equal(tn_fs_read(TN_FS_ANYWHERE, file, &text, NULL), 0);
    assert_null(memmem(text.data, text.len, VALUE, 8));
    assert_null(memmem(text.data, text.len, "example", 7));
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(p->key, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(put(p, NULL, "A_KEY", "another one", 0, NULL), 0);
    assert_int_equal(get(p, NULL, "A_KEY", "another one", NULL), 0);
    assert_int_equal(tn_safe_remove(&p->safe, NULL, "A_KEY", NULL), 0);
    struct tn_error err = {0};
    assert_int_equal(get(p, NULL, "A_KEY", NULL, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(tn_safe_remove(&p->safe, NULL, "A_KEY", &err), -1);
}

static void test_owners_do_not_meet(void **state)
{
    const struct place *p = *state;
    struct tn_error err = {0};
    static const char *const owners[] = {"..", ".", "own", "acme"};
    static const char *const values[] = {"value of ..", "value of .", "value of own",
                                         "value of acme"};

    assert_int_equal(put(p, NULL, "K", "operators'", 0, NULL), 0);
    for (size_t i = 0; i < TN_COUNT(owners); i++) {
        assert_int_equal(get(p, owners[i], "K", NULL, &err), -1);
        assert_int_equal(put(p, owners[i], "K", values[i], 0, NULL), 0);
    }
    for (size_t i = 0; i < TN_COUNT(owners); i++)
        assert_int_equal(get(p, owners[i], "K", values[i], NULL), 0);
    assert_int_equal(get(p, NULL, "K", "operators'", NULL), 0);
    assert_int_equal(put(p, "a/b", "K", "value123", 0, &err), -1);
}

/* A file in the place of another is none, whoever put it there. */
static void test_files_are_bound_to_owner_and_name(void **state)
{
    const struct place *p = *state;
    tn_autofree char *from = tn_asprintf("%s/secrets/tenant-acme/K", p->state);
    static const char *const to[] = {"own/K", "tenant-acme/OTHER"};
    struct tn_error err = {0};

    assert_int_equal(put(p, NULL, "K", "mine alone", 0, NULL), 0);
    assert_int_equal(put(p, "acme", "K", "theirs alone", 0, NULL), 0);
    for (size_t i = 0; i < TN_COUNT(to); i++) {
        tn_autofree char *path = tn_asprintf("%s/secrets/%s", p->state, to[i]);
        unlink(path);
        assert_int_equal(link(from, path), 0);
    }
    assert_int_equal(get(p, NULL, "K", NULL, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_int_equal(get(p, "acme", "OTHER", NULL, &err), -1);
    assert_int_equal(get(p, "acme", "K", "theirs alone", NULL), 0);
}

/* Whatever byte of a file is changed, it is not opened. */
static void test_damage_is_seen(void **state)
{
    const struct place *p = *state;
    tn_autofree char *file = tn_asprintf("%s/secrets/own/K", p->state);
    struct stat st;

    assert_int_equal(put(p, NULL, "K", VALUE, 0, NULL), 0);
    tn_autofd int fd = open(file, O_RDWR | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    for (off_t i = 0; i < st.st_size; i++) {
        char byte, other;
        assert_int_equal(pread(fd, &byte, 1, i), 1);
        other = (char)(byte ^ 1);
        assert_int_equal(pwrite(fd, &other, 1, i), 1);
        assert_int_equal(get(p, NULL, "K", NULL, NULL), -1);
        assert_int_equal(pwrite(fd, &byte, 1, i), 1);
    }
    assert_int_equal(get(p, NULL, "K", VALUE, NULL), 0);
    assert_int_equal(ftruncate(fd, 20), 0);
    assert_int_equal(get(p, NULL, "K", NULL, NULL), -1);
}

static void test_the_key_is_kept_and_never_made_twice(void **state)
{
    struct place *p = *state;
    tn_autofree char *away = tn_asprintf("%s/away", p->path);
    tn_autofree char *inside = tn_asprintf("%s/k", p->state);
    struct tn_error err = {0};

    assert_int_equal(put(p, "acme", "K", VALUE, 0, NULL), 0);
    assert_int_equal(chmod(p->key, 0640), 0);
    assert_int_equal(get(p, "acme", "K", NULL, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_int_equal(chmod(p->key, 0600), 0);
    assert_int_equal(rename(p->key, away), 0);
    assert_int_equal(put(p, NULL, "OTHER", VALUE, 0, &err), -1);
    assert_non_null(strstr(err.text, "missing"));
    assert_int_equal(access(p->key, F_OK), -1);
    assert_int_equal(tn_safe_remove(&p->safe, "acme", "K", NULL), 0);
    assert_int_equal(put(p, NULL, "OTHER", VALUE, 0, NULL), 0);
    p->safe.key = inside;
    assert_int_equal(put(p, NULL, "OTHER", VALUE, 0, &err), -1);
    assert_non_null(strstr(err.text, "state directory"));
}

static int count(const struct tn_safe_entry *e, void *ctx)
{
    assert_null(e->value);
    assert_int_equal(e->headers.count, 5);
    ++*(int *)ctx;
    return 0;
}

static void test_a_list_has_no_values_and_an_end(void **state)
{
    const struct place *p = *state;
    struct tn_error err = {0};
    int n = 0;

    assert_int_equal(tn_safe_each(&p->safe, "acme", count, &n, NULL), 0);
    assert_int_equal(put(p, "acme", "A", "value123", 2, NULL), 0);
    assert_int_equal(put(p, "acme", "B", "value123", 2, NULL), 0);
    assert_int_equal(put(p, "acme", "C", "value123", 2, &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_int_equal(put(p, "acme", "B", "walue123", 2, NULL), 0);
    assert_int_equal(tn_safe_each(&p->safe, "acme", count, &n, NULL), 0);
    assert_int_equal(n, 2);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *name, *host, *header, *value;
        bool good;
    } cases[] = {
        {"A", "api.example.com", "x-key", "value123", true},
        {"_A9", "*.Example.com:8443", "X-Key", "value w123", true},
        {"A", "localhost", "x-key", "value123", true},
        {"a", "api.example.com", "x-key", "value123", false},
        {"9A", "api.example.com", "x-key", "value123", false},
        {"A/B", "api.example.com", "x-key", "value123", false},
        {"..", "api.example.com", "x-key", "value123", false},
        {"", "api.example.com", "x-key", "value123", false},
        {"A", "*", "x-key", "value123", false},
        {"A", "*.com", "x-key", "value123", false},
        {"A", "a.*.com", "x-key", "value123", false},
        {"A", "10.0.0.1", "x-key", "value123", false},
        {"A", "[::1]", "x-key", "value123", false},
        {"A", "a..com", "x-key", "value123", false},
        {"A", ".com", "x-key", "value123", false},
        {"A", "a.com.", "x-key", "value123", false},
        {"A", "a.com:", "x-key", "value123", false},
        {"A", "a.com:0", "x-key", "value123", false},
        {"A", "a.com:65536", "x-key", "value123", false},
        {"A", "https://a.com", "x-key", "value123", false},
        {"A", "a.com/x", "x-key", "value123", false},
        {"A", "-a.com", "x-key", "value123", false},
        {"A", "a.com", "Content-Length", "value123", false},
        {"A", "a.com", "x key", "value123", false},
        {"A", "a.com", "x-key", "", false},
        {"A", "a.com", "x-key", "value123 ", false},
        {"A", "a.com", "x-key", "value123\r\nX: y", false},
        {"A", "a.com", "x-key", "value123\x7f", false},
        {"A", "a.com", "x-key", "value123\xc3\xa4", false},
        {"A", "a.com", "x-key", "value12", false},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autosafeentry struct tn_safe_entry e =
            entry_of(cases[i].name, cases[i].host, cases[i].value);
        struct tn_error err = {0};
        assert_int_equal(tn_field_from_text(tn_fields_find(&tn_safe_fields, "headers"), &e,
                                            cases[i].header, NULL),
                         0);
        int r = tn_safe_check(&e, &err);
        if (r != (cases[i].good ? 0 : -1))
            fail_msg("%s for %s in %s: %s", cases[i].name, cases[i].host, cases[i].header,
                     err.text);
        if (r == 0)
            assert_null(strpbrk(e.hosts.items[0], "ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
        else if (strlen(cases[i].value) > 2)
            assert_null(strstr(err.text, cases[i].value));
    }
    tn_autosafeentry struct tn_safe_entry long_one = entry_of("A", "a.com", "");
    free(long_one.value);
    long_one.value = tn_calloc(1, TN_SAFE_VALUE_MAX + 2);
    memset(long_one.value, 'x', TN_SAFE_VALUE_MAX);
    assert_int_equal(tn_safe_check(&long_one, NULL), 0);
    long_one.value[TN_SAFE_VALUE_MAX] = 'x';
    assert_int_equal(tn_safe_check(&long_one, NULL), -1);
}

static void test_a_vault_is_sealed_and_whole(void **state)
{
    tn_autoauthority struct tn_authority a = {0}, b = {0};
    tn_autosafeentry struct tn_safe_entry e = entry_of("A", "a.com", "quote\"back\\slash");
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_VAULT_MAX);
    tn_autojson struct tn_json *json = NULL;

    assert_int_equal(tn_safe_check(&e, NULL), 0);
    assert_int_equal(tn_authority_make("abc", &a, NULL), 0);
    assert_int_equal(tn_authority_make("abc", &b, NULL), 0);
    assert_string_not_equal(a.key, b.key);
    assert_non_null(strstr(a.certificate, "BEGIN CERTIFICATE"));
    assert_non_null(strstr(a.key, "BEGIN PRIVATE KEY"));
    const struct tn_vault_secret one = {.placeholder = "tnsecret_a_0", .entry = &e};
    tn_autofd int fd = tn_vault_write(
        &(struct tn_vault){.authority = &a, .roots = "PEM", .secrets = &one, .count = 1}, NULL);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(tn_fs_read_fd(fd, &text, NULL), 0);
    assert_int_equal(tn_json_parse(text.data, text.len, &json, NULL), 0);
    const struct tn_json *authority = tn_json_get(json, "authority");
    const struct tn_json *secret = tn_json_at(tn_json_get(json, "secrets"), 0);
    assert_string_equal(tn_json_get_str(authority, "certificate", ""), a.certificate);
    assert_string_equal(tn_json_get_str(authority, "key", ""), a.key);
    assert_string_equal(tn_json_get_str(json, "roots", ""), "PEM");
    assert_string_equal(tn_json_get_str(secret, "value", ""), e.value);
    assert_true(tn_json_lists(tn_json_get(secret, "hosts"), "a.com"));
    assert_true(tn_json_lists(tn_json_get(secret, "headers"), "authorization"));
}

static void test_what_is_sealed_opens_for_the_same_alone(void **state)
{
    const struct place *p = *state;
    tn_autobuf struct tn_buf plain = TN_BUF_INIT(1024), sealed = TN_BUF_INIT(1024),
                             out = TN_BUF_INIT(1024);
    struct tn_error err = {0};

    tn_buf_puts(&plain, VALUE);
    assert_int_equal(tn_safe_seal(&p->safe, "modal a x", &plain, &sealed, &err), 0);
    assert_null(strstr(tn_buf_str(&sealed), VALUE));
    assert_int_equal(tn_safe_unseal(&p->safe, "modal b x", tn_buf_str(&sealed), &out, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_int_equal(tn_safe_unseal(&p->safe, "modal a x", "no base64!", &out, &err), -1);
    tn_buf_reset(&out);
    assert_int_equal(tn_safe_unseal(&p->safe, "modal a x", tn_buf_str(&sealed), &out, &err), 0);
    assert_string_equal(tn_buf_str(&out), VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_put_is_got_and_not_plain, start, stop),
        cmocka_unit_test_setup_teardown(test_owners_do_not_meet, start, stop),
        cmocka_unit_test_setup_teardown(test_files_are_bound_to_owner_and_name, start, stop),
        cmocka_unit_test_setup_teardown(test_damage_is_seen, start, stop),
        cmocka_unit_test_setup_teardown(test_the_key_is_kept_and_never_made_twice, start, stop),
        cmocka_unit_test_setup_teardown(test_a_list_has_no_values_and_an_end, start, stop),
        cmocka_unit_test_setup_teardown(test_what_is_sealed_opens_for_the_same_alone, start, stop),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_a_vault_is_sealed_and_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
