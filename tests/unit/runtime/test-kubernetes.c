/* Manifests of pods, and what their status means: no cluster is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/kubernetes/pods.h"

/* --- quantities ------------------------------------------------------------------------------- */

static void test_quantities(void **state)
{
    static const struct {
        const char *text;
        double value; /* -1: it is none */
    } cases[] = {
        {"1", 1},
        {"500m", 0.5},
        {"2Gi", 0x1p31},
        {"1.5G", 1.5e9},
        {"128974848", 128974848},
        {"1e3", 1000},
        {"12345n", 1.2345e-5},
        {"64Ki", 65536},
        {"", -1},
        {"-1", -1},
        {"Gi", -1},
        {"1 Gi", -1},
        {"2gi", -1},
        {"0x10", -1},
        {"inf", -1},
        {"1e999", -1},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        double value = -1;
        int r = pod_quantity(cases[i].text, &value);
        assert_int_equal(r, cases[i].value < 0 ? -1 : 0);
        if (r == 0)
            assert_true(value > cases[i].value * 0.999999 && value < cases[i].value * 1.000001);
    }
}

/* --- causes ----------------------------------------------------------------------------------- */

#define RUNS "\"containerStatuses\":[{\"name\":\"runtime\",\"state\":{\"running\":{}}}]"
#define WAITS(reason, message)                                                         \
    "{\"status\":{\"phase\":\"Pending\",\"containerStatuses\":[{\"name\":\"runtime\"," \
    "\"image\":\"no/such:1\",\"state\":{\"waiting\":{\"reason\":\"" reason             \
    "\",\"message\":\"" message "\"}}}]}}"
#define ENDED(more)                                                                      \
    "{\"spec\":{\"containers\":[{\"name\":\"runtime\",\"resources\":{\"limits\":{"       \
    "\"memory\":\"128Mi\"}}}]},\"status\":{\"phase\":\"Failed\",\"containerStatuses\":[" \
    "{\"name\":\"runtime\",\"state\":{\"terminated\":{" more "}}}]}}"
#define FAILED(more) "{\"status\":{\"phase\":\"Failed\"," more "}}"

