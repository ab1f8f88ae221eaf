/* The small parts of a session: what is said to the shell, its records, keys, kept output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "hand/shell/dialect.h"
#include "hand/shell/keys.h"
#include "hand/shell/output.h"
#include "hand/shell/process-limit.h"

static void assert_word(const struct tn_dialect *d, const char *text, const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    d->put_word(&out, text, strlen(text));
    assert_string_equal(tn_buf_str(&out), expected);
}

static void test_words_are_quoted(void **state)
{
    assert_word(&tn_dialect_bash, "a 'b' \\ !\n$x`", "$'a \\047b\\047 \\\\ \\041\\n$x`'");
    assert_word(&tn_dialect_bash, "", "$''");
    assert_word(&tn_dialect_sh, "it's\n", "'it'\\''s\n'");
}

static void test_bash_text_stays_on_its_line(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    const char text[] = "echo 1\necho 2\n# '\" \n";

    struct tn_line line = {.token = "t", .seq = 7, .text = text, .len = sizeof text - 1};
    tn_dialect_bash.put_run(&out, &line);
    size_t lines = 0;
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\n';
    assert_int_equal(lines, 1);
}

static void test_dialects_are_found(void **state)
{
    assert_ptr_equal(tn_dialect_for("/usr/local/bin/bash"), &tn_dialect_bash);
    assert_ptr_equal(tn_dialect_for("bash"), &tn_dialect_bash);
    assert_ptr_equal(tn_dialect_for("/bin/dash"), &tn_dialect_sh);
}

static void test_records(void **state)
{
    static const char bytes[] = "T\0"
                                "D\0"
                                "12\0"
                                "130  hiB /a b\n'c\0"
                                "/bin\0"
                                "T\0"
                                "E\0"
                                "12\0"
                                "0 4711 ehiB \0"
                                "\0"
                                "trapped\nT\0"
                                "S\0"
                                "12\0"
                                "declare -x A=\"1\"\n\0"
                                "f () \n{ \n    :\n}\ndeclare -fx f\n\0"
                                "T\0"
                                "I\0"
                                "13\0"
                                "1\0";
    struct tn_record r;
    size_t at = 0, size = sizeof bytes - 1;

    for (size_t n = 0; n < 29; n++)
        assert_int_equal(tn_record_parse(bytes, n, "T", &r), 0); /* not complete yet */
    at += tn_record_parse(bytes, size, "T", &r);
    assert_int_equal(at, 29);
    assert_int_equal(r.kind, TN_RECORD_DONE);
    assert_int_equal(r.seq, 12);
    assert_int_equal(r.status, 130);
    assert_int_equal(r.background_pid, -1);
    assert_false(r.errexit);
    assert_string_equal(r.cwd, "/a b\n'c");
    assert_string_equal(r.path, "/bin");
    at += tn_record_parse(bytes + at, size - at, "T", &r);
    assert_int_equal(r.kind, TN_RECORD_EVALUATED);
    assert_int_equal(r.status, 0);
    assert_int_equal(r.background_pid, 4711);
    assert_true(r.errexit);
    assert_string_equal(r.cwd, "");
    assert_string_equal(r.path, "");
    at += tn_record_parse(bytes + at, size - at, "T", &r); /* what a trap printed is passed over */
    assert_int_equal(r.kind, TN_RECORD_SNAPSHOT);
    assert_string_equal(r.environment, "declare -x A=\"1\"\n");
    assert_string_equal(r.functions, "f () \n{ \n    :\n}\ndeclare -fx f\n");
    at += tn_record_parse(bytes + at, size - at, "T", &r);
    assert_int_equal(r.kind, TN_RECORD_INTERACTIVE);
    assert_int_equal(r.status, 1);
    assert_int_equal(at, size);
    assert_int_equal(tn_record_parse("XXXX", 4, "T", &r), 0);
}

static void test_keys(void **state)
{
    size_t n;
    assert_memory_equal(tn_key_bytes("C-c", 3, &n), "\003", 1);
    assert_int_equal(n, 1);
    assert_memory_equal(tn_key_bytes("C-\\", 3, &n), "\034", 1);
    assert_memory_equal(tn_key_bytes("Up", 2, &n), "\033[A", 3);
    assert_int_equal(n, 3);
    assert_null(tn_key_bytes("up", 2, &n));
    assert_null(tn_key_bytes("C-", 2, &n));
    assert_null(tn_key_bytes("C-1", 3, &n));
    assert_true(tn_key_is_control("C-z", 3));
    assert_false(tn_key_is_control("C-zz", 4));
}

/* A directory for outputs, removed at the end of the scope. */
struct scratch {
    char path[64];
};

static void scratch_done(struct scratch *s)
{
    tn_autofd int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tn_fs_remove_tree(tmp, s->path + 5, 0, NULL);
}

