/* A rule as it is kept, whatever language it was written in: tests that all have to hold.
 *
 * The tests of a rule are a chain.  One about a command, a path, a URL, a content or a sign binds
 * the thing that fits, and the tests behind it look at no other one of its kind: so an exception
 * speaks of the very path that was found, and a path after a program is one of that command. */
#ifndef TN_SECURITY_POLICY_RULE_H
#define TN_SECURITY_POLICY_RULE_H

#include "base/error.h"
#include "security/analyzer.h"
#include "security/policy/detect.h"

enum test_kind {
    TEST_ACTION,  /* the type is one of `bits` */
    TEST_OUTPUT,  /* it is what a tool returned, not an action */
    TEST_PROGRAM, /* a command of that name with all of these arguments */
    TEST_PATH,    /* a path that is used in one of the ways in `bits` */
    TEST_URL,
    TEST_CONTENT, /* what is written holds one of these */
    TEST_DETECT,  /* a detector has a sign: in all of the action, or in `left` alone */
    TEST_COMPARE, /* left and right */
    TEST_AFTER,   /* earlier events have met the rules of the facts in `bits` */
    TEST_ALL,     /* of `kids`, a chain of its own */
    TEST_ANY,
    TEST_NOT, /* of all kids together */
};

enum compare {
    COMPARE_EQUAL,
    COMPARE_UNEQUAL,
    COMPARE_LESS,
    COMPARE_MORE,
    COMPARE_IN,
    COMPARE_GLOB, /* right is a pattern */
};

/* A value in a condition: a text, a number, a list of texts, or a field of the action. */
struct value {
    enum { VALUE_TEXT, VALUE_NUMBER, VALUE_LIST, VALUE_FIELD } kind;
    const char *text; /* of a field: its path, "command", "arguments.url"; "name": the type */
    int64_t number;
    const char **items;
    size_t count;
};

struct url_pattern {
    const char *scheme, *host, *path; /* NULL: any */
    int port;                         /* 0: any */
};

struct wanted {
    const struct detector *detector;
    const char *kind; /* NULL: any */
};

struct test {
    enum test_kind kind;
    uint64_t bits;
    const char **patterns; /* of names, paths or texts; one has to fit */
    const char **args;     /* PROGRAM: each has to fit an argument; alternatives behind '|' */
    const struct url_pattern *urls;
    size_t count, arg_count;
    const struct wanted *wanted; /* DETECT: one of these */
    bool python;                 /* DETECT of a value: it is a text in Python, not of a shell */
    enum compare compare;
    struct value left, right;
    bool has_value;
    struct test *kids, *next;
};

struct rule {
    const char *name, *text;
    enum tn_risk risk;
    bool quiet; /* no finding: only there for rules after it */
    int fact;   /* another rule asks whether it was met before: its bit, or -1 */
    const char *file;
    int line;
    struct test *tests;
};

struct rules;

/* What one look at an action has bound so far. */
struct look {
    struct scene *scene;
    const struct rules *rules;
    const struct tn_history *history; /* or NULL */
    uint64_t facts;                   /* of the rules that earlier events have met */
    bool facts_known;                 /* else they are found out when a rule asks */
    int64_t deadline;
    unsigned rounds; /* the clock is looked at now and then */
    bool late;       /* the deadline has passed: nothing is said */
    bool exception;  /* in an exception: what only may fit does not */

    const struct seen_call *call;
    const struct seen_path *path;
    const struct seen_url *url;
    const struct seen_content *content;
    const struct sign *sign;
};

/* Whether the rule is met; `look` then has what was bound. */
bool rule_met(const struct rule *r, struct look *look);
/* The part of the action that met it; empty when it is all of it. */
struct part look_part(const struct look *look);

/* The rules of one policy, in the order of the files. */
enum { RULES_MAX = 4096, FACTS_MAX = 64 };

struct rules {
    struct tn_arena *pool;
    struct rule **list;
    size_t count;
    int facts; /* so many of them are asked for */
};

/* Adds a rule, whose members the caller fills; NULL with err: there are too many. */
struct rule *rules_add(struct rules *rules, struct tn_error *err);
/* The bit of the rule in the facts; 0 with err when too many are asked for. */
uint64_t rules_fact(struct rules *rules, struct rule *r, struct tn_error *err);
struct rule *rules_find(const struct rules *rules, const char *name);

/* Finds out which facts hold after the events of the history. */
void look_facts(struct look *look);

/* Both read a whole file and add its rules, or fail with "file:line: ..." (and column, in the
 * second one).  Whatever is not known is an error. */
int rules_from_toml(struct rules *rules, const char *file, const char *text, size_t n,
                    struct tn_error *err);
int rules_from_invariant(struct rules *rules, const char *file, const char *text, size_t n,
                         struct tn_error *err);

#endif
