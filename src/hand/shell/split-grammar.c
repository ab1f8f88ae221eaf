/* The grammar half of the splitter: what each token means where it stands. */
#include "hand/shell/split-parse.h"

#include <string.h>

static const struct reserved {
    const char *text;
    enum symbol symbol;
    enum phase opens; /* the compound command it starts */
} reserved_words[] = {
    {"if", S_IF, IN_IF},
    {"then", S_THEN, IN_NOTHING},
    {"elif", S_ELIF, IN_NOTHING},
    {"else", S_ELSE, IN_NOTHING},
    {"fi", S_FI, IN_NOTHING},
    {"while", S_WHILE, IN_WHILE},
    {"until", S_WHILE, IN_WHILE},
    {"for", S_FOR, IN_FOR_NAME},
    {"select", S_SELECT, IN_SELECT_NAME},
    {"do", S_DO, IN_NOTHING},
    {"done", S_DONE, IN_NOTHING},
    {"case", S_CASE, IN_CASE_WORD},
    {"in", S_IN, IN_NOTHING},
    {"esac", S_ESAC, IN_NOTHING},
    {"{", S_BRACE, IN_GROUP},
    {"}", S_BRACE_END, IN_NOTHING},
    {"[[", S_COND, IN_COND},
    {"]]", S_COND_END, IN_NOTHING},
    {"function", S_FUNCTION, IN_FUNC_NAME},
    {"!", S_BANG, IN_NOTHING},
    {"time", S_TIME, IN_NOTHING},
    {"coproc", S_COPROC, IN_NOTHING},
};

/* Their arguments may be arrays: declare a=(1 2). */
static const char *const declaring[] = {"declare",  "typeset", "local", "export",
                                        "readonly", "alias",   "eval",  "let"};

/* How a construct goes on.  IN_NOTHING: it ends here. */
static const struct rule {
    enum phase from;
    enum symbol on;
    enum phase to;
} rules[] = {
    {IN_GROUP, S_BRACE_END, IN_NOTHING},
    {IN_IF, S_THEN, IN_THEN},
    {IN_THEN, S_ELIF, IN_IF},
    {IN_THEN, S_ELSE, IN_ELSE},
    {IN_THEN, S_FI, IN_NOTHING},
    {IN_ELSE, S_FI, IN_NOTHING},
    {IN_WHILE, S_DO, IN_DO},
    {IN_DO, S_DONE, IN_NOTHING},
    {IN_CASE_BODY, S_CLAUSE_END, IN_CASE_CLAUSE},
    {IN_CASE_BODY, S_ESAC, IN_NOTHING},

    {IN_ARRAY, S_WORD, IN_ARRAY},
    {IN_ARRAY, S_NEWLINE, IN_ARRAY},
    {IN_ARRAY, S_CLOSE, IN_NOTHING},
    {IN_COND, S_COND_END, IN_NOTHING},
    {IN_COND, S_WORD, IN_COND},
    {IN_COND, S_NEWLINE, IN_COND},
    {IN_COND, S_AND_OR, IN_COND},
    {IN_COND, S_LESS_MORE, IN_COND},
    {IN_COND, S_OPEN, IN_COND},
    {IN_COND, S_CLOSE, IN_COND},

    {IN_FOR_NAME, S_WORD, IN_FOR_IN},
    {IN_SELECT_NAME, S_WORD, IN_FOR_IN},
    {IN_FOR_IN, S_IN, IN_FOR_WORDS},
    {IN_FOR_IN, S_DO, IN_DO},
    {IN_FOR_IN, S_SEMI, IN_FOR_DO},
    {IN_FOR_IN, S_NEWLINE, IN_FOR_LINE},
    {IN_FOR_LINE, S_IN, IN_FOR_WORDS},
    {IN_FOR_LINE, S_DO, IN_DO},
    {IN_FOR_LINE, S_BRACE, IN_GROUP},
    {IN_FOR_LINE, S_NEWLINE, IN_FOR_LINE},
    {IN_FOR_WORDS, S_WORD, IN_FOR_WORDS},
    {IN_FOR_WORDS, S_SEMI, IN_FOR_DO},
    {IN_FOR_WORDS, S_NEWLINE, IN_FOR_DO},
    {IN_FOR_SEMI, S_SEMI, IN_FOR_DO},
    {IN_FOR_SEMI, S_NEWLINE, IN_FOR_DO},
    {IN_FOR_SEMI, S_DO, IN_DO},
    {IN_FOR_SEMI, S_BRACE, IN_GROUP},
    {IN_FOR_DO, S_NEWLINE, IN_FOR_DO},
    {IN_FOR_DO, S_DO, IN_DO},
    {IN_FOR_DO, S_BRACE, IN_GROUP},

    {IN_CASE_WORD, S_WORD, IN_CASE_IN},
    {IN_CASE_IN, S_NEWLINE, IN_CASE_IN},
    {IN_CASE_IN, S_IN, IN_CASE_CLAUSE},
    {IN_CASE_CLAUSE, S_NEWLINE, IN_CASE_CLAUSE},
    {IN_CASE_CLAUSE, S_ESAC, IN_NOTHING},
    {IN_CASE_CLAUSE, S_OPEN, IN_CASE_PATTERN},
    {IN_CASE_CLAUSE, S_WORD, IN_CASE_BAR},
    {IN_CASE_PATTERN, S_WORD, IN_CASE_BAR},
    {IN_CASE_BAR, S_PIPE, IN_CASE_PATTERN},
    {IN_CASE_BAR, S_CLOSE, IN_CASE_BODY},

    {IN_FUNC_NAME, S_WORD, IN_FUNC_PARENS},
    {IN_FUNC_PARENS, S_NEWLINE, IN_FUNC_BODY},
    {IN_FUNC_CLOSE, S_CLOSE, IN_FUNC_BODY},
    {IN_FUNC_BODY, S_NEWLINE, IN_FUNC_BODY},
};