#define UNBOUND "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
static const struct {
    const char *pod;
    enum tn_status status;
    enum tn_code code;
    enum tn_blame blame;
    bool patient;
    const char *reason; /* or NULL */
} causes[] = {
    {"{}", TN_STATUS_STARTING, 0, 0, false, NULL},
    {"{\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.0.9\"," RUNS "}}", TN_STATUS_RUNNING, 0,
     0, false, NULL},
    {"{\"status\":{\"phase\":\"Running\"," RUNS "}}", TN_STATUS_STARTING, 0, 0, false, NULL},
    /* another container is none of ours */
    {"{\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.0.9\",\"containerStatuses\":[{\"name\":"
     "\"istio-proxy\",\"state\":{\"terminated\":{\"exitCode\":1}}},{\"name\":\"runtime\",\"state\":"
     "{\"running\":{}}}]}}",
     TN_STATUS_RUNNING, 0, 0, false, NULL},
    {WAITS("ContainerCreating", ""), TN_STATUS_STARTING, 0, 0, false, NULL},
    {WAITS("ErrImagePull", "not\\nfound\\u0007"), TN_STATUS_ERROR, TN_E_NOT_FOUND, TN_BLAME_IMAGE,
     false, "image no/such:1: ErrImagePull: not found"},
    {WAITS("ImagePullBackOff", ""), TN_STATUS_ERROR, TN_E_NOT_FOUND, TN_BLAME_IMAGE, false,
     "image no/such:1: ImagePullBackOff"},
    {WAITS("InvalidImageName", "x"), TN_STATUS_ERROR, TN_E_INVALID, TN_BLAME_IMAGE, false,
     "image no/such:1: InvalidImageName: x"},
    {WAITS("CreateContainerConfigError", "secret gone"), TN_STATUS_ERROR, TN_E_INVALID, 0, false,
     "container of no/such:1: CreateContainerConfigError: secret gone"},
    {WAITS("CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the "
                                         "condition"),
     TN_STATUS_STARTING, 0, 0, false, NULL},
    {"{\"status\":{\"phase\":\"Pending\",\"initContainerStatuses\":[{\"name\":\"hand\",\"image\":"
     "\"h:1\",\"state\":{\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":\"m\"}}}]}}",
     TN_STATUS_ERROR, TN_E_NOT_FOUND, 0, false,
     "the hand's image (kubernetes.hand_image) h:1: ErrImagePull: m"},
    {"{\"spec\":{\"volumes\":[{\"name\":\"hand\",\"image\":{\"reference\":\"h:1\"}}]},\"status\":{"
     "\"phase\":\"Pending\",\"containerStatuses\":[{\"name\":\"runtime\",\"image\":\"box:1\",\"state\":"
     "{\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":\"pull h:1\"}}}]}}",
     TN_STATUS_ERROR, TN_E_NOT_FOUND, 0, false,
     "the hand's image (kubernetes.hand_image) h:1: ErrImagePull: pull h:1"},
    /* the box's own, whose name has that of the hand's in it */
    {"{\"spec\":{\"volumes\":[{\"name\":\"hand\",\"image\":{\"reference\":\"h:1\"}}]},\"status\":{"
     "\"phase\":\"Pending\",\"containerStatuses\":[{\"name\":\"runtime\",\"image\":\"x/h:1\",\"state\":"
     "{\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":\"pull \\\"x/h:1\\\"\"}}}]}}",
     TN_STATUS_ERROR, TN_E_NOT_FOUND, TN_BLAME_IMAGE, false,
     "image x/h:1: ErrImagePull: pull \"x/h:1\""},
    /* a gate that ends beside it comes back; before it has begun it is the end */
    {"{\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.0.9\",\"initContainerStatuses\":[{"
     "\"name\":\"gate\",\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}}}]," RUNS "}}",
     TN_STATUS_RUNNING, 0, 0, false, NULL},
    {"{\"status\":{\"phase\":\"Failed\",\"initContainerStatuses\":[{\"name\":\"wall\",\"state\":{"
     "\"terminated\":{\"exitCode\":1,\"message\":\"the kernel\"}}}]}}",
     TN_STATUS_ERROR, TN_E_PEER, 0, false, "its gate ended with status 1: the kernel"},
    {ENDED("\"exitCode\":137,\"reason\":\"OOMKilled\""), TN_STATUS_ERROR, TN_E_PEER,
     TN_BLAME_MEMORY, false, "killed: out of memory (limit 128 MiB)"},
    {ENDED("\"exitCode\":137,\"reason\":\"Error\""), TN_STATUS_ERROR, TN_E_PEER, 0, false,
     "the hand was killed by signal 9 (KILL)"},
    {ENDED("\"exitCode\":2,\"message\":\"tendon-hand: unknown\\n\""), TN_STATUS_ERROR, TN_E_PEER, 0,
     false, "the hand ended with status 2: tendon-hand: unknown"},
    {ENDED("\"exitCode\":128,\"reason\":\"StartError\",\"message\":\"exec: sh: no\""),
     TN_STATUS_ERROR, TN_E_PEER, TN_BLAME_IMAGE, false,
     "the image cannot run the hand: exec: sh: no"},
    {ENDED("\"exitCode\":0"), TN_STATUS_STOPPED, 0, 0, false, NULL},
    {FAILED("\"reason\":\"Evicted\",\"message\":\"The node was low on resource: memory.\""),
     TN_STATUS_ERROR, TN_E_PEER, TN_BLAME_MEMORY, false,
     "evicted by its node: The node was low on resource: memory."},
    {FAILED("\"reason\":\"Evicted\",\"message\":\"disk\""), TN_STATUS_ERROR, TN_E_PEER, 0, false,
     "evicted by its node: disk"},
    {FAILED("\"reason\":\"DeadlineExceeded\",\"message\":\"long\""), TN_STATUS_ERROR, TN_E_PEER, 0,
     false, "it ran for as long as it may (wall_time): long"},
    {FAILED("\"reason\":\"NodeLost\""), TN_STATUS_ERROR, TN_E_PEER, 0, false, "its node was lost"},
    {FAILED("\"reason\":\"OutOfcpu\",\"message\":\"m\""), TN_STATUS_ERROR, TN_E_BUSY, 0, false,
     "its node had no processor left: m"},
    {FAILED("\"reason\":\"Strange\",\"message\":\"m\""), TN_STATUS_ERROR, TN_E_PEER, 0, false,
     "Strange: m"},
    {FAILED("\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\",\"reason\":"
            "\"PreemptionByScheduler\",\"message\":\"by x\"}]"),
     TN_STATUS_ERROR, TN_E_PEER, 0, false,
     "preempted: a pod of higher priority took its place: by x"},
    {FAILED("\"message\":\"m\""), TN_STATUS_ERROR, TN_E_PEER, 0, false, "its pod has failed: m"},
    {"{\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
     "\"False\",\"reason\":\"Unschedulable\",\"message\":\"0/1 nodes\"}]}}",
     TN_STATUS_ERROR, TN_E_BUSY, 0, true, "no node of the cluster can run it: 0/1 nodes"},
    {"{\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
     "\"False\",\"reason\":\"Unschedulable\",\"message\":\"" UNBOUND "\"}]}}",
     TN_STATUS_ERROR, TN_E_BUSY, 0, true, "no node of the cluster can run it: " UNBOUND},
    {"{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"},\"status\":{\"phase\":"
     "\"Running\",\"podIP\":\"10.1.0.9\"," RUNS "}}",
     TN_STATUS_ERROR, TN_E_PEER, 0, false, "its pod is being deleted"},
};

static void test_causes(void **state)
{
    for (size_t i = 0; i < TN_COUNT(causes); i++) {
        tn_autojson struct tn_json *pod = NULL;
        autopodcause struct pod_cause cause = {0};
        assert_int_equal(tn_json_parse(causes[i].pod, strlen(causes[i].pod), &pod, NULL), 0);
        pod_cause(pod, &cause);
        assert_int_equal(cause.status, causes[i].status);
        assert_int_equal(cause.code, causes[i].code);
        assert_int_equal(cause.blame, causes[i].blame);
        assert_int_equal(cause.patient, causes[i].patient);
        assert_int_equal(cause.volume, strstr(causes[i].pod, UNBOUND) != NULL);
        assert_int_equal(cause.image,
                         causes[i].reason && strstr(causes[i].reason, "Image") != NULL);
        assert_int_equal(!cause.reason, !causes[i].reason);
        if (cause.reason)
            assert_string_equal(cause.reason, causes[i].reason);
    }
}

