/* The pod of a sandbox: what it may not have, and its manifest. */
#include "gate/pod.h"
#include "base/yaml-tree.h"
#include "gate/rules.h"
#include "net/proof.h"
#include "runtime/kubernetes/pods.h"

enum { USUAL_UID = 1000, YAML_MOST = 10000 };

/* The hand is on its way by exec: it is put there whole, by a rename. */
#define WAITS "until [ -x " POD_HAND " ]; do sleep 0.05 || sleep 1; done; exec " POD_HAND " \"$@\""

/* --- who, where, what ------------------------------------------------------------------------- */

/* -1: a name that no pod knows. */
static int64_t uid_of(const char *user)
{
    if (*user >= '0' && *user <= '9')
        return strtoll(user, NULL, 10);
    return strcmp(user, "root") == 0 ? 0 : strcmp(user, "openhands") == 0 ? USUAL_UID : -1;
}

int64_t pod_uid(const struct tn_config *config, const struct tn_spec *spec)
{
    if (spec->user)
        return uid_of(spec->user);
    return config->core.run_as_openhands ? USUAL_UID : 0;
}

const char *pod_workspace(const struct tn_config *config, const struct tn_spec *spec)
{
    return spec->workspace ? spec->workspace : config->core.workspace_mount_path_in_sandbox;
}

const char *pod_image(const struct tn_config *config, const struct tn_spec *spec)
{
    const char *const given[] = {spec ? spec->image : NULL, config->sandbox.runtime_container_image,
                                 config->sandbox.base_container_image};

    for (size_t i = 0; i < TN_COUNT(given); i++)
        if (given[i] && *given[i])
            return given[i];
    return NULL;
}

static bool is_set(const char *text)
{
    return text && *text;
}

enum pod_network pod_choose_network(const struct tn_config *config, const struct tn_spec *spec)
{
    return pod_is_gated(config, spec)           ? POD_NETWORK_GATED
           : spec->network == TN_NETWORK_NONE   ? POD_NETWORK_NONE
           : spec->network == TN_NETWORK_BRIDGE ? POD_NETWORK_BRIDGE
                                                : POD_NETWORK_OPEN;
}

/* How many GPUs; ids are merely counted: the cluster chooses. */
static int count_gpus(const char *ids)
{
    int n = is_set(ids);

    for (; is_set(ids); ids++)
        n += *ids == ',';
    return n;
}

/* --- what cannot be kept ---------------------------------------------------------------------- */

static const struct tn_spec_bar barred[] = {
    {"devices", "its cluster's device plugins give them out (gpus)"},
    {"pids", "the kubelet has one limit for all (podPidsLimit)"},
    {"file_size", "Kubernetes has no such limit"},
    {"open_files", "Kubernetes has no such limit"},
};

static int check_volumes(const struct tn_config_kubernetes *k, const struct tn_spec *spec,
                         struct tn_error *err)
{
    for (size_t i = 0; i < spec->volumes.count; i++) {
        tn_autovolume struct tn_volume v = {0};
        bool allowed = false;
        if (tn_volume_parse(spec->volumes.items[i], &v, err) < 0)
            return -1;
        for (size_t c = 0; c < k->claims.count; c++)
            allowed |=
                strcmp(k->claims.items[c], "*") == 0 || strcmp(k->claims.items[c], v.host) == 0;
        if (!v.named || v.below)
            return tn_fail(err, TN_E_UNSUPPORTED,
                           "volumes: %.120s: a pod can mount claims of its namespace, "
                           "NAME:INSIDE[:ro], not directories of this machine",
                           spec->volumes.items[i]);
        if (!allowed)
            return tn_fail(err, TN_E_DENIED,
                           "volumes: the claim %.120s may not be mounted (kubernetes.claims)",
                           v.host);
    }
    return 0;
}

