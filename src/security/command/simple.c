/* Simple commands: assignments, words, redirections; and the words of [[ ]]. */
#include "security/command/parse.h"

/* --- redirections ------------------------------------------------------------------------ */

static const struct operator
{
    const char *text;
    enum tn_sh_redirect_kind kind;
    int fd; /* without a number */
}
operators[] = {
    /* clang-format off */
    {"&>>", TN_SH_APPEND_BOTH, 1}, {"&>", TN_SH_WRITE_BOTH, 1},
    {"<<<", TN_SH_HERE_STRING, 0}, {"<<", TN_SH_HERE_TEXT, 0},
    {"<&", TN_SH_COPY_READ, 0},    {"<>", TN_SH_READ_WRITE, 0}, {"<", TN_SH_READ, 0},
    {">>", TN_SH_APPEND, 1},       {">&", TN_SH_COPY_WRITE, 1},
    {">|", TN_SH_CLOBBER, 1},      {">", TN_SH_WRITE, 1},
    /* clang-format on */
};

static const struct operator* eat_operator(struct parser *p)
{
    if (sh_sees(p, "<(") || sh_sees(p, ">("))
        return NULL;
    for (size_t i = 0; i < TN_COUNT(operators); i++)
        if (sh_eat(p, operators[i].text))
            return &operators[i];
    return NULL;
}

/* The number or {name} before an operator; the position stays if there is no operator. */
static const struct operator* eat_descriptor(struct parser *p, struct tn_sh_redirect *r)
{
    size_t start = p->pos, name = 0;
    int fd = 0;
    if (sh_eat(p, "{")) {
        for (name = p->pos; p->pos < p->len && sh_is_name(p->text[p->pos], p->pos == name);)
            p->pos++;
        if (p->pos > name && p->pos < p->len && p->text[p->pos] == '}')
            r->variable = tn_arena_copy(p->common->tree->arena, p->text + name, p->pos++ - name);
    } else {
        for (; sh_next(p) >= '0' && sh_next(p) <= '9' && fd < 100000; p->pos++)
            fd = 10 * fd + (sh_next(p) - '0');
        r->has_fd = p->pos > start;
    }
    bool begun = name || r->has_fd, right = r->variable || !name;
    bool both = begun && sh_next(p) == '&'; /* 2&>x is the word 2 */
    const struct operator* op = right && !both ? eat_operator(p) : NULL;
    if (!op)
        p->pos = start;
    else
        r->fd = r->has_fd ? fd : op->fd;
    return op;
}

/* >& with a word that is no descriptor writes both. */
static bool is_descriptor(const struct tn_sh_word *word)
{
    const struct tn_sh_part *part = word->parts;
    if (!part || part->next || part->kind != TN_SH_TEXT)
        return false;
    size_t digits = strspn(part->text, "0123456789");
    return strcmp(part->text + digits, digits ? "" : "-") == 0 ||
           strcmp(part->text + digits, "-") == 0;
}

/* Reads one redirection if there is one. */
static bool read_redirect(struct parser *p, struct tn_sh_redirect ***tail)
{
    int c = sh_next(p);
    if (c == -1 || !strchr("<>&{0123456789", c) || (c == '&' && !sh_sees(p, "&>")))
        return false;
    struct tn_sh_redirect found = {.start = p->pos};
    const struct operator* op = eat_descriptor(p, &found);
    if (!op)
        return false;
    struct tn_sh_redirect *r = sh_get(p, sizeof(*r));
    *r = found;
    r->kind = op->kind;
    r->tabs = r->kind == TN_SH_HERE_TEXT && sh_eat(p, "-");
    r->target = sh_expect_plain(p, WORD_PLAIN, "a word after a redirection");
    r->end = p->pos;
    if (r->kind == TN_SH_COPY_WRITE && !r->has_fd && !r->variable && !is_descriptor(r->target))
        r->kind = TN_SH_WRITE_BOTH;
    if (r->kind == TN_SH_HERE_TEXT)
        sh_add_heredoc(p, r);
    if (r->variable)
        sh_note_name(p, r->variable, strlen(r->variable));
    **tail = r;
    *tail = &r->next;
    return true;
}

void sh_read_redirects(struct parser *p, struct tn_sh_node *node)
{
    struct tn_sh_redirect **tail = &node->redirects;
    size_t end;
    do {
        end = p->pos;
        sh_skip_blanks(p);
    } while (read_redirect(p, &tail));
    if (!p->failed)
        p->pos = end;
}

/* --- assignments ------------------------------------------------------------------------- */

enum { MAX_SUBSCRIPT = 1024 };

