/* The gate of a pod: an init container lays the rules of its network, a sidecar keeps the gate
 * (gate/pod.h).  Both are tendon-gate of the hand's image, and have a Secret of their own.
 *
 * The kernel tells the gate's packets by their user.  So nobody in the sandbox's container may
 * become that one: no root, which could change its user, and nothing that leads to other
 * namespaces. */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/again.h"
#include "base/fs.h"
#include "base/key-file.h"
#include "base/thread.h"
#include "gate/keeper-protocol.h"
#include "gate/pod.h"
#include "gate/program.h"
#include "gate/rules.h"
#include "runtime/gated.h"
#include "runtime/kubernetes/pods.h"
#include "runtime/secrets.h"
#include "security/vault.h"

enum { SIDECARS_SINCE = 29, LOG_MAX = 128 << 10, WORDS_MAX = 4096 };
#define HEAR_SECONDS 30.0
#define REFUSALS_SECONDS 5.0 /* for what it refused, to who looks at the sandbox anyway */
#define FIRST_SECONDS 1.0
#define LASTED_SECONDS 60.0

/* --- whether, and which ----------------------------------------------------------------------- */

int pod_network_of(const struct tn_config *config, const struct tn_spec *spec,
                   const struct tn_str_list **allow)
{
    int network = spec->network == TN_NETWORK_DEFAULT ? TN_NETWORK_OPEN : spec->network;
    bool gated = network == TN_NETWORK_ALLOW ||
                 (network == TN_NETWORK_OPEN && (spec->allow.count || spec->secrets.count));

    *allow = gated ? tn_gated_rules(network, spec, &config->kubernetes.allow) : NULL;
    return network;
}

bool pod_is_gated(const struct tn_config *config, const struct tn_spec *spec)
{
    const struct tn_str_list *allow;

    pod_network_of(config, spec, &allow);
    return allow;
}

bool pod_ends_tls(const struct tn_config *config, const struct tn_spec *spec)
{
    const struct tn_str_list *allow;

    pod_network_of(config, spec, &allow);
    return allow && (spec->secrets.count || tn_gated_look_inside(allow));
}

int pod_check_gate(const struct tn_config *config, const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_config_kubernetes *k = &config->kubernetes;
    const struct tn_str_list *allow;
    int network = pod_network_of(config, spec, &allow);
    int64_t uid = pod_uid(config, spec);
    const struct {
        bool wrong;
        const char *why;
    } all[] = {
        {!k->hand_image || !*k->hand_image,
         "its gate comes with the hand's image: kubernetes.hand_image is not set"},
        {uid == 0, "user root could become the user that its gate is known by: expected another"},
        {uid == TN_GATE_UID, "this user is who its gate is known by: expected another"},
        {k->privileged, "kubernetes.privileged: it could change the rules that lead to its gate"},
        {strcmp(tn_config_isolation(config, spec), "gvisor") == 0,
         "isolation gvisor: its network has none of the rules that lead to a gate"},
    };

    if (!allow && (spec->allow.count || spec->ask || spec->secrets.count))
        return tn_fail(err, TN_E_UNSUPPORTED, "%s: the network %s of a pod has no gate",
                       spec->allow.count ? "allow"
                       : spec->ask       ? "ask"
                                         : "secrets",
                       tn_networks[network]);
    for (size_t i = 0; allow && i < TN_COUNT(all); i++)
        if (all[i].wrong)
            return tn_fail(err, TN_E_UNSUPPORTED, "network %s: %s", tn_networks[network],
                           all[i].why);
    return allow ? tn_gated_check(network, spec, err) : 0;
}

/* --- manifests -------------------------------------------------------------------------------- */

#define AS_ROOT(caps, more)                                                            \
    "{\"runAsUser\":0,\"runAsNonRoot\":false,\"allowPrivilegeEscalation\":false," more \
    "\"capabilities\":{\"drop\":[\"ALL\"],\"add\":[" caps "]}}"
#define RESOURCES                                          \
    "{\"requests\":{\"cpu\":\"10m\",\"memory\":\"32Mi\"}," \
    "\"limits\":{\"cpu\":\"1\",\"memory\":\"256Mi\"}}"
#define PAPERS "{\"name\":\"papers\",\"mountPath\":\"" TN_POD_PAPERS "\",\"readOnly\":true}"

