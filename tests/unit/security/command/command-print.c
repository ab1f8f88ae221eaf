/* A tree as shell text.
 *
 * Words are printed as they were written, except for the substitutions in them, which are printed
 * from their trees; so are commands.  Bodies of here-documents follow the line they belong to. */
#include "command-print.h"

struct printer {
    const char *text;
    struct tn_buf *out;
    const struct tn_sh_redirect **open; /* here-documents whose bodies are still to be printed */
    size_t open_count, open_room;
    unsigned inside; /* substitutions, where bash keeps a ; */
};

static void print_list(struct printer *o, const struct tn_sh_node *list);
static void print_words(struct printer *o, const struct tn_sh_word *words, const char *between);

static void put(struct printer *o, const char *text)
{
    tn_buf_puts(o->out, text);
}

static void put_source(struct printer *o, size_t start, size_t end)
{
    if (start < end)
        tn_buf_add(o->out, o->text + start, end - start);
}

/* A newline, and the bodies that must follow it. */
static void end_line(struct printer *o)
{
    put(o, "\n");
    for (size_t i = 0; i < o->open_count; i++) {
        const struct tn_sh_redirect *r = o->open[i];
        put_source(o, r->body_start, r->body_end);
        for (const struct tn_sh_part *part = r->target->parts; part; part = part->next)
            if (part->kind == TN_SH_TEXT)
                put(o, part->text);
            else
                put_source(o, part->start, part->end);
        put(o, "\n");
    }
    o->open_count = 0;
}

/* --- words ------------------------------------------------------------------------------- */

static void print_inside(struct printer *o, const struct tn_sh_node *list, const char *open,
                         const char *close)
{
    const struct tn_sh_redirect **outside = o->open;
    size_t count = o->open_count, room = o->open_room;
    o->open = NULL;
    o->open_count = o->open_room = 0;
    put(o, open);
    o->inside++;
    print_list(o, list);
    o->inside--;
    put(o, close);
    free(o->open);
    o->open = outside;
    o->open_count = count;
    o->open_room = room;
}

static void print_word(struct printer *o, const struct tn_sh_word *word)
{
    size_t at = word->start;
    for (const struct tn_sh_part *part = word->parts; part; part = part->next) {
        if (part->kind == TN_SH_TEXT || part->source)
            continue;
        put_source(o, at, part->start);
        at = part->end;
        if (part->kind == TN_SH_PROCESS) {
            print_inside(o, part->list, part->text[0] == '<' ? "<(" : ">(", ")");
        } else if (part->kind == TN_SH_COMMAND && o->text[part->start + 1] == '(' &&
                   o->text[part->start + 2] != '(') {
            bool again = part->list->body && o->text[part->list->body->start] == '(';
            print_inside(o, part->list, again ? "$( " : "$(", ")");
        } else if (part->kind == TN_SH_ARRAY) {
            put(o, "(");
            print_words(o, part->word, " ");
            put(o, ")");
        } else if (part->word) {
            put_source(o, part->start, part->word->start);
            print_word(o, part->word);
            put_source(o, part->word->end, part->end);
        } else {
            put_source(o, part->start, part->end);
        }
    }
    put_source(o, at, word->end);
}

static void print_words(struct printer *o, const struct tn_sh_word *words, const char *between)
{
    for (const struct tn_sh_word *word = words; word; word = word->next) {
        print_word(o, word);
        if (word->next)
            put(o, between);
    }
}

/* --- simple commands --------------------------------------------------------------------- */

static const char *const operators[] = {
    [TN_SH_READ] = "<",          [TN_SH_WRITE] = ">",         [TN_SH_CLOBBER] = ">|",
    [TN_SH_APPEND] = ">>",       [TN_SH_READ_WRITE] = "<>",   [TN_SH_WRITE_BOTH] = "&>",
    [TN_SH_APPEND_BOTH] = "&>>", [TN_SH_COPY_READ] = "<&",    [TN_SH_COPY_WRITE] = ">&",
    [TN_SH_HERE_TEXT] = "<<",    [TN_SH_HERE_STRING] = "<<<",
};

static void print_redirect(struct printer *o, const struct tn_sh_redirect *r)
{
    if (r->variable)
        tn_buf_printf(o->out, "{%s}", r->variable);
    else if (r->has_fd)
        tn_buf_printf(o->out, "%d", r->fd);
    bool both = r->kind == TN_SH_WRITE_BOTH && o->text[r->start] == '>';
    put(o, both ? ">&" : operators[r->kind]);
    put(o, r->tabs ? "-" : "");
    put(o, r->kind == TN_SH_HERE_TEXT ? "" : " ");
    print_word(o, r->target);
    if (r->kind != TN_SH_HERE_TEXT)
        return;
    if (o->open_count == o->open_room) {
        o->open_room = o->open_room ? 2 * o->open_room : 4;
        o->open = tn_realloc(o->open, o->open_room * sizeof(*o->open));
    }
    o->open[o->open_count++] = r;
}

static void print_simple(struct printer *o, const struct tn_sh_node *node)
{
    for (const struct tn_sh_assign *a = node->assigns; a; a = a->next) {
        put_source(o, a->start, a->value->start);
        print_word(o, a->value);
        put(o, a->next || node->words ? " " : "");
    }
    print_words(o, node->words, " ");
}

/* --- compound commands ------------------------------------------------------------------- */

