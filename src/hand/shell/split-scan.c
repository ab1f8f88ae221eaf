/* The reading half of the splitter: from bytes to tokens, through words, quotes and expansions. */
#include "hand/shell/split-parse.h"

#include <string.h>

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(int c)
{
    return c == ' ' || c == '\t';
}

/* --- quotes and expansions --------------------------------------------------------------- */

/* At a backslash.  A continuation that the text ends with leaves the command incomplete. */
static void skip_escape(struct parser *p)
{
    size_t eol = split_line_end(p, 1);
    p->pos += eol ? 1 + eol : 2;
    if (p->pos > p->len || (eol && p->pos == p->len))
        split_stop(p, TN_SPLIT_INCOMPLETE);
}

/* Moves past the next `quote`, which a backslash may escape. */
static void skip_escaped_quote(struct parser *p, char quote)
{
    for (; p->pos < p->len; p->pos++) {
        if (p->text[p->pos] == '\\') {
            p->pos++;
        } else if (p->text[p->pos] == quote) {
            p->pos++;
            return;
        }
    }
    split_stop(p, TN_SPLIT_INCOMPLETE);
}

static void skip_single_quote(struct parser *p)
{
    const char *end = memchr(p->text + p->pos, '\'', p->len - p->pos);
    if (end)
        p->pos = (size_t)(end - p->text) + 1;
    else
        split_stop(p, TN_SPLIT_INCOMPLETE);
}

/* Enters a text frame whose opening bracket has been read. */
static void open_nested(struct parser *p, enum phase phase)
{
    struct frame *f = split_push(p, phase);
    if (f)
        f->mark = 1;
}

/* After $( <( or >(.  A second parenthesis makes it arithmetic, as far as finding the end goes. */
static void open_substitution(struct parser *p)
{
    if (split_peek(p, 0) == '(') {
        open_nested(p, IN_PARENS);
        return;
    }
    struct frame *f = split_push(p, IN_SUBSTITUTION);
    if (!f)
        return;
    f->unread = p->unread;
    f->skipped = p->pos < p->skip_until;
    p->unread = f->skipped;
    f->mark = p->heredoc_base;
    p->heredoc_base = p->heredoc_count;
    p->substitutions++;
}

/* After ${.  OpenHands' parser looks for the first } and for nothing before that. */
static void open_parameter(struct parser *p)
{
    const char *end = memchr(p->text + p->pos, '}', p->len - p->pos);
    size_t skip = end ? (size_t)(end - p->text) : p->len;
    if (p->pos >= p->skip_until)
        p->skip_until = skip;
    open_nested(p, IN_PARAM);
}

static void scan_dollar(struct parser *p, bool quoted)
{
    int next = split_peek(p, 1);
    if (next == '[' || (next == '(' && split_peek(p, 2) == '('))
        split_beyond_word(p, p->pos);
    if (next == '(') {
        p->pos += 2;
        open_substitution(p);
    } else if (next == '{') {
        p->pos += 2;
        open_parameter(p);
    } else if (next == '[') {
        p->pos += 2;
        open_nested(p, IN_BRACKETS);
    } else if (next == '\'' && !quoted) {
        p->pos += 2;
        size_t start = p->pos;
        skip_escaped_quote(p, '\'');
        if (p->running)
            split_beyond_text(p, start, p->pos);
    } else {
        p->pos += next == '$' ? 2 : 1;
    }
}

