/* The terminal this program runs in, taken over for a while: raw, and given back whatever happens.
 */
#ifndef TN_CLI_TTY_H
#define TN_CLI_TTY_H

#include <stdbool.h>
#include <termios.h>

#include "base/error.h"
#include "cli/undo.h"

struct tty {
    int fd;
    struct termios before;
    bool raw;
    int signals; /* signalfd of everything that ends, stops or resizes; they are blocked */
    sigset_t mask_before;
    struct undo undo;
};

/* Takes it over; TN_E_INVALID when standard input or output is none. */
int tty_open(struct tty *t, struct tn_error *err);
/* Writes what programs inside print. */
int tty_write(struct tty *t, const char *bytes, size_t n, struct tn_error *err);
/* Gives it back, and takes back what was left by what was written (another screen, a hidden cursor,
 * mouse reports). */
void tty_close(struct tty *t);

void tty_size(const struct tty *t, int *columns, int *rows);

/* What a signal on t->signals asks for. */
enum tty_signal { TTY_NOTHING, TTY_RESIZED, TTY_END };
/* Reads one; *number is its number.  A stop happens inside: the terminal is given back until it
 * goes on. */
enum tty_signal tty_signal(struct tty *t, int *number);

#endif
