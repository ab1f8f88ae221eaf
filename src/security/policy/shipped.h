/* The rules that ship, built in. */
#ifndef TN_SECURITY_POLICY_SHIPPED_H
#define TN_SECURITY_POLICY_SHIPPED_H

#include "base/embedded.h"

extern const struct tn_embedded tn_policy_files[];

#endif
