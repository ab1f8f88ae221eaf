/* The grammar: lists, pipelines and compound commands. */
#include "security/command/parse.h"

static struct tn_sh_node *read_command(struct parser *p);

struct tn_sh_node *sh_begin(struct parser *p, enum tn_sh_node_kind kind)
{
    struct tn_sh_node *node = sh_get(p, sizeof(*node));
    node->kind = kind;
    node->start = p->pos;
    node->assigned = p->common->tree->name_count;
    return node;
}

void sh_end(struct parser *p, struct tn_sh_node *node)
{
    node->end = p->pos;
    node->assigned_end = p->common->tree->name_count;
}

/* --- reserved words ---------------------------------------------------------------------- */

static bool sees_word(struct parser *p, const char *literal)
{
    size_t start = p->pos;
    bool seen = sh_eat(p, literal) && sh_is_meta(sh_next(p));
    p->pos = start;
    return seen;
}

static bool eat_word(struct parser *p, const char *literal)
{
    return sees_word(p, literal) && sh_eat(p, literal);
}

static void expect_word(struct parser *p, const char *literal)
{
    sh_skip_lines(p);
    if (!eat_word(p, literal))
        sh_wrong(p, p->pos, "'%s' was expected", literal);
}

static void read_if(struct parser *p, struct tn_sh_node *node);
static void read_while(struct parser *p, struct tn_sh_node *node);
static void read_for(struct parser *p, struct tn_sh_node *node);
static void read_case(struct parser *p, struct tn_sh_node *node);
static void read_group(struct parser *p, struct tn_sh_node *node);
static void read_function(struct parser *p, struct tn_sh_node *node);
static void read_coproc(struct parser *p, struct tn_sh_node *node);

/* Words that begin a command, and words that only go on with one or end it. */
static const struct reserved {
    const char *text;
    void (*read)(struct parser *p, struct tn_sh_node *node);
    enum tn_sh_node_kind kind;
} reserved_words[] = {
    {"if", read_if, TN_SH_IF},
    {"while", read_while, TN_SH_WHILE},
    {"until", read_while, TN_SH_UNTIL},
    {"for", read_for, TN_SH_FOR},
    {"select", read_for, TN_SH_SELECT},
    {"case", read_case, TN_SH_CASE},
    {"[[", sh_read_test, TN_SH_TEST},
    {"{", read_group, TN_SH_GROUP},
    {"function", read_function, TN_SH_FUNCTION},
    {"coproc", read_coproc, TN_SH_COPROC},
    {"then", NULL, TN_SH_LIST},
    {"elif", NULL, TN_SH_LIST},
    {"else", NULL, TN_SH_LIST},
    {"fi", NULL, TN_SH_LIST},
    {"do", NULL, TN_SH_LIST},
    {"done", NULL, TN_SH_LIST},
    {"esac", NULL, TN_SH_LIST},
    {"}", NULL, TN_SH_LIST},
    {"in", NULL, TN_SH_LIST},
    {"]]", NULL, TN_SH_LIST},
};

static const struct reserved *find_reserved(struct parser *p)
{
    for (size_t i = 0; i < TN_COUNT(reserved_words); i++)
        if (sees_word(p, reserved_words[i].text))
            return &reserved_words[i];
    return NULL;
}

/* --- lists ------------------------------------------------------------------------------- */

static bool list_ends(struct parser *p)
{
    int c = sh_next(p);
    if (c == -1 || c == ')' || sh_sees(p, ";;") || sh_sees(p, ";&"))
        return true;
    const struct reserved *word = find_reserved(p);
    return word && !word->read;
}

/* ! and time before a pipeline; true when there was one. */
static bool read_prefixes(struct parser *p, struct tn_sh_node *node)
{
    bool any = false;
    for (;; any = true) {
        sh_skip_blanks(p);
        if (eat_word(p, "!")) {
            node->negated = !node->negated;
        } else if (eat_word(p, "time")) {
            node->timed = true;
            sh_skip_blanks(p);
            node->timed_posix = eat_word(p, "-p");
            sh_skip_blanks(p);
            eat_word(p, "--");
        } else {
            return any;
        }
    }
}

static struct tn_sh_node *read_pipeline(struct parser *p)
{
    struct tn_sh_node *node = sh_begin(p, TN_SH_PIPELINE);
    struct tn_sh_node **tail = &node->body;
    bool prefixed = read_prefixes(p, node);
    int c = sh_next(p);
    if (!prefixed || (c != -1 && c != '\n' && c != ';')) {
        for (;;) {
            struct tn_sh_node *command = *tail = read_command(p);
            tail = &command->next;
            size_t end = p->pos;
            sh_skip_blanks(p);
            command->pipe_errors = sh_eat(p, "|&");
            if (!command->pipe_errors && (sh_sees(p, "||") || !sh_eat(p, "|"))) {
                node->end = end;
                break;
            }
            sh_skip_lines(p);
        }
    }
    size_t end = node->end > node->start ? node->end : p->pos;
    sh_end(p, node);
    node->end = end;
    return node;
}