/* Reads one byte or one quoted piece of text inside this kind of frame; may push another. */
static void scan_piece(struct parser *p, enum phase phase)
{
    int c = split_peek(p, 0);
    bool quoted = phase == IN_DQUOTE;
    bool comparing = phase != IN_WORD && phase != IN_PARAM; /* a<(b) is no process substitution */
    if (c == '\\') {
        skip_escape(p);
    } else if (c == '$') {
        scan_dollar(p, quoted);
    } else if (c == '`') {
        size_t start = ++p->pos;
        skip_escaped_quote(p, '`');
        if (p->running)
            split_beyond_inner(p, start, p->pos - 1, true);
    } else if (c == '"' && !quoted) {
        p->pos++;
        open_nested(p, IN_DQUOTE);
    } else if (c == '\'' && !quoted) {
        size_t start = ++p->pos;
        skip_single_quote(p);
        if (phase == IN_WORD && !p->unread)
            split_top(p)->live = split_top(p)->live || split_is_live(p, start, p->pos);
        else
            split_beyond_text(p, start, p->pos);
    } else if ((c == '<' || c == '>') && split_peek(p, 1) == '(' && !comparing) {
        p->pos += 2;
        open_substitution(p);
    } else {
        p->pos++;
    }
}

/* --- bracketed text ---------------------------------------------------------------------- */

static const struct {
    char open, close; /* the same: brackets of this kind do not nest */
} brackets[] = {
    [IN_DQUOTE] = {'"', '"'},   [IN_PARAM] = {'}', '}'}, [IN_PARENS] = {'(', ')'},
    [IN_BRACKETS] = {'[', ']'}, [IN_ARITH] = {'(', ')'}, [IN_FOR_ARITH] = {'(', ')'},
};

/* (( was the start of two subshells: read them as such, unless the first reading met
 * here-documents: they would be there twice. */
static void reread_as_subshell(struct parser *p, struct frame *f)
{
    if (p->heredoc_count != f->heredocs) {
        split_stop(p, TN_SPLIT_UNSURE);
        return;
    }
    if (!split_go_back(p, f->start))
        return;
    bool may_params = f->may_params;
    split_set(f, IN_SUBSHELL);
    f->may_params = may_params;
}

static void close_nested(struct parser *p)
{
    struct frame *f = split_top(p);
    if (f->phase != IN_ARITH && f->phase != IN_FOR_ARITH) {
        p->depth--;
        return;
    }
    bool arithmetic = split_peek(p, 0) == ')';
    if (arithmetic) {
        if (f->phase == IN_ARITH)
            split_beyond_inner(p, f->start + 1, p->pos - 1, false);
        p->pos++;
        p->last_end = p->pos;
        if (f->phase == IN_ARITH)
            split_compound_done(p);
        else
            split_set(f, IN_FOR_SEMI);
    } else if (f->phase == IN_ARITH) {
        reread_as_subshell(p, f);
    } else {
        split_stop(p, TN_SPLIT_UNSURE);
    }
}

static void scan_nested(struct parser *p)
{
    struct frame *f = split_top(p);
    char open = brackets[f->phase].open, close = brackets[f->phase].close;
    size_t depth = p->depth;

    while (p->running && p->depth == depth) {
        if (p->pos == p->len) {
            split_stop(p, TN_SPLIT_INCOMPLETE);
        } else if (p->text[p->pos] == close) {
            p->pos++;
            if (--f->mark == 0) {
                close_nested(p);
                return;
            }
        } else if (p->text[p->pos] == open) {
            p->pos++;
            f->mark++;
        } else {
            scan_piece(p, f->phase);
        }
    }
}

/* --- words ------------------------------------------------------------------------------- */

static bool is_pattern_prefix(int c)
{
    return c == '?' || c == '*' || c == '+' || c == '@' || c == '!';
}

static bool ends_word(const struct parser *p)
{
    int c = split_peek(p, 0);
    return is_blank(c) || (c > 0 && strchr("|&;()<>", c)) || split_line_end(p, 0);
}

/* 2 in 2>file, {fd} in {fd}>file. */
static bool is_redirect_prefix(const struct parser *p, size_t start, size_t end)
{
    if (split_peek(p, 0) != '<' && split_peek(p, 0) != '>')
        return false;
    bool braces = p->text[start] == '{' && p->text[end - 1] == '}' && end - start > 2;
    for (size_t i = start + braces; i < end - braces; i++) {
        bool digit = is_digit(p->text[i]);
        if (braces ? !is_letter(p->text[i]) && (!digit || i == start + 1) : !digit)
            return false;
    }
    return true;
}

