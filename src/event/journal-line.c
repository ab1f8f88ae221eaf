#include "event/journal-line.h"

#include "event/checksum.h"

#define CHUNK ((size_t)64 << 10)
#define ID_DIGITS 12
#define ID_AT 18 /* of the id in the head; the checksum covers everything from there */

void line_head(char out[LINE_HEAD + 1], int64_t id, const char *first, size_t first_n,
               const char *rest, size_t rest_n)
{
    char number[24];

    snprintf(number, sizeof number, "%0*lld ", ID_DIGITS, (long long)id);
    uint32_t crc = tn_crc32(0, number, ID_DIGITS + 1);
    crc = tn_crc32(crc, first, first_n);
    crc = tn_crc32(crc, rest, rest_n);
    snprintf(out, LINE_HEAD + 1, "%08x %08x %.13s", (unsigned)(first_n + rest_n), (unsigned)crc,
             number);
}

static bool read_number(const char *s, size_t digits, int base, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = s[i] >= '0' && s[i] <= '9'   ? s[i] - '0'
                    : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10
                                                 : base;
        if (digit >= base)
            return false;
        *out = *out * (uint64_t)base + (uint64_t)digit;
    }
    return s[digits] == ' ';
}

bool line_parse(const char *line, size_t n, struct tn_journal_event *event)
{
    uint64_t len, crc, id;

    if (n <= LINE_HEAD || !read_number(line, 8, 16, &len) || !read_number(line + 9, 8, 16, &crc) ||
        !read_number(line + ID_AT, ID_DIGITS, 10, &id))
        return false;
    if (len != n - LINE_HEAD || crc != tn_crc32(0, line + ID_AT, n - ID_AT))
        return false;
    *event = (struct tn_journal_event){.id = (int64_t)id, .json = line + LINE_HEAD, .len = len};
    return true;
}

ssize_t line_pread(int fd, struct tn_buf *into, off_t at, size_t most, struct tn_error *err)
{
    char *room = tn_buf_reserve(into, most);
    ssize_t got;

    if (!room)
        return tn_fail(err, TN_E_TOO_LARGE, TN_JOURNAL_LOG ": no memory for %zu bytes", most);
    do
        got = pread(fd, room, most, at);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return tn_fail_errno(err, errno, TN_JOURNAL_LOG);
    tn_buf_grew(into, (size_t)got);
    return got;
}

off_t line_start_before(int fd, off_t floor, off_t end, struct tn_error *err)
{
    tn_autobuf struct tn_buf chunk = TN_BUF_INIT(CHUNK);
    off_t at = end - 1; /* its own LF */

    while (at > floor) {
        size_t n = at - floor < (off_t)CHUNK ? (size_t)(at - floor) : CHUNK;
        tn_buf_reset(&chunk);
        ssize_t got = line_pread(fd, &chunk, at - (off_t)n, n, err);
        if (got < 0)
            return -1;
        const char *lf = memrchr(tn_buf_str(&chunk), '\n', (size_t)got);
        if (lf)
            return at - (off_t)n + (lf - chunk.data) + 1;
        at -= (off_t)n;
    }
    return floor;
}

off_t line_start_after(int fd, off_t from, off_t end, struct tn_error *err)
{
    tn_autobuf struct tn_buf chunk = TN_BUF_INIT(CHUNK);

    while (from < end) {
        tn_buf_reset(&chunk);
        ssize_t got = line_pread(fd, &chunk, from, CHUNK, err);
        if (got < 0)
            return -1;
        const char *lf = got ? memchr(chunk.data, '\n', (size_t)got) : NULL;
        if (lf)
            from += lf - chunk.data + 1;
        if (lf || !got)
            return lf && from < end ? from : end;
        from += got;
    }
    return end;
}
