/* The life of a sandbox: looked at, stopped, brought back, removed; what a place says of it. */
#include <fcntl.h>

#include "base/proc.h"
#include "runtime/kubernetes/pods.h"
#include "runtime/owner.h"

#define COLLECT_SECONDS 10.0 /* for the cluster to end what a Secret owns */
#define CLASS_SECONDS 5.0    /* to ask what a RuntimeClass is */
#define UP_SECONDS 3.0       /* for the hand of a pod that runs to answer */

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
        return -1;
    struct pods *p = tn_calloc(1, sizeof *p);
    *p = (struct pods){.host = host, .kube = kube, .namespace = kube_namespace(kube)};
    pthread_mutex_init(&p->lock, NULL);
    tn_state_mark(host->state, p->mark);
    p->mirrors = mirrors_new(p);
    *engine = p;
    return 0;
}

void pods_close(void *engine)
{
    struct pods *p = engine;

    if (!p)
        return;
    mirrors_free(p->mirrors);
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

char *pods_ref(const struct pods *p, const struct pod_note *note)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "server", kube_server(p->kube));
    tn_jw_kstr(&w, "namespace", p->namespace);
    if (note->stopped)
        tn_jw_kbool(&w, "stopped", true);
    if (note->proxied)
        tn_jw_kbool(&w, "proxied", true);
    if (*note->uid)
        tn_jw_kstr(&w, "uid", note->uid);
    if (*note->pod)
        tn_jw_kstr(&w, "pod", note->pod);
    if (*note->warm)
        tn_jw_kstr(&w, "warm", note->warm);
    if (*note->claim)
        tn_jw_kstr(&w, "claim", note->claim);
    tn_jw_object_end(&w);
    return tn_buf_take(&out);
}

void pods_read_note(const struct tn_subject *s, struct pod_note *out)
{
    tn_autojson struct tn_json *ref = NULL;

    *out = (struct pod_note){0};
    if (!s->ref || tn_json_parse(s->ref, strlen(s->ref), &ref, NULL) < 0)
        return;
    out->stopped = tn_json_bool(tn_json_get(ref, "stopped"), false);
    out->proxied = tn_json_bool(tn_json_get(ref, "proxied"), false);
    snprintf(out->warm, sizeof out->warm, "%s", tn_json_get_str(ref, "warm", ""));
    snprintf(out->claim, sizeof out->claim, "%s", tn_json_get_str(ref, "claim", ""));
    snprintf(out->uid, sizeof out->uid, "%s", tn_json_get_str(ref, "uid", ""));
    snprintf(out->pod, sizeof out->pod, "%s", tn_json_get_str(ref, "pod", ""));
}

char *pods_name(const struct tn_subject *s)
{
    struct pod_note note;

    pods_read_note(s, &note);
    return *note.pod ? tn_strdup(note.pod) : pod_name(s->id, "");
}

