/* Using a box: its hand, its ports, what it uses. */
#include <math.h>

#include "runtime/gated.h"
#include "runtime/hand-answer.h"
#include "runtime/hand-tunnel.h"
#include "runtime/registry.h"
#include "runtime/sandbox-report.h"
#include "service/blobs.h"
#include "service/box-internal.h"
#include "service/key.h"
#include "service/steward.h"
#include "service/volume.h"

#define MAX_ACTION_TEXT 200
#define MIB (1024.0 * 1024)

/* What an agent server tells of a conversation, in batches, is far below. */
#define DELIVERIES_PER_SECOND 20.0
#define DELIVERIES_AT_ONCE 200.0

/* A list of 64 sessions at most, whose directories may have long names. */
#define SESSIONS_MAX (1 << 20)
#define SESSIONS_SECONDS 2.0
/* How long a use waits for a keeper that is started again; without one it has no network. */
#define KEEPER_SECONDS 15.0

/* --- that it was used ------------------------------------------------------------------------- */

/* Under its lock: its row hears of it within a second, together with those of others. */
static void note_use(struct box *b)
{
    struct boxes *all = b->all;

    b->used = wall_clock();
    if (b->use_unsaved)
        return;
    b->use_unsaved = true;
    pthread_mutex_lock(&all->used_lock);
    bool first = !all->used;
    b->next_used = all->used;
    all->used = box_ref(b);
    pthread_mutex_unlock(&all->used_lock);
    if (first)
        steward_save_uses_soon(b->s->steward);
}

void box_enter_use(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    b->uses++;
    note_use(b);
    pthread_mutex_unlock(&b->lock);
}

double box_take_delivery(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    double wait = bucket_take(&b->deliveries, DELIVERIES_PER_SECOND, DELIVERIES_AT_ONCE);
    pthread_mutex_unlock(&b->lock);
    return wait;
}

void box_leave_use(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    b->uses--;
    note_use(b);
    bool save = b->dirty;
    pthread_mutex_unlock(&b->lock);
    if (save)
        box_save(b);
}

bool box_in_use(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    bool yes = b->uses > 0;
    pthread_mutex_unlock(&b->lock);
    return yes;
}

