/* Using a sandbox by the cluster's own ways, without its hand: files, commands, logs, addresses. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/again.h"
#include "net/proof.h"
#include "runtime/kubernetes/pods.h"

#define CALL_SECONDS 30.0
/* One thread asks for all sandboxes that are watched, and a shell inside may hang. */
#define GROUP_SECONDS 5.0
#define USAGE_SECONDS 8.0
enum { OUTPUT_MAX = 16 << 10 };

/* --- programs --------------------------------------------------------------------------------- */

int pods_run(const struct pods *p, const struct tn_subject *s, struct kube_exec e,
             struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pods_name(s);

    e.namespace = p->namespace;
    e.pod = name;
    e.container = e.container ? e.container : POD_CONTAINER;
    e.out = tn_buf_sink;
    e.ctx = out;
    int r = kube_exec(p->kube, &e, status, deadline, err);
    return tn_output_fits(out, err) < 0 ? -1 : r;
}

static int said(const struct tn_buf *words, int status, struct tn_error *err)
{
    tn_autofree char *line = kube_line(tn_buf_str(words));

    return tn_fail(err, TN_E_PEER, "a script inside ended with status %d%s%s", status,
                   *line ? ": " : "", line);
}

int pods_exec(void *engine, const struct tn_subject *s, const char *const *argv, struct tn_buf *out,
              int *status, int64_t deadline, struct tn_error *err)
{
    const struct pods *p = engine;
    tn_autojson struct tn_json *pod = NULL;

    if (pods_must_run(p, s, &pod, deadline, err) < 0 ||
        pods_run(p, s, (struct kube_exec){.argv = argv}, out, status, deadline, err) < 0)
        return tn_error_context(err, "kubernetes: sandbox %s: exec", s->id);
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

/* sh PATH SIZE MODE: the input does not always end, so that the number of bytes counts; and it may
 * end early, with the connection, while another try is on its way. */
#define WRITES                                                                                    \
    "set -e; case $1 in */*) mkdir -p \"${1%/*}/\" ;; esac; t=$1.new.$$; "                        \
    "head -c \"$2\" >\"$t\"; [ \"$(wc -c <\"$t\")\" -eq \"$2\" ] || { rm -f \"$t\"; exit 98; }; " \
    "chmod \"$3\" \"$t\"; mv -f \"$t\" \"$1\""

static int put_file(const struct pods *p, const struct tn_subject *s, const char *path,
                    const void *bytes, size_t n, mode_t mode, int64_t deadline,
                    struct tn_error *err)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(OUTPUT_MAX);
    tn_autofree char *size = tn_asprintf("%zu", n);
    tn_autofree char *digits = tn_asprintf("%o", (unsigned)mode & 07777);
    const char *const argv[] = {"sh", "-c", WRITES, "sh", path, size, digits, NULL};
    const struct kube_exec e = {.argv = argv, .input = bytes, .input_len = n};
    int status = 0;

    if (pods_run(p, s, e, &words, &status, deadline, err) < 0)
        return tn_error_context(err, "put %s", path);
    return status ? said(&words, status, err) : 0;
}

int pods_put(void *engine, const struct tn_subject *s, const char *path, const void *bytes,
             size_t n, mode_t mode, int64_t deadline, struct tn_error *err)
{
    const struct pods *p = engine;
    tn_autojson struct tn_json *pod = NULL;

    if (*path != '/')
        return tn_fail(err, TN_E_INVALID, "put %s: expected the absolute path of a file", path);
    if (pods_must_run(p, s, &pod, deadline, err) < 0 ||
        put_file(p, s, path, bytes, n, mode, deadline, err) < 0)
        return tn_error_context(err, "kubernetes: sandbox %s", s->id);
    return 0;
}

/* The same, unless it is for another machine than MACHINE, the fourth: that is then printed.  An
 * image that cannot tell is believed to be for this one. */
static const char takes[] = "m=$(uname -m 2>/dev/null) || m=$4; "
                            "[ \"$m\" = \"$4\" ] || { echo \"$m\"; exit 99; }; " WRITES;
enum { OTHER_MACHINE = 99, HAND_TRIES = 8 };
#define HAND_SECONDS 10.0 /* for the first try, twice as long for each that follows */

