/* What the two halves of the reader of Invariant's language share: rules-invariant.c reads rules,
 * invariant-condition.c the conditions in them. */
#ifndef TN_SECURITY_POLICY_INVARIANT_H
#define TN_SECURITY_POLICY_INVARIANT_H

#include "security/policy/invariant-lexer.h"
#include "security/policy/rule.h"

enum { VARIABLES_MAX = 8, NAMES_MAX = 16, NESTED_MAX = 32 };

/* A call or an output that the rule speaks of. */
struct variable {
    char name[48];
    struct rule *rule; /* that its conditions belong to */
    struct test **end;
    struct test *after; /* the one before it in a flow; NULL: it is the first */
};

/* x := f(...) */
struct alias {
    char name[48];
    struct test *test;
    int variable;
};

struct invariant {
    struct rules *rules;
    struct lexer lex;
    char imported[NAMES_MAX][48];
    size_t imported_count;

    struct variable variables[VARIABLES_MAX];
    struct alias aliases[NAMES_MAX];
    size_t variable_count, alias_count;
    int used; /* the variable that the condition has spoken of so far, or -1 */
    int depth;
};

/* A new test, of which the caller fills the rest. */
struct test *invariant_test(struct invariant *r, enum test_kind kind);
/* The number of the variable that the token names, or -1. */
int invariant_variable(const struct invariant *r, const struct token *t);
/* Reads a condition up to its end; r->used is then the variable that it speaks of.  NULL: the lexer
 * has told why not. */
struct test *invariant_condition(struct invariant *r);

#endif