void box_note_action(struct box *b, int64_t event, const char *text)
{
    char shortened[MAX_ACTION_TEXT + 1];
    size_t n = strnlen(text, MAX_ACTION_TEXT);

    while (n && n == MAX_ACTION_TEXT && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--; /* not in the middle of a character */
    memcpy(shortened, text, n);
    shortened[n] = '\0';
    pthread_mutex_lock(&b->lock);
    if (event > b->last_action) {
        b->last_action = event;
        replace(&b->last_action_text, shortened);
    }
    note_use(b);
    box_bump(b);
    pthread_mutex_unlock(&b->lock);
    box_tell(b);
}

void box_changed(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    box_bump(b);
    pthread_mutex_unlock(&b->lock);
    box_tell(b);
}

/* --- its hand --------------------------------------------------------------------------------- */

static int not_running(const struct box *b, struct tn_error *err)
{
    bool on_its_way = b->goal != b->state;
    const char *why = b->reason ? b->reason : b->notice;

    return tn_fail(err, TN_E_BUSY, "sandbox %s is %s%s%s%s%s%s", b->names.id,
                   box_state_words[b->state], on_its_way ? " (to be " : "",
                   on_its_way ? box_state_words[b->goal] : "", on_its_way ? ")" : "",
                   why ? ": " : "", why ? why : "");
}

/* Under its lock. */
static bool reachable(const struct box *b)
{
    return b->state == BOX_RUNNING && b->goal == BOX_RUNNING && b->address && !b->gone;
}

int box_limits(const struct box *b, struct key_limits *out, struct tn_error *err)
{
    struct caller maker;
    struct tn_error why = {0};

    if (keyring_find(b->s->keys, b->key_id, &maker, NULL) == 0) {
        *out = maker.limits;
        return 1;
    }
    if (keyring_widest(b->s->keys, b->tenant, out, &why) == 0)
        return 1;
    return why.code == TN_E_DENIED ? 0 : tn_fail(err, why.code, "%s", why.text);
}

/* In the name of whoever made it. */
static int resume(struct box *b, int64_t deadline, struct tn_error *err)
{
    struct caller owner = {0};
    struct tn_error why = {0};

    bool there = keyring_find(b->s->keys, b->key_id, &owner, NULL) == 0;
    int bound = there ? 1 : box_limits(b, &owner.limits, err);
    if (bound <= 0)
        return bound < 0 ? -1 : box_order(b, NULL, ORDER_RESUME, deadline, err);
    int result = box_order(b, &owner, ORDER_RESUME, deadline, &why);
    box_audit(b, there ? &owner : NULL, "sandbox.resume", result ? &why : NULL);
    if (result && err)
        *err = why;
    return result;
}

/* A paused one is woken by whoever uses it.  The time-out that paused it begins anew:
 * one that a request wakes in passing is not to run for ever. */
static int wake(struct box *b, bool in_time, int64_t deadline, struct tn_error *err)
{
    pthread_mutex_lock(&b->lock);
    double before = b->timeout, woken = wall_clock() + BOX_WOKEN_SECONDS;
    bool over = before > 0 && before <= wall_clock() + 1; /* also while it is ordered */
    if (over && in_time)
        not_running(b, err);
    else if (over)
        b->timeout = woken;
    pthread_mutex_unlock(&b->lock);
    if (over && in_time)
        return -1;
    int failed = resume(b, deadline, err);
    pthread_mutex_lock(&b->lock);
    if (failed && over && b->timeout == woken)
        b->timeout = before;
    pthread_mutex_unlock(&b->lock);
    return failed;
}

static int take_hand(struct box *b, bool in_time, char **address, char **key, int64_t deadline,
                     struct tn_error *err)
{
    if (box_await_known(b, deadline, err))
        return -1;
    pthread_mutex_lock(&b->lock);
    bool sleeps = b->goal == BOX_PAUSED || (b->goal == BOX_STOPPED && b->asleep);
    if (sleeps && b->s->options->resume_on_use) {
        pthread_mutex_unlock(&b->lock);
        if (wake(b, in_time, deadline, err))
            return -1;
        pthread_mutex_lock(&b->lock);
    }
    bool good = reachable(b);
    bool lost = b->state == BOX_ERROR && b->cause == CAUSE_ENGINE;
    if (good) {
        *address = tn_strdup(b->address);
        *key = tn_strdup(b->secret);
        note_use(b);
    } else {
        not_running(b, err);
    }
    pthread_mutex_unlock(&b->lock);
    if (lost)
        box_suspect(b); /* its backend may be back */
    if (good && tn_gated_is_lost(box_directory(b))) {
        int64_t soon = tn_deadline_in(KEEPER_SECONDS);
        box_check(b, soon < deadline ? soon : deadline);
    }
    return good ? 0 : -1;
}

int box_hand(struct box *b, char **address, char **key, int64_t deadline, struct tn_error *err)
{
    return take_hand(b, false, address, key, deadline, err);
}

int box_hand_in_time(struct box *b, char **address, char **key, int64_t deadline,
                     struct tn_error *err)
{
    return take_hand(b, true, address, key, deadline, err);
}

void box_suspect(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    if (b->known && !b->gone) {
        b->look = true;
        box_work(b);
    }
    pthread_mutex_unlock(&b->lock);
}

void box_check(struct box *b, int64_t deadline)
{
    box_suspect(b);
    pthread_mutex_lock(&b->lock);
    while ((b->look || b->working) && !b->gone && !box_sleep(b, deadline, NULL))
        ;
    pthread_mutex_unlock(&b->lock);
}

/* --- commands that go on ---------------------------------------------------------------------- */

bool box_is_quiet(struct box *b, double used)
{
    pthread_mutex_lock(&b->lock);
    bool quiet = b->quiet >= used;
    if (!quiet && b->known && !b->gone) {
        b->ask = true;
        box_work(b);
    }
    pthread_mutex_unlock(&b->lock);
    return quiet;
}

/* Whether one of those that the hand lists under that name runs.  A hand that does not answer, or
 * knows none, has none. */
static bool any_runs(const struct tn_hand_address *at, const char *target, const char *name)
{
    tn_autobuf struct tn_buf nothing = TN_BUF_INIT(0), answer = TN_BUF_INIT(SESSIONS_MAX);
    tn_autojson struct tn_json *tree = NULL;
    int64_t deadline = tn_deadline_in(SESSIONS_SECONDS);

    if (tn_hand_ask(at, "GET", target, &nothing, &answer, deadline, NULL) ||
        tn_json_parse(tn_buf_str(&answer), answer.len, &tree, NULL))
        return false;
    const struct tn_json *list = tn_json_get(tree, name);
    for (size_t i = 0; i < tn_json_count(list); i++)
        if (tn_json_bool(tn_json_get(tn_json_at(list, i), "running"), false))
            return true;
    return false;
}

/* Whether a command of an action runs: in one of its shells, or as a process.  Terminals are in use
 * while somebody looks at them. */
static bool command_runs(const struct tn_hand_address *at)
{
    return any_runs(at, "/v1/sessions", "sessions") ||
           any_runs(at, "/v1/processes?pty=no", "processes");
}

void box_ask_hand(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    bool runs = reachable(b);
    double used = b->used;
    tn_autofree char *address = tn_strdup_or_null(runs ? b->address : NULL);
    tn_autofree char *key = tn_strdup_or_null(runs ? b->secret : NULL);
    pthread_mutex_unlock(&b->lock);
    runs = runs && command_runs(&(struct tn_hand_address){.address = address, .key = key});
    pthread_mutex_lock(&b->lock);
    if (runs)
        note_use(b);
    else
        b->quiet = used;
    pthread_mutex_unlock(&b->lock);
}

/* --- its limits ------------------------------------------------------------------------------- */

char *box_reason(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    char *reason = tn_strdup_or_null(b->reason);
    pthread_mutex_unlock(&b->lock);
    return reason;
}

void box_check_limits(struct box *b, int64_t deadline)
{
    const struct tn_config *config = tn_runtime_host(b->s->rt)->config;
    const struct tn_backend *backend = tn_backend_find(config, b->runtime, NULL);

    if (backend && backend->abilities & (TN_CAN_LIMIT | TN_CAN_SECRETS)) /* or has a gate */
        box_check(b, deadline);
}

char *box_take_report(struct box *b, const char *known)
{
    pthread_mutex_lock(&b->lock);
    tn_autofree char *untold = tn_report_without(b->reason, b->reported);
    char *news = tn_report_without(untold, known);
    if (news)
        replace(&b->reported, b->reason);
    pthread_mutex_unlock(&b->lock);
    return news;
}

/* --- its sandbox ------------------------------------------------------------------------------ */

int box_dial(struct box *b, const char *address, const char *key, int port, int64_t deadline,
             struct tn_error *err)
{
    const struct tn_config *config = tn_runtime_host(b->s->rt)->config;
    const struct tn_backend *backend = tn_backend_find(config, b->runtime, err);
    tn_autosandbox struct tn_sandbox *sb = NULL;

    if (!backend)
        return -1;
    if (!backend->dial)
        return tn_hand_tunnel(address, key, port, deadline, err);
    sb = box_attach(b, err);
    return sb ? tn_sandbox_dial(sb, port, deadline, err) : -1;
}

int box_with_sandbox(struct box *b, box_use_fn fn, void *ctx, int64_t deadline,
                     struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = NULL;

    if (box_await_known(b, deadline, err))
        return -1;
    pthread_mutex_lock(&b->lock);
    bool there = b->made && !b->gone;
    note_use(b);
    if (!there)
        not_running(b, err);
    pthread_mutex_unlock(&b->lock);
    if (!there || !(sb = box_attach(b, err)))
        return -1;
    tn_autofree char *ref = tn_strdup_or_null(tn_sandbox_record(sb)->ref);
    int result = fn(sb, ctx, err);
    const char *now = tn_sandbox_record(sb)->ref;
    if (now && (!ref || strcmp(ref, now) != 0))
        box_check(b, deadline); /* its hand is another one */
    return result;
}

/* How long one rests that took a second to sample. */
#define SAMPLE_REST 3

static bool same_usage(const struct tn_usage *a, const struct tn_usage *b)
{
    return a->memory == b->memory && a->memory_peak == b->memory_peak && a->disk == b->disk &&
           a->cpu_seconds == b->cpu_seconds && a->processes == b->processes && a->cpus == b->cpus;
}

/* Whether it went well or not: who took long to answer is not asked again at once. */
static void rest(struct box *b, int64_t began)
{
    int64_t now = tn_now();

    pthread_mutex_lock(&b->lock);
    b->sample_due = now + SAMPLE_REST * (now - began);
    pthread_mutex_unlock(&b->lock);
}

int box_sample(struct box *b, struct tn_error *err)
{
    struct tn_usage usage;
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, err);
    int64_t began = tn_now();

    if (!sb || tn_sandbox_usage(sb, &usage, err)) {
        rest(b, began);
        return -1;
    }
    if (usage.disk >= 0)
        usage.disk += volume_measure(b->s, b->tenant, &b->spec, &usage.disk_partial);
    rest(b, began);
    pthread_mutex_lock(&b->lock);
    b->disk_counted = usage.disk;
    if (usage.disk_partial && b->usage.disk > usage.disk)
        usage.disk = b->usage.disk;
    bool news = !same_usage(&usage, &b->usage);
    b->usage = usage;
    if (!b->samples)
        b->samples = tn_calloc(BOX_SAMPLES, sizeof *b->samples);
    b->samples[b->sample_count++ % BOX_SAMPLES] =
        (struct box_sample){.time = wall_clock(), .usage = usage};
    if (news)
        box_bump(b);
    pthread_mutex_unlock(&b->lock);
    if (news)
        box_tell(b);
    return 0;
}