static int check_quantities(const struct tn_config_kubernetes *k, struct tn_error *err)
{
    const struct {
        const char *name, *value;
    } all[] = {
        {"pvc_storage_size", k->pvc_storage_size},
        {"resource_cpu_request", k->resource_cpu_request},
        {"resource_memory_request", k->resource_memory_request},
        {"resource_memory_limit", k->resource_memory_limit},
        {"resource_cpu_limit", k->resource_cpu_limit},
        {"resource_ephemeral_limit", k->resource_ephemeral_limit},
    };
    double number;

    for (size_t i = 0; i < TN_COUNT(all); i++)
        if (is_set(all[i].value) && pod_quantity(all[i].value, &number) < 0)
            return tn_fail(err, TN_E_INVALID,
                           "kubernetes.%s: expected a quantity such as 500m or 2Gi, found '%.60s'",
                           all[i].name, all[i].value);
    return 0;
}

/* Settings that are YAML, and the member of a pod that each is. */
struct yaml_setting {
    const char *name, *member, *text;
    enum tn_json_type type;
};

static int read_yaml(const struct yaml_setting *y, struct tn_json **tree, struct tn_error *err)
{
    *tree = NULL;
    if (!is_set(y->text))
        return 0;
    if (tn_yaml_parse(y->text, strlen(y->text), YAML_MOST, tree, err) < 0)
        return tn_error_context(err, "kubernetes.%s", y->name);
    if (!*tree || tn_json_type(*tree) == y->type)
        return 0;
    tn_fail(err, TN_E_INVALID, "kubernetes.%s: expected %s, found %s", y->name,
            y->type == TN_JSON_ARRAY ? "a list" : "an object", tn_json_type_name(*tree));
    tn_json_free(TN_TAKE_PTR(*tree));
    return -1;
}

/* Writes them, or only reads (w NULL). */
static int put_yaml(const struct tn_config_kubernetes *k, struct tn_jw *w, struct tn_error *err)
{
    const struct yaml_setting all[] = {
        {"tolerations_yaml", "tolerations", k->tolerations_yaml, TN_JSON_ARRAY},
        {"affinity_yaml", "affinity", k->affinity_yaml, TN_JSON_OBJECT},
        {"topology_spread_yaml", "topologySpreadConstraints", k->topology_spread_yaml,
         TN_JSON_ARRAY},
    };

    for (size_t i = 0; i < TN_COUNT(all); i++) {
        tn_autojson struct tn_json *tree = NULL;
        if (read_yaml(&all[i], &tree, err) < 0)
            return -1;
        if (tree && w) {
            tn_jw_key(w, all[i].member);
            tn_jw_tree(w, tree);
        }
    }
    return 0;
}

static int check_wishes(const struct tn_spec *spec, struct tn_error *err)
{
    tn_autojson struct tn_json *wish = NULL;

    if (tn_spec_tree(spec, &wish, err) < 0 ||
        tn_spec_refuse(wish, "a pod", barred, TN_COUNT(barred), NULL, err) < 0)
        return -1;
    if (spec->network == TN_NETWORK_HOST)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network host: a pod has none, open, allow and bridge");
    if (spec->user && uid_of(spec->user) < 0)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "user %s: a pod takes uids, and the names root and openhands", spec->user);
    if (spec->gpus && strcmp(spec->gpus, "all") == 0)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "gpus all: a cluster gives out a number of them: expected that many ids, "
                       "such as 0,1");
    return 0;
}

