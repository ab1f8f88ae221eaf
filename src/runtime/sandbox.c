#include "runtime/sandbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/proc.h"
#include "runtime/ledger.h"
#include "runtime/owner.h"
#include "runtime/programs.h"
#include "runtime/registry.h"
#include "runtime/runtime.h"

/* What a failed start may take to be cleared away, whatever the caller's deadline was. */
#define CLEAR_SECONDS 15.0
/* What a claim waits for its host name at most. */
#define NAME_SECONDS 1.0

#define MAX_SPEC (1u << 20)

/* --- handles ------------------------------------------------------------------------------- */

static char *directory_of(const struct tn_runtime *rt, const char *id)
{
    return tn_asprintf("%s/sandbox/%s", rt->state, id);
}

static int read_spec(const char *text, struct tn_spec *spec, struct tn_error *err)
{
    tn_autojson struct tn_json *json = NULL;

    tn_spec_init(spec);
    if (tn_json_parse(text, strlen(text), &json, err) || tn_spec_from_json(json, spec, err))
        return tn_error_context(err, "the store: spec");
    return 0;
}

struct tn_sandbox *tn_sandbox_from_record(struct tn_runtime *rt, struct tn_record *record,
                                          struct tn_error *err)
{
    struct tn_sandbox *sb = tn_calloc(1, sizeof *sb);

    sb->rt = rt;
    sb->use_mark = -1;
    sb->ask = rt->ask;
    sb->ask_ctx = rt->ask_ctx;
    sb->record = *record;
    *record = (struct tn_record){0};
    sb->id = tn_strdup(sb->record.id);
    sb->directory = directory_of(rt, sb->id);
    if (read_spec(sb->record.spec, &sb->spec, err) ||
        tn_runtime_engine(rt, sb->record.runtime, &sb->backend, &sb->engine, err)) {
        tn_error_context(err, "sandbox %s", sb->record.id);
        tn_sandbox_free(sb);
        return NULL;
    }
    return sb;
}

struct tn_sandbox *tn_sandbox_attach(struct tn_runtime *rt, const char *which, struct tn_error *err)
{
    struct tn_record record = {0};

    if (tn_store_find(rt->store, which, &record, err))
        return NULL;
    return tn_sandbox_from_record(rt, &record, err);
}

void tn_sandbox_free(struct tn_sandbox *sb)
{
    if (!sb)
        return;
    if (sb->uses) {
        sb->uses = 1;
        tn_sandbox_rest(sb);
    }
    tn_toolbox_free(sb->toolbox);
    tn_hand_client_free(sb->client);
    tn_ledger_free(sb->ledger);
    tn_record_done(&sb->record);
    tn_spec_done(&sb->spec);
    free(sb->directory);
    free(sb->id);
    free(sb);
}

const struct tn_record *tn_sandbox_record(const struct tn_sandbox *sb)
{
    return &sb->record;
}

const struct tn_spec *tn_sandbox_spec(const struct tn_sandbox *sb)
{
    return &sb->spec;
}

const struct tn_backend *tn_sandbox_backend(const struct tn_sandbox *sb)
{
    return sb->backend;
}

const char *tn_sandbox_directory(const struct tn_sandbox *sb)
{
    return sb->directory;
}

struct tn_subject tn_sandbox_subject(const struct tn_sandbox *sb)
{
    const struct tn_record *r = &sb->record;

    return (struct tn_subject){.id = r->id,
                               .key = r->key,
                               .spec = &sb->spec,
                               .directory = sb->directory,
                               .ref = r->ref,
                               .owner = sb->spec.keep ? (struct tn_owner){0} : r->owner};
}

static void set(char **to, const char *value)
{
    char *copy = tn_strdup_or_null(value);

    free(*to);
    *to = copy;
}

static void set_place(struct tn_record *r, const struct tn_place *place)
{
    r->status = place->status;
    r->blame = place->blame;
    set(&r->address, place->address);
    set(&r->reason, place->reason);
    if (place->ref)
        set(&r->ref, place->ref);
    if (place->isolation)
        set(&r->isolation, place->isolation);
    if (place->key)
        set(&r->key, place->key);
}

static bool same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* Whether that would change the record. */
static bool differs(const struct tn_record *r, const struct tn_place *place)
{
    return r->status != place->status || !same(r->address, place->address) ||
           !same(r->reason, place->reason) || (place->ref && !same(r->ref, place->ref)) ||
           (place->isolation && !same(r->isolation, place->isolation)) ||
           (place->key && !same(r->key, place->key));
}

