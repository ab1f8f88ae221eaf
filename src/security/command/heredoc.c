/* Here-documents: their delimiters, and the bodies that follow the line. */
#include "security/command/parse.h"

enum { MAX_PENDING = 16 }; /* as bash */

void sh_add_heredoc(struct parser *p, struct tn_sh_redirect *redirect)
{
    struct pending *last = sh_get(p, sizeof(*last));
    struct pending **tail = &p->pending;
    size_t count = 1;
    last->redirect = redirect;
    for (; *tail; tail = &(*tail)->next)
        count++;
    *tail = last;
    if (count > MAX_PENDING)
        sh_wrong(p, p->pos, "more than %d here-documents in a line", MAX_PENDING);
}

/* The delimiter as its closing line shows it: without quotes, and nothing in it is expanded. */
static const char *delimiter(struct parser *p, struct tn_sh_redirect *r)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_SH_MAX_TEXT);
    for (const struct tn_sh_part *part = r->target->parts; part; part = part->next) {
        r->quoted = r->quoted || (part->quoted && part->kind == TN_SH_TEXT);
        if (part->kind == TN_SH_TEXT)
            tn_buf_puts(&text, part->text);
        else
            tn_buf_add(&text, p->text + part->start, part->end - part->start);
    }
    return tn_arena_copy(p->common->tree->arena, tn_buf_str(&text), text.len);
}

/* Appends one line of the body to out, with its newline: of an unquoted one also the lines that
 * backslashes join to it. */
static void read_line(struct parser *p, const struct tn_sh_redirect *r, struct tn_buf *out)
{
    while (r->tabs && p->pos < p->len && p->text[p->pos] == '\t')
        p->pos++;
    while (p->pos < p->len) {
        char c = p->text[p->pos++];
        char next = p->pos < p->len ? p->text[p->pos] : 0;
        if (c == '\\' && !r->quoted && next) {
            p->pos++;
            if (next == '\n')
                continue;
            tn_buf_putc(out, c);
            c = next;
        }
        tn_buf_putc(out, c);
        if (c == '\n')
            return;
    }
}

/* Whether the line at `line` closes the body.  In a substitution its ) may follow at once. */
static bool closes(struct parser *p, const char *line, const char *end, size_t start)
{
    size_t len = strlen(end);
    if (strncmp(line, end, len) != 0)
        return false;
    if (line[len] == ')' && p->substitutions) {
        const char *raw = memmem(p->text + start, p->pos - start, end, len);
        p->pos = raw ? (size_t)(raw - p->text) + len : p->pos;
        return raw;
    }
    return line[len] == 0 || (line[len] == '\n' && line[len + 1] == 0);
}

static void read_body(struct parser *p, struct tn_sh_redirect *r)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(TN_SH_MAX_TEXT + 1);
    const char *end = delimiter(p, r);
    r->body_start = r->body_end = p->pos;
    while (p->pos < p->len) {
        size_t line = body.len, start = p->pos;
        read_line(p, r, &body);
        bool closed = closes(p, tn_buf_str(&body) + line, end, start);
        if (closed) {
            tn_buf_cut(&body, line);
            break;
        }
        r->body_end = p->pos;
    }
    struct tn_arena *arena = p->common->tree->arena;
    r->source = tn_arena_copy(arena, tn_buf_str(&body), body.len);
    if (!r->quoted)
        r->body = sh_inner_word(p, r->source, body.len);
}

void sh_read_heredocs(struct parser *p)
{
    struct pending *pending = p->pending;
    p->pending = NULL;
    for (; pending; pending = pending->next)
        read_body(p, pending->redirect);
}