int pod_check(const struct tn_config *config, const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_config_kubernetes *k = &config->kubernetes;
    struct tn_limits limits;

    if (check_quantities(k, err) < 0 || put_yaml(k, NULL, err) < 0)
        return -1;
    if (is_set(k->sandbox_pool) && k->agent_sandbox == TN_KUBERNETES_NEVER)
        return tn_fail(err, TN_E_INVALID,
                       "kubernetes.sandbox_pool: its sandboxes are agent-sandbox's, which "
                       "kubernetes.agent_sandbox = never forbids: expected auto or always");
    for (size_t i = 0; i < k->near.count; i++)
        if (!tn_net_parse(k->near.items[i], &(struct tn_rule){0}))
            return tn_fail(err, TN_E_INVALID,
                           "kubernetes.near: expected nets such as 2600:1f14::/36, found %.100s",
                           k->near.items[i]);
    for (size_t i = 0; pod_has_nameservers(k) && i < k->nameservers.count; i++) {
        const char *text = k->nameservers.items[i];
        struct tn_address address;
        if (!tn_net_parse(text, &(struct tn_rule){0}) && !tn_address_parse(text, &address))
            return tn_fail(err, TN_E_INVALID,
                           "kubernetes.nameservers: expected addresses or nets such as "
                           "169.254.20.10 or fd00::/120, found %.100s",
                           text);
    }
    if (k->restricted && k->privileged)
        return tn_fail(err, TN_E_INVALID,
                       "kubernetes.privileged: kubernetes.restricted forbids it: expected one of "
                       "them");
    if (!spec) /* the settings alone */
        return 0;
    if (k->restricted && pod_uid(config, spec) == 0)
        return tn_fail(err, TN_E_DENIED,
                       "user root: pods of this configuration never are (kubernetes.restricted)");
    const char *class = pod_class(config, spec), *wanted = tn_config_isolation(config, spec);
    if (class && !*class)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "isolation %s: there is no runtime class for it "
                       "(kubernetes.runtime_class_%s)",
                       wanted, wanted);
    if (check_wishes(spec, err) < 0 || pod_check_gate(config, spec, err) < 0 ||
        check_volumes(k, spec, err) < 0 || tn_spec_limits(spec, &limits, err) < 0)
        return -1;
    return pod_image(config, spec) ? 0 : tn_fail(err, TN_E_INVALID, "image: none is named");
}

/* --- runtime classes -------------------------------------------------------------------------- */

const char *pod_class(const struct tn_config *config, const struct tn_spec *spec)
{
    const struct tn_config_kubernetes *k = &config->kubernetes;
    const char *wanted = tn_config_isolation(config, spec);

    return strcmp(wanted, "gvisor") == 0 ? k->runtime_class_gvisor
           : strcmp(wanted, "kata") == 0 ? k->runtime_class_kata
                                         : NULL;
}

/* A handler is a word of the node's configuration; these are how everybody calls them. */
const char *pod_walls(const struct tn_config_kubernetes *k, const char *class, const char *handler)
{
    static const struct {
        const char *part, *walls;
    } known[] = {{"runsc", "gvisor"},
                 {"gvisor", "gvisor"},
                 {"kata", "kata"},
                 {"runc", "native"},
                 {"crun", "native"}};

    for (size_t i = 0; i < TN_COUNT(known); i++)
        if (strstr(handler, known[i].part))
            return known[i].walls;
    return !*class                                       ? "native"
           : strcmp(class, k->runtime_class_gvisor) == 0 ? "gvisor"
           : strcmp(class, k->runtime_class_kata) == 0   ? "kata"
                                                         : "native";
}

/* --- the hand's command line ------------------------------------------------------------------ */

/* The kubelet takes $(NAME) for a variable, and $$ for $. */
static void put_argument(void *w, const char *text)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(POD_MANIFEST_MAX);

    for (; *text; text++)
        tn_buf_puts(&out, *text == '$' ? "$$" : (char[]){*text, '\0'});
    tn_jw_strn(w, tn_buf_str(&out), out.len);
}

static void put_arguments(pod_word_fn *put, void *ctx, const char *const *all)
{
    for (; *all; all++)
        put(ctx, *all);
}

static void put_list(pod_word_fn *put, void *ctx, const struct tn_str_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        put(ctx, list->items[i]);
}

