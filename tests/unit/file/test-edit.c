/* What a table cannot show of the editor: rights, limits, large things, memory. */
#include "scratch.h"

#include <pthread.h>

#include "base/clock.h"
#include "hand/file/edit-impl.h"

#define CLIPPED_FILE "<response clipped><NOTE>Due to the max output limit, only part of this file"
#define CLIPPED_DIRECTORY                                                                        \
    "<response clipped><NOTE>Due to the max output limit, only part of this directory has been " \
    "shown to you. You should use `ls -la` instead to view large directories incrementally."     \
    "</NOTE>"

struct bench {
    struct scratch *scratch;
    struct tn_editor *editor;
    struct tn_edit_result result;
    const struct tn_file_user *user;
};

static int set_up(void **state)
{
    struct bench *b = tn_calloc(1, sizeof *b);
    void *scratch = NULL;

    assert_int_equal(scratch_set_up(&scratch), 0);
    b->scratch = scratch;
    tn_autofree char *history = tn_asprintf("%s-undo", b->scratch->dir);
    struct tn_editor_options options = {.history_dir = history};
    b->editor = tn_editor_new(&options, NULL);
    assert_non_null(b->editor);
    b->user = scratch_self();
    tn_edit_result_init(&b->result);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    void *scratch = b->scratch;

    tn_edit_result_done(&b->result);
    tn_editor_free(b->editor);
    free(b);
    return scratch_tear_down(&scratch);
}

static const char *run(struct bench *b, const char *command, const char *name, const char *text,
                       const char *new_str, int line)
{
    tn_autofree char *path = in_scratch(b->scratch, name);
    struct tn_edit_request q = {
        .command = tn_slice(command),
        .path = tn_slice(path),
        .file_text = tn_slice(text),
        .old_str = tn_slice(text),
        .new_str = tn_slice(new_str),
        .has_insert_line = line >= 0,
        .insert_line = line,
        .deadline = tn_deadline_in(10),
    };

    tn_edit_result_done(&b->result);
    tn_edit_result_init(&b->result);
    tn_edit(b->editor, b->user, &q, &b->result);
    return tn_buf_str(&b->result.content);
}

static void assert_contains(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" is not in \"%.2000s\"", part, text ? text : "");
}

static void keeps_mode_in_every_command(void **state)
{
    struct bench *b = *state;
    tn_autofree char *path = in_scratch(b->scratch, "run.sh");

    put_text(b->scratch, "run.sh", "one\n");
    chmod(path, 0750);
    run(b, "str_replace", "run.sh", "one", "two", -1);
    assert_int_equal(stat_file(b->scratch, "run.sh").st_mode & 07777, 0750);
    run(b, "insert", "run.sh", NULL, "x", 0);
    assert_int_equal(stat_file(b->scratch, "run.sh").st_mode & 07777, 0750);
    run(b, "undo_edit", "run.sh", NULL, NULL, -1);
    assert_int_equal(stat_file(b->scratch, "run.sh").st_mode & 07777, 0750);
    assert_file(b->scratch, "run.sh", "two\n");
}

static void tells_what_was_and_what_is(void **state)
{
    struct bench *b = *state;

    run(b, "create", "a", "one\n", NULL, -1);
    assert_false(b->result.prev_exist);
    assert_string_equal(tn_buf_str(&b->result.before), "");
    assert_string_equal(tn_buf_str(&b->result.after), "one\n");
    run(b, "str_replace", "a", "one", "two", -1);
    assert_true(b->result.prev_exist);
    assert_string_equal(tn_buf_str(&b->result.before), "one\n");
    assert_string_equal(tn_buf_str(&b->result.after), "two\n");
    run(b, "str_replace", "a", "nothing", "two", -1);
    assert_true(b->result.failed);
    assert_int_equal(b->result.before.len + b->result.after.len + b->result.diff.len, 0);
}

