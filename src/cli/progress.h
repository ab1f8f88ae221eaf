/* Progress of something that may take long: one line on standard error that is redrawn in place.
 *
 * Only on a terminal, and only for what takes more than a second: what is quick stays quiet.  There
 * is one line, so everything here is about the process; calls may come from any thread. */
#ifndef TN_CLI_PROGRESS_H
#define TN_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allows it; before this call, and when standard error is no terminal, nothing is ever drawn. */
void progress_allow(bool allowed);

/* Something begins: "stopping web".  Ends what was shown before. */
void progress_begin(const char *what);
/* It is over; the line disappears. */
void progress_end(void);

/* What is going on in particular; the function for tn_host.progress. */
void progress_say(const char *text, void *ctx);
/* So many bytes of so many (total -1: unknown), and files done. */
void progress_bytes(int64_t done, int64_t total, int64_t files);

/* Takes the line off the screen before something else is printed; it comes back by itself. */
void progress_pause(void);

#endif
