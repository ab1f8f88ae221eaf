#include "hand/file/zip-archive.h"

#include <limits.h>
#include <minizip/unzip.h>
#include <sys/stat.h>

#include "hand/file/zip-name.h"

/* minizip reads headers byte by byte. */
#define WINDOW 4096
#define LOCAL_HEADER 30

enum {
    FLAG_ENCRYPTED = 1 << 0,
    FLAG_PATCH = 1 << 5,
    FLAG_STRONG = 1 << 6,
    FLAG_UTF8 = 1 << 11,
    FLAG_MASKED = 1 << 13,
};

struct zip_archive {
    unzFile unz;
    int fd;
    uint64_t size;
    uint64_t entries;

    uint64_t pos;
    uint64_t window_at;
    size_t window_len;
    char window[WINDOW];

    bool started; /* there is a current entry */
    bool open;    /* its contents are being read */
    unz_file_info64 info;
    uint64_t left;
    struct tn_buf name;
    char raw[PATH_MAX];
};

/* --- what minizip reads through ----------------------------------------------------------------- */

static voidpf io_open(voidpf opaque, const void *name, int mode)
{
    return opaque;
}

static ssize_t read_at(const struct zip_archive *z, void *to, size_t n, uint64_t at)
{
    ssize_t r;

    if (at >= z->size)
        return 0;
    if (n > z->size - at)
        n = (size_t)(z->size - at);
    do
        r = pread(z->fd, to, n, (off_t)at);
    while (r < 0 && errno == EINTR);
    return r;
}

static uLong io_read(voidpf opaque, voidpf stream, void *to, uLong n)
{
    struct zip_archive *z = opaque;
    uLong done = 0;

    while (done < n) {
        if (z->pos < z->window_at || z->pos >= z->window_at + z->window_len) {
            ssize_t r = n - done >= WINDOW ? read_at(z, (char *)to + done, n - done, z->pos) : 0;
            if (r > 0) {
                done += (uLong)r;
                z->pos += (uint64_t)r;
                continue;
            }
            r = read_at(z, z->window, WINDOW, z->pos);
            if (r <= 0)
                break;
            z->window_at = z->pos;
            z->window_len = (size_t)r;
        }
        size_t skip = (size_t)(z->pos - z->window_at), have = z->window_len - skip;
        size_t take = have < n - done ? have : n - done;
        memcpy((char *)to + done, z->window + skip, take);
        done += take;
        z->pos += take;
    }
    return done;
}

static uLong io_write(voidpf opaque, voidpf stream, const void *from, uLong n)
{
    return 0;
}

static ZPOS64_T io_tell(voidpf opaque, voidpf stream)
{
    return ((struct zip_archive *)opaque)->pos;
}

static long io_seek(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin)
{
    struct zip_archive *z = opaque;
    uint64_t base = origin == ZLIB_FILEFUNC_SEEK_END   ? z->size
                    : origin == ZLIB_FILEFUNC_SEEK_CUR ? z->pos
                                                       : 0;
    if (offset > z->size || base + offset > z->size)
        return -1;
    z->pos = base + offset;
    return 0;
}

static int io_close(voidpf opaque, voidpf stream)
{
    return 0;
}

static int io_error(voidpf opaque, voidpf stream)
{
    return 0;
}

/* --- the archive -------------------------------------------------------------------------------- */

/* minizip does not see the end of an archive that has nothing before it. */
static bool is_empty_archive(const struct zip_archive *z)
{
    static const char end[12] = {'P', 'K', 5, 6}; /* and no entries */
    char head[sizeof end];
    return read_at(z, head, sizeof head, 0) == sizeof head && memcmp(head, end, sizeof end) == 0;
}

struct zip_archive *zip_archive_open(int fd, struct tn_error *err)
{
    struct zip_archive *z = tn_calloc(1, sizeof *z);
    zlib_filefunc64_def io = {.zopen64_file = io_open,
                              .zread_file = io_read,
                              .zwrite_file = io_write,
                              .ztell64_file = io_tell,
                              .zseek64_file = io_seek,
                              .zclose_file = io_close,
                              .zerror_file = io_error,
                              .opaque = z};
    struct stat st;

    z->fd = fd;
    tn_buf_init(&z->name, 2 * PATH_MAX);
    if (fstat(fd, &st) == 0)
        z->size = (uint64_t)st.st_size;
    if (is_empty_archive(z))
        return z;
    z->unz = unzOpen2_64("", &io);
    unz_global_info64 info;
    if (!z->unz || unzGetGlobalInfo64(z->unz, &info) != UNZ_OK) {
        tn_fail(err, TN_E_INVALID, "zip: this is not a zip archive, or its end is missing");
        zip_archive_close(z);
        return NULL;
    }
    z->entries = info.number_entry;
    return z;
}

void zip_archive_close(struct zip_archive *z)
{
    if (!z)
        return;
    if (z->unz) {
        unzCloseCurrentFile(z->unz);
        unzClose(z->unz);
    }
    tn_buf_done(&z->name);
    free(z);
}