static void new_things_belong_to_the_user(void **state)
{
    needs_root();
    struct bench *b = *state;

    b->user = scratch_nobody();
    assert_int_equal(chown(b->scratch->dir, b->user->uid, b->user->gid), 0);
    assert_contains(run(b, "create", "d/e/f", "x\n", NULL, -1), "File created successfully");
    assert_int_equal(stat_file(b->scratch, "d").st_uid, b->user->uid);
    assert_int_equal(stat_file(b->scratch, "d/e").st_gid, b->user->gid);
    assert_int_equal(stat_file(b->scratch, "d/e/f").st_uid, b->user->uid);
    assert_int_equal(stat_file(b->scratch, "d/e/f").st_mode & 07777, 0644);
    run(b, "insert", "d/e/f", NULL, "y", 1);
    assert_int_equal(stat_file(b->scratch, "d/e/f").st_uid, b->user->uid);
    run(b, "undo_edit", "d/e/f", NULL, NULL, -1);
    assert_int_equal(stat_file(b->scratch, "d/e/f").st_uid, b->user->uid);
    /* and this thread is itself again */
    put_text(b->scratch, "mine", "");
    assert_int_equal(stat_file(b->scratch, "mine").st_uid, 0);
}

static void has_no_more_rights_than_the_user(void **state)
{
    needs_root();
    struct bench *b = *state;
    tn_autofree char *secret = in_scratch(b->scratch, "secret");
    tn_autofree char *closed = in_scratch(b->scratch, "closed");
    tn_autofree char *link = in_scratch(b->scratch, "link");

    b->user = scratch_nobody();
    put_text(b->scratch, "secret", "root's\n");
    put_text(b->scratch, "readable", "root's\n");
    put_text(b->scratch, "closed/in", "x");
    chmod(secret, 0600);
    chmod(closed, 0700);
    assert_int_equal(symlink(secret, link), 0);
    assert_contains(run(b, "view", "secret", NULL, NULL, -1), "[Errno 13] Permission denied: '");
    assert_contains(run(b, "view", "link", NULL, NULL, -1), "Permission denied");
    assert_contains(run(b, "view", "closed/in", NULL, NULL, -1), "Permission denied");
    assert_contains(run(b, "view", "closed", NULL, NULL, -1), "Permission denied");
    assert_contains(run(b, "str_replace", "readable", "root", "user", -1), "Permission denied: '");
    assert_contains(run(b, "create", "new", "x", NULL, -1), "Permission denied: '");
    assert_file(b->scratch, "readable", "root's\n");
    assert_false(in_scratch_exists(b->scratch, "new"));
}

static void keeps_the_owner_of_a_shared_file(void **state)
{
    needs_root();
    struct bench *b = *state;
    tn_autofree char *path = in_scratch(b->scratch, "shared");

    b->user = scratch_nobody();
    put_text(b->scratch, "shared", "one\n");
    chmod(path, 0666);
    run(b, "str_replace", "shared", "one", "two", -1);
    assert_file(b->scratch, "shared", "two\n");
    assert_int_equal(stat_file(b->scratch, "shared").st_uid, 0);
    assert_int_equal(stat_file(b->scratch, "shared").st_mode & 07777, 0666);
}

static void edits_through_a_link(void **state)
{
    struct bench *b = *state;
    tn_autofree char *link = in_scratch(b->scratch, "link");

    put_text(b->scratch, "real", "one\n");
    assert_int_equal(symlink("real", link), 0);
    run(b, "str_replace", "link", "one", "two", -1);
    assert_file(b->scratch, "real", "two\n");
    assert_true(S_ISLNK(stat_file(b->scratch, "link").st_mode));
}

static void never_waits_for_a_pipe(void **state)
{
    struct bench *b = *state;
    tn_autofree char *pipe = in_scratch(b->scratch, "pipe");

    assert_int_equal(mkfifo(pipe, 0666), 0);
    assert_contains(run(b, "view", "pipe", NULL, NULL, -1), "not a regular file");
    assert_contains(run(b, "str_replace", "pipe", "a", "b", -1), "not a regular file");
}

static void does_not_show_the_server_itself(void **state)
{
    struct bench *b = *state;
    tn_autofree char *link = in_scratch(b->scratch, "me");

    assert_int_equal(symlink("/proc/self/environ", link), 0);
    assert_contains(run(b, "view", "me", NULL, NULL, -1), "Permission denied");
    unlink(link);
    assert_int_equal(symlink("/proc/thread-self/status", link), 0);
    assert_contains(run(b, "view", "me", NULL, NULL, -1), "Permission denied");
    unlink(link);
    assert_int_equal(symlink("/proc/version", link), 0);
    assert_contains(run(b, "view", "me", NULL, NULL, -1), "Linux");
}

