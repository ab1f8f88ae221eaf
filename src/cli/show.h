/* Actions and observations for human eyes: indented, timed, in colour on a terminal. */
#ifndef TN_CLI_SHOW_H
#define TN_CLI_SHOW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "event/observation.h"

struct show {
    FILE *out;
    bool colour;
};

/* Colour when out is a terminal and NO_COLOR is not set. */
struct show show_on(FILE *out);

void show_title(const struct show *s, int number, const char *text);
/* The action: its name, and what it does in one or more lines. */
void show_action(const struct show *s, const char *name, const char *what);
/* The observation and the time it took. */
void show_observation(const struct show *s, const struct tn_observation *o, int64_t nanoseconds);
void show_note(const struct show *s, const char *text);
void show_problem(const struct show *s, const char *text);

#endif
