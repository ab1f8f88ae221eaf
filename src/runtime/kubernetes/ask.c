/* One object at a time, always looked at before it is believed to be ours. */
#include "base/again.h"
#include "runtime/kubernetes/pods.h"

/* Of a conflict that is none about the name, such as one of quotas. */
enum { MAKE_TRIES = 12 };
#define WORDS_SECONDS 5.0  /* for what events say of something that failed */
#define KNOWN_SECONDS 60.0 /* that it is known whether there is storage, or a policy */
#define AGAIN_SECONDS 5.0  /* after a question about a class that nobody answered */

/* Kinds that are not in the core group. */
static const struct {
    const char *kind, *group;
} groups[] = {
    {"ingresses", "/apis/networking.k8s.io/v1"},
    {"networkpolicies", "/apis/networking.k8s.io/v1"},
    {"volumesnapshots", "/apis/snapshot.storage.k8s.io/v1"},
    {"sandboxes", "/apis/agents.x-k8s.io/v1beta1"},
    {"sandboxclaims", "/apis/extensions.agents.x-k8s.io/v1beta1"},
};

char *pods_target(const struct pods *p, const char *kind, const char *after)
{
    const char *group = "/api/v1";

    for (size_t i = 0; i < TN_COUNT(groups); i++)
        if (strcmp(groups[i].kind, kind) == 0)
            group = groups[i].group;
    return tn_asprintf("%s/namespaces/%s/%s%s", group, p->namespace, kind, after);
}

static char *target_of(const struct pods *p, const char *kind, const char *name)
{
    tn_autofree char *after = tn_asprintf("/%s", name);

    return pods_target(p, kind, after);
}

const struct tn_json *pods_meta(const struct tn_json *object, const char *member)
{
    return tn_json_get(tn_json_get(object, "metadata"), member);
}

const char *pods_own_name(const struct tn_json *object)
{
    return tn_json_get_str(tn_json_get(object, "metadata"), "name", "");
}

const char *pods_own_id(const struct pods *p, const struct tn_json *object)
{
    const struct tn_json *labels = pods_meta(object, "labels");
    const char *id = tn_json_get_str(labels, POD_ID, "");

    return strcmp(tn_json_get_str(labels, POD_STATE, ""), p->mark) == 0 && strlen(id) == 10 &&
                   strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") == 10
               ? id
               : NULL;
}

const char *pods_uid(const struct tn_json *object)
{
    return tn_json_get_str(tn_json_get(object, "metadata"), "uid", "");
}

bool pods_is_anonymous(const struct tn_json *secret)
{
    return tn_json_has(pods_meta(secret, "annotations"), POD_ANONYMOUS);
}

const char *pods_version(const struct tn_json *object)
{
    return tn_json_get_str(tn_json_get(object, "metadata"), "resourceVersion", "");
}

bool pods_is_going(const struct tn_json *object)
{
    return pods_meta(object, "deletionTimestamp");
}

