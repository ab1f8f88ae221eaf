#include "engine/stream.h"

/* --- frames ----------------------------------------------------------------------------------- */

static int begin_frame(struct engine_frames *f)
{
    const unsigned char *h = f->head;

    f->have = 0;
    f->broken = h[0] > 2 || h[1] || h[2] || h[3];
    f->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
    return f->broken;
}

int engine_frames_take(const void *bytes, size_t n, void *frames)
{
    struct engine_frames *f = frames;
    const char *p = bytes;

    while (n > 0 && !f->broken) {
        size_t piece = f->left ? f->left : sizeof f->head - f->have;
        if (piece > n)
            piece = n;
        if (f->left) {
            f->left -= (uint32_t)piece;
            /* Engines call standard input 0 and mean what they echo of it. */
            if (f->fn && f->fn(f->head[0] == 2 ? 2 : 1, p, piece, f->ctx))
                return 1;
        } else {
            memcpy(f->head + f->have, p, piece);
            f->have += piece;
            if (f->have == sizeof f->head && begin_frame(f))
                return 1;
        }
        p += piece;
        n -= piece;
    }
    return f->broken;
}

/* --- lines ------------------------------------------------------------------------------------ */

static int take_line(struct engine_lines *l)
{
    tn_autojson struct tn_json *object = NULL;
    const char *text = tn_buf_str(&l->line);

    if (strspn(text, " \t\r\n") == l->line.len)
        return 0;
    if (tn_json_parse(text, l->line.len, &object, &l->err) < 0) {
        l->failed = true;
        return tn_error_context(&l->err, "the engine's progress");
    }
    int r = l->fn(object, l->ctx, &l->err);
    l->failed = r < 0;
    return r;
}

int engine_lines_take(const void *bytes, size_t n, void *lines)
{
    struct engine_lines *l = lines;
    const char *p = bytes, *end = p + n;

    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t piece = (size_t)((newline ? newline : end) - p);
        if (tn_buf_add(&l->line, p, piece) < 0) {
            l->failed = true;
            return tn_fail(&l->err, TN_E_TOO_LARGE, "the engine sent a line of more than %zu bytes",
                           l->line.max);
        }
        p += piece + (newline != NULL);
        if (!newline)
            break;
        int r = take_line(l);
        tn_buf_reset(&l->line);
        if (r)
            return r;
    }
    return 0;
}

int engine_lines_end(struct engine_lines *l)
{
    int r = l->failed ? -1 : take_line(l);

    tn_buf_reset(&l->line);
    return r;
}
