/* The audit log: every change of the file is found, and a killed writer leaves a whole chain. */
#include "../base/scratch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/json.h"
#include "service/audit-chain.h"

static char *path_of_log(void)
{
    return tn_asprintf("%s/audit.log", scratch_path);
}

static struct tn_db *open_db(void)
{
    struct tn_error err = {0};
    tn_autofree char *path = tn_asprintf("%s/db", scratch_path);
    struct tn_db *db = tn_db_open(path, &err);

    if (!db)
        fail_msg("%s", err.text);
    return db;
}

static struct audit *open_log(struct tn_db *db)
{
    struct tn_error err = {0};
    tn_autofree char *path = path_of_log();
    struct audit *a = audit_open(path, db, &err);

    if (!a)
        fail_msg("%s", err.text);
    return a;
}

static void write_line(struct audit *a, const char *detail)
{
    const struct caller who = {.key_id = "k1", .tenant = "acme"};
    struct tn_error err = {0};

    if (audit_write(a,
                    &(struct audit_entry){.who = &who,
                                          .what = "sandbox.create",
                                          .box = "abcdefghij",
                                          .result = "ok",
                                          .request_id = "r-1",
                                          .detail = detail},
                    &err))
        fail_msg("%s", err.text);
}

/* The number of lines, or -1 with the reason. */
static int64_t verify(struct tn_db *db, struct tn_error *err)
{
    tn_autofree char *path = path_of_log();
    int64_t lines = 0;

    return audit_verify(path, db, &lines, err) ? -1 : lines;
}

static void read_log(struct tn_buf *out)
{
    tn_autofree char *path = path_of_log();

    tn_buf_reset(out);
    assert_int_equal(tn_fs_read(TN_FS_ANYWHERE, path, out, NULL), 0);
}

static void put_log(const char *bytes, size_t n)
{
    tn_autofree char *path = path_of_log();
    tn_autofd int fd = tn_fs_open(TN_FS_ANYWHERE, path, O_WRONLY | O_CREAT | O_TRUNC, 0600, NULL);

    assert_int_equal(tn_fs_write(fd, bytes, n, NULL), 0);
}

static void fill(struct tn_db *db, int lines)
{
    struct audit *a = open_log(db);

    for (int i = 0; i < lines; i++) {
        tn_autofree char *detail = tn_asprintf("number %d \"quoted\"\n", i);
        write_line(a, i % 2 ? detail : NULL);
    }
    audit_close(a);
}

static void assert_found(struct tn_db *db, const char *says)
{
    struct tn_error err = {0};

    assert_int_equal(verify(db, &err), -1);
    if (!strstr(err.text, says))
        fail_msg("expected '%s' in '%s'", says, err.text);
}

static void test_lines(void **state)
{
    struct tn_error err = {0};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    tn_autojson struct tn_json *tree = NULL;
    struct stat st;
    tn_autofree char *path = path_of_log();

    fill(NULL, 2);
    assert_int_equal(verify(NULL, &err), 2);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    read_log(&text);
    const char *second = strchr(text.data, '\n') + 1;
    assert_int_equal(tn_json_parse(second, strlen(second) - 1, &tree, &err), 0);
    assert_int_equal(tn_json_int(tn_json_get(tree, "n"), 0), 2);
    assert_string_equal(tn_json_get_str(tree, "key", ""), "k1");
    assert_string_equal(tn_json_get_str(tree, "tenant", ""), "acme");
    assert_string_equal(tn_json_get_str(tree, "what", ""), "sandbox.create");
    assert_string_equal(tn_json_get_str(tree, "box", ""), "abcdefghij");
    assert_string_equal(tn_json_get_str(tree, "result", ""), "ok");
    assert_string_equal(tn_json_get_str(tree, "request_id", ""), "r-1");
    assert_string_equal(tn_json_get_str(tree, "detail", ""), "number 1 \"quoted\"\n");
    assert_int_equal(strlen(tn_json_get_str(tree, "hash", "")), 64);
    assert_int_equal(strlen(tn_json_get_str(tree, "time", "")), 27);
}

