#include "hand/browser/view-text-writer.h"

enum { QUOTES_MAX = 20, INDENT_MAX = 40 };

void tn_text_break(struct tn_text_writer *w, int breaks)
{
    if (w->link)
        w->space = true;
    else if (!w->fresh && w->breaks < breaks)
        w->breaks = breaks;
}

void tn_text_newline(struct tn_text_writer *w)
{
    if (w->link)
        w->space = true;
    else if (w->breaks < 2)
        w->breaks++;
}

static void start_line(struct tn_text_writer *w)
{
    for (size_t i = 0; i < w->quotes && i < QUOTES_MAX; i++)
        tn_buf_puts(w->out, "> ");
    tn_buf_printf(w->out, "%*s", w->indent < INDENT_MAX ? (int)w->indent : INDENT_MAX, "");
    if (w->pre)
        tn_buf_puts(w->out, "    ");
}

/* What is due before text. */
static void write_due(struct tn_text_writer *w)
{
    if (w->out->len == 0 || w->breaks) {
        for (int i = 0; i < w->breaks && w->out->len; i++)
            tn_buf_putc(w->out, '\n');
        start_line(w);
    } else if (w->space && !w->fresh) {
        tn_buf_putc(w->out, ' ');
    }
    w->breaks = 0;
    w->space = w->fresh = false;
    for (size_t i = 0; i < w->mark_count; i++) {
        if (!w->marks[i].written)
            tn_buf_puts(w->out, w->marks[i].open);
        w->marks[i].written = true;
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
}

static void add_collapsed(struct tn_text_writer *w, const char *s, size_t n)
{
    for (size_t at = 0; at < n;) {
        if (is_space(s[at])) {
            w->space = true;
            at++;
            continue;
        }
        size_t from = at;
        while (at < n && !is_space(s[at]))
            at++;
        write_due(w);
        tn_buf_add(w->out, s + from, at - from);
    }
}

static void add_lines(struct tn_text_writer *w, const char *s, size_t n)
{
    while (n) {
        const char *newline = memchr(s, '\n', n);
        size_t line = newline ? (size_t)(newline - s) : n;
        if (line) {
            w->space = false;
            write_due(w);
            tn_buf_add(w->out, s, line);
        }
        if (!newline)
            return;
        w->breaks++;
        s += line + 1;
        n -= line + 1;
    }
}

void tn_text_add(struct tn_text_writer *w, const char *s, size_t n)
{
    if (w->out->len > w->max)
        return;
    if (w->pre && !w->link)
        add_lines(w, s, n);
    else
        add_collapsed(w, s, n);
}

void tn_text_lead(struct tn_text_writer *w, const char *s)
{
    write_due(w);
    tn_buf_puts(w->out, s);
    w->fresh = true;
}

void tn_text_open(struct tn_text_writer *w, size_t level, const char *open, const char *close)
{
    if (w->mark_count == w->mark_cap) {
        w->mark_cap = w->mark_cap ? w->mark_cap * 2 : 16;
        w->marks = tn_realloc(w->marks, w->mark_cap * sizeof w->marks[0]);
    }
    w->marks[w->mark_count++] =
        (struct tn_text_mark){.open = open, .close = tn_strdup(close), .level = level};
}

void tn_text_close(struct tn_text_writer *w, size_t level)
{
    while (w->mark_count && w->marks[w->mark_count - 1].level >= level) {
        struct tn_text_mark *mark = &w->marks[--w->mark_count];
        if (mark->written)
            tn_buf_puts(w->out, mark->close);
        free(mark->close);
    }
}

bool tn_text_is_open(const struct tn_text_writer *w, const char *open)
{
    for (size_t i = 0; i < w->mark_count; i++)
        if (strcmp(w->marks[i].open, open) == 0)
            return true;
    return false;
}

void tn_text_writer_done(struct tn_text_writer *w)
{
    tn_text_close(w, 0);
    free(w->marks);
}