static void end_word(struct parser *p)
{
    struct frame word = *split_top(p);
    size_t end = p->pos;
    while (p->text[end - 1] == '\n') /* continued, but nothing came */
        end -= p->text[end - 2] == '\r' ? 3 : 2;
    p->depth--;
    p->last_end = end;
    /* From quote to quote OpenHands' parser takes a word as it is. */
    if (word.live && (p->text[word.start] != '\'' || p->text[end - 1] != '\''))
        split_beyond_word(p, end);
    if (!is_redirect_prefix(p, word.start, end))
        split_word(p, word.start, end, word.mark > 0);
}

/* Follows the start of name=, name+= and name[...]=.  False: nothing of that here, read on. */
static bool scan_assignment(struct parser *p, struct frame *f)
{
    int c = split_peek(p, 0);
    bool first = p->pos == f->start;
    if (f->flags & WORD_ELEMENT) {
        f->flags &= ~(unsigned)WORD_ELEMENT;
        if (c != '[')
            return false;
        p->pos++;
        open_nested(p, IN_BRACKETS);
        return true;
    }
    if ((f->flags & WORD_NAME) && (is_letter(c) || (is_digit(c) && !first))) {
        p->pos++;
        return true;
    }
    bool subscript = (f->flags & WORD_NAME) && c == '[' && !first;
    f->flags &= ~(unsigned)(WORD_NAME | WORD_INDEX);
    if (subscript) {
        f->flags |= WORD_INDEX;
        p->pos++;
        open_nested(p, IN_BRACKETS);
        return true;
    }
    size_t equals = c == '=' ? 1 : c == '+' && split_peek(p, 1) == '=' ? 2 : 0;
    if (!equals || first)
        return false;
    p->pos += equals;
    f->mark = p->pos;
    return true;
}

static void scan_word(struct parser *p)
{
    struct frame *f = split_top(p);
    size_t depth = p->depth;
    unsigned assignable = WORD_NAME | WORD_INDEX | WORD_ELEMENT;

    while (p->running && p->depth == depth) {
        int c = split_peek(p, 0);
        if ((f->flags & assignable) && c >= 0 && scan_assignment(p, f))
            continue;
        if (c == '(' && f->mark && p->pos == f->mark) {
            p->pos++;
            split_beyond_command(p);
            split_push(p, IN_ARRAY);
        } else if (c == '(' && (f->flags & WORD_REGEX)) {
            p->pos++;
            open_nested(p, IN_PARENS);
        } else if (is_pattern_prefix(c) && split_peek(p, 1) == '(') {
            split_beyond_command(p);
            p->pos += 2;
            open_nested(p, IN_PARENS);
        } else if (c == '|' && (f->flags & WORD_REGEX) && split_peek(p, 1) != '|') {
            p->pos++;
        } else if ((c == '<' || c == '>') && split_peek(p, 1) == '(') {
            scan_piece(p, IN_WORD);
        } else if (c < 0 || ends_word(p)) {
            end_word(p);
            return;
        } else {
            scan_piece(p, IN_WORD);
        }
    }
}

/* --- tokens ------------------------------------------------------------------------------ */

static const struct {
    char text[4];
    enum symbol symbol;
} operators[] = {
    {"&>>", S_REDIRECT},  {"<<<", S_REDIRECT}, {"<<-", S_HEREDOC_TABS}, {";;&", S_CLAUSE_END},
    {"&&", S_AND_OR},     {"||", S_AND_OR},    {"|&", S_PIPE},          {";;", S_CLAUSE_END},
    {";&", S_CLAUSE_END}, {"&>", S_REDIRECT},  {"<<", S_HEREDOC},       {"<&", S_REDIRECT},
    {">&", S_REDIRECT},   {">>", S_REDIRECT},  {">|", S_REDIRECT},      {"<>", S_REDIRECT},
    {"|", S_PIPE},        {"&", S_AMP},        {";", S_SEMI},           {"(", S_OPEN},
    {")", S_CLOSE},       {"<", S_LESS_MORE},  {">", S_LESS_MORE},
};