static void test_long_texts_are_cut(void **state)
{
    struct tn_error err = {0};
    struct audit *a = open_log(NULL);
    tn_autofree char *much = tn_malloc(100001);

    memset(much, 1, 100000); /* six bytes each, escaped */
    much[100000] = 0;
    assert_int_equal(
        audit_write(
            a,
            &(struct audit_entry){
                .what = much, .box = much, .result = much, .request_id = much, .detail = much},
            &err),
        0);
    audit_close(a);
    assert_int_equal(verify(NULL, &err), 1);
}

static void test_any_byte(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_error err = {0};

    fill(NULL, 3);
    read_log(&text);
    for (size_t i = 0; i < text.len; i++) {
        char was = text.data[i];
        text.data[i] = (char)(was ^ 1);
        put_log(text.data, text.len);
        if (verify(NULL, &err) >= 0)
            fail_msg("a change of byte %zu ('%c') is not found", i, was);
        text.data[i] = was;
    }
    put_log(text.data, text.len);
    assert_int_equal(verify(NULL, &err), 3);
}

static void test_lines_removed_swapped_added(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20), other = TN_BUF_INIT(1 << 20);
    struct tn_db *db = open_db();
    struct tn_error err = {0};
    const char *line[6];

    fill(db, 5);
    read_log(&text);
    line[0] = text.data;
    for (int i = 1; i <= 5; i++)
        line[i] = strchr(line[i - 1], '\n') + 1;
    static const struct {
        const char *lines, *says;
    } table[] = {
        {"1345", "after line 1 comes something else than line 2"},
        {"2345", "after line 0 comes something else than line 1"},
        {"13245", "after line 1 comes something else"},
        {"122345", "after line 2 comes something else"},
        {"123455", "after line 5 comes something else"},
        {"1234", "ends after line 4, but line 5 was written once"},
        {"", "ends after line 0, but line 5 was written once"},
    };
    for (size_t i = 0; i < TN_COUNT(table); i++) {
        tn_buf_reset(&other);
        for (const char *c = table[i].lines; *c; c++)
            tn_buf_add(&other, line[*c - '1'], (size_t)(line[*c - '0'] - line[*c - '1']));
        put_log(tn_buf_str(&other), other.len);
        assert_found(db, table[i].says);
    }
    /* Without the database only a cut at the end is missed. */
    put_log(line[0], (size_t)(line[4] - line[0]));
    assert_int_equal(verify(NULL, &err), 4);
    put_log(text.data, text.len - 5);
    assert_found(NULL, "half a line");
    tn_db_close(db);
}

/* Whoever writes a new chain from the start is found by the database alone. */
static void test_another_chain(void **state)
{
    struct tn_db *db = open_db();
    struct tn_error err = {0};

    fill(db, 3);
    put_log("", 0);
    fill(NULL, 3);
    assert_int_equal(verify(NULL, &err), 3);
    assert_found(db, "line 3 is not the one that was written");
    tn_db_close(db);
}

static void test_goes_on(void **state)
{
    struct tn_db *db = open_db();
    struct tn_error err = {0};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);

    fill(db, 3);
    fill(db, 2);
    assert_int_equal(verify(db, &err), 5);
    /* Half a line of a killed writer. */
    read_log(&text);
    tn_buf_puts(&text, "{\"n\":6,\"time\":\"20");
    put_log(text.data, text.len);
    fill(db, 1);
    assert_int_equal(verify(db, &err), 6);
    /* A whole line that was written, but not noted in the database. */
    fill(NULL, 2);
    fill(db, 1);
    assert_int_equal(verify(db, &err), 9);
    tn_db_close(db);
}

