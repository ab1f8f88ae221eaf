/* What a cluster offers, and what this user may do there. */
#include "base/clock.h"
#include "runtime/kubernetes/pods.h"
#include "runtime/owner.h"

#define LOOK_SECONDS 20.0
#define POD_SECONDS 60.0
enum { OLDEST_MINOR = 20 };

struct report {
    const struct tn_host *host;
    struct pods *pods;
    struct kube *kube;
    bool lacks_policy;      /* the first sandbox makes it */
    bool has[POD_AS_COUNT]; /* kinds of agent-sandbox */
    tn_symptom_fn fn;
    void *ctx;
    int64_t deadline;
};

static void tell(const struct report *r, const char *what, bool good, bool needed,
                 const char *detail)
{
    r->fn(&(struct tn_symptom){.what = what, .good = good, .needed = needed, .detail = detail},
          r->ctx);
}

static int ask(const struct report *r, const char *target, const char *body, struct tn_json **out,
               struct tn_error *err)
{
    const struct kube_call call = {.target = target, .body = body, .hurried = true};

    return kube_call(r->kube, &call, out, r->deadline, err);
}

/* --- rights ----------------------------------------------------------------------------------- */

/* Every verb that this backend uses: the Role of deploy/ has just these. */
static const struct {
    const char *group, *resource, *sub;
    const char *verbs;
    bool needed;
} rights[] = {
    {"", "secrets", "", "get list watch create patch delete", true},
    {"", "secrets", "finalizers", "update", false}, /* OpenShift asks for it of owners */
    {"", "pods", "", "get list watch create delete", true},
    {"", "pods", "exec", "get create", true},
    {"", "pods", "log", "get", true},
    {"", "pods", "proxy", "get create update delete", false}, /* unless pods are reached directly */
    {"", "persistentvolumeclaims", "", "get list watch create delete", true},
    {"", "events", "", "list", false},
    {"", "resourcequotas", "", "list", false},
    {"", "services", "", "get create", false},
    {"networking.k8s.io", "ingresses", "", "get create", false},
    {"networking.k8s.io", "networkpolicies", "", "get create", false},
    {"snapshot.storage.k8s.io", "volumesnapshots", "", "get list watch create delete", false},
    {"metrics.k8s.io", "pods", "", "get", false},
    {"agents.x-k8s.io", "sandboxes", "", "get list watch create patch delete", true},
    {"extensions.agents.x-k8s.io", "sandboxclaims", "", "get list watch create delete", true},
    {"", "pods", "", "patch", true}, /* those of a pool get our marks */
};

/* Some are for what was not configured, or is there already. */
static bool is_used(const struct report *r, const char *resource, const char *verb)
{
    const struct tn_config_kubernetes *k = &r->host->config->kubernetes;

    if (strcmp(resource, "sandboxes") == 0)
        return r->has[POD_AS_SANDBOX] && k->agent_sandbox != TN_KUBERNETES_NEVER;
    if (strcmp(resource, "sandboxclaims") == 0 ||
        (strcmp(resource, "pods") == 0 && strcmp(verb, "patch") == 0))
        return r->has[POD_AS_CLAIM] && k->sandbox_pool && *k->sandbox_pool;
    if (strcmp(resource, "services") == 0 || strcmp(resource, "ingresses") == 0)
        return tn_config_origin(r->host->config, "kubernetes.ingress_domain") != TN_FROM_DEFAULT;
    return strcmp(resource, "networkpolicies") != 0 || strcmp(verb, "create") != 0 ||
           r->lacks_policy;
}

static void tell_rights(const struct report *r)
{
    for (size_t i = 0; i < TN_COUNT(rights); i++)
        for (const char *at = rights[i].verbs; *at;) {
            size_t n = strcspn(at, " ");
            tn_autofree char *verb = tn_strndup(at, n);
            tn_autofree char *what = tn_asprintf("%s %s%s%s", verb, rights[i].resource,
                                                 *rights[i].sub ? "/" : "", rights[i].sub);
            struct tn_error why = {0};
            at += n + (at[n] == ' ');
            if (!is_used(r, rights[i].resource, verb))
                continue;
            bool good = pods_may(r->kube, rights[i].group, rights[i].resource, rights[i].sub, verb,
                                 r->deadline, &why);
            tell(r, what, good, rights[i].needed,
                 good       ? "allowed"
                 : why.code ? why.text
                            : "not allowed in this namespace: see the Role of deploy/");
        }
}

