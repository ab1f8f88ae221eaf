/* From nothing, or from a Secret, to a pod with a hand that answers. */
#include <poll.h>

#include "base/clock.h"
#include "runtime/hand-client.h"
#include "runtime/kubernetes/pods.h"

#define LOOK_SECONDS 1.0  /* between two looks at whether a pod with a silent hand still lives */
#define WORDS_SECONDS 2.0 /* for what events say of something that failed */

/* --- waiting for a pod ------------------------------------------------------------------------ */

struct wait {
    struct pod_cause cause;
    struct tn_json *pod; /* as it was told last */
    bool patient;        /* whoever waits knows that no node has room */
    bool gone;
};

static void wait_done(struct wait *w)
{
    pod_cause_done(&w->cause);
    tn_json_free(w->pod);
}

/* Non-zero once it runs or has failed, and when it begins or ceases to want a node. */
static int note_pod(enum kube_change change, const struct tn_json *object, void *ctx)
{
    struct wait *w = ctx;

    if (change == KUBE_SYNCED)
        return w->pod == NULL && (w->gone = true);
    if (change == KUBE_DELETED)
        return w->gone = true;
    pod_cause_done(&w->cause);
    pod_cause(object, &w->cause);
    tn_json_free(w->pod);
    w->pod = tn_json_copy(object);
    return w->cause.patient != w->patient || (!w->patient && w->cause.status != TN_STATUS_STARTING);
}

/* What the cluster has told of the pod's troubles becomes part of err. */
static int add_warning(const struct pods *p, const char *name, struct tn_error *err)
{
    tn_autofree char *words = pods_warning(p, name, tn_deadline_in(WORDS_SECONDS));

    if (words && err) {
        struct tn_error why = *err;
        tn_fail(err, why.code, "%.250s (%.220s)", why.text, words);
    }
    return -1;
}

/* Until the container runs.  A pod for which no node has room may wait for one a while: others end,
 * and clusters grow. */
static int await_running(const struct pods *p, const struct tn_subject *s, struct wait *w,
                         int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "");
    tn_autofree char *after = tn_asprintf("?fieldSelector=metadata.name%%3D%s", name);
    tn_autofree char *target = pods_target(p, "pods", after);
    int64_t patience = TN_NEVER;
    struct tn_error why = {0};

    do {
        int64_t until = w->patient && patience < deadline ? patience : deadline;
        int r = kube_watch(p->kube, target, note_pod, w, s->cancel, until, &why);
        if (r < 0 && !(why.code == TN_E_TIMEOUT && w->patient)) {
            tn_fail(err, why.code, "its pod does not run: %s", why.text);
            return why.code == TN_E_TIMEOUT ? add_warning(p, name, err) : -1;
        }
        if (w->gone)
            return tn_fail(err, TN_E_GONE, "somebody has deleted its pod");
        if (w->cause.patient && r == 0 && !w->patient)
            patience = tn_deadline_in(p->host->config->kubernetes.schedule_seconds);
        else if (r < 0)
            break; /* still no node */
        w->patient = w->cause.patient;
    } while (w->patient || w->cause.status == TN_STATUS_STARTING);
    if (w->cause.status == TN_STATUS_RUNNING)
        return 0;
    return tn_fail(err, w->cause.code ? w->cause.code : TN_E_PEER, "%s",
                   w->cause.reason ? w->cause.reason : "it has ended");
}

/* Whether nobody wants it any more; says so by that time at the latest. */
static bool is_cancelled(const struct tn_subject *s, int64_t until)
{
    struct pollfd p = {.fd = s->cancel > 0 ? s->cancel : -1, .events = POLLIN};

    return poll(&p, 1, tn_poll_ms(until)) > 0;
}

/* Asks the hand itself, and now and then whether its pod still lives. */
int pods_await_hand(const struct pods *p, const struct tn_subject *s, const struct tn_json *from,
                    struct pod_cause *cause, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "");
    tn_autofree char *address = pods_address(p, from, name);
    struct tn_hand_client *client = address ? tn_hand_client_new(address, s->key, err) : NULL;
    int result = client ? 1 : -1;

    if (!address)
        tn_fail(err, TN_E_PEER, "its pod has no address");

    while (result > 0) {
        int64_t look = tn_deadline_in(LOOK_SECONDS), soon = look < deadline ? look : deadline;
        tn_autojson struct tn_json *pod = NULL;
        struct tn_error why = {0};
        if (tn_hand_client_wait(client, s->cancel > 0 ? s->cancel : -1, soon, &why) == 0)
            result = 0;
        else if (why.code == TN_E_DENIED && strncmp(address, "kube:", 5) == 0)
            result = tn_fail(err, TN_E_DENIED,
                             "its hand is not reached through the API server (403): that needs the "
                             "right to get pods/proxy");
        else if (is_cancelled(s, soon)) /* also after an answer that came at once */
            result = tn_fail(err, TN_E_GONE, "cancelled");
        else if (tn_now() >= deadline)
            result = tn_fail(err, why.code, "%s", why.text);
        else if (pods_get(p, "pods", name, s->id, &pod, deadline, err) < 0)
            result = -1;
        else if (!pod)
            result = tn_fail(err, TN_E_GONE, "somebody has deleted its pod");
        else {
            pod_cause_done(cause);
            pod_cause(pod, cause);
            if (cause->status != TN_STATUS_RUNNING)
                result = tn_fail(err, TN_E_PEER, "%s",
                                 cause->reason ? cause->reason : "the hand has ended");
        }
    }
    tn_hand_client_free(client);
    return result;
}