int tn_sandbox_note(struct tn_sandbox *sb, const struct tn_place *place, struct tn_error *err)
{
    set_place(&sb->record, place);
    return tn_store_place(sb->rt->store, sb->record.id, place, err);
}

static void tell(const struct tn_sandbox *sb, enum tn_runtime_status status)
{
    tn_host_tell(&sb->rt->host, sb->id, status, "");
}

/* --- making -------------------------------------------------------------------------------- */

int tn_record_make(const struct tn_backend *backend, const struct tn_spec *spec,
                   struct tn_record *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MAX_SPEC);
    struct tn_jw w = tn_jw(&text);
    char id[11], key[33];
    struct timespec now;

    if (tn_new_id(id, err) || tn_new_key(key, err))
        return -1;
    tn_jw_object(&w);
    tn_spec_to_json(spec, &w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the spec is larger than %u MiB", MAX_SPEC >> 20);
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct tn_record){
        .id = tn_strdup(id),
        .name = tn_strdup_or_null(spec->name),
        .runtime = tn_strdup(backend->name),
        .spec = tn_buf_take(&text),
        .key = tn_strdup(key),
        .status = TN_STATUS_STARTING,
        .owner = tn_owner_self(),
        .boot = tn_strdup(tn_boot_id()),
        .created = (double)now.tv_sec + (double)now.tv_nsec / 1e9,
        .lease = spec->lease.set ? spec->lease.value : 0,
    };
    out->used = out->created;
    return 0;
}

void tn_record_rename(struct tn_record *r, const char *id, const char *key)
{
    set(&r->id, id);
    set(&r->key, key);
}

/* What is here of it. */
static int erase_record(struct tn_runtime *rt, const char *id, struct tn_error *err)
{
    tn_autofree char *above = tn_asprintf("%s/sandbox", rt->state);
    tn_autofd int parent = tn_fs_open(TN_FS_ANYWHERE, above, O_RDONLY | O_DIRECTORY, 0, err);

    if (parent < 0 || tn_fs_remove_tree(parent, id, 0, err))
        return -1;
    return tn_store_remove(rt->store, id, err);
}

int tn_sandbox_abandon(struct tn_runtime *rt, const struct tn_record *record, struct tn_error *err)
{
    const struct tn_backend *backend = tn_backend_find(rt->host.config, record->runtime, NULL);

    if (backend && backend->process)
        return tn_fail(err, TN_E_UNSUPPORTED, "%s runs on this machine", record->id);
    return erase_record(rt, record->id, err);
}

int tn_sandbox_erase(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);
    tn_autoplace struct tn_place place = {0};

    if (sb->backend->drive(sb->engine, &subject, TN_GOAL_GONE, &place, deadline, err))
        return tn_error_context(err, "sandbox %s", sb->record.id);
    if (erase_record(sb->rt, sb->record.id, err))
        return -1;
    sb->record.status = TN_STATUS_MISSING;
    tell(sb, TN_RUNTIME_STOPPED);
    return 0;
}

/* Once it stands, a sandbox to be kept is nobody's. */
static int disown(struct tn_sandbox *sb, struct tn_error *err)
{
    if (!sb->spec.keep)
        return 0;
    sb->record.owner = (struct tn_owner){0};
    return tn_store_own(sb->rt->store, sb->record.id, sb->record.owner, err);
}

struct tn_sandbox *tn_sandbox_bring_up(struct tn_runtime *rt, struct tn_record *record,
                                       tn_make_fn make, void *ctx, int64_t deadline,
                                       struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = tn_sandbox_from_record(rt, record, err);
    tn_autofd int lock = sb ? tn_sandbox_lock(rt->state, sb->record.id, deadline, err) : -1;
    tn_autoplace struct tn_place place = {0};
    struct tn_error why = {0};

    if (lock < 0 || tn_store_add(rt->store, &sb->record, err))
        return NULL;
    struct tn_subject subject = tn_sandbox_subject(sb);
    tell(sb, TN_RUNTIME_STARTING_RUNTIME);
    if (mkdir(sb->directory, 0700) && !(sb->record.found && errno == EEXIST))
        tn_fail_errno(&why, errno, "%s", sb->directory);
    else if (!make(sb, &subject, &place, deadline, ctx, &why) &&
             !tn_sandbox_note(sb, &place, &why) && !disown(sb, &why)) {
        tell(sb, TN_RUNTIME_RUNTIME_STARTED);
        return TN_TAKE_PTR(sb);
    }

    /* What could not be cleared keeps its row, and gc tries again. */
    if (sb->record.found)
        tn_store_remove(rt->store, sb->id, NULL);
    else
        tn_sandbox_erase(sb, tn_deadline_in(CLEAR_SECONDS), NULL);
    if (err)
        *err = why;
    if (sb->record.found)
        tn_error_context(err, "it was there under that name (tendon gc removes it)");
    tn_error_context(err, "%s", sb->backend->name);
    return NULL;
}

