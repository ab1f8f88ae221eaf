#include "hand/file/zip-archive.h"

#include <limits.h>
#include <sys/stat.h>

#include "hand/file/zip-end.h"
#include "hand/file/zip-name.h"
#include "hand/file/zip-stream.h"

enum { LOCAL = 30, CENTRAL = 46 };

enum {
    FLAG_ENCRYPTED = 1 << 0,
    FLAG_DESCRIPTOR = 1 << 3, /* the local header does not know checksum and sizes */
    FLAG_PATCH = 1 << 5,
    FLAG_STRONG = 1 << 6,
    FLAG_UTF8 = 1 << 11,
    FLAG_MASKED = 1 << 13,
};

/* A record of the central directory. */
struct record {
    uint32_t flags, method, crc;
    uint64_t packed, size, offset;
    size_t name_len, extra_len, comment_len;
    uint32_t disk;
    uint32_t attributes;
};

struct zip_archive {
    struct zip_input in;
    struct zip_directory directory;
    uint64_t at;   /* in the central directory */
    uint64_t seen; /* entries */
    struct record record;
    char raw[PATH_MAX]; /* its name */
    struct tn_buf name; /* the same, checked */
    struct zip_stream stream;
    bool reading;
};

static int broken(struct tn_error *err, const char *what)
{
    return tn_fail(err, TN_E_INVALID, "zip: the archive is broken: %s", what);
}

struct zip_archive *zip_archive_open(int fd, struct tn_error *err)
{
    struct zip_archive *z = tn_calloc(1, sizeof *z);

    tn_buf_init(&z->name, 2 * PATH_MAX);
    if (zip_input_init(&z->in, fd, err) || zip_find_directory(&z->in, &z->directory, err)) {
        zip_archive_close(z);
        return NULL;
    }
    zip_archive_rewind(z);
    return z;
}

void zip_archive_close(struct zip_archive *z)
{
    if (!z)
        return;
    zip_stream_done(&z->stream);
    tn_buf_done(&z->name);
    free(z);
}

uint64_t zip_archive_size(const struct zip_archive *z)
{
    return z->in.size;
}

uint64_t zip_archive_entries(const struct zip_archive *z)
{
    return z->directory.entries;
}

void zip_archive_rewind(struct zip_archive *z)
{
    z->at = z->directory.start;
    z->seen = 0;
    z->reading = false;
}

/* --- one record of the central directory ---------------------------------------------------- */

/* Takes the next of the 64-bit values in a zip64 field where the record itself has no room for it.
 */
static int widen(uint64_t *value, const unsigned char **at, const unsigned char *end)
{
    if (*value != UINT32_MAX)
        return 0;
    if (end - *at < 8)
        return -1;
    *value = zip_get(*at, 8);
    *at += 8;
    return 0;
}

static int read_extra(struct zip_archive *z, uint64_t at, struct tn_error *err)
{
    struct record *r = &z->record;
    unsigned char head[4], wide[32];

    for (uint64_t end = at + r->extra_len; at + sizeof head <= end;) {
        if (zip_input_get(&z->in, head, sizeof head, at))
            return broken(err, "the central directory cannot be read");
        size_t n = (size_t)zip_get(head + 2, 2);
        at += sizeof head;
        if (at + n > end)
            return broken(err, "an extra field is too long");
        if (zip_get(head, 2) == 1) {
            const unsigned char *next = wide;
            size_t have = n < sizeof wide ? n : sizeof wide;
            if (zip_input_get(&z->in, wide, have, at) || widen(&r->size, &next, wide + have) ||
                widen(&r->packed, &next, wide + have) || widen(&r->offset, &next, wide + have))
                return broken(err, "an extra field is too short");
        }
        at += n;
    }
    return 0;
}

static int read_record(struct zip_archive *z, struct tn_error *err)
{
    unsigned char b[CENTRAL];
    struct record *r = &z->record;

    if (z->at + CENTRAL > z->directory.end || zip_input_get(&z->in, b, CENTRAL, z->at) ||
        zip_get(b, 4) != 0x02014b50)
        return broken(err, "the central directory ends too early");
    *r = (struct record){
        .flags = (uint32_t)zip_get(b + 8, 2),
        .method = (uint32_t)zip_get(b + 10, 2),
        .crc = (uint32_t)zip_get(b + 16, 4),
        .packed = zip_get(b + 20, 4),
        .size = zip_get(b + 24, 4),
        .name_len = (size_t)zip_get(b + 28, 2),
        .extra_len = (size_t)zip_get(b + 30, 2),
        .comment_len = (size_t)zip_get(b + 32, 2),
        .disk = (uint32_t)zip_get(b + 34, 2),
        .attributes = (uint32_t)zip_get(b + 38, 4),
        .offset = zip_get(b + 42, 4),
    };
    uint64_t name = z->at + CENTRAL;
    z->at = name + r->name_len + r->extra_len + r->comment_len;
    if (z->at > z->directory.end)
        return broken(err, "the central directory ends too early");
    if (r->name_len >= sizeof z->raw)
        return tn_fail(err, TN_E_INVALID, "zip: an entry name is too long");
    if (zip_input_get(&z->in, z->raw, r->name_len, name))
        return broken(err, "the central directory cannot be read");
    return read_extra(z, name + r->name_len, err);
}

