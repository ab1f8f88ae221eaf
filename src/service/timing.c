#include "service/timing.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/database.h"

static _Thread_local struct {
    int64_t began, store; /* the time that the store had taken by then */
    int64_t waited[TIMING_PARTS];
    int depth; /* of timing_enter */
    enum timing_part part;
    int64_t entered, entered_store;
} now;

void timing_begin(void)
{
    memset(&now, 0, sizeof now);
    now.began = tn_now();
    now.store = tn_db_spent();
}

void timing_enter(enum timing_part part)
{
    if (now.depth++)
        return;
    now.part = part;
    now.entered = tn_now();
    now.entered_store = tn_db_spent();
}

static int64_t since_entered(void)
{
    return tn_now() - now.entered - (tn_db_spent() - now.entered_store);
}

void timing_leave(void)
{
    if (--now.depth == 0)
        now.waited[now.part] += since_entered();
}

static void put(char out[TIMING_TEXT], const char *name, int64_t nanoseconds)
{
    size_t n = strlen(out);

    if (nanoseconds > 0)
        snprintf(out + n, TIMING_TEXT - n, "%s%s;dur=%.2f", n ? ", " : "", name,
                 (double)nanoseconds / 1e6);
}

void timing_tell(char out[TIMING_TEXT])
{
    int64_t waited[TIMING_PARTS];

    memcpy(waited, now.waited, sizeof waited);
    if (now.depth)
        waited[now.part] += since_entered();
    out[0] = '\0';
    put(out, "queue", waited[TIMING_QUEUE]);
    put(out, "store", tn_db_spent() - now.store);
    put(out, "backend", waited[TIMING_BACKEND]);
    put(out, "total", tn_now() - now.began);
}
