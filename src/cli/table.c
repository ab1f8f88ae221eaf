#include "cli/table.h"

#include <stdarg.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "cli/clean.h"
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

void table_cell(struct table *t, const char *text, const char *style)
{
    if (t->used == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->cells = tn_realloc(t->cells, t->room * sizeof *t->cells);
    }
    struct cell *cell = &t->cells[t->used++];
    cell->style = style;
    cell->text = clean_text(text && *text ? text : "-", INT32_MAX, &cell->width);
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
            last && left > 8 && cell.width > left ? clean_text(cell.text, left, &cell.width) : NULL;
        if (cut)
            cell.text = cut;
        print_cell(&cell, widths[column], t->columns[column].right, last, colour);
        fputs(last ? "\n" : "  ", stdout);
    }
}
