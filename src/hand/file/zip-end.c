#include "hand/file/zip-end.h"

#include <sys/stat.h>

enum { END = 22, END_WIDE = 56, LOCATOR = 20, COMMENT_MAX = 65535 };

int zip_input_init(struct zip_input *in, int fd, struct tn_error *err)
{
    struct stat st;

    if (fstat(fd, &st))
        return tn_fail_errno(err, errno, "zip");
    *in = (struct zip_input){.fd = fd, .size = (uint64_t)st.st_size};
    return 0;
}

int zip_input_pread(const struct zip_input *in, void *to, size_t n, uint64_t at)
{
    if (at > in->size || n > in->size - at)
        return -1;
    for (size_t done = 0; done < n;) {
        ssize_t r = pread(in->fd, (char *)to + done, n - done, (off_t)(at + done));
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return -1;
        done += (size_t)r;
    }
    return 0;
}

int zip_input_get(struct zip_input *in, void *to, size_t n, uint64_t at)
{
    if (n > sizeof in->window)
        return zip_input_pread(in, to, n, at);
    if (at > in->size || n > in->size - at)
        return -1;
    if (at < in->window_at || at + n > in->window_at + in->window_len) {
        uint64_t left = in->size - at;
        size_t len = left < sizeof in->window ? (size_t)left : sizeof in->window;
        in->window_len = 0;
        if (zip_input_pread(in, in->window, len, at))
            return -1;
        in->window_at = at;
        in->window_len = len;
    }
    memcpy(to, in->window + (at - in->window_at), n);
    return 0;
}

uint64_t zip_get(const unsigned char *b, size_t bytes)
{
    uint64_t value = 0;

    while (bytes > 0)
        value = value << 8 | b[--bytes];
    return value;
}

/* Where the end record is: it is followed by a comment of up to 64 KiB, so the last one counts. */
static int find_end(const struct zip_input *in, uint64_t *at)
{
    size_t len = in->size < END + COMMENT_MAX ? (size_t)in->size : END + COMMENT_MAX;
    uint64_t from = in->size - len;
    tn_autofree unsigned char *tail = tn_malloc(len);

    if (len < END || zip_input_pread(in, tail, len, from))
        return -1;
    for (size_t i = len - END + 1; i-- > 0;)
        if (zip_get(tail + i, 4) == 0x06054b50 && zip_get(tail + i + 20, 2) <= len - i - END) {
            *at = from + i;
            return 0;
        }
    return -1;
}

/* What both forms of the end say. */
struct end {
    uint64_t at;
    uint64_t disks; /* any number that should be 0 */
    uint64_t here, entries, size, offset;
};

/* The 64-bit form, found through its locator; 0 also when there is none. */
static int read_wide(struct zip_input *in, struct end *e, struct tn_error *err)
{
    unsigned char locator[LOCATOR], b[END_WIDE];

    if (e->at < LOCATOR || zip_input_get(in, locator, LOCATOR, e->at - LOCATOR) ||
        zip_get(locator, 4) != 0x07064b50)
        return 0;
    /* Its offset does not count bytes that somebody put before the archive; its place does not
     * move. */
    uint64_t at = zip_get(locator + 8, 8);
    if (e->at < LOCATOR + END_WIDE)
        return tn_fail(err, TN_E_INVALID, "zip: the archive is broken: no 64-bit end");
    if (zip_input_get(in, b, END_WIDE, at) || zip_get(b, 4) != 0x06064b50) {
        at = e->at - LOCATOR - END_WIDE;
        if (zip_input_get(in, b, END_WIDE, at) || zip_get(b, 4) != 0x06064b50)
            return tn_fail(err, TN_E_INVALID, "zip: the archive is broken: no 64-bit end");
    }
    *e = (struct end){.at = at,
                      .disks = zip_get(b + 16, 4) | zip_get(b + 20, 4),
                      .here = zip_get(b + 24, 8),
                      .entries = zip_get(b + 32, 8),
                      .size = zip_get(b + 40, 8),
                      .offset = zip_get(b + 48, 8)};
    return 0;
}

int zip_find_directory(struct zip_input *in, struct zip_directory *d, struct tn_error *err)
{
    unsigned char b[END];
    struct end e = {0};

    if (find_end(in, &e.at) || zip_input_get(in, b, END, e.at))
        return tn_fail(err, TN_E_INVALID, "zip: this is not a zip archive, or its end is missing");
    e.disks = zip_get(b + 4, 2) | zip_get(b + 6, 2);
    e.here = zip_get(b + 8, 2);
    e.entries = zip_get(b + 10, 2);
    e.size = zip_get(b + 12, 4);
    e.offset = zip_get(b + 16, 4);
    bool wide = e.here == UINT16_MAX || e.entries == UINT16_MAX || e.size == UINT32_MAX ||
                e.offset == UINT32_MAX;
    if (wide && read_wide(in, &e, err))
        return -1;
    if (e.disks != 0 || e.here != e.entries)
        return tn_fail(err, TN_E_UNSUPPORTED, "zip: the archive has several disks");
    if (e.size > e.at || e.offset > e.at - e.size)
        return tn_fail(err, TN_E_INVALID, "zip: the archive is broken: its directory is outside");
    *d = (struct zip_directory){.base = e.at - e.size - e.offset,
                                .start = e.at - e.size,
                                .end = e.at,
                                .entries = e.entries};
    return 0;
}
