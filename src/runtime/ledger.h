/* The ledger of a sandbox: its journal, and which actions with an idempotency key are in it.
 *
 * Whoever executes an action notes it here before anybody may carry it out, and what became of
 * it afterwards.  From any thread.  A journal that cannot be written never stops an action; the
 * keys of this process are known all the same, those of hidden actions too, which no journal
 * has: these are forgotten with the process. */
#ifndef TN_RUNTIME_LEDGER_H
#define TN_RUNTIME_LEDGER_H

#include "event/stream.h"
#include "runtime/sandbox-journal.h"

struct tn_ledger;

struct tn_ledger *tn_ledger_new(void);
void tn_ledger_free(struct tn_ledger *l);

bool tn_ledger_is_open(struct tn_ledger *l);
/* Notes go into this journal from here on, if it can be opened and none is open. */
void tn_ledger_open(struct tn_ledger *l, const struct tn_sandbox_journal *of);
/* What is noted from now on does not show these either.  TN_E_TOO_LARGE: they are too much. */
int tn_ledger_hide(struct tn_ledger *l, const struct tn_secret *secrets, size_t n,
                   struct tn_error *err);
/* Appends text to out as the journal shows it; -1 when there is none. */
int tn_ledger_show(struct tn_ledger *l, const char *text, struct tn_buf *out);

/* How often a sandbox had been started, where nobody knows; clocks tell nothing: they are set. */
enum { TN_START_UNKNOWN = -1 };

/* What the ledger knows of an action. */
struct tn_noted {
    int64_t id;    /* in the journal, or -1: it is not there */
    bool keyed;    /* it has an idempotency key */
    bool known;    /* ...that was there already: somebody asks again */
    bool other;    /* ...for another action: nothing is noted */
    bool answered; /* ...with what became of it */
    bool running;  /* ...or is at it in this moment */
    int64_t start; /* of the sandbox when it was noted */
    unsigned char digest[16];
};

/* Whether an action with this idempotency key is there; nothing is noted. */
bool tn_ledger_knows(struct tn_ledger *l, const char *key);
/* Claims a key for an action that has to be prepared before it is noted: nobody else prepares the
 * same meanwhile.  TN_CLAIM_MINE: until tn_ledger_unclaim, by this caller. */
enum tn_claim { TN_CLAIM_MINE, TN_CLAIM_KNOWN, TN_CLAIM_OTHERS };
enum tn_claim tn_ledger_claim(struct tn_ledger *l, const char *key);
void tn_ledger_unclaim(struct tn_ledger *l, const char *key);
/* Reads what other processes have noted since. */
void tn_ledger_catch_up(struct tn_ledger *l);

/* Notes the action, unless one with this idempotency key (NULL: none) is there already. */
struct tn_noted tn_ledger_begin(struct tn_ledger *l, const struct tn_action *action,
                                const char *key, int64_t start);

/* What a sandbox reports of its limits and nobody was told of; on the heap, or NULL. */
typedef char *(*tn_ledger_report_fn)(void *ctx);
/* Notes what became of it, once for each idempotency key.  Before, a report is added to the
 * observation of a failure: the one that fn gives, or the one that the first answer had, so that
 * whoever asks again gets the same.  fn may be NULL.  True when the observation was changed. */
bool tn_ledger_end(struct tn_ledger *l, const struct tn_action *action,
                   const struct tn_noted *noted, tn_ledger_report_fn fn, void *ctx,
                   struct tn_observation *observation);
/* Nobody could say what became of it, so far. */
void tn_ledger_fail(struct tn_ledger *l, const struct tn_action *action,
                    const struct tn_noted *noted, const char *why);
/* Appends the observation that answered it, as the journal has it; -1 when there is none. */
int tn_ledger_answer(struct tn_ledger *l, const struct tn_noted *noted, struct tn_buf *out);

/* The directory of its journal, which lives as long as the ledger; NULL: none is open. */
const char *tn_ledger_directory(struct tn_ledger *l);
/* 16 bytes in hexadecimal that stand for type and arguments of an action. */
enum { TN_ACTION_DIGEST_SIZE = 33 };
void tn_action_digest(const struct tn_action *action, char out[TN_ACTION_DIGEST_SIZE]);

#endif