#define BAD AT_COUNT

/* How a list goes on after the operators that do not open or close anything: a newline, ;, &, && or
 * ||, a pipe, a redirection. */
static const enum at next_at[AT_COUNT][S_SEPARATORS] = {
    [AT_START] = {AT_START, BAD, BAD, BAD, BAD, AT_ASSIGN},
    [AT_NEED] = {AT_NEED, BAD, BAD, BAD, BAD, AT_ASSIGN},
    [AT_PIPE] = {AT_PIPE, BAD, BAD, BAD, BAD, AT_ASSIGN},
    [AT_PREFIX] = {AT_START, AT_START, BAD, BAD, BAD, AT_ASSIGN},
    [AT_TIME] = {AT_START, AT_START, BAD, BAD, BAD, AT_ASSIGN},
    [AT_COPROC] = {BAD, BAD, BAD, BAD, BAD, AT_ASSIGN},
    [AT_NAME] = {AT_START, AT_START, AT_START, AT_NEED, AT_PIPE, AT_ARGS},
    [AT_COPROC_NAME] = {AT_START, AT_START, AT_START, AT_NEED, AT_PIPE, AT_ARGS},
    [AT_ASSIGN] = {AT_START, AT_START, AT_START, AT_NEED, AT_PIPE, AT_ASSIGN},
    [AT_ARGS] = {AT_START, AT_START, AT_START, AT_NEED, AT_PIPE, AT_ARGS},
    [AT_DECLARE] = {AT_START, AT_START, AT_START, AT_NEED, AT_PIPE, AT_DECLARE},
    [AT_COMPOUND] = {AT_START, AT_START, AT_START, AT_NEED, AT_PIPE, AT_REDIRECTS},
    [AT_REDIRECTS] = {AT_START, AT_START, AT_START, AT_NEED, AT_PIPE, AT_REDIRECTS},
};

static bool is_list(const struct frame *f)
{
    return f->phase <= IN_CASE_BODY;
}

/* A command (or a function's body) can begin here. */
static bool may_start(enum at at)
{
    return at < AT_NAME || at == AT_COPROC_NAME;
}