/* Puts that file in as the hand.  *other: the sandbox's machine, if it is not that one. */
static int put_hand(const struct pods *p, const struct tn_subject *s, const char *path,
                    const char *machine, struct tn_buf *other, int64_t deadline,
                    struct tn_error *err)
{
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct pod_note note;
    struct stat st;
    int status = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return tn_fail_errno(err, errno, "%s", path);
    tn_autofree char *size = tn_asprintf("%lld", (long long)st.st_size);
    pods_read_note(s, &note);
    const char *const argv[] = {"sh", "-c",  takes,   "sh", *note.pod ? POD_POOL_HAND : POD_HAND,
                                size, "755", machine, NULL};
    const struct kube_exec e = {.argv = argv, .input = bytes, .input_len = (size_t)st.st_size};
    struct tn_error why = {0};
    int ms = 0, r = -1;
    /* Doing it twice is doing it once: a connection that was cut, or that hangs, is no reason to
     * give up. */
    for (int i = 0; i < HAND_TRIES && r < 0; i++) {
        if (i > 0 && ((why.code != TN_E_PEER && why.code != TN_E_TIMEOUT) ||
                      tn_back_off(&ms, 0, s->cancel, deadline, &why) < 0))
            break;
        tn_buf_reset(other);
        r = pods_run(p, s, e, other, &status, tn_deadline_within(HAND_SECONDS * (1 << i), deadline),
                     &why);
    }
    munmap(bytes, (size_t)st.st_size);
    if (r < 0)
        return tn_fail(err, why.code, "%s", why.text);
    if (status == OTHER_MACHINE)
        return 0;
    if (status)
        return said(other, status, err);
    tn_buf_reset(other);
    return 0;
}

int pods_put_hand(const struct pods *p, const struct tn_subject *s, int64_t deadline,
                  struct tn_error *err)
{
    tn_autobuf struct tn_buf other = TN_BUF_INIT(OUTPUT_MAX);
    struct utsname here;

    uname(&here);
    int r = put_hand(p, s, p->host->hand, here.machine, &other, deadline, err);
    if (r == 0 && other.len) {
        tn_autofree char *machine =
            tn_strndup(tn_buf_str(&other),
                       strspn(tn_buf_str(&other), "abcdefghijklmnopqrstuvwxyz0123456789_"));
        tn_autofree char *path = tn_asprintf("%s-%s", p->host->hand, machine);
        tn_buf_reset(&other);
        r = access(path, R_OK) < 0
                ? tn_fail(err, TN_E_UNSUPPORTED,
                          "its node is %s, and there is no hand for that machine: put one at %s, "
                          "or set kubernetes.hand_image",
                          machine, path)
                : put_hand(p, s, path, machine, &other, deadline, err);
    }
    return r < 0 ? tn_error_context(err, "putting in the hand") : 0;
}

/* --- logs ------------------------------------------------------------------------------------- */

struct reader {
    tn_log_fn fn;
    void *ctx;
    bool stopped;
};

static int read_log(const void *bytes, size_t n, void *ctx)
{
    struct reader *r = ctx;
    int stop = r->fn(bytes, n, r->ctx);

    r->stopped = stop != 0;
    return stop;
}

int pods_logs(void *engine, const struct tn_subject *s, bool follow, tn_log_fn fn, void *ctx,
              int64_t deadline, struct tn_error *err)
{
    const struct pods *p = engine;
    tn_autojson struct tn_json *pod = NULL;
    tn_autofree char *name = pods_name(s);
    tn_autofree char *before =
        tn_asprintf("/%s/log?container=" POD_CONTAINER "&previous=true", name);
    tn_autofree char *after =
        tn_asprintf("/%s/log?container=" POD_CONTAINER "%s", name, follow ? "&follow=true" : "");
    tn_autofree char *previous = pods_target(p, "pods", before);
    tn_autofree char *target = pods_target(p, "pods", after);
    struct reader reader = {.fn = fn, .ctx = ctx};
    struct tn_error why = {0};

    /* Also of one that has ended. */
    if (pods_get(p, "pods", name, s->id, &pod, deadline, &why) == 0 && !pod)
        tn_fail(&why, TN_E_NOT_FOUND, "it has no pod, and what its last one printed is gone");
    const struct tn_json *all = tn_json_get(tn_json_get(pod, "status"), "containerStatuses");
    int64_t restarts = tn_json_int(tn_json_get(pod_find(all, POD_CONTAINER), "restartCount"), 0);
    /* We never ask for it; where others do, what was printed before comes first. */
    if (!why.code && restarts > 0 &&
        kube_stream(p->kube, previous, read_log, &reader, 0, deadline, &why) < 0 &&
        (why.code == TN_E_NOT_FOUND || why.code == TN_E_INVALID))
        why = (struct tn_error){0}; /* the node has thrown it away */
    if (!why.code && !reader.stopped)
        kube_stream(p->kube, target, fn, ctx, 0, deadline, &why);
    /* Whoever follows does so until then. */
    if (!why.code || (follow && why.code == TN_E_TIMEOUT))
        return 0;
    return tn_fail(err, why.code, "kubernetes: sandbox %s: logs: %s", s->id, why.text);
}

