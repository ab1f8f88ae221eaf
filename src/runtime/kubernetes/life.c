/* The life of a sandbox: looked at, stopped, brought back, removed; what a place says of it. */
#include <fcntl.h>

#include "base/proc.h"
#include "runtime/kubernetes/pods.h"
#include "runtime/owner.h"

#define UP_SECONDS 3.0 /* for the hand of a pod that runs to answer */

/* --- engines ---------------------------------------------------------------------------------- */

int pods_open(const struct tn_host *host, void **engine, struct tn_error *err)
{
    const struct tn_config *c = host->config;
    const char *kubeconfig = c->kubernetes.kubeconfig, *context = c->kubernetes.context;
    bool named = tn_config_origin(c, "kubernetes.namespace") != TN_FROM_DEFAULT;
    const struct kube_options options = {.config = kubeconfig && *kubeconfig ? kubeconfig : NULL,
                                         .context = context && *context ? context : NULL,
                                         .namespace = named ? c->kubernetes.namespace : NULL};

    if (pod_check(c, NULL, err) < 0)
        return -1;
    struct kube *kube = kube_open(&options, err);
    if (!kube)
        return tn_error_context(err, "kubernetes");
    struct pods *p = tn_calloc(1, sizeof *p);
    *p = (struct pods){.host = host, .kube = kube, .namespace = kube_namespace(kube)};
    pthread_mutex_init(&p->lock, NULL);
    tn_state_mark(host->state, p->mark);
    *engine = p;
    return 0;
}

void pods_close(void *engine)
{
    struct pods *p = engine;

    if (!p)
        return;
    kube_close(p->kube);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* --- whether there are sandboxes at all ------------------------------------------------------- */

static char *note_of(const struct pods *p)
{
    return tn_asprintf("%s/kubernetes", p->host->state);
}

/* This state makes sandboxes there. */
int pods_note_use(const struct pods *p, struct tn_error *err)
{
    tn_autofree char *path = note_of(p);
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    return fd < 0 ? tn_fail_errno(err, errno, "%s", path) : 0;
}

static bool was_used(const struct pods *p)
{
    tn_autofree char *path = note_of(p);
    const char *runtime = p->host->config->tendon.runtime;

    return access(path, F_OK) == 0 ||
           (runtime && (strcmp(runtime, "kubernetes") == 0 || strcmp(runtime, "k8s") == 0));
}

/* --- the place -------------------------------------------------------------------------------- */

static char *ref_of(const struct pods *p, bool stopped)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "server", kube_server(p->kube));
    tn_jw_kstr(&w, "namespace", p->namespace);
    if (stopped)
        tn_jw_kbool(&w, "stopped", true);
    tn_jw_object_end(&w);
    return tn_buf_take(&out);
}

/* Whether we have stopped it; -1 when it lives where this configuration does not lead. */
static int read_ref(const struct pods *p, const struct tn_subject *s, bool *stopped,
                    struct tn_error *err)
{
    tn_autojson struct tn_json *ref = NULL;

    *stopped = false;
    if (!s->ref || tn_json_parse(s->ref, strlen(s->ref), &ref, NULL) < 0)
        return 0;
    const char *server = tn_json_get_str(ref, "server", kube_server(p->kube));
    const char *namespace = tn_json_get_str(ref, "namespace", p->namespace);
    *stopped = tn_json_bool(tn_json_get(ref, "stopped"), false);
    if (strcmp(server, kube_server(p->kube)) == 0 && strcmp(namespace, p->namespace) == 0)
        return 0;
    return tn_fail(err, TN_E_CONFLICT,
                   "it lives in namespace %s of %s, but the configuration says %s of %s", namespace,
                   server, p->namespace, kube_server(p->kube));
}

static bool has_limit(const struct tn_json *container, const char *name)
{
    const struct tn_json *limits = tn_json_get(tn_json_get(container, "resources"), "limits");

    return tn_json_get(limits, name);
}

static const struct {
    const char *network, *reaches;
} reaches[] = {
    {"none",
     "nothing but its hand is reached, if the cluster's network plugin keeps NetworkPolicy"},
    {"open", "the internet and no address of the cluster, if its network plugin keeps "
             "NetworkPolicy"},
    {"gated", "what its gate lets through"},
    {"bridge", "whatever pods of this cluster reach"},
};

