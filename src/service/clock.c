#include "service/clock.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/guard.h"
#include "base/log.h"
#include "runtime/owner.h"

/* Less than this between two services is no jump: the wall clock is kept by somebody. */
#define JUMP_SECONDS 60.0

/* Nanoseconds to add to the time since boot; 0: not known yet. */
static atomic_llong offset;

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void set_time(double time, double up)
{
    atomic_store(&offset, (long long)((time - up) * 1e9));
}

double service_time(void)
{
    double up = seconds_of(CLOCK_BOOTTIME);

    if (atomic_load(&offset) == 0)
        set_time(seconds_of(CLOCK_REALTIME), up);
    return up + (double)atomic_load(&offset) / 1e9;
}

void put_time(struct tn_jw *w, const char *key, double time)
{
    if (time > 0)
        tn_jw_kdouble(w, key, time);
    else
        tn_jw_knull(w, key);
}

static struct clock_note note_now(double time)
{
    struct clock_note n = {.time = time, .up = seconds_of(CLOCK_BOOTTIME)};

    snprintf(n.boot, sizeof n.boot, "%s", tn_boot_id());
    return n;
}

/* How late it is by the clock that was kept; one of another boot, or none, says nothing. */
static double expected(const struct clock_note *kept, const struct clock_note *now)
{
    bool says = kept->boot[0] && !strcmp(kept->boot, now->boot) && kept->up <= now->up;

    return says ? kept->time + (now->up - kept->up) : now->time;
}

double clock_go_on(const struct clock_note *kept, const struct clock_note *now)
{
    double time = expected(kept, now);

    return fabs(now->time - time) < JUMP_SECONDS ? now->time : time;
}

static int read_note(const struct tn_db_row *row, void *ctx)
{
    struct clock_note *n = ctx;
    const char *text = tn_db_text(row, 0);

    if (!text || sscanf(text, "%lf %lf %39s", &n->time, &n->up, n->boot) != 3)
        n->boot[0] = '\0';
    return 0;
}

static int read_kept(struct tn_db *db, struct clock_note *kept, struct tn_error *err)
{
    return tn_db_each(db, read_note, kept, err, "SELECT value FROM setting WHERE name = 'clock'",
                      "") < 0
               ? -1
               : 0;
}

int service_clock_join(struct tn_db *db, struct tn_error *err)
{
    struct clock_note kept = {0}, now = note_now(seconds_of(CLOCK_REALTIME));

    if (read_kept(db, &kept, err) < 0)
        return -1;
    set_time(expected(&kept, &now), now.up);
    return 0;
}

int service_clock_start(struct tn_db *db, struct tn_error *err)
{
    struct clock_note kept = {0};

    if (read_kept(db, &kept, err) < 0)
        return -1;
    struct clock_note now = note_now(seconds_of(CLOCK_REALTIME));
    double time = clock_go_on(&kept, &now);
    if (time != now.time)
        tn_log(TN_LOG_WARN, "the wall clock was set: times of sandboxes go on as before",
               tn_log_double("seconds", now.time - time));
    set_time(time, now.up);
    return service_clock_keep(db, err);
}

int service_clock_keep(struct tn_db *db, struct tn_error *err)
{
    struct clock_note now = note_now(service_time());
    tn_autofree char *text = tn_asprintf("%.9f %.9f %s", now.time, now.up, now.boot);

    return tn_db_run(db, err, "INSERT OR REPLACE INTO setting (name, value) VALUES ('clock', ?)",
                     "t", text) < 0
               ? -1
               : 0;
}
