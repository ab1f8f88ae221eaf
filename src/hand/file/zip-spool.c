#include "hand/file/zip-spool.h"

#include <fcntl.h>
#include <stddef.h>

#include "hand/file/temp.h"

#define BATCH 65536
#define FIXED offsetof(struct zip_entry, name)

int zip_spool_init(struct zip_spool *s, const char *dir, struct tn_error *err)
{
    tn_autofd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    *s = (struct zip_spool){.fd = -1, .unsaved = TN_BUF_INIT(BATCH + sizeof(struct zip_entry))};
    if (fd < 0)
        return tn_fail_errno(err, errno, "zip: %s", dir);
    s->fd = temp_unlinked(fd, err);
    return s->fd < 0 ? tn_error_context(err, "zip: %s", dir) : 0;
}

void zip_spool_done(struct zip_spool *s)
{
    tn_close(s->fd);
    tn_buf_done(&s->unsaved);
}

static int write_at(struct zip_spool *s, const void *bytes, size_t n, uint64_t at,
                    struct tn_error *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t w = pwrite(s->fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return tn_fail_errno(err, w < 0 ? errno : EIO, "zip: cannot write the plan");
        done += (size_t)w;
    }
    return 0;
}

static int save(struct zip_spool *s, struct tn_error *err)
{
    if (write_at(s, tn_buf_str(&s->unsaved), s->unsaved.len, s->end - s->unsaved.len, err))
        return -1;
    tn_buf_reset(&s->unsaved);
    return 0;
}

int zip_spool_add(struct zip_spool *s, const struct zip_entry *e, struct tn_error *err)
{
    size_t n = FIXED + e->name_len;

    if (tn_buf_add(&s->unsaved, e, n))
        return tn_fail(err, TN_E_INTERNAL, "zip: out of memory");
    s->end += n;
    return s->unsaved.len < BATCH ? 0 : save(s, err);
}

int zip_spool_next(struct zip_spool *s, uint64_t *at, struct zip_entry *e, struct tn_error *err)
{
    if (s->unsaved.len && save(s, err))
        return -1;
    if (*at == s->end)
        return 0;
    ssize_t n = pread(s->fd, e, sizeof *e, (off_t)*at);
    if (n < (ssize_t)FIXED || (size_t)n < FIXED + e->name_len || e->name_len >= sizeof e->name)
        return tn_fail_errno(err, n < 0 ? errno : EIO, "zip: cannot read the plan");
    e->name[e->name_len] = '\0';
    *at += FIXED + e->name_len;
    return 1;
}

int zip_spool_update(struct zip_spool *s, uint64_t at, const struct zip_entry *e,
                     struct tn_error *err)
{
    return write_at(s, e, FIXED, at, err);
}
