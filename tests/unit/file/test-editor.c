/* Runs the table of cases in editor.test. */
#include "scratch.h"

#include "base/clock.h"
#include "hand/file/edit.h"

static const char *table_path;

/* The command being put together, and what came of the last one. */
struct player {
    const struct scratch *scratch;
    struct tn_editor *editor;
    const char *name; /* of the case */
    int line;
    struct tn_edit_request q;
    char *path, *command, *texts[4]; /* what the request points to */
    struct tn_edit_result result;
    int failures;
};

/* --- reading the table --------------------------------------------------------------------- */

static char unescape_one(const char **at)
{
    const char *s = *at;
    char hex[3];

    *at += 2;
    switch (s[1]) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'x':
        memcpy(hex, s + 2, 2);
        hex[2] = '\0';
        *at += 2;
        return (char)strtol(hex, NULL, 16);
    default:
        return s[1];
    }
}

static void unescape(const struct player *p, const char *s, struct tn_buf *out)
{
    tn_buf_reset(out);
    while (*s) {
        if (*s == '\\') {
            tn_buf_putc(out, unescape_one(&s));
        } else if (strncmp(s, "{d}", 3) == 0) {
            tn_buf_puts(out, p->scratch->dir);
            s += 3;
        } else {
            tn_buf_putc(out, *s++);
        }
    }
}

/* --- playing it ---------------------------------------------------------------------------- */

static void complain(struct player *p, const char *what, const struct tn_buf *want,
                     const struct tn_buf *got)
{
    p->failures++;
    print_error("%s:%d: %s: %s differs\n--- expected\n%s\n--- got\n%s\n---\n", table_path, p->line,
                p->name, what, tn_buf_str(want), tn_buf_str(got));
}

static void compare(struct player *p, const char *what, const struct tn_buf *want,
                    const struct tn_buf *got)
{
    if (want->len != got->len || memcmp(tn_buf_str(want), tn_buf_str(got), got->len) != 0)
        complain(p, what, want, got);
}

static void forget_request(struct player *p)
{
    free(p->path);
    free(p->command);
    for (size_t i = 0; i < TN_COUNT(p->texts); i++)
        free(p->texts[i]);
    p->path = p->command = NULL;
    memset(p->texts, 0, sizeof p->texts);
    p->q = (struct tn_edit_request){.deadline = tn_deadline_in(10)};
}

static char *keep(struct player *p, int slot, const struct tn_buf *b)
{
    free(p->texts[slot]);
    p->texts[slot] = tn_malloc(b->len + 1);
    memcpy(p->texts[slot], tn_buf_str(b), b->len + 1);
    return p->texts[slot];
}

