/* The small objects of a sandbox: Secret, claim, services, ingresses, network policies; names and
 * numbers.  The pod itself is in pod.c. */
#include <math.h>

#include "gate/roots.h"
#include "runtime/kubernetes/pods.h"
#include "runtime/owner.h"
#include "runtime/secrets.h"

const char *const pod_networks[] = {[POD_NETWORK_NONE] = "none",
                                    [POD_NETWORK_OPEN] = "open",
                                    [POD_NETWORK_GATED] = "gated",
                                    [POD_NETWORK_BRIDGE] = "bridge",
                                    [POD_NETWORK_COUNT] = NULL};

char *pod_name(const char *id, const char *after)
{
    return tn_asprintf("openhands-runtime-%s%s", id, after);
}

struct pod_plan pods_plan(const struct pods *p, const struct tn_subject *s,
                          const struct tn_json *secret)
{
    return (struct pod_plan){.config = p->host->config,
                             .subject = s,
                             .mark = p->mark,
                             .namespace = p->namespace,
                             .owner = secret ? pods_uid(secret) : NULL,
                             .anonymous = secret ? pods_is_anonymous(secret) : s->anonymous,
                             .as = pods_as(secret)};
}

static bool is_own_port(int64_t port)
{
    return port == POD_PORT_HAND || port == POD_PORT_EDITOR || port == POD_PORT_APP_1 ||
           port == POD_PORT_APP_2;
}

bool pod_has_port(const struct tn_spec *spec, int port)
{
    if (port == POD_PORT_HAND)
        return false;
    for (size_t i = 0; i < spec->ports.count; i++)
        if (spec->ports.items[i] == port)
            return true;
    return is_own_port(port);
}

/* --- quantities ------------------------------------------------------------------------------- */

static const struct {
    const char *suffix;
    double factor;
} units[] = {
    {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},    {"k", 1e3},     {"M", 1e6},
    {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},    {"Ki", 0x1p10}, {"Mi", 0x1p20},
    {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60},
};

int pod_quantity(const char *text, double *out)
{
    size_t digits = strspn(text, "0123456789.");
    char *end = NULL;
    double number = digits ? strtod(text, &end) : -1;

    /* strtod takes what is no quantity, such as 0x10; and an exponent is one. */
    if (!digits || number < 0 || !isfinite(number) || strchr("xXpP", text[1] ? text[1] : ' '))
        return -1;
    for (size_t i = 0; i < TN_COUNT(units); i++)
        if (strcmp(end, units[i].suffix) == 0) {
            *out = number * units[i].factor;
            return 0;
        }
    return -1;
}

/* --- what all objects have -------------------------------------------------------------------- */

void pod_json(struct tn_jw *w, const char *key, const char *json, ...)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(POD_MANIFEST_MAX);
    va_list args;

    va_start(args, json);
    for (; *json; json++) {
        struct tn_jw value = tn_jw(&out);
        if (*json != '%')
            tn_buf_putc(&out, *json);
        else if (*++json == 's')
            tn_jw_str(&value, va_arg(args, const char *));
        else
            tn_jw_int(&value, va_arg(args, int));
    }
    va_end(args);
    if (key)
        tn_jw_key(w, key);
    tn_jw_raw(w, tn_buf_str(&out), out.len);
}

void pod_put_labels(const struct pod_plan *p, bool pod, bool warm, struct tn_jw *w)
{
    tn_jw_key(w, "labels");
    tn_jw_object(w);
    tn_jw_kstr(w, "app", "openhands-runtime");
    tn_jw_kstr(w, "session", p->subject->id);
    tn_jw_kstr(w, POD_STATE, p->mark);
    tn_jw_kstr(w, POD_ID, p->subject->id);
    if (pod)
        tn_jw_kstr(w, POD_NETWORK, pod_networks[p->network]);
    if (warm)
        tn_jw_kstr(w, POD_WARM, "true");
    tn_jw_object_end(w);
}