/* --- what is there ---------------------------------------------------------------------------- */

/* Names of a list that belongs to the cluster; those with the annotation are marked. */
static void tell_classes(const struct report *r, const char *what, const char *target,
                         const char *wanted, const char *mark, const char *missing)
{
    tn_autojson struct tn_json *answer = NULL;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
    struct tn_error why = {0};
    bool good = false;

    if (ask(r, target, NULL, &answer, &why) < 0) {
        tell(r, what, false, false, why.text);
        return;
    }
    const struct tn_json *items = tn_json_get(answer, "items");
    for (size_t i = 0; i < tn_json_count(items); i++) {
        const struct tn_json *meta = tn_json_get(tn_json_at(items, i), "metadata");
        const char *name = tn_json_get_str(meta, "name", "");
        bool usual = mark && strcmp(tn_json_get_str(tn_json_get(meta, "annotations"), mark, ""),
                                    "true") == 0;
        good |= wanted && *wanted ? strcmp(name, wanted) == 0 : usual;
        tn_buf_printf(&text, "%s%.60s%s", text.len ? ", " : "", name, usual ? " (default)" : "");
    }
    if (!good)
        tn_buf_printf(&text, "%s%s", text.len ? "; " : "", missing);
    tell(r, what, good, false, tn_buf_str(&text));
}

static void tell_all_classes(const struct report *r)
{
    const struct tn_config_kubernetes *k = &r->host->config->kubernetes;

    tell_classes(r, "storage class", "/apis/storage.k8s.io/v1/storageclasses?limit=100",
                 k->pvc_storage_class, "storageclass.kubernetes.io/is-default-class",
                 "none for workspaces, which end with their pods: no stop "
                 "(kubernetes.pvc_storage_class)");
    tell_classes(r, "snapshot class",
                 "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses?limit=100",
                 k->snapshot_class, "snapshot.storage.kubernetes.io/is-default-class",
                 "none: no snapshots and forks (kubernetes.snapshot_class)");
    tell_classes(r, "ingress class", "/apis/networking.k8s.io/v1/ingressclasses?limit=100",
                 k->ingress_class, "ingressclass.kubernetes.io/is-default-class",
                 "none for the ports of people (kubernetes.ingress_class)");
    tell_classes(r, "gVisor", "/apis/node.k8s.io/v1/runtimeclasses?limit=100",
                 k->runtime_class_gvisor, NULL,
                 "no runtime class of that name (kubernetes.runtime_class_gvisor)");
    tell_classes(r, "Kata", "/apis/node.k8s.io/v1/runtimeclasses?limit=100", k->runtime_class_kata,
                 NULL, "no runtime class of that name (kubernetes.runtime_class_kata)");
}

/* For what has no shell inside. */
static void tell_metrics(const struct report *r)
{
    struct tn_error why = {0};
    bool good = ask(r, "/apis/metrics.k8s.io/v1beta1", NULL, NULL, &why) == 0;

    tell(r, "metrics API", good, false,
         good                         ? "tells what sandboxes without a shell use"
         : why.code == TN_E_NOT_FOUND ? "none (metrics-server is one): what sandboxes without a "
                                        "shell use is not known"
                                      : why.text);
}

struct quota {
    const struct tn_json *used;
    struct tn_buf text;
    bool spent;
};

static int add_quota(const char *resource, struct tn_json *hard, void *ctx)
{
    struct quota *q = ctx;
    const char *used = tn_json_get_str(q->used, resource, "0"), *most = tn_json_str(hard, NULL);
    double number, limit;

    if (!most)
        return 0;
    q->spent |=
        pod_quantity(used, &number) == 0 && pod_quantity(most, &limit) == 0 && number >= limit;
    tn_buf_printf(&q->text, "%s%.20s of %.20s %.60s", q->text.len ? ", " : "", used, most,
                  resource);
    return 0;
}

