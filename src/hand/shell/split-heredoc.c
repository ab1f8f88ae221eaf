/* Here-documents: their delimiters, and the bodies that follow the line. */
#include "hand/shell/split-parse.h"

#include <string.h>

/* Whether a backslash before next is dropped inside this quote. */
static bool is_escapable(char quote, bool ansi, char next)
{
    if (!quote)
        return true;
    const char *set = ansi ? "'\"\\" : quote == '"' ? "$`\"\\\n" : "";
    return next && strchr(set, next);
}

/* Appends the word without its quotes, which is what the closing line looks like. */
static void unquote(struct parser *p, size_t start, size_t end)
{
    char quote = 0;
    bool ansi = false;
    for (size_t i = start; i < end; i++) {
        char c = p->text[i];
        char next = i + 1 < end ? p->text[i + 1] : 0;
        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
            ansi = false;
        } else if (!quote && c == '$' && (next == '\'' || next == '"')) {
            quote = next;
            ansi = next == '\'';
            i++;
        } else if (c == '\\' && i + 1 < end && is_escapable(quote, ansi, next)) {
            if (next != '\n')
                tn_buf_putc(&p->delimiters, next);
            i++;
        } else {
            tn_buf_putc(&p->delimiters, c);
        }
    }
}

/* A delimiter that holds a here-document itself, or lines: bash alone knows where that ends. */
static bool is_plain(const char *word, size_t len)
{
    return !memchr(word, '\n', len) && !memmem(word, len, "<<", 2);
}

void split_add_heredoc(struct parser *p, size_t start, size_t end, bool tabs)
{
    if (!is_plain(p->text + start, end - start)) {
        split_stop(p, TN_SPLIT_UNSURE);
        return;
    }
    if (p->heredoc_count - p->heredoc_base >= SPLIT_MAX_HEREDOCS) {
        split_stop(p, TN_SPLIT_UNSURE);
        return;
    }
    if (p->heredoc_count == p->heredoc_cap) {
        p->heredoc_cap = p->heredoc_cap ? p->heredoc_cap * 2 : SPLIT_MAX_HEREDOCS;
        p->heredocs = tn_realloc(p->heredocs, p->heredoc_cap * sizeof(*p->heredocs));
    }
    struct heredoc *h = &p->heredocs[p->heredoc_count++];
    *h = (struct heredoc){.start = p->delimiters.len, .tabs = tabs};
    unquote(p, start, end);
    h->len = p->delimiters.len - h->start;
    h->quoted = h->len != end - start;
    if (memchr(p->text + start, '\\', end - start))
        split_beyond_word(p, start);
    else if (h->quoted)
        split_beyond_command(p); /* it looks for the quotes in the closing line, too */
    enum phase phase = split_top(p)->phase;
    p->late = phase != IN_TOP && phase != IN_SUBSTITUTION;
    if (!tn_buf_ok(&p->delimiters)) {
        p->no_memory = true;
        split_stop(p, TN_SPLIT_UNSURE);
    }
}

/* Moves past one line of a body, and past the lines that backslashes join to it.  True when it is
 * the closing line.  Inside a substitution the closing line may go on with the substitution's `)`.
 */
static bool skip_body_line(struct parser *p, const struct heredoc *h)
{
    const char *delimiter = tn_buf_str(&p->delimiters) + h->start;
    size_t matched = 0, after = 0;
    bool same = true, escaped = false;

    while (h->tabs && split_peek(p, 0) == '\t')
        p->pos++;
    if (h->len == 0)
        after = p->pos;
    for (; p->pos < p->len && !split_line_end(p, 0); p->pos++) {
        char c = p->text[p->pos];
        size_t eol = c == '\\' && !h->quoted && !escaped ? split_line_end(p, 1) : 0;
        if (eol) {
            p->pos += eol;
            continue;
        }
        escaped = c == '\\' && !escaped;
        if (same && matched < h->len && c == delimiter[matched]) {
            if (++matched == h->len)
                after = p->pos + 1;
        } else {
            same = false;
            if (c == ')' && after && p->substitutions) {
                p->last_end = after;
                return split_go_back(p, after);
            }
        }
    }
    bool closed = same && matched == h->len;
    if (closed)
        p->last_end = p->pos;
    p->at_end = p->pos == p->len;
    p->pos += split_line_end(p, 0);
    return closed;
}

void split_read_heredocs(struct parser *p)
{
    for (size_t i = p->heredoc_base; i < p->heredoc_count; i++) {
        bool closed = false;
        size_t start = p->pos;
        if (p->late && i + 1 == p->heredoc_count)
            split_beyond_body(p, &p->heredocs[i]);
        while (!closed && p->running && (p->pos < p->len || !p->at_end))
            closed = skip_body_line(p, &p->heredocs[i]);
        if (!closed) {
            if (p->running)
                split_stop(p, TN_SPLIT_INCOMPLETE);
            return;
        }
        split_beyond_body_end(p, start);
    }
    p->late = false;
    if (p->heredoc_count > p->heredoc_base) {
        tn_buf_cut(&p->delimiters, p->heredocs[p->heredoc_base].start);
        p->heredoc_count = p->heredoc_base;
    }
}
