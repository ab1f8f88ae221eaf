#include "cli/show.h"

#include "base/clock.h"
#include "base/utf8.h"

#define BOLD "\033[1m"
#define DIM "\033[2m"
#define RED "\033[31m"
#define CYAN "\033[36m"
#define PLAIN "\033[0m"

struct show show_on(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");

    return (struct show){.out = out, .colour = isatty(fileno(out)) && !(no_color && *no_color)};
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
        bool control = (point < 0x20 && point != '\t') || (point >= 0x7f && point < 0xa0);
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

        fprintf(s->out, "  %s%-6s%s %s", in(s, CYAN), margin, in(s, PLAIN), in(s, colour));
        put_line(s, text, (size_t)((stop ? stop : end) - text));
        fprintf(s->out, "%s\n", in(s, *colour ? PLAIN : ""));
        if (!stop)
            break;
        text = stop + 1;
    }
}

void show_title(const struct show *s, int number, const char *text)
{
    fprintf(s->out, "\n%s%d. %s%s\n", in(s, BOLD), number, text, in(s, PLAIN));
}

void show_action(const struct show *s, const char *name, const char *what)
{
    put_block(s, name, BOLD, what, strlen(what));
    fflush(s->out);
}

static void put_time(const struct show *s, int64_t nanoseconds)
{
    double ms = (double)nanoseconds / TN_MILLI;

    if (ms < 1000)
        fprintf(s->out, "%.*f ms", ms < 10 ? 2 : 0, ms);
    else
        fprintf(s->out, "%.2f s", ms / 1000);
}

void show_observation(const struct show *s, const struct tn_observation *o, int64_t nanoseconds)
{
    if (o->content.len)
        put_block(s, "", o->type == TN_OBSERVATION_ERROR ? RED : "", o->content.data,
                  o->content.len);
    fprintf(s->out, "%9s%s", "", in(s, DIM));
    if (o->type == TN_OBSERVATION_RUN && o->run.metadata.exit_code >= 0)
        fprintf(s->out, "exit %d, ", (int)o->run.metadata.exit_code);
    else if (o->type == TN_OBSERVATION_RUN)
        fprintf(s->out, "still running, ");
    put_time(s, nanoseconds);
    fprintf(s->out, "%s\n", in(s, PLAIN));
    fflush(s->out);
}

void show_problem(const struct show *s, const char *text)
{
    put_block(s, "!", RED, text, strlen(text));
    fflush(s->out);
}