/* -1 when it lives where this configuration does not lead. */
static int check_ref(const struct pods *p, const struct tn_subject *s, struct tn_error *err)
{
    tn_autojson struct tn_json *ref = NULL;

    if (!s->ref || tn_json_parse(s->ref, strlen(s->ref), &ref, NULL) < 0)
        return 0;
    const char *server = tn_json_get_str(ref, "server", kube_server(p->kube));
    const char *namespace = tn_json_get_str(ref, "namespace", p->namespace);
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
static char *isolation_of(const struct pods *p, const struct tn_json *pod, bool proxied,
                          bool claimed, int64_t deadline)
{
    const struct tn_json *spec = tn_json_get(pod, "spec");
    const struct tn_json *container = pod_find(tn_json_get(spec, "containers"), POD_CONTAINER);
    const struct tn_json *rights = tn_json_get(container, "securityContext");
    const char *network = tn_json_get_str(pods_meta(pod, "labels"), POD_NETWORK, "bridge");
    const char *class = tn_json_get_str(spec, "runtimeClassName", "");
    const struct tn_json *owners = pods_meta(pod, "ownerReferences");
    bool theirs = strcmp(tn_json_get_str(tn_json_at(owners, 0), "kind", ""), "Sandbox") == 0;
    enum pod_as as = claimed ? POD_AS_CLAIM : theirs ? POD_AS_SANDBOX : POD_AS_POD;
    bool privileged = tn_json_bool(tn_json_get(rights, "privileged"), false);
    tn_autofree char *node = kube_line(tn_json_get_str(spec, "nodeName", ""));
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&out);
    char handler[POD_HANDLER_SIZE] = "";

    /* A class that nobody tells of is not taken for what it is called. */
    bool told = !*class ||
                pods_known_handler(p, class, handler, tn_deadline_within(CLASS_SECONDS, deadline));
    const char *walls = told ? pod_walls(&p->host->config->kubernetes, class, handler) : "";
    tn_jw_object(&w);
    tn_jw_kstr(&w, "engine", "kubernetes");
    tn_jw_kstr(&w, "object", pod_kinds[as].word);
    tn_jw_kstr(&w, "node", node);
    tn_jw_kstr(&w, "reached_by", proxied ? "the API server's proxy" : "the pod's address");
    tn_jw_kstr(&w, "runtime_class", class);
    tn_jw_kstr(&w, "runtime_handler", handler);
    tn_jw_kbool(&w, "gvisor", strcmp(walls, "gvisor") == 0);
    tn_jw_kbool(&w, "kata", strcmp(walls, "kata") == 0);
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

static bool is_pending(const struct tn_json *pod)
{
    const char *phase = tn_json_get_str(tn_json_get(pod, "status"), "phase", "");

    return strcmp(phase, "Pending") == 0;
}

void pods_fill_place(const struct pods *p, const struct tn_subject *s, const struct tn_json *pod,
                     bool proxied, struct pod_cause *cause, struct tn_place *place,
                     int64_t deadline)
{
    struct pod_note note;

    pods_read_note(s, &note);
    note.stopped = cause->status == TN_STATUS_STOPPED;
    note.proxied = proxied;
    snprintf(note.uid, sizeof note.uid, "%s", pods_uid(pod));
    *place = (struct tn_place){.status = cause->status,
                               .blame = cause->blame,
                               .reason = TN_TAKE_PTR(cause->reason),
                               .pending = is_pending(pod),
                               .ref = pods_ref(p, &note),
                               .isolation = isolation_of(p, pod, proxied, *note.pod, deadline)};
    if (place->status == TN_STATUS_RUNNING)
        place->address = pods_address(p, s, pod, proxied);
}

/* --- looking ---------------------------------------------------------------------------------- */

/* Its Secret, and its pod; either may be NULL. */
struct view {
    struct tn_json *secret, *pod;
    struct pod_note note;
    bool replaced; /* the pod has our marks, but is not the one that we have made */
};

static void view_done(struct view *v)
{
    tn_json_free(v->secret);
    tn_json_free(v->pod);
}

static int look(const struct pods *p, const struct tn_subject *s, bool whole, struct view *v,
                int64_t deadline, struct tn_error *err)
{
    tn_autofree char *secret = pod_name(s->id, "-key"), *pod = pods_name(s);

    pods_read_note(s, &v->note);
    if (check_ref(p, s, err) < 0 || pods_get(p, "pods", pod, s->id, &v->pod, deadline, err) < 0)
        return -1;
    v->replaced = v->pod && *v->note.uid && strcmp(v->note.uid, pods_uid(v->pod)) != 0;
    if (v->pod && !whole)
        return 0;
    return pods_get(p, "secrets", secret, s->id, &v->secret, deadline, err);
}

/* One without a pod of its own. */
static void fill_rest(const struct pods *p, const struct tn_subject *s, const struct view *v,
                      struct tn_place *place, int64_t deadline)
{
    tn_autofree char *name = pods_name(s);

    *place = (struct tn_place){.status = v->note.stopped ? TN_STATUS_STOPPED : TN_STATUS_ERROR,
                               .ref = pods_ref(p, &v->note),
                               .isolation = tn_strdup("{\"engine\": \"kubernetes\"}")};
    if (v->note.stopped)
        return;
    if (v->replaced) {
        place->reason = tn_strdup("its pod is gone, and another one has its name");
        return;
    }
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
    if (!v.pod || v.replaced) {
        fill_rest(p, s, &v, place, deadline);
        return 0;
    }
    pod_cause(v.pod, &cause);
    pods_fill_place(p, s, v.pod, pods_by_proxy(p, s), &cause, place, deadline);
    pods_add_refusals(p, s, place, deadline);
    return 0;
}

/* --- driving ---------------------------------------------------------------------------------- */

/* One that somebody has deleted stays only for as long as the pod that mounts it. */
static int has_claim(const struct pods *p, const struct tn_subject *s, bool *kept, int64_t deadline,
                     struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "-pvc");
    tn_autojson struct tn_json *claim = NULL;

    if (pods_get(p, "persistentvolumeclaims", name, s->id, &claim, deadline, err) < 0)
        return -1;
    *kept = claim && !pods_is_going(claim);
    return 0;
}

