/* All analyzers of one configuration, asked together: the worst that one of them says holds.
 *
 * Whatever goes wrong with an analyzer (an error, a time-out, an answer that makes no sense) is a
 * finding of unknown risk, and asks even where unknown risks are allowed: never a reason to allow.
 * One that has failed several times in a row is not asked for a while, so that a dead server does
 * not cost its whole deadline with every action; its finding is the same. */
#ifndef TN_SECURITY_JUDGE_H
#define TN_SECURITY_JUDGE_H

#include "security/analyzer.h"

struct tn_judge;

/* For settings that want something judged (tn_security_on).  NULL with err: an analyzer that is not
 * known (the nearest is named), or one that cannot work at all.  The settings are not needed
 * afterwards. */
struct tn_judge *tn_judge_new(const struct tn_security_settings *s, struct tn_error *err);
/* 0 when there is an analyzer of that name, built in or a program; else -1 naming the nearest. */
int tn_judge_check_name(const struct tn_security_settings *s, const char *name,
                        struct tn_error *err);
/* One more analyzer, which outlives the judge; before the first action.  One that is there already
 * is not added again. */
int tn_judge_add(struct tn_judge *j, const struct tn_analyzer *analyzer,
                 const struct tn_security_settings *s, struct tn_error *err);
/* With nobody in tn_judge_action.  NULL is fine. */
void tn_judge_free(struct tn_judge *j);

/* How many events of the history its analyzers look at: 0 for most. */
size_t tn_judge_history(const struct tn_judge *j);
const struct tn_thresholds *tn_judge_thresholds(const struct tn_judge *j);
double tn_judge_confirm_seconds(const struct tn_judge *j);

/* Judges an action that can be carried out; others are allowed without a look.  Fills out, which
 * the caller ends: the decision is final, `ask` has become `block` where nobody is there to be
 * asked.  Any thread; returns by the deadline, and does not fail. */
void tn_judge_action(struct tn_judge *j, const struct tn_case *c, int64_t deadline,
                     struct tn_verdict *out);

/* What an analyzer of that name judges by; lives for ever. */
const char *tn_judge_about(const char *name);

#endif