#define EVENT(type, reason, uid, second)                                                       \
    "{\"type\":\"" type "\",\"reason\":\"" reason "\",\"message\":\"of\\n" uid                 \
    "\",\"involvedObject\":{\"uid\":\"" uid "\"},\"lastTimestamp\":\"2026-01-01T00:00:" second \
    "Z\"}"

static const struct {
    const char *items, *words;
} warnings[] = {
    {EVENT("Warning", "FailedMount", "a", "09") "," EVENT("Warning", "Early", "a", "01") "," EVENT(
         "Normal", "Pulled", "a", "10") "," EVENT("Warning", "MissingClusterDNS", "a", "10"),
     "FailedMount: of a"},
    {EVENT("Normal", "Preempted", "a", "03") "," EVENT("Normal", "Killing", "a", "04") "," EVENT(
         "Warning", "Unhealthy", "a", "05"),
     "Preempted: of a"},
    {EVENT("Normal", "Preempted", "a", "03") "," EVENT("Normal", "Started", "b", "04"), NULL},
    {EVENT("Warning", "FailedScheduling", "a", "03") "," EVENT("Normal", "Started", "a", "03"),
     NULL},
    {"", NULL},
};

static void test_the_last_trouble_of_the_last_pod_counts(void **state)
{
    for (size_t i = 0; i < TN_COUNT(warnings); i++) {
        tn_autofree char *text = tn_asprintf("{\"items\":[%s]}", warnings[i].items);
        tn_autojson struct tn_json *events = NULL;
        assert_int_equal(tn_json_parse(text, strlen(text), &events, NULL), 0);
        tn_autofree char *words = pod_last_warning(events);
        assert_int_equal(!words, !warnings[i].words);
        if (words)
            assert_string_equal(words, warnings[i].words);
    }
    assert_null(pod_last_warning(NULL));
}

/* --- manifests -------------------------------------------------------------------------------- */

struct world {
    struct tn_config config;
    struct tn_spec spec;
    struct tn_subject subject;
    struct pod_plan plan;
};

static int set_up(void **state)
{
    struct world *w = tn_calloc(1, sizeof *w);

    tn_config_init(&w->config);
    tn_spec_init(&w->spec);
    w->subject = (struct tn_subject){
        .id = "abcdefghij", .key = "0123456789abcdef0123456789abcdef", .spec = &w->spec};
    w->plan = (struct pod_plan){.config = &w->config,
                                .subject = &w->subject,
                                .mark = "0011223344556677",
                                .namespace = "agents",
                                .owner = "uid-of-secret",
                                .kept = true,
                                .network = POD_NETWORK_OPEN};
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    tn_spec_done(&w->spec);
    tn_config_done(&w->config);
    free(w);
    return 0;
}

static void set(struct world *w, const char *name, const char *value)
{
    struct tn_error err = {0};

    if (tn_config_set(&w->config, name, value, &err) < 0)
        fail_msg("%s", err.text);
}

static void want(struct world *w, const char *json)
{
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error err = {0};

    assert_int_equal(tn_json_parse(json, strlen(json), &tree, &err), 0);
    if (tn_spec_from_json(tree, &w->spec, &err) < 0)
        fail_msg("%s", err.text);
}