/* The list can end here. */
static bool may_end(const struct frame *f)
{
    bool may_be_empty = f->phase == IN_SUBSTITUTION || f->phase == IN_CASE_BODY;
    return (f->at == AT_START || f->at >= AT_NAME) && (f->seen || may_be_empty);
}

static const struct rule *find_rule(enum phase from, enum symbol on)
{
    for (size_t i = 0; i < TN_COUNT(rules); i++)
        if (rules[i].from == from && rules[i].on == on)
            return &rules[i];
    return NULL;
}

/* Compares a word with a literal, minding that the word may go on over continued lines. */
static bool is_word(const char *word, size_t len, const char *literal)
{
    size_t i = 0;
    while (i < len) {
        if (len - i >= 2 && word[i] == '\\' && word[i + 1] == '\n')
            i += 2;
        else if (len - i >= 3 && memcmp(word + i, "\\\r\n", 3) == 0)
            i += 3;
        else if (*literal == 0 || word[i++] != *literal++)
            return false;
    }
    return *literal == 0;
}

static const struct reserved *find_reserved(const char *word, size_t len)
{
    for (size_t i = 0; i < TN_COUNT(reserved_words); i++)
        if (is_word(word, len, reserved_words[i].text))
            return &reserved_words[i];
    return NULL;
}

static bool is_declaring(const char *word, size_t len)
{
    for (size_t i = 0; i < TN_COUNT(declaring); i++)
        if (is_word(word, len, declaring[i]))
            return true;
    return false;
}

static void bad_syntax(struct parser *p)
{
    split_stop(p, TN_SPLIT_UNSURE);
}

void split_compound_done(struct parser *p)
{
    p->depth--;
    split_top(p)->at = AT_COMPOUND;
}

/* The frame for a compound command that starts now: a new one, or the one of the function it is the
 * body of.  NULL when the nesting is too deep. */
static struct frame *open_compound(struct parser *p, enum phase phase)
{
    struct frame *f = split_top(p);
    if (phase == IN_COND || phase == IN_SELECT_NAME)
        split_beyond_command(p);
    else if (phase == IN_CASE_WORD)
        split_beyond_word(p, p->pos); /* the ) of its patterns end a substitution */
    if (is_list(f))
        return split_push(p, phase);
    f->start = p->pos;
    split_set(f, phase);
    return f;
}

/* ( where a command may start; with another one right behind it perhaps arithmetic. */
static void open_paren(struct parser *p)
{
    bool may_params = split_top(p)->phase == IN_FUNC_PARENS;
    bool arithmetic = p->pos < p->len && p->text[p->pos] == '(';
    struct frame *f = open_compound(p, arithmetic ? IN_ARITH : IN_SUBSHELL);
    if (!f)
        return;
    f->may_params = may_params;
    if (arithmetic) {
        p->pos++;
        f->mark = 1;
        f->heredocs = p->heredoc_count;
    }
}

/* ) in a list. */
static void close_paren(struct parser *p, struct frame *f)
{
    if (f->phase == IN_SUBSTITUTION && may_end(f)) {
        split_beyond_close(p, f);
        /* Here-documents left open are read at the next newline outside. */
        p->heredoc_base = f->mark;
        p->substitutions--;
        p->unread = f->unread;
        p->depth--;
        if (p->heredoc_count - p->heredoc_base > SPLIT_MAX_HEREDOCS)
            bad_syntax(p);
    } else if (f->phase == IN_SUBSHELL && may_end(f)) {
        split_compound_done(p);
    } else if (f->phase == IN_SUBSHELL && f->may_params && f->at == AT_START) {
        split_set(f, IN_FUNC_BODY);
    } else {
        bad_syntax(p);
    }
}

/* Goes on by a rule of the table; false when there is none. */
static bool follow_rule(struct parser *p, struct frame *f, enum symbol symbol)
{
    const struct rule *rule = find_rule(f->phase, symbol);
    if (!rule || (is_list(f) && !may_end(f)))
        return false;
    /* while COMMAND, newline, do: one command and no ; behind it fails there. */
    if (f->phase == IN_WHILE && f->separator == S_NEWLINE && !f->joined)
        split_beyond_command(p);
    if (rule->to != IN_NOTHING)
        split_set(f, rule->to);
    else if (f->phase == IN_ARRAY)
        p->depth--;
    else
        split_compound_done(p);
    return true;
}

