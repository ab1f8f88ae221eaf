/* From the arguments of a call to the parameters of its function. */
#ifndef TN_HAND_BROWSER_LANG_BIND_H
#define TN_HAND_BROWSER_LANG_BIND_H

#include "hand/browser/lang.h"

struct tn_lang_argument {
    char *name; /* NULL: positional; those come first */
    struct tn_json *value;
};

/* Fills call->arguments, taking the values it uses, or call->error, as Python and the browser's
 * operations word it. */
void tn_lang_bind(struct tn_browser_call *call, struct tn_lang_argument *arguments, size_t count);

#endif