/* The end of NAME or NAME[...] before = or +=, with where the subscript lies; 0: no assignment. */
static size_t find_assignment(struct parser *p, size_t *open, size_t *close)
{
    size_t i = p->pos;
    *open = *close = 0;
    while (i < p->len && sh_is_name(p->text[i], i == p->pos))
        i++;
    if (i == p->pos)
        return 0;
    if (i < p->len && p->text[i] == '[') {
        unsigned depth = 0;
        for (*open = i + 1; i < p->len && i < *open + MAX_SUBSCRIPT; i++) {
            depth += p->text[i] == '[';
            depth -= p->text[i] == ']';
            if (!depth)
                break;
        }
        if (depth || i >= p->len) {
            sh_wrong(p, *open, "a subscript that is not closed");
            return 0;
        }
        *close = i++;
    }
    size_t end = i + (i < p->len && p->text[i] == '+');
    return end < p->len && p->text[end] == '=' ? i : 0;
}

static struct tn_sh_assign *read_assignment(struct parser *p)
{
    size_t open, close, name_end = find_assignment(p, &open, &close), len = p->len;
    if (!name_end)
        return NULL;
    struct tn_sh_assign *assign = sh_get(p, sizeof(*assign));
    assign->start = p->pos;
    size_t name_len = (open ? open - 1 : name_end) - p->pos;
    assign->name = tn_arena_copy(p->common->tree->arena, p->text + p->pos, name_len);
    if (open) {
        p->pos = open;
        p->len = close;
        assign->index = sh_read_word(p, WORD_BODY);
        if (!p->failed)
            p->len = len;
    }
    sh_note_name(p, assign->name, name_len);
    p->pos = p->failed ? p->pos : name_end;
    assign->add = sh_eat(p, "+");
    sh_eat(p, "=");
    assign->value = sh_read_word(p, WORD_VALUE);
    assign->end = p->pos;
    return assign;
}

/* --- simple commands --------------------------------------------------------------------- */

/* Commands that change the variables they name; the first ones take NAME=(...) too. */
static const char *const changing[] = {"declare", "typeset",   "local",   "export", "readonly",
                                       "alias",   "eval",      "let",     "read",   "mapfile",
                                       "unset",   "readarray", "getopts", "printf", "wait"};
enum { DECLARING = 8 };

static bool is_changing(const struct tn_sh_node *node, size_t rows)
{
    for (size_t i = 0; node->words && i < rows; i++)
        if (sh_word_is(node->words, changing[i]))
            return true;
    return false;
}

/* declare -n: another name for a variable, which nobody follows. */
static bool makes_reference(const struct tn_sh_node *node)
{
    const struct tn_sh_part *option = node->words->next ? node->words->next->parts : NULL;
    return is_changing(node, DECLARING) && option && option->kind == TN_SH_TEXT &&
           option->text[0] == '-' && strchr(option->text, 'n');
}

/* Commands that may change any variable; so may one whose name is not known here. */
static const char *const changing_all[] = {"eval", "source", ".", "builtin", "command", "alias"};

static bool changes_all(const struct tn_sh_node *node)
{
    const struct tn_sh_word *name = node->words;
    for (size_t i = 0; i < TN_COUNT(changing_all); i++)
        if (sh_word_is(name, changing_all[i]))
            return true;
    return makes_reference(node) || name->parts->next || name->parts->kind != TN_SH_TEXT;
}

static void note_words(struct parser *p, const struct tn_sh_node *node)
{
    for (const struct tn_sh_word *word = node->words->next; word; word = word->next) {
        const char *text = word->parts && word->parts->text ? word->parts->text : "";
        size_t len = 0;
        while (sh_is_name(text[len], len == 0))
            len++;
        if (len)
            sh_note_name(p, text, len);
    }
}

/* NAME ( ): true when it is a function. */
static bool read_definition(struct parser *p, struct tn_sh_node *node)
{
    struct tn_sh_word *name = node->words;
    sh_skip_blanks(p);
    if (!sh_eat(p, "("))
        return false;
    sh_skip_blanks(p);
    if (!sh_eat(p, ")") || name->next || node->assigns || node->redirects) {
        sh_wrong(p, p->pos, "( where no function is defined");
        return false;
    }
    node->name =
        tn_arena_copy(p->common->tree->arena, p->text + name->start, name->end - name->start);
    node->words = NULL;
    sh_read_body(p, node);
    return true;
}

