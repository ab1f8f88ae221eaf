/* Putting the service together, and taking it apart in the opposite order. */
#include "service/service.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error-hide.h"
#include "base/file-lock.h"
#include "base/log.h"
#include "base/proc.h"
#include "net/http-kept.h"
#include "net/http2.h"
#include "service/admit.h"
#include "service/asks.h"
#include "service/audit.h"
#include "service/blobs.h"
#include "service/bounds.h"
#include "service/builds.h"
#include "service/clock.h"
#include "service/confirm.h"
#include "service/e2b/e2b.h"
#include "service/front.h"
#include "service/health.h"
#include "service/listen.h"
#include "service/metrics.h"
#include "service/proxy.h"
#include "service/purses.h"
#include "service/steward.h"
#include "service/tcp-ports.h"
#include "service/volume.h"
#include "service/watch.h"

#define LOCK_SECONDS 10.0      /* for what a killed service has left to let go of its lock */
#define HANDSHAKES_SECONDS 1.0 /* that may still end when nobody new is let in */
#define STOP_SECONDS 5.0       /* for each step after the drain */
#define TCP_SECONDS 11.0       /* and for who dials into a sandbox that is frozen meanwhile */
#define STOP_ALL_SECONDS 60.0  /* for the sandboxes, when they are to be stopped too */
#define KEPT_SECONDS 30.0
enum { KEPT_EACH = 4, KEPT_ALL = 512 }; /* connections to hands */
enum { OTHER_FILES = 1024, MOST_SHARES = 64 };
enum { TCP_CONNECTIONS = 256 }; /* through ports of sandboxes */
enum { STACK = 256 * 1024, HEADER_BYTES = 32 * 1024 };

/* One a line: who adds a surface touches one line. */
/* clang-format off */
static const struct tn_route *const routes[] = {
    routes_health,
    routes_native_about,
    routes_native_actions,
    routes_native_admin,
    routes_native_boxes,
    routes_native_create,
    routes_native_events,
    routes_native_hand,
    routes_native_inside,
    routes_native_network,
    routes_native_pending,
    routes_native_ports,
    routes_native_secrets,
    routes_native_security,
    routes_native_watch,
    routes_openhands,
    routes_builds,
    routes_v1app,
    routes_webhooks,
    routes_e2b_create,
    routes_e2b_control,
    routes_e2b_templates,
    routes_e2b_build,
    routes_e2b_snapshots,
    routes_e2b_volumes,
    routes_daytona_snapshots,
    routes_daytona,
    routes_runloop_create,
    routes_runloop_devboxes,
    routes_runloop_executions,
    routes_runloop_files,
    routes_runloop_layers,
    routes_runloop_objects,
    routes_runloop_pty,
    routes_runloop_tunnels,
    routes_swerex,
    routes_swerex_execute,
    routes_swerex_files,
    routes_swerex_session,
    routes_modal,
    routes_modal_mounts,
    routes_preview,
    routes_editor,
    routes_dashboard,
    NULL,
};
/* clang-format on */

/* --- one per state directory --------------------------------------------------------------- */

/* The number of the process that signed the lock; "" when there is none. */
static void read_holder(int fd, char pid[32])
{
    ssize_t n = pread(fd, pid, 31, 0);

    pid[n > 0 ? n : 0] = '\0';
    pid[strspn(pid, "0123456789")] = '\0';
}

static bool holder_lives(int fd)
{
    char pid[32];

    read_holder(fd, pid);
    return *pid && (kill((pid_t)strtol(pid, NULL, 10), 0) == 0 || errno == EPERM);
}

/* Says who has it. */
static int fail_locked(int fd, const char *state, struct tn_error *err)
{
    char pid[32];

    read_holder(fd, pid);
    return tn_fail(err, TN_E_BUSY,
                   "a service (process %s) works with the state directory %s already: stop it, or "
                   "give this one another --state",
                   *pid ? pid : "unknown", state);
}

static int lock_state(const char *state, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" TN_SERVICE_LOCK_FILE, state);
    tn_autofd int fd = doors_inherited_lock();
    struct tn_error why;

    if (fd < 0)
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return tn_fail_errno(err, errno, "%s", path);
    /* Of a service that was killed a child may live on, until it is another program. */
    if (tn_byte_lock(fd, 0, holder_lives(fd) ? 0 : tn_deadline_in(LOCK_SECONDS), &why) < 0)
        return why.code == TN_E_BUSY ? fail_locked(fd, state, err)
                                     : tn_fail(err, why.code, "%s: %s", path, why.text);
    return TN_TAKE_FD(fd);
}

