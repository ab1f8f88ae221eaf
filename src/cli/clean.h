/* Text that others chose - names, reasons, errors, logs of a sandbox - for human eyes.
 *
 * A sandbox must not speak to the terminal: whatever of it is printed, other than the output of a
 * command that the user runs, goes through here.  Control characters (also those of eight bits),
 * bytes that are no UTF-8, and marks that turn the direction of writing are shown as "?". */
#ifndef TN_CLI_CLEAN_H
#define TN_CLI_CLEAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

bool clean_is_printable(uint32_t point);
/* The text in printable characters, on the heap, and the columns it takes (at most `most`). */
char *clean_text(const char *text, int most, int *width);

void print_clean(const char *text);
void print_clean_to(FILE *to, const char *text);

/* Lines of text, the last one ended too.  A message is clean wherever it goes; content only where a
 * terminal would listen. */
void print_message(FILE *to, const char *text);
void print_content_lines(FILE *to, const char *text);

/* A stream of bytes that comes in pieces.  Line breaks and tabs stay. */
struct clean_stream {
    char held[4]; /* the beginning of a character */
    size_t count;
};
/* Writes what the piece has to the descriptor. */
int clean_stream_write(struct clean_stream *s, int fd, const char *bytes, size_t n,
                       struct tn_error *err);

#endif
