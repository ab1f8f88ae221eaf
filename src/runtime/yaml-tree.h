/* YAML as JSON (libyaml underneath, loaded when first needed).
 *
 * Plain scalars become null, booleans, integers and numbers as YAML 1.2's core schema has them;
 * everything else is a string.  Aliases, several documents, keys that are not scalars, and
 * documents deeper than 32 levels or with more than 10,000 values are refused: what comes from
 * others stays small. */
#ifndef TN_RUNTIME_YAML_TREE_H
#define TN_RUNTIME_YAML_TREE_H

#include "base/json.h"

/* One document; an empty one is null.  On 0 the caller frees *tree. */
int tn_yaml_parse(const char *text, size_t len, struct tn_json **tree, struct tn_error *err);

#endif
