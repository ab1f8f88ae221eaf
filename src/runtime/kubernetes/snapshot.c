/* Snapshots of workspaces: VolumeSnapshots of the claim, and claims that begin with one.  A
 * snapshot belongs to the Secret of its sandbox, as everything does; that of a fork to the child.
 */
#include "base/clock.h"
#include "net/proof.h"
#include "runtime/kubernetes/pods.h"

#define SYNC_SECONDS 10.0
#define API "snapshot.storage.k8s.io/v1"
#define CLASSES "/apis/" API "/volumesnapshotclasses?limit=1"

/* What follows the sandbox's name in that of its snapshot: names of ours are often none of the
 * cluster's. */
static char *after_of(const char *name)
{
    char digest[TN_PROOF_DIGITS + 1];

    tn_proof_digest(name, digest);
    return tn_asprintf("-snap-%.16s", digest);
}

static int must_have_class(const struct pods *p, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *classes = NULL;
    struct tn_error why = {0};

    int r = kube_call(p->kube, &(struct kube_call){.target = CLASSES}, &classes, deadline, &why);
    /* They are the cluster's: who may not see them tries. */
    if (r < 0 && why.code != TN_E_NOT_FOUND)
        return why.code == TN_E_DENIED ? 0 : tn_fail(err, why.code, "%s", why.text);
    if (r < 0 || !tn_json_count(tn_json_get(classes, "items")))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "this cluster has no snapshots of volumes: that takes a CSI driver that "
                       "makes them and a VolumeSnapshotClass");
    return 0;
}

/* What the cluster has said of a snapshot last. */
struct progress {
    bool gone;
    char *words;
};

static int note_snapshot(enum kube_change change, const struct tn_json *object, void *ctx)
{
    struct progress *g = ctx;
    const struct tn_json *status = tn_json_get(object, "status");

    if (change == KUBE_SYNCED)
        return 0;
    g->gone = change == KUBE_DELETED;
    free(g->words);
    g->words = kube_line(tn_json_get_str(tn_json_get(status, "error"), "message", ""));
    return g->gone || tn_json_bool(tn_json_get(status, "readyToUse"), false);
}

/* An error of it may pass: the cluster tries again for as long as it is there. */
static int await_ready(const struct pods *p, const char *name, int64_t deadline,
                       struct tn_error *err)
{
    tn_autofree char *after = tn_asprintf("?fieldSelector=metadata.name%%3D%s", name);
    tn_autofree char *target = pods_target(p, "volumesnapshots", after);
    struct progress g = {0};
    struct tn_error why = {0};

    int r = kube_watch(p->kube, target, note_snapshot, &g, 0, deadline, &why);
    if (r < 0)
        tn_fail(err, why.code, "%.200s%s%.250s", why.text, g.words && *g.words ? ": " : "",
                g.words ? g.words : "");
    else if (g.gone)
        r = tn_fail(err, TN_E_GONE, "somebody has deleted it");
    free(g.words);
    return r;
}

int pods_make_snapshot(const struct pods *p, const struct pod_plan *plan, const char *after,
                       const char *claim, int64_t deadline, struct tn_error *err)
{
    const char *class = p->host->config->kubernetes.snapshot_class;
    tn_autobuf struct tn_buf body = TN_BUF_INIT(POD_MANIFEST_MAX);
    tn_autofree char *name = pod_name(plan->subject->id, after);
    struct tn_jw w = tn_jw(&body);

    pod_open(plan, API, "VolumeSnapshot", after, &w);
    tn_jw_object_end(&w);
    if (class && *class)
        pod_json(&w, "spec",
                 "{\"volumeSnapshotClassName\":%s,\"source\":{\"persistentVolumeClaimName\":%s}}",
                 class, claim);
    else
        pod_json(&w, "spec", "{\"source\":{\"persistentVolumeClaimName\":%s}}", claim);
    return pod_close(&w, err) < 0 ||
                   pods_make(p, "volumesnapshots", name, plan->subject->id, &body, NULL,
                             plan->subject->cancel, deadline, err) < 0 ||
                   await_ready(p, name, deadline, err) < 0
               ? -1
               : 0;
}

