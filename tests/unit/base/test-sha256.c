/* SHA-256 against sha256sum, for every length around the edges of a block. */
#include "scratch.h"

#include "base/child.h"
#include "base/sha256.h"

static void reference(const char *path, char out[65])
{
    tn_autofree char *result = tn_asprintf("%s/sum", scratch_path);
    tn_autofd int to = open(result, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const char *argv[] = {"sha256sum", path, NULL};
    struct tn_child_fd fds[] = {{to, 1}};
    struct tn_error err = {0};
    tn_autochild struct tn_child *child =
        tn_child_start(&(struct tn_child_spec){.argv = argv, .fds = fds, .fd_count = 1}, &err);

    if (!child)
        fail_msg("%s", err.text);
    assert_int_equal(tn_child_wait(child, tn_deadline_in(30), NULL, NULL), 0);
    assert_int_equal(pread(to, out, 64, 0), 64);
    out[64] = '\0';
}

static void test_lengths(void **state)
{
    static const size_t lengths[] = {0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 100000};
    tn_autofree char *path = tn_asprintf("%s/data", scratch_path);

    for (size_t i = 0; i < TN_COUNT(lengths); i++) {
        tn_autofree unsigned char *data = tn_calloc(lengths[i] + 1, 1);
        tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        char expected[65], got[65];
        struct tn_sha256 h;

        for (size_t j = 0; j < lengths[i]; j++)
            data[j] = (unsigned char)(j * 31 + i);
        assert_int_equal(tn_fs_write(fd, data, lengths[i], NULL), 0);
        reference(path, expected);
        tn_sha256_init(&h);
        for (size_t at = 0; at < lengths[i]; at += 37)
            tn_sha256_add(&h, data + at, lengths[i] - at < 37 ? lengths[i] - at : 37);
        tn_sha256_end_hex(&h, got);
        assert_string_equal(got, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lengths, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
