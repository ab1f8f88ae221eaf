#include "gate/mask.h"

void mask_done(struct mask *m)
{
    tn_buf_done(&m->seen);
    tn_buf_done(&m->shown);
}

static void cover(struct mask *m, const struct needle *needle)
{
    const char *at = m->seen.data, *end = at + m->seen.len;

    /* Values may overlap: the next one begins at the next byte. */
    while ((at = memmem(at, (size_t)(end - at), needle->bytes, needle->size))) {
        memset(m->shown.data + (at - m->seen.data), '*', needle->size);
        at++;
    }
}

/* The longest end of what was seen that begins a needle. */
static size_t undecided(const struct mask *m, const struct needle *needle)
{
    size_t n = needle->size - 1 < m->seen.len ? needle->size - 1 : m->seen.len;

    while (n > 0 && memcmp(m->seen.data + m->seen.len - n, needle->bytes, n) != 0)
        n--;
    return n;
}

static void show(struct mask *m, size_t n, struct tn_buf *out)
{
    tn_buf_add(out, m->shown.data, n);
    tn_buf_eat(&m->seen, n);
    tn_buf_eat(&m->shown, n);
}

void mask_push(struct mask *m, const struct needle *needles, size_t count, const char *bytes,
               size_t n, struct tn_buf *out)
{
    size_t keep = 0;

    if (count == 0 || n == 0) {
        tn_buf_add(out, bytes, n);
        return;
    }
    if (tn_buf_add(&m->seen, bytes, n) < 0 || tn_buf_add(&m->shown, bytes, n) < 0) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        cover(m, &needles[i]);
        size_t open = undecided(m, &needles[i]);
        keep = open > keep ? open : keep;
    }
    show(m, m->seen.len - keep, out);
}

void mask_flush(struct mask *m, struct tn_buf *out)
{
    if (m->seen.len > 0)
        show(m, m->seen.len, out);
}
