/* Completions of shells, made from the table of verbs. */
#ifndef TN_CLI_COMPLETE_H
#define TN_CLI_COMPLETE_H

#include "base/buf.h"

void put_bash_completion(struct tn_buf *out);
void put_zsh_completion(struct tn_buf *out);
void put_fish_completion(struct tn_buf *out);

#endif
