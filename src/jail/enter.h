/* tendon-jail --enter, see enter.c.  Returns the exit code. */
#ifndef TN_JAIL_ENTER_H
#define TN_JAIL_ENTER_H

int jail_enter(int argc, char **argv);

#endif
