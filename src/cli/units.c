#include "cli/units.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/guard.h"

enum { ROOM = 32 };

const char *format_bytes(int64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t i = 0;

    for (; value >= 1024 && i + 1 < TN_COUNT(units); i++)
        value /= 1024;
    if (bytes < 0)
        snprintf(out, ROOM, "-");
    else
        snprintf(out, ROOM, "%.*f %s", i > 0 && value < 10 ? 1 : 0, value, units[i]);
    return out;
}

const char *format_age(double seconds, char out[32])
{
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;

    while (i + 1 < TN_COUNT(units) && seconds < units[i].seconds)
        i++;
    if (seconds < 0)
        snprintf(out, ROOM, "-");
    else
        snprintf(out, ROOM, "%.0f %s", (double)(int64_t)(seconds / units[i].seconds),
                 units[i].name);
    return out;
}

const char *format_time(int64_t nanoseconds, char out[32])
{
    double ms = (double)nanoseconds / TN_MILLI;

    if (ms < 1)
        snprintf(out, ROOM, "%.0f us", ms * 1000);
    else if (ms < 1000)
        snprintf(out, ROOM, "%.*f ms", ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
    else
        snprintf(out, ROOM, "%.2f s", ms / 1000);
    return out;
}
