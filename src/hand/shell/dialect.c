#include "hand/shell/dialect.h"

#include <errno.h>
#include <limits.h>

/* --- bash ---------------------------------------------------------------------------------- */

/* As the inside of $'...', on one line and without any byte that history expansion or a quote
 * scanner could care about. */
static void put_dollar_quoted(struct tn_buf *out, const char *text, size_t len)
{
    tn_buf_puts(out, "$'");
    size_t plain = 0;
    for (size_t i = 0; i < len; i++) {
        const char *escape = text[i] == '\\'   ? "\\\\"
                             : text[i] == '\'' ? "\\047"
                             : text[i] == '!'  ? "\\041"
                             : text[i] == '\n' ? "\\n"
                             : text[i] == '\r' ? "\\r"
                                               : NULL;
        if (!escape)
            continue;
        tn_buf_add(out, text + plain, i - plain);
        tn_buf_puts(out, escape);
        plain = i + 1;
    }
    tn_buf_add(out, text + plain, len - plain);
    tn_buf_putc(out, '\'');
}

/* A command is one line: it evaluates the text and reports (`E`).  The report alone (`D`), sent
 * after it, is for when an interrupt or an error threw away the rest of that line; then `$?` has
 * the status.  Between lines the shell tells about jobs that have ended and prints its prompt,
 * which is why that is emptied.  Standard error is closed around what is ours, so that tracing does
 * not show it. */
struct spelling {
    const char *eval, *print, *no_prompt;
    void (*put_word)(struct tn_buf *out, const char *text, size_t len);
    int tty_fd;
    int input_fd; /* of a named pipe; the one before it too, for a moment */
};

static void put_report(struct tn_buf *out, const struct tn_line *line, char letter,
                       const struct spelling *sp)
{
    tn_buf_printf(out,
                  "{ %s '%%s\\0' %s %c %llu \"$? ${!-} $- ${PWD-}\" \"${PATH-}\"; %s; } >&0 2>&-\n",
                  sp->print, line->token, letter, (unsigned long long)line->seq, sp->no_prompt);
}

/* By `command` a failure does not end the shell; by `builtin` it would not last. */
#define OPEN "\\command exec "

/* A named pipe is first opened for both directions: to open it for reading alone would wait until
 * somebody writes, and for ever when its writer is done already.  And that by a command of its own:
 * as redirections of the eval they would be kept for when it is over, and the shell itself would be
 * a writer whose end the reader waits for.  It is closed before the next command. */
static void put_pipe(struct tn_buf *out, const struct tn_line *line, const struct spelling *sp)
{
    if (line->input_was_pipe)
        tn_buf_printf(out, OPEN "%d<&-; ", sp->input_fd);
    if (!line->input_path || !line->input_is_pipe)
        return;
    tn_buf_printf(out, OPEN "%d<>", sp->input_fd - 1);
    sp->put_word(out, line->input_path, strlen(line->input_path));
    tn_buf_printf(out, " %d<", sp->input_fd);
    sp->put_word(out, line->input_path, strlen(line->input_path));
    tn_buf_printf(out, " %d<&-; ", sp->input_fd - 1);
}

/* Standard input of what is evaluated, to which the descriptor of the terminal is closed. */
static void put_input(struct tn_buf *out, const struct tn_line *line, const struct spelling *sp)
{
    if (line->input_path && line->input_is_pipe) {
        tn_buf_printf(out, " <&%1$d %1$d<&-", sp->input_fd);
    } else if (line->input_path) {
        tn_buf_puts(out, " <");
        sp->put_word(out, line->input_path, strlen(line->input_path));
    } else {
        tn_buf_printf(out, " <&%d", sp->tty_fd);
    }
    tn_buf_printf(out, " %d<&-; ", sp->tty_fd);
}