void pod_open(const struct pod_plan *p, const char *api, const char *kind, const char *after,
              struct tn_jw *w)
{
    tn_autofree char *name = pod_name(p->subject->id, after);
    tn_autofree char *owner = pod_name(p->subject->id, "-key");

    tn_jw_object(w);
    tn_jw_kstr(w, "apiVersion", api);
    tn_jw_kstr(w, "kind", kind);
    tn_jw_key(w, "metadata");
    tn_jw_object(w);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "namespace", p->namespace);
    pod_put_labels(p, strcmp(kind, "Pod") == 0, strcmp(kind, "Secret") == 0 && p->subject->warm, w);
    if (p->owner)
        pod_json(w, "ownerReferences",
                 "[{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"name\":%s,\"uid\":%s,"
                 "\"blockOwnerDeletion\":true}]",
                 owner, p->owner);
}

int pod_close(struct tn_jw *w, struct tn_error *err)
{
    tn_jw_object_end(w);
    return tn_buf_ok(w->out) ? 0
                             : tn_fail(err, TN_E_TOO_LARGE, "the spec is too large for a cluster");
}

/* --- the Secret ------------------------------------------------------------------------------- */

/* An object of variables, and those that go before it: of two with one name the latter count. */
struct variables {
    struct tn_jw *w;
    const struct tn_json *before[2];
};

static int put_variable(const char *name, struct tn_json *value, void *ctx)
{
    const struct variables *v = ctx;

    if (tn_json_str(value, NULL) && !tn_json_has(v->before[0], name) &&
        !tn_json_has(v->before[1], name))
        tn_jw_kstr(v->w, name, tn_json_str(value, NULL));
    return 0;
}

/* NAME=VALUE, where nobody has said otherwise. */
static void put_pair(const struct variables *v, const char *text, const struct tn_json *startup)
{
    tn_autofree char *name = tn_strndup(text, strcspn(text, "="));

    if (!tn_json_has(v->before[0], name) && !tn_json_has(startup, name))
        tn_jw_kstr(v->w, name, text + strlen(name) + 1);
}

/* What a Secret gives to a container is never evaluated; $(NAME) in a pod's own env would be. */
static void put_environment(const struct pod_plan *p, struct tn_jw *w)
{
    const struct tn_spec *spec = p->subject->spec;
    const struct tn_json *startup = p->config->sandbox.runtime_startup_env_vars;
    struct variables v = {.w = w};
    const struct {
        const char *name, *value;
    } ours[] = {
        {"port", "8080"},
        {"VSCODE_PORT", "8081"},
        {"APP_PORT_1", "30082"},
        {"APP_PORT_2", "30083"},
        {"PYTHONUNBUFFERED", "1"},
        {"PIP_BREAK_SYSTEM_PACKAGES", "1"},
        {"OPENHANDS_SESSION_ID", spec->name ? spec->name : p->subject->id},
        {"DEBUG", p->config->core.debug ? "true" : NULL},
        {"HOME", pod_uid(p->config, spec) ? POD_HOME : NULL},
        {"USER", pod_uid(p->config, spec) ? "openhands" : NULL},
    };

    tn_jw_key(w, "stringData");
    tn_jw_object(w);
    tn_json_each(spec->env, put_variable, &v);
    v.before[0] = spec->env;
    tn_json_each(startup, put_variable, &v);
    for (size_t i = 0; i < TN_COUNT(ours); i++)
        if (ours[i].value && !tn_json_has(spec->env, ours[i].name) &&
            !tn_json_has(startup, ours[i].name))
            tn_jw_kstr(w, ours[i].name, ours[i].value);
    for (size_t i = 0; i < spec->secrets.count; i++) {
        tn_autofree char *text = tn_secrets_variable(p->subject, spec->secrets.items[i]);
        put_pair(&v, text, startup);
    }
    for (const char *const *text = tn_root_variables; pod_ends_tls(p->config, spec) && *text;
         text++)
        put_pair(&v, *text, startup);
    tn_jw_object_end(w);
}