static void print_command(struct printer *o, const struct tn_sh_node *node);

/* WORD, the list on lines of its own. */
static void print_block(struct printer *o, const char *word, const struct tn_sh_node *list)
{
    put(o, word);
    end_line(o);
    print_list(o, list);
    end_line(o);
}

static void print_if(struct printer *o, const struct tn_sh_node *node)
{
    const char *word = "if";
    for (; node && node->kind == TN_SH_IF; node = node->other, word = "elif") {
        print_block(o, word, node->test);
        print_block(o, "then", node->body);
        if (node->other && node->other->kind == TN_SH_LIST)
            print_block(o, "else", node->other);
    }
    put(o, "fi");
}

static void print_loop(struct printer *o, const struct tn_sh_node *node)
{
    if (node->kind == TN_SH_WHILE || node->kind == TN_SH_UNTIL) {
        print_block(o, node->kind == TN_SH_WHILE ? "while" : "until", node->test);
    } else if (node->kind == TN_SH_FOR_ARITH) {
        put(o, "for ((");
        print_word(o, node->words);
        put(o, "))");
    } else {
        tn_buf_printf(o->out, "%s %s", node->kind == TN_SH_FOR ? "for" : "select", node->name);
        put(o, node->has_words ? " in " : "");
        print_words(o, node->words, " ");
    }
    if (!node->test)
        end_line(o);
    print_block(o, "do", node->body);
    put(o, "done");
}

static void print_case(struct printer *o, const struct tn_sh_node *node)
{
    put(o, "case ");
    print_word(o, node->words);
    put(o, " in");
    end_line(o);
    for (const struct tn_sh_node *clause = node->body; clause; clause = clause->next) {
        put(o, "(");
        print_words(o, clause->words, " | ");
        print_block(o, ")", clause->body);
        put(o, clause->ending ? clause->ending : ";;");
        end_line(o);
    }
    put(o, "esac");
}

static void print_function(struct printer *o, const struct tn_sh_node *node)
{
    tn_buf_printf(o->out, "function %s ()", node->name);
    end_line(o);
    print_command(o, node->body);
}

static void print_compound(struct printer *o, const struct tn_sh_node *node)
{
    switch (node->kind) {
    case TN_SH_LIST:
        print_list(o, node);
        break;
    case TN_SH_GROUP:
        print_block(o, "{", node->body);
        put(o, "}");
        break;
    case TN_SH_SUBSHELL:
        put(o, "( ");
        print_list(o, node->body);
        end_line(o);
        put(o, ")");
        break;
    case TN_SH_IF:
        print_if(o, node);
        break;
    case TN_SH_WHILE:
    case TN_SH_UNTIL:
    case TN_SH_FOR:
    case TN_SH_SELECT:
    case TN_SH_FOR_ARITH:
        print_loop(o, node);
        break;
    case TN_SH_CASE:
        print_case(o, node);
        break;
    case TN_SH_TEST:
        put(o, "[[ ");
        print_words(o, node->words, " ");
        put(o, " ]]");
        break;
    case TN_SH_ARITH:
        put(o, "((");
        print_word(o, node->words);
        put(o, "))");
        break;
    case TN_SH_FUNCTION:
        print_function(o, node);
        break;
    case TN_SH_COPROC:
        put(o, "coproc ");
        put(o, node->name ? node->name : "");
        put(o, node->name ? " " : "");
        print_command(o, node->body);
        break;
    case TN_SH_SIMPLE:
    case TN_SH_PIPELINE:
    case TN_SH_CLAUSE:
        break;
    }
}

static void print_command(struct printer *o, const struct tn_sh_node *node)
{
    if (node->kind == TN_SH_SIMPLE)
        print_simple(o, node);
    else
        print_compound(o, node);
    for (const struct tn_sh_redirect *r = node->redirects; r; r = r->next) {
        put(o, r == node->redirects && node->start == r->start && !node->words ? "" : " ");
        print_redirect(o, r);
    }
}

static void print_pipeline(struct printer *o, const struct tn_sh_node *node)
{
    put(o, node->timed ? node->timed_posix ? "time -p " : "time " : "");
    put(o, node->negated ? "! " : "");
    for (const struct tn_sh_node *command = node->body; command; command = command->next) {
        print_command(o, command);
        if (command->next)
            put(o, command->pipe_errors ? " |& " : " | ");
    }
}

static void print_list(struct printer *o, const struct tn_sh_node *list)
{
    static const char *const joins[] = {
        [TN_SH_THEN] = "", [TN_SH_AND] = " && ", [TN_SH_OR] = " || ", [TN_SH_BACKGROUND] = " &"};
    for (const struct tn_sh_node *node = list->body; node; node = node->next) {
        print_pipeline(o, node);
        put(o, joins[node->join]);
        bool line = node->join == TN_SH_THEN || node->join == TN_SH_BACKGROUND;
        size_t next = node->end + strspn(o->text + node->end, " \t");
        if (line && node->next && o->inside && !o->open_count && o->text[next] == ';')
            put(o, "; ");
        else if (line && (node->next || o->open_count))
            end_line(o);
    }
}

void command_print(const struct tn_sh_tree *tree, struct tn_buf *out)
{
    struct printer o = {.text = tree->text, .out = out};
    print_list(&o, tree->list);
    if (o.open_count)
        end_line(&o);
    free(o.open);
}
