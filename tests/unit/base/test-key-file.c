#include "scratch.h"

#include "base/key-file.h"

enum { SOMEBODY = 12345 };

static char *path_of(const char *name)
{
    return tn_asprintf("%s/%s", scratch_path, name);
}

/* TN_OK and what was read is right, or the code. */
static enum tn_code outcome(const char *name, enum tn_key_file_others others, struct tn_error *err)
{
    tn_autokeyfile struct tn_buf text = TN_KEY_FILE_INIT;
    tn_autofree char *path = path_of(name);

    *err = (struct tn_error){0};
    if (tn_key_file_read(path, others, &text, err) < 0) {
        assert_int_not_equal(err->code, TN_OK);
        assert_non_null(strstr(err->text, path));
        return err->code;
    }
    assert_string_equal(tn_buf_str(&text), "a key\n");
    return TN_OK;
}

static void modes(void **state)
{
    static const struct {
        mode_t mode;
        enum tn_code ours, readable;
    } table[] = {
        {0600, TN_OK, TN_OK},
        {0400, TN_OK, TN_OK},
        {0700, TN_OK, TN_OK},
        {0640, TN_E_DENIED, TN_OK},
        {0604, TN_E_DENIED, TN_OK},
        {0444, TN_E_DENIED, TN_OK},
        {0620, TN_E_DENIED, TN_E_DENIED},
        {0602, TN_E_DENIED, TN_E_DENIED},
        {0666, TN_E_DENIED, TN_E_DENIED},
    };
    struct tn_error err;

    put_file(scratch, "key", "a key\n");
    for (size_t i = 0; i < TN_COUNT(table); i++) {
        set_mode("key", table[i].mode);
        assert_int_equal(outcome("key", TN_KEY_FILE_OURS, &err), table[i].ours);
        if (table[i].ours != TN_OK)
            assert_non_null(strstr(err.text, "say: chmod 600 "));
        assert_int_equal(outcome("key", TN_KEY_FILE_READABLE, &err), table[i].readable);
        if (table[i].readable != TN_OK)
            assert_non_null(strstr(err.text, "say: chmod go-w "));
    }
}

static int as_somebody(void)
{
    struct tn_error err;

    if (setresgid(SOMEBODY, SOMEBODY, SOMEBODY) || setresuid(SOMEBODY, SOMEBODY, SOMEBODY))
        return 100;
    if (outcome("own", TN_KEY_FILE_OURS, &err) != TN_OK)
        return 1;
    if (outcome("roots", TN_KEY_FILE_READABLE, &err) != TN_OK)
        return 2;
    if (outcome("anothers", TN_KEY_FILE_READABLE, &err) != TN_E_DENIED ||
        !strstr(err.text, "belongs to another user (12346)") || !strstr(err.text, "chown 12345 "))
        return 3;
    return 0;
}

static void owners(void **state)
{
    static const struct {
        const char *name;
        uid_t owner;
        mode_t mode;
    } files[] = {
        {"own", SOMEBODY, 0600},
        {"roots", 0, 0444},
        {"anothers", SOMEBODY + 1, 0644},
    };
    struct tn_error err;

    if (geteuid() != 0) {
        print_message("only root can give files away\n");
        skip();
    }
    assert_int_equal(chmod(scratch_path, 0755), 0);
    for (size_t i = 0; i < TN_COUNT(files); i++) {
        put_file(scratch, files[i].name, "a key\n");
        set_mode(files[i].name, files[i].mode);
        set_owner(files[i].name, files[i].owner);
    }
    assert_int_equal(in_process(as_somebody), 0);
    /* Root may read everything, but what others may change is not its key. */
    assert_int_equal(outcome("own", TN_KEY_FILE_OURS, &err), TN_E_DENIED);
    assert_non_null(strstr(err.text, "belongs to another user (12345); say: chown 0 "));
}

static void what_is_no_file(void **state)
{
    tn_autofree char *large = tn_malloc(TN_KEY_FILE_MAX + 2);
    struct tn_error err;

    memset(large, 'k', TN_KEY_FILE_MAX + 1);
    large[TN_KEY_FILE_MAX + 1] = '\0';
    put_file(scratch, "large", large);
    set_mode("large", 0600);
    put_file(scratch, "key", "a key\n");
    set_mode("key", 0600);
    put_link("key", "link");
    assert_int_equal(mkfifoat(scratch, "pipe", 0600), 0);
    assert_int_equal(mkdirat(scratch, "directory", 0700), 0);
    assert_int_equal(outcome("pipe", TN_KEY_FILE_OURS, &err), TN_E_INVALID);
    assert_int_equal(outcome("directory", TN_KEY_FILE_OURS, &err), TN_E_INVALID);
    assert_int_equal(outcome("large", TN_KEY_FILE_OURS, &err), TN_E_TOO_LARGE);
    assert_int_equal(outcome("missing", TN_KEY_FILE_OURS, &err), TN_E_NOT_FOUND);
    assert_int_equal(outcome("link", TN_KEY_FILE_OURS, &err), TN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(modes, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(owners, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(what_is_no_file, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