/* The gate has files beside the hand: there it is copied. */
bool pod_mounts_image(const struct pod_plan *p)
{
    const struct tn_config_kubernetes *k = &p->config->kubernetes;

    return is_set(k->hand_image) && k->hand_volume == TN_KUBERNETES_IMAGE &&
           !pod_is_gated(p->config, p->subject->spec);
}

void pod_each_argument(const struct pod_plan *p, pod_word_fn *put, void *ctx)
{
    const struct tn_config *c = p->config;
    const struct tn_spec *spec = p->subject->spec;
    char digest[TN_PROOF_DIGITS + 1];

    tn_proof_digest(p->subject->key, digest);
    put_arguments(put, ctx,
                  (const char *const[]){"--listen", "[::]:8080", "--key-digest", digest,
                                        "--working-dir", pod_workspace(c, spec), NULL});
    put(ctx, c->core.enable_browser ? "--viewer" : "--no-enable-browser");
    if (c->core.enable_browser && is_set(c->sandbox.browsergym_eval_env))
        put_arguments(
            put, ctx,
            (const char *const[]){"--browsergym-eval-env", c->sandbox.browsergym_eval_env, NULL});
    if (spec->plugins.count && c->sandbox.initialize_plugins) {
        put(ctx, "--plugins");
        put_list(put, ctx, &spec->plugins);
    }
    put_list(put, ctx, &spec->hand_args);
}

static void put_command(const struct pod_plan *p, struct tn_jw *w)
{
    int64_t uid = pod_uid(p->config, p->subject->spec);
    tn_autofree char *number = tn_asprintf("%lld", (long long)uid);

    tn_jw_key(w, "command");
    tn_jw_array(w);
    if (!is_set(p->config->kubernetes.hand_image))
        put_arguments(put_argument, w, (const char *const[]){"sh", "-c", WAITS, "sh", NULL});
    else
        put_argument(w, pod_mounts_image(p) ? TN_INSIDE "/tendon-hand" : POD_HAND);
    put_arguments(put_argument, w, (const char *const[]){"--user-id", number, NULL});
    if (!uid)
        put_arguments(put_argument, w, (const char *const[]){"--username", "root", NULL});
    pod_each_argument(p, put_argument, w);
    tn_jw_array_end(w);
}

/* --- the container ---------------------------------------------------------------------------- */

/* Values of one resource: what the spec says (0: nothing), else what the configuration does; a
 * request is never above its limit. */
struct resource {
    const char *name;
    double said;
    const char *request, *limit; /* settings; "" or NULL: none */
};

static char *amount(double value)
{
    value = value < 0x1p52 ? value : 0x1p52; /* above it a thousandfold is no number */
    return value == (double)(int64_t)value ? tn_asprintf("%lld", (long long)value)
                                           : tn_asprintf("%lldm", (long long)(value * 1000 + 0.5));
}

static void put_resource(const struct resource *r, bool limit, struct tn_jw *w)
{
    double most = r->said, least = 0;
    tn_autofree char *text = NULL;

    if (most <= 0 && is_set(r->limit))
        pod_quantity(r->limit, &most);
    if (is_set(r->request))
        pod_quantity(r->request, &least);
    if (most > 0 && least > most)
        least = most;
    /* A request of 0 is said: without one it would be the limit. */
    if (limit ? most <= 0 : least <= 0 && !(most > 0 && is_set(r->request)))
        return;
    text = amount(limit ? most : least);
    tn_jw_kstr(w, r->name, text);
}

static void put_resources(const struct pod_plan *p, struct tn_jw *w)
{
    const struct tn_config_kubernetes *k = &p->config->kubernetes;
    const struct tn_spec *spec = p->subject->spec;
    struct tn_limits l = {0};

    tn_spec_limits(spec, &l, NULL);
    const struct resource all[] = {
        {"cpu", l.cpus, k->resource_cpu_request, k->resource_cpu_limit},
        {"memory", (double)l.memory, k->resource_memory_request, k->resource_memory_limit},
        {"ephemeral-storage", (double)l.disk, "0", k->resource_ephemeral_limit},
        {k->gpu_resource, count_gpus(spec->gpus), NULL, NULL},
    };
    static const char *const kinds[] = {"requests", "limits"};
    tn_jw_key(w, "resources");
    tn_jw_object(w);
    for (int limit = 0; limit < 2; limit++) {
        tn_jw_key(w, kinds[limit]);
        tn_jw_object(w);
        for (size_t i = 0; i < TN_COUNT(all); i++)
            put_resource(&all[i], limit, w);
        tn_jw_object_end(w);
    }
    tn_jw_object_end(w);
}