static struct tn_json *made(const struct world *w, pod_put_fn *put)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(POD_MANIFEST_MAX);
    struct tn_json *tree = NULL;
    struct tn_error err = {0};

    if (put(&w->plan, &out, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(tn_json_parse(tn_buf_str(&out), out.len, &tree, NULL), 0);
    return tree;
}

/* The part at a path such as "spec|containers|0|image", as JSON text. */
static void has(const struct tn_json *tree, const char *path, const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(POD_MANIFEST_MAX);
    struct tn_jw w = tn_jw(&out);
    const struct tn_json *at = tree;

    for (const char *p = path; *p; p += p[strcspn(p, "|")] ? strcspn(p, "|") + 1 : strlen(p)) {
        tn_autofree char *name = tn_strndup(p, strcspn(p, "|"));
        at = *name >= '0' && *name <= '9' ? tn_json_at(at, strtoul(name, NULL, 10))
                                          : tn_json_get(at, name);
    }
    tn_jw_tree(&w, at);
    if (strcmp(tn_buf_str(&out), expected) != 0)
        fail_msg("%s: expected %s, found %s", path, expected, tn_buf_str(&out));
}

static void test_a_pod(void **state)
{
    struct world *w = *state;

    set(w, "kubernetes.hand_image", "example.org/hand:1");
    set(w, "kubernetes.tolerations_yaml", "- key: dedicated\n  operator: Exists\n");
    set(w, "kubernetes.affinity_yaml", "nodeAffinity: {}");
    set(w, "kubernetes.node_selector_key", "disk");
    set(w, "kubernetes.node_selector_val", "ssd");
    set(w, "kubernetes.image_pull_secret", "login");
    set(w, "kubernetes.claims", "data");
    want(w, "{\"image\":\"python:3.12\",\"workspace\":\"/w\",\"volumes\":[\"data:/data:ro\"],"
            "\"memory\":\"512m\",\"cpus\":0.5,\"gpus\":\"0,1\",\"disk\":\"1g\",\"wall_time\":1.5,"
            "\"hand_args\":[\"--x=$(HOME)\"],\"isolation\":\"gvisor\"}");
    tn_autojson struct tn_json *pod = made(w, pod_put_pod);
    has(pod, "metadata|name", "\"openhands-runtime-abcdefghij\"");
    has(pod, "metadata|labels",
        "{\"app\":\"openhands-runtime\",\"session\":\"abcdefghij\","
        "\"tendon.dev/state\":\"0011223344556677\",\"tendon.dev/id\":\"abcdefghij\","
        "\"tendon.dev/network\":\"open\"}");
    has(pod, "metadata|ownerReferences",
        "[{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"name\":\"openhands-runtime-abcdefghij-key\","
        "\"uid\":\"uid-of-secret\",\"blockOwnerDeletion\":true}]");
    has(pod, "spec|restartPolicy", "\"Never\"");
    has(pod, "spec|automountServiceAccountToken", "false");
    has(pod, "spec|activeDeadlineSeconds", "2");
    has(pod, "spec|runtimeClassName", "\"gvisor\"");
    has(pod, "spec|tolerations", "[{\"key\":\"dedicated\",\"operator\":\"Exists\"}]");
    has(pod, "spec|affinity", "{\"nodeAffinity\":{}}");
    has(pod, "spec|nodeSelector", "{\"disk\":\"ssd\"}");
    has(pod, "spec|imagePullSecrets", "[{\"name\":\"login\"}]");
    has(pod, "spec|securityContext",
        "{\"runAsUser\":1000,\"runAsNonRoot\":true,\"fsGroup\":1000,"
        "\"fsGroupChangePolicy\":\"OnRootMismatch\",\"seccompProfile\":{"
        "\"type\":\"RuntimeDefault\"}}");
    has(pod, "spec|containers|0|securityContext",
        "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]}}");
    has(pod, "spec|containers|0|resources",
        "{\"requests\":{\"cpu\":\"500m\",\"memory\":\"536870912\",\"ephemeral-storage\":\"0\"},\"limits\":{\"cpu\":\"500m\","
        "\"memory\":\"536870912\",\"ephemeral-storage\":\"1073741824\",\"nvidia.com/gpu\":\"2\"}}");
    has(pod, "spec|containers|0|envFrom",
        "[{\"secretRef\":{\"name\":\"openhands-runtime-abcdefghij-key\"}}]");
    has(pod, "spec|containers|0|command|0", "\"/.tendon/hand\"");
    const struct tn_json *command =
        tn_json_get(tn_json_at(tn_json_get(tn_json_get(pod, "spec"), "containers"), 0), "command");
    assert_true(tn_json_lists(command, "--x=$$(HOME)"));
    assert_true(tn_json_lists(command, "--key-digest"));
    assert_false(tn_json_lists(command, w->subject.key));
    has(pod, "spec|initContainers|0|command", "[\"/tendon-hand\",\"--copy-to\",\"/.tendon/hand\"]");
    has(pod, "spec|volumes",
        "[{\"name\":\"hand\",\"emptyDir\":{}},{\"name\":\"workspace-volume\","
        "\"persistentVolumeClaim\":{\"claimName\":\"openhands-runtime-abcdefghij-pvc\"}},"
        "{\"name\":\"home\",\"emptyDir\":{}},{\"name\":\"tmp\",\"emptyDir\":{}},{\"name\":\"claim-0\",\"persistentVolumeClaim\":{"
        "\"claimName\":\"data\",\"readOnly\":true}}]");
    has(pod, "spec|containers|0|volumeMounts|4",
        "{\"name\":\"claim-0\",\"mountPath\":\"/data\",\"readOnly\":true}");
}

/* Without a hand's image, as root, without a claim, for a stranger. */
static void test_other_pods(void **state)
{
    struct world *w = *state;

    set(w, "kubernetes.image_pull_secret", "login");
    want(w, "{\"user\":\"0\"}");
    w->plan.kept = false;
    w->plan.anonymous = true;
    tn_autojson struct tn_json *pod = made(w, pod_put_pod);
    has(pod, "spec|initContainers", "null");
    has(pod, "spec|imagePullSecrets", "[{\"name\":\"openhands-runtime-abcdefghij-key\"}]");
    has(pod, "spec|containers|0|imagePullPolicy", "\"Always\"");
    has(pod, "spec|containers|0|command|0", "\"sh\"");
    has(pod, "spec|containers|0|resources",
        "{\"requests\":{\"cpu\":\"1\",\"memory\":\"1073741824\",\"ephemeral-storage\":\"0\"},"
        "\"limits\":{\"memory\":\"2147483648\",\"ephemeral-storage\":\"8589934592\"}}");
    has(pod, "spec|containers|0|securityContext|capabilities",
        "{\"drop\":[\"ALL\"],\"add\":[\"CHOWN\",\"DAC_OVERRIDE\",\"FOWNER\",\"FSETID\",\"KILL\","
        "\"SETGID\",\"SETUID\",\"SETPCAP\",\"NET_BIND_SERVICE\",\"SYS_CHROOT\"]}");
    has(pod, "spec|securityContext|runAsUser", "0");
    has(pod, "spec|volumes",
        "[{\"name\":\"hand\",\"emptyDir\":{}},{\"name\":\"workspace-volume\",\"emptyDir\":{}}]");

    set(w, "kubernetes.hand_image", "example.org/hand:1");
    set(w, "kubernetes.hand_volume", "image");
    set(w, "kubernetes.privileged", "true");
    tn_autojson struct tn_json *other = made(w, pod_put_pod);
    has(other, "spec|initContainers", "null");
    has(other, "spec|volumes|0",
        "{\"name\":\"hand\",\"image\":{\"reference\":\"example.org/hand:1\"}}");
    has(other, "spec|containers|0|command|0", "\"/.tendon/tendon-hand\"");
    has(other, "spec|containers|0|securityContext", "{\"privileged\":true}");
}

/* The hand's is in every pod; that of images is in none of a stranger, nor is that of the pod's
 * ServiceAccount, which a pod without any is given. */
static void test_logins(void **state)
{
    static const struct {
        const char *images, *hand;
        bool anonymous;
        const char *expected;
    } cases[] = {
        {"", "", false, "null"},
        {"login", "", false, "[{\"name\":\"login\"}]"},
        {"", "hand", false, "[{\"name\":\"hand\"}]"},
        {"login", "hand", false, "[{\"name\":\"login\"},{\"name\":\"hand\"}]"},
        {"", "", true, "[{\"name\":\"openhands-runtime-abcdefghij-key\"}]"},
        {"login", "", true, "[{\"name\":\"openhands-runtime-abcdefghij-key\"}]"},
        {"login", "hand", true, "[{\"name\":\"hand\"}]"},
    };
    struct world *w = *state;

    want(w, "{}");
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        set(w, "kubernetes.image_pull_secret", cases[i].images);
        set(w, "kubernetes.hand_pull_secret", cases[i].hand);
        w->plan.anonymous = cases[i].anonymous;
        tn_autojson struct tn_json *pod = made(w, pod_put_pod);
        has(pod, "spec|imagePullSecrets", cases[i].expected);
    }
}