/* What stands between two pipelines; false when nothing does. */
static bool read_join(struct parser *p, struct tn_sh_node *pipeline)
{
    sh_skip_blanks(p);
    bool and = sh_eat(p, "&&");
    if (and || sh_eat(p, "||")) {
        pipeline->join = and? TN_SH_AND : TN_SH_OR;
        sh_skip_lines(p);
        if (list_ends(p))
            sh_wrong(p, p->pos, "a command was expected after %s", and? "&&" : "||");
        return true;
    }
    if (sh_sees(p, ";;") || sh_sees(p, ";&"))
        return false;
    if (sh_eat(p, "&")) {
        pipeline->join = TN_SH_BACKGROUND;
        return true;
    }
    return sh_eat(p, ";") || sh_next(p) == '\n';
}

struct tn_sh_node *sh_read_list(struct parser *p, bool may_be_empty)
{
    struct tn_sh_node *node = sh_begin(p, TN_SH_LIST);
    struct tn_sh_node **tail = &node->body;
    bool more = sh_enter(p);
    while (more) {
        sh_skip_lines(p);
        if (list_ends(p))
            break;
        struct tn_sh_node *pipeline = *tail = read_pipeline(p);
        tail = &pipeline->next;
        more = read_join(p, pipeline);
    }
    if (!node->body && !may_be_empty)
        sh_wrong(p, p->pos, "a command was expected");
    if (!p->failed)
        sh_leave(p);
    sh_end(p, node);
    return node;
}

struct tn_sh_node *sh_read_substitution(struct parser *p, const char *close)
{
    size_t start = p->pos;
    struct pending *outside = p->pending;
    p->pending = NULL;
    p->substitutions++;
    struct tn_sh_node *list = sh_read_list(p, true);
    p->substitutions--;
    sh_skip_lines(p);
    if (!sh_eat(p, close))
        sh_wrong(p, start, "a substitution that is not closed by %s", close);
    /* Here-documents that are still open follow the line outside. */
    struct pending **tail = &outside;
    while (*tail)
        tail = &(*tail)->next;
    *tail = p->pending;
    p->pending = outside;
    return list;
}

/* --- compound commands ------------------------------------------------------------------- */

static void read_if(struct parser *p, struct tn_sh_node *node)
{
    struct tn_sh_node *branch = node;
    for (;;) {
        branch->test = sh_read_list(p, false);
        expect_word(p, "then");
        branch->body = sh_read_list(p, false);
        size_t start = p->pos;
        if (!eat_word(p, "elif"))
            break;
        branch = branch->other = sh_begin(p, TN_SH_IF);
        branch->start = start;
    }
    if (eat_word(p, "else"))
        branch->other = sh_read_list(p, false);
    expect_word(p, "fi");
    for (struct tn_sh_node *each = node; each && each->kind == TN_SH_IF; each = each->other)
        sh_end(p, each);
}

static void read_while(struct parser *p, struct tn_sh_node *node)
{
    node->test = sh_read_list(p, false);
    expect_word(p, "do");
    node->body = sh_read_list(p, false);
    expect_word(p, "done");
}

static void read_group(struct parser *p, struct tn_sh_node *node)
{
    node->body = sh_read_list(p, false);
    expect_word(p, "}");
}

struct tn_sh_word *sh_expect_plain(struct parser *p, enum word_mode mode, const char *what)
{
    sh_skip_blanks(p);
    struct tn_sh_word *word = sh_read_word(p, mode);
    if (!word->parts)
        sh_wrong(p, p->pos, "%s was expected", what);
    return word;
}

static const char *read_name(struct parser *p, const char *what)
{
    struct tn_sh_word *word = sh_expect_plain(p, WORD_COMMAND, what);
    return tn_arena_copy(p->common->tree->arena, p->text + word->start, word->end - word->start);
}

static void read_loop_words(struct parser *p, struct tn_sh_node *node)
{
    struct tn_sh_word **tail = &node->words;
    node->has_words = true;
    for (sh_skip_blanks(p); !sh_is_meta(sh_next(p)) || sh_sees(p, "<(") || sh_sees(p, ">(");
         sh_skip_blanks(p)) {
        *tail = sh_read_word(p, WORD_PLAIN);
        tail = &(*tail)->next;
    }
    if (!sh_eat(p, ";") && sh_next(p) != '\n')
        sh_wrong(p, p->pos, "; or a newline was expected after the words of a loop");
}

static void read_for(struct parser *p, struct tn_sh_node *node)
{
    sh_skip_blanks(p);
    if (node->kind == TN_SH_FOR && sh_eat(p, "((")) {
        node->kind = TN_SH_FOR_ARITH;
        node->words = sh_read_arithmetic(p);
        if (!node->words)
            sh_wrong(p, node->start, "'for ((' that is not closed by '))'");
        sh_skip_blanks(p);
        sh_eat(p, ";");
    } else {
        node->name = read_name(p, "the name of a variable");
        sh_note_name(p, node->name, strlen(node->name));
        sh_skip_blanks(p);
        bool in = sh_next(p) != ';' && (sh_skip_lines(p), eat_word(p, "in"));
        if (in)
            read_loop_words(p, node);
        else
            sh_eat(p, ";");
    }
    sh_skip_lines(p);
    bool braces = eat_word(p, "{");
    if (!braces)
        expect_word(p, "do");
    node->body = sh_read_list(p, false);
    expect_word(p, braces ? "}" : "done");
}