/* The claim of a sandbox, all of whose writes so far are to be in a snapshot. */
static int settle_claim(const struct pods *p, const struct tn_subject *s, char **claim,
                        int64_t deadline, struct tn_error *err)
{
    static const char *const argv[] = {"sync", NULL};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *object = NULL;
    int status;

    *claim = pod_name(s->id, "-pvc");
    if (pods_get(p, "persistentvolumeclaims", *claim, s->id, &object, deadline, err) < 0)
        return -1;
    if (!object)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "its workspace is no claim (kubernetes.workspace_volume): there is nothing "
                       "to take a snapshot of");
    pods_exec((void *)p, s, argv, &out, &status, tn_deadline_within(SYNC_SECONDS, deadline), NULL);
    return 0;
}

static int failed(const struct tn_subject *s, const char *name, struct tn_error *err)
{
    return tn_error_context(err, "kubernetes: sandbox %s: snapshot %s", s->id, name ? name : "");
}

int pods_snapshot(void *engine, const struct tn_subject *s, const char *name, int64_t deadline,
                  struct tn_error *err)
{
    const struct pods *p = engine;
    tn_autofree char *after = after_of(name), *claim = NULL;
    tn_autojson struct tn_json *owner = NULL;

    if (must_have_class(p, deadline, err) < 0 || settle_claim(p, s, &claim, deadline, err) < 0 ||
        pods_must_have(p, s, &owner, deadline, err) < 0)
        return failed(s, name, err);
    const struct pod_plan plan = pods_plan(p, s, owner);
    return pods_make_snapshot(p, &plan, after, claim, deadline, err) < 0 ? failed(s, name, err) : 0;
}

int pods_forget(void *engine, const struct tn_subject *s, const char *name, int64_t deadline,
                struct tn_error *err)
{
    tn_autofree char *after = after_of(name), *object = pod_name(s->id, after);

    return pods_remove(engine, "volumesnapshots", object, s->id, deadline, err) < 0
               ? failed(s, name, err)
               : 0;
}

/* The object's name of a snapshot that is there. */
static char *must_have(const struct pods *p, const struct tn_subject *s, const char *name,
                       int64_t deadline, struct tn_error *err)
{
    tn_autofree char *after = after_of(name), *object = pod_name(s->id, after);
    tn_autojson struct tn_json *there = NULL;

    if (pods_get(p, "volumesnapshots", object, s->id, &there, deadline, err) < 0)
        return NULL;
    if (!there)
        tn_fail(err, TN_E_NOT_FOUND, "the cluster has none of that name");
    return there ? TN_TAKE_PTR(object) : NULL;
}

int pods_rollback(void *engine, const struct tn_subject *s, const char *name,
                  struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    struct pods *p = engine;
    tn_autofree char *object = must_have(p, s, name, deadline, err), *pod = pods_name(s);
    tn_autofree char *claim = pod_name(s->id, "-pvc");
    tn_autojson struct tn_json *secret = NULL, *there = NULL;

    *place = (struct tn_place){0};
    return !object || pods_must_have(p, s, &secret, deadline, err) < 0 ||
                   pods_get(p, "pods", pod, s->id, &there, deadline, err) < 0 ||
                   pod_check(p->host->config, s->spec, err) < 0 ||
                   pods_check_class(p, s->spec, deadline, err) < 0 ||
                   pods_end_pod(p, s, secret, there, deadline, err) < 0 ||
                   pods_remove(p, "persistentvolumeclaims", claim, s->id, deadline, err) < 0 ||
                   pods_create_from(p, s, object, NULL, place, deadline, err) < 0
               ? failed(s, name, err)
               : 0;
}

int pods_fork(void *engine, const struct tn_subject *s, const char *name,
              const struct tn_subject *child, struct tn_place *place, int64_t deadline,
              struct tn_error *err)
{
    struct pods *p = engine;
    tn_autofree char *object =
        name ? must_have(p, s, name, deadline, err) : pod_name(child->id, "-from");
    tn_autofree char *claim = NULL;

    *place = (struct tn_place){0};
    if (!object || must_have_class(p, deadline, err) < 0 ||
        (!name && settle_claim(p, s, &claim, deadline, err) < 0) ||
        pods_create_from(p, child, object, claim, place, deadline, err) < 0)
        return failed(s, name, err);
    /* The child has its files; their source is not kept for it. */
    if (!name)
        pods_remove(p, "volumesnapshots", object, child->id, deadline, NULL);
    return 0;
}