static int ask(const struct pods *p, const char *kind, const char *name, bool hurried,
               struct tn_json **out, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = target_of(p, kind, name);
    const struct kube_call call = {.target = target, .hurried = hurried};
    struct tn_error why = {0};

    *out = NULL;
    if (kube_call(p->kube, &call, out, deadline, &why) == 0 || why.code == TN_E_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return -1;
}

int pods_ask(const struct pods *p, const char *kind, const char *name, struct tn_json **out,
             int64_t deadline, struct tn_error *err)
{
    return ask(p, kind, name, false, out, deadline, err);
}

static int only_own(const struct pods *p, const char *id, struct tn_json **out)
{
    const char *own = pods_own_id(p, *out);

    if (*out && !(own && strcmp(own, id) == 0))
        tn_json_free(TN_TAKE_PTR(*out));
    return 0;
}

int pods_get_now(const struct pods *p, const char *kind, const char *name, const char *id,
                 struct tn_json **out, int64_t deadline, struct tn_error *err)
{
    return pods_ask(p, kind, name, out, deadline, err) < 0 ? -1 : only_own(p, id, out);
}

int pods_get(const struct pods *p, const char *kind, const char *name, const char *id,
             struct tn_json **out, int64_t deadline, struct tn_error *err)
{
    *out = mirror_get(p, kind, name);
    return *out ? only_own(p, id, out) : pods_get_now(p, kind, name, id, out, deadline, err);
}

int pods_glance(const struct pods *p, const char *kind, const char *name, const char *id,
                struct tn_json **out, int64_t deadline, struct tn_error *err)
{
    return ask(p, kind, name, true, out, deadline, err) < 0 ? -1 : only_own(p, id, out);
}

bool pods_may(struct kube *kube, const char *group, const char *resource, const char *sub,
              const char *verb, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *body = tn_asprintf(
        "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\","
        "\"spec\":{\"resourceAttributes\":{\"namespace\":\"%s\",\"group\":\"%s\","
        "\"resource\":\"%s\",\"subresource\":\"%s\",\"verb\":\"%s\"}}}",
        kube_namespace(kube), group, resource, sub, verb);
    const struct kube_call call = {.target =
                                       "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                                   .body = body,
                                   .hurried = true};
    tn_autojson struct tn_json *answer = NULL;

    return kube_call(kube, &call, &answer, deadline, err) == 0 &&
           tn_json_bool(tn_json_get(tn_json_get(answer, "status"), "allowed"), false);
}

/* --- making ----------------------------------------------------------------------------------- */

int pods_make(const struct pods *p, const char *kind, const char *name, const char *id,
              const struct tn_buf *manifest, struct tn_json **out, int cancel, int64_t deadline,
              struct tn_error *err)
{
    tn_autofree char *target = pods_target(p, kind, "");
    const struct kube_call call = {
        .target = target, .body = tn_buf_str(manifest), .cancel = cancel};
    tn_autojson struct tn_json *there = NULL;
    int ms = 0;

    for (int tries = 1;; tries++) {
        struct tn_error why = {0};
        if (kube_call(p->kube, &call, out, deadline, &why) == 0)
            return 0;
        if (why.code != TN_E_CONFLICT)
            return tn_fail(err, why.code, "%s", why.text);
        /* Our own, whose answer was lost; or the one before it, which is not quite gone. */
        tn_json_free(TN_TAKE_PTR(there));
        if (pods_ask(p, kind, name, &there, deadline, err) < 0)
            return -1;
        const char *own = pods_own_id(p, there);
        if (there && !(own && strcmp(own, id) == 0))
            return tn_fail(err, TN_E_CONFLICT, "%s %s is there, and not ours", kind, name);
        if (there && !pods_is_going(there))
            break;
        if (there && pods_await_end(p, kind, name, deadline, err) < 0)
            return -1;
        if (tries == MAKE_TRIES)
            return tn_fail(err, TN_E_CONFLICT, "%s", why.text);
        if (tn_back_off(&ms, 0, cancel, deadline, err) < 0)
            return tn_error_context(err, "%s", why.text);
    }
    if (out)
        *out = TN_TAKE_PTR(there);
    return 0;
}

int pods_patch(const struct pods *p, const char *kind, const char *name, const char *body,
               struct tn_json **out, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = target_of(p, kind, name);
    const struct kube_call call = {.method = "PATCH",
                                   .target = target,
                                   .body = body,
                                   .type = *body == '[' ? KUBE_JSON_PATCH : KUBE_MERGE_PATCH};

    return kube_call(p->kube, &call, out, deadline, err);
}

/* --- ending ----------------------------------------------------------------------------------- */

#define DELETES                                                                               \
    "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Foreground\"," \
    "\"preconditions\":{\"uid\":%s"

int pods_delete(const struct pods *p, const char *kind, const struct tn_json *object,
                bool unchanged, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = target_of(p, kind, pods_own_name(object));
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&body);
    struct tn_error why = {0};

    pod_json(&w, NULL, unchanged ? DELETES ",\"resourceVersion\":%s}}" : DELETES "}}",
             pods_uid(object), pods_version(object));
    const struct kube_call call = {.method = "DELETE", .target = target, .body = tn_buf_str(&body)};
    /* A conflict: another one has the name by now. */
    if (kube_call(p->kube, &call, NULL, deadline, &why) == 0 || why.code == TN_E_NOT_FOUND ||
        (why.code == TN_E_CONFLICT && !unchanged))
        return 0;
    return tn_fail(err, why.code, "%s", why.text);
}

int pods_remove(const struct pods *p, const char *kind, const char *name, const char *id,
                int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *object = NULL;

    if (pods_get(p, kind, name, id, &object, deadline, err) < 0 ||
        (object && !pods_is_going(object) &&
         pods_delete(p, kind, object, false, deadline, err) < 0))
        return -1;
    return object ? pods_await_end(p, kind, name, deadline, err) : 0;
}

/* There is one, as far as was told. */
static int note_presence(enum kube_change change, const struct tn_json *object, void *ctx)
{
    bool *there = ctx;

    if (change == KUBE_ADDED || change == KUBE_MODIFIED)
        *there = true;
    else if (change == KUBE_DELETED)
        *there = false;
    /* Before the list is whole nothing is known. */
    return (change == KUBE_SYNCED || change == KUBE_DELETED) && !*there;
}