void sh_read_simple(struct parser *p, struct tn_sh_node *node)
{
    struct tn_sh_word **words = &node->words;
    struct tn_sh_assign **assigns = &node->assigns;
    struct tn_sh_redirect **redirects = &node->redirects;
    size_t end = p->pos;
    for (;; end = p->pos) {
        sh_skip_blanks(p);
        if (read_redirect(p, &redirects))
            continue;
        int c = sh_next(p);
        if (c == '(' && node->words) {
            if (read_definition(p, node))
                return;
            break;
        }
        if (sh_is_meta(c) && !sh_sees(p, "<(") && !sh_sees(p, ">("))
            break;
        struct tn_sh_assign *assign = node->words ? NULL : read_assignment(p);
        if (assign) {
            *assigns = assign;
            assigns = &assign->next;
            continue;
        }
        bool declares = is_changing(node, DECLARING);
        enum word_mode mode = declares ? WORD_DECLARE : node->words ? WORD_PLAIN : WORD_COMMAND;
        *words = sh_read_word(p, mode);
        words = &(*words)->next;
    }
    if (!node->words && !node->assigns && !node->redirects)
        sh_wrong(p, p->pos, "a command was expected");
    if (p->failed)
        return;
    if (is_changing(node, TN_COUNT(changing)))
        note_words(p, node);
    if (node->words && changes_all(node))
        sh_note_name(p, "*", 1);
    if (node->words && (sh_word_is(node->words, "set") || sh_word_is(node->words, "shift")))
        sh_note_name(p, "@", 1);
    p->pos = end;
}

/* --- [[ ]] ------------------------------------------------------------------------------- */

static const char unary[] = "abcdefghknoprstuvwxzGLNORS";
static const char *const binary[] = {"==",  "=",   "!=",  "=~",  "-eq", "-ne", "-lt",
                                     "-le", "-gt", "-ge", "-nt", "-ot", "-ef"};

struct test {
    struct parser *p;
    struct tn_sh_word **tail;
};

static struct tn_sh_word *add_word(struct test *t, struct tn_sh_word *word)
{
    *t->tail = word;
    t->tail = &word->next;
    return word;
}

/* An operator, which becomes a word too. */
static bool eat_test(struct test *t, const char *chars)
{
    size_t start = t->p->pos;
    if (!sh_eat(t->p, chars))
        return false;
    struct tn_sh_word *word = add_word(t, sh_get(t->p, sizeof(*word)));
    word->start = start;
    word->end = t->p->pos;
    word->parts = sh_get(t->p, sizeof(*word->parts));
    *word->parts = (struct tn_sh_part){.kind = TN_SH_TEXT, .start = start, .end = t->p->pos};
    word->parts->text = tn_arena_copy(t->p->common->tree->arena, chars, strlen(chars));
    return true;
}

static void read_any(struct test *t);

static void read_comparison(struct test *t)
{
    struct parser *p = t->p;
    sh_skip_blanks(p);
    if (eat_test(t, "<") || eat_test(t, ">")) {
        add_word(t, sh_expect_plain(p, WORD_PLAIN, "a word"));
        return;
    }
    if (sh_is_meta(sh_next(p)) || sh_sees(p, "]]"))
        return;
    struct tn_sh_word *op = add_word(t, sh_read_word(p, WORD_PLAIN));
    size_t i = 0;
    while (i < TN_COUNT(binary) && !sh_word_is(op, binary[i]))
        i++;
    if (i == TN_COUNT(binary))
        sh_wrong(p, op->start, "an operator was expected in [[ ]]");
    bool regex = sh_word_is(op, "=~");
    add_word(t, sh_expect_plain(p, regex ? WORD_REGEX : WORD_PLAIN, "a word"));
}

static void read_term(struct test *t)
{
    struct parser *p = t->p;
    sh_skip_lines(p);
    if (!sh_enter(p))
        return;
    if (eat_test(t, "(")) {
        read_any(t);
        sh_skip_lines(p);
        if (!eat_test(t, ")"))
            sh_wrong(p, p->pos, ") was expected in [[ ]]");
    } else {
        struct tn_sh_word *word = add_word(t, sh_expect_plain(p, WORD_PLAIN, "a word"));
        const char *text = word->parts && word->parts->text ? word->parts->text : "";
        if (sh_word_is(word, "]]"))
            sh_wrong(p, word->start, "an expression was expected before ]]");
        else if (sh_word_is(word, "!"))
            read_term(t);
        else if (sh_word_is(word, text) && text[0] == '-' && text[1] && !text[2] &&
                 strchr(unary, text[1]))
            add_word(t, sh_expect_plain(p, WORD_PLAIN, "a word"));
        else
            read_comparison(t);
    }
    if (!p->failed)
        sh_leave(p);
}

static void read_any(struct test *t)
{
    do {
        read_term(t);
        sh_skip_lines(t->p);
    } while (eat_test(t, "&&") || eat_test(t, "||"));
}

void sh_read_test(struct parser *p, struct tn_sh_node *node)
{
    struct test t = {.p = p, .tail = &node->words};
    read_any(&t);
    if (!sh_eat(p, "]]") || !sh_is_meta(sh_next(p)))
        sh_wrong(p, p->pos, "]] was expected");
}