/* For the eyes of people: names and labels of a sandbox are often none of Kubernetes'. */
static void put_annotations(const struct pod_plan *p, struct tn_jw *w)
{
    const struct tn_spec *spec = p->subject->spec;
    const struct tn_owner *owner = &p->subject->owner;

    tn_jw_key(w, "annotations");
    tn_jw_object(w);
    if (spec->name)
        tn_jw_kstr(w, "tendon.dev/name", spec->name);
    if (p->anonymous)
        tn_jw_kstr(w, POD_ANONYMOUS, "true");
    if (p->as != POD_AS_POD)
        tn_jw_kstr(w, POD_AS, pod_kinds[p->as].word);
    if (tn_json_count(spec->labels)) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(POD_MANIFEST_MAX);
        struct tn_jw labels = tn_jw(&text);
        tn_jw_tree(&labels, spec->labels);
        tn_jw_kstr(w, "tendon.dev/labels", tn_buf_str(&text));
    }
    if (owner->pid) {
        tn_autofree char *who = tn_asprintf("%lld:%llu:%s", (long long)owner->pid,
                                            (unsigned long long)owner->start, tn_boot_id());
        tn_jw_kstr(w, "tendon.dev/owner", who);
    }
    tn_jw_object_end(w);
}

int pod_put_secret(const struct pod_plan *p, struct tn_buf *out, struct tn_error *err)
{
    struct tn_jw w = tn_jw(out);

    pod_open(p, "v1", "Secret", "-key", &w);
    put_annotations(p, &w);
    tn_jw_object_end(&w);
    tn_jw_kstr(&w, "type", "Opaque");
    put_environment(p, &w);
    return pod_close(&w, err);
}

/* --- the claim -------------------------------------------------------------------------------- */

int pod_put_claim(const struct pod_plan *p, struct tn_buf *out, struct tn_error *err)
{
    const struct tn_config_kubernetes *k = &p->config->kubernetes;
    struct tn_jw w = tn_jw(out);

    pod_open(p, "v1", "PersistentVolumeClaim", "-pvc", &w);
    tn_jw_object_end(&w);
    tn_jw_key(&w, "spec");
    tn_jw_object(&w);
    pod_json(&w, "accessModes", "[\"ReadWriteOnce\"]");
    if (k->pvc_storage_class && *k->pvc_storage_class)
        tn_jw_kstr(&w, "storageClassName", k->pvc_storage_class);
    pod_json(&w, "resources", "{\"requests\":{\"storage\":%s}}", k->pvc_storage_size);
    if (p->snapshot)
        pod_json(&w, "dataSource",
                 "{\"apiGroup\":\"snapshot.storage.k8s.io\",\"kind\":\"VolumeSnapshot\","
                 "\"name\":%s}",
                 p->snapshot);
    tn_jw_object_end(&w);
    return pod_close(&w, err);
}

/* --- services and ingresses ------------------------------------------------------------------- */

static void put_port(struct tn_jw *w, const char *name, int port)
{
    tn_autofree char *other = tn_asprintf("port-%d", port);

    pod_json(w, NULL, "{\"name\":%s,\"port\":%d,\"targetPort\":%d}", name ? name : other, port,
             port);
}

int pod_put_service(const struct pod_plan *p, bool editor, struct tn_buf *out, struct tn_error *err)
{
    const struct tn_spec *spec = p->subject->spec;
    struct tn_jw w = tn_jw(out);

    pod_open(p, "v1", "Service", editor ? "-svc-code" : "-svc", &w);
    tn_jw_object_end(&w);
    tn_jw_key(&w, "spec");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "ClusterIP");
    pod_json(&w, "selector", "{\"" POD_STATE "\":%s,\"" POD_ID "\":%s}", p->mark, p->subject->id);
    tn_jw_key(&w, "ports");
    tn_jw_array(&w);
    if (editor) {
        put_port(&w, "code", POD_PORT_EDITOR);
    } else {
        put_port(&w, "execution-server", POD_PORT_HAND);
        put_port(&w, NULL, POD_PORT_APP_1);
        put_port(&w, NULL, POD_PORT_APP_2);
        for (size_t i = 0; i < spec->ports.count; i++)
            if (!is_own_port(spec->ports.items[i]))
                put_port(&w, NULL, (int)spec->ports.items[i]);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    return pod_close(&w, err);
}