double box_disk_known(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    bool unknown = b->usage.disk < 0;
    pthread_mutex_unlock(&b->lock);
    if ((unknown || box_sample_due(b)) && box_tells_disk(b))
        box_sample(b, NULL);
    pthread_mutex_lock(&b->lock);
    double bytes = fmax(0, (double)b->usage.disk);
    pthread_mutex_unlock(&b->lock);
    return bytes;
}

static int count_one(const struct tn_snapshot *snapshot, void *ctx)
{
    int64_t *count = ctx;

    ++*count;
    return 0;
}

/* Under the lock of births.  So many more are being taken; those that are have rows already,
 * perhaps, and count twice only while several of one sandbox are. */
static void count_snapshots(struct box *b, int more)
{
    int64_t rows = 0;

    bool told =
        tn_store_snapshots(tn_runtime_store(b->s->rt), b->names.id, count_one, &rows, NULL) == 0;
    pthread_mutex_lock(&b->lock);
    b->taking += more;
    b->snapshots = told ? rows + b->taking : b->snapshots + (more > 0);
    pthread_mutex_unlock(&b->lock);
}

void box_count_snapshots(struct box *b)
{
    pthread_mutex_lock(&b->all->births);
    count_snapshots(b, 0);
    pthread_mutex_unlock(&b->all->births);
}