static void test_a_secret(void **state)
{
    struct world *w = *state;

    set(w, "sandbox.runtime_startup_env_vars", "{\"A\":\"startup\",\"B\":\"$(x)\"}");
    want(w,
         "{\"name\":\"web\",\"env\":{\"A\":\"mine\",\"port\":\"1\"},\"labels\":{\"a.b\":\"c d\"}}");
    w->plan.owner = NULL;
    w->plan.anonymous = true;
    tn_autojson struct tn_json *secret = made(w, pod_put_secret);
    has(secret, "metadata|name", "\"openhands-runtime-abcdefghij-key\"");
    has(secret, "metadata|ownerReferences", "null");
    has(secret, "metadata|annotations",
        "{\"tendon.dev/name\":\"web\",\"tendon.dev/anonymous\":\"true\","
        "\"tendon.dev/labels\":\"{\\\"a.b\\\":\\\"c d\\\"}\"}");
    has(secret, "stringData",
        "{\"A\":\"mine\",\"port\":\"1\",\"B\":\"$(x)\",\"VSCODE_PORT\":\"8081\","
        "\"APP_PORT_1\":\"30082\",\"APP_PORT_2\":\"30083\",\"PYTHONUNBUFFERED\":\"1\","
        "\"PIP_BREAK_SYSTEM_PACKAGES\":\"1\",\"OPENHANDS_SESSION_ID\":\"web\","
        "\"HOME\":\"/home/openhands\",\"USER\":\"openhands\"}");
}

static void test_ways_for_people(void **state)
{
    struct world *w = *state;
    tn_autobuf struct tn_buf out = TN_BUF_INIT(POD_MANIFEST_MAX);
    tn_autojson struct tn_json *claim = NULL, *service = NULL, *ingress = NULL;

    set(w, "kubernetes.ingress_domain", "example.org");
    set(w, "kubernetes.ingress_tls_secret", "tls");
    set(w, "kubernetes.pvc_storage_class", "fast");
    want(w, "{\"ports\":[3000,8080]}");
    claim = made(w, pod_put_claim);
    has(claim, "spec",
        "{\"accessModes\":[\"ReadWriteOnce\"],\"storageClassName\":\"fast\",\"resources\":{"
        "\"requests\":{\"storage\":\"2Gi\"}}}");
    assert_true(pod_has_port(&w->spec, 3000) && pod_has_port(&w->spec, 8081));
    assert_false(pod_has_port(&w->spec, 8080) || pod_has_port(&w->spec, 22));
    assert_int_equal(pod_put_service(&w->plan, false, &out, NULL), 0);
    assert_int_equal(tn_json_parse(tn_buf_str(&out), out.len, &service, NULL), 0);
    has(service, "metadata|name", "\"openhands-runtime-abcdefghij-svc\"");
    has(service, "spec|ports|3", "{\"name\":\"port-3000\",\"port\":3000,\"targetPort\":3000}");
    tn_buf_reset(&out);
    assert_int_equal(pod_put_ingress(&w->plan, 3000, &out, NULL), 0);
    assert_int_equal(tn_json_parse(tn_buf_str(&out), out.len, &ingress, NULL), 0);
    has(ingress, "spec|rules|0|host", "\"3000-abcdefghij.example.org\"");
    has(ingress, "spec|tls",
        "[{\"hosts\":[\"3000-abcdefghij.example.org\"],\"secretName\":\"tls\"}]");
    has(ingress, "spec|rules|0|http|paths|0|backend",
        "{\"service\":{\"name\":\"openhands-runtime-abcdefghij-svc\",\"port\":{\"number\":3000}}}");
}

