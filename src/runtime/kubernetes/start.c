/* From nothing, or from a Secret, to a pod with a hand that answers. */
#include <poll.h>

#include "base/clock.h"
#include "runtime/hand-client.h"
#include "runtime/kubernetes/pods.h"

#define LOOK_SECONDS 1.0 /* between two looks at whether a pod with a silent hand still lives */
#define END_SECONDS 10.0 /* for the cluster to say that a container has ended */
enum {
    DIRECT_LOOKS = 2,  /* after which the address of a pod is believed to lead nowhere */
    PATIENT_LOOKS = 4, /* after which the way to it is believed to take longer, by as much again */
    LONGEST_LOOK = 5,
};

/* --- waiting for a pod ------------------------------------------------------------------------ */

struct wait {
    struct pod_cause cause;
    struct tn_json *pod; /* as it was told last */
    bool patient;        /* whoever waits knows that no node has room, */
    bool volume;         /* or that there is no volume yet */
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
    return w->cause.patient != w->patient || w->cause.volume != w->volume ||
           (!w->patient && w->cause.status != TN_STATUS_STARTING);
}

/* Until the container runs.  A pod for which no node has room may wait for one a while: others end,
 * and clusters grow.  Who makes volumes takes his time. */
static int await_running(const struct pods *p, const struct tn_subject *s, struct wait *w,
                         int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pods_name(s);
    int64_t patience = TN_NEVER;
    struct tn_error why = {0};

    do {
        int64_t until = w->patient && patience < deadline ? patience : deadline;
        int r = pods_follow(p, "pods", name, note_pod, w, s->cancel, until, &why);
        if (r < 0 && !(why.code == TN_E_TIMEOUT && w->patient)) {
            return tn_fail(err, why.code, "its pod does not run: %s",
                           why.code == TN_E_TIMEOUT ? "not in time" : why.text);
        }
        if (w->gone)
            return tn_fail(err, TN_E_GONE, "somebody has deleted its pod");
        if (r < 0)
            break; /* still no node */
        if (w->cause.volume)
            patience = TN_NEVER;
        else if (w->cause.patient && (!w->patient || w->volume))
            patience = tn_deadline_in(p->host->config->kubernetes.schedule_seconds);
        w->patient = w->cause.patient;
        w->volume = w->cause.volume;
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

static struct tn_hand_client *client_of(const struct pods *p, const struct tn_subject *s,
                                        const struct tn_json *pod, bool proxied,
                                        struct tn_error *err)
{
    tn_autofree char *address = pods_address(p, s, pod, proxied);

    if (!address)
        tn_fail(err, TN_E_PEER, "its pod has no address");
    return address ? tn_hand_client_new(address, s->key, err) : NULL;
}

int pods_await_hand(const struct pods *p, const struct tn_subject *s, const struct tn_json *from,
                    bool *proxied, struct pod_cause *cause, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pods_name(s);
    struct tn_hand_client *client = client_of(p, s, from, *proxied, err);
    bool chosen = p->host->config->kubernetes.reach != TN_KUBERNETES_AUTO;
    int result = client ? 1 : -1;

    for (int looks = 0; result > 0; looks++) {
        if (looks == DIRECT_LOOKS && !*proxied && !chosen) {
            tn_hand_client_free(client);
            *proxied = true;
            client = client_of(p, s, from, true, err);
            if (!client)
                return -1;
        }
        int longer = 1 + looks / PATIENT_LOOKS;
        int64_t soon = tn_deadline_within(
            LOOK_SECONDS * (longer < LONGEST_LOOK ? longer : LONGEST_LOOK), deadline);
        tn_autojson struct tn_json *pod = NULL;
        struct tn_error why = {0};
        if (tn_hand_client_wait(client, s->cancel > 0 ? s->cancel : -1, soon, &why) == 0)
            result = 0;
        else if (why.code == TN_E_DENIED && *proxied)
            result = tn_fail(err, TN_E_DENIED,
                             "its hand is not reached through the API server (403): that needs the "
                             "right to get pods/proxy");
        else if (is_cancelled(s, soon)) /* also after an answer that came at once */
            result = tn_fail(err, TN_E_GONE, "cancelled");
        else if (tn_now() >= deadline)
            result = tn_fail(err, why.code, "%s", why.text);
        else if (pods_get(p, "pods", name, s->id, &pod, tn_deadline_within(LOOK_SECONDS, deadline),
                          NULL) < 0)
            continue; /* who does not tell of the pod says nothing of its hand */
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

/* The container executes the hand as soon as it is in: one that ends at once ends the script that
 * has put it in, too.  What the container says of its end is the cause then. */
static int bring_hand(const struct pods *p, const struct tn_subject *s, struct wait *w,
                      bool *proxied, int64_t deadline, struct tn_error *err)
{
    const char *image = p->host->config->kubernetes.hand_image;
    struct tn_error why = {0};
    struct pod_note note;

    pods_read_note(s, &note);
    if (((!*note.pod && image && *image) || pods_put_hand(p, s, deadline, &why) == 0) &&
        (!*note.pod || pods_run_hand(p, s, deadline, &why) == 0))
        return pods_await_hand(p, s, w->pod, proxied, &w->cause, deadline, err);
    if (why.code == TN_E_UNSUPPORTED ||
        why.code == TN_E_DENIED) /* the container had no part in it */
        return tn_fail(err, why.code, "%s", why.text);
    if (pods_await_hand(p, s, w->pod, proxied, &w->cause, tn_deadline_within(END_SECONDS, deadline),
                        err) == 0)
        return 0;
    return w->cause.status == TN_STATUS_RUNNING ? tn_fail(err, why.code, "%s", why.text) : -1;
}

/* From a pod that was told to run to one with a hand. */
int pods_settle(const struct pods *p, const struct tn_subject *s, struct tn_place *place,
                int64_t deadline, struct tn_error *err)
{
    TN_CLEANUP(wait_done) struct wait w = {0};
    bool proxied = pods_by_proxy(p, s);

    if (await_running(p, s, &w, deadline, err) < 0 ||
        bring_hand(p, s, &w, &proxied, deadline, err) < 0) {
        place->blame = w.cause.blame;
        return -1;
    }
    pods_fill_place(p, s, w.pod, proxied, &w.cause, place, deadline);
    return 0;
}

/* Never a wider one than was meant: who bounds a tenant's network relies on it. */
int pods_choose_network(struct pods *p, struct pod_plan *plan, int64_t deadline,
                        struct tn_error *err)
{
    struct tn_error why = {0};

    plan->network = pod_choose_network(plan->config, plan->subject->spec);
    if (pods_ensure_policies(p, plan->network, deadline, &why) == 0)
        return 0;
    return tn_fail(err, why.code, "%s%s", why.text,
                   why.code == TN_E_DENIED
                       ? " (somebody who may has to make it; network bridge does without)"
                       : "");
}

/* What an API server, or somebody's admission, has left out of the pod that was asked for: walls
 * and a network that were wanted are never done without. */
static int check_made(const struct pod_plan *plan, const struct tn_json *pod, struct tn_error *err)
{
    const struct tn_json *spec = tn_json_get(pod, "spec");
    const struct tn_json *labels = pods_meta(pod, "labels");
    const char *class = pod_class(plan->config, plan->subject->spec);
    const char *given = tn_json_get_str(spec, "runtimeClassName", "");
    const char *network = tn_json_get_str(labels, POD_NETWORK, "");

    /* One that knows no such volumes leaves that out, and an empty one remains. */
    if (pod_mounts_image(plan) &&
        !tn_json_get(pod_find(tn_json_get(spec, "volumes"), "hand"), "image"))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "kubernetes.hand_volume: the cluster has no image volumes (feature gate "
                       "ImageVolume): set it to copy");
    if (class && strcmp(given, class) != 0)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "isolation %s: the cluster has made its pod with the runtime class '%.60s' "
                       "instead of %s: an admission webhook or policy changes it",
                       tn_config_isolation(plan->config, plan->subject->spec), given, class);
    if (strcmp(network, pod_networks[plan->network]) != 0)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network: the cluster has made its pod with the label " POD_NETWORK
                       " '%.60s' instead of %s: an admission webhook or policy changes it",
                       network, pod_networks[plan->network]);
    return 0;
}

int pods_start(struct pods *p, struct pod_plan *plan, struct tn_place *place, int64_t deadline,
               struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(POD_MANIFEST_MAX);
    const struct tn_subject *s = plan->subject;
    tn_autofree char *name = pods_name(s), *ref = NULL;
    tn_autojson struct tn_json *object = NULL;
    struct tn_subject made = *s;
    struct tn_error why = {0};

    if (pods_make_gate(p, plan, deadline, err) < 0 ||
        (plan->as == POD_AS_POD && pod_put_pod(plan, &body, err) < 0))
        return -1;
    if ((plan->as == POD_AS_POD
             ? pods_make(p, "pods", name, s->id, &body, &object, s->cancel, deadline, &why)
             : pods_have_made(p, plan, &ref, deadline, &why)) < 0)
        return strstr(why.text, "RuntimeClass")
                   ? tn_fail(err, TN_E_UNSUPPORTED, "isolation %s: %s",
                             tn_config_isolation(plan->config, s->spec), why.text)
               : strstr(why.text, "PodSecurity") && plan->network == POD_NETWORK_GATED
                   ? tn_fail(err, why.code,
                             "its gate lays its rules with NET_ADMIN, which the namespace's "
                             "PodSecurity forbids: label it pod-security.kubernetes.io/enforce="
                             "privileged (%.200s)",
                             why.text)
                   : tn_fail(err, why.code, "%s", why.text);
    if (object && check_made(plan, object, err) < 0) {
        pods_delete(p, "pods", object, false, deadline, NULL);
        return -1;
    }
    if (ref)
        made.ref = ref;
    return pods_settle(p, &made, place, deadline, err);
}

static int choose_storage(struct pods *p, struct pod_plan *plan, int64_t deadline,
                          struct tn_error *err)
{
    const struct tn_config_kubernetes *k = &p->host->config->kubernetes;

    plan->kept = k->workspace_volume == TN_KUBERNETES_CLAIM || plan->snapshot ||
                 (k->pvc_storage_class && *k->pvc_storage_class);
    if (k->workspace_volume == TN_KUBERNETES_EMPTY && !plan->snapshot)
        plan->kept = false;
    else if (!plan->kept)
        return pods_have_storage(p, &plan->kept, deadline, err);
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

static int note_warm(const struct pods *p, const char *version, struct tn_place *place,
                     struct tn_error *err)
{
    const struct tn_subject made = {.ref = place->ref};
    struct pod_note note;

    if (!*version)
        return tn_fail(err, TN_E_PEER, "its Secret has no version: nobody could claim it");
    pods_read_note(&made, &note);
    snprintf(note.warm, sizeof note.warm, "%s", version);
    free(place->ref);
    place->ref = pods_ref(p, &note);
    return 0;
}

/* Who may not look at the cluster's classes hears it when the pod is made. */
int pods_check_class(struct pods *p, const struct tn_spec *spec, int64_t deadline,
                     struct tn_error *err)
{
    const struct tn_config *config = p->host->config;
    const char *name = pod_class(config, spec), *wanted = tn_config_isolation(config, spec);
    struct tn_error why = {0};
    char handler[POD_HANDLER_SIZE];

    if (!name)
        return 0;
    if (pods_handler(p, name, false, handler, deadline, &why) < 0)
        return why.code == TN_E_DENIED
                   ? 0
                   : tn_fail(err, why.code, "isolation %s: %s", wanted, why.text);
    if (!*handler)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "isolation %s: the cluster has no RuntimeClass %s "
                       "(kubernetes.runtime_class_%s)",
                       wanted, name, wanted);
    const char *walls = pod_walls(&config->kubernetes, name, handler);
    return strcmp(walls, wanted) == 0
               ? 0
               : tn_fail(err, TN_E_UNSUPPORTED,
                         "isolation %s: the RuntimeClass %s (kubernetes.runtime_class_%s) is "
                         "handled by %s, which gives isolation %s",
                         wanted, name, wanted, handler, walls);
}

int pods_create_from(struct pods *p, const struct tn_subject *s, const char *snapshot,
                     const char *claim, struct tn_place *place, int64_t deadline,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(POD_MANIFEST_MAX);
    tn_autofree char *name = pod_name(s->id, "-key");
    tn_autojson struct tn_json *secret = NULL;
    struct pod_plan plan = pods_plan(p, s, NULL);
    struct tn_error why = {0};

    plan.snapshot = snapshot;
    if (s->warm && !pods_may(p->kube, "", "secrets", "", "patch", deadline, &why) && !why.code)
        return tn_fail(
            err, TN_E_DENIED,
            "nobody could claim it from its pool: that needs the right to patch secrets");
    if (pod_check(p->host->config, s->spec, err) < 0 ||
        pods_check_version(p, s->spec, deadline, err) < 0 ||
        pods_check_class(p, s->spec, deadline, err) < 0 ||
        pods_choose_network(p, &plan, deadline, err) < 0 ||
        choose_storage(p, &plan, deadline, err) < 0 ||
        pods_choose_kind(p, &plan, deadline, err) < 0 || pod_put_secret(&plan, &body, err) < 0 ||
        pods_note_use(p, err) < 0 ||
        pods_make(p, "secrets", name, s->id, &body, &secret, s->cancel, deadline, err) < 0)
        return -1;
    plan.owner = pods_uid(secret);
    plan.anonymous = pods_is_anonymous(secret);
    plan.as = pods_as(secret);
    if (claim && pods_make_snapshot(p, &plan, "-from", claim, deadline, err) < 0)
        return -1;
    if (make_claim(p, &plan, deadline, err) < 0 || pods_start(p, &plan, place, deadline, err) < 0)
        return -1;
    return s->warm ? note_warm(p, pods_version(secret), place, err) : 0;
}

int pods_create(void *engine, const struct tn_subject *s, struct tn_place *place, int64_t deadline,
                struct tn_error *err)
{
    *place = (struct tn_place){0};
    if (pods_create_from(engine, s, NULL, NULL, place, deadline, err) == 0)
        return 0;
    pods_add_trouble(engine, s->id, err);
    return tn_error_context(err, "create sandbox %s", s->spec->name ? s->spec->name : s->id);
}
