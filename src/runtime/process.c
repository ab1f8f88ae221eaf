#include "runtime/process.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/fs.h"
#include "runtime/owner.h"

/* What the hand may take to end in order before it is killed. */
#define STOP_SECONDS 6.0
#define GONE_SECONDS 3.0

#define LAST_WORDS 300

int tn_process_open(const struct tn_process_kind *kind, const struct tn_host *host, void **engine,
                    struct tn_error *err)
{
    struct tn_process_engine *e = tn_calloc(1, sizeof *e);

    e->kind = kind;
    e->host = host;
    pthread_mutex_init(&e->lock, NULL);
    *engine = e;
    return 0;
}

void tn_process_close(void *engine)
{
    struct tn_process_engine *e = engine;

    while (e && e->children)
        tn_process_forget(e, e->children->id);
    if (e)
        pthread_mutex_destroy(&e->lock);
    free(e);
}

/* --- what is noted ------------------------------------------------------------------------- */

void tn_process_ref_done(struct tn_process_ref *ref)
{
    free(TN_TAKE_PTR(ref->workspace));
    free(TN_TAKE_PTR(ref->address));
}

void tn_process_ref_read(const struct tn_subject *subject, struct tn_process_ref *ref)
{
    tn_autojson struct tn_json *json = NULL;

    *ref = (struct tn_process_ref){0};
    if (!subject->ref || tn_json_parse(subject->ref, strlen(subject->ref), &json, NULL) < 0)
        return;
    ref->workspace = tn_strdup_or_null(tn_json_get_str(json, "workspace", NULL));
    if (strcmp(tn_json_get_str(json, "boot", ""), tn_boot_id()))
        return;
    ref->hand.pid = (pid_t)tn_json_int(tn_json_get(json, "pid"), 0);
    ref->hand.start = (uint64_t)tn_json_int(tn_json_get(json, "start"), 0);
    ref->address = tn_strdup_or_null(tn_json_get_str(json, "address", NULL));
}

char *tn_process_ref_write(const struct tn_process_ref *ref)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_jw_kint(&w, "pid", ref->hand.pid);
    tn_jw_kint(&w, "start", (int64_t)ref->hand.start);
    tn_jw_kstr(&w, "boot", tn_boot_id());
    tn_jw_kstr(&w, "workspace", ref->workspace);
    tn_jw_kstr(&w, "address", ref->address);
    tn_jw_object_end(&w);
    return tn_buf_take(&text);
}

/* --- how it is ----------------------------------------------------------------------------- */

static bool exists(const char *directory, const char *name)
{
    tn_autofree char *path = tn_asprintf("%s/%s", directory, name);

    return access(path, F_OK) == 0;
}

/* The last line that the hand printed; "" when it said nothing. */
static char *last_words(const char *directory)
{
    tn_autofd int fd = tn_fs_open_shared(directory, TN_PROCESS_LOG, O_RDONLY, 0, NULL);
    char text[LAST_WORDS + 1];
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t n =
        size > 0 ? pread(fd, text, LAST_WORDS, size > LAST_WORDS ? size - LAST_WORDS : 0) : 0;

    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    const char *line = strrchr(text, '\n');
    return tn_strdup(line ? line + 1 : text);
}

/* Why there is no hand although nobody stopped it. */
static char *why_it_ended(const struct tn_subject *subject)
{
    if (subject->owner.pid && !tn_owner_lives(subject->owner, NULL))
        return tn_asprintf("it ended with its owner, process %d", (int)subject->owner.pid);
    tn_autofree char *words = last_words(subject->directory);
    return tn_asprintf("the hand has ended by itself%s%s", *words ? "; its last words: " : "",
                       words);
}

static void set(char **to, char *value)
{
    free(*to);
    *to = value;
}

static enum tn_status status_of(const struct tn_subject *subject, const struct tn_process_ref *ref)
{
    switch (ref->hand.pid ? tn_proc_state(ref->hand.pid, ref->hand.start) : 0) {
    case 0:
    case 'Z':
    case 'X':
        break;
    case 'T':
        return TN_STATUS_PAUSED;
    default:
        return TN_STATUS_RUNNING;
    }
    if (exists(subject->directory, "stopped"))
        return TN_STATUS_STOPPED;
    return exists(subject->directory, TN_PROCESS_LOG) ? TN_STATUS_ERROR : TN_STATUS_MISSING;
}

static void describe(const struct tn_process_engine *e, const struct tn_subject *subject,
                     const struct tn_process_ref *ref, struct tn_place *place)
{
    place->status = status_of(subject, ref);
    bool alive = place->status == TN_STATUS_RUNNING || place->status == TN_STATUS_PAUSED;
    set(&place->address, alive ? tn_strdup_or_null(ref->address) : NULL);
    if (ref->workspace)
        set(&place->ref, tn_process_ref_write(ref));
    if (place->status == TN_STATUS_ERROR)
        set(&place->reason, why_it_ended(subject));
    set(&place->isolation, tn_strdup(e->kind->isolation));
}

int tn_process_inspect(void *engine, const struct tn_subject *subject, struct tn_place *place,
                       int64_t deadline, struct tn_error *err)
{
    tn_autoprocessref struct tn_process_ref ref;

    tn_process_ref_read(subject, &ref);
    describe(engine, subject, &ref, place);
    return 0;
}

/* --- how it shall be ----------------------------------------------------------------------- */

