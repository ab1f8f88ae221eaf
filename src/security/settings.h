/* What the operator wants judged, by whom, and what follows.
 *
 * The sections [security] and [security.*] of the configuration, which fills the struct by the
 * tables here. */
#ifndef TN_SECURITY_SETTINGS_H
#define TN_SECURITY_SETTINGS_H

#include "base/field.h"
#include "security/verdict.h"

/* Who is there to be asked. */
enum tn_confirmation_mode {
    TN_CONFIRM_NEVER,  /* nobody: what would have to be asked is refused */
    TN_CONFIRM_RISKY,  /* somebody, about what the table of risks says */
    TN_CONFIRM_ALWAYS, /* ...and about everything that is not blocked */
};
extern const char *const tn_confirmation_mode_words[];

/* What each risk leads to, and who says what is risky. */
enum { TN_ANALYZERS_MAX = 128 };
struct tn_thresholds {
    enum tn_decision low, medium, high, unknown;
    enum tn_confirmation_mode mode;
    char analyzers[TN_ANALYZERS_MAX]; /* "policy,llm": these alone; "": all that there are */
};

struct tn_llm_settings {
    char *endpoint; /* "https://host/v1"; NULL: the rating that the action carries counts */
    char *model;
    char *key_env; /* the variable of the environment that holds the key; NULL: none is sent */
    double seconds;
    int64_t cache; /* verdicts that are kept; 0: none */
    char *prompt;  /* what it is told beyond our own words, or NULL */
};

struct tn_invariant_settings {
    char *endpoint;
    char *policy; /* a file in its language; NULL: the server's own template */
    double seconds;
};

struct tn_grayswan_settings {
    char *endpoint;
    char *policy_id; /* never NULL: without a word, the platform's own for everybody */
    double seconds;
};

struct tn_security_settings {
    /* OpenHands' own */
    bool confirmation_mode;
    char *security_analyzer;
    /* ours */
    struct tn_str_list analyzers;
    struct tn_str_list analyzer_path; /* directories of programs, before those of PATH */
    double analyzer_seconds;          /* that a program has for an answer */
    /* -1 (null): what follows from the others, see tn_security_thresholds */
    enum tn_confirmation_mode confirmation;
    enum tn_decision low, medium, high, unknown;
    double confirm_seconds;
    struct tn_str_list policies; /* files of rules */
    bool default_policy;         /* the rules that ship are among them */
    char *secret_key;            /* of the safe, see safe.h; NULL: the usual one */
    char *roots;                 /* PEM; NULL: those of the machine are all */
    struct tn_llm_settings llm;
    struct tn_invariant_settings invariant;
    struct tn_grayswan_settings grayswan;
};

/* [security]; [security.llm] and so on have tables of their own: offsets are in their structs. */
extern const struct tn_fields tn_security_fields, tn_security_llm_fields,
    tn_security_invariant_fields, tn_security_grayswan_fields;

/* Whether anything is judged at all: an analyzer is named, or somebody is to be asked. */
bool tn_security_on(const struct tn_security_settings *s);

/* What holds where no key says otherwise: the settings; OpenHands' confirmation_mode is `risky`
 * with high = ask, where the operator set neither. */
struct tn_thresholds tn_security_thresholds(const struct tn_security_settings *s);
/* Chooses analyzers, of those that `s` has; no names: all.  TN_E_UNPROCESSABLE: there is no such
 * one, or there are too many. */
int tn_thresholds_choose(struct tn_thresholds *t, const struct tn_str_list *names,
                         const struct tn_security_settings *s, struct tn_error *err);
/* Whether that one is to be asked. */
bool tn_thresholds_has(const struct tn_thresholds *t, const char *analyzer);
/* Writes the names as an array, or null. */
void tn_thresholds_put_analyzers(const struct tn_thresholds *t, struct tn_jw *w);
/* Those of somebody's own: rows that are not set (-1) are those of `base`. */
struct tn_thresholds tn_thresholds_over(const struct tn_thresholds *base,
                                        const struct tn_thresholds *own);
/* Their rows, each may be null; with flags. */
extern const struct tn_fields tn_thresholds_fields;
/* What becomes of an action of that risk. */
enum tn_decision tn_thresholds_decide(const struct tn_thresholds *t, enum tn_risk risk);

#endif