/* A snapshot of a claim is as large as that, whatever was written. */
static int admit_claim(struct box *b, const struct key_limits *limits, int64_t volumes,
                       struct tn_error *err)
{
    double others = (double)blobs_charge(b->s, b->tenant) + (double)volumes;
    double used = (double)box_disk_taken(b->s, b->tenant) + others;

    return admit_disk(limits, used, (double)b->claim, err)
               ? tn_error_context(err, "a snapshot is as large as its claim")
               : 0;
}

/* Counting and taking are one step, as where boxes are born. */
static int hold_snapshot(struct box *b, const struct key_limits *limits, struct tn_error *err)
{
    bool counts = b->claim > 0 && limits->max_disk > 0;
    int64_t volumes = counts ? volume_charge(b->s, b->tenant) : 0;

    pthread_mutex_lock(&b->all->births);
    int result = counts ? admit_claim(b, limits, volumes, err) : 0;
    if (!result)
        count_snapshots(b, 1);
    pthread_mutex_unlock(&b->all->births);
    return result;
}

int box_snapshot_begin(struct box *b, const struct key_limits *limits, double *bytes,
                       struct tn_error *err)
{
    double known = box_disk_known(b);

    pthread_mutex_lock(&b->lock);
    bool full = b->disk > 0 && known + b->copies > (double)b->disk;
    if (!full)
        b->copies += known;
    pthread_mutex_unlock(&b->lock);
    if (full)
        return tn_fail(err, TN_E_QUOTA,
                       "sandbox %s has written %.0f MiB, with its snapshots, and may write %.0f "
                       "MiB (disk): delete files or snapshots first",
                       b->names.id, known / MIB, (double)b->disk / MIB);
    *bytes = known;
    if (!admit_copy(b->s, known, err)) {
        if (!hold_snapshot(b, limits, err))
            return 0;
        admit_copied(b->s, known);
    }
    pthread_mutex_lock(&b->lock);
    b->copies -= known;
    pthread_mutex_unlock(&b->lock);
    return -1;
}

