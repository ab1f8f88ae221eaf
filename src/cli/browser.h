/* A person's browser, on a desktop. */
#ifndef TN_CLI_BROWSER_H
#define TN_CLI_BROWSER_H

#include <stdbool.h>

/* Opens the address in it, where there is one: a favour, which may fail.  One that is a secret
 * appears on no command line, where every user of the machine could read it: the browser is led to
 * it by a page that only this user can read, and that is removed a while later. */
void browser_open(const char *url, bool secret);

#endif