/* --- what it must be like ------------------------------------------------------------------- */

/* The local header must be about the same entry; *data is where its contents start. */
static int check_local(struct zip_archive *z, uint64_t *data, struct tn_error *err)
{
    const struct record *r = &z->record;
    unsigned char b[LOCAL];
    char name[PATH_MAX];
    uint64_t limit = z->directory.start;

    if (r->offset > limit - z->directory.base)
        return broken(err, "an entry lies outside of it");
    uint64_t at = z->directory.base + r->offset;
    if (limit - at < LOCAL || zip_input_pread(&z->in, b, LOCAL, at) || zip_get(b, 4) != 0x04034b50)
        return broken(err, "an entry lies outside of it");
    *data = at + LOCAL + zip_get(b + 26, 2) + zip_get(b + 28, 2);
    if (*data > limit || r->packed > limit - *data)
        return broken(err, "an entry lies outside of it");
    if (zip_get(b + 26, 2) != r->name_len ||
        zip_input_pread(&z->in, name, r->name_len, at + LOCAL) ||
        memcmp(name, z->raw, r->name_len) != 0)
        return broken(err, "an entry has two names");

    uint32_t flags = (uint32_t)zip_get(b + 6, 2);
    uint64_t packed = zip_get(b + 18, 4), size = zip_get(b + 22, 4);
    bool same = zip_get(b + 8, 2) == r->method && ((flags ^ r->flags) & FLAG_ENCRYPTED) == 0;
    if (!(flags & FLAG_DESCRIPTOR))
        same = same && zip_get(b + 14, 4) == r->crc &&
               (packed == r->packed || packed == UINT32_MAX) &&
               (size == r->size || size == UINT32_MAX);
    return same ? 0 : broken(err, "a local header does not agree with the central directory");
}

/* The upper half of the external attributes is a Unix mode, or nothing. */
static int check_kind(const struct zip_archive *z, struct zip_item *item, struct tn_error *err)
{
    mode_t mode = z->record.attributes >> 16;
    mode_t kind = mode & S_IFMT;

    if (kind == S_IFLNK)
        return tn_fail(err, TN_E_INVALID, "zip: %s is a symbolic link", item->name);
    if (kind && kind != S_IFDIR && kind != S_IFREG)
        return tn_fail(err, TN_E_INVALID, "zip: %s is neither a file nor a directory", item->name);
    if (kind && (kind == S_IFDIR) != item->is_dir)
        return tn_fail(err, TN_E_INVALID, "zip: %s is a file and a directory", item->name);
    item->mode = mode & 0777;
    return 0;
}

static int check_record(struct zip_archive *z, struct zip_item *item, struct tn_error *err)
{
    const struct record *r = &z->record;

    if (zip_name(z->raw, r->name_len, r->flags & FLAG_UTF8, &z->name, &item->is_dir, err))
        return -1;
    item->name = tn_buf_str(&z->name);
    item->size = r->size;
    item->packed = r->packed;
    if (r->flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED))
        return tn_fail(err, TN_E_UNSUPPORTED, "zip: %s is encrypted", item->name);
    if ((r->method != ZIP_STORED && r->method != ZIP_DEFLATED) || (r->flags & FLAG_PATCH))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "zip: %s is compressed with method %u (known are 0 and 8)", item->name,
                       (unsigned)r->method);
    if (r->method == ZIP_STORED && r->size != r->packed)
        return broken(err, "a stored entry has two sizes");
    if (item->is_dir && r->size != 0)
        return broken(err, "a directory has contents");
    if (r->disk != 0 && r->disk != UINT16_MAX)
        return broken(err, "it has several disks");
    return check_kind(z, item, err);
}

int zip_archive_next(struct zip_archive *z, struct zip_item *item, struct tn_error *err)
{
    uint64_t data;

    z->reading = false;
    if (z->seen == z->directory.entries)
        return z->at == z->directory.end
                   ? 0
                   : broken(err, "the central directory is longer than it says");
    z->seen++;
    *item = (struct zip_item){0};
    if (read_record(z, err) || check_record(z, item, err) || check_local(z, &data, err))
        return -1;
    struct zip_contents contents = {.at = data,
                                    .packed = z->record.packed,
                                    .size = z->record.size,
                                    .crc = z->record.crc,
                                    .method = z->record.method};
    zip_stream_start(&z->stream, &z->in, &contents);
    z->reading = true;
    return 1;
}

ssize_t zip_archive_read(struct zip_archive *z, void *to, size_t n, struct tn_error *err)
{
    const char *fault = NULL;

    if (!z->reading)
        return 0;
    ssize_t got = zip_stream_read(&z->stream, to, n, &fault);
    if (got <= 0)
        z->reading = false;
    return got < 0 ? broken(err, fault) : got;
}