/* What is missing stays to be seen, also after a service has gone on. */
static void test_goes_on_after_tampering(void **state)
{
    struct tn_db *db = open_db();
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);

    fill(db, 4);
    read_log(&text);
    const char *second = strchr(text.data, '\n') + 1;
    put_log(text.data, (size_t)(second - text.data));
    fill(db, 2);
    fill(db, 2);
    assert_found(db, "after line 1 comes something else than line 2");
    tn_db_close(db);
}

static void test_a_file_that_fits_nothing(void **state)
{
    struct tn_error err = {0};
    tn_autofree char *path = path_of_log();

    put_log("hello\n", 6);
    assert_null(audit_open(path, NULL, &err));
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_non_null(strstr(err.text, "move it away"));
}

static void test_one_writer(void **state)
{
    struct audit *a = open_log(NULL);
    struct tn_error err = {0};
    tn_autofree char *path = path_of_log();

    assert_null(audit_open(path, NULL, &err));
    assert_int_equal(err.code, TN_E_BUSY);
    audit_close(a);
    audit_close(open_log(NULL));
}

enum { THREADS = 16, EACH = 25 };

static void *write_many(void *a)
{
    for (int i = 0; i < EACH; i++)
        write_line(a, "many");
    return NULL;
}

static void test_many_at_once(void **state)
{
    struct tn_db *db = open_db();
    struct audit *a = open_log(db);
    struct tn_error err = {0};
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, a), 0);
    assert_true(verify(db, &err) >= 0); /* while they write */
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(verify(db, &err), THREADS * EACH);
    audit_close(a);
    tn_db_close(db);
}

/* A full disk: the line is refused, and the next one that fits is the next of the chain. */
static void test_disk_full(void **state)
{
    struct audit *a = open_log(NULL);
    struct tn_error err = {0};
    struct rlimit limit, was;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);

    write_line(a, NULL);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = (struct rlimit){.rlim_cur = 600, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int result = 0, before = 1;
    while (!(result = audit_write(a, &(struct audit_entry){.what = "x", .result = "ok"}, &err)) &&
           before < 10)
        before++;
    setrlimit(RLIMIT_FSIZE, &was);
    signal(SIGXFSZ, handler);
    assert_int_equal(result, -1);
    write_line(a, "again");
    audit_close(a);
    assert_int_equal(verify(NULL, &err), before + 1);
}

/* Killed at any moment: every line that was confirmed is there. */
static void test_killed(void **state)
{
    int64_t before = 0;

    for (int round = 0; round < 8; round++) {
        struct tn_error err = {0};
        int pipes[2];
        int64_t told = 0, n;

        assert_int_equal(pipe(pipes), 0);
        pid_t pid = fork();
        if (pid == 0) {
            struct tn_db *db = open_db();
            struct audit *a = open_log(db);
            for (n = 1;; n++) {
                write_line(a, "until killed");
                if (write(pipes[1], &n, sizeof n) != sizeof n)
                    _exit(1);
            }
        }
        close(pipes[1]);
        for (int i = 0; i < 20 + round && read(pipes[0], &n, sizeof n) == sizeof n; i++)
            told = n;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while (read(pipes[0], &n, sizeof n) == sizeof n)
            told = n;
        close(pipes[0]);
        struct tn_db *db = open_db();
        fill(db, 1);
        int64_t lines = verify(db, &err);
        assert_true(told > 0);
        assert_true(lines > before + told);
        before = lines;
        tn_db_close(db);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        TEST(test_lines),
        TEST(test_long_texts_are_cut),
        TEST(test_any_byte),
        TEST(test_lines_removed_swapped_added),
        TEST(test_another_chain),
        TEST(test_goes_on),
        TEST(test_goes_on_after_tampering),
        TEST(test_a_file_that_fits_nothing),
        TEST(test_one_writer),
        TEST(test_many_at_once),
        TEST(test_disk_full),
        TEST(test_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