/* The names are those of the jail. */
static char *isolation_of(const struct pods *p, const struct tn_json *pod)
{
    const struct tn_json *spec = tn_json_get(pod, "spec");
    const struct tn_json *container = tn_json_at(tn_json_get(spec, "containers"), 0);
    const struct tn_json *rights = tn_json_get(container, "securityContext");
    const struct tn_json *labels = tn_json_get(tn_json_get(pod, "metadata"), "labels");
    const char *network = tn_json_get_str(labels, POD_NETWORK, "bridge");
    const char *class = tn_json_get_str(spec, "runtimeClassName", "");
    bool privileged = tn_json_bool(tn_json_get(rights, "privileged"), false);
    tn_autofree char *node = kube_line(tn_json_get_str(spec, "nodeName", ""));
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "engine", "kubernetes");
    tn_jw_kstr(&w, "node", node);
    tn_jw_kstr(&w, "reached_by", pods_by_proxy(p) ? "the API server's proxy" : "the pod's address");
    tn_jw_kstr(&w, "runtime_class", class);
    tn_jw_kbool(&w, "gvisor",
                *class && strcmp(class, p->host->config->kubernetes.runtime_class_gvisor) == 0);
    tn_jw_kbool(&w, "privileged", privileged);
    tn_jw_kint(&w, "uid",
               tn_json_int(tn_json_get(tn_json_get(spec, "securityContext"), "runAsUser"), -1));
    tn_jw_kbool(&w, "pid", true);
    tn_jw_kbool(&w, "mount", true);
    tn_jw_kbool(&w, "ipc", true);
    tn_jw_kbool(&w, "uts", true);
    tn_jw_kbool(&w, "gated", strcmp(network, pod_networks[POD_NETWORK_GATED]) == 0);
    tn_jw_kstr(&w, "reach", network);
    for (size_t i = 0; i < TN_COUNT(reaches); i++)
        if (strcmp(reaches[i].network, network) == 0)
            tn_jw_kstr(&w, "reaches", reaches[i].reaches);
    tn_jw_kbool(&w, "seccomp", !privileged);
    tn_jw_kbool(&w, "no_new_privs", !privileged);
    tn_jw_kbool(&w, "capabilities", tn_json_get(rights, "capabilities") != NULL);
    tn_jw_kbool(&w, "memory_limit", has_limit(container, "memory"));
    tn_jw_kbool(&w, "cpu_limit", has_limit(container, "cpu"));
    tn_jw_kbool(&w, "disk_limit", has_limit(container, "ephemeral-storage"));
    tn_jw_kbool(&w, "pids_limit", false);
    tn_jw_object_end(&w);
    return tn_buf_take(&out);
}

void pods_fill_place(const struct pods *p, const struct tn_subject *s, const struct tn_json *pod,
                     struct pod_cause *cause, struct tn_place *place)
{
    tn_autofree char *name = pod_name(s->id, "");

    *place = (struct tn_place){.status = cause->status,
                               .blame = cause->blame,
                               .reason = TN_TAKE_PTR(cause->reason),
                               .ref = ref_of(p, cause->status == TN_STATUS_STOPPED),
                               .isolation = isolation_of(p, pod)};
    if (place->status == TN_STATUS_RUNNING)
        place->address = pods_address(p, pod, name);
}

/* --- looking ---------------------------------------------------------------------------------- */

/* Its Secret, and its pod; either may be NULL. */
struct view {
    struct tn_json *secret, *pod;
    bool stopped; /* by us, as the ref has it */
};

static void view_done(struct view *v)
{
    tn_json_free(v->secret);
    tn_json_free(v->pod);
}

static int look(const struct pods *p, const struct tn_subject *s, bool whole, struct view *v,
                int64_t deadline, struct tn_error *err)
{
    tn_autofree char *secret = pod_name(s->id, "-key"), *pod = pod_name(s->id, "");

    if (read_ref(p, s, &v->stopped, err) < 0 ||
        pods_get(p, "pods", pod, s->id, &v->pod, deadline, err) < 0)
        return -1;
    if (v->pod && !whole)
        return 0;
    return pods_get(p, "secrets", secret, s->id, &v->secret, deadline, err);
}

/* One without a pod. */
static void fill_rest(const struct pods *p, const struct tn_subject *s, const struct view *v,
                      struct tn_place *place, int64_t deadline)
{
    tn_autofree char *name = pod_name(s->id, "");

