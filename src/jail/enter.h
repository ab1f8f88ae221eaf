/* Other things that tendon-jail does for the backend; each returns the exit code. */
#ifndef TN_JAIL_ENTER_H
#define TN_JAIL_ENTER_H

int jail_enter_main(int argc, char **argv);     /* --enter, see enter.c */
int jail_copy_own(int argc, char **argv);       /* --copy, see copy-own.c */
int jail_container_main(int argc, char **argv); /* --container, see container.c */

#endif
