#include "base/error-hide.h"

static _Atomic(void (*)(const char *, const char *)) hidden_to;

void tn_error_hidden_to(void (*listener)(const char *instead, const char *text))
{
    hidden_to = listener;
}

void tn_error_hide(struct tn_error *err, const char *instead)
{
    void (*listener)(const char *, const char *) = hidden_to;

    if (!err || !listener)
        return;
    listener(instead, err->text);
    tn_fail(err, err->code, "%s", instead);
}