void pod_put_mount(struct tn_jw *w, const char *name, const char *path, bool read_only)
{
    pod_json(w, NULL,
             read_only ? "{\"name\":%s,\"mountPath\":%s,\"readOnly\":true}"
                       : "{\"name\":%s,\"mountPath\":%s}",
             name, path);
}

/* Calls of fn for every claim that the spec mounts. */
static void each_claim(const struct tn_spec *spec, struct tn_jw *w,
                       void (*fn)(const struct tn_volume *v, const char *name, struct tn_jw *w))
{
    for (size_t i = 0; i < spec->volumes.count; i++) {
        tn_autovolume struct tn_volume v = {0};
        tn_autofree char *name = tn_asprintf("claim-%zu", i);
        if (tn_volume_parse(spec->volumes.items[i], &v, NULL) == 0)
            fn(&v, name, w);
    }
}

static void put_claim_mount(const struct tn_volume *v, const char *name, struct tn_jw *w)
{
    pod_put_mount(w, name, v->inside, v->read_only);
}

static void put_claim_volume(const struct tn_volume *v, const char *name, struct tn_jw *w)
{
    pod_json(w, NULL,
             v->read_only
                 ? "{\"name\":%s,\"persistentVolumeClaim\":{\"claimName\":%s,\"readOnly\":true}}"
                 : "{\"name\":%s,\"persistentVolumeClaim\":{\"claimName\":%s}}",
             name, v->host);
}

/* What installing packages and changing users takes: neither raw sockets nor devices. */
#define ROOT                                                                                       \
    "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"],\"add\":["           \
    "\"CHOWN\",\"DAC_OVERRIDE\",\"FOWNER\",\"FSETID\",\"KILL\",\"SETGID\",\"SETUID\",\"SETPCAP\"," \
    "\"NET_BIND_SERVICE\",\"SYS_CHROOT\"]}}"
#define RESTRICTED "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]}}"

static void put_container(const struct pod_plan *p, struct tn_jw *w)
{
    const struct tn_config *c = p->config;
    const struct tn_spec *spec = p->subject->spec;
    tn_autofree char *secret = pod_name(p->subject->id, "-key");
    bool root = pod_uid(c, spec) == 0;

    tn_jw_key(w, "containers");
    tn_jw_array(w);
    tn_jw_object(w);
    tn_jw_kstr(w, "name", POD_CONTAINER);
    tn_jw_kstr(w, "image", pod_image(c, spec));
    /* What another has pulled with a login is on the node: whoever is anonymous asks again. */
    if (p->anonymous)
        tn_jw_kstr(w, "imagePullPolicy", "Always");
    put_command(p, w);
    tn_jw_kstr(w, "workingDir", pod_workspace(c, spec));
    pod_json(w, "envFrom", "[{\"secretRef\":{\"name\":%s}}]", secret);
    pod_json(w, "ports",
             "[{\"name\":\"http\",\"containerPort\":8080},"
             "{\"name\":\"vscode\",\"containerPort\":8081},"
             "{\"containerPort\":30082},{\"containerPort\":30083}]");
    put_resources(p, w);
    /* As root it can install what it likes in itself; privileged only if the operator says so. */
    pod_json(w, "securityContext",
             c->kubernetes.privileged ? "{\"privileged\":true}"
             : root                   ? ROOT
                                      : RESTRICTED);
    pod_json(w, "readinessProbe",
             "{\"httpGet\":{\"path\":\"/alive\",\"port\":\"http\"},\"periodSeconds\":1,"
             "\"timeoutSeconds\":5,\"failureThreshold\":3}");
    tn_jw_kstr(w, "terminationMessagePolicy", "FallbackToLogsOnError");
    tn_jw_key(w, "volumeMounts");
    tn_jw_array(w);
    pod_put_mount(w, "hand", TN_INSIDE, is_set(c->kubernetes.hand_image));
    pod_put_mount(w, "workspace-volume", pod_workspace(c, spec), false);
    /* Images are made for root: neither is there, or may be written, for others. */
    if (!root) {
        pod_put_mount(w, "home", POD_HOME, false);
        pod_put_mount(w, "tmp", "/tmp", false);
    }
    if (pod_is_gated(c, spec))
        pod_json(w, NULL,
                 "{\"name\":\"hand\",\"mountPath\":\"/etc/resolv.conf\","
                 "\"subPath\":\"" TN_POD_RESOLVER "\",\"readOnly\":true}");
    each_claim(spec, w, put_claim_mount);
    tn_jw_array_end(w);
    tn_jw_object_end(w);
    tn_jw_array_end(w);
}

