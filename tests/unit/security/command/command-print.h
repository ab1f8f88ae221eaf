/* A tree as shell text of the same meaning, for the comparison with what bash makes of the
 * original. */
#ifndef TN_TESTS_UNIT_SECURITY_COMMAND_COMMAND_PRINT_H
#define TN_TESTS_UNIT_SECURITY_COMMAND_COMMAND_PRINT_H

#include "base/buf.h"
#include "security/command/tree.h"

void command_print(const struct tn_sh_tree *tree, struct tn_buf *out);

#endif