static void refuses_large_files(void **state)
{
    struct bench *b = *state;
    tn_autofree char *path = in_scratch(b->scratch, "large");
    tn_autofree char *want = tn_asprintf("ERROR:\nFile validation failed for %s: File is too large "
                                         "(10.5MB). Maximum allowed size is 10MB.",
                                         path);

    put_text(b->scratch, "large", "x");
    assert_int_equal(truncate(path, 11010048), 0);
    assert_string_equal(run(b, "view", "large", NULL, NULL, -1), want);
    assert_string_equal(run(b, "insert", "large", NULL, "x", 0), want);
}

static void clips_long_files(void **state)
{
    struct bench *b = *state;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1u << 20);

    for (int i = 0; i < 16000; i++)
        tn_buf_puts(&text, "\xc3\xa9\n"); /* characters count, not bytes */
    put_text(b->scratch, "long", tn_buf_str(&text));
    const char *shown = run(b, "view", "long", NULL, NULL, -1);
    assert_contains(shown, "  8000\t\xc3\xa9\n  8001\t" CLIPPED_FILE);
    assert_null(strstr(shown, "8002\t"));
    tn_buf_cut(&text, 8000 * 3);
    put_text(b->scratch, "long", tn_buf_str(&text));
    assert_null(strstr(run(b, "view", "long", NULL, NULL, -1), "clipped"));
}

static void tells_not_all_of_many_lines(void **state)
{
    struct bench *b = *state;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1u << 20);

    for (int i = 0; i < 5000; i++)
        tn_buf_puts(&text, "x\n");
    put_text(b->scratch, "many", tn_buf_str(&text));
    assert_contains(run(b, "str_replace", "many", "x", "y", -1),
                    "999, 1000, ...]. Please ensure it is unique.");
}

/* --- directories --------------------------------------------------------------------------- */

static void follows_links_but_no_loops(void **state)
{
    struct bench *b = *state;
    const char *d = b->scratch->dir;
    tn_autofree char *up = in_scratch(b->scratch, "loop");
    tn_autofree char *dangling = in_scratch(b->scratch, "none");
    tn_autofree char *link = in_scratch(b->scratch, "to");
    tn_autofree char *want = tn_asprintf(
        "Here's the files and directories up to 2 levels deep in %s, excluding hidden items:\n"
        "%s/\n%s/a b/\n%s/a b/c\n%s/loop/\n%s/new?line\n%s/none\n%s/to/\n%s/to/c",
        d, d, d, d, d, d, d, d, d);

    put_text(b->scratch, "a b/c", "");
    put_text(b->scratch, "new\nline", "");
    assert_int_equal(symlink(".", up), 0);
    assert_int_equal(symlink("nowhere", dangling), 0);
    assert_int_equal(symlink("a b", link), 0);
    assert_string_equal(run(b, "view", "", NULL, NULL, -1), want);
}

/* The listing is the first 16000 characters of the sorted paths, whatever order they were found in.
 */
static void clips_long_directories(void **state)
{
    struct bench *b = *state;
    tn_autobuf struct tn_buf all = TN_BUF_INIT(8u << 20);
    size_t root = strlen(b->scratch->dir);

    for (int i = 0; i < 9000; i++) {
        char name[32];
        snprintf(name, sizeof name, "%05d", (i * 7919) % 9000);
        put_text(b->scratch, name, "");
    }
    tn_buf_puts(&all, b->scratch->dir);
    for (int i = 0; i < 9000; i++)
        tn_buf_printf(&all, "\n%s/%05d", b->scratch->dir, i);
    tn_buf_cut(&all, 16000);

    const char *shown = run(b, "view", "", NULL, NULL, -1);
    const char *list = strchr(shown, '\n') + 1;
    assert_memory_equal(list, tn_buf_str(&all), root);
    assert_int_equal(list[root], '/');
    assert_memory_equal(list + root + 1, tn_buf_str(&all) + root, all.len - root);
    assert_string_equal(list + all.len + 1, CLIPPED_DIRECTORY);
}

static void stops_at_the_deadline(void **state)
{
    struct bench *b = *state;

    for (int i = 0; i < 600; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d", i);
        put_text(b->scratch, name, "");
    }
    struct tn_edit_request q = {
        .command = tn_slice("view"), .path = tn_slice(b->scratch->dir), .deadline = 1};
    tn_edit(b->editor, b->user, &q, &b->result);
    assert_contains(tn_buf_str(&b->result.content), "too large to list in time");
}