char *pod_host(const struct pod_plan *p, int port)
{
    const char *domain = p->config->kubernetes.ingress_domain;

    return port == POD_PORT_EDITOR ? tn_asprintf("%s.%s", p->subject->id, domain)
                                   : tn_asprintf("%d-%s.%s", port, p->subject->id, domain);
}

int pod_put_ingress(const struct pod_plan *p, int port, struct tn_buf *out, struct tn_error *err)
{
    const struct tn_config_kubernetes *k = &p->config->kubernetes;
    bool editor = port == POD_PORT_EDITOR;
    tn_autofree char *host = pod_host(p, port);
    tn_autofree char *service = pod_name(p->subject->id, editor ? "-svc-code" : "-svc");
    tn_autofree char *after =
        editor ? tn_strdup("-ingress-code") : tn_asprintf("-ingress-%d", port);
    struct tn_jw w = tn_jw(out);

    pod_open(p, "networking.k8s.io/v1", "Ingress", after, &w);
    pod_json(&w, "annotations", "{\"external-dns.alpha.kubernetes.io/hostname\":%s}", host);
    tn_jw_object_end(&w);
    tn_jw_key(&w, "spec");
    tn_jw_object(&w);
    if (k->ingress_class && *k->ingress_class)
        tn_jw_kstr(&w, "ingressClassName", k->ingress_class);
    if (k->ingress_tls_secret && *k->ingress_tls_secret)
        pod_json(&w, "tls", "[{\"hosts\":[%s],\"secretName\":%s}]", host, k->ingress_tls_secret);
    pod_json(&w, "rules",
             "[{\"host\":%s,\"http\":{\"paths\":[{\"path\":\"/\",\"pathType\":\"Prefix\","
             "\"backend\":{\"service\":{\"name\":%s,\"port\":{\"number\":%d}}}}]}}]",
             host, service, port);
    tn_jw_object_end(&w);
    return pod_close(&w, err);
}

/* --- network policies ------------------------------------------------------------------------- */

/* The hand is reached in any case: it asks for its key. */
#define HAND "{\"ports\":[{\"port\":8080}]}"
/* Whoever is no sandbox may use the others' ports: a controller of ingresses, for one. */
#define PEOPLE                                                       \
    "{\"from\":[{\"namespaceSelector\":{},\"podSelector\":{"         \
    "\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"NotIn\"," \
    "\"values\":[\"openhands-runtime\"]}]}}]}"
/* \5: also those of kubernetes.nameservers. */
#define NAMES                                                       \
    "{\"ports\":[{\"port\":53,\"protocol\":\"UDP\"},{\"port\":53}," \
    "{\"port\":5353,\"protocol\":\"UDP\"},{\"port\":5353}],"        \
    "\"to\":[{\"namespaceSelector\":{}}]}\5"
/* Without what is private, the machine's own, or a cloud's services beside its metadata; nor what a
 * NAT64 or another tunnel makes of that; \4 and \6: nor the nets that kubernetes.near adds. */
#define INTERNET                                                                                         \
    "{\"to\":[{\"ipBlock\":{\"cidr\":\"0.0.0.0/0\",\"except\":[\"10.0.0.0/8\","                          \
    "\"172.16.0.0/12\",\"192.168.0.0/16\",\"100.64.0.0/10\",\"169.254.0.0/16\","                         \
    "\"168.63.129.16/32\",\"192.0.0.0/24\",\"198.18.0.0/15\",\"127.0.0.0/8\",\"0.0.0.0/8\","             \
    "\"224.0.0.0/3\"\4]}},"                                                                              \
    "{\"ipBlock\":{\"cidr\":\"::/0\",\"except\":[\"fc00::/7\",\"fe80::/10\",\"fec0::/10\",\"ff00::/8\"," \
    "\"2001::/32\",\"2002::/16\",\"64:ff9b:1::/48\",\"64:ff9b::a00:0/104\","                             \
    "\"64:ff9b::ac10:0/108\",\"64:ff9b::c0a8:0/112\",\"64:ff9b::6440:0/106\","                           \
    "\"64:ff9b::a9fe:0/112\",\"64:ff9b::a83f:8110/128\",\"64:ff9b::c000:0/120\","                        \
    "\"64:ff9b::c612:0/111\",\"64:ff9b::7f00:0/104\",\"64:ff9b::/104\","                                 \
    "\"64:ff9b::e000:0/99\"\6]}}]}"