static int make_fresh(struct tn_sandbox *sb, const struct tn_subject *subject,
                      struct tn_place *place, int64_t deadline, void *ctx, struct tn_error *err)
{
    const struct tn_sandbox_how *how = ctx;
    struct tn_subject wanted = *subject;

    wanted.cancel = how ? how->cancel : 0;
    wanted.anonymous = how && how->anonymous;
    int r = sb->backend->create(sb->engine, &wanted, place, deadline, err);
    if (r && how && how->blame)
        *how->blame = place->blame;
    return r;
}

/* --- what another state of the store knew --------------------------------------------------- */

struct lost {
    struct tn_runtime *rt;
    struct tn_record *record;
};

static int note_lost(const char *id, void *ctx)
{
    const struct lost *l = ctx;

    if (tn_sandbox_is_lost(l->rt, id) && l->record->found++ == 0)
        set(&l->record->id, id);
    return 0;
}

/* Whether it must be made with what it has: nobody could tell that one which is there has the
 * same. */
static bool has_own_walls(const struct tn_spec *spec)
{
    return spec->network == TN_NETWORK_NONE || spec->network == TN_NETWORK_ALLOW ||
           spec->allow.count || spec->volumes.count;
}

/* The record becomes that of a sandbox of its name that is there and has no row, if there is one:
 * the row takes its id, so that no two can have it. */
static int find_lost(struct tn_runtime *rt, struct tn_record *record, const struct tn_spec *spec,
                     int64_t deadline, struct tn_error *err)
{
    struct lost l = {rt, record};
    const struct tn_backend *backend;
    void *engine;

    /* One that would end with this process is not what was meant. */
    if (!record->name || !spec->keep || has_own_walls(spec))
        return 0;
    if (tn_runtime_engine(rt, record->runtime, &backend, &engine, err))
        return -1;
    if (backend->lost && backend->lost(engine, record->name, note_lost, &l, deadline, err))
        return tn_error_context(err, "%s", backend->name);
    /* Its files are older than this start: should that be interrupted, they stay. */
    if (record->found)
        record->owner = (struct tn_owner){0};
    return 0;
}

/* The key is new, so the hand is, too. */
static int make_found(struct tn_sandbox *sb, const struct tn_subject *subject,
                      struct tn_place *place, int64_t deadline, void *ctx, struct tn_error *err)
{
    struct tn_error why = {0};

    if (sb->backend->drive(sb->engine, subject, TN_GOAL_RUNNING, place, deadline, &why) == 0)
        return 0;
    tn_autoplace struct tn_place now = {0};
    if (why.code == TN_E_NOT_FOUND &&
        sb->backend->inspect(sb->engine, subject, &now, deadline, NULL) == 0 &&
        now.status == TN_STATUS_MISSING) { /* it went meanwhile */
        sb->record.found = 0;
        return make_fresh(sb, subject, place, deadline, ctx, err);
    }
    if (err)
        *err = why;
    return -1;
}

/* --- warm ones ------------------------------------------------------------------------------ */

/* Whether the process that was seen ready when the row became a warm one still lives.  False where
 * the backend cannot tell so quickly. */
static bool lives(struct tn_sandbox *sb)
{
    struct tn_proc process = tn_sandbox_process(sb);

    return sb->record.address && process.pid > 0 && tn_proc_is_well(&process);
}

/* Its first use talks to the hand; here only the dead must be told from the living.
 * Asked first whether it runs at all: that is quicker than waiting for an answer of the dead. */
static bool usable(struct tn_sandbox *sb, int64_t deadline)
{
    if (lives(sb)) {
        tn_sandbox_trust_hand(sb);
        return true;
    }
    return !tn_sandbox_inspect(sb, NULL, deadline, NULL) &&
           sb->record.status == TN_STATUS_RUNNING && tn_sandbox_client(sb, deadline, NULL);
}

