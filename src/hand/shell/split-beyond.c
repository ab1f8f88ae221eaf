/* What OpenHands' parser (bashlex 0.18) gives up on, or fails at.  What the grammar and the reader
 * meet is told here; this file knows in which places it counts.
 *
 * That parser knows no arithmetic expansion, array, [[, case, select, time, coproc, pattern such as
 * @(a|b), nor a here-document whose delimiter is quoted.  Beyond that it has habits of its own:
 *
 * - ((...)) is two subshells to it.
 * - Of a substitution over several lines it reads the first line as commands, the others as the
 *   words they are made of; of backquotes it reads nothing but the first line.
 * - Of a here-document inside a compound command it reads the first line as commands, too, unless
 *   something follows the delimiter.  In substitutions it sees expansions in bodies and comments.
 * - A substitution must not end in a list joined by && || or &, nor in ; or &.
 * - ${ ends at the next }, and what lies between is not read.
 * - A quote inside a word does not hide a $( or a ` in it.
 *
 * Where it is a question of how far to follow, a text rather counts as beyond: it is run. */
#include "hand/shell/split-parse.h"

#include <string.h>

void split_beyond_command(struct parser *p)
{
    if (!p->unread && p->pos >= p->skip_until)
        p->beyond = true;
}

void split_beyond_word(struct parser *p, size_t at)
{
    if (at >= p->skip_until)
        p->beyond = true;
}

bool split_is_live(const struct parser *p, size_t start, size_t end)
{
    for (size_t i = start; i < end; i++) {
        char c = p->text[i], next = i + 1 < end ? p->text[i + 1] : 0;
        if (c == '\\')
            i++;
        else if (c == '`' || (c == '$' && (next == '(' || next == '[')) ||
                 ((c == '<' || c == '>') && next == '('))
            return true;
    }
    return false;
}

void split_beyond_text(struct parser *p, size_t start, size_t end)
{
    if (split_is_live(p, start, end))
        split_beyond_word(p, start);
}

enum { MAX_LEVEL = 4 };

/* Whether it would read these bytes as commands. */
static bool reads(struct parser *p, size_t start, size_t end, bool one_line)
{
    size_t len = end - start;
    if (p->level == MAX_LEVEL || len > *p->budget)
        return false;
    *p->budget -= len;
    struct parser inner = {.text = p->text + start,
                           .len = len,
                           .one_line = one_line,
                           .level = p->level + 1,
                           .budget = p->budget};
    struct tn_split split;
    if (split_run(&inner, &split) < 0)
        return false;
    bool good = split.state == TN_SPLIT_COMPLETE && !split.beyond && inner.command_count > 0;
    tn_split_done(&split);
    return good;
}

void split_beyond_inner(struct parser *p, size_t start, size_t end, bool backquotes)
{
    if (p->beyond || start < p->skip_until || (backquotes ? start == end : p->unread))
        return;
    bool escaped = backquotes && memmem(p->text + start, end - start, "\\`", 2);
    if (escaped || !reads(p, start, end, backquotes))
        p->beyond = true;
}

void split_beyond_close(struct parser *p, const struct frame *f)
{
    bool loose = f->at == AT_START; /* nothing, or ; or & at the end */
    if (loose || f->separator == S_AND_OR || f->separator == S_AMP)
        split_beyond_command(p);
    if (f->skipped && p->skip_until < p->pos)
        p->beyond = true; /* what it took for the end of ${ lies inside */
}

void split_beyond_body(struct parser *p, const struct heredoc *h)
{
    if (p->beyond || p->unread)
        return;
    size_t end = p->pos;
    while (end < p->len && p->text[end] != '\n')
        end++;
    size_t start = p->pos;
    while (start < end && (p->text[start] == ' ' || p->text[start] == '\t'))
        start++;
    bool empty = end - p->pos == h->len &&
                 memcmp(p->text + p->pos, tn_buf_str(&p->delimiters) + h->start, h->len) == 0;
    bool blank = start == end || p->text[start] == '#';
    if (empty || (!blank && !reads(p, start, end, false)))
        p->beyond = true;
}

void split_beyond_body_end(struct parser *p, size_t start)
{
    if (p->substitutions)
        split_beyond_text(p, start, p->pos);
}