void pod_put_gate(const struct pod_plan *p, struct tn_jw *w)
{
    const char *image = p->config->kubernetes.hand_image;
    char ask[32];

    snprintf(ask, sizeof ask, "%.3f", p->subject->spec->ask ? p->config->jail.ask_seconds : 0);
    pod_json(
        w, NULL,
        "{\"name\":\"wall\",\"image\":%s,\"command\":[\"" TN_POD_GATE "\",\"--pod-wall\","
        "\"/tendon-hand\",\"--copy-to\",\"" POD_HAND "\"],\"resources\":" RESOURCES ","
        "\"securityContext\":" AS_ROOT(
            "\"NET_ADMIN\"",
            "") ","
                "\"terminationMessagePolicy\":\"FallbackToLogsOnError\",\"volumeMounts\":[" PAPERS
                ","
                "{\"name\":\"hand\",\"mountPath\":\"" TN_POD_SHARED "\"}]}",
        image);
    /* What the sandbox runs begins when it listens; until then, and without it, nothing passes. */
    pod_json(
        w, NULL,
        "{\"name\":\"" POD_GATE_CONTAINER "\",\"image\":%s,\"restartPolicy\":\"Always\","
        "\"command\":[\"" TN_POD_GATE "\",\"--pod-keep\",%s],\"resources\":" RESOURCES ","
        "\"securityContext\":" AS_ROOT(
            "\"NET_RAW\",\"SETUID\",\"SETGID\"",
            "\"readOnlyRootFilesystem\":true,") ","
                                                "\"startupProbe\":{\"exec\":{\"command\":[\"" TN_POD_GATE
                                                "\",\"--pod-ready\"]},"
                                                "\"periodSeconds\":1,\"timeoutSeconds\":5,\"failureThreshold\":60},"
                                                "\"terminationMessagePolicy\":\"FallbackToLogsOnError\",\"volumeMounts\":[" PAPERS
                                                ","
                                                "{\"name\":\"state\",\"mountPath\":\"" TN_POD_STATE
                                                "\"}]}",
        image, ask);
}

void pod_put_gate_volumes(const struct pod_plan *p, struct tn_jw *w)
{
    tn_autofree char *secret = pod_name(p->subject->id, "-gate");

    pod_json(w, NULL, "{\"name\":\"papers\",\"secret\":{\"secretName\":%s,\"defaultMode\":256}}",
             secret);
    pod_json(w, NULL,
             "{\"name\":\"state\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"8Mi\"}}");
}

/* Values are in it, and the key of the sandbox's authority: the text is wiped. */
static int put_vault(const struct tn_host *host, const struct tn_subject *s, struct tn_jw *w,
                     struct tn_error *err)
{
    tn_autofree char *certificate = NULL;
    tn_autofd int fd = tn_secrets_vault(host, s, true, &certificate, err);
    tn_autokeyfile struct tn_buf text = TN_BUF_INIT(TN_VAULT_MAX);

    if (fd < 0 || tn_fs_read_fd(fd, &text, err) < 0)
        return -1;
    tn_jw_key(w, TN_POD_VAULT);
    tn_jw_strn(w, text.data, text.len);
    return 0;
}

static int put_rules(const struct tn_config *config, const struct tn_spec *spec, struct tn_buf *out,
                     struct tn_error *err)
{
    const struct tn_str_list *allow, *near = &config->kubernetes.near;
    int network = pod_network_of(config, spec, &allow);

    if (tn_gated_put_rules(out, network, allow, err) < 0)
        return -1;
    for (size_t i = 0; i < near->count; i++)
        tn_buf_printf(out, "%c%s\n", TN_RULES_NEAR, near->items[i]);
    return tn_buf_ok(out) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "too many rules");
}

static int put_secret(const struct pods *p, const struct pod_plan *plan, struct tn_buf *out,
                      struct tn_error *err)
{
    const struct tn_subject *s = plan->subject;
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATED_RULES_MAX);
    struct tn_jw w = tn_jw(out);

    if (put_rules(plan->config, s->spec, &rules, err) < 0)
        return -1;
    pod_open(plan, "v1", "Secret", "-gate", &w);
    tn_jw_object_end(&w);
    tn_jw_kstr(&w, "type", "Opaque");
    tn_jw_key(&w, "stringData");
    tn_jw_object(&w);
    tn_jw_kstr(&w, TN_POD_RULES, tn_buf_str(&rules));
    if (pod_ends_tls(plan->config, s->spec) && put_vault(p->host, s, &w, err) < 0)
        return tn_error_context(err, "its gate");
    tn_jw_object_end(&w);
    return pod_close(&w, err);
}

/* --- starting --------------------------------------------------------------------------------- */

int pods_check_version(const struct pods *p, const struct tn_spec *spec, int64_t deadline,
                       struct tn_error *err)
{
    const struct kube_call call = {.target = "/version"};
    tn_autojson struct tn_json *version = NULL;