static void put_init_container(const struct pod_plan *p, struct tn_jw *w)
{
    const struct tn_config_kubernetes *k = &p->config->kubernetes;

    if (pod_is_gated(p->config, p->subject->spec)) {
        tn_jw_key(w, "initContainers");
        tn_jw_array(w);
        pod_put_gate(p, w);
        tn_jw_array_end(w);
        return;
    }
    if (!is_set(k->hand_image) || pod_mounts_image(p))
        return;
    pod_json(w, "initContainers",
             "[{\"name\":\"hand\",\"image\":%s,"
             "\"command\":[\"/tendon-hand\",\"--copy-to\",\"" POD_HAND "\"],"
             "\"resources\":{\"requests\":{\"cpu\":\"10m\",\"memory\":\"16Mi\"},"
             "\"limits\":{\"cpu\":\"1\",\"memory\":\"64Mi\"}},"
             "\"securityContext\":" RESTRICTED ","
             "\"volumeMounts\":[{\"name\":\"hand\",\"mountPath\":\"" TN_INSIDE "\"}]}]",
             k->hand_image);
}

/* --- the pod ---------------------------------------------------------------------------------- */

static void put_volumes(const struct pod_plan *p, struct tn_jw *w)
{
    const struct tn_config_kubernetes *k = &p->config->kubernetes;
    tn_autofree char *claim = pod_name(p->subject->id, "-pvc");

    tn_jw_key(w, "volumes");
    tn_jw_array(w);
    if (pod_mounts_image(p))
        pod_json(w, NULL, "{\"name\":\"hand\",\"image\":{\"reference\":%s}}", k->hand_image);
    else
        pod_json(w, NULL, "{\"name\":\"hand\",\"emptyDir\":{}}");
    if (p->kept)
        put_claim_volume(&(struct tn_volume){.host = claim}, "workspace-volume", w);
    else
        pod_json(w, NULL, "{\"name\":\"workspace-volume\",\"emptyDir\":{}}");
    if (pod_uid(p->config, p->subject->spec) != 0) {
        pod_json(w, NULL, "{\"name\":\"home\",\"emptyDir\":{}}");
        pod_json(w, NULL, "{\"name\":\"tmp\",\"emptyDir\":{}}");
    }
    if (pod_is_gated(p->config, p->subject->spec))
        pod_put_gate_volumes(p, w);
    each_claim(p->subject->spec, w, put_claim_volume);
    tn_jw_array_end(w);
}

