#include "event/mirror.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file-lock.h"
#include "base/fs.h"
#include "event/journal-line.h"

#define PAGE 25
/* A larger page does nobody good: readers then take the single events. */
#define PAGE_BYTES ((size_t)64 << 20)

/* A page is written only when all its events were seen, one after the other. */
struct mirror {
    int events, pages;  /* directories */
    int64_t expected;   /* id that continues the page */
    struct tn_buf page; /* the events so far, with commas */
};

void mirror_close(struct mirror *m)
{
    if (!m)
        return;
    tn_close(m->events);
    tn_close(m->pages);
    tn_buf_done(&m->page);
    free(m);
}

static int open_directory(const char *parent, const char *name, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/%s", parent, name);
    tn_autofd int made = tn_fs_mkdirs(TN_FS_ANYWHERE, path, 0700, NULL, NULL, err);

    if (made < 0)
        return -1;
    int fd = openat(made, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? tn_fail_errno(err, errno, "%s", path) : fd;
}

static void event_name(char out[32], int64_t id)
{
    snprintf(out, 32, "%lld.json", (long long)id);
}

/* Backwards, page by page, to one that is there; and one page further, because the newest files are
 * those that a power failure takes. */
static int64_t begin(const struct mirror *m, int64_t next)
{
    int64_t from = next - next % PAGE;
    char name[32];

    for (from -= from ? PAGE : 0; from > 0; from -= PAGE) {
        event_name(name, from - 1);
        if (!faccessat(m->events, name, F_OK, AT_SYMLINK_NOFOLLOW))
            break;
    }
    return from;
}

struct mirror *mirror_open(const char *directory, int64_t next, int64_t *from, struct tn_error *err)
{
    struct mirror *m = tn_calloc(1, sizeof *m);

    *m = (struct mirror){.events = -1, .pages = -1, .page = TN_BUF_INIT(PAGE_BYTES)};
    m->events = open_directory(directory, "events", err);
    if (m->events >= 0)
        m->pages = open_directory(directory, "event_cache", err);
    if (m->pages < 0) {
        mirror_close(m);
        return NULL;
    }
    *from = begin(m, next);
    m->expected = *from;
    return m;
}

/* Readers see the whole file or none. */
static int write_file(int directory, const char *name, const char *bytes, size_t n,
                      struct tn_error *err)
{
    char temporary[48];
    struct stat st;

    if (!fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_size == (off_t)n)
        return 0;
    snprintf(temporary, sizeof temporary, TN_FS_TEMP_PREFIX "%s", name);
    tn_autofd int fd =
        openat(directory, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return tn_fail_errno(err, errno, "%s", temporary);
    if (tn_fs_write(fd, bytes, n, err))
        return tn_error_context(err, "%s", temporary);
    if (renameat(directory, temporary, directory, name))
        return tn_fail_errno(err, errno, "%s", name);
    return 0;
}

static int write_locked(int directory, const char *name, const char *bytes, size_t n,
                        struct tn_error *err)
{
    int held = tn_file_lock(directory, tn_deadline_in(LOCK_SECONDS), err);
    if (held < 0)
        return -1;
    int failed = write_file(directory, name, bytes, n, err);
    tn_file_unlock(directory, held);
    return failed;
}

static int write_page(struct mirror *m, int64_t last, struct tn_error *err)
{
    char name[64];

    tn_buf_putc(&m->page, ']');
    if (!tn_buf_ok(&m->page))
        return 0;
    snprintf(name, sizeof name, "%lld-%lld.json", (long long)(last + 1 - PAGE),
             (long long)(last + 1));
    return write_locked(m->pages, name, m->page.data, m->page.len, err);
}

int mirror_add(struct mirror *m, const struct tn_journal_event *event, struct tn_error *err)
{
    char name[32];

    if (event->id % PAGE == 0) {
        tn_buf_reset(&m->page);
        tn_buf_putc(&m->page, '[');
    } else if (event->id != m->expected || !m->page.len) {
        tn_buf_cut(&m->page, 0);
    } else {
        tn_buf_putc(&m->page, ',');
    }
    m->expected = event->id + 1;
    if (m->page.len)
        tn_buf_add(&m->page, event->json, event->len);
    event_name(name, event->id);
    if (write_locked(m->events, name, event->json, event->len, err))
        return -1;
    return event->id % PAGE == PAGE - 1 && m->page.len ? write_page(m, event->id, err) : 0;
}
