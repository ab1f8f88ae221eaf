/* The date and time of day in UTC.  Not gmtime_r: the C library's knows time zones as well, for
 * which a static program would carry 100 KB. */
#ifndef TN_BASE_UTC_H
#define TN_BASE_UTC_H

#include <stdint.h>
#include <time.h>

/* The fields of `seconds` after 1970, but for the day of the year.  Dates that an int cannot number
 * come out as the first or the last second of the years -9999 to 9999. */
void tn_utc(int64_t seconds, struct tm *out);

#endif
