#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/library.h"

struct functions {
    double (*hypot)(double, double);
    double (*last)(double);
};

static struct functions functions;
static int prepared;
static bool refuse;

static const struct tn_library_symbol symbols[] = {
    {"hypot", offsetof(struct functions, hypot)},
    {"fabs", offsetof(struct functions, last)},
};

static const struct tn_library_symbol unknown[] = {
    {"hypot", offsetof(struct functions, hypot)},
    {"tendon_has_no_such_function", offsetof(struct functions, last)},
};

static int prepare(struct tn_error *err)
{
    prepared++;
    return refuse ? tn_fail(err, TN_E_BUSY, "not now") : 0;
}

#define LIBRARY(so, rows)                                                                       \
    {                                                                                           \
        .user = "measuring", .name = "mathematics", .file = (so), .package = "libmath-package", \
        .symbols = (rows), .symbol_count = TN_COUNT(rows), .functions = &functions,             \
        .prepare = prepare, .lock = PTHREAD_MUTEX_INITIALIZER,                                  \
    }

static int reset(void **state)
{
    functions = (struct functions){0};
    prepared = 0;
    refuse = false;
    return 0;
}

static void fills_all_and_prepares_once(void **state)
{
    struct tn_library library = LIBRARY("libm.so.6", symbols);
    struct tn_error err = {0};

    for (int i = 0; i < 3; i++)
        assert_int_equal(tn_library_load(&library, &err), 0);
    assert_int_equal(prepared, 1);
    assert_true(functions.hypot(3, 4) > 4.9 && functions.hypot(3, 4) < 5.1);
    assert_true(functions.last(-2) > 1.9);
}

static void a_missing_library_names_the_package(void **state)
{
    struct tn_library library = LIBRARY("libtendon-has-no-such.so.9", symbols);
    struct tn_error err = {0};

    assert_int_equal(tn_library_load(&library, &err), -1);
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "measuring needs mathematics, which cannot be loaded"));
    assert_non_null(strstr(err.text, "libtendon-has-no-such.so.9"));
    assert_non_null(strstr(err.text, "install the package libmath-package"));
    assert_int_equal(prepared, 0);
    assert_int_equal(tn_library_load(&library, NULL), -1);
    library.file = "libm.so.6"; /* installed meanwhile */
    assert_int_equal(tn_library_load(&library, &err), 0);
}

static void a_missing_symbol_is_named(void **state)
{
    struct tn_library library = LIBRARY("libm.so.6", unknown);
    struct tn_error err = {0};

    for (int i = 0; i < 2; i++) {
        assert_int_equal(tn_library_load(&library, &err), -1);
        assert_int_equal(err.code, TN_E_UNSUPPORTED);
        assert_string_equal(err.text, "measuring needs a newer mathematics: libm.so.6 has no "
                                      "tendon_has_no_such_function");
    }
    assert_int_equal(prepared, 0);
}

static void what_cannot_be_prepared_is_not_loaded(void **state)
{
    struct tn_library library = LIBRARY("libm.so.6", symbols);
    struct tn_error err = {0};

    refuse = true;
    assert_int_equal(tn_library_load(&library, &err), -1);
    assert_int_equal(err.code, TN_E_BUSY);
    refuse = false;
    assert_int_equal(tn_library_load(&library, &err), 0);
    assert_int_equal(prepared, 2);
}

static void *load_and_use(void *arg)
{
    if (tn_library_load(arg, NULL) < 0 || functions.last(-1) < 0.9)
        return NULL;
    return arg;
}

static void many_threads_load_it_once(void **state)
{
    struct tn_library library = LIBRARY("libm.so.6", symbols);
    pthread_t threads[8];
    void *result;

    for (size_t i = 0; i < TN_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_and_use, &library), 0);
    for (size_t i = 0; i < TN_COUNT(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &library);
    }
    assert_int_equal(prepared, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(fills_all_and_prepares_once, reset),
        cmocka_unit_test_setup(a_missing_library_names_the_package, reset),
        cmocka_unit_test_setup(a_missing_symbol_is_named, reset),
        cmocka_unit_test_setup(what_cannot_be_prepared_is_not_loaded, reset),
        cmocka_unit_test_setup(many_threads_load_it_once, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
