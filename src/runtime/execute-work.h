/* What execute.c (how an action is carried out) and execute-judge.c (whether) share. */
#ifndef TN_RUNTIME_EXECUTE_WORK_H
#define TN_RUNTIME_EXECUTE_WORK_H

#include "runtime/execute.h"

/* One errand on its way. */
struct tn_work {
    const struct tn_errand *e;
    const struct tn_reach *reach;
    void *ctx;
    struct tn_outcome *out;
    struct tn_action action; /* as it is noted; borrows everything */
    struct tn_json *verdict; /* NULL: nobody judged it */
    bool by_hand;            /* the answer is what came from there */
    struct tn_error unready; /* why the judge went by names alone: code TN_OK, it did not */
    const char *key;         /* idempotency key that it is noted with, or NULL */
    bool waited;             /* ...and it is somebody else who carried it out */
    struct tn_ledger *ledger;
    struct tn_noted noted;
    struct tn_hand_request request;
    int64_t deadline;
    struct tn_toolbox *tools; /* NULL: none, or not for this caller */
    char *known;              /* report, before the action */
};

/* Instead of an outcome: it may be carried out. */
enum { TN_GO_ON = -2 };

/* TN_GO_ON, or what became of it. */
int tn_work_judge(struct tn_work *w, struct tn_error *err);

/* The observation as bytes, for who wants such; false: it has become too large, and they stay as
 * they were. */
bool tn_work_write(struct tn_work *w);
/* TN_E_CONFLICT: another request has it carried out at this moment. */
int tn_work_busy(struct tn_error *err);
/* Puts a verdict (NULL: there is none) into the observation, unless it found nothing and allows:
 * `verdict` beside its extras, and in the metadata of `run`.  True when it did. */
bool tn_tell_verdict(struct tn_observation *o, struct tn_json *verdict);
/* The observation is there, and nothing was or will be done: no sandbox is woken for it, and its
 * idempotency key stays free. */
int tn_work_answer(struct tn_work *w);
/* Nobody answered, and the sandbox is not known to have ended. */
void tn_work_explain(const struct tn_error *why, size_t most, struct tn_error *err);

#endif
