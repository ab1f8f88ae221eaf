/* What a pod's status means: pure functions over what the cluster says.
 *
 * Messages in it come from registries, container runtimes and the sandbox itself: they become one
 * printable line of bounded length. */
#include <signal.h>

#include "runtime/kubernetes/pods.h"

enum { WHAT_MAX = 400 };

void pod_cause_done(struct pod_cause *c)
{
    free(c->reason);
    *c = (struct pod_cause){0};
}

static void fail(struct pod_cause *c, enum tn_code code, enum tn_blame blame, const char *what,
                 const char *said)
{
    tn_autofree char *words = kube_line(said ? said : "");

    *c = (struct pod_cause){.status = TN_STATUS_ERROR, .code = code, .blame = blame};
    c->reason = tn_asprintf("%s%s%s", what, *words ? ": " : "", words);
}

/* --- one container ---------------------------------------------------------------------------- */

/* Reasons of a container that waits and will not start. */
static const struct {
    const char *reason;
    enum tn_code code;
    bool image;
} waits[] = {
    {"ErrImagePull", TN_E_NOT_FOUND, true},
    {"ImagePullBackOff", TN_E_NOT_FOUND, true},
    {"ErrImageNeverPull", TN_E_NOT_FOUND, true},
    {"InvalidImageName", TN_E_INVALID, true},
    {"ImageInspectError", TN_E_PEER, true},
    {"RegistryUnavailable", TN_E_PEER, true},
    {"SignatureValidationFailed", TN_E_DENIED, true},
    {"CreateContainerConfigError", TN_E_INVALID, false},
    {"CreateContainerError", TN_E_PEER, false},
    {"RunContainerError", TN_E_PEER, false},
    {"CrashLoopBackOff", TN_E_PEER, false},
};

const struct tn_json *pod_find(const struct tn_json *list, const char *name)
{
    for (size_t i = 0; i < tn_json_count(list); i++)
        if (strcmp(tn_json_get_str(tn_json_at(list, i), "name", ""), name) == 0)
            return tn_json_at(list, i);
    return NULL;
}

static void out_of_memory(const struct tn_json *pod, struct pod_cause *c)
{
    const struct tn_json *container =
        pod_find(tn_json_get(tn_json_get(pod, "spec"), "containers"), POD_CONTAINER);
    const struct tn_json *limits = tn_json_get(tn_json_get(container, "resources"), "limits");
    double limit = 0;
    char what[80] = "killed: out of memory";

    if (pod_quantity(tn_json_get_str(limits, "memory", ""), &limit) == 0)
        snprintf(what, sizeof what, "killed: out of memory (limit %.0f MiB)", limit / 0x1p20);
    fail(c, TN_E_PEER, TN_BLAME_MEMORY, what, NULL);
}

static void ended(const struct tn_json *pod, const struct tn_json *state, const char *who,
                  struct pod_cause *c)
{
    int64_t code = tn_json_int(tn_json_get(state, "exitCode"), -1);
    const char *message = tn_json_get_str(state, "message", "");
    const char *reason = tn_json_get_str(state, "reason", "");
    char what[120];

    if (strcmp(reason, "OOMKilled") == 0) {
        out_of_memory(pod, c);
        return;
    }
    if (strcmp(reason, "StartError") == 0 || strcmp(reason, "ContainerCannotRun") == 0) {
        snprintf(what, sizeof what, "the image cannot run %s", who);
        fail(c, TN_E_PEER, TN_BLAME_IMAGE, what, message);
        return;
    }
    if (code > 128 && code < 128 + 65)
        snprintf(what, sizeof what, "%s was killed by signal %lld (%s)", who, (long long)code - 128,
                 sigabbrev_np((int)code - 128) ? sigabbrev_np((int)code - 128) : "?");
    else
        snprintf(what, sizeof what, "%s ended with status %lld", who, (long long)code);
    fail(c, TN_E_PEER, TN_BLAME_NONE, what, message);
}

/* What a container's state makes of the pod; false: nothing. */
static bool judge_container(const struct tn_json *pod, const struct tn_json *status, bool init,
                            struct pod_cause *c)
{
    const struct tn_json *state = tn_json_get(status, "state");
    const struct tn_json *waiting = tn_json_get(state, "waiting");
    const struct tn_json *terminated = tn_json_get(state, "terminated");
    const char *reason = tn_json_get_str(waiting, "reason", "");
    const char *who = !init ? "the hand"
                      : strcmp(tn_json_get_str(status, "name", ""), "hand") == 0
                          ? "the copy of the hand"
                          : "its gate";
    const char *message = tn_json_get_str(waiting, "message", "");
    /* Also that of a volume is pulled for the container; only the words say which of them failed,
     * before those of a registry. */
    tn_autofree char *own = tn_asprintf("\"%s\"", tn_json_get_str(status, "image", ""));
    const struct tn_json *volumes = tn_json_get(tn_json_get(pod, "spec"), "volumes");
    const char *mounted =
        tn_json_get_str(tn_json_get(pod_find(volumes, "hand"), "image"), "reference", "");
    const char *at = *mounted && !init ? strstr(message, mounted) : NULL;
    const char *box = strstr(message, own);
    bool of_volume = at && !(box && box <= at), hands = init || of_volume;
    tn_autofree char *image = kube_line(of_volume ? mounted : tn_json_get_str(status, "image", ""));
    char what[WHAT_MAX];