/* --- refusals --------------------------------------------------------------------------------- */

static void test_what_cannot_be(void **state)
{
    static const struct {
        const char *spec, *words;
        enum tn_code code;
    } cases[] = {
        {"{\"devices\":[\"/dev/kvm\"]}", "devices: a pod cannot", TN_E_UNSUPPORTED},
        {"{\"pids\":64}", "pids: a pod cannot", TN_E_UNSUPPORTED},
        {"{\"open_files\":64}", "open_files: a pod cannot", TN_E_UNSUPPORTED},
        {"{\"file_size\":\"1m\"}", "file_size: a pod cannot", TN_E_UNSUPPORTED},
        {"{\"network\":\"host\"}", "network host", TN_E_UNSUPPORTED},
        {"{\"network\":\"allow\"}", "network allow: its gate comes with", TN_E_UNSUPPORTED},
        {"{\"allow\":[\"example.org\"]}", "kubernetes.hand_image is not set", TN_E_UNSUPPORTED},
        {"{\"network\":\"bridge\",\"secrets\":[\"X\"]}", "secrets: the network bridge of a pod has",
         TN_E_UNSUPPORTED},
        {"{\"network\":\"none\",\"allow\":[\"x.org\"]}", "allow: the network none of a pod has no",
         TN_E_UNSUPPORTED},
        {"{\"ask\":true}", "ask: the network open of a pod has no", TN_E_UNSUPPORTED},
        {"{\"user\":\"alice\"}", "user alice", TN_E_UNSUPPORTED},
        {"{\"gpus\":\"all\"}", "gpus all", TN_E_UNSUPPORTED},
        {"{\"volumes\":[\"/etc:/x\"]}", "volumes: /etc:/x", TN_E_UNSUPPORTED},
        {"{\"volumes\":[\"data:/x\"]}", "the claim data may not be mounted", TN_E_DENIED},
    };
    struct world *w = *state;

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_error err = {0};
        tn_spec_done(&w->spec);
        tn_spec_init(&w->spec);
        want(w, cases[i].spec);
        assert_int_equal(pod_check(&w->config, &w->spec, &err), -1);
        if (!strstr(err.text, cases[i].words))
            fail_msg("expected %s, found %s", cases[i].words, err.text);
        assert_int_equal(err.code, cases[i].code);
    }
    tn_spec_done(&w->spec);
    tn_spec_init(&w->spec);
    want(w,
         "{\"memory\":\"64m\",\"cpus\":1,\"disk\":\"64m\",\"wall_time\":60,\"network\":\"none\"}");
    assert_int_equal(pod_check(&w->config, &w->spec, NULL), 0);
    set(w, "kubernetes.runtime_class_gvisor", "");
    want(w, "{\"isolation\":\"gvisor\"}");
    struct tn_error err = {0};
    assert_int_equal(pod_check(&w->config, &w->spec, &err), -1);
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
}