/* A variable that is empty says nothing: there is a word for none. */
bool pod_has_nameservers(const struct tn_config_kubernetes *k)
{
    const struct tn_str_list *all = &k->nameservers;

    return all->count > 1 || (all->count == 1 && strcmp(all->items[0], "none") != 0);
}

/* What answers names on a node itself is no pod that NAMES could select, and port 53 of it is all
 * that anybody gets: on the same address a cloud may serve its metadata. */
static void put_nameservers(const struct tn_config_kubernetes *k, struct tn_buf *out)
{
    const struct tn_str_list *all = &k->nameservers;

    if (!pod_has_nameservers(k)) /* a rule to none would be one to all */
        return;
    tn_buf_puts(out, ",{\"ports\":[{\"port\":53,\"protocol\":\"UDP\"},{\"port\":53}],\"to\":[");
    for (size_t i = 0; i < all->count; i++) {
        const char *net = all->items[i];
        const char *bits = strchr(net, '/') ? "" : strchr(net, ':') ? "/128" : "/32";
        tn_buf_printf(out, "%s{\"ipBlock\":{\"cidr\":\"%s%s\"}}", i ? "," : "", net, bits);
    }
    tn_buf_puts(out, "]}");
}

static void put_rules(const char *rules, const struct tn_config_kubernetes *k, struct tn_buf *out)
{
    const struct tn_str_list *near = &k->near;

    for (; *rules; rules++) {
        if (*rules == '\5')
            put_nameservers(k, out);
        else if (*rules != '\4' && *rules != '\6')
            tn_buf_putc(out, *rules);
        for (size_t i = 0; i < near->count; i++)
            if (*rules == (strchr(near->items[i], ':') ? '\6' : '\4'))
                tn_buf_printf(out, ",\"%s\"", near->items[i]);
    }
}

/* One direction each: kube-router (which is k3s's, too) takes what a policy of both allows in the
 * one for allowed in the other, between pods of that policy. */
const char *pod_put_policy(enum pod_network network, size_t at,
                           const struct tn_config_kubernetes *k, struct tn_buf *out)
{
    static const struct {
        const char *name, *networks, *direction, *field, *rules;
    } all[] = {
        {"tendon-none", "\"none\"", "Egress", "egress", ""},
        {"tendon-open", "\"open\"", "Egress", "egress", NAMES "," INTERNET},
        /* What leaves a gated one is its gate's. */
        {"tendon-hand", "\"none\",\"open\",\"gated\"", "Ingress", "ingress", HAND},
        {"tendon-people", "\"open\",\"gated\"", "Ingress", "ingress", PEOPLE},
    };

    for (size_t i = 0; i < TN_COUNT(all); i++) {
        if (!strstr(all[i].networks, pod_networks[network]) || at-- > 0)
            continue;
        tn_buf_printf(out,
                      "{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"NetworkPolicy\","
                      "\"metadata\":{\"name\":\"%s\",\"labels\":{"
                      "\"app.kubernetes.io/managed-by\":\"tendon\"}},\"spec\":{"
                      "\"podSelector\":{\"matchExpressions\":[{\"key\":\"" POD_NETWORK "\","
                      "\"operator\":\"In\",\"values\":[%s]}]},"
                      "\"policyTypes\":[\"%s\"],\"%s\":[",
                      all[i].name, all[i].networks, all[i].direction, all[i].field);
        put_rules(all[i].rules, k, out);
        tn_buf_puts(out, "]}}");
        return all[i].name;
    }
    return NULL;
}