static void put_run(struct tn_buf *out, const struct tn_line *line, const struct spelling *sp)
{
    put_pipe(out, line, sp);
    if (line->previous)
        tn_buf_printf(out, "__tendon_status %d; ", line->previous);
    tn_buf_puts(out, sp->eval);
    sp->put_word(out, line->text, line->len);
    put_input(out, line, sp);
    put_report(out, line, 'E', sp);
}

static void put_snapshot(struct tn_buf *out, const struct tn_line *line, const struct spelling *sp,
                         const char *variables, const char *functions)
{
    tn_buf_printf(out,
                  "{ %1$s '%%s\\0' %2$s S %3$llu; %4$s; %1$s '\\0'; %5$s%1$s '\\0'; } >&0 2>&-\n",
                  sp->print, line->token, (unsigned long long)line->seq, variables, functions);
}

/* Above the ten or so that bash takes for itself, and below any limit on open files that leaves
 * room to work. */
#define BASH_TTY 27
#define BASH_INPUT (BASH_TTY - 1)

static const struct spelling bash_spelling = {
    .eval = "\\builtin eval -- ",
    .print = "\\builtin printf",
    .no_prompt = "PS1= PROMPT_COMMAND=()",
    .put_word = put_dollar_quoted,
    .tty_fd = BASH_TTY,
    .input_fd = BASH_INPUT,
};

static void bash_put_run(struct tn_buf *out, const struct tn_line *line)
{
    put_run(out, line, &bash_spelling);
}

static void bash_put_report(struct tn_buf *out, const struct tn_line *line)
{
    put_report(out, line, 'D', &bash_spelling);
}

static void bash_put_snapshot(struct tn_buf *out, const struct tn_line *line)
{
    put_snapshot(out, line, &bash_spelling, "\\builtin declare -px", "\\builtin declare -fx; ");
}

/* Bash's own line editor serves the person; each line is evaluated like an action's command, so
 * that what it changes stays.  The interactive records tell whether the prompt is waiting. */
static void bash_put_interactive(struct tn_buf *out, const struct tn_line *line)
{
    tn_buf_printf(
        out,
        "while \\builtin printf '%%s\\0' %1$s I %2$llu 0 >&0 2>&-; "
        "\\builtin read -e -r -p \"${USER-}@${HOSTNAME-}:${PWD-}\\$ \" __tendon_line <&%3$d; do "
        "\\builtin printf '%%s\\0' %1$s I %2$llu 1 >&0 2>&-; "
        "\\builtin eval -- \"$__tendon_line\" <&%3$d %3$d<&-; done\n",
        line->token, (unsigned long long)line->seq, BASH_TTY);
    bash_put_report(out, line);
}

static const char *const bash_argv[] = {"--noediting", "-i", NULL};

const struct tn_dialect tn_dialect_bash = {
    .name = "bash",
    .argv_tail = bash_argv,
    .tty_fd = BASH_TTY,
    .snapshot_start = "declare -",
    /* A function named `builtin`: only in POSIX mode, which an assignment turns on, does `unset`
       beat functions. */
    .rescue = "{ POSIXLY_CORRECT=; \\unset -f builtin; \\unset POSIXLY_CORRECT; } 2>&-\n",
    .setup =
        "set +o history +H; PS1= PS2=; unset TMOUT PROMPT_COMMAND; __tendon_status() { return $1; }\n",
    .put_run = bash_put_run,
    .put_report = bash_put_report,
    .put_snapshot = bash_put_snapshot,
    .put_interactive = bash_put_interactive,
    .put_word = put_dollar_quoted,
};

/* --- POSIX sh ------------------------------------------------------------------------------ */

static void put_single_quoted(struct tn_buf *out, const char *text, size_t len)
{
    tn_buf_putc(out, '\'');
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\'')
            tn_buf_puts(out, "'\\''");
        else
            tn_buf_putc(out, text[i]);
    }
    tn_buf_putc(out, '\'');
}

