/* What the calls carry, as JSON. */
#ifndef TN_RUNTIME_EXTERNAL_WIRE_H
#define TN_RUNTIME_EXTERNAL_WIRE_H

#include "base/json.h"
#include "runtime/backend.h"

/* A member `key` with the subject. */
void wire_subject(struct tn_jw *w, const char *key, const struct tn_subject *subject);
/* -1 with err when the answer makes no sense. */
int wire_place(const struct tn_json *result, struct tn_place *place, struct tn_error *err);
void wire_usage(const struct tn_json *result, struct tn_usage *usage);
/* Bits of the abilities that are named; unknown names are ignored: a newer program may have more.
 */
unsigned wire_abilities(const struct tn_json *names);

#endif