/* --- addresses -------------------------------------------------------------------------------- */

bool pods_by_proxy(const struct pods *p, const struct tn_subject *s)
{
    int reach = p->host->config->kubernetes.reach;
    struct pod_note note;

    pods_read_note(s, &note);
    return reach == TN_KUBERNETES_PROXY ||
           (reach == TN_KUBERNETES_AUTO && (note.proxied || !kube_is_inside(p->kube)));
}

char *pods_address(const struct pods *p, const struct tn_subject *s, const struct tn_json *pod,
                   bool proxied)
{
    const char *ip = tn_json_get_str(tn_json_get(pod, "status"), "podIP", "");
    tn_autofree char *name = pods_name(s);
    char digest[TN_PROOF_DIGITS + 1];

    if (proxied)
        return kube_address(p->kube, p->namespace, name, POD_PORT_HAND);
    if (!*ip || strspn(ip, "0123456789abcdef.:") != strlen(ip))
        return NULL;
    tn_proof_digest(s->key, digest);
    return tn_asprintf(strchr(ip, ':') ? "proven:[%s]:%d#%s" : "proven:%s:%d#%s", ip, POD_PORT_HAND,
                       digest);
}

/* What leads to a port: a Service, and where there is a domain for people an Ingress. */
struct way {
    struct pod_plan plan;
    int port;
    bool people;
    char *service, *ingress;
};

static void way_done(struct way *w)
{
    free(w->service);
    free(w->ingress);
}

static int plan_way(const struct pods *p, const struct tn_subject *s, int port, struct way *out,
                    struct tn_error *err)
{
    const struct tn_config *c = p->host->config;
    bool editor = port == POD_PORT_EDITOR;
    tn_autofree char *after =
        editor ? tn_strdup("-ingress-code") : tn_asprintf("-ingress-%d", port);

    *out =
        (struct way){.plan = pods_plan(p, s, NULL),
                     .port = port,
                     .people = tn_config_origin(c, "kubernetes.ingress_domain") != TN_FROM_DEFAULT,
                     .service = pod_name(s->id, editor ? "-svc-code" : "-svc"),
                     .ingress = pod_name(s->id, after)};
    return pod_has_port(s->spec, port)
               ? 0
               : tn_fail(
                     err, TN_E_NOT_FOUND,
                     "port %d is none that the sandbox was made with (--port): use: tendon port",
                     port);
}

static int make_way(const struct pods *p, const struct way *w, int64_t deadline,
                    struct tn_error *err)
{
    const char *id = w->plan.subject->id;
    tn_autobuf struct tn_buf first = TN_BUF_INIT(POD_MANIFEST_MAX),
                             second = TN_BUF_INIT(POD_MANIFEST_MAX);

    if (pod_put_service(&w->plan, w->port == POD_PORT_EDITOR, &first, err) < 0 ||
        pods_make(p, "services", w->service, id, &first, NULL, 0, deadline, err) < 0)
        return -1;
    return w->people &&
                   (pod_put_ingress(&w->plan, w->port, &second, err) < 0 ||
                    pods_make(p, "ingresses", w->ingress, id, &second, NULL, 0, deadline, err) < 0)
               ? -1
               : 0;
}

static char *end_of(const struct way *w)
{
    const char *tls = w->plan.config->kubernetes.ingress_tls_secret;

    if (!w->people)
        return tn_asprintf("http://%s.%s.svc:%d", w->service, w->plan.namespace, w->port);
    tn_autofree char *host = pod_host(&w->plan, w->port);
    return tn_asprintf("%s://%s", tls && *tls ? "https" : "http", host);
}

char *pods_url(void *engine, const struct tn_subject *s, int port, struct tn_error *err)
{
    const struct pods *p = engine;
    int64_t deadline = tn_deadline_in(CALL_SECONDS);
    tn_autojson struct tn_json *secret = NULL;
    TN_CLEANUP(way_done) struct way w = {0};

    if (plan_way(p, s, port, &w, err) < 0 || pods_must_have(p, s, &secret, deadline, err) < 0)
        return NULL;
    w.plan.owner = pods_uid(secret);
    return make_way(p, &w, deadline, err) == 0 ? end_of(&w) : NULL;
}