/* A handler tells more than the setting that names its class. */
static void test_what_a_class_gives(void **state)
{
    static const struct {
        const char *class, *handler, *walls;
    } cases[] = {
        {"", "", "native"},
        {"gvisor", "runsc", "gvisor"},
        {"gvisor", "", "gvisor"},
        {"gvisor", "safe", "gvisor"},
        {"gvisor", "kata-qemu", "kata"},
        {"kata", "", "kata"},
        {"kata", "runc", "native"},
        {"other", "kata-clh", "kata"},
        {"other", "", "native"},
        {"other", "gvisor", "gvisor"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < TN_COUNT(cases); i++)
        assert_string_equal(pod_walls(&w->config.kubernetes, cases[i].class, cases[i].handler),
                            cases[i].walls);
    want(w, "{\"isolation\":\"kata\"}");
    assert_string_equal(pod_class(&w->config, &w->spec), "kata");
    set(w, "tendon.isolation", "gvisor"); /* at least */
    assert_string_equal(pod_class(&w->config, &w->spec), "kata");
}

/* Whatever the namespace admits. */
static void test_what_is_kept_restricted(void **state)
{
    static const struct {
        const char *spec;
        int result;
    } cases[] = {
        {"{\"user\":\"root\"}", -1}, {"{\"user\":\"0\"}", -1}, {"{\"user\":\"7\"}", 0}, {"{}", 0}};
    struct world *w = *state;

    for (int kept = 0; kept < 2; kept++) {
        set(w, "kubernetes.restricted", kept ? "true" : "false");
        for (size_t i = 0; i < TN_COUNT(cases); i++) {
            struct tn_error err = {0};
            tn_spec_done(&w->spec);
            tn_spec_init(&w->spec);
            want(w, cases[i].spec);
            assert_int_equal(pod_check(&w->config, &w->spec, &err), kept ? cases[i].result : 0);
            if (err.code)
                assert_int_equal(err.code, TN_E_DENIED);
        }
    }
    tn_spec_done(&w->spec);
    tn_spec_init(&w->spec);
    set(w, "core.run_as_openhands", "false"); /* whose default is root */
    assert_int_equal(pod_check(&w->config, &w->spec, NULL), -1);
    set(w, "kubernetes.privileged", "true");
    assert_int_equal(pod_check(&w->config, NULL, NULL), -1);
}

/* Nobody in it may become who its gate is. */
static void test_what_no_gate_holds(void **state)
{
    static const struct {
        const char *spec, *setting, *words;
    } cases[] = {
        {"{\"user\":\"root\"}", NULL, "user root could become"},
        {"{\"user\":\"0\"}", NULL, "user root could become"},
        {"{\"user\":\"1879048191\"}", NULL, "this user is who its gate is known by"},
        {"{\"isolation\":\"gvisor\"}", NULL, "isolation gvisor: its network has none"},
        {"{\"allow\":[\"http://\"]}", NULL, "allow: "},
        {"{}", "kubernetes.privileged", "kubernetes.privileged: it could change"},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct world *w = *state;
        struct tn_error err = {0};
        set(w, "kubernetes.hand_image", "hand:1");
        want(w, "{\"network\":\"allow\"}");
        assert_int_equal(pod_check(&w->config, &w->spec, NULL), 0);
        want(w, cases[i].spec);
        if (cases[i].setting)
            set(w, cases[i].setting, "true");
        assert_int_equal(pod_check(&w->config, &w->spec, &err), -1);
        if (!strstr(err.text, cases[i].words))
            fail_msg("expected %s, found %s", cases[i].words, err.text);
        tear_down(state);
        set_up(state);
    }
}

static void test_gated_pod(void **state)
{
    struct world *w = *state;

    set(w, "kubernetes.hand_image", "hand:1");
    set(w, "kubernetes.hand_volume", "image"); /* there the hand is copied all the same */
    assert_int_equal(pod_choose_network(&w->config, &w->spec), POD_NETWORK_OPEN);
    want(w, "{\"secrets\":[\"API_KEY\"],\"env\":{\"PIP_CERT\":\"mine\"}}");
    w->plan.network = pod_choose_network(&w->config, &w->spec);
    assert_int_equal(w->plan.network, POD_NETWORK_GATED);
    tn_autojson struct tn_json *pod = made(w, pod_put_pod), *secret = made(w, pod_put_secret);
    has(pod, "metadata|labels|tendon.dev/network", "\"gated\"");
    has(pod, "spec|initContainers|0|command",
        "[\"/tendon-gate\",\"--pod-wall\",\"/tendon-hand\",\"--copy-to\",\"/.tendon/hand\"]");
    has(pod, "spec|initContainers|0|securityContext|capabilities",
        "{\"drop\":[\"ALL\"],\"add\":[\"NET_ADMIN\"]}");
    has(pod, "spec|initContainers|1|restartPolicy", "\"Always\"");
    has(pod, "spec|initContainers|1|securityContext|capabilities|add",
        "[\"NET_RAW\",\"SETUID\",\"SETGID\"]");
    has(pod, "spec|containers|0|command|0", "\"/.tendon/hand\"");
    has(pod, "spec|containers|0|securityContext",
        "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]}}");
    /* What the gate is given is mounted by nobody else. */
    has(pod, "spec|containers|0|volumeMounts",
        "[{\"name\":\"hand\",\"mountPath\":\"/.tendon\",\"readOnly\":true},"
        "{\"name\":\"workspace-volume\",\"mountPath\":\"/workspace\"},"
        "{\"name\":\"home\",\"mountPath\":\"/home/openhands\"},"
        "{\"name\":\"tmp\",\"mountPath\":\"/tmp\"},"
        "{\"name\":\"hand\",\"mountPath\":\"/etc/resolv.conf\",\"subPath\":\"resolv.conf\","
        "\"readOnly\":true}]");
    has(secret, "stringData|SSL_CERT_FILE", "\"/.tendon/roots.pem\"");
    has(secret, "stringData|PIP_CERT", "\"mine\"");
    assert_memory_equal(tn_json_get_str(tn_json_get(secret, "stringData"), "API_KEY", ""),
                        "tnsecret_api_key_", strlen("tnsecret_api_key_"));
}

/* Its own user's, unless an operator's files are mounted; no number is too large. */
static void test_wishes_have_ends(void **state)
{
    struct world *w = *state;

    want(w, "{\"user\":\"2000\",\"wall_time\":1e300,\"cpus\":4096}");
    tn_autojson struct tn_json *pod = made(w, pod_put_pod);
    has(pod, "spec|activeDeadlineSeconds", "2147483647");
    has(pod, "spec|securityContext|fsGroup", "2000");
    want(w, "{\"volumes\":[\"data:/data\"]}");
    tn_autojson struct tn_json *other = made(w, pod_put_pod);
    has(other, "spec|securityContext|fsGroup", "1000");
}

static void test_wrong_settings_are_named(void **state)
{
    static const struct {
        const char *name, *value, *words;
    } cases[] = {
        {"kubernetes.tolerations_yaml", "{a: b", "kubernetes.tolerations_yaml: "},
        {"kubernetes.affinity_yaml", "- 1", "kubernetes.affinity_yaml: expected an object, found"},
        {"kubernetes.topology_spread_yaml", "a: 1", "topology_spread_yaml: expected a list, found"},
        {"kubernetes.resource_cpu_limit", "many", "resource_cpu_limit: expected a quantity"},
        {"kubernetes.pvc_storage_size", "2 Gi", "pvc_storage_size: expected a quantity"},
        {"kubernetes.nameservers", "169.254.20.10\"", "nameservers: expected addresses or nets"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct tn_error err = {0};
        set(w, cases[i].name, cases[i].value);
        assert_int_equal(pod_check(&w->config, NULL, &err), -1);
        if (!strstr(err.text, cases[i].words))
            fail_msg("expected %s, found %s", cases[i].words, err.text);
        tear_down(state);
        set_up(state);
        w = *state;
    }
}

static void test_policies_are_json(void **state)
{
    static const char *const names[][4] = {
        [POD_NETWORK_NONE] = {"tendon-none", "tendon-hand"},
        [POD_NETWORK_OPEN] = {"tendon-open", "tendon-hand", "tendon-people"},
        [POD_NETWORK_GATED] = {"tendon-hand", "tendon-people"},
    };

    char first[] = "203.0.113.0/24", second[] = "2600:1f14::/36", *nets[] = {first, second};
    char four[] = "169.254.20.10", six[] = "fd00::10", *servers[] = {four, six, first};
    const struct tn_config_kubernetes k = {.near = {.items = nets, .count = 2},
                                           .nameservers = {.items = servers, .count = 3}};

    for (int i = POD_NETWORK_NONE; i <= POD_NETWORK_GATED; i++) {
        const char *name;
        size_t n = 0;
        do {
            tn_autobuf struct tn_buf out = TN_BUF_INIT(POD_MANIFEST_MAX);
            tn_autojson struct tn_json *tree = NULL;
            name = pod_put_policy(i, n, &k, &out);
            if (!names[i][n]) {
                assert_null(name);
                break;
            }
            assert_string_equal(name, names[i][n]);
            bool open = strcmp(name, "tendon-open") == 0;
            assert_int_equal(
                strstr(tn_buf_str(&out), "\"224.0.0.0/3\",\"203.0.113.0/24\"]") != NULL, open);
            assert_int_equal(strstr(tn_buf_str(&out), ",\"2600:1f14::/36\"]") != NULL, open);
            /* Their port 53 and nothing else of them. */
            assert_int_equal(strstr(tn_buf_str(&out),
                                    "{\"ports\":[{\"port\":53,\"protocol\":\"UDP\"},{\"port\":53}],"
                                    "\"to\":[{\"ipBlock\":{\"cidr\":\"169.254.20.10/32\"}},"
                                    "{\"ipBlock\":{\"cidr\":\"fd00::10/128\"}},"
                                    "{\"ipBlock\":{\"cidr\":\"203.0.113.0/24\"}}]}") != NULL,
                             open);
            assert_int_equal(tn_json_parse(tn_buf_str(&out), out.len, &tree, NULL), 0);
            assert_int_equal(tn_json_count(tn_json_get(tn_json_get(tree, "spec"), "policyTypes")),
                             1);
            n++;
        } while (name);
    }
}

static void test_nameservers_beside_pods(void **state)
{
    struct world *w = *state;
    tn_autobuf struct tn_buf usual = TN_BUF_INIT(POD_MANIFEST_MAX), none = usual;

    pod_put_policy(POD_NETWORK_OPEN, 0, &w->config.kubernetes, &usual);
    assert_non_null(strstr(tn_buf_str(&usual), "\"cidr\":\"169.254.20.10/32\""));
    assert_non_null(strstr(tn_buf_str(&usual), "\"cidr\":\"169.254.169.254/32\""));
    /* To nowhere would be to everywhere. */
    pod_put_policy(POD_NETWORK_OPEN, 0, &(struct tn_config_kubernetes){0}, &none);
    assert_null(strstr(tn_buf_str(&none), "\"to\":[]"));
    assert_null(strstr(tn_buf_str(&none), "/32\"}}"));
    /* What a variable can say. */
    tn_autobuf struct tn_buf said = TN_BUF_INIT(POD_MANIFEST_MAX);
    set(w, "kubernetes.nameservers", "none");
    assert_int_equal(pod_check(&w->config, NULL, NULL), 0);
    pod_put_policy(POD_NETWORK_OPEN, 0, &w->config.kubernetes, &said);
    assert_string_equal(tn_buf_str(&said), tn_buf_str(&none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nameservers_beside_pods, set_up, tear_down),
        cmocka_unit_test(test_quantities),
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_the_last_trouble_of_the_last_pod_counts),
        cmocka_unit_test(test_policies_are_json),
        cmocka_unit_test_setup_teardown(test_a_pod, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_pods, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_logins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_secret, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ways_for_people, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_class_gives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_kept_restricted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_no_gate_holds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gated_pod, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wishes_have_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_settings_are_named, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