    *place = (struct tn_place){.status = v->stopped ? TN_STATUS_STOPPED : TN_STATUS_ERROR,
                               .ref = ref_of(p, v->stopped),
                               .isolation = tn_strdup("{\"engine\": \"kubernetes\"}")};
    if (v->stopped)
        return;
    tn_autofree char *words = pods_warning(p, name, deadline);
    place->reason = tn_asprintf("its pod is gone: somebody has deleted it, or its node is%s%s%s",
                                words ? " (" : "", words ? words : "", words ? ")" : "");
}

int pods_inspect(void *engine, const struct tn_subject *s, struct tn_place *place, int64_t deadline,
                 struct tn_error *err)
{
    const struct pods *p = engine;
    TN_CLEANUP(view_done) struct view v = {0};
    autopodcause struct pod_cause cause = {0};

    *place = (struct tn_place){.status = TN_STATUS_MISSING};
    if (look(p, s, false, &v, deadline, err) < 0)
        return tn_error_context(err, "kubernetes: sandbox %s", s->id);
    if (!v.pod && !v.secret)
        return 0;
    /* The cluster does not know its owner: the first of ours that looks ends what it left. */
    if (s->owner.pid && !tn_proc_state(s->owner.pid, s->owner.start))
        return pods_drive(engine, s, TN_GOAL_GONE, place, deadline, err);
    if (!v.pod) {
        fill_rest(p, s, &v, place, deadline);
        return 0;
    }
    pod_cause(v.pod, &cause);
    pods_fill_place(p, s, v.pod, &cause, place);
    pods_add_refusals(p, s, place, deadline);
    return 0;
}

/* --- driving ---------------------------------------------------------------------------------- */

static int has_claim(const struct pods *p, const struct tn_subject *s, bool *kept, int64_t deadline,
                     struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "-pvc");
    tn_autojson struct tn_json *claim = NULL;

    if (pods_get(p, "persistentvolumeclaims", name, s->id, &claim, deadline, err) < 0)
        return -1;
    *kept = claim != NULL;
    return 0;
}

static int end_pod(const struct pods *p, const struct tn_subject *s, const struct tn_json *pod,
                   int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "");

    if (!pod)
        return 0;
    return pods_delete(p, "pods", name, pods_uid(pod), deadline, err) < 0
               ? -1
               : pods_await_end(p, "pods", name, deadline, err);
}

/* The subject says it at its create alone; the Secret keeps it. */
static bool is_anonymous(const struct tn_json *secret)
{
    const struct tn_json *notes = tn_json_get(tn_json_get(secret, "metadata"), "annotations");

    return tn_json_has(notes, POD_ANONYMOUS);
}

static int drive_running(struct pods *p, const struct tn_subject *s, const struct view *v,
                         bool kept, struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    struct pod_plan plan = {.config = p->host->config,
                            .subject = s,
                            .mark = p->mark,
                            .namespace = p->namespace,
                            .owner = pods_uid(v->secret),
                            .kept = kept,
                            .anonymous = is_anonymous(v->secret)};
    autopodcause struct pod_cause cause = {.status = TN_STATUS_STOPPED};

    if (v->pod)
        pod_cause(v->pod, &cause);
    int64_t soon = tn_deadline_in(UP_SECONDS);
    if (cause.status == TN_STATUS_RUNNING &&
        pods_await_hand(p, s, v->pod, &cause, soon < deadline ? soon : deadline, NULL) == 0) {
        pods_fill_place(p, s, v->pod, &cause, place);
        return 0;
    }
    /* Whoever has made the pod may have been killed before the hand was in it. */
    if (cause.status == TN_STATUS_RUNNING || cause.status == TN_STATUS_STARTING || cause.patient)
        return pods_settle(p, s, place, deadline, err);
    if (!kept)
        return tn_fail(err, TN_E_UNSUPPORTED, "its files ended with its pod%s%s",
                       cause.reason ? ": " : "", cause.reason ? cause.reason : "");
    if (end_pod(p, s, v->pod, deadline, err) < 0 ||
        pods_choose_network(p, &plan, deadline, err) < 0)
        return -1;
    return pods_start(p, &plan, place, deadline, err);
}

static int drive_stopped(const struct pods *p, const struct tn_subject *s, struct view *v,
                         bool kept, struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    if (!kept)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "stop: its workspace would end with its pod: there is no claim "
                       "(kubernetes.workspace_volume, a storage class)");
    if (end_pod(p, s, v->pod, deadline, err) < 0)
        return -1;
    v->stopped = true;
    fill_rest(p, s, v, place, deadline);
    return 0;
}

