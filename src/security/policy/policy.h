/* The analyzer `policy`: rules in files, looked at in this process.  docs/policy.md is for people.
 *
 * A policy is read once and not changed; any number of threads may judge by it. */
#ifndef TN_SECURITY_POLICY_POLICY_H
#define TN_SECURITY_POLICY_POLICY_H

#include "security/analyzer.h"

struct tn_policy;

/* The rules that ship (when wanted), then those of the files, in their order.  A file whose name
 * ends with .toml is TOML, every other one is in the subset of Invariant's language.  NULL with err
 * ("file:line: ..."). */
struct tn_policy *tn_policy_new(bool shipped, char *const *files, size_t count,
                                struct tn_error *err);
void tn_policy_free(struct tn_policy *p);
static inline void tn_guard_policy(struct tn_policy **p)
{
    tn_policy_free(*p);
}
#define tn_autopolicy TN_CLEANUP(tn_guard_policy)

/* Adds the rules of a text that has been read; name as above. */
int tn_policy_add(struct tn_policy *p, const char *name, const char *text, size_t n,
                  struct tn_error *err);

/* How many rules can have findings. */
size_t tn_policy_count(const struct tn_policy *p);

/* Adds a finding for each rule that the action meets; -1 with err when the deadline passes. */
int tn_policy_judge(const struct tn_policy *p, const struct tn_case *c, int64_t deadline,
                    struct tn_verdict *out, struct tn_error *err);

/* Where the rule of that name stands: "file:line", which the caller frees; NULL: there is none. */
char *tn_policy_place(const struct tn_policy *p, const char *rule);

/* Appends, as Markdown, a table of the rules and one of the detectors: parts of docs/policy.md. */
void tn_policy_describe(const struct tn_policy *p, struct tn_buf *out);
void tn_policy_describe_detectors(struct tn_buf *out);

/* The text of the rules that ship. */
const char *tn_policy_shipped(size_t *n);

#endif
