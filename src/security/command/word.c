/* Words: quotes, and what is expanded in them. */
#include "security/command/parse.h"

struct builder {
    struct parser *p;
    struct tn_sh_word *word;
    struct tn_sh_part **tail;
    bool open; /* a part of text is being collected in scratch */
    bool quoted;
    size_t start;
};

static void read_chars(struct builder *b, enum word_mode mode);

/* --- parts ------------------------------------------------------------------------------- */

static struct tn_sh_part *append(struct builder *b, enum tn_sh_part_kind kind, bool quoted,
                                 size_t start)
{
    struct tn_sh_part *part = sh_get(b->p, sizeof(*part));
    *part = (struct tn_sh_part){.kind = kind, .quoted = quoted, .start = start, .end = start};
    *b->tail = part;
    b->tail = &part->next;
    return part;
}

static void flush(struct builder *b)
{
    if (!b->open)
        return;
    struct tn_buf *scratch = &b->p->common->scratch;
    struct tn_sh_part *part = append(b, TN_SH_TEXT, b->quoted, b->start);
    part->text = tn_arena_copy(b->p->common->tree->arena, tn_buf_str(scratch), scratch->len);
    part->end = b->p->pos;
    tn_buf_reset(scratch);
    b->open = false;
}

/* Text of this kind goes on from here, even if none follows: '' is a word. */
static void open_text(struct builder *b, bool quoted)
{
    if (b->open && b->quoted != quoted)
        flush(b);
    if (!b->open)
        b->start = b->p->pos;
    b->open = true;
    b->quoted = quoted;
}

static void put(struct builder *b, char c, bool quoted)
{
    open_text(b, quoted);
    tn_buf_putc(&b->p->common->scratch, c);
}

static struct tn_sh_part *begin_part(struct builder *b, enum tn_sh_part_kind kind, bool quoted,
                                     size_t start)
{
    flush(b);
    return append(b, kind, quoted, start);
}

static bool is_quoted_mode(enum word_mode mode)
{
    return mode == WORD_QUOTED || mode == WORD_BRACE_QUOTED || mode == WORD_BODY;
}

/* --- quotes ------------------------------------------------------------------------------ */

static void read_single(struct builder *b)
{
    struct parser *p = b->p;
    size_t start = p->pos++;
    open_text(b, true);
    const char *end = memchr(p->text + p->pos, '\'', p->len - p->pos);
    if (!end) {
        sh_wrong(p, start, "a quotation that is not closed");
        return;
    }
    size_t len = (size_t)(end - p->text) - p->pos;
    tn_buf_add(&p->common->scratch, p->text + p->pos, len);
    p->pos += len + 1;
}

static void read_double(struct builder *b)
{
    struct parser *p = b->p;
    size_t start = p->pos++;
    if (!sh_enter(p))
        return;
    open_text(b, true);
    read_chars(b, WORD_QUOTED);
    if (!sh_eat(p, "\""))
        sh_wrong(p, start, "a quotation that is not closed");
    sh_leave(p);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : 99;
}

/* Up to `most` digits of this base at the position. */
static unsigned long read_digits(struct parser *p, int base, int most)
{
    unsigned long value = 0;
    for (; most > 0 && p->pos < p->len && digit_of(p->text[p->pos]) < base; most--)
        value = value * (unsigned long)base + (unsigned long)digit_of(p->text[p->pos++]);
    return value;
}

