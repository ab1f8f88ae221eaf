#include "runtime/jail/tar-stream.h"

#include <errno.h>

#define BLOCK (128u << 10)

/* Two readers of libarchive on top of each other: `plain` undoes the compression and gives raw
 * bytes, which are digested, and `tar` reads them. */
struct jail_tar {
    const struct jail_archive_lib *lib;
    struct jail_source source;
    struct tn_sha256 *digest;
    struct archive *plain, *tar;
    bool plain_ended;
    struct tn_error inner; /* what a callback wants to say through libarchive */
};

/* --- a file --------------------------------------------------------------------------------- */

static ssize_t next_of_file(void *ctx, const void **bytes, struct tn_error *err)
{
    struct jail_file_source *f = ctx;
    ssize_t n;

    do
        n = read(f->fd, f->buffer, BLOCK);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return tn_fail_errno(err, errno, "read");
    f->read += (uint64_t)n;
    if (f->told)
        f->told(f->read, f->told_ctx);
    *bytes = f->buffer;
    return n;
}

void jail_file_source_init(struct jail_file_source *f, int fd)
{
    *f = (struct jail_file_source){
        .source = {.next = next_of_file, .ctx = f}, .fd = fd, .buffer = tn_malloc(BLOCK)};
}

void jail_file_source_done(struct jail_file_source *f)
{
    free(f->buffer);
    f->buffer = NULL;
}

/* --- the readers ---------------------------------------------------------------------------- */

static int failed(struct jail_tar *t, struct archive *a, struct tn_error *err)
{
    if (t->inner.code != TN_OK) {
        if (err)
            *err = t->inner;
        return -1;
    }
    const char *text = t->lib->archive_error_string(a);
    return tn_fail(err, TN_E_INVALID, "not a readable archive: %s", text ? text : "unknown format");
}

static la_ssize_t read_source(struct archive *a, void *ctx, const void **bytes)
{
    struct jail_tar *t = ctx;
    ssize_t n = t->source.next(t->source.ctx, bytes, &t->inner);

    if (n < 0)
        t->lib->archive_set_error(a, EIO, "source");
    return n;
}

/* The raw bytes: 1, 0 at the end, -1. */
static int plain_block(struct jail_tar *t, const void **bytes, size_t *n)
{
    la_int64_t offset;

    do {
        int r = t->plain_ended ? ARCHIVE_EOF
                               : t->lib->archive_read_data_block(t->plain, bytes, n, &offset);
        if (r == ARCHIVE_EOF) {
            t->plain_ended = true;
            return 0;
        }
        if (r < ARCHIVE_WARN)
            return failed(t, t->plain, &t->inner);
    } while (*n == 0);
    if (t->digest)
        tn_sha256_add(t->digest, *bytes, *n);
    return 1;
}

static la_ssize_t read_plain(struct archive *a, void *ctx, const void **bytes)
{
    struct jail_tar *t = ctx;
    size_t n = 0;
    int r = plain_block(t, bytes, &n);

    if (r < 0)
        t->lib->archive_set_error(a, EIO, "source");
    return r < 0 ? -1 : (la_ssize_t)(r ? n : 0);
}

static int open_readers(struct jail_tar *t, struct tn_error *err)
{
    const struct jail_archive_lib *lib = t->lib;
    struct archive_entry *whole;

    t->plain = tn_check_memory(lib->archive_read_new());
    lib->archive_read_support_filter_all(t->plain);
    lib->archive_read_support_format_raw(t->plain);
    lib->archive_read_support_format_empty(t->plain);
    if (lib->archive_read_open(t->plain, t, NULL, read_source, NULL) < ARCHIVE_WARN)
        return failed(t, t->plain, err);
    int r = lib->archive_read_next_header(t->plain, &whole);
    if (r == ARCHIVE_EOF)
        return tn_fail(err, TN_E_INVALID, "the archive is empty");
    if (r < ARCHIVE_WARN)
        return failed(t, t->plain, err);
    t->tar = tn_check_memory(lib->archive_read_new());
    lib->archive_read_support_format_tar(t->tar);
    if (lib->archive_read_open(t->tar, t, NULL, read_plain, NULL) < ARCHIVE_WARN)
        return failed(t, t->tar, err);
    return 0;
}

struct jail_tar *jail_tar_new(const struct jail_source *source, struct tn_sha256 *digest,
                              struct tn_error *err)
{
    const struct jail_archive_lib *lib = jail_archive_lib(err);

    if (!lib)
        return NULL;
    struct jail_tar *t = tn_calloc(1, sizeof *t);
    *t = (struct jail_tar){.lib = lib, .source = *source, .digest = digest};
    if (open_readers(t, err) < 0) {
        jail_tar_free(t);
        return NULL;
    }
    return t;
}

void jail_tar_free(struct jail_tar *t)
{
    if (!t)
        return;
    if (t->tar)
        t->lib->archive_read_free(t->tar);
    if (t->plain)
        t->lib->archive_read_free(t->plain);
    free(t);
}

int jail_tar_next(struct jail_tar *t, struct archive_entry **entry, struct tn_error *err)
{
    int r = t->lib->archive_read_next_header(t->tar, entry);

    if (r == ARCHIVE_EOF)
        return 0;
    /* A warning is a name in an odd character set and the like: the entry is usable. */
    return r < ARCHIVE_WARN ? failed(t, t->tar, err) : 1;
}

int jail_tar_data(struct jail_tar *t, const void **bytes, size_t *n, int64_t *offset,
                  struct tn_error *err)
{
    la_int64_t at = 0;
    int r = t->lib->archive_read_data_block(t->tar, bytes, n, &at);

    if (r == ARCHIVE_EOF)
        return 0;
    if (r < ARCHIVE_WARN)
        return failed(t, t->tar, err);
    *offset = at;
    return 1;
}

int jail_tar_finish(struct jail_tar *t, struct tn_error *err)
{
    const void *bytes;
    size_t n;
    int r;

    while ((r = plain_block(t, &bytes, &n)) > 0)
        ;
    if (r < 0 && err)
        *err = t->inner;
    return r;
}

static ssize_t next_of_entry(void *ctx, const void **bytes, struct tn_error *err)
{
    int64_t offset;
    size_t n = 0;
    int r;

    while ((r = jail_tar_data(ctx, bytes, &n, &offset, err)) > 0 && n == 0)
        ;
    return r <= 0 ? r : (ssize_t)n;
}

struct jail_source jail_tar_entry_source(struct jail_tar *t)
{
    return (struct jail_source){.next = next_of_entry, .ctx = t};
}
