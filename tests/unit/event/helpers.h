/* What the event tests share. */
#ifndef TN_TESTS_EVENT_HELPERS_H
#define TN_TESTS_EVENT_HELPERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "event/observation.h"

static inline struct tn_json *parse(const char *text)
{
    struct tn_json *tree = NULL;
    struct tn_error err;
    if (tn_json_parse(text, strlen(text), &tree, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return tree;
}

#endif
