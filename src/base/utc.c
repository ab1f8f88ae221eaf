#include "base/utc.h"

#define DAY INT64_C(86400)
#define FIRST INT64_C(-377705116800) /* the year -9999 */
#define LAST INT64_C(253402300799)   /* the end of 9999 */

enum {
    CYCLE = 146097,        /* days in 400 years */
    BEFORE_CYCLE = 719468, /* days from the first of March of the year 0 to 1970 */
};

/* Years that start in March: the leap day is their last, and the lengths of the months before it
 * repeat every five (153 days). */
void tn_utc(int64_t seconds, struct tm *out)
{
    seconds = seconds < FIRST ? FIRST : seconds > LAST ? LAST : seconds;
    int64_t days = seconds / DAY - (seconds % DAY < 0);
    int64_t since = days + BEFORE_CYCLE;
    int64_t cycle = since / CYCLE - (since % CYCLE < 0);
    int second = (int)(seconds - days * DAY), day = (int)(since - cycle * CYCLE);
    int year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int day_of_year = day - (365 * year + year / 4 - year / 100);
    int month = (5 * day_of_year + 2) / 153; /* from March */

    *out = (struct tm){
        .tm_sec = second % 60,
        .tm_min = second / 60 % 60,
        .tm_hour = second / 3600,
        .tm_mday = day_of_year - (153 * month + 2) / 5 + 1,
        .tm_mon = month < 10 ? month + 2 : month - 10,
        .tm_year = year + (int)cycle * 400 + (month >= 10) - 1900,
        .tm_wday = (int)((days % 7 + 11) % 7), /* 1970 began on a Thursday */
    };
}
