/* What a judge is told of an action: what happened before in its sandbox, where the shell is. */
#ifndef TN_RUNTIME_JUDGING_H
#define TN_RUNTIME_JUDGING_H

#include "runtime/ledger.h"
#include "security/judge.h"

/* Whether anybody has to judge it at all: a question what a running command has written since is
 * none, nor what no hand carries out. */
bool tn_judging_applies(const struct tn_action *action);

/* Asks the judge, who knows the ledger's journal, and (lead may be NULL) where names lead; the
 * caller ends the verdict. */
void tn_judging_ask(struct tn_judge *judge, const struct tn_thresholds *thresholds,
                    struct tn_ledger *ledger, const struct tn_action *action, tn_lead_fn lead,
                    void *lead_ctx, int64_t deadline, struct tn_verdict *out);

/* Waits for the next event of that kind with that cause: 0 with its tree, which the caller ends.
 * watch: a descriptor that ends the wait when it becomes readable, or NULL.  TN_E_TIMEOUT. */
struct tn_journal_reader;
int tn_judging_await(struct tn_journal_reader *reader, enum tn_event_kind kind, int64_t cause,
                     const int *watch, int64_t deadline, struct tn_json **event,
                     struct tn_error *err);

#endif
