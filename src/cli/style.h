/* Colours: on a terminal only, and never when NO_COLOR is set. */
#ifndef TN_CLI_STYLE_H
#define TN_CLI_STYLE_H

#include <stdbool.h>
#include <stdio.h>

#define STYLE_BOLD "\033[1m"
#define STYLE_DIM "\033[2m"
#define STYLE_RED "\033[31m"
#define STYLE_GREEN "\033[32m"
#define STYLE_YELLOW "\033[33m"
#define STYLE_CYAN "\033[36m"
#define STYLE_PLAIN "\033[0m"

/* Whether what is printed there may have colours. */
bool style_wanted(FILE *out);

#endif
