/* Taking a sandbox out of its pool.
 *
 * The store has one taker for each row, but those who share a namespace need not share a store, and
 * what somebody removes at this moment is no sandbox any more.  So the Secret decides: it has a
 * label while it waits, and whoever takes that away owns it. */
#include "runtime/kubernetes/pods.h"
#include "runtime/owner.h"

enum pod_whose pods_whose(const struct pod_note *note, const struct tn_json *secret)
{
    const char *word = tn_json_get_str(pods_meta(secret, "annotations"), POD_CLAIMED, "");

    if (!*note->warm || (*note->claim && strcmp(word, note->claim) == 0))
        return POD_OURS;
    return tn_json_has(pods_meta(secret, "labels"), POD_WARM) ? POD_WAITS : POD_TAKEN;
}

/* How the Secret is after a conflict: 1 it is ours, 0 still warm (with its version), -1. */
static int look_again(const struct pods *p, const struct tn_subject *s, struct pod_note *note,
                      int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "-key");
    tn_autojson struct tn_json *secret = NULL;

    if (pods_get_now(p, "secrets", name, s->id, &secret, deadline, err) < 0)
        return -1;
    if (!secret || pods_is_going(secret))
        return tn_fail(err, TN_E_CONFLICT, "somebody removes it");
    enum pod_whose whose = pods_whose(note, secret);
    if (whose == POD_OURS)
        return 1; /* the answer was lost */
    /* Without a version a PATCH is no claim: it would always count. */
    snprintf(note->warm, sizeof note->warm, "%s", pods_version(secret));
    if (whose == POD_TAKEN || !*note->warm)
        return tn_fail(err, TN_E_CONFLICT, "another has claimed it");
    return 0;
}

static int patch(const struct pods *p, const struct tn_subject *s, const struct pod_note *note,
                 int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "-key");
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&body);

    pod_json(&w, NULL,
             "{\"metadata\":{\"resourceVersion\":%s,\"labels\":{\"" POD_WARM "\":null},"
             "\"annotations\":{\"" POD_CLAIMED "\":%s}}}",
             note->warm, note->claim);
    return pods_patch(p, "secrets", name, tn_buf_str(&body), NULL, deadline, err);
}

static int claim(const struct pods *p, const struct tn_subject *s, struct pod_note *note,
                 int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};
    int found;

    for (int tries = 1;; tries++) {
        if (patch(p, s, note, deadline, &why) == 0)
            return 0;
        if ((why.code != TN_E_CONFLICT && why.code != TN_E_NOT_FOUND) || tries == POD_TRIES)
            return tn_fail(err, why.code, "%s", why.text);
        if ((found = look_again(p, s, note, deadline, err)) != 0)
            return found < 0 ? -1 : 0;
    }
}

int pods_claim(void *engine, const struct tn_subject *s, char **ref, int64_t deadline,
               struct tn_error *err)
{
    const struct pods *p = engine;
    struct pod_note note;

    pods_read_note(s, &note);
    if (!*note.warm)
        return 0;
    if (!*note.claim) {
        if (tn_new_id(note.claim, err))
            return -1;
        *ref = pods_ref(p, &note);
        return 1;
    }
    tn_autofree char *name = pods_name(s);
    tn_autojson struct tn_json *pod = mirror_get(p, "pods", name);
    autopodcause struct pod_cause cause = {.status = TN_STATUS_RUNNING};

    if (pod)
        pod_cause(pod, &cause);
    if (cause.status != TN_STATUS_RUNNING)
        return tn_fail(err, TN_E_CONFLICT, "sandbox %s has ended: %s", s->id,
                       cause.reason ? cause.reason : tn_status_words[cause.status]);
    if (claim(p, s, &note, deadline, err) < 0)
        return tn_error_context(err, "claim sandbox %s", s->id);
    *note.warm = *note.claim = '\0';
    *ref = pods_ref(p, &note);
    return 0;
}
