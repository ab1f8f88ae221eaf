#include "engine/tar.h"

enum { BLOCK = 512, END_BLOCKS = 2 * BLOCK, NAME_BYTES = 100, PREFIX_BYTES = 155 };
#define OCTAL_11 ((UINT64_C(1) << 33) - 1) /* what eleven octal digits hold */

static bool is_directory(const struct tn_engine_file *f)
{
    size_t n = strlen(f->name);

    return n > 0 && f->name[n - 1] == '/';
}

static uint64_t data_size(const struct tn_engine_file *f)
{
    return is_directory(f) ? 0 : f->size;
}

static uint64_t padded(uint64_t n)
{
    return (n + BLOCK - 1) / BLOCK * BLOCK;
}

static uint64_t entry_size(const struct tn_engine_file *f)
{
    return BLOCK + padded(data_size(f));
}

/* Where a name is cut in two for the fields prefix and name: the length of the first (0: none), or
 * -1. */
static ssize_t split_at(const char *name)
{
    size_t n = strlen(name);

    if (n > 0 && n <= NAME_BYTES)
        return 0;
    for (size_t i = 1; i < n && i <= PREFIX_BYTES; i++)
        if (name[i] == '/' && n - i - 1 > 0 && n - i - 1 <= NAME_BYTES)
            return (ssize_t)i;
    return -1;
}

int tn_tar_init(struct tn_tar *t, const struct tn_engine_file *files, size_t count,
                struct tn_error *err)
{
    *t = (struct tn_tar){.files = files, .count = count};
    for (size_t i = 0; i < count; i++) {
        if (split_at(files[i].name) < 0 || files[i].name[0] == '/')
            return tn_fail(err, TN_E_INVALID, "'%s': not a relative name that a tar can hold",
                           files[i].name);
        if (files[i].size > OCTAL_11)
            return tn_fail(err, TN_E_TOO_LARGE, "%s: more than 8 GiB", files[i].name);
    }
    return 0;
}

int64_t tn_tar_length(const struct tn_tar *t)
{
    uint64_t sum = END_BLOCKS;

    for (size_t i = 0; i < t->count; i++)
        sum += entry_size(&t->files[i]);
    return (int64_t)sum;
}

/* The fields of ustar: offset, width, and what they hold. */
static void make_header(char header[BLOCK], const struct tn_engine_file *f)
{
    unsigned sum = 0;
    size_t prefix = (size_t)split_at(f->name);
    const char *name = f->name + (prefix ? prefix + 1 : 0);

    memset(header, 0, BLOCK);
    memcpy(header, name, strlen(name));
    memcpy(header + 345, f->name, prefix);
    snprintf(header + 100, 8, "%07o", (unsigned)f->mode & 07777);
    snprintf(header + 108, 8, "%07o", (unsigned)f->uid & 07777777);
    snprintf(header + 116, 8, "%07o", (unsigned)f->gid & 07777777);
    snprintf(header + 124, 12, "%011llo", (unsigned long long)data_size(f));
    snprintf(header + 136, 12, "%011llo",
             (unsigned long long)(f->mtime ? f->mtime : time(NULL)) & OCTAL_11);
    header[156] = is_directory(f) ? '5' : '0';
    memcpy(header + 257,
           "ustar\0"
           "00",
           8);
    memset(header + 148, ' ', 8); /* the sum counts itself as spaces */
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 7, "%06o", sum);
}

static ssize_t read_data(const struct tn_engine_file *f, void *to, size_t n, uint64_t at,
                         struct tn_error *err)
{
    if (f->bytes) {
        memcpy(to, (const char *)f->bytes + at, n);
        return (ssize_t)n;
    }
    ssize_t got = pread(f->fd, to, n, (off_t)at);
    if (got < 0)
        return tn_fail_errno(err, errno, "read %s", f->name);
    if (got == 0)
        return tn_fail(err, TN_E_IO, "%s became shorter while it was sent", f->name);
    return got;
}

/* What is due at this point of an entry: a piece of header, data or padding. */
static ssize_t read_entry(struct tn_tar *t, char *to, size_t n, struct tn_error *err)
{
    const struct tn_engine_file *f = &t->files[t->at];
    uint64_t size = data_size(f), end = entry_size(f);

    if (t->done == 0)
        make_header(t->header, f);
    if (t->done < BLOCK) {
        n = n < BLOCK - t->done ? n : (size_t)(BLOCK - t->done);
        memcpy(to, t->header + t->done, n);
        return (ssize_t)n;
    }
    if (t->done < BLOCK + size) {
        uint64_t left = BLOCK + size - t->done;
        return read_data(f, to, n < left ? n : (size_t)left, t->done - BLOCK, err);
    }
    n = n < end - t->done ? n : (size_t)(end - t->done);
    memset(to, 0, n);
    return (ssize_t)n;
}

ssize_t tn_tar_read(void *to, size_t n, void *tar, struct tn_error *err)
{
    struct tn_tar *t = tar;

    if (t->at == t->count) {
        uint64_t left = END_BLOCKS - t->done;
        n = n < left ? n : (size_t)left;
        memset(to, 0, n);
        t->done += n;
        return (ssize_t)n;
    }
    ssize_t got = read_entry(t, to, n, err);
    if (got < 0)
        return -1;
    t->done += (uint64_t)got;
    if (t->done == entry_size(&t->files[t->at])) {
        t->done = 0;
        t->at++;
    }
    return got;
}
