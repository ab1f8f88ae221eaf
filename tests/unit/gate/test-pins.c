#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "gate/pins.h"

static struct tn_address address_of(const char *text)
{
    struct tn_address a;

    assert_true(tn_address_parse(text, &a));
    return a;
}

static void remembers_until_it_is_over(void **state)
{
    tn_autofd int fd = tn_pins_create(NULL);
    struct tn_pins *p = tn_pins_open(fd, NULL);
    struct tn_address a = address_of("203.0.113.1"), b = address_of("203.0.113.2");

    tn_pins_add(p, &a, "one.test", 100);
    tn_pins_add(p, &a, "two.test", 200);
    assert_true(tn_pins_have(p, &a, "one.test", 50));
    assert_true(tn_pins_have(p, &a, "two.test", 150));
    assert_false(tn_pins_have(p, &a, "one.test", 150));
    assert_false(tn_pins_have(p, &b, "one.test", 50));
    tn_pins_add(p, &a, "one.test", 300);
    assert_true(tn_pins_have(p, &a, "one.test", 250));
    tn_pins_close(p);
    p = tn_pins_open(fd, NULL); /* as the next gate does */
    assert_true(tn_pins_have(p, &a, "one.test", 250));
    tn_pins_close(p);
}

static void makes_room(void **state)
{
    tn_autofd int fd = tn_pins_create(NULL);
    struct tn_pins *p = tn_pins_open(fd, NULL);
    struct tn_address a = address_of("203.0.113.1");
    char name[32];

    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "n%d.test", i);
        tn_pins_add(p, &a, name, 1000 + i);
    }
    assert_true(tn_pins_have(p, &a, "n4999.test", 1));
    assert_false(tn_pins_have(p, &a, "n0.test", 1));
    tn_pins_close(p);
}

static void takes_nothing_that_is_half_written(void **state)
{
    tn_autofd int fd = tn_pins_create(NULL);
    struct tn_pins *p = tn_pins_open(fd, NULL);
    struct tn_address a = address_of("203.0.113.1");
    struct stat st;

    tn_pins_add(p, &a, "one.test", 100);
    assert_int_equal(fstat(fd, &st), 0);
    for (off_t at = 0; at < st.st_size; at += 4) {
        char four[4];
        assert_int_equal(pread(fd, four, 4, at), 4);
        if (memcmp(four, "one.", 4) == 0)
            assert_int_equal(pwrite(fd, "two.", 4, at), 4);
    }
    assert_false(tn_pins_have(p, &a, "one.test", 50));
    assert_false(tn_pins_have(p, &a, "two.test", 50));
    tn_pins_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remembers_until_it_is_over),
        cmocka_unit_test(makes_room),
        cmocka_unit_test(takes_nothing_that_is_half_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
