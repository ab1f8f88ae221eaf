/* A directory for one test, and small helpers for files in it. */
#ifndef TN_TESTS_FILE_SCRATCH_H
#define TN_TESTS_FILE_SCRATCH_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/fs.h"
#include "hand/file/path.h"
#include "hand/file/text.h"

struct scratch {
    char dir[64];
};

static inline int scratch_set_up(void **state)
{
    struct scratch *s = tn_calloc(1, sizeof *s);
    snprintf(s->dir, sizeof s->dir, "/tmp/tendon-test-XXXXXX");
    if (!mkdtemp(s->dir))
        return -1;
    chmod(s->dir, 0755);
    *state = s;
    return 0;
}

static inline int scratch_tear_down(void **state)
{
    struct scratch *s = *state;
    tn_autofd int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    tn_fs_remove_tree(tmp, s->dir + strlen("/tmp/"), 0, NULL);
    free(s);
    return 0;
}

#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_set_up, scratch_tear_down)

/* The caller frees it. */
static inline char *in_scratch(const struct scratch *s, const char *name)
{
    return tn_asprintf("%s/%s", s->dir, name);
}

/* Ourselves: no rights are switched. */
static inline const struct tn_file_user *scratch_self(void)
{
    static struct tn_file_user user;
    user = (struct tn_file_user){.uid = getuid(), .gid = getgid()};
    return &user;
}

/* First in a test that acts as others: skips it unless root runs it. */
static inline void needs_root(void)
{
    if (geteuid() != 0)
        skip();
}

/* An ordinary user. */
static inline const struct tn_file_user *scratch_nobody(void)
{
    static const gid_t groups[] = {4242};
    static const struct tn_file_user user = {
        .uid = 4242, .gid = 4242, .groups = groups, .group_count = 1};
    return &user;
}

/* Makes parents too; an existing file is overwritten in place. */
static inline void put_file(const struct scratch *s, const char *name, const void *bytes, size_t n)
{
    tn_autofree char *path = in_scratch(s, name);
    for (char *slash = path + strlen(s->dir) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(tn_fs_write(fd, bytes, n, NULL), 0);
}

static inline void put_text(const struct scratch *s, const char *name, const char *text)
{
    put_file(s, name, text, strlen(text));
}

/* 0 and the contents, or -1. */
static inline int get_file(const struct scratch *s, const char *name, struct tn_buf *out)
{
    tn_autofree char *path = in_scratch(s, name);
    tn_buf_reset(out);
    return tn_fs_read(TN_FS_ANYWHERE, path, out, NULL);
}

static inline void assert_file(const struct scratch *s, const char *name, const char *text)
{
    tn_autobuf struct tn_buf got = TN_BUF_INIT(64u << 20);
    assert_int_equal(get_file(s, name, &got), 0);
    assert_string_equal(tn_buf_str(&got), text);
}

static inline bool in_scratch_exists(const struct scratch *s, const char *name)
{
    tn_autofree char *path = in_scratch(s, name);
    struct stat st;
    return lstat(path, &st) == 0;
}

static inline struct stat stat_file(const struct scratch *s, const char *name)
{
    tn_autofree char *path = in_scratch(s, name);
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st;
}

#endif
