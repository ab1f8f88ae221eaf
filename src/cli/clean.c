#include "cli/clean.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/utf8.h"

bool clean_is_printable(uint32_t point)
{
    return !(point < 0x20 || (point >= 0x7f && point < 0xa0) ||
             (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069));
}

char *clean_text(const char *text, int most, int *width)
{
    size_t n = strlen(text);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4 * n + 8);

    *width = 0;
    for (size_t i = 0; i < n;) {
        uint32_t point;
        char utf8[4];
        size_t length = tn_utf8_decode(text + i, n - i, &point);

        if (length == 0 || !clean_is_printable(point))
            point = '?';
        int columns = tn_utf8_width(point);
        if (*width + columns > most)
            break;
        tn_buf_add(&out, utf8, tn_utf8_encode(point, utf8));
        *width += columns;
        i += length ? length : 1;
    }
    return tn_buf_take(&out);
}

void print_clean_to(FILE *to, const char *text)
{
    int width;
    tn_autofree char *safe = clean_text(text, INT32_MAX, &width);

    fputs(safe, to);
}

void print_clean(const char *text)
{
    print_clean_to(stdout, text);
}

void print_message(FILE *to, const char *text)
{
    do {
        size_t n = strcspn(text, "\n");
        tn_autofree char *line = tn_strndup(text, n);
        for (char *c = line; *c; c++)
            if (*c == '\t' || *c == '\r')
                *c = ' ';
        print_clean_to(to, line);
        fputc('\n', to);
        text += n + (text[n] == '\n');
    } while (*text);
}

void print_content_lines(FILE *to, const char *text)
{
    size_t n = strlen(text);

    if (isatty(fileno(to))) {
        print_message(to, text);
        return;
    }
    fputs(text, to);
    if (n == 0 || text[n - 1] != '\n')
        fputc('\n', to);
}

/* --- streams ------------------------------------------------------------------------------- */

/* How many bytes the character has that begins so. */
static size_t length_of(unsigned char first)
{
    return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* What is held is a character, or will never be one. */
static void put_held(struct clean_stream *s, struct tn_buf *out)
{
    uint32_t point;
    bool whole = tn_utf8_decode(s->held, s->count, &point) == s->count;

    if (whole && (clean_is_printable(point) || point == '\n' || point == '\t'))
        tn_buf_add(out, s->held, s->count);
    else if (!whole || point != '\r')
        tn_buf_putc(out, '?');
    s->count = 0;
}

int clean_stream_write(struct clean_stream *s, int fd, const char *bytes, size_t n,
                       struct tn_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(n + 8);

    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (s->count && (byte & 0xc0) != 0x80)
            put_held(s, &out);
        s->held[s->count++] = (char)byte;
        if (s->count >= length_of((unsigned char)s->held[0]))
            put_held(s, &out);
    }
    return tn_fs_write(fd, tn_buf_str(&out), out.len, err);
}
