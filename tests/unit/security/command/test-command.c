/* The calls of commands against the table in calls.test (named on the command line), and the
 * limits. With a second argument the table is printed with the answers of today, for whoever
 * extends it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "security/command/calls.h"

static const char *table_path;

/* --- calls as lines ---------------------------------------------------------------------- */

static const char *const flag_names[] = {
    "substitution", "condition", "branch",    "loop",   "background", "subshell", "function",
    "defined",      "remote",    "elsewhere", "raised", "later",      "recursive"};
static const char *const operators[] = {
    [TN_SH_READ] = "<",          [TN_SH_WRITE] = ">",         [TN_SH_CLOBBER] = ">|",
    [TN_SH_APPEND] = ">>",       [TN_SH_READ_WRITE] = "<>",   [TN_SH_WRITE_BOTH] = "&>",
    [TN_SH_APPEND_BOTH] = "&>>", [TN_SH_COPY_READ] = "<&",    [TN_SH_COPY_WRITE] = ">&",
    [TN_SH_HERE_TEXT] = "<<",    [TN_SH_HERE_STRING] = "<<<",
};

/* Newlines of a text would end the line. */
static void put_text(struct tn_buf *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            tn_buf_puts(out, "\\n");
        else
            tn_buf_putc(out, *text);
}

static void put_arg(struct tn_buf *out, const struct tn_arg *arg)
{
    bool plain = arg->text[0] && !strpbrk(arg->text, " \n<>'");
    const char *open = !arg->value ? "<" : plain ? "" : "'";
    tn_buf_puts(out, open);
    put_text(out, arg->text);
    tn_buf_puts(out, open[0] == '<' ? ">" : open);
    if (arg->flags & TN_ARG_GLOB)
        tn_buf_puts(out, "(glob)");
    if (arg->flags & TN_ARG_TILDE)
        tn_buf_puts(out, "(tilde)");
    if (arg->flags & TN_ARG_MANY)
        tn_buf_puts(out, "(many)");
}

static void put_flags(struct tn_buf *out, unsigned flags)
{
    const char *before = "  [";
    for (size_t i = 0; i < TN_COUNT(flag_names); i++)
        if (flags & 1U << i) {
            tn_buf_printf(out, "%s%s", before, flag_names[i]);
            before = " ";
        }
    tn_buf_puts(out, flags ? "]" : "");
}

static void put_call(struct tn_buf *out, const struct tn_call *call)
{
    tn_buf_printf(out, "%*s", (int)call->depth * 2, "");
    const char *space = "";
    for (const struct tn_call_assign *a = call->assigns; a; a = a->next, space = " ") {
        tn_buf_printf(out, "%s%s%s", space, a->name, a->add ? "+=" : "=");
        put_arg(out, &a->value);
    }
    for (size_t i = 0; i < call->argc; i++, space = " ") {
        tn_buf_puts(out, space);
        put_arg(out, &call->argv[i]);
    }
    tn_buf_puts(out, call->more ? " ..." : "");
    for (const struct tn_call_redirect *r = call->redirects; r; r = r->next, space = " ") {
        tn_buf_printf(out, "%s%d%s", space, r->fd, operators[r->kind]);
        put_arg(out, &r->target);
    }
    put_flags(out, call->flags);
    if (call->in)
        tn_buf_printf(out, "  reads %u", call->in);
    if (call->out)
        tn_buf_printf(out, "  writes %u", call->out);
    if (call->language) {
        tn_buf_printf(out, "  %s: ", call->language);
        put_text(out, call->program ? call->program : "?");
    }
    if (call->unseen)
        tn_buf_printf(out, "  UNKNOWN: %s", tn_unseen_text(call->unseen));
    tn_buf_putc(out, '\n');
}

static void put_calls(struct tn_buf *out, const struct tn_buf *text)
{
    struct tn_error err = {0};
    struct tn_calls *calls = tn_calls_new(tn_buf_str(text), text->len, &err);
    if (!calls) {
        tn_buf_printf(out, "refused: %s\n", err.text);
        return;
    }
    for (const struct tn_call *call = calls->first; call; call = call->next)
        put_call(out, call);
    tn_calls_free(calls);
}

/* --- the table --------------------------------------------------------------------------- */

struct test_case {
    char title[128];
    struct tn_buf input, expected;
};

/* Reads the next case; false at the end of the table.  line has its title already, or is empty. */
static bool next_case(FILE *f, struct test_case *c, char **line, size_t *cap)
{
    bool answer = false;
    tn_buf_reset(&c->input);
    tn_buf_reset(&c->expected);
    while (strncmp(*line, "====", 4) != 0)
        if (getline(line, cap, f) < 0)
            return false;
    snprintf(c->title, sizeof(c->title), "%s", *line + 5);
    c->title[strcspn(c->title, "\n")] = 0;
    ssize_t len;
    while ((len = getline(line, cap, f)) > 0 && strncmp(*line, "====", 4) != 0) {
        if (strcmp(*line, "----\n") == 0)
            answer = true;
        else
            tn_buf_add(answer ? &c->expected : &c->input, *line, (size_t)len);
    }
    if (len <= 0)
        (*line)[0] = 0;
    assert_true(answer && tn_buf_ok(&c->input) && tn_buf_ok(&c->expected));
    tn_buf_cut(&c->input, c->input.len - 1); /* the newline of its last line */
    return true;
}