uint64_t zip_archive_size(const struct zip_archive *z)
{
    return z->size;
}

uint64_t zip_archive_entries(const struct zip_archive *z)
{
    return z->entries;
}

void zip_archive_rewind(struct zip_archive *z)
{
    unzCloseCurrentFile(z->unz);
    z->open = z->started = false;
}

static int broken(struct tn_error *err, const char *what)
{
    return tn_fail(err, TN_E_INVALID, "zip: the archive is broken: %s", what);
}

/* minizip compares sizes, checksum and method of the local header with the central directory; the name
 * remains to be compared. */
static int check_local(struct zip_archive *z, struct tn_error *err)
{
    int method = 0, level = 0;
    size_t n = z->info.size_filename;
    char name[PATH_MAX];

    if (unzOpenCurrentFile2(z->unz, &method, &level, 1) != UNZ_OK)
        return broken(err, "a local header does not agree with the central directory");
    int extra = unzGetLocalExtrafield(z->unz, NULL, 0);
    uint64_t data = unzGetCurrentFileZStreamPos64(z->unz);
    unzCloseCurrentFile(z->unz);

    if (extra < 0 || data < (uint64_t)extra + n + LOCAL_HEADER || data > z->size ||
        z->info.compressed_size > z->size - data)
        return broken(err, "an entry lies outside of it");
    if (read_at(z, name, n, data - (uint64_t)extra - n) != (ssize_t)n ||
        memcmp(name, z->raw, n) != 0)
        return broken(err, "an entry has two names");
    return 0;
}

/* What the upper half of the external attributes says, where a Unix system made them. */
static int check_kind(const struct zip_archive *z, struct zip_item *item, struct tn_error *err)
{
    mode_t mode = (mode_t)(z->info.external_fa >> 16 & 0xffff);
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

static int check_entry(struct zip_archive *z, struct zip_item *item, struct tn_error *err)
{
    const unz_file_info64 *info = &z->info;

    if (zip_name(z->raw, info->size_filename, info->flag & FLAG_UTF8, &z->name, &item->is_dir, err))
        return -1;
    item->name = tn_buf_str(&z->name);
    item->size = info->uncompressed_size;
    item->packed = info->compressed_size;
    if (info->flag & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED))
        return tn_fail(err, TN_E_UNSUPPORTED, "zip: %s is encrypted", item->name);
    if ((info->compression_method != 0 && info->compression_method != Z_DEFLATED) ||
        (info->flag & FLAG_PATCH))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "zip: %s is compressed with method %lu (known are 0 and 8)", item->name,
                       info->compression_method);
    if (info->compression_method == 0 && item->size != item->packed)
        return broken(err, "a stored entry has two sizes");
    if (item->is_dir && item->size != 0)
        return broken(err, "a directory has contents");
    return check_kind(z, item, err) || check_local(z, err) ? -1 : 0;
}

int zip_archive_next(struct zip_archive *z, struct zip_item *item, struct tn_error *err)
{
    unzCloseCurrentFile(z->unz);
    z->open = false;
    if (z->entries == 0)
        return 0;
    int r = z->started ? unzGoToNextFile(z->unz) : unzGoToFirstFile(z->unz);
    if (z->started && r == UNZ_END_OF_LIST_OF_FILE)
        return 0;
    z->started = true;
    if (r != UNZ_OK ||
        unzGetCurrentFileInfo64(z->unz, &z->info, NULL, 0, NULL, 0, NULL, 0) != UNZ_OK)
        return broken(err, "the central directory cannot be read");
    if (z->info.size_filename >= sizeof z->raw)
        return tn_fail(err, TN_E_INVALID, "zip: an entry name is too long");
    if (unzGetCurrentFileInfo64(z->unz, NULL, z->raw, sizeof z->raw, NULL, 0, NULL, 0) != UNZ_OK)
        return broken(err, "the central directory cannot be read");
    *item = (struct zip_item){0};
    return check_entry(z, item, err) ? -1 : 1;
}

ssize_t zip_archive_read(struct zip_archive *z, void *to, size_t n, struct tn_error *err)
{
    if (!z->open) {
        if (unzOpenCurrentFile(z->unz) != UNZ_OK)
            return broken(err, "an entry cannot be opened");
        z->open = true;
        z->left = z->info.uncompressed_size;
    }
    int r = unzReadCurrentFile(z->unz, to, n > INT_MAX ? INT_MAX : (unsigned)n);
    if (r < 0 || (uint64_t)r > z->left || (r == 0 && z->left > 0))
        return broken(err, "an entry cannot be unpacked");
    z->left -= (uint64_t)r;
    if (r == 0) {
        z->open = false;
        if (unzCloseCurrentFile(z->unz) != UNZ_OK)
            return broken(err, "a checksum is wrong");
    }
    return r;
}
