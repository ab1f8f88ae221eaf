/* What the JSON reader and writer share; nobody else needs it. */
#ifndef TN_BASE_JSON_SCAN_H
#define TN_BASE_JSON_SCAN_H

#include <stddef.h>

/* How many bytes at s stand for themselves in a JSON string: ASCII but no control byte, '"', '\\'.
 */
size_t tn_json_plain_run(const char *s, size_t n);

/* strtod in the C locale, whatever the process has set. */
double tn_strtod(const char *text);

#endif