static const struct spelling sh_spelling = {
    .eval =
        "\\command eval ", /* `command`: an error in it does not throw away what was read ahead */
    .print = "\\printf",
    .no_prompt = "PS1= PS2=; \\unset PROMPT_COMMAND",
    .put_word = put_single_quoted,
    .tty_fd = 9,
    .input_fd = 8,
};

static void sh_put_run(struct tn_buf *out, const struct tn_line *line)
{
    put_run(out, line, &sh_spelling);
}

static void sh_put_report(struct tn_buf *out, const struct tn_line *line)
{
    put_report(out, line, 'D', &sh_spelling);
}

static void sh_put_snapshot(struct tn_buf *out, const struct tn_line *line)
{
    put_snapshot(out, line, &sh_spelling, "\\export -p", "");
}

static const char *const sh_argv[] = {"-i", NULL};

const struct tn_dialect tn_dialect_sh = {
    .name = "sh",
    .argv_tail = sh_argv,
    .tty_fd = 9,
    .forgetful = true,
    .snapshot_start = "export ",
    .setup = "PS1= PS2=; unset TMOUT; __tendon_status() { return $1; }\n",
    .put_run = sh_put_run,
    .put_report = sh_put_report,
    .put_snapshot = sh_put_snapshot,
    .put_word = put_single_quoted,
};

const struct tn_dialect *tn_dialect_for(const char *program)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash ? slash + 1 : program, "bash") == 0 ? &tn_dialect_bash : &tn_dialect_sh;
}

/* --- records ------------------------------------------------------------------------------- */

static int number(const char *text, int fallback)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    return end == text || *end || errno || v < INT_MIN || v > INT_MAX ? fallback : (int)v;
}

/* Takes the next of the words of a report, which are parted by single spaces; it may be empty. */
static void next_word(const char **rest, char *word, size_t size)
{
    size_t n = strcspn(*rest, " ");
    snprintf(word, size, "%.*s", (int)n, *rest);
    *rest += n + ((*rest)[n] == ' ');
}

/* "STATUS PID FLAGS DIRECTORY" */
static void parse_report(const char *words, struct tn_record *record)
{
    char word[64];

    next_word(&words, word, sizeof word);
    record->status = number(word, -1);
    next_word(&words, word, sizeof word);
    record->background_pid = number(word, -1);
    next_word(&words, word, sizeof word);
    record->errexit = strchr(word, 'e');
    record->cwd = words;
}

size_t tn_record_parse(const char *bytes, size_t n, const char *token, struct tn_record *record)
{
    static const struct {
        char letter;
        enum tn_record_kind kind;
        int fields;
    } kinds[] = {{'E', TN_RECORD_EVALUATED, 4},
                 {'D', TN_RECORD_DONE, 4},
                 {'S', TN_RECORD_SNAPSHOT, 4},
                 {'I', TN_RECORD_INTERACTIVE, 3}};
    const char *field[4] = {"", "", "", ""};
    size_t token_len = strlen(token) + 1; /* with its NUL */
    const char *start = n ? memmem(bytes, n, token, token_len) : NULL;
    int wanted = 0;

    if (!start || start + token_len == bytes + n)
        return 0;
    size_t at = (size_t)(start - bytes) + token_len;
    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        if (bytes[at] == kinds[i].letter) {
            record->kind = kinds[i].kind;
            wanted = kinds[i].fields;
        }
    }
    for (int i = 0; i < wanted; i++) {
        const char *end = memchr(bytes + at, '\0', n - at);
        if (!end)
            return 0;
        field[i] = bytes + at;
        at = (size_t)(end - bytes) + 1;
    }
    record->seq = strtoull(field[1], NULL, 10);
    if (record->kind == TN_RECORD_EVALUATED || record->kind == TN_RECORD_DONE)
        parse_report(field[2], record);
    else
        record->status = number(field[2], -1);
    record->path = record->functions = field[3];
    record->environment = field[2];
    return at;
}