static void put_security(const struct pod_plan *p, struct tn_jw *w)
{
    int64_t uid = pod_uid(p->config, p->subject->spec);

    tn_jw_key(w, "securityContext");
    tn_jw_object(w);
    tn_jw_kint(w, "runAsUser", uid);
    tn_jw_kbool(w, "runAsNonRoot", uid != 0);
    if (uid) {
        /* Volumes are its own; but files of an operator's claim do not change hands by a wish. */
        tn_jw_kint(w, "fsGroup", p->subject->spec->volumes.count ? USUAL_UID : uid);
        tn_jw_kstr(w, "fsGroupChangePolicy", "OnRootMismatch");
    }
    if (!p->config->kubernetes.privileged)
        pod_json(w, "seccompProfile", "{\"type\":\"RuntimeDefault\"}");
    tn_jw_object_end(w);
}

static void put_member(struct tn_jw *w, const char *name, const char *value)
{
    if (is_set(value))
        tn_jw_kstr(w, name, value);
}

/* Whoever is anonymous pulls without the operator's logins.  A pod that lists none is given those
 * of its ServiceAccount, so that one lists the sandbox's own Secret, which is a login to
 * nothing. */
static void put_logins(const struct pod_plan *p, struct tn_jw *w)
{
    const struct tn_config_kubernetes *k = &p->config->kubernetes;
    const char *image = p->anonymous ? NULL : k->image_pull_secret;
    tn_autofree char *own = pod_name(p->subject->id, "-key");
    const char *hand = is_set(k->hand_pull_secret) ? k->hand_pull_secret
                       : p->anonymous              ? own
                                                   : NULL;

    if (!is_set(image) && !hand)
        return;
    tn_jw_key(w, "imagePullSecrets");
    tn_jw_array(w);
    if (is_set(image))
        pod_json(w, NULL, "{\"name\":%s}", image);
    if (hand)
        pod_json(w, NULL, "{\"name\":%s}", hand);
    tn_jw_array_end(w);
}

static void put_placement(const struct pod_plan *p, struct tn_jw *w)
{
    const struct tn_config_kubernetes *k = &p->config->kubernetes;
    const struct tn_spec *spec = p->subject->spec;

    put_member(w, "serviceAccountName", k->service_account);
    put_member(w, "priorityClassName", k->priority_class);
    put_member(w, "runtimeClassName", pod_class(p->config, spec));
    put_logins(p, w);
    if (is_set(k->node_selector_key) && is_set(k->node_selector_val)) {
        tn_jw_key(w, "nodeSelector");
        tn_jw_object(w);
        tn_jw_kstr(w, k->node_selector_key, k->node_selector_val);
        tn_jw_object_end(w);
    }
}

int pod_put_spec(const struct pod_plan *p, struct tn_jw *w, struct tn_error *err)
{
    const struct tn_spec *spec = p->subject->spec;

    tn_jw_key(w, "spec");
    tn_jw_object(w);
    tn_jw_kstr(w, "restartPolicy", "Never");
    tn_jw_kbool(w, "automountServiceAccountToken", false);
    tn_jw_kbool(w, "enableServiceLinks", false);
    tn_jw_kint(w, "terminationGracePeriodSeconds", 2);
    if (spec->wall_time.set && spec->wall_time.value > 0)
        tn_jw_kint(w, "activeDeadlineSeconds",
                   spec->wall_time.value < INT32_MAX - 1 ? (int64_t)(spec->wall_time.value + 0.999)
                                                         : INT32_MAX);
    put_placement(p, w);
    if (put_yaml(&p->config->kubernetes, w, err) < 0)
        return -1;
    put_security(p, w);
    put_init_container(p, w);
    put_container(p, w);
    put_volumes(p, w);
    tn_jw_object_end(w);
    return 0;
}

int pod_put_pod(const struct pod_plan *p, struct tn_buf *out, struct tn_error *err)
{
    struct tn_jw w = tn_jw(out);

    pod_open(p, "v1", "Pod", "", &w);
    tn_jw_object_end(&w);
    return pod_put_spec(p, &w, err) < 0 ? -1 : pod_close(&w, err);
}
