/* Numbers for human eyes.  All write to the given memory and return it. */
#ifndef TN_CLI_UNITS_H
#define TN_CLI_UNITS_H

#include <stdint.h>

/* "0 B", "1.5 KiB", "12 MiB"; "-" for a negative number. */
const char *format_bytes(int64_t bytes, char out[32]);
/* "0 s", "59 s", "12 min", "3 h", "8 d"; "-" for a negative number. */
const char *format_age(double seconds, char out[32]);
/* "850 us", "1.24 ms", "3.50 s", from nanoseconds. */
const char *format_time(int64_t nanoseconds, char out[32]);

#endif
