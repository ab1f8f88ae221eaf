/* Detectors: code that finds what a pattern cannot say.  One file each, one table of all. */
#ifndef TN_SECURITY_POLICY_DETECT_H
#define TN_SECURITY_POLICY_DETECT_H

#include "security/policy/scene.h"

struct detector {
    const char *name, *about;
    const char *kinds; /* of its signs, with a space between */
    void (*look)(struct scene *s);
};

/* All of them; ends with one without a name. */
extern const struct detector *const detectors[];

extern const struct detector detect_secrets, detect_dangerous, detect_exfiltration,
    detect_persistence, detect_supply_chain, detect_injection, detect_unseen, detect_python;

/* The detector, or NULL. */
const struct detector *detector_find(const char *name, size_t n);

/* What it finds in the scene: a list, empty for NULL.  It looks when first asked. */
const struct sign *detector_signs(const struct detector *d, struct scene *s);

/* --- shared by detectors ---------------------------------------------------------------------- */

/* Appends the secrets of a text: signs of the detector that looks. */
void find_secrets(struct scene *s, const char *field, const char *text, size_t n);

/* Programs that fetch what a URL names. */
static const char fetchers[] = "curl wget aria2c http https xh fetch lynx w3m";

static inline bool fetches(const struct tn_call *c)
{
    return word_in(c->name, fetchers);
}

/* A file that one of the programs writes and the action runs afterwards, or NULL. */
const struct seen_path *run_written(const struct scene *s, const char *programs);

/* A host that is this sandbox itself, or a name that cannot leave the machine. */
bool host_is_local(const char *host);

#endif