/* "used of hard" of every quota in the namespace. */
static void tell_quota(const struct report *r)
{
    tn_autofree char *target =
        tn_asprintf("/api/v1/namespaces/%s/resourcequotas?limit=20", kube_namespace(r->kube));
    tn_autojson struct tn_json *answer = NULL;
    struct quota q = {.text = TN_BUF_INIT(4096)};

    if (ask(r, target, NULL, &answer, NULL) < 0)
        return; /* who may not see it meets it */
    const struct tn_json *items = tn_json_get(answer, "items");
    for (size_t i = 0; i < tn_json_count(items); i++) {
        const struct tn_json *status = tn_json_get(tn_json_at(items, i), "status");
        q.used = tn_json_get(status, "used");
        tn_json_each(tn_json_get(status, "hard"), add_quota, &q);
    }
    tell(r, "quota", !q.spent, false, q.text.len ? tn_buf_str(&q.text) : "none in this namespace");
    tn_buf_done(&q.text);
}

static const char *login_of(const struct report *r, bool anonymous)
{
    const struct tn_config_kubernetes *k = &r->host->config->kubernetes;

    return anonymous ? k->hand_pull_secret && *k->hand_pull_secret
                           ? "with kubernetes.hand_pull_secret alone"
                           : "without a login"
                     : "with the operator's logins";
}

static bool lacks_image(const struct report *r, const char *id)
{
    tn_autofree char *name = pod_name(id, "");
    tn_autojson struct tn_json *pod = NULL;
    autopodcause struct pod_cause cause = {0};

    pods_get(r->pods, "pods", name, id, &pod, tn_deadline_in(LOOK_SECONDS), NULL);
    if (pod)
        pod_cause(pod, &cause);
    return cause.image;
}

/* Whether nodes can pull it is known once one of them has: by a sandbox that is nothing else. */
static char *try_image(const struct report *r, const char *image, bool anonymous, bool *unpulled,
                       struct tn_error *err)
{
    tn_autoplace struct tn_place place = {0};
    char id[11], key[33];
    struct tn_spec spec;
    int64_t deadline = tn_deadline_in(POD_SECONDS), began = tn_now();

    if (tn_new_id(id, err) || tn_new_key(key, err))
        return NULL;
    tn_spec_init(&spec);
    spec.image = tn_strdup(image);
    spec.network = TN_NETWORK_BRIDGE;
    const struct tn_subject subject = {.id = id, .key = key, .spec = &spec, .anonymous = anonymous};
    int failed = pods_create(r->pods, &subject, &place, deadline, err);
    double seconds = (double)(tn_now() - began) / TN_SECOND;
    tn_place_done(&place);
    if (unpulled)
        *unpulled = failed && lacks_image(r, id);
    pods_drive(r->pods, &subject, TN_GOAL_GONE, &place, tn_deadline_in(LOOK_SECONDS), NULL);
    tn_spec_done(&spec);
    return failed ? NULL
                  : tn_asprintf("%.200s was pulled %s, and answered after %.1f s", image,
                                login_of(r, anonymous), seconds);
}

/* Pods of tenants lack the operator's logins: what they could pull others can, too. */
static void try_hand(const struct report *r, const char *image)
{
    struct tn_error alone = {0}, why = {0};
    bool unpulled = false;
    tn_autofree char *detail = try_image(r, image, true, &unpulled, &alone);

    if (detail) {
        tell(r, "hand", true, true, detail);
        return;
    }
    tn_autofree char *ours = try_image(r, image, false, NULL, &why);
    tn_autofree char *both =
        !ours      ? NULL
        : unpulled ? tn_asprintf("%s; a pod whose image a tenant names could not pull it, which "
                                 "does no harm where each node has it already: "
                                 "kubernetes.hand_pull_secret (%.250s)",
                                 ours, alone.text)
                   : tn_asprintf("%s; a pod whose image a tenant names did not start: %.250s", ours,
                                 alone.text);
    tell(r, "hand", false, !ours, ours ? both : why.text);
}

static void tell_hand(const struct report *r)
{
    const char *image = r->host->config->kubernetes.hand_image;

    if (!image || !*image) {
        tell(r, "hand", false, false,
             "put in by exec, which takes longer and needs sh, head and uname in images: "
             "tendon build --hand-image, kubernetes.hand_image");
        return;
    }
    if (r->host->trial) {
        try_hand(r, image);
        return;
    }
    tn_autofree char *detail = tn_asprintf("comes from %.200s; whether nodes can pull it tells: "
                                           "tendon doctor --runtime kubernetes",
                                           image);
    tell(r, "hand", true, true, detail);
}