    if (!pod_is_gated(p->host->config, spec))
        return 0;
    if (kube_call(p->kube, &call, &version, deadline, err) < 0)
        return -1;
    long minor = strtol(tn_json_get_str(version, "minor", "0"), NULL, 10);
    if (minor >= SIDECARS_SINCE || strcmp(tn_json_get_str(version, "major", "1"), "1") != 0)
        return 0;
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "its gate is a sidecar, which takes Kubernetes 1.%d; the cluster is 1.%ld",
                   SIDECARS_SINCE, minor);
}

int pods_make_gate(const struct pods *p, const struct pod_plan *plan, int64_t deadline,
                   struct tn_error *err)
{
    const struct tn_subject *s = plan->subject;
    tn_autofree char *name = pod_name(s->id, "-gate");
    tn_autokeyfile struct tn_buf body = TN_BUF_INIT(2 * POD_MANIFEST_MAX);
    tn_autojson struct tn_json *before = NULL;

    if (!pod_is_gated(plan->config, s->spec))
        return 0;
    /* Each start has an authority and the rules of its own. */
    if (put_secret(p, plan, &body, err) < 0 ||
        pods_get_now(p, "secrets", name, s->id, &before, deadline, err) < 0 ||
        (before && pods_delete(p, "secrets", before, false, deadline, err) < 0))
        return -1;
    return pods_make(p, "secrets", name, s->id, &body, NULL, s->cancel, deadline, err);
}

/* --- while it runs ---------------------------------------------------------------------------- */

/* The last object that it printed; other lines are complaints. */
int pods_refusals(void *engine, const struct tn_subject *s, struct tn_buf *out, int64_t deadline,
                  struct tn_error *err)
{
    const struct pods *p = engine;
    tn_autofree char *name = pods_name(s);
    tn_autofree char *after =
        tn_asprintf("/%s/log?container=" POD_GATE_CONTAINER "&tailLines=5", name);
    tn_autofree char *target = pods_target(p, "pods", after);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(LOG_MAX);
    const char *last = NULL;

    if (kube_stream(p->kube, target, tn_buf_sink, &text, s->cancel, deadline, err) < 0)
        return tn_error_context(err, "its gate");
    for (const char *line = tn_buf_str(&text); *line; line += *line == '\n') {
        if (*line == '{')
            last = line;
        line += strcspn(line, "\n");
    }
    if (!last)
        return tn_fail(err, TN_E_NOT_FOUND, "its gate has told nothing");
    tn_buf_add(out, last, strcspn(last, "\n"));
    return 0;
}

void pods_add_refusals(const struct pods *p, const struct tn_subject *s, struct tn_place *place,
                       int64_t deadline)
{
    tn_autobuf struct tn_buf told = TN_BUF_INIT(LOG_MAX), reason = TN_BUF_INIT(LOG_MAX);

    if (place->status != TN_STATUS_RUNNING || !pod_is_gated(p->host->config, s->spec) ||
        pods_refusals((void *)(uintptr_t)p, s, &told,
                      tn_deadline_within(REFUSALS_SECONDS, deadline), NULL) < 0)
        return;
    tn_buf_puts(&reason, place->reason ? place->reason : "");
    tn_gated_put_told(&reason, &told);
    if (reason.len) {
        free(place->reason);
        place->reason = tn_buf_take(&reason);
    }
}

/* Executes tendon-gate beside the keeper, which answers "ok" or says why not. */
static int tell_gate(const struct pods *p, const struct tn_subject *s, const char *const *argv,
                     const struct tn_buf *input, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);
    const struct kube_exec e = {.container = POD_GATE_CONTAINER,
                                .argv = argv,
                                .input = input ? input->data : NULL,
                                .input_len = input ? input->len : 0};
    int status = 0;

    if (pods_run(p, s, e, &words, &status, deadline, err) < 0)
        return tn_error_context(err, "its gate");
    if (status == 0 && strcmp(tn_buf_str(&words), "ok\n") == 0)
        return 0;
    tn_autofree char *line = kube_line(tn_buf_str(&words));
    return tn_fail(err, status ? TN_E_PEER : TN_E_CONFLICT, "its gate: %s", line);
}

/* Its sidecar keeps them for as long as the pod lives; the next pod has those of the spec. */
int pods_reload(void *engine, const struct tn_subject *s, int64_t deadline, struct tn_error *err)
{
    const struct pods *p = engine;
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATED_RULES_MAX);

    if (put_rules(p->host->config, s->spec, &rules, err) < 0)
        return -1;
    tn_autofree char *size = tn_asprintf("%zu", rules.len);
    const char *const argv[] = {TN_POD_GATE, "--pod-rules", size, NULL};
    return tell_gate(p, s, argv, &rules, deadline, err);
}

/* --- what it asks ----------------------------------------------------------------------------- */