/* Reads an operator; false when none is here. */
static bool scan_operator(struct parser *p, enum symbol *symbol)
{
    const char *here = p->text + p->pos;
    for (size_t i = 0; i < TN_COUNT(operators); i++) {
        size_t len = strlen(operators[i].text);
        if (len <= p->len - p->pos && memcmp(here, operators[i].text, len) == 0) {
            p->pos += len;
            *symbol = operators[i].symbol;
            return true;
        }
    }
    return false;
}

static void skip_comment(struct parser *p)
{
    size_t start = p->pos;
    const char *end = memchr(p->text + p->pos, '\n', p->len - p->pos);
    p->pos = end ? (size_t)(end - p->text) : p->len;
    p->last_end = p->pos;
    if (p->substitutions)
        split_beyond_text(p, start, p->pos);
    while (is_blank(p->text[p->last_end - 1]) || p->text[p->last_end - 1] == '\r')
        p->last_end--;
}

/* The end of the text counts as a newline; what is open after that stays open. */
static void end_of_text(struct parser *p)
{
    if (!p->at_end) {
        p->at_end = true;
        split_operator(p, S_NEWLINE);
        return;
    }
    const struct frame *f = split_top(p);
    bool complete = p->depth == 1 && f->at == AT_START;
    split_stop(p, complete ? TN_SPLIT_COMPLETE : TN_SPLIT_INCOMPLETE);
}

/* At the top level the first token after a newline starts a command. */
static void note_command(struct parser *p, size_t start)
{
    if (p->depth > 1 || p->in_command)
        return;
    if (p->command_count == p->command_cap) {
        size_t cap = p->command_cap ? p->command_cap * 2 : 8;
        struct tn_span *grown = realloc(p->commands, cap * sizeof(*grown));
        if (!grown) {
            p->no_memory = true;
            split_stop(p, TN_SPLIT_UNSURE);
            return;
        }
        p->commands = grown;
        p->command_cap = cap;
    }
    split_close_command(p);
    p->in_command = true;
    p->commands[p->command_count++] = (struct tn_span){.start = start};
}

/* Blanks and continued lines. */
static void skip_blanks(struct parser *p)
{
    while (p->running) {
        if (is_blank(split_peek(p, 0)))
            p->pos++;
        else if (split_peek(p, 0) == '\\' && split_line_end(p, 1))
            skip_escape(p);
        else
            return;
    }
}

static void scan_token(struct parser *p)
{
    skip_blanks(p);
    if (!p->running)
        return;
    int c = split_peek(p, 0);
    if (c < 0) {
        end_of_text(p);
        return;
    }
    size_t eol = split_line_end(p, 0);
    if (eol) {
        p->pos += eol;
        split_operator(p, S_NEWLINE);
        return;
    }
    if (!p->started) {
        p->started = true;
        p->first = p->pos;
    }
    if (c == '#') {
        skip_comment(p);
        return;
    }

    note_command(p, p->pos);
    if (!p->running)
        return;
    unsigned flags = split_word_flags(split_top(p));
    bool in_word = (c == '<' || c == '>') ? split_peek(p, 1) == '('
                                          : (c == '(' || c == '|') && (flags & WORD_REGEX);
    enum symbol symbol;
    if (!in_word && scan_operator(p, &symbol)) {
        p->last_end = p->pos;
        split_operator(p, symbol);
        return;
    }
    if (c == '!' && split_peek(p, 1) == '(' && (flags & WORD_NAME)) {
        p->pos++;
        p->last_end = p->pos;
        split_word(p, p->pos - 1, p->pos, false);
        return;
    }
    struct frame *word = split_push(p, IN_WORD);
    if (word)
        word->flags = flags;
}

void split_step(struct parser *p)
{
    enum phase phase = split_top(p)->phase;
    if (phase == IN_WORD)
        scan_word(p);
    else if (phase > IN_WORD)
        scan_nested(p);
    else
        scan_token(p);
}
