#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
/* cmocka.h comes last */
#include <cmocka.h>

#include "engine/tar.h"

static struct tn_error err;

/* The whole archive, read in pieces of that size. */
static void read_tar(struct tn_tar *tar, size_t piece, struct tn_buf *out)
{
    char block[4096];
    ssize_t n;

    while ((n = tn_tar_read(block, piece, tar, &err)) > 0)
        tn_buf_add(out, block, (size_t)n);
    assert_int_equal(n, 0);
}

static unsigned octal(const char *field)
{
    return (unsigned)strtoul(field, NULL, 8);
}

static void check_sum(const char *header)
{
    unsigned sum = 0;

    for (int i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? ' ' : (unsigned char)header[i];
    assert_int_equal(octal(header + 148), sum);
}

static void test_archive(void **state)
{
    int fd = memfd_create("hand", MFD_CLOEXEC);
    char data[700];
    const struct tn_engine_file files[] = {
        {.name = ".tendon/", .mode = 0755},
        {.name = ".tendon/hand", .fd = fd, .size = sizeof data, .mode = 0755, .uid = 1000},
        {.name = "empty", .bytes = "", .size = 0, .mode = 0400},
        {.name = "note", .bytes = "hello", .size = 5, .mode = 0644, .gid = 7},
    };
    static const size_t pieces[] = {1, 7, 512, 4096};

    memset(data, 'h', sizeof data);
    assert_int_equal(write(fd, data, sizeof data), sizeof data);
    for (size_t i = 0; i < TN_COUNT(pieces); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
        struct tn_tar tar;
        assert_int_equal(tn_tar_init(&tar, files, TN_COUNT(files), &err), 0);
        read_tar(&tar, pieces[i], &out);
        assert_int_equal(out.len, tn_tar_length(&tar));
        assert_int_equal(out.len, 512 + (512 + 1024) + 512 + (512 + 512) + 1024);
        const char *dir = out.data, *hand = dir + 512, *note = hand + 512 + 1024 + 512;
        check_sum(dir);
        check_sum(hand);
        check_sum(note);
        assert_int_equal(dir[156], '5');
        assert_string_equal(hand, ".tendon/hand");
        assert_int_equal(octal(hand + 100), 0755);
        assert_int_equal(octal(hand + 108), 1000);
        assert_int_equal(octal(hand + 124), sizeof data);
        assert_memory_equal(hand + 512, data, sizeof data);
        assert_int_equal(hand[512 + sizeof data], 0);
        assert_int_equal(octal(note + 116), 7);
        assert_memory_equal(note + 512, "hello\0", 6);
    }
    close(fd);
}

static void test_names(void **state)
{
    char name[300];
    struct tn_engine_file file = {.name = name, .bytes = "x", .size = 1, .mode = 0644};
    struct tn_tar tar;
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);

    memset(name, 'a', sizeof name);
    name[150] = '/';
    name[251] = '\0';
    assert_int_equal(tn_tar_init(&tar, &file, 1, &err), 0);
    read_tar(&tar, 4096, &out);
    assert_int_equal(strnlen(out.data, 100), 100);
    assert_int_equal(strnlen(out.data + 345, 155), 150);
    check_sum(out.data);

    name[150] = 'a'; /* nowhere to cut it */
    assert_int_equal(tn_tar_init(&tar, &file, 1, &err), -1);
    file.name = "/absolute";
    assert_int_equal(tn_tar_init(&tar, &file, 1, &err), -1);
    file.name = "";
    assert_int_equal(tn_tar_init(&tar, &file, 1, &err), -1);
    file = (struct tn_engine_file){.name = "big", .bytes = "", .size = UINT64_C(1) << 33};
    assert_int_equal(tn_tar_init(&tar, &file, 1, &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
}

static void test_file_that_shrinks(void **state)
{
    int fd = memfd_create("short", MFD_CLOEXEC);
    struct tn_engine_file file = {.name = "short", .fd = fd, .size = 10, .mode = 0644};
    struct tn_tar tar;
    char block[4096];

    assert_int_equal(write(fd, "12345", 5), 5);
    assert_int_equal(tn_tar_init(&tar, &file, 1, &err), 0);
    assert_int_equal(tn_tar_read(block, sizeof block, &tar, &err), 512);
    assert_int_equal(tn_tar_read(block, sizeof block, &tar, &err), 5);
    assert_int_equal(tn_tar_read(block, sizeof block, &tar, &err), -1);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_archive),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_file_that_shrinks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