static int start(struct tn_process_engine *e, const struct tn_subject *subject,
                 struct tn_process_ref *ref, int64_t deadline, struct tn_error *err)
{
    if (!ref->workspace)
        ref->workspace = e->kind->workspace(e->host, subject, err);
    if (!ref->workspace)
        return -1;
    return tn_process_start(e, subject, ref, deadline, err);
}

int tn_process_create(void *engine, const struct tn_subject *subject, struct tn_place *place,
                      int64_t deadline, struct tn_error *err)
{
    struct tn_process_engine *e = engine;
    tn_autoprocessref struct tn_process_ref ref = {0};

    if (tn_process_check(e->kind->name, subject->spec, err) < 0 ||
        start(e, subject, &ref, deadline, err) < 0)
        return -1;
    describe(e, subject, &ref, place);
    return 0;
}

static int to_running(struct tn_process_engine *e, const struct tn_subject *subject,
                      struct tn_process_ref *ref, int64_t deadline, struct tn_error *err)
{
    switch (status_of(subject, ref)) {
    case TN_STATUS_RUNNING:
        return 0;
    case TN_STATUS_PAUSED:
        return tn_proc_continue_tree(ref->hand.pid, err);
    case TN_STATUS_STARTING:
    case TN_STATUS_STOPPED:
    case TN_STATUS_SUSPENDED:
    case TN_STATUS_ERROR:
    case TN_STATUS_MISSING:
        break;
    }
    /* What a hand that was killed left running would be a second sandbox of the same name. */
    if (tn_process_end(e, subject, ref, 0, deadline, err) < 0)
        return -1;
    return start(e, subject, ref, deadline, err);
}

static int to_paused(struct tn_process_engine *e, const struct tn_subject *subject,
                     struct tn_process_ref *ref, int64_t deadline, struct tn_error *err)
{
    if (status_of(subject, ref) == TN_STATUS_PAUSED)
        return 0;
    if (to_running(e, subject, ref, deadline, err) < 0)
        return -1;
    return tn_proc_stop_tree(ref->hand.pid, deadline, err);
}

static int to_stopped(struct tn_process_engine *e, const struct tn_subject *subject,
                      struct tn_process_ref *ref, int64_t deadline, struct tn_error *err)
{
    tn_autofd int note =
        tn_fs_open_shared(subject->directory, "stopped", O_WRONLY | O_CREAT, 0600, err);

    if (note < 0)
        return -1;
    return tn_process_end(e, subject, ref, tn_deadline_in(STOP_SECONDS), deadline, err);
}

static int to_suspended(struct tn_process_engine *e, const struct tn_subject *subject,
                        struct tn_process_ref *ref, int64_t deadline, struct tn_error *err)
{
    return tn_fail(err, TN_E_UNSUPPORTED, "the runtime %s cannot suspend to disk", e->kind->name);
}

/* The directory, with all that is in it, is the caller's to remove. */
static int to_gone(struct tn_process_engine *e, const struct tn_subject *subject,
                   struct tn_process_ref *ref, int64_t deadline, struct tn_error *err)
{
    static const char *const ours[] = {"hand.sock", TN_PROCESS_LOG, "stopped"};

    if (tn_process_end(e, subject, ref, tn_deadline_in(GONE_SECONDS), deadline, err) < 0)
        return -1;
    for (size_t i = 0; i < TN_COUNT(ours); i++) {
        tn_autofree char *path = tn_asprintf("%s/%s", subject->directory, ours[i]);
        unlink(path);
    }
    return 0;
}

int tn_process_drive(void *engine, const struct tn_subject *subject, enum tn_goal goal,
                     struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    static int (*const ways[])(struct tn_process_engine *, const struct tn_subject *,
                               struct tn_process_ref *, int64_t, struct tn_error *) = {
        [TN_GOAL_RUNNING] = to_running, [TN_GOAL_PAUSED] = to_paused,
        [TN_GOAL_STOPPED] = to_stopped, [TN_GOAL_SUSPENDED] = to_suspended,
        [TN_GOAL_GONE] = to_gone,
    };
    struct tn_process_engine *e = engine;
    tn_autoprocessref struct tn_process_ref ref;

    tn_process_ref_read(subject, &ref);
    if (ways[goal](e, subject, &ref, deadline, err) < 0)
        return -1;
    describe(e, subject, &ref, place);
    return 0;
}

/* --- all of them --------------------------------------------------------------------------- */

struct listing {
    char **seen;
    size_t count;
};

static int report(const struct tn_proc *proc, const char *directory, void *ctx)
{
    struct listing *l = ctx;
    const char *id = strrchr(directory, '/') + 1;

    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->seen[i], id) == 0)
            return 0;
    l->seen = tn_realloc(l->seen, (l->count + 1) * sizeof *l->seen);
    l->seen[l->count++] = tn_strdup(id);
    return 0;
}

int tn_process_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline,
                    struct tn_error *err)
{
    const struct tn_process_engine *e = engine;
    struct listing l = {0};
    int result = tn_process_marked(e->host->state, NULL, report, &l, err);

    /* Only now: whoever is told may end what it is told of. */
    for (size_t i = 0; i < l.count; i++) {
        if (result == 0)
            result = found(l.seen[i], ctx);
        free(l.seen[i]);
    }
    free(l.seen);
    return result;
}

void tn_process_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx)
{
    fn(&(struct tn_symptom){.what = "tendon-hand",
                            .good = host->hand,
                            .needed = true,
                            .detail =
                                host->hand ? host->hand : "not found: build it or set tendon.hand"},
       ctx);
}