static size_t each_case(bool print)
{
    tn_autofile FILE *f = fopen(table_path, "re");
    assert_non_null(f);
    struct test_case c = {.input = TN_BUF_INIT(1 << 20), .expected = TN_BUF_INIT(1 << 20)};
    size_t cap = 16, count = 0, wrong = 0;
    char *line = tn_calloc(1, cap);
    for (; next_case(f, &c, &line, &cap); count++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
        put_calls(&out, &c.input);
        bool same = strcmp(tn_buf_str(&out), tn_buf_str(&c.expected)) == 0;
        if (print)
            printf("==== %s\n%s\n----\n%s", c.title, tn_buf_str(&c.input), tn_buf_str(&out));
        else if (!same)
            print_error("%s:\n%sexpected\n%s", c.title, tn_buf_str(&out), tn_buf_str(&c.expected));
        wrong += !same;
    }
    tn_buf_done(&c.input);
    tn_buf_done(&c.expected);
    free(line);
    if (!print)
        assert_int_equal(wrong, 0);
    return count;
}

static void test_table(void **state)
{
    assert_true(each_case(false) > 60);
}

/* --- limits ------------------------------------------------------------------------------ */

static enum tn_code refusal(const struct tn_buf *text)
{
    struct tn_error err = {0};
    assert_true(tn_buf_ok(text));
    struct tn_calls *calls = tn_calls_new(tn_buf_str(text), text->len, &err);
    tn_calls_free(calls);
    return calls ? TN_OK : err.code;
}

static void repeat(struct tn_buf *out, const char *piece, size_t times)
{
    while (times-- > 0)
        tn_buf_puts(out, piece);
}

static void test_depth(void **state)
{
    static const char *const openings[] = {
        "(",     "$(", "{ ",     "${x:-",   "if ", "\"$(",    "<(",   "((",     "x=( $(",
        "[[ ( ", "`",  "while ", "case $(", "!",   "coproc ", "f() ", "@(a|@(", "a && { "};
    for (size_t i = 0; i < TN_COUNT(openings); i++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
        repeat(&text, openings[i], 20000);
        enum tn_code code = refusal(&text);
        assert_true(code == TN_OK || code == TN_E_INVALID || code == TN_E_TOO_LARGE);
    }
    tn_autobuf struct tn_buf deep = TN_BUF_INIT(1 << 20);
    repeat(&deep, "( ", 100);
    tn_buf_puts(&deep, "ls");
    repeat(&deep, " )", 100);
    assert_int_equal(refusal(&deep), TN_E_TOO_LARGE);
}

static void *read_small(void *text)
{
    static enum tn_code code;
    code = refusal(text);
    return &code;
}

/* As the service reads it: in a thread with a small stack. */
static enum tn_code refusal_in_thread(const char *begin, const char *piece, size_t times,
                                      const char *end)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    pthread_attr_t attr;
    pthread_t thread;
    void *code;
    tn_buf_puts(&text, begin);
    repeat(&text, piece, times);
    tn_buf_puts(&text, end);
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attr, read_small, &text), 0);
    assert_int_equal(pthread_join(thread, &code), 0);
    pthread_attr_destroy(&attr);
    return *(enum tn_code *)code;
}

static void test_stack(void **state)
{
    static const char *const wrappers[] = {"env ",        "sudo ",           "npx ",
                                           "find -exec ", "git bisect run ", "xargs -I{} ",
                                           "env -u x ",   "timeout 1 nice "};
    for (size_t i = 0; i < TN_COUNT(wrappers); i++)
        assert_int_equal(refusal_in_thread("", wrappers[i], 6000, "true"), TN_E_TOO_LARGE);
    assert_int_equal(refusal_in_thread("", "env ", 20, "true"), TN_OK);
    assert_int_equal(refusal_in_thread("ENV=", "a", 100000, " true"), TN_OK);
    assert_int_equal(refusal_in_thread("JAVA_TOOL_OPTIONS=-Xm", "x", 100000, " true"), TN_OK);
    assert_int_equal(refusal_in_thread("LD_LIBRARY_PATH=/usr/", "x:", 60000, " true"), TN_OK);
}

/* What took time or memory that grew faster than the text. */
static void test_long_scripts(void **state)
{
    assert_int_equal(refusal_in_thread("sed '/", "[[:", 40000, "/d'"), TN_OK);
    assert_int_equal(refusal_in_thread("sed '", "/[[:x]/d;", 14000, "'"), TN_OK);
    assert_int_equal(refusal_in_thread("sed '", "/[/d;", 25000, "'"), TN_OK);
    assert_int_equal(refusal_in_thread("sed ", "-e p ", 8000, ""), TN_OK);
    assert_int_equal(refusal_in_thread("xargs -I{} ", "a ", 16000, ""), TN_OK);
}