/* Which versions of agent-sandbox the cluster serves; only ours counts. */
static void tell_agent_sandbox(struct report *r)
{
    const struct tn_config_kubernetes *k = &r->host->config->kubernetes;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
    bool pool = k->sandbox_pool && *k->sandbox_pool, some = false;

    for (enum pod_as as = POD_AS_SANDBOX; as < POD_AS_COUNT; as++) {
        const char *api = pod_kinds[as].api, *slash = strchr(api, '/');
        tn_autofree char *target = tn_asprintf("/apis/%.*s", (int)(slash - api), api);
        tn_autojson struct tn_json *group = NULL;
        ask(r, target, NULL, &group, NULL);
        const struct tn_json *all = tn_json_get(group, "versions");
        tn_buf_printf(&text, "%s%s", text.len ? "; " : "", pod_kinds[as].word);
        for (size_t i = 0; i < tn_json_count(all); i++) {
            const char *version = tn_json_get_str(tn_json_at(all, i), "groupVersion", "");
            r->has[as] |= strcmp(version, api) == 0;
            some = true;
            tn_buf_printf(&text, " %.60s", version);
        }
        if (!tn_json_count(all))
            tn_buf_puts(&text, " is not installed");
        else if (!r->has[as])
            tn_buf_printf(&text, ", older than %s, is not used", api);
    }
    if (k->agent_sandbox == TN_KUBERNETES_NEVER) {
        tn_buf_puts(&text, "; not used (kubernetes.agent_sandbox)");
        if (some)
            tell(r, "agent-sandbox", true, false, tn_buf_str(&text));
        return;
    }
    tell(r, "agent-sandbox", r->has[POD_AS_SANDBOX] && (!pool || r->has[POD_AS_CLAIM]),
         k->agent_sandbox == TN_KUBERNETES_ALWAYS, tn_buf_str(&text));
}

static void tell_network(struct report *r)
{
    static const char *const names[] = {"tendon-none", "tendon-open", "tendon-hand",
                                        "tendon-people"};

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        tn_autofree char *target =
            tn_asprintf("/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies/%s",
                        kube_namespace(r->kube), names[i]);
        struct tn_error why = {0};
        bool there = ask(r, target, NULL, NULL, &why) == 0;
        r->lacks_policy |= why.code == TN_E_NOT_FOUND;
        tell(r, names[i], there || why.code == TN_E_NOT_FOUND, false,
             there                        ? "the network policy is there; the cluster's network "
                                            "plugin decides whether it holds"
             : why.code == TN_E_NOT_FOUND ? "made by the first sandbox that wants it"
                                          : why.text);
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

static int tell_server(const struct report *r)
{
    tn_autojson struct tn_json *version = NULL;
    struct tn_error why = {0};

    if (ask(r, "/version", NULL, &version, &why) < 0) {
        tell(r, "cluster", false, true, why.text);
        return -1;
    }
    tn_autofree char *git = kube_line(tn_json_get_str(version, "gitVersion", ""));
    bool old = strcmp(tn_json_get_str(version, "major", ""), "1") == 0 &&
               strtol(tn_json_get_str(version, "minor", ""), NULL, 10) < OLDEST_MINOR;
    tn_autofree char *detail = tn_asprintf(
        "%.60s%s at %.200s (%.200s), namespace %s", git, old ? ", which is older than 1.20," : "",
        kube_server(r->kube), kube_source(r->kube), kube_namespace(r->kube));
    tell(r, "cluster", !old, true, detail);
    if (kube_is_insecure(r->kube))
        tell(r, "TLS", false, false,
             "INSECURE: whoever answers there is believed to be the cluster "
             "(insecure-skip-tls-verify), and is sent your credentials");
    return 0;
}

int pods_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    struct report r = {
        .host = host, .fn = fn, .ctx = ctx, .deadline = tn_deadline_in(LOOK_SECONDS)};
    struct tn_config config = *host->config;
    struct tn_host without_claims = *host;
    struct tn_error why = {0};
    void *engine = NULL;

    config.kubernetes.workspace_volume = TN_KUBERNETES_EMPTY;
    without_claims.config = &config;
    if (pods_open(&without_claims, &engine, &why) < 0) {
        tell(&r, "cluster", false, true, why.text);
        return 0;
    }
    r.pods = engine;
    r.kube = r.pods->kube;
    if (tell_server(&r) == 0) {
        tell_network(&r);
        tell_agent_sandbox(&r);
        tell_rights(&r);
        tell_all_classes(&r);
        tell_metrics(&r);
        tell_quota(&r);
        tell_hand(&r);
    }
    pods_close(engine);
    return 0;
}
