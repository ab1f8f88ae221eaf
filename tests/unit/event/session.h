/* A directory for a session, and what lies in it. */
#ifndef TN_TESTS_EVENT_SESSION_H
#define TN_TESTS_EVENT_SESSION_H

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "event/journal.h"
#include "helpers.h"

static inline char *make_session(void)
{
    char *path = tn_strdup("/tmp/tendon-test-events-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static inline void remove_directory(const char *path)
{
    tn_autofd int parent = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tn_fs_remove_tree(parent, path + strlen("/tmp/"), 0, NULL), 0);
}

static inline void remove_session(char **path)
{
    remove_directory(*path);
    free(*path);
}
#define autosession TN_CLEANUP(remove_session)

static inline char *path_in(const char *directory, const char *name)
{
    return tn_asprintf("%s/%s", directory, name);
}

static inline char *read_whole(const char *directory, const char *name, size_t *n)
{
    tn_autofree char *path = path_in(directory, name);
    struct tn_buf text = TN_BUF_INIT(64 << 20);
    struct tn_error err = {0};

    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, &err))
        fail_msg("%s: %s", path, err.text);
    if (n)
        *n = text.len;
    return tn_buf_take(&text);
}

static inline void write_whole(const char *directory, const char *name, const void *bytes, size_t n)
{
    tn_autofree char *path = path_in(directory, name);
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(tn_fs_write(fd, bytes, n, NULL), 0);
}

static inline bool exists_in(const char *directory, const char *name)
{
    tn_autofree char *path = path_in(directory, name);
    return access(path, F_OK) == 0;
}

static inline struct tn_journal *open_journal(const char *directory)
{
    struct tn_error err = {0};
    struct tn_journal *j = tn_journal_open(directory, 0, &err);
    if (!j)
        fail_msg("%s", err.text);
    return j;
}

static inline struct tn_journal_reader *open_reader(const char *directory, int64_t from)
{
    struct tn_error err = {0};
    struct tn_journal_reader *r = tn_journal_reader_new(directory, from, &err);
    if (!r)
        fail_msg("%s", err.text);
    return r;
}

static inline int64_t append(struct tn_journal *j, const char *json)
{
    struct tn_error err = {0};
    int64_t id = -1;
    if (tn_journal_append(j, json, strlen(json), &id, &err))
        fail_msg("%s", err.text);
    return id;
}

#endif