int pods_await_end(const struct pods *p, const char *kind, const char *name, int64_t deadline,
                   struct tn_error *err)
{
    bool there = false;

    if (pods_follow(p, kind, name, note_presence, &there, 0, deadline, err) == 0)
        return 0;
    if (err && err->code == TN_E_TIMEOUT)
        return tn_fail(err, TN_E_TIMEOUT, "%s %s is not gone yet", kind, name);
    return tn_error_context(err, "%s %s is not gone yet", kind, name);
}

/* --- further questions ------------------------------------------------------------------------ */

int pods_must_have(const struct pods *p, const struct tn_subject *s, struct tn_json **secret,
                   int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "-key");

    if (pods_get(p, "secrets", name, s->id, secret, deadline, err) < 0)
        return -1;
    return *secret ? 0 : tn_fail(err, TN_E_NOT_FOUND, "the cluster has no such sandbox");
}

int pods_must_run(const struct pods *p, const struct tn_subject *s, struct tn_json **pod,
                  int64_t deadline, struct tn_error *err)
{
    tn_autofree char *name = pods_name(s);
    autopodcause struct pod_cause cause = {0};
    struct pod_note note;

    if (pods_get(p, "pods", name, s->id, pod, deadline, err) < 0)
        return -1;
    pods_read_note(s, &note);
    if (!*pod || (*note.uid && strcmp(note.uid, pods_uid(*pod)) != 0))
        return tn_fail(err, TN_E_NOT_FOUND, "it has no pod");
    pod_cause(*pod, &cause);
    if (cause.status == TN_STATUS_RUNNING)
        return 0;
    return tn_fail(err, TN_E_CONFLICT, "it is %s%s%s", tn_status_words[cause.status],
                   cause.reason ? ": " : "", cause.reason ? cause.reason : "");
}

char *pods_warning(const struct pods *p, const char *pod, int64_t deadline)
{
    tn_autofree char *after =
        tn_asprintf("?limit=500&fieldSelector=involvedObject.name%%3D%s", pod);
    tn_autofree char *target = pods_target(p, "events", after);
    tn_autojson struct tn_json *events = NULL;
    const struct kube_call call = {.target = target, .hurried = true};

    if (kube_call(p->kube, &call, &events, tn_deadline_within(WORDS_SECONDS, deadline), NULL) < 0)
        return NULL;
    return pod_last_warning(events);
}

void pods_add_trouble(const struct pods *p, const char *id, struct tn_error *err)
{
    tn_autofree char *name = pod_name(id, "");
    tn_autofree char *words =
        err && err->code == TN_E_TIMEOUT ? pods_warning(p, name, TN_NEVER) : NULL;

    if (words) {
        struct tn_error why = *err;
        tn_fail(err, why.code, "%.250s (%.220s)", why.text, words);
    }
}

static bool is_default_class(const struct tn_json *class)
{
    static const char *const names[] = {"storageclass.kubernetes.io/is-default-class",
                                        "storageclass.beta.kubernetes.io/is-default-class"};
    const struct tn_json *notes = pods_meta(class, "annotations");

    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (strcmp(tn_json_get_str(notes, names[i], ""), "true") == 0)
            return true;
    return false;
}