/* "view a.txt 2 5", "insert a.txt bad twelve"; raw: the path is taken as it is. */
static void start_command(struct player *p, const char *command, char *args, bool raw)
{
    forget_request(p);
    char *rest = strchr(args, ' ');
    if (rest)
        *rest++ = '\0';
    p->path = raw ? tn_strdup(args) : in_scratch(p->scratch, args);
    p->command = tn_strdup(command);
    p->q.command = tn_slice(p->command);
    p->q.path = tn_slice(p->path);
    if (!rest)
        return;
    bool bad = strncmp(rest, "bad ", 4) == 0;
    if (bad) {
        p->texts[3] = tn_strdup(rest + 4);
        if (strcmp(command, "insert") == 0)
            p->q.bad_insert_line = tn_slice(p->texts[3]);
        else
            p->q.view_range_shown = tn_slice(p->texts[3]);
        p->q.view = strcmp(command, "view") == 0 ? TN_VIEW_BAD_RANGE : TN_VIEW_ALL;
    } else if (strcmp(command, "insert") == 0) {
        p->q.has_insert_line = true;
        p->q.insert_line = strtoll(rest, NULL, 10);
    } else {
        char *end;
        p->q.view = TN_VIEW_RANGE;
        p->q.first_line = strtoll(rest, &end, 10);
        p->q.last_line = strtoll(end, NULL, 10);
    }
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static const char *const commands[] = {"view",      "create", "str_replace", "insert",
                                       "undo_edit", "rename", NULL};
static const char *const words[] = {"file",   "raw",  "file_text", "old_str", "new_str",
                                    "expect", "diff", "now",       "gone",    NULL};

static void play_section(struct player *p, const char *word, char *args, const struct tn_buf *body)
{
    tn_autobuf struct tn_buf got = TN_BUF_INIT(1u << 20);

    if (is_one_of(word, commands)) {
        start_command(p, word, args, false);
    } else if (strcmp(word, "raw") == 0) {
        char *path = strchr(args, ' ');
        *path++ = '\0';
        start_command(p, args, path, true);
    } else if (strcmp(word, "file") == 0) {
        put_file(p->scratch, args, tn_buf_str(body), body->len);
    } else if (strcmp(word, "file_text") == 0) {
        p->q.file_text = tn_slicen(keep(p, 0, body), body->len);
    } else if (strcmp(word, "old_str") == 0) {
        p->q.old_str = tn_slicen(keep(p, 1, body), body->len);
    } else if (strcmp(word, "new_str") == 0) {
        p->q.new_str = tn_slicen(keep(p, 2, body), body->len);
    } else if (strcmp(word, "expect") == 0) {
        tn_edit_result_done(&p->result);
        tn_edit_result_init(&p->result);
        tn_edit(p->editor, scratch_self(), &p->q, &p->result);
        compare(p, "the answer", body, &p->result.content);
        if (p->result.failed != (strncmp(tn_buf_str(body), "ERROR:", 6) == 0))
            complain(p, "failed", body, &p->result.content);
    } else if (strcmp(word, "diff") == 0) {
        compare(p, "the diff", body, &p->result.diff);
    } else if (strcmp(word, "now") == 0) {
        if (get_file(p->scratch, args, &got))
            complain(p, "existence", body, &got);
        compare(p, "the file", body, &got);
    } else if (in_scratch_exists(p->scratch, args)) {
        complain(p, "absence", body, &got);
    }
}

/* The word of a section line, or NULL for any other line; args is what follows it. */
static const char *section_word(char *line, char **args)
{
    static char word[32];

    if (strncmp(line, "--- ", 4) != 0 || sscanf(line + 4, "%31s", word) != 1)
        return NULL;
    if (!is_one_of(word, commands) && !is_one_of(word, words))
        return NULL;
    *args = line + 4 + strlen(word);
    *args += **args == ' ';
    return word;
}

/* One case: from after its "### name" to the next. */
static void play(struct player *p, char *text)
{
    tn_autobuf struct tn_buf escaped = TN_BUF_INIT(1u << 20), body = TN_BUF_INIT(1u << 20);
    tn_autofree char *word = NULL;
    char *args = NULL, *new_args = NULL;
    bool first_line = true;

    for (char *line = text; line; p->line++) {
        char *next = strchr(line, '\n');
        if (next)
            *next = '\0';
        const char *new_word = section_word(line, &new_args);
        if (!new_word) {
            tn_buf_puts(&escaped, first_line ? "" : "\n");
            tn_buf_puts(&escaped, line);
            first_line = false;
        }
        if (word && (new_word || !next)) {
            unescape(p, tn_buf_str(&escaped), &body);
            play_section(p, word, args, &body);
        }
        if (new_word) {
            free(word);
            word = tn_strdup(new_word);
            args = new_args;
            tn_buf_reset(&escaped);
            first_line = true;
            if (!next) {
                tn_buf_reset(&body);
                play_section(p, word, args, &body);
            }
        }
        line = next ? next + 1 : NULL;
    }
}

static int play_case(const char *name, char *text, int line)
{
    void *state = NULL;
    assert_int_equal(scratch_set_up(&state), 0);
    struct scratch *s = state;
    tn_autofree char *history = tn_asprintf("%s-undo", s->dir);
    struct tn_editor_options options = {.history_dir = history, .workspace_root = s->dir};
    struct player p = {
        .scratch = s, .editor = tn_editor_new(&options, NULL), .name = name, .line = line};

    assert_non_null(p.editor);
    tn_edit_result_init(&p.result);
    play(&p, text);
    forget_request(&p);
    tn_edit_result_done(&p.result);
    tn_editor_free(p.editor);
    struct stat st;
    assert_int_equal(stat(history, &st), -1);
    scratch_tear_down(&state);
    return p.failures;
}

static void play_table(void **state)
{
    tn_autobuf struct tn_buf table = TN_BUF_INIT(1u << 20);
    int cases = 0, failures = 0, line = 1;

    assert_int_equal(tn_fs_read(TN_FS_ANYWHERE, table_path, &table, NULL), 0);
    char *at = strstr(table.data, "\n### ");
    for (char *c = table.data; c < at; c++)
        line += *c == '\n';
    while (at) {
        char *name = at + 5;
        char *text = strchr(name, '\n') + 1;
        text[-1] = '\0';
        at = strstr(text, "\n\n### ");
        char *end = at ? at : text + strlen(text) - 1;
        int lines = 1;
        for (char *c = name; c < end; c++)
            lines += *c == '\n' || c == text - 1;
        *end = '\0';
        at = at ? at + 1 : NULL;
        failures += play_case(name, text, line + 1);
        line += lines + 1;
        cases++;
    }
    print_message("%d cases\n", cases);
    assert_true(cases > 50);
    assert_int_equal(failures, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(play_table)};

    if (argc != 2)
        return 2;
    table_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
