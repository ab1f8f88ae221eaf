#include "cli/style.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool style_wanted(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    return isatty(fileno(out)) && !(no_color && *no_color) &&
           !(terminal && strcmp(terminal, "dumb") == 0);
}
