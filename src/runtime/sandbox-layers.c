/* Snapshots, roll back and fork: layers of the file system. */
#include "base/clock.h"
#include "runtime/owner.h"
#include "runtime/runtime.h"

#define MAX_NAME 64
#define CLEAR_SECONDS 15.0 /* after one that was not made, perhaps because its time was over */
#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

static int check(const struct tn_sandbox *sb, const char *name, struct tn_error *err)
{
    if (!(sb->backend->abilities & TN_CAN_SNAPSHOT))
        return tn_fail(err, TN_E_UNSUPPORTED, "%s has no snapshots", sb->backend->name);
    if (!name)
        return 0;
    size_t n = strlen(name);
    if (n == 0 || n > MAX_NAME || strspn(name, NAME_LETTERS) != n || name[0] == '.')
        return tn_fail(err, TN_E_INVALID,
                       "'%s' is no name for a snapshot: 1 to %d letters, digits, '-', '_' or '.'",
                       name, MAX_NAME);
    return 0;
}

/* Its row goes when nothing of it is left there: what has no row counts for nobody, and nobody
 * removes it. */
static int forget(struct tn_sandbox *sb, const struct tn_subject *subject, const char *name,
                  int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};

    if (sb->backend->forget(sb->engine, subject, name, deadline, &why) < 0 &&
        why.code != TN_E_NOT_FOUND && why.code != TN_E_UNSUPPORTED)
        return tn_fail(err, why.code, "%s", why.text);
    return tn_store_snapshot_remove(sb->rt->store, sb->record.id, name, err);
}

/* What may not be made may not be looked for, either: nothing was begun then. */
static bool was_begun(const struct tn_error *failed, const struct tn_error *left)
{
    return left->code != failed->code || (left->code != TN_E_DENIED && left->code != TN_E_CONFLICT);
}

int tn_sandbox_snapshot(struct tn_sandbox *sb, const char *name, int64_t deadline,
                        struct tn_error *err)
{
    struct tn_error failed = {0}, left = {0};
    tn_autofd int lock = -1;

    if (check(sb, name, err))
        return -1;
    lock = tn_sandbox_hold(sb, deadline, err);
    struct tn_subject subject = tn_sandbox_subject(sb);
    if (lock < 0 || tn_store_snapshot_add(sb->rt->store, sb->record.id, name, err))
        return -1;
    if (!sb->backend->snapshot(sb->engine, &subject, name, deadline, &failed))
        return 0;
    if (!forget(sb, &subject, name, tn_deadline_in(CLEAR_SECONDS), &left) ||
        (!was_begun(&failed, &left) &&
         !tn_store_snapshot_remove(sb->rt->store, sb->record.id, name, NULL)))
        return tn_fail(err, failed.code, "sandbox %s: %s", sb->record.id, failed.text);
    return tn_fail(err, failed.code,
                   "sandbox %s: %.220s; what was begun of it is still there and counts until "
                   "snapshot %s is removed (%.120s)",
                   sb->record.id, failed.text, name, left.text);
}

int tn_sandbox_forget(struct tn_sandbox *sb, const char *name, int64_t deadline,
                      struct tn_error *err)
{
    tn_autofd int lock = -1;

    if (check(sb, name, err))
        return -1;
    lock = tn_sandbox_hold(sb, deadline, err);
    struct tn_subject subject = tn_sandbox_subject(sb);
    return lock < 0 ? -1 : forget(sb, &subject, name, deadline, err);
}

int tn_sandbox_rollback(struct tn_sandbox *sb, const char *name, int64_t deadline,
                        struct tn_error *err)
{
    tn_autoplace struct tn_place place = {0};
    tn_autofd int lock = -1;

    if (check(sb, name, err))
        return -1;
    lock = tn_sandbox_hold(sb, deadline, err);
    if (lock < 0)
        return -1;
    if (tn_sandbox_check_walls(sb->rt, sb->backend, &sb->spec, err))
        return tn_error_context(err, "sandbox %s", sb->record.id);
    struct tn_subject subject = tn_sandbox_subject(sb);
    tn_hand_client_free(sb->client);
    sb->client = NULL;
    if (sb->backend->rollback(sb->engine, &subject, name, &place, deadline, err))
        return tn_error_context(err, "sandbox %s", sb->record.id);
    return tn_sandbox_note(sb, &place, err);
}

/* --- fork ---------------------------------------------------------------------------------- */

struct fork_from {
    const struct tn_subject *parent;
    const char *name;
};

static int make_fork(struct tn_sandbox *sb, const struct tn_subject *subject,
                     struct tn_place *place, int64_t deadline, void *ctx, struct tn_error *err)
{
    const struct fork_from *from = ctx;

    return sb->backend->fork(sb->engine, from->parent, from->name, subject, place, deadline, err);
}

/* The parent's, but for what is the child's own. */
static int child_spec(const struct tn_spec *parent, const struct tn_spec *wish, struct tn_spec *out,
                      struct tn_error *err)
{
    if (tn_spec_copy(parent, out, err))
        return -1;
    free(out->name);
    out->name = tn_strdup_or_null(wish->name);
    out->keep = wish->keep;
    out->lease = wish->lease;
    if (wish->labels) {
        tn_json_free(out->labels);
        out->labels = tn_json_copy(wish->labels);
    }
    return 0;
}

struct tn_sandbox *tn_sandbox_fork_as(struct tn_sandbox *sb, const char *name, const char *id,
                                      const char *key, const struct tn_spec *wish, int64_t deadline,
                                      struct tn_error *err)
{
    struct tn_record record;
    struct tn_spec spec, base = sb->spec; /* borrowed */
    tn_autofd int lock = -1;

    if (check(sb, name, err) || tn_spec_check(wish, err))
        return NULL;
    tn_spec_init(&spec);
    if (id && wish->env)
        base.env = wish->env;
    if (id && wish->volumes.count)
        base.volumes = wish->volumes;
    if (id)
        tn_spec_borrow_bounds(&base, wish);
    int failed = child_spec(&base, wish, &spec, err) ||
                 tn_sandbox_check_isolation(sb->rt, sb->backend, &spec, err) ||
                 tn_record_make(sb->backend, &spec, &record, err);
    tn_spec_done(&spec);
    if (failed)
        return NULL;
    if (id)
        tn_record_rename(&record, id, key);
    record.parent = tn_strdup(sb->record.id);
    lock = tn_sandbox_hold(sb, deadline, err);
    if (lock < 0) {
        tn_record_done(&record);
        return NULL;
    }
    if (sb->backend->expect)
        sb->backend->expect(sb->engine);
    struct tn_subject parent = tn_sandbox_subject(sb);
    struct fork_from from = {.parent = &parent, .name = name};
    return tn_sandbox_bring_up(sb->rt, &record, make_fork, &from, deadline, err);
}

struct tn_sandbox *tn_sandbox_fork(struct tn_sandbox *sb, const char *name,
                                   const struct tn_spec *wish, int64_t deadline,
                                   struct tn_error *err)
{
    return tn_sandbox_fork_as(sb, name, NULL, NULL, wish, deadline, err);
}
