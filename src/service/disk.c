/* Disks that fill.  Not every runtime can limit what a sandbox writes (a limit of a jail's is a
 * file system in memory), so the steward looks: at the disk every second, which costs nothing, and
 * at the sandboxes when it sees that somebody writes. */
#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/registry.h"
#include "service/admit.h"
#include "service/metrics.h"
#include "service/steward.h"

#define MIB (1024.0 * 1024)

#define STEP (512 * MIB)   /* written in all: then each is looked at, */
#define ROUND_SECONDS 60.0 /* or after so long, when anything was written */
#define NOISE MIB          /* what every machine writes now and then */
#define SECONDS_AHEAD 3    /* that the fall of the last second may go on for */
#define CLEAN_SECONDS 30.0 /* to clean up, for one that was woken; */
#define CLEAN_MORE 1.5     /* but nobody gets beyond this part of its limit */

static double size_of(const char *text)
{
    uint64_t bytes = 0;

    return text && !tn_size_parse(text, &bytes, NULL) ? (double)bytes : 0;
}

/* --- one sandbox ------------------------------------------------------------------------------ */

/* No time to wait: it goes on in the background. */
static void put_to_rest(struct tn_service *s, struct box *b, const char *runtime, const char *why)
{
    const struct tn_backend *backend =
        tn_backend_find(tn_runtime_host(s->rt)->config, runtime, NULL);
    unsigned can = backend ? backend->abilities : 0;
    struct tn_error err = {0};

    box_set_notice(b, why);
    if (!(can & (TN_CAN_PAUSE | TN_CAN_STOP)))
        tn_fail(&err, TN_E_UNSUPPORTED, "its runtime can neither pause nor stop");
    else if (!box_order(b, NULL, can & TN_CAN_PAUSE ? ORDER_PAUSE : ORDER_STOP, tn_now(), &err) ||
             err.code == TN_E_TIMEOUT)
        metric_add(s->metrics, METRIC_KEPT, "disk", 1);
    tn_log(TN_LOG_WARN, "a sandbox fills the disk", tn_log_str("sandbox", box_id(b)),
           tn_log_str("why", why),
           tn_log_str("problem", err.code && err.code != TN_E_TIMEOUT ? err.text : ""));
}

struct round {
    struct tn_service *s;
    char writer[11]; /* whoever wrote the most since the last look */
    double wrote;
};

static int look_at(struct box *b, void *ctx)
{
    struct round *r = ctx;
    autoview struct box_view before = {0}, now = {0};
    double most = (double)box_disk_limit(b);

    box_look(b, &before);
    if (box_sample(b, NULL))
        return 0;
    box_look(b, &now);
    double used = (double)now.usage.disk, wrote = used - fmax(0, (double)before.usage.disk);
    if (most > 0 && used > most) {
        if (used < most * CLEAN_MORE && box_notice_age(b) < CLEAN_SECONDS)
            return 0;
        tn_autofree char *why = tn_asprintf(
            "disk: it has written %.0f MiB and may write %.0f MiB: delete files, or the sandbox",
            used / MIB, most / MIB);
        put_to_rest(r->s, b, now.runtime, why);
        return 0;
    }
    box_set_notice(b, NULL);
    if (wrote > r->wrote) {
        memcpy(r->writer, now.id, sizeof r->writer);
        r->wrote = wrote;
    }
    return 0;
}

/* --- all of them ------------------------------------------------------------------------------ */

static void spare_the_rest(struct round *r)
{
    /* Who wrote next to nothing does not fill the disk: that is somebody else's doing. */
    autobox struct box *b = r->wrote > NOISE ? box_find(r->s, NULL, r->writer, NULL) : NULL;
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    tn_autofree char *why =
        tn_asprintf("disk: that of the service is nearly full (service.disk_reserve), and this "
                    "sandbox wrote the most of late, %.0f MiB",
                    r->wrote / MIB);
    put_to_rest(r->s, b, v.runtime, why);
}

void disk_watch_tick(struct tn_service *s, struct disk_watch *w)
{
    double left = admit_disk_left(s), reserve = size_of(s->options->disk_reserve);
    double fall = fmax(0, w->left - left), since = w->measured - left;
    bool first = w->next == 0;

    if (left < 0)
        return;
    bool scarce = reserve > 0 && fall > NOISE && left - fall * SECONDS_AHEAD < reserve;
    double step = fmin(STEP, fmax(NOISE, size_of(s->options->sandbox_disk) / 4));
    w->left = left;
    if (since < 0)
        w->measured = left; /* somebody made room */
    if (!first && !scarce && since < step && (tn_now() < w->next || since < NOISE))
        return;
    struct round r = {.s = s};
    box_each(s, &(struct box_filter){.states = 1u << BOX_RUNNING}, look_at, &r, NULL);
    if (scarce && !first)
        spare_the_rest(&r);
    w->left = w->measured = admit_disk_left(s);
    w->next = tn_deadline_in(ROUND_SECONDS);
}