/* Under its lock. */
static int take(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err)
{
    int more = sb->backend->claim && !sb->record.pool;

    while (more > 0) {
        struct tn_subject subject = tn_sandbox_subject(sb);
        tn_autofree char *ref = NULL;
        more = sb->backend->claim(sb->engine, &subject, &ref, deadline, err);
        if (ref && tn_store_ref(sb->rt->store, sb->record.id, ref, err))
            return -1;
        if (ref)
            set(&sb->record.ref, ref);
    }
    return more;
}

int tn_sandbox_take(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err)
{
    if (!sb->backend->claim)
        return 0;
    tn_autofd int lock = tn_sandbox_hold(sb, deadline, err);
    return lock < 0 ? -1 : take(sb, deadline, err);
}

void tn_sandbox_take_name(struct tn_sandbox *sb)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    /* It serves as well under another name: no reason not to hand it out. */
    if (sb->spec.name && sb->backend->rename)
        sb->backend->rename(sb->engine, &subject, tn_deadline_in(NAME_SECONDS), NULL);
}

/* A warm one, verified; NULL when there is none, or with *err when none may be claimed.  The record
 * says what it becomes. */
static struct tn_sandbox *claim(struct tn_runtime *rt, const struct tn_record *as,
                                const struct tn_spec *spec, int64_t deadline, struct tn_error *err)
{
    char digest[17];

    tn_spec_digest(spec, digest);
    /* A service counts what it hands out: those that it keeps are its clients'. */
    if (tn_store_is_served(rt->store, as->runtime, digest, NULL) != 0)
        return NULL;
    for (int tries = 0; tries < TN_WARM_TRIES && err->code != TN_E_DENIED; tries++) {
        struct tn_record record = {0};
        *err = (struct tn_error){0};
        if (tn_store_claim(rt->store, digest, as, &record, NULL) != 1)
            return NULL;
        struct tn_sandbox *sb = tn_sandbox_from_record(rt, &record, NULL);
        if (sb && !tn_sandbox_take(sb, deadline, err) && usable(sb, deadline) &&
            !disown(sb, NULL)) {
            tn_sandbox_take_name(sb);
            return sb;
        }
        if (sb)
            tn_sandbox_drive(sb, TN_GOAL_GONE, tn_deadline_in(CLEAR_SECONDS), NULL);
        tn_sandbox_free(sb);
    }
    return NULL;
}

static const char *runtime_name(const struct tn_runtime *rt, const struct tn_spec *spec)
{
    const struct tn_config *c = rt->host.config;

    return spec->runtime ? spec->runtime : c->tendon.runtime ? c->tendon.runtime : "jail";
}

void tn_sandbox_expect(struct tn_runtime *rt, const struct tn_spec *spec)
{
    const char *name = runtime_name(rt, spec);
    const struct tn_backend *backend = tn_backend_find(rt->host.config, name, NULL);
    void *engine;

    if (backend && backend->expect && tn_runtime_engine(rt, name, &backend, &engine, NULL) == 0)
        backend->expect(engine);
}

int tn_sandbox_check_walls(const struct tn_runtime *rt, const struct tn_backend *backend,
                           const struct tn_spec *spec, struct tn_error *err)
{
    const char *wanted = tn_config_isolation(rt->host.config, spec);
    bool kata = strcmp(wanted, "kata") == 0;

    if (strcmp(wanted, "native") == 0 || backend->abilities & (kata ? TN_CAN_KATA : TN_CAN_GVISOR))
        return 0;
    return tn_fail(err, TN_E_UNSUPPORTED, "isolation %s: %s cannot give it; %s can", wanted,
                   backend->name, kata ? "kubernetes" : "jail, docker, podman and kubernetes");
}

int tn_sandbox_check_isolation(const struct tn_runtime *rt, const struct tn_backend *backend,
                               const struct tn_spec *spec, struct tn_error *err)
{
    const char *demanded = rt->host.config->tendon.isolation;

    if (spec->isolation && tn_isolation_weaker(spec->isolation, demanded))
        return tn_fail(err, TN_E_DENIED,
                       "isolation %s: the configuration demands %s (tendon.isolation)",
                       spec->isolation, demanded);
    return tn_sandbox_check_walls(rt, backend, spec, err);
}

static int check_secrets(const struct tn_backend *backend, const struct tn_spec *spec,
                         struct tn_error *err)
{
    return !spec->secrets.count || backend->abilities & TN_CAN_SECRETS
               ? 0
               : tn_fail(err, TN_E_UNSUPPORTED,
                         "secrets: %s cannot put them in; jail, docker, podman and kubernetes can",
                         backend->name);
}