    /* A busy kubelet asks again for what it was not told in time. */
    if (strcmp(reason, "CreateContainerConfigError") == 0 && strstr(message, "failed to sync"))
        return false;
    for (size_t i = 0; waiting && i < TN_COUNT(waits); i++)
        if (strcmp(waits[i].reason, reason) == 0) {
            snprintf(what, sizeof what, "%s%s%.200s%s%s",
                     hands            ? "the hand's image (kubernetes.hand_image) "
                     : waits[i].image ? "image "
                                      : "",
                     hands || waits[i].image ? "" : "container of ", image, ": ", reason);
            fail(c, waits[i].code, waits[i].image && !hands ? TN_BLAME_IMAGE : TN_BLAME_NONE, what,
                 message);
            c->image = waits[i].image;
            return true;
        }
    if (!terminated)
        return false;
    if (tn_json_int(tn_json_get(terminated, "exitCode"), -1) != 0) {
        ended(pod, terminated, who, c);
        return true;
    }
    if (!init)
        c->status = TN_STATUS_STOPPED;
    return !init;
}

/* --- the whole pod ---------------------------------------------------------------------------- */

/* Why a pod has failed as a whole: status.reason, or the reason of DisruptionTarget. */
static const struct {
    const char *reason, *says;
    enum tn_code code;
} ends[] = {
    {"Evicted", "evicted by its node", TN_E_PEER},
    {"NodeLost", "its node was lost", TN_E_PEER},
    {"NodeShutdown", "its node was shut down", TN_E_PEER},
    {"Terminated", "its node was shut down", TN_E_PEER},
    {"Preempting", "preempted: a pod of higher priority took its place", TN_E_PEER},
    {"PreemptionByScheduler", "preempted: a pod of higher priority took its place", TN_E_PEER},
    {"DeletionByTaintManager", "its node was lost", TN_E_PEER},
    {"DeletionByPodGC", "its node is gone", TN_E_PEER},
    {"EvictionByEvictionAPI", "evicted", TN_E_PEER},
    {"TerminationByKubelet", "ended by its node", TN_E_PEER},
    {"DeadlineExceeded", "it ran for as long as it may (wall_time)", TN_E_PEER},
    {"UnexpectedAdmissionError", "its node refused it", TN_E_BUSY},
    {"NodeAffinity", "its node refused it", TN_E_BUSY},
    {"OutOfcpu", "its node had no processor left", TN_E_BUSY},
    {"OutOfmemory", "its node had no memory left", TN_E_BUSY},
    {"OutOfpods", "its node had too many pods", TN_E_BUSY},
};

static const struct tn_json *condition(const struct tn_json *status, const char *type,
                                       const char *value)
{
    const struct tn_json *list = tn_json_get(status, "conditions");

    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *one = tn_json_at(list, i);
        if (strcmp(tn_json_get_str(one, "type", ""), type) == 0 &&
            strcmp(tn_json_get_str(one, "status", ""), value) == 0)
            return one;
    }
    return NULL;
}

static bool judge_end(const char *reason, const char *message, struct pod_cause *c)
{
    for (size_t i = 0; i < TN_COUNT(ends); i++)
        if (strcmp(ends[i].reason, reason) == 0) {
            bool memory = strcmp(reason, "Evicted") == 0 && strstr(message, "memory");
            fail(c, ends[i].code, memory ? TN_BLAME_MEMORY : TN_BLAME_NONE, ends[i].says, message);
            return true;
        }
    return false;
}

/* A pod that has failed, or is about to go for a reason of the cluster's. */
static bool judge_pod(const struct tn_json *pod, struct pod_cause *c)
{
    const struct tn_json *status = tn_json_get(pod, "status");
    const struct tn_json *target = condition(status, "DisruptionTarget", "True");
    bool failed = strcmp(tn_json_get_str(status, "phase", ""), "Failed") == 0;
    const char *reason = tn_json_get_str(status, "reason", "");
    const char *message = tn_json_get_str(status, "message", "");

    if (failed && judge_end(reason, message, c))
        return true;
    if (target && (failed || pods_is_going(pod)) &&
        judge_end(tn_json_get_str(target, "reason", ""), tn_json_get_str(target, "message", ""), c))
        return true;
    if (!failed || !*reason)
        return false;
    tn_autofree char *word = kube_line(reason);
    fail(c, TN_E_PEER, TN_BLAME_NONE, word, message);
    return true;
}

