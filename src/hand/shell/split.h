/* Finds the commands that newlines separate at the top level of a bash text.
 *
 * The splitter reads the shape of bash (words, quotes, here-documents, compound commands), not its
 * meaning: aliases and options are unknown to it, extended patterns such as @(a|b) always count as
 * patterns, and a CR before a newline is part of the line end.  Any byte may occur in the text.
 * Time and memory are linear in its length.
 *
 * Several commands at once are refused because OpenHands refuses them.  Its own parser (bashlex)
 * knows less of bash than this one: where that parser gives up, OpenHands runs the text as it is.
 * Such texts are marked `beyond`, and only the others are refused. */
#ifndef TN_HAND_SHELL_SPLIT_H
#define TN_HAND_SHELL_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum tn_split_state {
    TN_SPLIT_COMPLETE,
    TN_SPLIT_INCOMPLETE, /* bash would read on: an open quote, here-document, `if`, `(`, `&&`... */
    TN_SPLIT_UNSURE,     /* looks like a syntax error, or is nested too deeply: let bash judge it */
};

struct tn_span {
    size_t start;
    size_t len;
};

struct tn_split {
    struct tn_span *commands; /* in order, never overlapping */
    size_t count;             /* at least 1 */
    enum tn_split_state state;
    bool beyond; /* holds something that OpenHands' parser does not read */
};

/* Splits len bytes of text.  Blank text is one empty command; text that is not TN_SPLIT_COMPLETE is
 * one command, whole.  Comments belong to the command before them, or to the first command when
 * they stand before it; no command begins or ends with blanks of its own.  Returns 0, or -1 when
 * memory is gone (out is then empty).  Release with tn_split_done. */
int tn_split(const char *text, size_t len, struct tn_split *out);
void tn_split_done(struct tn_split *split);

/* Appends the refusal of several commands at once; text is the one that was split.  The caller
 * chooses the buffer's maximum and checks it with tn_buf_ok. */
void tn_split_format_error(const char *text, const struct tn_split *split, struct tn_buf *out);

#endif
