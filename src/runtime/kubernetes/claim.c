/* Taking a sandbox out of its pool.
 *
 * The store has one taker for each row, but those who share a namespace need not share a store, and
 * what somebody removes at this moment is no sandbox any more.  So the Secret decides: it has a
 * label while it waits, and whoever takes that away owns it. */
#include "runtime/kubernetes/pods.h"
#include "runtime/owner.h"

enum { CLAIM_TRIES = 8 }; /* against changes that leave it warm: somebody's annotations */

bool pods_is_warm(const struct tn_json *secret)
{
    return tn_json_has(tn_json_get(tn_json_get(secret, "metadata"), "labels"), POD_WARM);
}

/* How the Secret is after a conflict: 1 it is ours, 0 still warm (with its version), -1. */
static int look_again(const struct pods *p, const struct tn_subject *s, const char *token,
                      char **version, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "-key");
    tn_autojson struct tn_json *secret = NULL;

    if (pods_get_now(p, "secrets", name, s->id, &secret, deadline, err) < 0)
        return -1;
    if (!secret || pods_is_going(secret))
        return tn_fail(err, TN_E_CONFLICT, "somebody removes it");
    const struct tn_json *notes = tn_json_get(tn_json_get(secret, "metadata"), "annotations");
    if (strcmp(tn_json_get_str(notes, POD_CLAIMED, ""), token) == 0)
        return 1; /* the answer was lost */
    if (!pods_is_warm(secret))
        return tn_fail(err, TN_E_CONFLICT, "another has claimed it");
    free(*version);
    *version = tn_strdup(pods_version(secret));
    return 0;
}

static int patch(const struct pods *p, const struct tn_subject *s, const char *version,
                 const char *token, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *after = tn_asprintf("/openhands-runtime-%s-key", s->id);
    tn_autofree char *target = pods_target(p, "secrets", after);
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&body);

    pod_json(&w, NULL,
             "{\"metadata\":{\"resourceVersion\":%s,\"labels\":{\"" POD_WARM "\":null},"
             "\"annotations\":{\"" POD_CLAIMED "\":%s}}}",
             version, token);
    const struct kube_call call = {
        .method = "PATCH", .target = target, .body = tn_buf_str(&body), .type = KUBE_MERGE_PATCH};
    return kube_call(p->kube, &call, NULL, deadline, err);
}

static int claim(const struct pods *p, const struct tn_subject *s, char **version, int64_t deadline,
                 struct tn_error *err)
{
    struct tn_error why = {0};
    char token[11];
    int found;

    if (tn_new_id(token, err))
        return -1;
    for (int tries = 1;; tries++) {
        if (patch(p, s, *version, token, deadline, &why) == 0)
            return 0;
        if ((why.code != TN_E_CONFLICT && why.code != TN_E_NOT_FOUND) || tries == CLAIM_TRIES)
            return tn_fail(err, why.code, "%s", why.text);
        if ((found = look_again(p, s, token, version, deadline, err)) != 0)
            return found < 0 ? -1 : 0;
    }
}

int pods_claim(void *engine, const struct tn_subject *s, char **ref, int64_t deadline,
               struct tn_error *err)
{
    const struct pods *p = engine;
    struct pod_note note;

    pods_read_note(s, &note);
    tn_autofree char *version = *note.warm ? tn_strdup(note.warm) : NULL;
    tn_autofree char *name = pod_name(s->id, "");
    tn_autojson struct tn_json *pod = version ? mirror_get(p, "pods", name) : NULL;
    autopodcause struct pod_cause cause = {.status = TN_STATUS_RUNNING};

    if (pod)
        pod_cause(pod, &cause);
    if (cause.status != TN_STATUS_RUNNING)
        return tn_fail(err, TN_E_CONFLICT, "sandbox %s has ended: %s", s->id,
                       cause.reason ? cause.reason : tn_status_words[cause.status]);
    if (version && claim(p, s, &version, deadline, err) < 0)
        return tn_error_context(err, "claim sandbox %s", s->id);
    *note.warm = '\0';
    *ref = version ? pods_ref(p, &note) : NULL;
    return 0;
}