int pods_end_pod(const struct pods *p, const struct tn_subject *s, const struct tn_json *secret,
                 const struct tn_json *pod, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pods_name(s);
    bool theirs = pods_as(secret) == POD_AS_SANDBOX;

    if (!pod && !theirs)
        return 0;
    return (theirs ? pods_suspend(p, s, deadline, err)
                   : pods_delete(p, "pods", pod, false, deadline, err)) < 0
               ? -1
               : pods_await_end(p, "pods", name, deadline, err);
}

static int drive_running(struct pods *p, const struct tn_subject *s, const struct view *v,
                         bool kept, struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    struct pod_plan plan = pods_plan(p, s, v->secret);
    autopodcause struct pod_cause cause = {.status = TN_STATUS_STOPPED};
    bool proxied = pods_by_proxy(p, s);

    plan.kept = kept;
    if (v->pod && !v->replaced)
        pod_cause(v->pod, &cause);
    if (cause.status == TN_STATUS_RUNNING &&
        pods_await_hand(p, s, v->pod, &proxied, &cause, tn_deadline_within(UP_SECONDS, deadline),
                        NULL) == 0) {
        pods_fill_place(p, s, v->pod, proxied, &cause, place, deadline);
        return 0;
    }
    /* Whoever has made the pod may have been killed before the hand was in it. */
    if (cause.status == TN_STATUS_RUNNING || cause.status == TN_STATUS_STARTING || cause.patient)
        return pods_settle(p, s, place, deadline, err);
    if (!kept)
        return tn_fail(err, TN_E_UNSUPPORTED, "its files ended with its pod%s%s",
                       cause.reason ? ": " : "", cause.reason ? cause.reason : "");
    /* What the configuration allows now, and the cluster has. */
    if (pod_check(p->host->config, s->spec, err) < 0 ||
        pods_check_class(p, s->spec, deadline, err) < 0 ||
        pods_end_pod(p, s, v->secret, v->pod, deadline, err) < 0 ||
        pods_choose_network(p, &plan, deadline, err) < 0)
        return -1;
    return pods_start(p, &plan, place, deadline, err);
}

/* Rules, values and an authority are for one start. */
static int remove_gate(const struct pods *p, const struct tn_subject *s, int64_t deadline,
                       struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "-gate");

    return pod_is_gated(p->host->config, s->spec)
               ? pods_remove(p, "secrets", name, s->id, deadline, err)
               : 0;
}

static int drive_stopped(const struct pods *p, const struct tn_subject *s, struct view *v,
                         bool kept, struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    if (!kept)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "stop: its workspace would end with its pod: there is no claim "
                       "(kubernetes.workspace_volume, a storage class)");
    if (pods_end_pod(p, s, v->secret, v->pod, deadline, err) < 0 ||
        remove_gate(p, s, deadline, err) < 0)
        return -1;
    v->note = (struct pod_note){.stopped = true, .proxied = v->note.proxied};
    fill_rest(p, s, v, place, deadline);
    return 0;
}

