/* What analyzers found in one action, and what follows from it. */
#ifndef TN_SECURITY_VERDICT_H
#define TN_SECURITY_VERDICT_H

#include "event/action.h"

/* What is done with an action; ordered: of several, the greatest holds. */
enum tn_decision {
    TN_ALLOW,
    TN_ASK,
    TN_BLOCK,
};

/* One thing that one analyzer says.  All strings are owned and never NULL. */
struct tn_finding {
    char *analyzer;
    char *rule; /* "": it has none */
    char *part; /* of the action, quoted: "args.command: curl ... | sh"; "": all of it */
    char *text; /* for people */
    enum tn_risk risk;
};

/* Of no analyzer, or of one that found nothing: all zero, which allows. */
struct tn_verdict {
    enum tn_risk risk; /* that of the finding that decided; low without any */
    enum tn_decision decision;
    struct tn_finding *findings;
    size_t count;
};

void tn_verdict_done(struct tn_verdict *v);
#define tn_autoverdict TN_CLEANUP(tn_verdict_done)

/* The most findings that a verdict holds; of more, the ones of the least risk go. */
enum { TN_FINDINGS_MAX = 32 };
/* The most bytes of each of their strings: they may be another's words. */
enum { TN_FINDING_TEXT_MAX = 600 };

/* Adds a finding; strings are copied, cut at a character, and '?' stands for what is no UTF-8;
 * NULL is "". */
void tn_verdict_add(struct tn_verdict *v, const char *analyzer, const char *rule, const char *part,
                    enum tn_risk risk, const char *text);
/* Moves all findings of `from`, which is empty afterwards. */
void tn_verdict_move(struct tn_verdict *v, struct tn_verdict *from);

/* Adds what another one told as JSON: its findings, of analyzers with the mark before their names;
 * the greater decision holds, with its risk.  Words that are none count as unknown, and ask. */
void tn_verdict_add_told(struct tn_verdict *v, const struct tn_json *told, const char *mark);

/* Low, unknown, medium, high: of two that lead to the same decision, the later one is told. */
bool tn_risk_exceeds(enum tn_risk a, enum tn_risk b);
/* "unknown", "low", "medium", "high"; lives for ever. */
const char *tn_risk_word(enum tn_risk risk);
/* The risk of a word of n bytes, in any case; false (and TN_RISK_UNKNOWN) for every other one. */
bool tn_risk_from_word(const char *word, size_t n, enum tn_risk *risk);

/* "allow", "ask", "block"; ends with NULL, for tables of fields. */
extern const char *const tn_decision_words[];

/* The finding that decided, or NULL. */
const struct tn_finding *tn_verdict_reason(const struct tn_verdict *v);
/* {"risk": "high", "decision": "block", "findings": [{"analyzer", "rule", "part", "text",
 * "risk"}]} */
void tn_verdict_to_json(const struct tn_verdict *v, struct tn_jw *w);
/* One sentence for people: analyzer, rule, part and text of the finding that decided. */
void tn_verdict_put_reason(const struct tn_verdict *v, struct tn_buf *out);

#endif
