/* A program in another language while it is looked at: code.c reads what looks like Python, awk.c
 * programs of awk. */
#ifndef TN_SECURITY_POLICY_CODE_H
#define TN_SECURITY_POLICY_CODE_H

#include "base/buf.h"
#include "security/policy/scene.h"

extern const char unknown_name[];

struct code {
    struct scene *s;
    const char *field;
    const char *start, *at, *end;
    const struct tn_call *call;
    const char *language; /* "": not known, as Python */
    bool
        odd; /* something was there that may be a pattern or the like, where quotes are no quotes */
    bool runs;      /* it speaks of a module that runs programs */
    bool imported;  /* a function of such a module is known by its name alone */
    bool builtins;  /* it speaks of that module, whose functions are those without one */
    bool closures;  /* a variable of php may be a function of its own */
    char alias[32]; /* the name that subprocess was imported as */
};

/* The text from there up to c->at cannot be read. */
void mark_unread(struct code *c, const char *why, const char *from);
/* Has a shell read the text, or (NULL) one that is not known.  reads: what the program prints. */
void give_shell(struct code *c, const char *text, bool reads, const char *from);
bool name_byte(char c);
/* Reads the string at c->at into out; false when it is none. */
bool read_string(struct code *c, struct tn_buf *out);
/* The name at c->at, and what it is called with. */
void see_name(struct code *c);
/* What was skipped from there on, as a string or the like.  A call in it is one where code runs
 * within strings, or where it may be none. */
void see_hidden(struct code *c, const char *from);
/* All of a program of awk. */
void see_awk(struct code *c);

#endif