static void put_utf8(struct builder *b, unsigned long c)
{
    if (c < 0x80) {
        put(b, (char)c, true);
        return;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    put(b, (char)((0xff00 >> (more + 1)) | (c >> 6 * more)), true);
    while (more-- > 0)
        put(b, (char)(0x80 | ((c >> 6 * more) & 0x3f)), true);
}

static const char ansi_escapes[][2] = {
    {'a', '\a'}, {'b', '\b'}, {'e', 27},    {'E', 27},    {'f', '\f'}, {'n', '\n'}, {'r', '\r'},
    {'t', '\t'}, {'v', '\v'}, {'\\', '\\'}, {'\'', '\''}, {'"', '"'},  {'?', '?'}};

/* What a backslash and these characters stand for in $'...'; -1: both stay as they are. */
static long read_ansi(struct parser *p, bool *wide)
{
    char c = p->text[p->pos];
    *wide = false;
    for (size_t i = 0; i < TN_COUNT(ansi_escapes); i++)
        if (ansi_escapes[i][0] == c) {
            p->pos++;
            return ansi_escapes[i][1];
        }
    if (digit_of(c) < 8)
        return (long)(read_digits(p, 8, 3) & 0xff);
    bool hex = p->pos + 1 < p->len && digit_of(p->text[p->pos + 1]) < 16;
    if ((c == 'x' || c == 'u' || c == 'U') && hex) {
        p->pos++;
        *wide = c != 'x';
        return (long)read_digits(p, 16, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    }
    if (c == 'c' && p->pos + 1 < p->len) {
        p->pos += 2;
        return p->text[p->pos - 1] & 0x1f;
    }
    return -1;
}

/* $'...' from its first quote on.  A NUL ends what it stands for, not the quotation. */
static void read_ansi_quoted(struct builder *b)
{
    struct parser *p = b->p;
    size_t start = p->pos++;
    bool cut = false, wide;
    open_text(b, true);
    while (p->pos < p->len && p->text[p->pos] != '\'') {
        char c = p->text[p->pos++];
        long value = c == '\\' && p->pos < p->len ? read_ansi(p, &wide) : -1;
        cut = cut || value == 0;
        if (cut)
            continue;
        if (value < 0)
            put(b, c, true);
        else if (wide && value <= 0x10ffff)
            put_utf8(b, (unsigned long)value);
        else
            put(b, (char)value, true);
    }
    if (p->pos++ >= p->len)
        sh_wrong(p, start, "a quotation that is not closed");
}

/* A backslash that joins no lines. */
static void read_escape(struct builder *b, enum word_mode mode)
{
    struct parser *p = b->p;
    const char *special = mode == WORD_BODY ? "$`\\" : mode == WORD_QUOTED ? "$`\"\\" : "$`\"\\}";
    char c = ++p->pos < p->len ? p->text[p->pos] : 0;
    bool drops = c && (!is_quoted_mode(mode) || strchr(special, c));
    if (!drops)
        put(b, '\\', true);
    if (c) {
        put(b, c, true);
        p->pos++;
    }
}

/* --- expansions -------------------------------------------------------------------------- */

/* The text between backquotes, without the backslashes that protect it from the outer text. */
static void read_backquotes(struct builder *b, bool quoted)
{
    struct parser *p = b->p;
    size_t start = p->pos++;
    struct tn_sh_part *part = begin_part(b, TN_SH_COMMAND, quoted, start);
    struct tn_buf *scratch = &p->common->scratch;
    for (; p->pos < p->len && p->text[p->pos] != '`'; p->pos++) {
        char next = p->pos + 1 < p->len ? p->text[p->pos + 1] : 0;
        bool drop =
            p->text[p->pos] == '\\' && next && (strchr("$`\\", next) || (quoted && next == '"'));
        if (p->text[p->pos] == '\\' && next) {
            if (!drop)
                tn_buf_putc(scratch, '\\');
            p->pos++;
        }
        tn_buf_putc(scratch, p->text[p->pos]);
    }
    if (p->pos++ >= p->len) {
        tn_buf_reset(scratch);
        sh_wrong(p, start, "backquotes that are not closed");
        return;
    }
    size_t len = scratch->len;
    part->source = tn_arena_copy(p->common->tree->arena, tn_buf_str(scratch), len);
    tn_buf_reset(scratch);
    part->list = sh_inner_list(p, part->source, len);
    part->end = p->pos;
}

/* Where the parenthesis or bracket closes that is open at `from`; p->len if nowhere. */
static size_t find_close(struct parser *p, size_t from, char open, char close)
{
    unsigned depth = 1;
    char quote = 0;
    size_t i = from;
    for (; i < p->len; i++) {
        char c = p->text[i];
        if (c == '\\' && quote != '\'')
            i++;
        else if (quote)
            quote = c == quote ? 0 : quote;
        else if (c == '\'' || c == '"' || c == '`')
            quote = c;
        else if (c == open)
            depth++;
        else if (c == close && --depth == 0)
            break;
    }
    i = i < p->len ? i : p->len;
    p->common->ahead += i - from;
    if (p->common->ahead > 64 * (size_t)TN_SH_MAX_TEXT)
        sh_too_large(p, "arithmetic");
    return i;
}

/* Variables that an arithmetic expression may change: all of them if it changes any. */
static void note_changes(struct parser *p, size_t start, size_t end)
{
    const char *text = p->text + start;
    size_t len = end - start;
    if (!memchr(text, '=', len) && !memmem(text, len, "++", 2) && !memmem(text, len, "--", 2))
        return;
    for (size_t i = 0, from; i < len; i++) {
        for (from = i; i < len && sh_is_name(text[i], i == from);)
            i++;
        if (i > from)
            sh_note_name(p, text + from, i - from);
    }
}

/* The expression up to `end`, which closes it. */
static struct tn_sh_word *read_expression(struct parser *p, size_t end)
{
    size_t len = p->len;
    note_changes(p, p->pos, end);
    p->len = end;
    struct tn_sh_word *word = sh_read_word(p, WORD_BODY);
    if (!p->failed)
        p->len = len;
    return word;
}

struct tn_sh_word *sh_read_arithmetic(struct parser *p)
{
    size_t end = find_close(p, p->pos, '(', ')');
    if (end + 1 >= p->len || p->text[end + 1] != ')')
        return NULL;
    struct tn_sh_word *word = read_expression(p, end);
    p->pos += p->failed ? 0 : 2;
    return word;
}

static const char *const operators[] = {":-", ":=", ":?", ":+", "##", "%%", "//", "/#",
                                        "/%", "^^", ",,", "-",  "=",  "?",  "+",  "#",
                                        "%",  "/",  "^",  ",",  "@",  ":",  "["};

static const char *read_operator(struct parser *p)
{
    for (size_t i = 0; i < TN_COUNT(operators); i++)
        if (sh_eat(p, operators[i]))
            return operators[i];
    return "?"; /* bash says "bad substitution" when it runs this */
}

/* Appends the name of a parameter to scratch. */
static void read_parameter_name(struct parser *p)
{
    struct tn_buf *scratch = &p->common->scratch;
    int c = sh_next(p);
    bool digits = c >= '0' && c <= '9';
    if (!sh_is_name(c, true) && !digits) {
        if (c > 0 && strchr("@*#?-$!", c)) {
            tn_buf_putc(scratch, (char)c);
            p->pos++;
        }
        return;
    }
    for (; digits ? c >= '0' && c <= '9' : sh_is_name(c, false); c = sh_next(p)) {
        tn_buf_putc(scratch, (char)c);
        p->pos++;
    }
}

static const char *take_scratch(struct parser *p)
{
    struct tn_buf *scratch = &p->common->scratch;
    const char *text = tn_arena_copy(p->common->tree->arena, tn_buf_str(scratch), scratch->len);
    tn_buf_reset(scratch);
    return text;
}

/* ! or # before a name; by itself it is a name. */
static const char *read_prefix(struct parser *p)
{
    int c = sh_next(p);
    if (c != '!' && c != '#')
        return NULL;
    size_t at = p->pos++;
    int next = sh_next(p);
    if (sh_is_name(next, false) || next == '@' || next == '*')
        return c == '!' ? "!" : "#";
    p->pos = at;
    return NULL;
}

/* ${...}, from behind its brace. */
static void read_parameter(struct builder *b, bool quoted, size_t start)
{
    struct parser *p = b->p;
    int c = sh_next(p);
    if (!sh_enter(p))
        return;
    if (c == ' ' || c == '\t' || c == '\n' || c == '|') {
        struct tn_sh_part *part = begin_part(b, TN_SH_COMMAND, quoted, start);
        p->pos++;
        part->list = sh_read_substitution(p, "}");
        part->end = p->pos;
        sh_leave(p);
        return;
    }
    struct tn_sh_part *part = begin_part(b, TN_SH_PARAMETER, quoted, start);
    part->op = read_prefix(p);
    read_parameter_name(p);
    part->text = take_scratch(p);
    if (sh_next(p) != '}') {
        bool prefixed = part->op;
        const char *op = prefixed ? part->op : read_operator(p);
        bool word_quoted = quoted && strchr("-=?+", op[strlen(op) - 1]);
        part->op = op;
        part->word = sh_read_word(p, word_quoted ? WORD_BRACE_QUOTED : WORD_BRACE);
        if (strchr(op, '='))
            sh_note_name(p, part->text, strlen(part->text));
    }
    if (!sh_eat(p, "}"))
        sh_wrong(p, start, "${ that is not closed");
    part->end = p->pos;
    sh_leave(p);
}

static void read_command(struct builder *b, bool quoted, size_t start)
{
    struct parser *p = b->p;
    struct tn_sh_part *part = begin_part(b, TN_SH_COMMAND, quoted, start);
    size_t at = p->pos;
    if (sh_eat(p, "(")) {
        part->word = sh_read_arithmetic(p);
        if (part->word)
            part->kind = TN_SH_ARITHMETIC;
        else if (!p->failed)
            p->pos = at;
    }
    if (!part->word)
        part->list = sh_read_substitution(p, ")");
    part->end = p->pos;
}

/* $[...], from behind its bracket. */
static void read_bracket(struct builder *b, bool quoted, size_t start)
{
    struct parser *p = b->p;
    struct tn_sh_part *part = begin_part(b, TN_SH_ARITHMETIC, quoted, start);
    size_t end = find_close(p, p->pos, '[', ']');
    if (end >= p->len) {
        sh_wrong(p, start, "$[ that is not closed");
        return;
    }
    part->word = read_expression(p, end);
    p->pos += p->failed ? 0 : 1;
    part->end = p->pos;
}

static void read_dollar(struct builder *b, bool quoted)
{
    struct parser *p = b->p;
    size_t start = p->pos++;
    int c = sh_next(p);
    if (sh_eat(p, "(")) {
        read_command(b, quoted, start);
    } else if (sh_eat(p, "{")) {
        read_parameter(b, quoted, start);
    } else if (sh_eat(p, "[")) {
        read_bracket(b, quoted, start);
    } else if (c == '\'' && !quoted) {
        read_ansi_quoted(b);
    } else if (c == '"' && !quoted) {
        read_double(b);
    } else if (sh_is_name(c, false) || (c > 0 && strchr("@*#?-$!", c))) {
        struct tn_sh_part *part = begin_part(b, TN_SH_PARAMETER, quoted, start);
        if (c >= '0' && c <= '9') {
            tn_buf_putc(&p->common->scratch, (char)c); /* $10 is $1 and a 0 */
            p->pos++;
        } else {
            read_parameter_name(p);
        }
        part->text = take_scratch(p);
        part->end = p->pos;
    } else {
        put(b, '$', quoted);
    }
}

static void read_process(struct builder *b)
{
    struct parser *p = b->p;
    struct tn_sh_part *part = begin_part(b, TN_SH_PROCESS, false, p->pos);
    part->text = p->text[p->pos] == '<' ? "<" : ">";
    p->pos++;
    sh_eat(p, "(");
    part->list = sh_read_substitution(p, ")");
    part->end = p->pos;
}

/* NAME=(...), from the parenthesis on. */
static void read_array(struct builder *b)
{
    struct parser *p = b->p;
    size_t start = p->pos++;
    struct tn_sh_part *part = begin_part(b, TN_SH_ARRAY, true, start);
    struct tn_sh_word **tail = &part->word;
    if (!sh_enter(p))
        return;
    for (sh_skip_lines(p); !sh_eat(p, ")"); sh_skip_lines(p)) {
        struct tn_sh_word *element =
            sh_expect_plain(p, WORD_PLAIN, ") after the words of an array");
        *tail = element;
        tail = &element->next;
        if (p->failed)
            return;
    }
    part->end = p->pos;
    sh_leave(p);
}

/* --- the loop ---------------------------------------------------------------------------- */

/* ( ... ) as part of a word, from its parenthesis on. */
static void read_group(struct builder *b)
{
    struct parser *p = b->p;
    size_t start = p->pos;
    if (!sh_enter(p))
        return;
    put(b, '(', false);
    p->pos++;
    read_chars(b, WORD_GROUP);
    if (!sh_eat(p, ")"))
        sh_wrong(p, start, "( in a pattern that is not closed");
    else
        put(b, ')', false);
    sh_leave(p);
}

static bool is_pattern(struct parser *p, int c, enum word_mode mode)
{
    bool may = mode == WORD_PLAIN || mode == WORD_GROUP || mode == WORD_DECLARE;
    if (!may || !strchr("?*+@!", c))
        return false;
    return p->pos + 1 < p->len && p->text[p->pos + 1] == '(';
}

static bool is_process(struct parser *p, int c, enum word_mode mode)
{
    bool may = mode <= WORD_VALUE || mode == WORD_BRACE;
    return may && ((c == '<' && sh_sees(p, "<(")) || (c == '>' && sh_sees(p, ">(")));
}

static bool is_array(const struct builder *b, int c, enum word_mode mode)
{
    const struct parser *p = b->p;
    if (c != '(' || (mode != WORD_DECLARE && mode != WORD_VALUE))
        return false;
    if (p->pos == b->word->start)
        return mode == WORD_VALUE;
    return mode == WORD_DECLARE && p->text[p->pos - 1] == '=';
}

static bool ends(enum word_mode mode, int c)
{
    switch (mode) {
    case WORD_PLAIN:
    case WORD_COMMAND:
    case WORD_DECLARE:
    case WORD_VALUE:
        return sh_is_meta(c);
    case WORD_REGEX:
        return sh_is_meta(c) && c != '(' && c != '|';
    case WORD_BRACE:
    case WORD_BRACE_QUOTED:
        return c == '}';
    case WORD_QUOTED:
        return c == '"';
    case WORD_GROUP:
        return c == ')';
    case WORD_BODY:
        return false;
    }
    return true;
}

static void read_chars(struct builder *b, enum word_mode mode)
{
    struct parser *p = b->p;
    bool quoted = is_quoted_mode(mode);
    int c;
    while ((c = sh_next(p)) != -1) {
        if (is_process(p, c, mode)) {
            read_process(b);
        } else if (is_array(b, c, mode)) {
            read_array(b);
        } else if (ends(mode, c)) {
            return;
        } else if (c == '\\') {
            read_escape(b, mode);
        } else if (c == '\'' && !quoted) {
            read_single(b);
        } else if (c == '"' && mode != WORD_BODY) {
            read_double(b);
        } else if (c == '$') {
            read_dollar(b, quoted);
        } else if (c == '`') {
            read_backquotes(b, quoted);
        } else if (c == '(' && (mode == WORD_GROUP || mode == WORD_REGEX)) {
            read_group(b);
        } else {
            bool pattern = is_pattern(p, c, mode);
            put(b, (char)c, quoted);
            p->pos++;
            if (pattern)
                read_group(b);
        }
    }
}

struct tn_sh_word *sh_read_word(struct parser *p, enum word_mode mode)
{
    struct tn_sh_word *word = sh_get(p, sizeof(*word));
    struct builder b = {.p = p, .word = word, .tail = &word->parts};
    sh_next(p);
    word->start = p->pos;
    read_chars(&b, mode);
    flush(&b);
    word->end = p->pos;
    return word;
}

bool sh_word_is(const struct tn_sh_word *word, const char *literal)
{
    const struct tn_sh_part *part = word->parts;
    return part && !part->next && part->kind == TN_SH_TEXT && !part->quoted &&
           strcmp(part->text, literal) == 0;
}