void box_snapshot_end(struct box *b, double bytes)
{
    admit_copied(b->s, bytes);
    pthread_mutex_lock(&b->all->births);
    count_snapshots(b, -1);
    pthread_mutex_unlock(&b->all->births);
    if (box_tells_disk(b))
        box_sample(b, NULL);
    pthread_mutex_lock(&b->lock);
    b->copies -= bytes;
    pthread_mutex_unlock(&b->lock);
}

bool box_sample_due(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    bool due = tn_now() >= b->sample_due;
    pthread_mutex_unlock(&b->lock);
    return due;
}

void box_disk_look(struct box *b, struct box_disk *out)
{
    pthread_mutex_lock(&b->lock);
    out->counted = b->disk_counted;
    out->partial = b->usage.disk_partial;
    out->grown = b->usage.disk - (b->disk_seen > 0 ? b->disk_seen : 0);
    if (!out->partial)
        b->disk_seen = b->usage.disk;
    b->disk_looked = tn_now();
    pthread_mutex_unlock(&b->lock);
}

bool box_disk_looked(struct box *b, int64_t since)
{
    pthread_mutex_lock(&b->lock);
    bool yes = b->disk_looked >= since && !b->usage.disk_partial;
    pthread_mutex_unlock(&b->lock);
    return yes;
}

int64_t box_disk_limit(const struct box *b)
{
    return b->disk;
}

/* Wakes of one that was put to rest for its disk, until it is over. */
#define CLEANINGS_MAX 5

/* Under its lock. */
static bool is_over(const struct box *b)
{
    return b->disk > 0 && b->usage.disk > b->disk;
}

void box_recount(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    bool again = b->state != BOX_RUNNING && b->cleanings > 0 && is_over(b) && !b->gone;
    pthread_mutex_unlock(&b->lock);
    if (again && box_sample_due(b))
        box_sample(b, NULL);
}

int box_may_clean(struct box *b, struct tn_error *err)
{
    int result = 0;

    pthread_mutex_lock(&b->lock);
    bool over = is_over(b);
    if (!over && !b->notice) {
        b->cleanings = 0;
    } else if (b->cleanings < CLEANINGS_MAX) {
        b->cleanings++;
        b->noticed = tn_now(); /* the time to clean up begins */
    } else if (over) {
        result =
            tn_fail(err, TN_E_QUOTA,
                    "sandbox %s has written %.0f MiB and may write %.0f MiB (disk); it was "
                    "woken %d times to clean up: delete snapshots of it, or the sandbox",
                    b->names.id, (double)b->usage.disk / MIB, (double)b->disk / MIB, CLEANINGS_MAX);
    } else {
        result = tn_fail(err, TN_E_QUOTA, "sandbox %s: %s; it was woken %d times to clean up",
                         b->names.id, b->notice, CLEANINGS_MAX);
    }
    pthread_mutex_unlock(&b->lock);
    return result;
}

void box_set_notice(struct box *b, const char *text)
{
    pthread_mutex_lock(&b->lock);
    if (!text)
        b->cleanings = 0;
    bool news = text ? !b->notice || strcmp(text, b->notice) != 0 : b->notice != NULL;
    b->noticed = tn_now();
    if (news) {
        replace(&b->notice, text);
        box_bump(b);
    }
    pthread_mutex_unlock(&b->lock);
    if (news)
        box_tell(b);
}

double box_notice_age(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    double age = b->notice ? (double)(tn_now() - b->noticed) / 1e9 : INFINITY;
    pthread_mutex_unlock(&b->lock);
    return age;
}

size_t box_samples(struct box *b, struct box_sample *out, size_t max)
{
    steward_watch(b->s->steward, b);
    pthread_mutex_lock(&b->lock);
    size_t count = b->sample_count < BOX_SAMPLES ? b->sample_count : BOX_SAMPLES;
    if (count > max)
        count = max;
    for (size_t i = 0; i < count; i++)
        out[i] = b->samples[(b->sample_count - count + i) % BOX_SAMPLES];
    pthread_mutex_unlock(&b->lock);
    return count;
}