/* Who may not look has made none. */
static int has(const struct pods *p, const char *kind, const char *name, const char *id, bool *is,
               int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *object = NULL;
    struct tn_error why = {0};

    if (pods_glance(p, kind, name, id, &object, deadline, &why) < 0 && why.code != TN_E_DENIED)
        return tn_fail(err, why.code, "%s %s: %s", kind, name, why.text);
    *is = object != NULL;
    return 0;
}

char *pods_look_url(void *engine, const struct tn_subject *s, int port, bool *there,
                    int64_t deadline, struct tn_error *err)
{
    const struct pods *p = engine;
    TN_CLEANUP(way_done) struct way w = {0};
    bool service = false, ingress = false;

    if (plan_way(p, s, port, &w, err) < 0 ||
        (there && has(p, "services", w.service, s->id, &service, deadline, err) < 0) ||
        (service && w.people && has(p, "ingresses", w.ingress, s->id, &ingress, deadline, err) < 0))
        return NULL;
    if (there)
        *there = service && (ingress || !w.people);
    return end_of(&w);
}

/* --- usage ------------------------------------------------------------------------------------ */

/* Numbers of its own control group, one in a line, - where there is none: bytes now and at most,
 * microseconds, processes.  The first of two is that of version 2. */
static const char counts[] =
    "cd /sys/fs/cgroup; f() { cat \"$@\" 2>/dev/null | head -n 1 | grep . || echo -; }; "
    "f memory.current memory/memory.usage_in_bytes; "
    "f memory.peak memory/memory.max_usage_in_bytes; "
    "f cpu.stat cpuacct/cpuacct.usage; f pids.current pids/pids.current";

static int64_t next_number(const char **at)
{
    const char *digits = *at + strcspn(*at, "0123456789-\n");
    int64_t number = *digits >= '0' && *digits <= '9' ? strtoll(digits, NULL, 10) : -1;

    *at += strcspn(*at, "\n");
    *at += **at == '\n';
    return number;
}

static int ask_group(const struct pods *p, const struct tn_subject *s, struct tn_usage *out,
                     int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(OUTPUT_MAX);
    const char *const argv[] = {"sh", "-c", counts, NULL};
    int status = 0;

    if (pods_run(p, s, (struct kube_exec){.argv = argv}, &text, &status, deadline, err) < 0)
        return -1;
    const char *at = tn_buf_str(&text);
    bool second = strstr(at, "usage_usec");
    out->memory = next_number(&at);
    out->memory_peak = next_number(&at);
    int64_t cpu = next_number(&at);
    out->cpu_seconds = cpu < 0 ? -1 : (double)cpu / (second ? 1e6 : 1e9);
    out->processes = next_number(&at);
    return 0;
}

/* The metrics API tells of memory, and of processors only how many are used at the moment. */
static int ask_metrics(const struct pods *p, const char *pod, struct tn_usage *out,
                       int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target =
        tn_asprintf("/apis/metrics.k8s.io/v1beta1/namespaces/%s/pods/%s", p->namespace, pod);
    const struct kube_call call = {.target = target, .hurried = true};
    tn_autojson struct tn_json *answer = NULL;
    double bytes;

    if (kube_call(p->kube, &call, &answer, deadline, err) < 0)
        return -1;
    const struct tn_json *own = pod_find(tn_json_get(answer, "containers"), POD_CONTAINER);
    const struct tn_json *usage = tn_json_get(own, "usage");
    if (pod_quantity(tn_json_get_str(usage, "memory", ""), &bytes) < 0)
        return tn_fail(err, TN_E_PEER, "it does not tell of the sandbox");
    out->memory = bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX;
    pod_quantity(tn_json_get_str(usage, "cpu", ""), &out->cpus);
    return 0;
}

int pods_usage(void *engine, const struct tn_subject *s, struct tn_usage *out, struct tn_error *err)
{
    const struct pods *p = engine;
    int64_t deadline = tn_deadline_in(USAGE_SECONDS), soon = tn_deadline_in(GROUP_SECONDS);
    tn_autofree char *name = pods_name(s);
    tn_autojson struct tn_json *pod = NULL;
    struct tn_error group = {0}, metrics = {0};

    *out = TN_USAGE_UNKNOWN;
    if (pods_must_run(p, s, &pod, deadline, err) < 0)
        return -1;
    /* The group knows more; without a shell inside there are the metrics, if at all. */
    if ((ask_group(p, s, out, soon, &group) == 0 && out->memory >= 0) ||
        ask_metrics(p, name, out, deadline, &metrics) == 0)
        return 0;
    return tn_fail(
        err, metrics.code,
        "what it uses is not known: neither inside (%.200s) nor to the cluster's metrics "
        "API (%.200s)",
        group.code ? group.text : "no control group is shown there", metrics.text);
}