/* --- operators --------------------------------------------------------------------------- */

/* A separator behind a whole command. */
static void note_separator(struct parser *p, struct frame *f, enum symbol symbol)
{
    f->joined = f->separator != S_SEPARATORS;
    f->separator = symbol;
    if (p->one_line && symbol == S_NEWLINE && f->phase == IN_TOP)
        split_stop(p, TN_SPLIT_COMPLETE);
}

static void list_operator(struct parser *p, struct frame *f, enum symbol symbol)
{
    if (symbol == S_CLOSE) {
        close_paren(p, f);
    } else if (symbol == S_OPEN && may_start(f->at)) {
        f->seen = true;
        open_paren(p);
    } else if (symbol == S_OPEN && f->at == AT_NAME) {
        split_push(p, IN_FUNC_CLOSE);
    } else if (symbol == S_OPEN) {
        bad_syntax(p);
    } else if (symbol == S_CLAUSE_END) {
        if (!follow_rule(p, f, symbol))
            bad_syntax(p);
    } else {
        enum symbol column = symbol < S_SEPARATORS ? symbol : S_REDIRECT;
        enum at next = next_at[f->at][column];
        if (next == BAD) {
            bad_syntax(p);
            return;
        }
        if (column <= S_AND_OR && f->at >= AT_NAME)
            note_separator(p, f, symbol);
        else if (column != S_REDIRECT && f->at == AT_PREFIX)
            split_beyond_command(p); /* a ! that negates nothing */
        f->at = next;
        if (column == S_REDIRECT) {
            f->seen = true;
            f->target = symbol == S_HEREDOC        ? TARGET_HEREDOC
                        : symbol == S_HEREDOC_TABS ? TARGET_HEREDOC_TABS
                                                   : TARGET_FILE;
        } else if (symbol == S_NEWLINE && f->phase == IN_TOP && next == AT_START) {
            p->in_command = false;
        } else if (symbol == S_NEWLINE && f->phase == IN_SUBSTITUTION && next == AT_START) {
            p->unread |= f->seen;
        }
    }
}

static void header_operator(struct parser *p, struct frame *f, enum symbol symbol)
{
    bool double_paren = symbol == S_OPEN && p->pos < p->len && p->text[p->pos] == '(';
    if (follow_rule(p, f, symbol))
        return;
    if (symbol == S_OPEN && (f->phase == IN_FUNC_PARENS || f->phase == IN_FUNC_BODY)) {
        open_paren(p);
    } else if (double_paren && f->phase == IN_FOR_NAME) {
        p->pos++;
        split_beyond_command(p);
        split_set(f, IN_FOR_ARITH);
        f->mark = 1;
    } else {
        bad_syntax(p);
    }
}

void split_operator(struct parser *p, enum symbol symbol)
{
    struct frame *f = split_top(p);
    p->late = p->late && symbol == S_NEWLINE;
    f->brace = false;
    if (f->target)
        bad_syntax(p);
    else if (is_list(f))
        list_operator(p, f, symbol);
    else
        header_operator(p, f, symbol);
    if (symbol == S_NEWLINE && p->running)
        split_read_heredocs(p);
}

/* --- words ------------------------------------------------------------------------------- */

unsigned split_word_flags(const struct frame *f)
{
    if (f->phase == IN_ARRAY)
        return WORD_ELEMENT;
    if (f->phase == IN_COND)
        return f->regex ? WORD_REGEX : 0;
    bool assignable =
        is_list(f) && !f->target && (may_start(f->at) || f->at == AT_ASSIGN || f->at == AT_DECLARE);
    return assignable ? WORD_NAME : 0;
}

/* Whether words such as `if` have their meaning here. */
static bool accepts_reserved(enum at at)
{
    return may_start(at) || at == AT_COMPOUND;
}

