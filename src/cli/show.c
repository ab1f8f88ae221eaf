#include "cli/show.h"

#include "base/utf8.h"
#include "cli/clean.h"
#include "cli/style.h"
#include "cli/units.h"

struct show show_on(FILE *out)
{
    return (struct show){.out = out, .colour = style_wanted(out)};
}

static const char *in(const struct show *s, const char *colour)
{
    return s->colour ? colour : "";
}

/* Control bytes of a command's output must not reach the terminal: only line breaks and tabs do. */
static void put_line(const struct show *s, const char *line, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t point;
        size_t length = tn_utf8_decode(line + i, n - i, &point);

        if (!length) {
            point = 0xfffd;
            length = 1;
        }
        bool control = point != '\t' && !clean_is_printable(point);
        char utf8[4];
        size_t bytes = tn_utf8_encode(control ? 0xfffd : point, utf8);

        fwrite(utf8, 1, bytes, s->out);
        i += length;
    }
}

/* Each line of text, behind `first` on the first line and its width in blanks on the others.  A
 * final line break adds no line. */
static void put_block(const struct show *s, const char *first, const char *colour, const char *text,
                      size_t len)
{
    const char *end = text + len - (len && text[len - 1] == '\n');

    for (const char *margin = first;; margin = "") {
        const char *stop = memchr(text, '\n', (size_t)(end - text));

        fprintf(s->out, "  %s%-6s%s %s", in(s, STYLE_CYAN), margin, in(s, STYLE_PLAIN),
                in(s, colour));
        put_line(s, text, (size_t)((stop ? stop : end) - text));
        fprintf(s->out, "%s\n", in(s, *colour ? STYLE_PLAIN : ""));
        if (!stop)
            break;
        text = stop + 1;
    }
}

void show_title(const struct show *s, int number, const char *text)
{
    fprintf(s->out, "\n%s%d. %s%s\n", in(s, STYLE_BOLD), number, text, in(s, STYLE_PLAIN));
}

void show_action(const struct show *s, const char *name, const char *what)
{
    put_block(s, name, STYLE_BOLD, what, strlen(what));
    fflush(s->out);
}

void show_observation(const struct show *s, const struct tn_observation *o, int64_t nanoseconds)
{
    char time[32];

    if (o->content.len)
        put_block(s, "", o->type == TN_OBSERVATION_ERROR ? STYLE_RED : "", o->content.data,
                  o->content.len);
    fprintf(s->out, "%9s%s", "", in(s, STYLE_DIM));
    if (o->type == TN_OBSERVATION_RUN && o->run.metadata.exit_code >= 0)
        fprintf(s->out, "exit %d, ", (int)o->run.metadata.exit_code);
    else if (o->type == TN_OBSERVATION_RUN)
        fprintf(s->out, "still running, ");
    fputs(format_time(nanoseconds, time), s->out);
    fprintf(s->out, "%s\n", in(s, STYLE_PLAIN));
    fflush(s->out);
}

void show_note(const struct show *s, const char *text)
{
    put_block(s, "", STYLE_DIM, text, strlen(text));
    fflush(s->out);
}

void show_problem(const struct show *s, const char *text)
{
    put_block(s, "!", STYLE_RED, text, strlen(text));
    fflush(s->out);
}