static void read_clause(struct parser *p, struct tn_sh_node *clause)
{
    static const char *const endings[] = {";;&", ";;", ";&"};
    struct tn_sh_word **tail = &clause->words;
    sh_eat(p, "(");
    do {
        *tail = sh_expect_plain(p, WORD_PLAIN, "a pattern");
        tail = &(*tail)->next;
        sh_skip_blanks(p);
    } while (sh_eat(p, "|"));
    if (!sh_eat(p, ")"))
        sh_wrong(p, p->pos, ") was expected after a pattern");
    clause->body = sh_read_list(p, true);
    for (size_t i = 0; i < TN_COUNT(endings) && !clause->ending; i++)
        if (sh_eat(p, endings[i]))
            clause->ending = endings[i];
    sh_end(p, clause);
}

static void read_case(struct parser *p, struct tn_sh_node *node)
{
    struct tn_sh_node **tail = &node->body;
    node->words = sh_expect_plain(p, WORD_PLAIN, "a word");
    expect_word(p, "in");
    sh_skip_lines(p);
    while (!p->failed && !sees_word(p, "esac")) {
        struct tn_sh_node *clause = *tail = sh_begin(p, TN_SH_CLAUSE);
        tail = &clause->next;
        read_clause(p, clause);
        sh_skip_lines(p);
        if (!clause->ending)
            break;
    }
    expect_word(p, "esac");
}

static bool is_compound(const struct tn_sh_node *node)
{
    return node->kind != TN_SH_SIMPLE && node->kind != TN_SH_FUNCTION && node->kind != TN_SH_COPROC;
}

void sh_read_body(struct parser *p, struct tn_sh_node *node)
{
    node->kind = TN_SH_FUNCTION;
    sh_skip_lines(p);
    size_t start = p->pos;
    node->body = read_command(p);
    if (!is_compound(node->body))
        sh_wrong(p, start, "the body of a function was expected");
}

static bool eat_parens(struct parser *p)
{
    size_t start = p->pos;
    sh_skip_blanks(p);
    if (sh_eat(p, "(")) {
        sh_skip_blanks(p);
        if (sh_eat(p, ")"))
            return true;
    }
    p->pos = start;
    return false;
}

static void read_function(struct parser *p, struct tn_sh_node *node)
{
    node->name = read_name(p, "the name of a function");
    eat_parens(p);
    sh_read_body(p, node);
}

static bool sees_compound(struct parser *p)
{
    sh_skip_blanks(p);
    const struct reserved *word = find_reserved(p);
    return (word && word->read) || sh_next(p) == '(';
}

static void read_coproc(struct parser *p, struct tn_sh_node *node)
{
    sh_skip_blanks(p);
    size_t start = p->pos;
    const char *name = "COPROC";
    if (!sees_compound(p)) {
        name = read_name(p, "a command");
        if (sees_compound(p))
            node->name = name;
        else if (!p->failed)
            p->pos = start;
    }
    sh_note_name(p, name, strlen(name));
    node->body = read_command(p);
    if (node->body->kind == TN_SH_FUNCTION || node->body->kind == TN_SH_COPROC)
        sh_wrong(p, start, "a command was expected after 'coproc'");
}

/* ( ... ), or (( ... )). */
static void read_parens(struct parser *p, struct tn_sh_node *node)
{
    size_t start = p->pos;
    if (sh_eat(p, "((")) {
        node->words = sh_read_arithmetic(p);
        node->kind = TN_SH_ARITH;
        if (node->words || p->failed)
            return;
        p->pos = start;
    }
    sh_eat(p, "(");
    node->kind = TN_SH_SUBSHELL;
    node->body = sh_read_list(p, false);
    sh_skip_lines(p);
    if (!sh_eat(p, ")"))
        sh_wrong(p, start, "( that is not closed");
}

static struct tn_sh_node *read_command(struct parser *p)
{
    sh_skip_blanks(p);
    const struct reserved *word = find_reserved(p);
    struct tn_sh_node *node = sh_begin(p, TN_SH_SIMPLE);
    if (!sh_enter(p))
        return node;
    if (word && word->read) {
        node->kind = word->kind;
        sh_eat(p, word->text);
        word->read(p, node);
    } else if (word || sees_word(p, "!")) {
        sh_wrong(p, p->pos, "a command was expected");
    } else if (sh_next(p) == '(') {
        read_parens(p, node);
    } else {
        sh_read_simple(p, node);
    }
    if (node->kind != TN_SH_SIMPLE)
        sh_read_redirects(p, node);
    sh_end(p, node);
    if (!p->failed)
        sh_leave(p);
    return node;
}
