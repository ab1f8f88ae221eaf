/* Making a sandbox. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "runtime/docker/docker.h"

enum { PORT_TRIES = 64 };

/* How a try ended. */
enum outcome {
    DONE,
    FAILED,
    OTHER_PORTS, /* a published port is taken */
    OTHER_WAY,   /* the engine does not see our files, or its root is not us */
    NO_GATE,     /* the kernel has none, and nobody has asked for it */
};

struct attempt {
    struct docker_plan plan;
    char *container; /* id, once there is one */
    char *address;
    struct tn_json *tree; /* what the engine says of it, once it runs */
    bool clashes;         /* with another in the host's network */
    bool no_gate;
    enum tn_blame blame; /* of what failed */
};

/* --- the container -------------------------------------------------------------------------- */

/* Wishes that an engine says in words of its own, and as a fault of its own, that it cannot keep.
 */
static const struct {
    const char *words, *wish;
    enum tn_code code;
} refusals[] = {
    {"storage-opt", "disk: the engine cannot limit it", TN_E_UNSUPPORTED},
    {"could not select device driver", "gpus: the engine cannot pass them", TN_E_UNSUPPORTED},
    {"invalid reference format", "image", TN_E_INVALID},
};

static void name_wish(struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(refusals); i++)
        if (strstr(err->text, refusals[i].words)) {
            err->code = refusals[i].code;
            tn_error_context(err, "%s", refusals[i].wish);
            return;
        }
}

static int call_create(struct attempt *a, int64_t deadline, struct tn_error *err)
{
    const struct docker *d = a->plan.docker;
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4 << 20);
    tn_autofree char *warnings = NULL;

    if (docker_plan_body(&a->plan, &body, err) < 0 ||
        tn_engine_create(d->engine, a->plan.name, docker_config(d)->sandbox.platform, &body,
                         &a->container, &warnings, deadline, err) < 0)
        return -1;
    /* A limit that is not enforced is no limit. */
    if (warnings && strcasestr(warnings, "discarded"))
        return tn_fail(err, TN_E_UNSUPPORTED, "the engine cannot keep a limit: %s", warnings);
    return 0;
}

/* An answer of 404 may be about something else than the image. */
static bool image_is_missing(const struct attempt *a, int64_t deadline)
{
    struct tn_error why = {0};

    return tn_engine_image(a->plan.docker->engine, a->plan.image, NULL, deadline, &why) < 0 &&
           why.code == TN_E_NOT_FOUND;
}

static int create_container(struct attempt *a, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};

    if (call_create(a, deadline, &why) == 0)
        return 0;
    if (!a->container && why.code == TN_E_NOT_FOUND && image_is_missing(a, deadline)) {
        a->blame = TN_BLAME_IMAGE;
        if (docker_pull(a->plan.docker, a->plan.image, a->plan.subject, deadline, err) < 0)
            return -1;
        a->blame = TN_BLAME_NONE;
        return call_create(a, deadline, err);
    }
    if (err)
        *err = why;
    return -1;
}

/* Where it cannot be mounted. */
static int put_hand(const struct attempt *a, int64_t deadline, struct tn_error *err)
{
    const char *path = a->plan.docker->host->hand;
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    const struct tn_engine_file files[] = {
        {.name = &DOCKER_INSIDE "/"[1], .mode = 0755},
        {.name = &DOCKER_HAND[1], .fd = fd, .size = (uint64_t)st.st_size, .mode = 0755},
    };
    return tn_engine_put_files(a->plan.docker->engine, a->container, "/", files, TN_COUNT(files),
                               deadline, err);
}

static int join_networks(const struct attempt *a, int64_t deadline, struct tn_error *err)
{
    const struct tn_str_list *names = &docker_config(a->plan.docker)->sandbox.additional_networks;

    for (size_t i = 0; i < names->count; i++)
        if (tn_engine_network_connect(a->plan.docker->engine, names->items[i], a->container,
                                      deadline, err) < 0)
            return tn_error_context(err, "additional network %s", names->items[i]);
    return 0;
}

/* Two that were made at once may have chosen the same ports: whoever of them looks later, now that
 * its own are on its label, sees the other one. */
static int check_ports(struct attempt *a, int64_t deadline, struct tn_error *err)
{
    struct docker_plan *p = &a->plan;

    if (!p->host_network)
        return 0;
    if (docker_taken_ports(p->docker, a->container, p->taken, deadline, err) < 0)
        return -1;
    a->clashes = docker_plan_clashes(p);
    return a->clashes ? tn_fail(err, TN_E_CONFLICT, "another sandbox has chosen the same port") : 0;
}

