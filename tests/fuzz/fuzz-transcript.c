/* Bytes from a terminal's child, in a window of any size, read in the middle and at the end.
 *
 * The first bytes choose the size, the limits and the place of the first reading.  Whatever
 * follows:
 *   - the text is valid UTF-8 without blanks or newlines at the end, within the limits;
 *   - it does not depend on how the bytes were cut;
 *   - a second reading gives the end of the text, and what it leaves out was read before. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "hand/shell/transcript.h"

enum { HEADER = 6, TEXT_MAX = 64 << 20 };

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_text(const struct tn_buf *text)
{
    check(tn_utf8_valid(tn_buf_str(text), text->len));
    check(!memchr(tn_buf_str(text), '\r', text->len) &&
          !memchr(tn_buf_str(text), '\x1b', text->len));
    check(!strstr(tn_buf_str(text), " \n"));
    check(text->len == 0 || !strchr(" \n", text->data[text->len - 1]));
}

static bool contains(const struct tn_buf *all, const char *part, size_t n)
{
    while (n > 0 && strchr(" \n", part[n - 1]))
        n--;
    return n == 0 || memmem(tn_buf_str(all), all->len, part, n) != NULL;
}

static void check_second_reading(const struct tn_buf *first, const struct tn_buf *second,
                                 const struct tn_buf *whole)
{
    check(second->len <= whole->len);
    size_t kept = whole->len - second->len;
    check(strcmp(tn_buf_str(whole) + kept, tn_buf_str(second)) == 0);
    check(contains(first, tn_buf_str(whole), kept));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEADER)
        return 0;
    int columns = data[0], rows = data[1] % 64;
    size_t max_rows = data[2], max_bytes = (size_t)data[3] * data[3] * 4;
    const char *bytes = (const char *)data + HEADER;
    size_t n = size - HEADER;
    size_t cut = n > 0 ? ((size_t)data[4] << 8 | data[5]) % (n + 1) : 0;

    tn_autobuf struct tn_buf first = TN_BUF_INIT(TEXT_MAX);
    tn_autobuf struct tn_buf second = TN_BUF_INIT(TEXT_MAX);
    tn_autobuf struct tn_buf whole = TN_BUF_INIT(TEXT_MAX);
    struct tn_transcript *t = tn_transcript_new(columns, rows, max_rows, max_bytes);
    struct tn_transcript *bytewise = tn_transcript_new(columns, rows, max_rows, max_bytes);

    for (size_t i = 0; i < n; i++)
        tn_transcript_feed(bytewise, bytes + i, 1);
    tn_transcript_take(bytewise, &whole);
    check_text(&whole);

    tn_transcript_feed(t, bytes, cut);
    tn_transcript_take(t, &first);
    check_text(&first);
    tn_transcript_feed(t, bytes + cut, n - cut);
    check(tn_transcript_dropped(t) == tn_transcript_dropped(bytewise));
    check(tn_transcript_rows(t) == tn_transcript_rows(bytewise));
    check(tn_transcript_rows(t) <= max_rows || tn_transcript_rows(t) <= (size_t)(rows ? rows : 1));
    tn_transcript_peek(t, &second);
    check(!strstr(tn_buf_str(&second), " \n"));
    if (tn_transcript_dropped(t) == 0)
        check_second_reading(&first, &second, &whole);

    tn_transcript_untake(t);
    tn_transcript_resize(t, data[4], data[5] % 64);
    tn_transcript_feed(t, bytes, cut);
    tn_buf_reset(&second);
    tn_transcript_take(t, &second);
    check(tn_utf8_valid(tn_buf_str(&second), second.len));

    tn_transcript_clear(t);
    tn_buf_reset(&second);
    tn_transcript_take(t, &second);
    check(second.len == 0 && tn_transcript_rows(t) == 0);
    tn_transcript_free(t);
    tn_transcript_free(bytewise);
    return 0;
}
