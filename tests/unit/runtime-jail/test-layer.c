#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../base/scratch.h"
#include "runtime/jail/layer.h"
#include "runtime/jail/storage.h"

#define PARENT "parent0000"
#define CHILD "child00000"

static struct tn_error err;
static char layer[JAIL_LAYER_NAME];
static char *directory;

static int set_up(void **state)
{
    err = (struct tn_error){0};
    if (scratch_open(state) || mkdirat(scratch, "sandbox", 0700) ||
        mkdirat(scratch, "sandbox/" PARENT, 0700))
        return -1;
    directory = tn_asprintf("%s/sandbox/" PARENT, scratch_path);
    return jail_layer_name(PARENT, layer, &err);
}

static int tear_down(void **state)
{
    free(directory);
    return scratch_close(state);
}

static void make(void)
{
    tn_autofd int fd = jail_layer_make(scratch_path, layer, PARENT, &err);

    assert_true(fd >= 0);
    assert_int_equal(mkdirat(fd, JAIL_LAYER_TREE, 0755), 0);
    put_file(fd, JAIL_LAYER_TREE "/f", "content");
}

static bool there(void)
{
    return jail_layer_exists(scratch_path, layer);
}

static void test_the_last_user_takes_it_along(void **state)
{
    make();
    assert_int_equal(jail_layer_join(scratch_path, layer, CHILD, &err), 0);
    assert_int_equal(jail_layer_leave(scratch_path, layer, PARENT, &err), 0);
    assert_true(there());
    assert_int_equal(jail_layer_leave(scratch_path, layer, PARENT, &err), 0);
    assert_true(there());
    assert_int_equal(jail_layer_leave(scratch_path, layer, CHILD, &err), 0);
    assert_false(there());
    assert_int_equal(jail_layer_leave(scratch_path, layer, CHILD, &err), 0);
    assert_int_equal(jail_layer_join(scratch_path, layer, CHILD, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
}

static void test_size(void **state)
{
    make();
    assert_int_equal(jail_layer_size(scratch_path, layer), 0);
    assert_int_equal(jail_layer_set_size(scratch_path, layer, 123456789012, &err), 0);
    assert_int_equal(jail_layer_size(scratch_path, layer), 123456789012);
}

static void test_take(void **state)
{
    tn_autofree char *path = jail_layer_path(scratch_path, layer);
    tn_autofd int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    mkdirat(dir, "upper", 0755);
    put_file(dir, "upper/f", "moved");
    assert_int_equal(jail_layer_take(scratch_path, layer, PARENT, dir, "upper", 4096, &err), 0);
    tn_autofd int tree = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_file(tree, "f", "moved");
    assert_false(exists(dir, "upper"));
    assert_int_equal(jail_layer_size(scratch_path, layer), 4096);
}

/* Killed right after the tree came: there is nothing left to be done that its size would need. */
static void test_a_tree_comes_after_its_size(void **state)
{
    tn_autofd int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(jail_layer_take(scratch_path, layer, PARENT, dir, "upper", 77, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_false(jail_layer_exists(scratch_path, layer));
    assert_int_equal(jail_layer_size(scratch_path, layer), 77);
}

static int count_users(const char *sandbox, void *ctx)
{
    int *counts = ctx;

    counts[0] += strcmp(sandbox, PARENT) == 0;
    counts[1] += strcmp(sandbox, CHILD) == 0;
    return 0;
}

static void test_users_are_found(void **state)
{
    int counts[2] = {0};
    tn_autofree char *half = tn_asprintf("layers/" CHILD "-0000000000000001");

    assert_int_equal(jail_layer_users(scratch_path, count_users, counts, &err), 0);
    make();
    /* killed before it had users, and killed while one was removed */
    mkdirat(scratch, half, 0700);
    mkdirat(scratch, "layers/gone-x", 0700);
    put_file(scratch, "layers/gone-x/f", "x");
    assert_int_equal(jail_layer_users(scratch_path, count_users, counts, &err), 0);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);
    assert_false(exists(scratch, "layers/gone-x"));
    assert_int_equal(jail_layer_leave_all(scratch_path, CHILD, &err), 0);
    assert_false(exists(scratch, half));
    assert_true(there());
    assert_int_equal(jail_layer_leave_all(scratch_path, PARENT, &err), 0);
    assert_false(there());
}

/* --- storage -------------------------------------------------------------------------------- */

static void test_storage_round_trip(void **state)
{
    static char *ids[] = {(char *)"top", (char *)"bottom", NULL};
    const struct tn_str_list list = {.items = ids, .count = 2};
    jail_autostorage struct jail_storage s, read;

    jail_storage_init(&s);
    jail_storage_init(&read);
    s.root = tn_strdup("/some/where");
    s.ran = 1.5;
    jail_storage_add(&s, "one", &list);
    jail_storage_add(&s, "two", &list);
    jail_storage_drop(&s, "one");
    assert_int_equal(jail_storage_save(directory, &s, &err), 0);
    assert_int_equal(jail_storage_load(scratch_path, directory, PARENT, &read, &err), 0);
    assert_string_equal(read.root, "/some/where");
    assert_true(read.ran == 1.5);
    assert_null(jail_storage_find(&read, "one"));
    assert_non_null(jail_storage_find(&read, "two"));
    assert_string_equal(jail_storage_find(&read, "two")->layers.items[1], "bottom");
}

static void test_storage_missing(void **state)
{
    jail_autostorage struct jail_storage s;

    jail_storage_init(&s);
    assert_int_equal(jail_storage_load(scratch_path, directory, PARENT, &s, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
}

/* Killed after it was written down that upper becomes a layer, before or after it did. */
static void test_a_fold_is_finished(void **state)
{
    tn_autofd int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int moved = 0; moved < 2; moved++) {
        jail_autostorage struct jail_storage s, read;
        jail_storage_init(&s);
        jail_storage_init(&read);
        s.folding = tn_strdup(layer);
        assert_int_equal(jail_storage_save(directory, &s, &err), 0);
        mkdirat(dir, "upper", 0755);
        if (moved)
            assert_int_equal(jail_layer_take(scratch_path, layer, PARENT, dir, "upper", 4096, &err),
                             0);
        assert_int_equal(jail_storage_load(scratch_path, directory, PARENT, &read, &err), 0);
        assert_null(read.folding);
        assert_int_equal(read.layers.count, moved);
        assert_int_equal(exists(dir, "upper"), !moved);
        assert_int_equal(jail_layer_size(scratch_path, layer), moved ? 4096 : 0);
    }
}

static void test_a_copy_is_undone(void **state)
{
    jail_autostorage struct jail_storage s, read;

    jail_storage_init(&s);
    jail_storage_init(&read);
    s.making = tn_strdup(layer);
    make();
    assert_int_equal(jail_storage_save(directory, &s, &err), 0);
    assert_int_equal(jail_storage_load(scratch_path, directory, PARENT, &read, &err), 0);
    assert_null(read.making);
    assert_false(there());
}

static void test_a_discarded_upper_goes(void **state)
{
    jail_autostorage struct jail_storage s, read;
    tn_autofd int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    jail_storage_init(&s);
    jail_storage_init(&read);
    s.discard = true;
    mkdirat(dir, "upper", 0755);
    put_file(dir, "upper/f", "old");
    assert_int_equal(jail_storage_save(directory, &s, &err), 0);
    assert_int_equal(jail_storage_load(scratch_path, directory, PARENT, &read, &err), 0);
    assert_false(read.discard);
    assert_true(exists(dir, "upper"));
    assert_false(exists(dir, "upper/f"));
    jail_storage_clear_trash(directory);
}

/* Only what neither the present nor a snapshot needs. */
static void test_unneeded_layers_are_left(void **state)
{
    static char *needed[] = {(char *)"needed", NULL};
    char *all[] = {(char *)"needed", layer, NULL};
    const struct tn_str_list keep = {.items = needed, .count = 1},
                             both = {.items = all, .count = 2};
    jail_autostorage struct jail_storage s;

    jail_storage_init(&s);
    make();
    jail_storage_add(&s, "snapshot", &keep);
    jail_storage_release(&s, &both);
    assert_int_equal(s.leaving.count, 1);
    assert_string_equal(s.leaving.items[0], layer);
    assert_int_equal(jail_storage_settle(scratch_path, directory, PARENT, &s, &err), 0);
    assert_int_equal(s.leaving.count, 0);
    assert_false(there());
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_the_last_user_takes_it_along),
        TEST(test_size),
        TEST(test_take),
        TEST(test_a_tree_comes_after_its_size),
        TEST(test_users_are_found),
        TEST(test_storage_round_trip),
        TEST(test_storage_missing),
        TEST(test_a_fold_is_finished),
        TEST(test_a_copy_is_undone),
        TEST(test_a_discarded_upper_goes),
        TEST(test_unneeded_layers_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
