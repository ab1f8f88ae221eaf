#include "hand/file/lines.h"

#include <stdbool.h>

#include "base/utf8.h"

#define CHUNK 65536

/* A pass through the file.  In a chunk, a CR at the end of the one before is not forgotten. */
struct pass {
    int fd;
    uint64_t at; /* in the file */
    char *chunk;
    size_t n;
    bool after_cr;
};

static void start(struct pass *p, int fd)
{
    *p = (struct pass){.fd = fd, .chunk = tn_malloc(CHUNK)};
}

/* The next chunk, after `kept` bytes of the last one that stay at its front: 1, 0 at the end, -1.
 */
static int next(struct pass *p, size_t kept, struct tn_error *err)
{
    ssize_t n;

    do
        n = pread(p->fd, p->chunk + kept, CHUNK - kept, (off_t)p->at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return tn_fail_errno(err, errno, "read");
    p->at += (uint64_t)n;
    p->n = kept + (size_t)n;
    return n > 0;
}

/* How many bytes at the end of the chunk are the start of a character that goes on in the next. */
static size_t unfinished(const char *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)s[n - back];
        size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;
        if (need)
            return need > back ? back : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* Line endings among the bytes from `from` on; the LF of a CRLF does not count again. */
static uint64_t count_endings(struct pass *p, size_t from)
{
    uint64_t count = 0;

    for (size_t i = from; i < p->n; i++) {
        char c = p->chunk[i];
        count += c == '\r' || (c == '\n' && !p->after_cr);
        p->after_cr = c == '\r';
    }
    return count;
}

static int count_lines(struct pass *p, uint64_t *count, struct tn_error *err)
{
    size_t kept = 0;
    bool finished = true;
    int r;

    *count = 0;
    while ((r = next(p, kept, err)) > 0) {
        *count += count_endings(p, kept);
        finished = p->chunk[p->n - 1] == '\n' || p->chunk[p->n - 1] == '\r';
        kept = unfinished(p->chunk, p->n);
        if (!tn_utf8_valid(p->chunk, p->n - kept))
            return tn_fail(err, TN_E_MEDIA_TYPE, "not UTF-8");
        memmove(p->chunk, p->chunk + p->n - kept, kept);
    }
    if (r == 0 && kept > 0)
        return tn_fail(err, TN_E_MEDIA_TYPE, "not UTF-8");
    *count += !finished;
    return r;
}

int lines_count(int fd, uint64_t *count, struct tn_error *err)
{
    struct pass p;

    start(&p, fd);
    int r = count_lines(&p, count, err);
    free(p.chunk);
    return r;
}

static int copy_lines(struct pass *p, uint64_t first, uint64_t end, struct tn_buf *out,
                      struct tn_error *err)
{
    uint64_t line = 0;
    int r;

    while (line < end && (r = next(p, 0, err))) {
        if (r < 0)
            return -1;
        for (size_t i = 0; i < p->n && line < end;) {
            size_t run = i;
            while (run < p->n && p->chunk[run] != '\n' && p->chunk[run] != '\r')
                run++;
            if (run > i)
                p->after_cr = false;
            bool wanted = line >= first;
            bool ending = run < p->n && !(p->chunk[run] == '\n' && p->after_cr);
            if (wanted &&
                (tn_buf_add(out, p->chunk + i, run - i) || (ending && tn_buf_putc(out, '\n'))))
                return tn_fail(err, TN_E_TOO_LARGE, "too large");
            line += ending;
            p->after_cr = run < p->n && p->chunk[run] == '\r';
            i = run + 1;
        }
    }
    return 0;
}

int lines_copy(int fd, uint64_t first, uint64_t end, struct tn_buf *out, struct tn_error *err)
{
    struct pass p;

    start(&p, fd);
    int r = copy_lines(&p, first, end, out, err);
    free(p.chunk);
    return r;
}