int tn_sandbox_check(struct tn_runtime *rt, const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_backend *backend =
        tn_spec_check(spec, err) ? NULL
                                 : tn_backend_find(rt->host.config, runtime_name(rt, spec), err);

    if (!backend || tn_sandbox_check_isolation(rt, backend, spec, err) ||
        check_secrets(backend, spec, err))
        return -1;
    if (backend->check && backend->check(&rt->host, spec, err))
        return tn_error_context(err, "%s", backend->name);
    return 0;
}

/* What every creation begins with: the record of a sandbox that can be made here. */
static int prepare(struct tn_runtime *rt, const struct tn_spec *spec, struct tn_record *record,
                   struct tn_error *err)
{
    const struct tn_backend *backend;
    void *engine;

    if (tn_sandbox_check(rt, spec, err) ||
        tn_runtime_engine(rt, runtime_name(rt, spec), &backend, &engine, err))
        return -1;
    if (!rt->hand) {
        free(tn_program_find("tendon-hand", rt->host.config->tendon.hand, err));
        return -1;
    }
    return tn_record_make(backend, spec, record, err);
}

struct tn_sandbox *tn_sandbox_create(struct tn_runtime *rt, const struct tn_spec *spec,
                                     int64_t deadline, struct tn_error *err)
{
    struct tn_record record;

    if (prepare(rt, spec, &record, err))
        return NULL;
    if (find_lost(rt, &record, spec, deadline, err)) {
        tn_record_done(&record);
        return NULL;
    }
    if (record.found)
        return tn_sandbox_bring_up(rt, &record, make_found, NULL, deadline, err);
    struct tn_error why = {0};
    struct tn_sandbox *warm = claim(rt, &record, spec, deadline, &why);
    if (warm || why.code == TN_E_DENIED) {
        tn_record_done(&record);
        if (warm)
            tell(warm, TN_RUNTIME_RUNTIME_STARTED);
        else if (err)
            *err = why;
        return warm;
    }
    tn_sandbox_expect(rt, spec);
    return tn_sandbox_bring_up(rt, &record, make_fresh, NULL, deadline, err);
}

struct tn_sandbox *tn_sandbox_create_as(struct tn_runtime *rt, const struct tn_sandbox_how *how,
                                        const struct tn_spec *spec, int64_t deadline,
                                        struct tn_error *err)
{
    struct tn_record record;

    if (prepare(rt, spec, &record, err))
        return NULL;
    tn_record_rename(&record, how->id, how->key);
    return tn_sandbox_bring_up(rt, &record, make_fresh, (void *)(uintptr_t)how, deadline, err);
}

int tn_sandbox_claim(struct tn_runtime *rt, const struct tn_spec *spec, struct tn_record *out,
                     struct tn_error *err)
{
    const struct tn_backend *backend =
        tn_backend_find(rt->host.config, runtime_name(rt, spec), err);
    tn_autorecord struct tn_record as = {0};
    char digest[17];

    if (!backend || tn_record_make(backend, spec, &as, err))
        return -1;
    if (spec->keep)
        as.owner = (struct tn_owner){0};
    tn_spec_digest(spec, digest);
    return tn_store_claim(rt->store, digest, &as, out, err);
}

/* --- states -------------------------------------------------------------------------------- */

/* Its network with the rules and its variables are all that changes in the spec of a sandbox that
 * exists. */
static void take_changes(struct tn_sandbox *sb, const char *text)
{
    struct tn_spec now;

    if (read_spec(text, &now, NULL) == 0) {
        const struct tn_spec old = sb->spec;
        sb->spec.network = now.network;
        sb->spec.allow = now.allow;
        sb->spec.env = now.env;
        now.allow = old.allow;
        now.env = old.env;
    }
    tn_spec_done(&now);
}

int tn_sandbox_reload(struct tn_sandbox *sb, struct tn_error *err)
{
    struct tn_record now = {0};

    if (tn_store_find(sb->rt->store, sb->record.id, &now, err))
        return -1;
    if (strcmp(sb->record.spec, now.spec) != 0)
        take_changes(sb, now.spec);
    tn_record_done(&sb->record);
    sb->record = now;
    return 0;
}

int tn_sandbox_hold(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err)
{
    tn_autofd int lock = tn_sandbox_lock(sb->rt->state, sb->record.id, deadline, err);

    return lock < 0 || tn_sandbox_reload(sb, err) ? -1 : TN_TAKE_FD(lock);
}