static bool judge_containers(const struct tn_json *pod, const char *list, bool init,
                             struct pod_cause *c)
{
    const struct tn_json *all = tn_json_get(tn_json_get(pod, "status"), list);

    for (size_t i = 0; i < tn_json_count(all); i++)
        if ((init || pod_find(all, POD_CONTAINER) == tn_json_at(all, i)) &&
            judge_container(pod, tn_json_at(all, i), init, c))
            return true;
    return false;
}

void pod_cause(const struct tn_json *pod, struct pod_cause *out)
{
    const struct tn_json *status = tn_json_get(pod, "status");
    const struct tn_json *main_one =
        pod_find(tn_json_get(status, "containerStatuses"), POD_CONTAINER);
    const struct tn_json *unplaced = condition(status, "PodScheduled", "False");
    bool going = pods_is_going(pod);

    *out = (struct pod_cause){.status = TN_STATUS_STARTING};
    bool runs = tn_json_get(tn_json_get(main_one, "state"), "running");
    /* A gate that ends beside a sandbox that runs is started again. */
    if (judge_pod(pod, out) || judge_containers(pod, "containerStatuses", false, out) ||
        (!runs && judge_containers(pod, "initContainerStatuses", true, out)))
        return;
    if (strcmp(tn_json_get_str(status, "phase", ""), "Failed") == 0)
        fail(out, TN_E_PEER, TN_BLAME_NONE, "its pod has failed",
             tn_json_get_str(status, "message", ""));
    else if (going)
        fail(out, TN_E_PEER, TN_BLAME_NONE, "its pod is being deleted", NULL);
    else if (unplaced && strcmp(tn_json_get_str(unplaced, "reason", ""), "Unschedulable") == 0) {
        fail(out, TN_E_BUSY, TN_BLAME_NONE, "no node of the cluster can run it",
             tn_json_get_str(unplaced, "message", ""));
        out->patient = true;
        out->volume = strstr(tn_json_get_str(unplaced, "message", ""), "unbound immediate") != NULL;
    } else if (runs && *tn_json_get_str(status, "podIP", "")) {
        out->status = TN_STATUS_RUNNING;
    }
}

/* --- events ----------------------------------------------------------------------------------- */

/* When it was told last; both are in the same form, so that text compares as time does. */
static const char *when(const struct tn_json *event)
{
    const char *last = tn_json_get_str(event, "lastTimestamp", "");
    const char *only = tn_json_get_str(event, "eventTime", "");

    return *last   ? last
           : *only ? only
                   : tn_json_get_str(tn_json_get(event, "metadata"), "creationTimestamp", "");
}

static const char *event_uid(const struct tn_json *event)
{
    return tn_json_get_str(tn_json_get(event, "involvedObject"), "uid", "");
}

/* Clusters warn of how names are resolved in every pod, and of a hand that does not listen yet, or
 * any more, which ends none; but what ends some is no warning. */
static bool is_trouble(const struct tn_json *event)
{
    static const char *const ends_it[] = {"Preempted", "TaintManagerEviction"};
    const char *reason = tn_json_get_str(event, "reason", "");

    for (size_t i = 0; i < TN_COUNT(ends_it); i++)
        if (strcmp(reason, ends_it[i]) == 0)
            return true;
    return strcmp(tn_json_get_str(event, "type", ""), "Warning") == 0 && !strstr(reason, "DNS") &&
           strcmp(reason, "Unhealthy") != 0;
}

static bool is_start(const struct tn_json *event)
{
    return strcmp(tn_json_get_str(event, "reason", ""), "Started") == 0;
}

/* The last of a kind about the pod of that uid (NULL: of all) which was told after that time. */
static const struct tn_json *last_event(const struct tn_json *items,
                                        bool (*kind)(const struct tn_json *event), const char *uid,
                                        const char *after)
{
    const struct tn_json *last = NULL;

    for (size_t i = 0; i < tn_json_count(items); i++) {
        const struct tn_json *event = tn_json_at(items, i);
        if ((!uid || (strcmp(event_uid(event), uid) == 0 && kind(event))) &&
            strcmp(when(event), after) > 0 && (!last || strcmp(when(event), when(last)) >= 0))
            last = event;
    }
    return last;
}

/* A sandbox has had others of that name, whose events are of no interest; nor are those from before
 * a container could start. */
char *pod_last_warning(const struct tn_json *events)
{
    const struct tn_json *items = tn_json_get(events, "items");
    const char *uid = event_uid(last_event(items, NULL, NULL, ""));
    const struct tn_json *start = last_event(items, is_start, uid, "");
    const struct tn_json *last = last_event(items, is_trouble, uid, start ? when(start) : "");

    if (!last)
        return NULL;
    tn_autofree char *reason = kube_line(tn_json_get_str(last, "reason", ""));
    tn_autofree char *message = kube_line(tn_json_get_str(last, "message", ""));
    return tn_asprintf("%s: %s", reason, message);
}
