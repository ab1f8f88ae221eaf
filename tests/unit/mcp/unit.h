/* What every unit test here includes, in the order cmocka asks for. */
#ifndef TN_TESTS_UNIT_MCP_UNIT_H
#define TN_TESTS_UNIT_MCP_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

#endif