int tn_sandbox_inspect(struct tn_sandbox *sb, struct tn_place *place, int64_t deadline,
                       struct tn_error *err)
{
    /* While somebody changes it, what we see is not worth writing down, and might undo what they
     * write. */
    tn_autofd int lock = tn_sandbox_hold(sb, 0, NULL);
    tn_autoplace struct tn_place own = {0};
    struct tn_place *p = place ? place : &own;

    if (lock < 0)
        tn_sandbox_reload(sb, NULL);
    struct tn_error why = {0};
    int taken = lock < 0 ? 0 : take(sb, deadline, &why);
    struct tn_subject subject = tn_sandbox_subject(sb);
    *p = (struct tn_place){0};
    if (taken < 0 && why.code == TN_E_CONFLICT)
        p->status = TN_STATUS_MISSING; /* it is another's */
    else if (taken < 0)
        return tn_fail(err, why.code, "sandbox %s: %s", sb->record.id, why.text);
    else if (sb->backend->inspect(sb->engine, &subject, p, deadline, err))
        return tn_error_context(err, "sandbox %s", sb->record.id);
    bool news = differs(&sb->record, p);
    set_place(&sb->record, p);
    /* A store that cannot be written (a full disk) is behind the times until the next look; how it
     * is has been seen all the same. */
    if (lock >= 0 && news)
        tn_store_place(sb->rt->store, sb->record.id, p, NULL);
    return 0;
}

/* Whether bringing it from that state to the goal starts or stops a runtime in OpenHands' sense: a
 * pause does neither. */
static bool turns(enum tn_status from, enum tn_goal goal)
{
    bool rests = from == TN_STATUS_STOPPED || from == TN_STATUS_SUSPENDED;

    if (goal == TN_GOAL_RUNNING)
        return rests || from == TN_STATUS_ERROR || from == TN_STATUS_MISSING;
    return goal != TN_GOAL_PAUSED && !rests;
}

/* Whether it may be driven to running: what runs, or is only paused, goes on with the walls that it
 * has; what would start needs those that are demanded today. */
static int may_run(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);
    tn_autoplace struct tn_place now = {0};
    struct tn_error why = {0};

    if (!tn_sandbox_check_walls(sb->rt, sb->backend, &sb->spec, &why))
        return 0;
    if (sb->backend->inspect(sb->engine, &subject, &now, deadline, NULL) == 0 &&
        (now.status == TN_STATUS_RUNNING || now.status == TN_STATUS_PAUSED))
        return 0;
    return tn_fail(err, why.code, "sandbox %s: %s", sb->record.id, why.text);
}

int tn_sandbox_drive(struct tn_sandbox *sb, enum tn_goal goal, int64_t deadline,
                     struct tn_error *err)
{
    struct tn_error why = {0};
    tn_autofd int lock = tn_sandbox_hold(sb, deadline, &why);
    tn_autoplace struct tn_place place = {0};

    if (lock < 0) {
        if (goal == TN_GOAL_GONE && why.code == TN_E_NOT_FOUND)
            return 0;
        if (err)
            *err = why;
        return -1;
    }
    if (goal != TN_GOAL_RUNNING) {
        tn_hand_client_free(sb->client);
        sb->client = NULL;
    }
    if (goal == TN_GOAL_GONE) {
        tn_ledger_free(TN_TAKE_PTR(sb->ledger));
        if (!tn_sandbox_erase(sb, deadline, &why))
            return 0;
        /* Without its row it would be a stray, and gc would end what another uses. */
        if (sb->backend->claim && why.code == TN_E_GONE)
            return tn_store_disown(sb->rt->store, sb->record.id, err);
        if (err)
            *err = why;
        return -1;
    }
    bool start = goal == TN_GOAL_RUNNING, turn = turns(sb->record.status, goal);
    if (take(sb, deadline, err) || (start && may_run(sb, deadline, err)))
        return -1;

    struct tn_subject subject = tn_sandbox_subject(sb);
    if (turn && start)
        tell(sb, TN_RUNTIME_STARTING_RUNTIME);
    if (sb->backend->drive(sb->engine, &subject, goal, &place, deadline, err))
        return tn_error_context(err, "sandbox %s", sb->record.id);
    if (turn)
        tell(sb, start ? TN_RUNTIME_RUNTIME_STARTED : TN_RUNTIME_STOPPED);
    return differs(&sb->record, &place) ? tn_sandbox_note(sb, &place, err) : 0;
}