static void test_size(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    repeat(&text, "a", TN_SH_MAX_TEXT);
    assert_int_equal(refusal(&text), TN_OK);
    tn_buf_putc(&text, 'a');
    assert_int_equal(refusal(&text), TN_E_TOO_LARGE);
    tn_buf_reset(&text);
    repeat(&text, "a;", TN_CALLS_MAX);
    assert_int_equal(refusal(&text), TN_OK);
    tn_buf_puts(&text, "a");
    assert_int_equal(refusal(&text), TN_E_TOO_LARGE);
}

/* Texts that grow when they are expanded: functions that call each other twice, variables that
 * double, texts inside texts. */
static void test_growth(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    for (int i = 0; i < 30; i++)
        tn_buf_printf(&text, "f%d() { f%d; f%d; }\n", i + 1, i, i);
    tn_buf_puts(&text, "f30");
    assert_int_equal(refusal(&text), TN_E_TOO_LARGE);
    tn_buf_reset(&text);
    tn_buf_puts(&text, "x=aaaaaaaaaa\n");
    repeat(&text, "x=\"$x$x\"\n", 60);
    assert_int_equal(refusal(&text), TN_E_TOO_LARGE);
    tn_buf_reset(&text);
    tn_buf_puts(&text, "f() { sh -c \"$1\"; }\n");
    tn_buf_puts(&text, "x='");
    repeat(&text, "ls;", 1000);
    tn_buf_puts(&text, "'\n");
    repeat(&text, "f \"$x\"\n", 1000);
    assert_int_equal(refusal(&text), TN_E_TOO_LARGE);
    /* Arrays that are copied to be added to. */
    static const char *const additions[] = {" a+=()", " a+=(x)", " b=(\"${a[@]}\" \"${a[@]}\")"};
    for (size_t i = 0; i < TN_COUNT(additions); i++) {
        tn_buf_reset(&text);
        tn_buf_puts(&text, "a=(");
        repeat(&text, "x ", 20000);
        tn_buf_puts(&text, ")");
        repeat(&text, additions[i], 10000 / (i + 1));
        enum tn_code code = refusal(&text);
        assert_true(code == TN_OK || code == TN_E_TOO_LARGE);
    }
}

static void test_nul(void **state)
{
    struct tn_error err = {0};
    assert_null(tn_calls_new("ls\0rm", 5, &err));
    assert_int_equal(err.code, TN_E_INVALID);
    assert_null(tn_calls_new("ls (", 4, NULL));
}

/* --- questions --------------------------------------------------------------------------- */

static const struct tn_call *named(const struct tn_calls *calls, const char *name)
{
    const struct tn_call *call = calls->first;
    while (call && strcmp(call->name, name) != 0)
        call = call->next;
    assert_non_null(call);
    return call;
}

static bool feeds(const char *text, const char *from, const char *to)
{
    struct tn_calls *calls = tn_calls_new(text, strlen(text), NULL);
    assert_non_null(calls);
    bool answer = tn_call_feeds(calls, named(calls, from), named(calls, to));
    tn_calls_free(calls);
    return answer;
}

static void test_feeds(void **state)
{
    static const char *const reach[] = {
        "curl x | sh",          "curl x | tee y | sudo sh", "curl x | { a | b; } | (c; sh)",
        "sh <(curl x)",         "sh -c \"$(curl x)\"",      "a `curl x` | sh",
        "curl x | xargs sh -c", "curl x > >(sh)",           "sh <<< $(curl x)"};
    for (size_t i = 0; i < TN_COUNT(reach); i++)
        if (!feeds(reach[i], "curl", "sh"))
            fail_msg("curl does not reach sh: %s", reach[i]);
    assert_false(feeds("curl x; sh", "curl", "sh"));
    assert_false(feeds("sh | curl x", "curl", "sh"));
    assert_false(feeds("curl x | cat; echo | sh", "curl", "sh"));
}

static void test_words(void **state)
{
    const char *text = "rm -rf -- -x 'a b'";
    struct tn_calls *calls = tn_calls_new(text, strlen(text), NULL);
    const struct tn_call *rm = calls->first;
    assert_true(tn_call_letter(rm, 'r') && tn_call_letter(rm, 'f') && !tn_call_letter(rm, 'x'));
    assert_true(tn_call_has(rm, "a b") && !tn_call_has(rm, "rm"));
    assert_int_equal(rm->argv[4].start, 13);
    assert_string_equal(rm->quote, text);
    tn_calls_free(calls);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    table_path = argv[1];
    if (argc > 2)
        return each_case(true) == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_stack), cmocka_unit_test(test_long_scripts),
        cmocka_unit_test(test_size),  cmocka_unit_test(test_growth),
        cmocka_unit_test(test_nul),   cmocka_unit_test(test_feeds),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
