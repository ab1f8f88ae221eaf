/* Calls that have a safer spelling here are compile errors.  Included on the command line by the
 * build, after the system headers below so that their own declarations stay intact. */
#ifndef TN_BASE_BANNED_H
#define TN_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TN_BANNED(func) sorry_##func##_is_banned

#undef strcpy
#define strcpy(d, s) TN_BANNED(strcpy)
#undef strcat
#define strcat(d, s) TN_BANNED(strcat)
#undef strncpy
#define strncpy(d, s, n) TN_BANNED(strncpy)
#undef strncat
#define strncat(d, s, n) TN_BANNED(strncat)
#undef sprintf
#define sprintf(...) TN_BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) TN_BANNED(vsprintf)
#undef strtok
#define strtok(s, d) TN_BANNED(strtok)
#undef gets
#define gets(s) TN_BANNED(gets)
#undef system
#define system(c) TN_BANNED(system)
#undef popen
#define popen(c, m) TN_BANNED(popen)
#undef mktemp
#define mktemp(t) TN_BANNED(mktemp)
#undef tmpnam
#define tmpnam(s) TN_BANNED(tmpnam)
#undef alloca
#define alloca(n) TN_BANNED(alloca)
#undef atoi
#define atoi(s) TN_BANNED(atoi)
#undef gmtime
#define gmtime(t) TN_BANNED(gmtime)
#undef localtime
#define localtime(t) TN_BANNED(localtime)
#undef ctime
#define ctime(t) TN_BANNED(ctime)
#undef sleep
#define sleep(s) TN_BANNED(sleep)
#undef usleep
#define usleep(s) TN_BANNED(usleep)

#endif
