/* Build contexts in which the Dockerfile that comes last would be extracted by another name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "image/upload.h"

enum { BLOCK = 512 };

static void put_entry(int fd, const char *name, char type, const char *text)
{
    char header[BLOCK] = {0}, content[BLOCK] = {0};
    size_t n = strlen(text);

    memcpy(header, name, strlen(name));
    memcpy(content, text, n);
    assert_true(snprintf(header + 124, 12, "%011o", (unsigned)n) == 11);
    header[156] = type;
    assert_int_equal(write(fd, header, BLOCK), BLOCK);
    if (n)
        assert_int_equal(write(fd, content, BLOCK), BLOCK);
}

static const struct {
    struct {
        const char *name;
        char type;
        const char *text;
    } entries[3];
    bool good;
} contexts[] = {
    {{{"pax", 'g', "14 comment=1\n"}, {"Dockerfile", '0', "FROM a"}}, true},
    {{{"pax", 'x', "12 path=zzz\n"}, {"b", '0', "b"}, {"Dockerfile", '0', "FROM a"}}, true},
    {{{"Dockerfile", '0', "FROM a"}, {"pax", 'x', "12 path=zzz\n"}}, false},
    {{{"Dockerfile", '0', "FROM a"}, {"pax", 'g', "12 path=zzz\n"}, {"b", '0', "b"}}, false},
    {{{"Dockerfile", '0', "FROM a"}, {"././@LongLink", 'L', "zzz"}}, false},
    {{{"Dockerfile", '0', "FROM a"}, {"././@LongLink", 'K', "zzz"}}, false},
    {{{"Dockerfile", '0', "FROM a"}, {"pax", 'x', ""}}, false},
};

static void test_headers_of_the_tail(void **state)
{
    for (size_t i = 0; i < TN_COUNT(contexts); i++) {
        tn_autofd int fd = memfd_create("context", MFD_CLOEXEC);
        tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
        struct tn_error err = {0};
        for (size_t k = 0; k < TN_COUNT(contexts[i].entries) && contexts[i].entries[k].name; k++)
            put_entry(fd, contexts[i].entries[k].name, contexts[i].entries[k].type,
                      contexts[i].entries[k].text);
        int failed = tn_upload_dockerfile(fd, &text, TN_NEVER, &err);
        if (contexts[i].good ? failed || strcmp(tn_buf_str(&text), "FROM a") != 0
                             : !failed || err.code != TN_E_INVALID)
            fail_msg("context %zu: %d, %s", i, failed, err.text);
    }
}

/* Zeros are packed a thousandfold: what is small to send is long to read. */
static void test_deadline(void **state)
{
    tn_autofd int fd = memfd_create("context", MFD_CLOEXEC);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
    struct tn_error err = {0};
    char header[BLOCK] = "zeros";

    memcpy(header + 124, "00010000000", 12); /* 2 MiB */
    header[156] = '0';
    assert_int_equal(write(fd, header, BLOCK), BLOCK);
    assert_int_equal(ftruncate(fd, BLOCK + (2 << 20)), 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), BLOCK + (2 << 20));
    put_entry(fd, "Dockerfile", '0', "FROM a");
    assert_int_equal(tn_upload_dockerfile(fd, &text, tn_deadline_in(60), &err), 0);
    assert_int_equal(tn_upload_dockerfile(fd, &text, tn_now(), &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_of_the_tail),
        cmocka_unit_test(test_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