/* --- starting --------------------------------------------------------------------------------- */

/* From a pod that was told to run to one with a hand. */
int pods_settle(const struct pods *p, const struct tn_subject *s, struct tn_place *place,
                int64_t deadline, struct tn_error *err)
{
    const char *hand_image = p->host->config->kubernetes.hand_image;
    TN_CLEANUP(wait_done) struct wait w = {0};

    if (await_running(p, s, &w, deadline, err) < 0 ||
        (!(hand_image && *hand_image) && pods_put_hand(p, s, deadline, err) < 0) ||
        pods_await_hand(p, s, w.pod, &w.cause, deadline, err) < 0) {
        place->blame = w.cause.blame;
        return -1;
    }
    pods_fill_place(p, s, w.pod, &w.cause, place);
    return 0;
}

/* Never a wider one than was meant: who bounds a tenant's network relies on it. */
int pods_choose_network(struct pods *p, struct pod_plan *plan, int64_t deadline,
                        struct tn_error *err)
{
    struct tn_error why = {0};

    plan->network = pod_choose_network(plan->config, plan->subject->spec);
    if (pods_ensure_policy(p, plan->network, deadline, &why) == 0)
        return 0;
    return tn_fail(err, why.code, "%s%s", why.text,
                   why.code == TN_E_DENIED
                       ? " (somebody who may has to make it; network bridge does without)"
                       : "");
}

int pods_start(struct pods *p, struct pod_plan *plan, struct tn_place *place, int64_t deadline,
               struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(POD_MANIFEST_MAX);
    const struct tn_subject *s = plan->subject;
    tn_autofree char *name = pod_name(s->id, "");

    struct tn_error why = {0};

    if (pods_make_gate(p, plan, deadline, err) < 0 || pod_put_pod(plan, &body, err) < 0)
        return -1;
    if (pods_make(p, "pods", name, s->id, &body, NULL, s->cancel, deadline, &why) < 0)
        return strstr(why.text, "RuntimeClass")
                   ? tn_fail(err, TN_E_UNSUPPORTED, "isolation gvisor: %s", why.text)
               : strstr(why.text, "PodSecurity") && plan->network == POD_NETWORK_GATED
                   ? tn_fail(err, why.code,
                             "its gate lays its rules with NET_ADMIN, which the namespace's "
                             "PodSecurity forbids: label it pod-security.kubernetes.io/enforce="
                             "privileged (%.200s)",
                             why.text)
                   : tn_fail(err, why.code, "%s", why.text);
    return pods_settle(p, s, place, deadline, err);
}

static int choose_storage(struct pods *p, bool *kept, int64_t deadline, struct tn_error *err)
{
    const struct tn_config_kubernetes *k = &p->host->config->kubernetes;

    *kept = k->workspace_volume == TN_KUBERNETES_CLAIM ||
            (k->pvc_storage_class && *k->pvc_storage_class);
    if (k->workspace_volume == TN_KUBERNETES_EMPTY)
        *kept = false;
    else if (!*kept)
        return pods_have_storage(p, kept, deadline, err);
    return 0;
}

static int make_claim(const struct pods *p, const struct pod_plan *plan, int64_t deadline,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(POD_MANIFEST_MAX);
    const struct tn_subject *s = plan->subject;
    tn_autofree char *name = pod_name(s->id, "-pvc");

    if (!plan->kept)
        return 0;
    return pod_put_claim(plan, &body, err) < 0 ? -1
                                               : pods_make(p, "persistentvolumeclaims", name, s->id,
                                                           &body, NULL, s->cancel, deadline, err);
}

static int create(struct pods *p, const struct tn_subject *s, struct tn_place *place,
                  int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(POD_MANIFEST_MAX);
    tn_autofree char *name = pod_name(s->id, "-key");
    tn_autojson struct tn_json *secret = NULL;
    struct pod_plan plan = {.config = p->host->config,
                            .subject = s,
                            .mark = p->mark,
                            .namespace = p->namespace,
                            .anonymous = s->anonymous};

    if (pod_check(p->host->config, s->spec, err) < 0 ||
        pods_choose_network(p, &plan, deadline, err) < 0 ||
        choose_storage(p, &plan.kept, deadline, err) < 0 || pod_put_secret(&plan, &body, err) < 0 ||
        pods_note_use(p, err) < 0 ||
        pods_make(p, "secrets", name, s->id, &body, &secret, s->cancel, deadline, err) < 0)
        return -1;
    plan.owner = pods_uid(secret);
    return make_claim(p, &plan, deadline, err) < 0 ? -1
                                                   : pods_start(p, &plan, place, deadline, err);
}

int pods_create(void *engine, const struct tn_subject *s, struct tn_place *place, int64_t deadline,
                struct tn_error *err)
{
    *place = (struct tn_place){0};
    if (create(engine, s, place, deadline, err) == 0)
        return 0;
    return tn_error_context(err, "create sandbox %s", s->spec->name ? s->spec->name : s->id);
}
