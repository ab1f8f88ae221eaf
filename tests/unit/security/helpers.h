/* What the tests of analyzers share. */
#ifndef TN_TESTS_SECURITY_HELPERS_H
#define TN_TESTS_SECURITY_HELPERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "security/judge.h"

static inline void settings_of(struct tn_security_settings *s)
{
    tn_fields_defaults(&tn_security_fields, s);
    tn_fields_defaults(&tn_security_llm_fields, &s->llm);
    tn_fields_defaults(&tn_security_invariant_fields, &s->invariant);
    tn_fields_defaults(&tn_security_grayswan_fields, &s->grayswan);
}

static inline void settings_done(struct tn_security_settings *s)
{
    tn_fields_done(&tn_security_fields, s);
    tn_fields_done(&tn_security_llm_fields, &s->llm);
    tn_fields_done(&tn_security_invariant_fields, &s->invariant);
    tn_fields_done(&tn_security_grayswan_fields, &s->grayswan);
}

#endif
