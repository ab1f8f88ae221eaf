#include "hand/shell/dialect.h"

#include <errno.h>
#include <limits.h>

/* --- bash -------------------------------------------------------------------------------------- */

/* As the inside of $'...', on one line and without any byte that history expansion or a quote scanner could
 * care about. */
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

/* A command is two lines.  The first evaluates it and keeps its status; the second reports.  When an interrupt or
 * an error throws away the rest of the first line, the status is not kept and `$?` has it.  Between the lines the
 * shell prints its prompt, which is why it is emptied before. */
static void put_first_line(struct tn_buf *out, int previous, const char *eval,
                           void (*put_word)(struct tn_buf *, const char *, size_t), int tty_fd,
                           const char *text, size_t len)
{
    tn_buf_puts(out, "__tendon_s=; ");
    if (previous)
        tn_buf_printf(out, "__tendon_status %d || ", previous); /* || keeps `set -e` out of it */
    tn_buf_puts(out, eval);
    put_word(out, text, len);
    tn_buf_printf(out, " <&%1$d %1$d<&-; __tendon_s=$? PS1= PS2=\n", tty_fd);
}

/* Standard error is closed around it, so that tracing does not show it. */
static void put_report(struct tn_buf *out, const char *print, uint64_t seq)
{
    tn_buf_printf(out,
                  "{ %s '%%s\\0' D %llu \"${__tendon_s:-$?}\" \"${!-}\" \"${PWD-}\" \"${PATH-}\"; PS1= PS2=; } "
                  ">&0 2>&-\n",
                  print, (unsigned long long)seq);
}

#define BASH_PRINT "\\builtin printf"

static void bash_put_run(struct tn_buf *out, uint64_t seq, int previous, const char *text, size_t len)
{
    put_first_line(out, previous, "\\builtin eval ", put_dollar_quoted, tn_dialect_bash.tty_fd, text, len);
    put_report(out, BASH_PRINT, seq);
}

static void bash_put_report(struct tn_buf *out, uint64_t seq)
{
    put_report(out, BASH_PRINT, seq);
}

static void bash_put_snapshot(struct tn_buf *out, uint64_t seq)
{
    tn_buf_printf(out,
                  "{ " BASH_PRINT " '%%s\\0' S %llu; \\builtin declare -px; " BASH_PRINT
                  " '\\0'; } >&0 2>&-\n",
                  (unsigned long long)seq);
}

/* Bash's own line editor serves the person; each line is evaluated like an action's command, so that what it
 * changes stays.  The interactive records tell whether the prompt is waiting. */
static void bash_put_interactive(struct tn_buf *out, uint64_t seq)
{
    tn_buf_printf(out,
                  "__tendon_s=0; while " BASH_PRINT " '%%s\\0' I %1$llu 0 >&0 2>&-; "
                  "\\builtin read -e -r -p \"${USER-}@${HOSTNAME-}:${PWD-}\\$ \" __tendon_line <&97; do " BASH_PRINT
                  " '%%s\\0' I %1$llu 1 >&0 2>&-; "
                  "\\builtin eval \"$__tendon_line\" <&97 97<&-; done\n",
                  (unsigned long long)seq);
    put_report(out, BASH_PRINT, seq);
}

static const char *const bash_argv[] = {"--noediting", "-i", NULL};

const struct tn_dialect tn_dialect_bash = {
    .name = "bash",
    .argv_tail = bash_argv,
    .tty_fd = 97,
    .setup = "set +o history +H; PS1= PS2=; unset TMOUT PROMPT_COMMAND; __tendon_status() { return $1; }\n",
    .put_run = bash_put_run,
    .put_report = bash_put_report,
    .put_snapshot = bash_put_snapshot,
    .put_interactive = bash_put_interactive,
    .put_word = put_dollar_quoted,
};

/* --- POSIX sh ---------------------------------------------------------------------------------- */

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

#define SH_PRINT "\\printf"

static void sh_put_run(struct tn_buf *out, uint64_t seq, int previous, const char *text, size_t len)
{
    put_first_line(out, previous, "\\eval ", put_single_quoted, tn_dialect_sh.tty_fd, text, len);
    put_report(out, SH_PRINT, seq);
}

static void sh_put_report(struct tn_buf *out, uint64_t seq)
{
    put_report(out, SH_PRINT, seq);
}

static void sh_put_snapshot(struct tn_buf *out, uint64_t seq)
{
    tn_buf_printf(out, "{ " SH_PRINT " '%%s\\0' S %llu; \\export -p; " SH_PRINT " '\\0'; } >&0 2>&-\n",
                  (unsigned long long)seq);
}

static const char *const sh_argv[] = {"-i", NULL};

const struct tn_dialect tn_dialect_sh = {
    .name = "sh",
    .argv_tail = sh_argv,
    .tty_fd = 9,
    .forgetful = true,
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

/* --- records ----------------------------------------------------------------------------------- */

static int number(const char *text, int fallback)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    return end == text || *end || errno || v < INT_MIN || v > INT_MAX ? fallback : (int)v;
}

long tn_record_parse(const char *bytes, size_t n, struct tn_record *record)
{
    static const struct {
        char letter;
        enum tn_record_kind kind;
        int fields;
    } kinds[] = {{'D', TN_RECORD_DONE, 6}, {'S', TN_RECORD_SNAPSHOT, 3}, {'I', TN_RECORD_INTERACTIVE, 3}};
    const char *field[6] = {"", "", "", "", "", ""};
    int wanted = 0;

    if (n == 0)
        return 0;
    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        if (bytes[0] == kinds[i].letter) {
            record->kind = kinds[i].kind;
            wanted = kinds[i].fields;
        }
    }
    if (!wanted || (n > 1 && bytes[1] != '\0'))
        return -1;

    size_t at = 0;
    for (int i = 0; i < wanted; i++) {
        const char *end = memchr(bytes + at, '\0', n - at);
        if (!end)
            return 0;
        field[i] = bytes + at;
        at = (size_t)(end - bytes) + 1;
    }
    record->seq = strtoull(field[1], NULL, 10);
    record->status = number(field[2], -1);
    record->background_pid = number(field[3], -1);
    record->cwd = field[4];
    record->path = field[5];
    record->environment = field[2];
    return (long)at;
}