static void refuses_odd_paths(void **state)
{
    struct bench *b = *state;
    struct tn_edit_request q = {.command = tn_slice("view"), .path = tn_slicen("/tmp\0/x", 7)};

    tn_edit(b->editor, b->user, &q, &b->result);
    assert_string_equal(tn_buf_str(&b->result.content), "ERROR:\nembedded null byte in a path");
}

/* --- history ------------------------------------------------------------------------------- */

static void undoes_ten_edits(void **state)
{
    struct bench *b = *state;

    put_text(b->scratch, "a", "0");
    for (int i = 1; i <= 12; i++) {
        char from[16], to[16];
        snprintf(from, sizeof from, "%d", i - 1);
        snprintf(to, sizeof to, "%d", i);
        run(b, "str_replace", "a", from, to, -1);
    }
    for (int i = 11; i >= 2; i--) {
        char want[16];
        snprintf(want, sizeof want, "%d", i);
        assert_contains(run(b, "undo_edit", "a", NULL, NULL, -1), "undone successfully");
        assert_file(b->scratch, "a", want);
    }
    assert_contains(run(b, "undo_edit", "a", NULL, NULL, -1), "No edit history found for");
}

static size_t files_in(const char *dir)
{
    struct stat st;
    size_t count = 0;
    for (int i = 0; i < 3000; i++) {
        tn_autofree char *path = tn_asprintf("%s/%d", dir, i);
        count += stat(path, &st) == 0;
    }
    return count;
}

/* A directory that was made but could not be opened does not end all undoing. */
static void history_takes_its_directory_when_it_is_there(void **state)
{
    struct scratch *s = *state;
    tn_autofree char *dir = in_scratch(s, "undo");
    struct edit_history *h = edit_history_new(dir, NULL);
    struct tn_error err = {0};

    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(edit_history_push(h, "/a", false, tn_slice("x"), &err), 0);
    assert_int_equal(files_in(dir), 1);
    edit_history_free(h);
    assert_false(in_scratch_exists(s, "undo"));
}

static void history_is_bounded(void **state)
{
    struct scratch *s = *state;
    tn_autofree char *dir = in_scratch(s, "undo");
    struct edit_history *h = edit_history_new(dir, NULL);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(20u << 20);
    tn_autobuf struct tn_buf back = TN_BUF_INIT(20u << 20);
    bool created;

    /* nothing is made for nothing */
    assert_false(in_scratch_exists(s, "undo"));
    edit_history_push(h, "/a", false, tn_slice("x"), NULL);
    assert_int_equal(stat_file(s, "undo").st_mode & 07777, 0700);
    /* entries per path, and over all */
    for (int i = 0; i < 15; i++)
        edit_history_push(h, "/a", false, tn_slice("x"), NULL);
    assert_int_equal(files_in(dir), EDIT_HISTORY_DEPTH);
    for (int i = 0; i < EDIT_HISTORY_ENTRIES + 50; i++) {
        char path[32];
        snprintf(path, sizeof path, "/p%d", i);
        edit_history_push(h, path, i % 2, tn_slice(path), NULL);
    }
    assert_int_equal(files_in(dir), EDIT_HISTORY_ENTRIES);
    assert_int_equal(edit_history_last(h, "/a", &created, &back, NULL), 0);
    assert_int_equal(edit_history_last(h, "/p999", &created, &back, NULL), 1);
    assert_true(created);
    assert_string_equal(tn_buf_str(&back), "/p999");
    /* bytes */
    char *bytes = tn_buf_reserve(&text, 10u << 20);
    memset(bytes, 'x', 10u << 20);
    tn_buf_grew(&text, 10u << 20);
    for (int i = 0; i < 9; i++) {
        char path[32];
        snprintf(path, sizeof path, "/q%d", i);
        assert_int_equal(edit_history_push(h, path, false, tn_slice_of(&text), NULL), 0);
    }
    assert_int_equal(files_in(dir), 6);
    /* a gap in the history of a path ends it */
    edit_history_push(h, "/q8", false, tn_slicen(text.data, (size_t)EDIT_HISTORY_BYTES + 1), NULL);
    assert_int_equal(edit_history_last(h, "/q8", &created, &back, NULL), 0);
    edit_history_free(h);
    assert_false(in_scratch_exists(s, "undo"));

    /* what a killed server left is gone */
    put_text(s, "undo/17", "old");
    h = edit_history_new(dir, NULL);
    assert_non_null(h);
    assert_false(in_scratch_exists(s, "undo"));
    edit_history_free(h);
}

