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
#define WORK_SECONDS 1.0   /* of looking, of about four: */
#define REST 3
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
    else if (!box_order(b, NULL, ORDER_PAUSE, tn_now(), &err) || err.code == TN_E_TIMEOUT)
        metric_add(s->metrics, METRIC_KEPT, "disk", 1);
    tn_log(TN_LOG_WARN, "a sandbox fills the disk", tn_log_str("sandbox", box_id(b)),
           tn_log_str("why", why),
           tn_log_str("problem", err.code && err.code != TN_E_TIMEOUT ? err.text : ""));
}

struct look {
    struct tn_service *s;
    struct disk_round *round;
    int64_t due, deadline;
    bool hurry;  /* what it costs does not matter */
    bool little; /* is left, less than the reserve */
};

/* Counted to the end or not, so much is there. */
static bool is_over(struct box *b, const struct box_disk *disk)
{
    double most = (double)box_disk_limit(b), used = (double)disk->counted;

    return most > 0 && used > most &&
           (used >= most * CLEAN_MORE || box_notice_age(b) >= CLEAN_SECONDS);
}

static void judge(struct look *l, struct box *b, const struct box_view *v,
                  const struct box_disk *disk)
{
    struct disk_round *r = l->round;

    if (is_over(b, disk)) {
        tn_autofree char *why = tn_asprintf(
            "disk: it has written %s%.0f MiB and may write %.0f MiB: delete files, or the sandbox",
            disk->partial ? "at least " : "", (double)disk->counted / MIB,
            (double)box_disk_limit(b) / MIB);
        put_to_rest(l->s, b, v->runtime, why);
        return;
    }
    if (disk->partial)
        memcpy(r->unknown, v->id, sizeof r->unknown);
    else if (!l->little && (box_disk_limit(b) <= 0 || disk->counted <= box_disk_limit(b)))
        box_set_notice(b, NULL);
    if ((double)disk->grown > r->wrote) {
        memcpy(r->writer, v->id, sizeof r->writer);
        r->wrote = (double)disk->grown;
    }
}

static int look_at(struct box *b, void *ctx)
{
    struct look *l = ctx;
    struct disk_round *r = l->round;
    struct box_disk disk;
    autoview struct box_view v = {0};

    box_look(b, &v);
    memcpy(r->after, v.id, sizeof r->after);
    r->created = v.created;
    if (box_disk_looked(b, l->due) || !box_tells_disk(b))
        return 0;
    if (!l->hurry && !box_sample_due(b)) {
        memcpy(r->unknown, v.id, sizeof r->unknown); /* another time */
        return 0;
    }
    if (!box_sample(b, NULL)) {
        box_disk_look(b, &disk);
        judge(l, b, &v, &disk);
    }
    return tn_now() > l->deadline;
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Who wrote next to nothing does not fill the disk: that is somebody else's doing.  Where nobody
 * is seen to write, it is one that has so many files that they could not be counted yet. */
static void spare_the_rest(struct tn_service *s, const struct disk_round *r, double fall)
{
    bool seen = r->wrote > NOISE && (!r->unknown[0] || r->wrote > fall / 4);
    autobox struct box *b = box_find(s, NULL, seen ? r->writer : r->unknown, NULL);
    autoview struct box_view v = {0};

    if (!b || (!seen && r->begun))
        return;
    box_look(b, &v);
    tn_autofree char *why =
        seen
            ? tn_asprintf("disk: that of the service is nearly full (service.disk_reserve), and "
                          "this sandbox wrote the most of late, %.0f MiB",
                          r->wrote / MIB)
            : tn_strdup("disk: that of the service is nearly full (service.disk_reserve), and what "
                        "this sandbox writes cannot be told: it has too many files");
    put_to_rest(s, b, v.runtime, why);
}

/* Some of the boxes; the next call goes on with the others. */
static void go_round(struct tn_service *s, struct disk_watch *w, bool hurry, bool little)
{
    struct disk_round *r = &w->round;
    struct look l = {.s = s,
                     .round = r,
                     .due = w->due,
                     .deadline = tn_deadline_in(WORK_SECONDS),
                     .hurry = hurry,
                     .little = little};
    struct box_filter rest = {.states = 1u << BOX_RUNNING,
                              .after = r->after[0] ? r->after : NULL,
                              .after_created = r->created};
    int64_t began = tn_now();

    r->begun = box_each(s, &rest, look_at, &l, NULL) != 0;
    w->rest = tn_now() + REST * (tn_now() - began);
}

void disk_watch_tick(struct tn_service *s, struct disk_watch *w)
{
    double left = admit_disk_left(s), reserve = size_of(s->options->disk_reserve);
    double fall = fmax(0, w->left - left), since = w->measured - left;
    bool first = w->next == 0;

    if (left < 0)
        return;
    bool scarce = !first && reserve > 0 && fall > NOISE && left - fall * SECONDS_AHEAD < reserve;
    double step = fmin(STEP, fmax(NOISE, size_of(s->options->sandbox_disk) / 4));
    bool due = first || scarce || since >= step || (tn_now() >= w->next && since >= NOISE);
    w->left = left;
    if (since < 0)
        w->measured = left; /* somebody made room */
    if (!scarce && (tn_now() < w->rest || !(due || w->unknown)))
        return;
    if (!w->round.begun)
        w->round = (struct disk_round){0};
    if (due) {
        w->measured = left;
        w->due = tn_now();
        w->next = tn_deadline_in(ROUND_SECONDS);
    }
    go_round(s, w, scarce, left < reserve);
    if (scarce)
        spare_the_rest(s, &w->round, fall);
    w->unknown = w->round.begun || w->round.unknown[0];
}