/* One that may wait in a pool goes only if nobody claims it meanwhile; TN_E_GONE: one has. */
static int remove_secret(const struct pods *p, const struct tn_subject *s,
                         const struct pod_note *note, struct tn_json **secret, int64_t deadline,
                         struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "-key");

    for (int tries = 1; *secret; tries++) {
        struct tn_error why = {0};
        enum pod_whose whose = pods_whose(note, *secret);
        if (whose == POD_TAKEN)
            return tn_fail(err, TN_E_GONE, "another has claimed it");
        if (whose == POD_OURS)
            return pods_delete(p, "secrets", *secret, false, deadline, err);
        if (pods_delete(p, "secrets", *secret, true, deadline, &why) == 0)
            return 0;
        if (why.code != TN_E_CONFLICT || tries == POD_TRIES)
            return tn_fail(err, why.code, "%s", why.text);
        tn_json_free(TN_TAKE_PTR(*secret));
        if (pods_get_now(p, "secrets", name, s->id, secret, deadline, err) < 0)
            return -1;
    }
    return 0;
}

/* The Secret goes with all that it owns: one DELETE. */
static int remove_all(const struct pods *p, const struct tn_subject *s, int64_t deadline,
                      struct tn_error *err)
{
    tn_autofree char *secret = pod_name(s->id, "-key"), *pod = pods_name(s);
    tn_autofree char *claim = pod_name(s->id, "-pvc"), *object = pod_name(s->id, "");
    tn_autojson struct tn_json *owner = NULL;
    struct tn_error why[5] = {0};
    struct pod_note note;

    if (check_ref(p, s, err) < 0)
        return -1;
    pods_read_note(s, &note);
    int failed = pods_get(p, "secrets", secret, s->id, &owner, deadline, &why[0]);
    if (failed == 0)
        failed = remove_secret(p, s, &note, &owner, deadline, &why[0]);
    if (failed < 0 && *note.warm)
        return tn_fail(err, why[0].code, "%s", why[0].text);
    int64_t soon = tn_deadline_within(COLLECT_SECONDS, deadline);
    bool waits = owner && failed == 0 && pods_await_end(p, "secrets", secret, soon, NULL) < 0;
    /* Somebody may have cut the rest off from its Secret, or the cluster's collector does not work.
     * What would bring back the pod goes first; without the Secret nobody knows which it is. */
    for (enum pod_as as = POD_AS_SANDBOX; as < POD_AS_COUNT; as++)
        if (owner ? pods_as(owner) == as
                  : p->host->config->kubernetes.agent_sandbox != TN_KUBERNETES_NEVER)
            pods_remove(p, pod_kinds[as].plural, object, s->id, deadline, &why[4]);
    if (!owner && why[4].code == TN_E_DENIED) /* who may not look at them has made none */
        why[4] = (struct tn_error){0};
    pods_remove(p, "pods", pod, s->id, deadline, &why[1]);
    pods_remove(p, "persistentvolumeclaims", claim, s->id, deadline, &why[2]);
    remove_gate(p, s, deadline, &why[3]);
    if (waits)
        pods_await_end(p, "secrets", secret, deadline, &why[0]);
    for (size_t i = 0; i < TN_COUNT(why); i++)
        if (why[i].code)
            return tn_fail(err, why[i].code, "%s", why[i].text);
    return 0;
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
    pods_add_trouble(engine, s->id, err);
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
    if (id && strcmp(pods_own_name(object), name) == 0)
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
    int r = mirror_each(p, "secrets", note_own, &l);
    if (r < 0)
        r = kube_watch(p->kube, target, note_own, &l, 0, deadline, err);
    for (size_t i = 0; r == 0 && i < l.ids.len; i += strlen(l.ids.data + i) + 1)
        if (found(l.ids.data + i, ctx))
            break;
    tn_buf_done(&l.ids);
    return r < 0 ? tn_error_context(err, "kubernetes") : 0;
}
