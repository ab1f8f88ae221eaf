/* A table of text with aligned columns, for standard output.
 *
 * Cells may hold anything: control characters are shown as "?", so that a name from inside a
 * sandbox cannot speak to the terminal. */
#ifndef TN_CLI_TABLE_H
#define TN_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

struct table_column {
    const char *title;
    bool right; /* numbers */
};

struct table;

/* columns are borrowed. */
struct table *table_new(const struct table_column *columns, size_t count);
void table_free(struct table *t);
static inline void guard_table(struct table **t)
{
    table_free(*t);
}
#define autotable TN_CLEANUP(guard_table)

/* The next cell, left to right, row after row; NULL is "-".  style is an escape sequence of
 * style.h, or NULL. */
void table_cell(struct table *t, const char *text, const char *style);
void table_format(struct table *t, const char *fmt, ...) TN_PRINTF(2, 3);

/* Prints the titles and all rows.  The last column is cut to fit a terminal. */
void table_print(const struct table *t);

#endif