static void scratch_init(struct scratch *s)
{
    snprintf(s->path, sizeof s->path, "/tmp/tendon-test-XXXXXX");
    assert_non_null(mkdtemp(s->path));
}

static void test_small_output_stays_in_memory(void **state)
{
    TN_CLEANUP(scratch_done) struct scratch dir;
    scratch_init(&dir);
    struct tn_output_options options = {.directory = dir.path, .group = getgid(), .cap = 1 << 20};
    struct tn_output *o = tn_output_new("s-1", &options);
    char text[16] = "";

    tn_output_append(o, "hello", 5);
    assert_null(tn_output_path(o));
    assert_int_equal(tn_output_read(o, 1, text, sizeof text, NULL), 4);
    assert_memory_equal(text, "ello", 4);
    assert_int_equal(tn_output_read(o, 5, text, sizeof text, NULL), 0);
    assert_false(tn_output_wait(o, 5, tn_now()));
    tn_output_finish(o);
    assert_true(tn_output_wait(o, 5, tn_now()));
    tn_output_unref(o);
}

static void test_large_output_keeps_its_tail(void **state)
{
    TN_CLEANUP(scratch_done) struct scratch dir;
    scratch_init(&dir);
    enum { CAP = 1 << 20, TOTAL = 32 << 20, PIECE = 4000 };
    struct tn_output_options options = {.directory = dir.path, .group = getgid(), .cap = CAP};
    struct tn_output *o = tn_output_new("s-2", &options);
    uint32_t piece[PIECE / 4];
    struct tn_error err;

    for (uint32_t word = 0; word < TOTAL / 4;) {
        for (size_t i = 0; i < TN_COUNT(piece); i++)
            piece[i] = word++;
        tn_output_append(o, (char *)piece, sizeof piece);
    }
    struct tn_output_state s = tn_output_state(o);
    assert_true(s.size >= TOTAL);
    assert_true(s.first > 0 && s.size - s.first >= CAP);
    uint32_t word;
    assert_int_equal(tn_output_read(o, s.first, (char *)&word, 4, &err), 4);
    assert_int_equal(word, s.first / 4); /* offsets stay true */
    assert_int_equal(tn_output_read(o, 0, (char *)&word, 4, &err), -1);
    assert_int_equal(err.code, TN_E_GONE);
    struct stat st;
    assert_int_equal(stat(tn_output_path(o), &st), 0);
    assert_int_equal(st.st_size, s.size);
    assert_true(st.st_blocks * 512 < TOTAL / 2);
    tn_autofree char *path = tn_strdup(tn_output_path(o));
    tn_output_unref(o);
    assert_int_equal(stat(path, &st), -1);
}

static void test_output_without_a_disk_is_counted(void **state)
{
    struct tn_output_options options = {
        .directory = "/nonexistent", .group = getgid(), .cap = 1 << 20};
    struct tn_output *o = tn_output_new("s-3", &options);
    static char piece[64 << 10];
    char c;

    tn_output_append(o, piece, sizeof piece);
    tn_output_append(o, piece, sizeof piece);
    assert_int_equal(tn_output_state(o).size, 2 * sizeof piece);
    assert_int_equal(tn_output_state(o).first, 2 * sizeof piece);
    assert_int_equal(tn_output_read(o, 0, &c, 1, NULL), -1);
    tn_output_unref(o);
}

static void test_refusals_of_processes_are_recognised(void **state)
{
    static const char *const said[] = {
        "bash: fork: retry: Resource temporarily unavailable\r\n",
        "sh: 1: Cannot fork\r\n",
        "RuntimeError: can't start new thread\r\n",
        "runtime/cgo: pthread_create failed: Resource temporarily unavailable\nSIGABRT: abort\n",
    };
    static char much[8192];

    for (size_t i = 0; i < TN_COUNT(said); i++) {
        size_t n = strlen(said[i]);
        assert_true(tn_process_limit_is_mentioned(said[i], n));
        memcpy(much + sizeof much - n, said[i], n);
        assert_true(tn_process_limit_is_mentioned(much, sizeof much));
        memset(much, '.', sizeof much);
        memcpy(much, said[i], n); /* who was refused would not have gone on like this */
        assert_false(tn_process_limit_is_mentioned(much, sizeof much));
    }
    assert_false(tn_process_limit_is_mentioned("bash: nothing: command not found\n", 33));
    assert_false(tn_process_limit_is_mentioned("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_are_quoted),
        cmocka_unit_test(test_bash_text_stays_on_its_line),
        cmocka_unit_test(test_dialects_are_found),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_small_output_stays_in_memory),
        cmocka_unit_test(test_large_output_keeps_its_tail),
        cmocka_unit_test(test_output_without_a_disk_is_counted),
        cmocka_unit_test(test_refusals_of_processes_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