/* Who it is, and where. */
static int sign_lock(const struct tn_service *s, struct tn_error *err)
{
    tn_autofree char *text = tn_asprintf("%d\n%s\n", (int)getpid(), s->url);
    size_t n = strlen(text);

    if (ftruncate(s->lock, 0) < 0 || pwrite(s->lock, text, n, 0) != (ssize_t)n)
        return tn_fail_errno(err, errno, TN_SERVICE_LOCK_FILE);
    return 0;
}

/* --- starting ------------------------------------------------------------------------------ */

static int open_keys(struct tn_service *s, const char *state, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" TN_SERVICE_KEY_FILE, state);
    int made = key_make_first(s->db, path, err);

    if (made < 0 || service_secret(s->db, TN_SERVICE_TICKETS, s->secret, err) < 0)
        return -1;
    s->keys = keyring_new(s->db);
    if (!made)
        return 0;
    tn_log(TN_LOG_INFO, "made the first key", tn_log_str("file", path));
    return audit_write(
        s->audit, &(struct audit_entry){.what = "key.create", .result = "ok", .detail = "admin"},
        err);
}

static int open_audit(struct tn_service *s, const char *state, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" AUDIT_FILE, state);

    s->audit = audit_open(path, s->db, err);
    if (!s->audit)
        return -1;
    if (audit_write(s->audit, &(struct audit_entry){.what = "service.start", .result = "ok"}, err))
        return -1;
    audit_take_notes(s->audit);
    return 0;
}

/* Where there are few descriptors there are as many times fewer connections: without one left, not
 * even health could be told.  A connection that is passed on needs two. */
static int connection_share(void)
{
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    rlim_t wanted = 2 * SERVICE_CONNECTIONS + OTHER_FILES;
    int share = 1;

    getrlimit(RLIMIT_NOFILE, &files);
    while (share < MOST_SHARES && files.rlim_cur < wanted / (rlim_t)share)
        share *= 2;
    return share;
}

/* Sandboxes and what looks after them; from here on things happen by themselves. */
static int open_boxes(struct tn_service *s, struct tn_error *err)
{
    s->watchers = watchers_new();
    s->queue = queue_new(s->options);
    s->desks = desks_new();
    s->volumes = volumes_new();
    s->tcp = tcp_ports_new(s, TCP_CONNECTIONS / connection_share());
    s->kept = tn_http_kept_new(KEPT_EACH, KEPT_ALL, KEPT_SECONDS);
    s->boxes = boxes_new(s, err);
    if (!s->boxes)
        return -1;
    tn_runtime_follow(s->rt, boxes_changed, s->boxes);
    s->builds = builds_new(s, err);
    s->hook = s->builds ? hook_new(s, err) : NULL;
    s->asks = s->hook ? asks_new(s, err) : NULL;
    s->steward = s->asks ? steward_new(s, err) : NULL;
    if (!s->steward)
        return -1;
    hook_tell_again(s->hook);
    boxes_begin(s->boxes);
    volumes_begin(s);
    return e2b_builds_begin(s, err) || blobs_begin(s, err) || tcp_ports_begin(s->tcp, err) ? -1 : 0;
}

static int open_http(struct tn_service *s, struct tn_error *err)
{
    const int share = connection_share();
    const struct tn_http_options options = {
        .routes = routes,
        .front = front_enter,
        .allow = front_check,
        .refuse = front_refuse,
        .head = front_head,
        .log = front_log,
        .http2 = tn_http2_serve,
        .ctx = s,
        .max_header_bytes = HEADER_BYTES,
        .max_connections = SERVICE_CONNECTIONS / share,
        .max_strangers = SERVICE_STRANGERS / share,
        .stack_bytes = STACK,
    };

    s->http = tn_http_server_new(&options);
    return doors_serve(s->doors, s->http, err);
}

static int start(struct tn_service *s, struct tn_error *err)
{
    const char *state = tn_runtime_host(s->rt)->state;
    uint64_t memory;

    if (tn_service_check(s->options, err) < 0)
        return -1;
    if (tn_size_parse(s->options->request_memory, &memory, err) < 0)
        return tn_error_context(err, "service.request_memory");
    s->purses = purses_new(memory ? memory : SIZE_MAX);
    s->lock = lock_state(state, err);
    if (s->lock < 0)
        return -1;
    s->doors = doors_open(s->options, err);
    if (!s->doors)
        return -1;
    s->url = s->options->url ? tn_strdup(s->options->url) : doors_url(s->doors);
    for (size_t n = strlen(s->url); n && s->url[n - 1] == '/';)
        s->url[--n] = '\0';
    s->metrics = metrics_new();
    s->health = health_new(s);
    if (service_clock_start(s->db, err) < 0 || sign_lock(s, err) < 0 ||
        open_audit(s, state, err) < 0 || open_keys(s, state, err) < 0 || open_boxes(s, err) < 0)
        return -1;
    return open_http(s, err);
}