int pods_have_storage(struct pods *p, bool *has, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *answer = NULL;
    const struct kube_call call = {.target = "/apis/storage.k8s.io/v1/storageclasses?limit=500"};
    struct tn_error why = {0};

    pthread_mutex_lock(&p->lock);
    bool known = tn_now() < p->storage_until;
    *has = p->has_storage;
    pthread_mutex_unlock(&p->lock);
    if (known)
        return 0;
    /* They are the cluster's: who has rights in a namespace alone knows of none. */
    if (kube_call(p->kube, &call, &answer, deadline, &why) < 0 && why.code != TN_E_DENIED)
        return tn_fail(err, why.code, "storage classes: %s", why.text);
    const struct tn_json *items = tn_json_get(answer, "items");
    *has = false;
    for (size_t i = 0; !*has && i < tn_json_count(items); i++)
        *has = is_default_class(tn_json_at(items, i));
    pthread_mutex_lock(&p->lock);
    p->has_storage = *has;
    p->storage_until = tn_deadline_in(KNOWN_SECONDS);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

/* Under the lock: what is known of that class, if nothing in place of what is the oldest. */
static struct pod_class *class_of(struct pods *p, const char *name)
{
    struct pod_class *oldest = &p->classes[0];

    for (size_t i = 0; i < TN_COUNT(p->classes); i++) {
        if (strcmp(p->classes[i].name, name) == 0)
            return &p->classes[i];
        if (p->classes[i].until < oldest->until)
            oldest = &p->classes[i];
    }
    *oldest = (struct pod_class){0};
    snprintf(oldest->name, sizeof oldest->name, "%s", name);
    return oldest;
}

int pods_handler(struct pods *p, const char *class, bool hurried, char out[POD_HANDLER_SIZE],
                 int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target =
        tn_asprintf("/apis/node.k8s.io/v1/runtimeclasses?fieldSelector=metadata.name%%3D%s", class);
    const struct kube_call call = {.target = target, .hurried = hurried};
    tn_autojson struct tn_json *answer = NULL;
    struct tn_error why = {0};

    int r = kube_call(p->kube, &call, &answer, deadline, &why);
    const struct tn_json *found = tn_json_at(tn_json_get(answer, "items"), 0);
    snprintf(out, POD_HANDLER_SIZE, "%s", tn_json_get_str(found, "handler", ""));
    /* Who may not ask is not told every time either. */
    bool answered = r == 0 || why.code == TN_E_DENIED;
    pthread_mutex_lock(&p->lock);
    struct pod_class *c = class_of(p, class);
    if (r == 0)
        memcpy(c->handler, out, sizeof c->handler);
    c->told |= answered;
    c->until = tn_deadline_in(answered ? KNOWN_SECONDS : AGAIN_SECONDS);
    pthread_mutex_unlock(&p->lock);
    return r < 0 ? tn_fail(err, why.code, "%s", why.text) : 0;
}

bool pods_known_handler(const struct pods *engine, const char *class, char out[POD_HANDLER_SIZE],
                        int64_t deadline)
{
    struct pods *p = (void *)engine;

    pthread_mutex_lock(&p->lock);
    bool due = tn_now() >= class_of(p, class)->until;
    pthread_mutex_unlock(&p->lock);
    if (due)
        pods_handler(p, class, true, out, deadline, NULL);
    pthread_mutex_lock(&p->lock);
    const struct pod_class *c = class_of(p, class);
    bool told = c->told;
    memcpy(out, c->handler, sizeof c->handler);
    pthread_mutex_unlock(&p->lock);
    return told;
}

static int ensure_policy(const struct pods *p, const char *name, const struct tn_buf *body,
                         int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = pods_target(p, "networkpolicies", "");
    tn_autojson struct tn_json *there = NULL;
    const struct kube_call call = {.target = target, .body = tn_buf_str(body)};

    if (pods_ask(p, "networkpolicies", name, &there, deadline, err) < 0 ||
        (!there && kube_call(p->kube, &call, NULL, deadline, err) < 0 &&
         (!err || err->code != TN_E_CONFLICT)))
        return tn_error_context(err, "network policy %s", name);
    return 0;
}

/* Policies add up: beside an operator's own that says who comes in, ours would let in more. */
static bool is_theirs(const struct pods *p, enum pod_network network, int64_t deadline)
{
    tn_autofree char *name = tn_asprintf("tendon-%s", pod_networks[network]);
    tn_autojson struct tn_json *there = NULL;

    if (pods_ask(p, "networkpolicies", name, &there, deadline, NULL) < 0 || !there)
        return false;
    const struct tn_json *labels = pods_meta(there, "labels");
    const struct tn_json *types = tn_json_get(tn_json_get(there, "spec"), "policyTypes");
    bool in = tn_json_count(types) == 0;
    for (size_t i = 0; i < tn_json_count(types); i++) {
        const char *type = tn_json_str(tn_json_at(types, i), NULL);
        in |= type && strcmp(type, "Ingress") == 0;
    }
    return in && strcmp(tn_json_get_str(labels, "app.kubernetes.io/managed-by", ""), "tendon") != 0;
}

int pods_ensure_policies(struct pods *p, enum pod_network network, int64_t deadline,
                         struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(POD_MANIFEST_MAX);
    const struct tn_config_kubernetes *k = &p->host->config->kubernetes;
    const char *name;

    pthread_mutex_lock(&p->lock);
    bool has = network == POD_NETWORK_BRIDGE || tn_now() < p->policy_until[network];
    pthread_mutex_unlock(&p->lock);
    bool makes = !has && !is_theirs(p, network, deadline);
    for (size_t i = 0; makes && (name = pod_put_policy(network, i, k, &body)); i++) {
        if (ensure_policy(p, name, &body, deadline, err) < 0)
            return -1;
        tn_buf_reset(&body);
    }
    pthread_mutex_lock(&p->lock);
    if (!has)
        p->policy_until[network] = tn_deadline_in(KNOWN_SECONDS);
    pthread_mutex_unlock(&p->lock);
    return 0;
}
