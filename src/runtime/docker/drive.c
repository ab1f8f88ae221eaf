/* From any state to another. */
#include "base/again.h"
#include "runtime/docker/docker.h"

/* The hand gives what it runs two seconds to end; then the engine kills. */
enum { GRACE_SECONDS = 6 };

/* An engine that was asked for one thing after another may tell of the first once more. */
#define SETTLE_SECONDS 5.0
#define SETTLE_MS 20

/* How long a removal that fails is tried again. */
#define ERASE_SECONDS 15.0
#define ERASE_MS 100

/* States in which processes exist. */
static bool is_alive(const char *status)
{
    return strcmp(status, "running") == 0 || strcmp(status, "paused") == 0 ||
           strcmp(status, "restarting") == 0;
}

static int bring_up(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                    int64_t deadline, struct tn_error *err)
{
    const char *id = docker_id(tree), *status = docker_status(tree);
    tn_autofree char *address = NULL;

    if (strcmp(status, "dead") == 0 || strcmp(status, "removing") == 0)
        return tn_fail(err, TN_E_GONE, "its container is %s: it can only be removed", status);
    if (strcmp(status, "running") == 0)
        return 0;
    if (strcmp(status, "paused") == 0)
        return tn_engine_unpause(d->engine, id, deadline, err);
    if (strcmp(status, "restarting") != 0 && tn_engine_start(d->engine, id, deadline, err) < 0)
        return -1;
    if (strcmp(docker_label(tree, DOCKER_LABEL_HAND), "socket") == 0)
        address = docker_socket_address(s);
    return docker_wait_ready(d, s, id, &address, deadline, err);
}

static int freeze(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                  int64_t deadline, struct tn_error *err)
{
    if (strcmp(docker_status(tree), "paused") == 0)
        return 0;
    if (bring_up(d, s, tree, deadline, err) < 0)
        return -1;
    return tn_engine_pause(d->engine, docker_id(tree), deadline, err);
}

static int take_down(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                     int64_t deadline, struct tn_error *err)
{
    int left = tn_poll_ms(deadline);
    int grace = left >= 0 && left / 1000 < GRACE_SECONDS ? left / 1000 : GRACE_SECONDS;

    if (!is_alive(docker_status(tree)))
        return 0;
    /* What is frozen cannot heed a signal. */
    if (strcmp(docker_status(tree), "paused") == 0 &&
        tn_engine_unpause(d->engine, docker_id(tree), deadline, err) < 0)
        return -1;
    return tn_engine_stop(d->engine, docker_id(tree), grace, deadline, err);
}

/* Podman fails to remove one that ends at this moment: while the engine has it, it is asked again.
 */
int docker_erase(const struct docker *d, const char *id, int64_t deadline, struct tn_error *err)
{
    int64_t tried = tn_deadline_in(ERASE_SECONDS);
    struct tn_error why = {0}, look = {0};

    do {
        tn_autojson struct tn_json *tree = NULL;
        if (tn_engine_remove(d->engine, id, deadline, &why) == 0)
            return 0;
        /* Somebody else may be removing it: then it is enough to wait. */
        if (why.code == TN_E_CONFLICT)
            return tn_engine_wait_removed(d->engine, id, deadline, err);
        if (tn_engine_inspect(d->engine, id, &tree, deadline, &look) < 0) {
            if (look.code == TN_E_NOT_FOUND)
                return 0;
            break;
        }
    } while (tn_look_again_in(ERASE_MS, tried < deadline ? tried : deadline));
    if (err)
        *err = why;
    return -1;
}

static int remove_all(const struct docker *d, const struct tn_subject *s,
                      const struct tn_json *tree, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *another = NULL;

    if (tree && docker_erase(d, docker_id(tree), deadline, err) < 0)
        return -1;
    /* A create that was killed may have left one that the store knows nothing of. */
    struct tn_subject unknown = *s;
    unknown.ref = NULL;
    if (docker_find(d, &unknown, &another, deadline, err) < 0 ||
        (another && docker_erase(d, docker_id(another), deadline, err) < 0))
        return -1;
    docker_gate_down(s, deadline);
    docker_unleash(s);
    return docker_remove_directories(s, err);
}

/* --- goals ---------------------------------------------------------------------------------- */

static int suspend(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                   int64_t deadline, struct tn_error *err)
{
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "containers cannot be suspended to disk: pause or stop it instead");
}

static int (*const goals[])(const struct docker *d, const struct tn_subject *s,
                            const struct tn_json *tree, int64_t deadline, struct tn_error *err) = {
    [TN_GOAL_RUNNING] = bring_up,
    [TN_GOAL_PAUSED] = freeze,
    [TN_GOAL_STOPPED] = take_down,
    [TN_GOAL_SUSPENDED] = suspend,
};

/* Whether the engine still tells what was before. */
static bool is_belated(enum tn_goal goal, const char *status)
{
    return (goal == TN_GOAL_PAUSED && strcmp(status, "running") == 0) ||
           (goal == TN_GOAL_RUNNING && strcmp(status, "paused") == 0) ||
           (goal == TN_GOAL_STOPPED && is_alive(status));
}

/* The container after what was done to it: looked at again while the engine tells what was before.
 */
static int look_after(const struct docker *d, const struct tn_subject *s, enum tn_goal goal,
                      struct tn_json **out, int64_t deadline, struct tn_error *err)
{
    int64_t settled = tn_deadline_in(SETTLE_SECONDS);
    int64_t until = settled < deadline ? settled : deadline;

    for (;;) {
        tn_autojson struct tn_json *tree = NULL;
        if (docker_must_find(d, s, &tree, deadline, err) < 0)
            return -1;
        if (!is_belated(goal, docker_status(tree)) || !tn_look_again_in(SETTLE_MS, until)) {
            *out = TN_TAKE_PTR(tree);
            return 0;
        }
    }
}

static int reach(const struct docker *d, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *before = NULL, *after = NULL;

    if (goal == TN_GOAL_GONE) {
        if (docker_find(d, s, &before, deadline, err) < 0)
            return -1;
        place->status = TN_STATUS_MISSING;
        return remove_all(d, s, before, deadline, err);
    }
    if (docker_must_find(d, s, &before, deadline, err) < 0 ||
        (goal == TN_GOAL_RUNNING && docker_check_gvisor(d, s, before, err) < 0) ||
        goals[goal](d, s, before, deadline, err) < 0 ||
        look_after(d, s, goal, &after, deadline, err) < 0 ||
        (is_alive(docker_status(after)) && docker_gate_up(d, s, after, deadline, err) < 0))
        return -1;
    struct tn_subject now = *s;
    /* Whatever its exit status is: this end was wanted. */
    tn_autofree char *ref =
        docker_ref(docker_id(after), "", goal == TN_GOAL_STOPPED, &(struct tn_proc){0});
    now.ref = ref;
    return docker_place(d, &now, after, place, deadline, err);
}

int docker_drive(void *engine, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    const struct docker *d = engine;

    *place = (struct tn_place){0};
    if (reach(d, s, goal, place, deadline, err) == 0)
        return 0;
    tn_place_done(place);
    return tn_error_context(err, "docker: sandbox %s: %s", s->id, tn_goal_words[goal]);
}