static void note_hidden(const char *instead, const char *text)
{
    tn_log(TN_LOG_WARN, instead, tn_log_str("error", text));
}

struct tn_service *tn_service_start(struct tn_runtime *rt, const struct tn_service_options *options,
                                    struct tn_error *err)
{
    struct tn_service *s = tn_calloc(1, sizeof *s);

    tn_error_hidden_to(note_hidden);
    tn_hide_below(tn_runtime_host(rt)->state);
    tn_proc_no_core(); /* secrets of tenants come in requests */
    s->rt = rt;
    s->options = options;
    s->db = tn_store_db(tn_runtime_store(rt));
    s->lock = -1;
    if (start(s, err) == 0)
        return s;
    tn_service_stop(s, false);
    return NULL;
}

int tn_service_check(const struct tn_service_options *options, struct tn_error *err)
{
    return hosts_check(options, err) < 0 || bounds_check(options, err) < 0 ||
                   tcp_ports_check(options, err) < 0
               ? -1
               : doors_check(options, err);
}

const char *tn_service_url(const struct tn_service *s)
{
    return s->url;
}

char *tn_service_local_url(const struct tn_service *s)
{
    return doors_url(s->doors);
}

/* --- stopping ------------------------------------------------------------------------------ */

/* Clients first: from here on nobody uses what is freed next.  False: some are still there. */
static bool send_away(struct tn_service *s)
{
    if (s->doors)
        doors_shut(s->doors, tn_deadline_in(HANDSHAKES_SECONDS));
    if (!s->http)
        return true;
    tn_http_server_drain(s->http, s->options->drain_seconds);
    if (s->boxes)
        boxes_let_go(s->boxes);
    desks_let_go(s->desks);
    if (tn_http_server_stop(s->http, STOP_SECONDS) > 0)
        return false;
    tn_http_server_free(s->http);
    return true;
}

/* Nobody works with boxes, builds, steward and queue any more.  False: somebody still does. */
static bool rest_boxes(struct tn_service *s, bool stop_sandboxes)
{
    if (!tcp_ports_end(s->tcp, tn_deadline_in(TCP_SECONDS)) ||
        !asks_end(s->asks, tn_deadline_in(STOP_SECONDS)) ||
        !hook_end(s->hook, tn_deadline_in(STOP_SECONDS)) ||
        !health_end(s->health, tn_deadline_in(STOP_SECONDS)) ||
        !steward_end(s->steward, tn_deadline_in(STOP_SECONDS)))
        return false;
    if (s->boxes && stop_sandboxes)
        boxes_stop_all(s->boxes, tn_deadline_in(STOP_ALL_SECONDS));
    return (!s->boxes || boxes_close(s->boxes, tn_deadline_in(STOP_SECONDS))) &&
           builds_end(s->builds);
}

static void free_boxes(struct tn_service *s)
{
    tn_runtime_follow(s->rt, NULL, NULL);
    builds_free(s->builds);
    boxes_free(s->boxes, 0);
    tcp_ports_free(s->tcp);
    steward_free(s->steward);
    asks_free(s->asks);
    hook_free(s->hook);
    tn_http_kept_free(s->kept);
    desks_free(s->desks);
    volumes_free(s->volumes);
    queue_free(s->queue);
    watchers_free(s->watchers);
}

int tn_service_stop(struct tn_service *s, bool hand_over)
{
    if (!send_away(s) || !rest_boxes(s, s->options->stop_sandboxes && !hand_over)) {
        if (hand_over)
            doors_hand_over(s->doors, s->lock);
        return -1;
    }
    free_boxes(s);
    if (s->audit) {
        audit_take_notes(s->audit);
        audit_write(s->audit,
                    &(struct audit_entry){.what = "service.stop",
                                          .result = "ok",
                                          .detail = hand_over ? "upgrade" : NULL},
                    NULL);
    }
    audit_close(s->audit);
    keyring_free(s->keys);
    health_free(s->health);
    metrics_free(s->metrics);
    purses_free(s->purses);
    if (hand_over && s->doors)
        doors_hand_over(s->doors, TN_TAKE_FD(s->lock));
    doors_close(s->doors, tn_deadline_in(STOP_SECONDS));
    tn_close(s->lock);
    explicit_bzero(s->secret, sizeof s->secret);
    free(s->url);
    free(s);
    return 0;
}
