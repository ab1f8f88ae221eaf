/* The moment when a hand can be talked to. */
#include <poll.h>
#include <sys/inotify.h>

#include "net/http-client.h"
#include "net/listen.h"
#include "runtime/docker/docker.h"

/* How long to wait between two looks: for the hand, and for the end of its container. */
enum { FIRST_PAUSE_MS = 1, LONGEST_PAUSE_MS = 20, LOOK_MS = 100 };

/* Connected is enough on a socket of the hand's own; a published port is taken by a proxy before
 * the hand is there, so that only an answer tells. */
static bool answers(const char *address, int64_t deadline)
{
    int64_t soon = tn_deadline_in(1);
    int64_t until = soon < deadline ? soon : deadline;

    if (strncmp(address, "unix:", 5) == 0) {
        tn_autofd int fd = tn_dial(address, until, NULL);
        return fd >= 0;
    }
    tn_autobuf struct tn_buf body = TN_BUF_INIT(64 << 10);
    struct tn_http_client *client = tn_http_client_new(address, NULL);
    struct tn_http_call call = {.target = "/alive", .deadline = until};
    int status = client ? tn_http_client_call(client, &call, &body, NULL) : -1;
    tn_http_client_free(client);
    return status == 200;
}

/* Wakes up when something appears where the hand will make its socket. */
static int watch(const struct tn_subject *s)
{
    tn_autofree char *run = docker_run_directory(s);
    tn_autofd int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    if (fd < 0 || inotify_add_watch(fd, run, IN_CREATE | IN_ATTRIB) < 0)
        return -1;
    return TN_TAKE_FD(fd);
}

static void pause_for(int watcher, int ms, int64_t deadline)
{
    struct pollfd p = {.fd = watcher, .events = POLLIN};
    int left = tn_poll_ms(deadline);
    char events[1024];

    if (poll(&p, 1, left >= 0 && left < ms ? left : ms) > 0)
        while (read(watcher, events, sizeof events) > 0)
            ;
}

/* -1 when the container has ended; else *address is where the hand is, or NULL as long as the
 * engine does not say. */
static int look(const struct docker *d, const struct tn_subject *s, const char *container,
                char **address, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;

    if (tn_engine_inspect(d->engine, container, &tree, deadline, err) < 0)
        return -1;
    const char *status = docker_status(tree);
    if (strcmp(status, "running") == 0 || strcmp(status, "restarting") == 0 ||
        strcmp(status, "created") == 0) {
        if (!*address)
            *address = docker_address(d, s, tree, NULL);
        return 0;
    }
    enum tn_blame blame;
    tn_autofree char *reason = docker_end_reason(d, tree, &blame, deadline);
    tn_fail(err, TN_E_PEER, "%s", reason);
    if (err && blame == TN_BLAME_MEMORY)
        err->sys = ENOMEM;
    return -1;
}

int docker_wait_ready(const struct docker *d, const struct tn_subject *s, const char *container,
                      char **address, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *at = TN_TAKE_PTR(*address);
    tn_autofd int watcher = watch(s);
    int64_t next_look = at ? tn_now() + LOOK_MS * TN_MILLI : 0;

    for (int pause = FIRST_PAUSE_MS;;
         pause = pause * 2 < LONGEST_PAUSE_MS ? pause * 2 : LONGEST_PAUSE_MS) {
        if (at && answers(at, deadline))
            break;
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the hand does not answer");
        if (tn_now() >= next_look) {
            if (look(d, s, container, &at, deadline, err) < 0)
                return -1;
            next_look = tn_now() + LOOK_MS * TN_MILLI;
            if (at && answers(at, deadline))
                break;
        }
        pause_for(watcher, pause, deadline);
    }
    *address = TN_TAKE_PTR(at);
    return 0;
}