/* The Secret goes with all that it owns; what somebody has cut off from it goes too. */
static int remove_all(const struct pods *p, const struct tn_subject *s, int64_t deadline,
                      struct tn_error *err)
{
    static const struct {
        const char *kind, *after;
    } all[] = {{"secrets", "-key"}, {"pods", ""}, {"persistentvolumeclaims", "-pvc"}};
    struct tn_error first = {0};
    bool stopped;

    if (read_ref(p, s, &stopped, err) < 0)
        return -1;
    /* All are told to go before one is waited for. */
    for (size_t i = 0; i < 2 * TN_COUNT(all); i++) {
        const char *kind = all[i % TN_COUNT(all)].kind;
        tn_autofree char *name = pod_name(s->id, all[i % TN_COUNT(all)].after);
        tn_autojson struct tn_json *object = NULL;
        struct tn_error why = {0};
        if (pods_get(p, kind, name, s->id, &object, deadline, &why) < 0 ||
            (object &&
             (i < TN_COUNT(all) ? pods_delete(p, kind, name, pods_uid(object), deadline, &why)
                                : pods_await_end(p, kind, name, deadline, &why)) < 0))
            first = first.code ? first : why;
    }
    return first.code ? tn_fail(err, first.code, "%s", first.text) : 0;
}

static int drive(struct pods *p, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    TN_CLEANUP(view_done) struct view v = {0};
    bool kept;

    if (goal == TN_GOAL_PAUSED || goal == TN_GOAL_SUSPENDED)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "%s: Kubernetes keeps the files of a pod alone: stop it instead",
                       tn_goal_words[goal]);
    if (goal == TN_GOAL_GONE) {
        *place = (struct tn_place){.status = TN_STATUS_MISSING};
        return remove_all(p, s, deadline, err);
    }
    if (look(p, s, true, &v, deadline, err) < 0 || has_claim(p, s, &kept, deadline, err) < 0)
        return -1;
    if (!v.secret)
        return tn_fail(err, TN_E_NOT_FOUND, "the cluster has no such sandbox");
    return goal == TN_GOAL_RUNNING ? drive_running(p, s, &v, kept, place, deadline, err)
                                   : drive_stopped(p, s, &v, kept, place, deadline, err);
}

int pods_drive(void *engine, const struct tn_subject *s, enum tn_goal goal, struct tn_place *place,
               int64_t deadline, struct tn_error *err)
{
    *place = (struct tn_place){0};
    if (drive(engine, s, goal, place, deadline, err) == 0)
        return 0;
    return tn_error_context(err, "kubernetes: sandbox %s", s->id);
}

/* --- list ------------------------------------------------------------------------------------- */

enum { IDS_MAX = 16 << 20 };

/* Told at the end: what is done about each may take longer than the list. */
struct listing {
    const struct pods *p;
    struct tn_buf ids; /* one after the other, each with its end */
};

static int note_own(enum kube_change change, const struct tn_json *object, void *ctx)
{
    struct listing *l = ctx;
    const char *id = change == KUBE_ADDED ? pods_own_id(l->p, object) : NULL;
    tn_autofree char *name = id ? pod_name(id, "-key") : NULL;

    /* A copy of the labels is no sandbox. */
    if (id && strcmp(tn_json_get_str(tn_json_get(object, "metadata"), "name", ""), name) == 0)
        tn_buf_add(&l->ids, id, strlen(id) + 1);
    return change == KUBE_SYNCED;
}

int pods_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err)
{
    const struct pods *p = engine;
    struct listing l = {.p = p, .ids = TN_BUF_INIT(IDS_MAX)};
    tn_autofree char *after = tn_asprintf("?labelSelector=tendon.dev/state%%3D%s", p->mark);
    tn_autofree char *target = pods_target(p, "secrets", after);

    /* Many have a kubeconfig for other things: a cluster that was never used here is not asked. */
    if (!was_used(p))
        return 0;
    int r = kube_watch(p->kube, target, note_own, &l, 0, deadline, err);
    for (size_t i = 0; r == 0 && i < l.ids.len; i += strlen(l.ids.data + i) + 1)
        if (found(l.ids.data + i, ctx))
            break;
    tn_buf_done(&l.ids);
    return r < 0 ? tn_error_context(err, "kubernetes") : 0;
}
