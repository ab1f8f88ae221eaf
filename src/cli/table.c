#include "cli/table.h"

#include <stdarg.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "cli/progress.h"
#include "cli/style.h"

struct cell {
    char *text;
    const char *style;
    int width;
};

struct table {
    const struct table_column *columns;
    size_t count; /* of columns */
    struct cell *cells;
    size_t used, room;
};

struct table *table_new(const struct table_column *columns, size_t count)
{
    struct table *t = tn_calloc(1, sizeof *t);

    t->columns = columns;
    t->count = count;
    return t;
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->used; i++)
        free(t->cells[i].text);
    free(t->cells);
    free(t);
}

/* The text in printable characters, on the heap, and the columns it takes (at most `most`). */
static char *clean(const char *text, int most, int *width)
{
    size_t n = strlen(text);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4 * n + 8);

    *width = 0;
    for (size_t i = 0; i < n;) {
        uint32_t point;
        char utf8[4];
        size_t length = tn_utf8_decode(text + i, n - i, &point);

        bool control = length == 0 || point < 0x20 || (point >= 0x7f && point < 0xa0) ||
                       (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
        if (control)
            point = '?';
        int columns = tn_utf8_width(point);
        if (*width + columns > most)
            break;
        tn_buf_add(&out, utf8, tn_utf8_encode(point, utf8));
        *width += columns;
        i += length ? length : 1;
    }
    return tn_buf_take(&out);
}

void print_clean_to(FILE *to, const char *text)
{
    int width;
    tn_autofree char *safe = clean(text, INT32_MAX, &width);

    fputs(safe, to);
}

void print_clean(const char *text)
{
    print_clean_to(stdout, text);
}

void print_lines(FILE *to, const char *text)
{
    size_t n = strlen(text);

    if (!isatty(fileno(to))) {
        fputs(text, to);
        if (n == 0 || text[n - 1] != '\n')
            fputc('\n', to);
        return;
    }
    do {
        n = strcspn(text, "\n");
        tn_autofree char *line = tn_strndup(text, n);
        for (char *c = line; *c; c++)
            if (*c == '\t' || *c == '\r')
                *c = ' ';
        print_clean_to(to, line);
        fputc('\n', to);
        text += n + (text[n] == '\n');
    } while (*text);
}

void table_cell(struct table *t, const char *text, const char *style)
{
    if (t->used == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->cells = tn_realloc(t->cells, t->room * sizeof *t->cells);
    }
    struct cell *cell = &t->cells[t->used++];
    cell->style = style;
    cell->text = clean(text && *text ? text : "-", INT32_MAX, &cell->width);
}

void table_format(struct table *t, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    table_cell(t, text, NULL);
}

static int screen_width(void)
{
    struct winsize size;

    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 40)
        return INT32_MAX;
    return size.ws_col;
}

static int column_width(const struct table *t, size_t column)
{
    int widest = (int)strlen(t->columns[column].title);

    for (size_t i = column; i < t->used; i += t->count)
        if (t->cells[i].width > widest)
            widest = t->cells[i].width;
    return widest;
}

static void print_cell(const struct cell *cell, int width, bool right, bool last, bool colour)
{
    const char *style = colour && cell->style ? cell->style : "";
    int pad = width > cell->width ? width - cell->width : 0;

    printf("%*s%s%s%s%*s", right ? pad : 0, "", style, cell->text, *style ? STYLE_PLAIN : "",
           right || last ? 0 : pad, "");
}

void table_print(const struct table *t)
{
    tn_autofree int *widths = tn_calloc(t->count, sizeof *widths);
    bool colour = style_wanted(stdout);
    int left = screen_width();

    progress_end();
    for (size_t i = 0; i < t->count; i++) {
        widths[i] = column_width(t, i);
        left -= i + 1 < t->count ? widths[i] + 2 : 0;
    }
    for (size_t i = 0; i < t->count; i++) {
        struct cell title = {.text = (char *)t->columns[i].title,
                             .style = STYLE_BOLD,
                             .width = (int)strlen(t->columns[i].title)};
        print_cell(&title, widths[i], t->columns[i].right, i + 1 == t->count, colour);
        fputs(i + 1 < t->count ? "  " : "\n", stdout);
    }
    for (size_t i = 0; i < t->used; i++) {
        size_t column = i % t->count;
        bool last = column + 1 == t->count;
        struct cell cell = t->cells[i];
        tn_autofree char *cut =
            last && left > 8 && cell.width > left ? clean(cell.text, left, &cell.width) : NULL;
        if (cut)
            cell.text = cut;
        print_cell(&cell, widths[column], t->columns[column].right, last, colour);
        fputs(last ? "\n" : "  ", stdout);
    }
}