int pods_let(void *engine, const struct tn_subject *s, const char *host, int port, bool allowed,
             int64_t deadline, struct tn_error *err)
{
    tn_autofree char *request =
        tn_asprintf("%s%s %d", allowed ? TN_KEEPER_ALLOW : TN_KEEPER_REFUSE, host, port);
    const char *const argv[] = {TN_POD_GATE, "--pod-ask", request, NULL};
    struct tn_error why = {0};

    if (tell_gate(engine, s, argv, NULL, deadline, &why) == 0)
        return 0;
    return why.code == TN_E_CONFLICT
               ? tn_fail(err, TN_E_NOT_FOUND, "no connection to %s:%d waits any more", host, port)
               : tn_fail(err, why.code, "%s", why.text);
}

/* An exec that stays, for whoever has the other end of the socket. */
struct ear {
    struct kube *kube; /* lives as long as this process */
    char *namespace, *pod;
    int socket;
    bool unwanted; /* nobody may be asked */
};

static int pass_on(const void *bytes, size_t n, void *ctx)
{
    struct ear *ear = ctx;
    size_t no = strlen(TN_KEEPER_NO);

    ear->unwanted |= n > no && memcmp(bytes, TN_KEEPER_NO, no) == 0;
    return send(ear->socket, bytes, n, MSG_NOSIGNAL) != (ssize_t)n;
}

static void ear_free(struct ear *ear)
{
    tn_close(ear->socket);
    free(ear->namespace);
    free(ear->pod);
    free(ear);
}

/* Only the pod itself tells: an exec is answered with 404 as well while a gate is started again. */
static bool is_gone(const struct ear *ear)
{
    tn_autofree char *target =
        tn_asprintf("/api/v1/namespaces/%s/pods/%s", ear->namespace, ear->pod);
    const struct kube_call call = {.target = target, .cancel = ear->socket};
    tn_autojson struct tn_json *pod = NULL;
    struct tn_error err = {0};

    if (kube_call(ear->kube, &call, &pod, tn_deadline_in(HEAR_SECONDS), &err) < 0)
        return err.code == TN_E_NOT_FOUND;
    const char *phase = tn_json_get_str(tn_json_get(pod, "status"), "phase", "");
    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

/* Connections to API servers end, and gates are started again: then nothing waits there any more,
 * and it begins anew. */
static void *hear(void *arg)
{
    struct ear *ear = arg;
    const struct kube_exec e = {.namespace = ear->namespace,
                                .pod = ear->pod,
                                .container = POD_GATE_CONTAINER,
                                .argv = (const char *const[]){TN_POD_GATE, "--pod-hear", NULL},
                                .input = "",
                                .held = ear->socket,
                                .out = pass_on,
                                .ctx = ear};
    struct tn_error err;
    int status, ms = 0;

    do {
        int64_t lasted = tn_deadline_in(LASTED_SECONDS);
        err = (struct tn_error){0};
        kube_exec(ear->kube, &e, &status, tn_deadline_in(HEAR_SECONDS), &err);
        ms = tn_now() < lasted ? ms : 0;
        tn_autofree char *why = kube_line(*err.text ? err.text : "its program ended");
        tn_autofree char *lost = tn_asprintf("\n" TN_KEEPER_LOST "%s\n", why); /* of half a line */
        pass_on(lost, strlen(lost), ear);
    } while (!ear->unwanted && !is_gone(ear) &&
             tn_back_off(&ms, 0, ear->socket, TN_NEVER, NULL) == 0);
    ear_free(ear);
    return NULL;
}

int pods_listen(void *engine, const struct tn_subject *s, int64_t deadline, struct tn_error *err)
{
    const struct pods *p = engine;
    tn_autofree char *name = pods_name(s);
    tn_autofree char *address = kube_address(p->kube, p->namespace, name, POD_PORT_HAND);
    TN_CLEANUP(kube_door_done) struct kube_door door = {0};
    pthread_t thread;
    int ends[2];

    if (kube_door(address, false, &door, deadline, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return tn_fail_errno(err, errno, "a line to its gate");
    tn_autofd int own = ends[0];
    struct ear *ear = tn_calloc(1, sizeof *ear);
    *ear = (struct ear){.kube = door.kube,
                        .namespace = tn_strdup(p->namespace),
                        .pod = TN_TAKE_PTR(name),
                        .socket = ends[1]};
    if (tn_thread_start(&thread, hear, ear) != 0) {
        ear_free(ear);
        return tn_fail_errno(err, errno, "a thread for what its gate asks");
    }
    pthread_detach(thread);
    /* So that the first connection of a sandbox is heard of; whoever looks at many does not wait
     * for what hangs. */
    poll(&(struct pollfd){.fd = own, .events = POLLIN}, 1, (int)(FIRST_SECONDS * 1000));
    return TN_TAKE_FD(own);
}