static int start(struct attempt *a, int64_t deadline, struct tn_error *err)
{
    const struct docker_plan *p = &a->plan;

    if (docker_make_directories(p, err) < 0 || create_container(a, deadline, err) < 0 ||
        check_ports(a, deadline, err) < 0 ||
        (p->way == DOCKER_BY_PORT && put_hand(a, deadline, err) < 0) ||
        join_networks(a, deadline, err) < 0 ||
        tn_engine_start(p->docker->engine, a->container, deadline, err) < 0)
        return -1;
    if (p->way == DOCKER_BY_SOCKET)
        a->address = docker_socket_address(p->subject);
    if (docker_wait_ready(p->docker, p->subject, a->container, &a->address, deadline, err) < 0 ||
        tn_engine_inspect(p->docker->engine, a->container, &a->tree, deadline, err) < 0)
        return -1;
    /* What begins inside before the wall is up is alone. */
    struct tn_error why = {0};
    if (docker_gate_up(p->docker, p->subject, a->tree, deadline, &why) == 0)
        return 0;
    a->no_gate = why.code == TN_E_UNSUPPORTED;
    if (err)
        *err = why;
    return -1;
}

/* --- ways and ports ------------------------------------------------------------------------- */

/* Engines say it in their own words; ours are the paths. */
static enum outcome judge(const struct attempt *a, const struct tn_error *why)
{
    static const char *const taken[] = {"already allocated", "already in use", "Address in use",
                                        "cannot listen on"};
    tn_autofree char *run = docker_run_directory(a->plan.subject);
    tn_autofree char *hand = docker_hand_copy(a->plan.subject);

    if (a->clashes)
        return OTHER_PORTS;
    if (a->no_gate)
        return a->plan.gate_optional ? NO_GATE : FAILED;
    if (a->plan.way == DOCKER_BY_SOCKET &&
        (strstr(why->text, run) || strstr(why->text, hand) || strstr(why->text, DOCKER_INSIDE)))
        return OTHER_WAY;
    for (size_t i = 0; i < TN_COUNT(taken) && a->container; i++)
        if (strcasestr(why->text, taken[i]))
            return OTHER_PORTS;
    return FAILED;
}

static enum outcome attempt(struct attempt *a, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};

    a->clashes = a->no_gate = false;
    if (start(a, deadline, &why) == 0)
        return DONE;
    enum outcome outcome = judge(a, &why);
    if (a->container)
        docker_erase(a->plan.docker, a->container, tn_deadline_in(10), NULL);
    free(TN_TAKE_PTR(a->container));
    free(TN_TAKE_PTR(a->address));
    tn_json_free(TN_TAKE_PTR(a->tree));
    name_wish(&why);
    if (err)
        *err = why;
    return outcome;
}

static int try_all(struct attempt *a, int64_t deadline, struct tn_error *err)
{
    enum docker_way way = docker_socket_fits(a->plan.docker, a->plan.subject->spec)
                              ? DOCKER_BY_SOCKET
                              : DOCKER_BY_PORT;
    struct tn_error why = {0}, first = {0};
    bool again = true;

    for (int i = 0; again && i < PORT_TRIES; i++) {
        if (a->plan.host_network &&
            docker_taken_ports(a->plan.docker, NULL, a->plan.taken, deadline, err) < 0)
            return -1;
        if (docker_plan_way(&a->plan, way, &why) < 0)
            return tn_fail(err, why.code, "%s%s%s", why.text, first.code ? "; it failed: " : "",
                           first.code ? first.text : "");
        bool more = docker_plan_next_ports(&a->plan, i);
        switch (attempt(a, deadline, &why)) {
        case DONE:
            return 0;
        case OTHER_WAY:
            first = why;
            way = DOCKER_BY_PORT;
            if (a->plan.gated && a->plan.gate_optional)
                docker_plan_network(&a->plan, TN_NETWORK_BRIDGE);
            break;
        case NO_GATE:
            docker_plan_network(&a->plan, TN_NETWORK_BRIDGE);
            break;
        case OTHER_PORTS:
            /* In the host's network its own ports are others the next time. */
            again = more || a->plan.host_network;
            break;
        case FAILED:
            again = false;
            break;
        }
    }
    if (err)
        *err = why;
    return -1;
}

int docker_create(void *engine, const struct tn_subject *s, struct tn_place *place,
                  int64_t deadline, struct tn_error *err)
{
    const struct docker *d = engine;
    struct attempt a = {0};

    *place = (struct tn_place){0};
    int r = docker_plan_init(&a.plan, d, s, err);
    if (r == 0 && a.plan.gvisor)
        r = docker_ask_gvisor(d->engine, docker_config(d), deadline, err);
    if (r == 0)
        r = try_all(&a, deadline, err);
    if (r == 0 && (r = docker_check_gvisor(d, s, a.tree, err)) < 0)
        docker_erase(d, a.container, tn_deadline_in(10), NULL);
    if (r == 0)
        r = docker_place(d, s, a.tree, place, deadline, err);
    docker_plan_done(&a.plan);
    free(a.container);
    free(a.address);
    tn_json_free(a.tree);
    if (r == 0)
        return 0;
    tn_place_done(place);
    place->blame = a.blame;
    return tn_error_context(err, "create sandbox %s", s->spec->name ? s->spec->name : s->id);
}