/* A reserved word in a list; false when it is an ordinary word after all. */
static bool list_reserved(struct parser *p, struct frame *f, const struct reserved *word)
{
    bool after_pipe = f->at == AT_PIPE, in_coproc = f->at == AT_COPROC || f->at == AT_COPROC_NAME;
    bool compound = f->at == AT_COMPOUND;

    if (word->symbol == S_TIME || word->symbol == S_COPROC)
        split_beyond_command(p);
    if (word->symbol == S_TIME) {
        if (after_pipe || in_coproc)
            return false;
        f->at = compound ? BAD : AT_TIME;
    } else if (word->symbol == S_BANG) {
        f->at = compound || after_pipe || in_coproc ? BAD : AT_PREFIX;
    } else if (word->symbol == S_COPROC) {
        f->at = compound || in_coproc ? BAD : AT_COPROC;
    } else if (word->opens == IN_NOTHING) {
        if (!follow_rule(p, f, word->symbol))
            bad_syntax(p);
        return true;
    } else if (compound || (in_coproc && word->symbol == S_FUNCTION)) {
        f->at = BAD;
    } else {
        open_compound(p, word->opens);
    }
    f->seen = true;
    if (f->at == BAD)
        bad_syntax(p);
    return true;
}

/* Where the list stands after an ordinary word. */
static enum at after_word(enum at at, const char *word, size_t len, bool assignment)
{
    switch (at) {
    case AT_TIME:
        if (is_word(word, len, "-p") || is_word(word, len, "--"))
            return AT_TIME;
        break;
    case AT_NAME:
    case AT_COPROC_NAME:
    case AT_ARGS:
        return AT_ARGS;
    case AT_DECLARE:
        return AT_DECLARE;
    case AT_COMPOUND:
    case AT_REDIRECTS:
    case AT_COUNT:
        return BAD;
    case AT_START:
    case AT_NEED:
    case AT_PIPE:
    case AT_PREFIX:
    case AT_COPROC:
    case AT_ASSIGN:
        break;
    }
    if (assignment)
        return AT_ASSIGN;
    if (is_declaring(word, len))
        return AT_DECLARE;
    return at == AT_ASSIGN ? AT_ARGS : at == AT_COPROC ? AT_COPROC_NAME : AT_NAME;
}

static void list_word(struct parser *p, struct frame *f, size_t start, size_t end, bool assignment)
{
    const char *word = p->text + start;
    size_t len = end - start;
    if (f->target) {
        if (f->target != TARGET_FILE)
            split_add_heredoc(p, start, end, f->target == TARGET_HEREDOC_TABS);
        f->target = TARGET_NONE;
        return;
    }
    const struct reserved *reserved = accepts_reserved(f->at) ? find_reserved(word, len) : NULL;
    if (reserved && list_reserved(p, f, reserved))
        return;
    if (f->brace && find_reserved(word, len))
        split_beyond_command(p); /* it is reserved there even as an argument */
    f->brace = is_word(word, len, "{") || is_word(word, len, "}");
    f->seen = true;
    f->at = after_word(f->at, word, len, assignment);
    if (f->at == BAD)
        bad_syntax(p);
}

static void header_word(struct parser *p, struct frame *f, size_t start, size_t end)
{
    const char *word = p->text + start;
    const struct reserved *reserved = find_reserved(word, end - start);
    if (reserved && follow_rule(p, f, reserved->symbol))
        return;
    if (follow_rule(p, f, S_WORD)) {
        if (f->phase == IN_COND)
            f->regex = is_word(word, end - start, "=~");
        return;
    }
    bool body = f->phase == IN_FUNC_PARENS || f->phase == IN_FUNC_BODY;
    if (body && reserved && reserved->opens != IN_NOTHING && reserved->symbol != S_FUNCTION)
        open_compound(p, reserved->opens);
    else
        bad_syntax(p);
}

void split_word(struct parser *p, size_t start, size_t end, bool assignment)
{
    struct frame *f = split_top(p);
    p->late = false;
    if (is_list(f))
        list_word(p, f, start, end, assignment);
    else
        header_word(p, f, start, end);
}