#ifndef __SANITIZE_THREAD__ /* for which a minute of one thread is nothing to see */
/* Sanitizers keep freed memory for a while, so there what is allocated counts. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t memory_kb(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes() / 1024;
    tn_autofile FILE *f = fopen("/proc/self/statm", "r");
    unsigned long size, resident;
    assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
    return resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* The original's stress test: a file grows by a thousand replacements. */
static void does_not_grow_with_edits(void **state)
{
    struct bench *b = *state;
    size_t start = 0;

    put_text(b->scratch, "growing", "content_000\n");
    for (int i = 1; i <= 1000; i++) {
        char from[32], to[512];
        snprintf(from, sizeof from, "content_%03d", i - 1);
        int n = snprintf(to, sizeof to, "content_%03d", i);
        memset(to + n, '-', 400);
        to[n + 400] = '\0';
        assert_contains(run(b, "str_replace", "growing", from, to, -1), "has been edited");
        if (i == 100)
            start = memory_kb();
    }
    assert_true(memory_kb() < start + 3072);
    assert_true(stat_file(b->scratch, "growing").st_size > 400000);
}
#endif

/* --- threads ------------------------------------------------------------------------------- */

static void *edit_often(void *arg)
{
    struct bench *b = arg;
    struct tn_edit_result r;
    tn_autofree char *path = in_scratch(b->scratch, "shared");

    for (int i = 0; i < 50; i++) {
        struct tn_edit_request q = {.command = tn_slice("insert"),
                                    .path = tn_slice(path),
                                    .new_str = tn_slice("line"),
                                    .has_insert_line = true,
                                    .deadline = tn_deadline_in(30)};
        tn_edit_result_init(&r);
        tn_edit(b->editor, b->user, &q, &r);
        tn_edit_result_done(&r);
    }
    return NULL;
}

static void edits_do_not_overtake_each_other(void **state)
{
    struct bench *b = *state;
    pthread_t threads[4];
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1u << 20);

    put_text(b->scratch, "shared", "");
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, edit_often, b), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    get_file(b->scratch, "shared", &text);
    assert_int_equal(text.len, 200 * strlen("line\n"));
}

static void waits_for_its_turn_only_so_long(void **state)
{
    struct bench *b = *state;
    struct tn_edit_request q = {.command = tn_slice("undo_edit"), .path = tn_slice("/tmp/x")};

    b->editor->busy = true;
    q.deadline = tn_deadline_in(0.01);
    tn_edit(b->editor, b->user, &q, &b->result);
    assert_string_equal(tn_buf_str(&b->result.content),
                        "ERROR:\nAnother edit is still under way. Try again.");
    b->editor->busy = false;
    assert_contains(run(b, "view", "", NULL, NULL, -1), "Here's the files");
}

#define BENCH_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(keeps_mode_in_every_command),
        BENCH_TEST(tells_what_was_and_what_is),
        BENCH_TEST(new_things_belong_to_the_user),
        BENCH_TEST(has_no_more_rights_than_the_user),
        BENCH_TEST(keeps_the_owner_of_a_shared_file),
        BENCH_TEST(edits_through_a_link),
        BENCH_TEST(never_waits_for_a_pipe),
        BENCH_TEST(does_not_show_the_server_itself),
        BENCH_TEST(refuses_large_files),
        BENCH_TEST(clips_long_files),
        BENCH_TEST(tells_not_all_of_many_lines),
        BENCH_TEST(follows_links_but_no_loops),
        BENCH_TEST(clips_long_directories),
        BENCH_TEST(stops_at_the_deadline),
        BENCH_TEST(refuses_odd_paths),
        BENCH_TEST(undoes_ten_edits),
        SCRATCH_TEST(history_takes_its_directory_when_it_is_there),
        SCRATCH_TEST(history_is_bounded),
#ifndef __SANITIZE_THREAD__
        BENCH_TEST(does_not_grow_with_edits),
#endif
        BENCH_TEST(edits_do_not_overtake_each_other),
        BENCH_TEST(waits_for_its_turn_only_so_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
