/* Sandboxes as objects of agent-sandbox (sigs.k8s.io/agent-sandbox), where a cluster has it.
 *
 * A Sandbox has our pod as its template: its controller makes a pod of the same name with the same
 * marks, so that all that is known by those stays as it is.  Only what makes the pod, and ends it,
 * is another object.
 *
 * A SandboxClaim gets a pod that waits in an operator's SandboxWarmPool.  That one has a name, an
 * image and a command that are not ours: it is given our marks, and the hand is put in and run by
 * exec.
 *
 * Both are owned by the Secret, as everything is.  The Secret says what its sandbox is (POD_AS). */
#include "base/clock.h"
#include "runtime/kubernetes/pods.h"

#define KNOWN_SECONDS 60.0 /* that it is known that the cluster has them */
enum { OUTPUT_MAX = 16 << 10 };

const struct pod_kind pod_kinds[] = {
    [POD_AS_POD] = {"Pod", "v1", "pods", NULL, false},
    [POD_AS_SANDBOX] = {"Sandbox", "agents.x-k8s.io/v1beta1", "sandboxes", "PodScheduled", false},
    [POD_AS_CLAIM] = {"SandboxClaim", "extensions.agents.x-k8s.io/v1beta1", "sandboxclaims",
                      "Ready", true},
};

/* --- which ------------------------------------------------------------------------------------ */

enum pod_as pods_as(const struct tn_json *secret)
{
    const char *word = tn_json_get_str(pods_meta(secret, "annotations"), POD_AS, "");
    enum pod_as as = POD_AS_COUNT - 1;

    while (as != POD_AS_POD && strcmp(pod_kinds[as].word, word) != 0)
        as--;
    return as;
}

/* Whether a pod that somebody else has described can be it.  Its network is the one that goes
 * without saying: its policies must hold before anybody uses it (check_pod). */
static bool fits_pool(const struct pod_plan *p)
{
    const struct tn_config_kubernetes *k = &p->config->kubernetes;
    const struct tn_spec *spec = p->subject->spec;
    const char *usual = pod_image(p->config, NULL);
    struct tn_limits l = {0};

    tn_spec_limits(spec, &l, NULL);
    return k->sandbox_pool && *k->sandbox_pool &&
           (!spec->image || (usual && strcmp(spec->image, usual) == 0 && !p->anonymous)) &&
           !p->subject->warm && !p->snapshot && !spec->user && !spec->gpus &&
           !spec->volumes.count && !spec->secrets.count && l.cpus <= 0 && l.memory <= 0 &&
           l.disk <= 0 && !spec->wall_time.set && p->network == POD_NETWORK_OPEN &&
           !pod_class(p->config, spec);
}

static int is_there(struct pods *p, enum pod_as as, bool *there, int64_t deadline,
                    struct tn_error *err)
{
    tn_autofree char *target = tn_asprintf("/apis/%s", pod_kinds[as].api);
    struct tn_error why = {0};

    pthread_mutex_lock(&p->lock);
    *there = tn_now() < p->as_until[as];
    pthread_mutex_unlock(&p->lock);
    if (*there)
        return 0;
    *there = kube_call(p->kube, &(struct kube_call){.target = target}, NULL, deadline, &why) == 0;
    if (!*there && why.code != TN_E_NOT_FOUND)
        return tn_fail(err, why.code, "agent-sandbox: %s", why.text);
    pthread_mutex_lock(&p->lock);
    p->as_until[as] = *there ? tn_deadline_in(KNOWN_SECONDS) : 0;
    pthread_mutex_unlock(&p->lock);
    return 0;
}

int pods_choose_kind(struct pods *p, struct pod_plan *plan, int64_t deadline, struct tn_error *err)
{
    int wanted = plan->config->kubernetes.agent_sandbox;
    enum pod_as as = fits_pool(plan) ? POD_AS_CLAIM : POD_AS_SANDBOX;
    bool there;

    if (wanted == TN_KUBERNETES_NEVER)
        return 0;
    if (is_there(p, as, &there, deadline, err) < 0)
        return -1;
    if (!there && wanted == TN_KUBERNETES_ALWAYS)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "the cluster has no %s (%s): install agent-sandbox v0.5 or later, or set "
                       "kubernetes.agent_sandbox to auto or never",
                       pod_kinds[as].word, pod_kinds[as].api);
    plan->as = there ? as : POD_AS_POD;
    /* A claim's files are its pod's. */
    plan->kept = plan->kept && plan->as != POD_AS_CLAIM;
    return 0;
}

/* --- manifests -------------------------------------------------------------------------------- */

static int put_object(const struct pod_plan *p, struct tn_buf *out, struct tn_error *err)
{
    struct tn_jw w = tn_jw(out);

    pod_open(p, pod_kinds[p->as].api, pod_kinds[p->as].word, "", &w);
    tn_jw_object_end(&w);
    if (p->as == POD_AS_CLAIM) {
        pod_json(&w, "spec", "{\"warmPoolRef\":{\"name\":%s}}", p->config->kubernetes.sandbox_pool);
        return pod_close(&w, err);
    }
    tn_jw_key(&w, "spec");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "operatingMode", "Running");
    tn_jw_key(&w, "podTemplate");
    tn_jw_object(&w);
    tn_jw_key(&w, "metadata");
    tn_jw_object(&w);
    pod_put_labels(p, true, false, &w);
    tn_jw_object_end(&w);
    if (pod_put_spec(p, &w, err) < 0)
        return -1;
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    return pod_close(&w, err);
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Reasons that no waiting mends. */
static const char *const ends[] = {"TemplateNotFound", "WarmPoolNotFound", "InvalidMetadata",
                                   "ClaimExpired"};

struct wait {
    enum pod_as as;
    int64_t generation;     /* that the controller must have seen */
    struct tn_json *object; /* as it was told last */
    char *words;            /* of what is not ready yet, or NULL */
    bool failed, gone;
};

static void wait_done(struct wait *w)
{
    tn_json_free(w->object);
    free(w->words);
}

/* A pod that is refused (a quota, PodSecurity, a hook) stays so. */
static bool is_final(const char *reason, const char *message)
{
    for (size_t i = 0; i < TN_COUNT(ends); i++)
        if (strcmp(reason, ends[i]) == 0)
            return true;
    return strcmp(reason, "ReconcilerError") == 0 &&
           (strstr(message, "is forbidden") || strstr(message, "denied the request"));
}

static int note_object(enum kube_change change, const struct tn_json *object, void *ctx)
{
    struct wait *w = ctx;
    bool done = false;

    if (change == KUBE_SYNCED || change == KUBE_DELETED)
        return (change == KUBE_DELETED || !w->object) && (w->gone = true);
    tn_json_free(w->object);
    w->object = tn_json_copy(object);
    const struct tn_json *all = tn_json_get(tn_json_get(object, "status"), "conditions");
    for (size_t i = 0; i < tn_json_count(all); i++) {
        const struct tn_json *c = tn_json_at(all, i);
        const char *type = tn_json_get_str(c, "type", "");
        bool holds = strcmp(tn_json_get_str(c, "status", ""), "True") == 0;
        const char *message = tn_json_get_str(c, "message", "");
        /* A claim's readiness is that of its Sandbox, with the generation of that. */
        if (w->as == POD_AS_SANDBOX &&
            tn_json_int(tn_json_get(c, "observedGeneration"), w->generation) < w->generation)
            continue;
        done |= strcmp(type, pod_kinds[w->as].done) == 0 && (holds || !pod_kinds[w->as].true_only);
        if (strcmp(type, "Ready") == 0 && !holds) {
            free(w->words);
            w->words = kube_line(message);
            w->failed = is_final(tn_json_get_str(c, "reason", ""), message);
        }
    }
    return done || w->failed;
}

static int await_pod(const struct pods *p, const struct pod_plan *plan, struct wait *w,
                     int64_t deadline, struct tn_error *err)
{
    const struct tn_subject *s = plan->subject;
    tn_autofree char *name = pod_name(s->id, "");
    struct tn_error why = {0};

    if (pods_follow(p, pod_kinds[plan->as].plural, name, note_object, w, s->cancel, deadline,
                    &why) < 0)
        return tn_fail(err, why.code, "its %s has no pod: %s%s%s%s", pod_kinds[plan->as].word,
                       why.code == TN_E_TIMEOUT ? "not in time" : why.text, w->words ? " (" : "",
                       w->words ? w->words : "", w->words ? ")" : "");
    if (w->gone)
        return tn_fail(err, TN_E_GONE, "somebody has deleted its %s", pod_kinds[plan->as].word);
    if (w->failed)
        return tn_fail(err, strstr(w->words, "exceeded quota") ? TN_E_QUOTA : TN_E_PEER, "%s",
                       w->words);
    return 0;
}

/* --- making ----------------------------------------------------------------------------------- */

/* What the first owner of an object is: a text of it. */
static const char *owner_text(const struct tn_json *object, const char *key)
{
    return tn_json_get_str(tn_json_at(pods_meta(object, "ownerReferences"), 0), key, "");
}

/* It must be that of its claim, nobody's yet, and behind the policies of its network since it
 * began: those of a label that comes later hold later, and not for connections that are there. */
static int check_pod(const struct pods *p, const struct pod_plan *plan, const char *name,
                     const struct tn_json *claim, const struct tn_json *pod, int64_t deadline,
                     struct tn_error *err)
{
    const struct tn_json *labels = pods_meta(pod, "labels");
    const char *network = pod_networks[plan->network], *own = pods_own_id(p, pod);
    bool marked = tn_json_has(labels, POD_ID) || tn_json_has(labels, POD_STATE);
    tn_autojson struct tn_json *sandbox = NULL;

    if (pods_ask(p, "sandboxes", name, &sandbox, deadline, err) < 0)
        return -1;
    if (!pod || !sandbox || strcmp(owner_text(pod, "kind"), "Sandbox") != 0 ||
        strcmp(owner_text(pod, "uid"), pods_uid(sandbox)) != 0 ||
        strcmp(owner_text(sandbox, "uid"), pods_uid(claim)) != 0)
        return tn_fail(err, TN_E_PEER, "pod %.100s is not that of its SandboxClaim", name);
    if (pods_is_going(pod) || (marked && !(own && strcmp(own, plan->subject->id) == 0)))
        return tn_fail(err, TN_E_PEER, "pod %.100s of its SandboxClaim is %s", name,
                       pods_is_going(pod) ? "being deleted" : "another sandbox already");
    if (strcmp(tn_json_get_str(labels, POD_NETWORK, ""), network) != 0)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "the pods of SandboxWarmPool %s have no label " POD_NETWORK
                       ": %s: its template must set it",
                       plan->config->kubernetes.sandbox_pool, network);
    return 0;
}

/* The pod of a claim gets our marks, unless it has changed since it was looked at. */
static int mark_pod(const struct pods *p, const struct pod_plan *plan, const struct tn_json *claim,
                    char **ref, int64_t deadline, struct tn_error *err)
{
    const struct tn_json *status = tn_json_get(tn_json_get(claim, "status"), "sandbox");
    struct pod_note note;

    pods_read_note(plan->subject, &note);
    snprintf(note.pod, sizeof note.pod, "%s", tn_json_get_str(status, "name", ""));
    if (strspn(note.pod, "abcdefghijklmnopqrstuvwxyz0123456789") == 0 ||
        strspn(note.pod, "abcdefghijklmnopqrstuvwxyz0123456789-.") != strlen(note.pod))
        return tn_fail(err, TN_E_PEER, "its SandboxClaim names no pod");
    *ref = pods_ref(p, &note);
    for (int tries = 1;; tries++) {
        tn_autobuf struct tn_buf body = TN_BUF_INIT(POD_MANIFEST_MAX);
        tn_autojson struct tn_json *pod = NULL;
        struct tn_jw w = tn_jw(&body);
        struct tn_error why = {0};

        if (pods_ask(p, "pods", note.pod, &pod, deadline, err) < 0 ||
            check_pod(p, plan, note.pod, claim, pod, deadline, err) < 0)
            return -1;
        tn_jw_object(&w);
        tn_jw_key(&w, "metadata");
        tn_jw_object(&w);
        tn_jw_kstr(&w, "uid", pods_uid(pod));
        tn_jw_kstr(&w, "resourceVersion", pods_version(pod));
        pod_put_labels(plan, false, false, &w);
        tn_jw_object_end(&w);
        tn_jw_object_end(&w);
        if (pods_patch(p, "pods", note.pod, tn_buf_str(&body), NULL, deadline, &why) == 0)
            return 0;
        if (why.code != TN_E_CONFLICT || tries == POD_TRIES)
            return tn_fail(err, why.code, "%s", why.text);
    }
}

/* Gives a Sandbox the spec of that manifest, whole: what that has no more is not to stay. */
static int renew(const struct pods *p, const char *name, const struct tn_buf *manifest,
                 struct tn_json **sandbox, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(2 * POD_MANIFEST_MAX);
    tn_autojson struct tn_json *wanted = NULL;
    struct tn_jw w = tn_jw(&body);

    if (tn_json_parse(tn_buf_str(manifest), manifest->len, &wanted, err) < 0)
        return -1;
    tn_jw_array(&w);
    pod_json(&w, NULL, "{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":%s}",
             pods_uid(*sandbox));
    tn_jw_object(&w);
    tn_jw_kstr(&w, "op", "replace");
    tn_jw_kstr(&w, "path", "/spec");
    tn_jw_key(&w, "value");
    tn_jw_tree(&w, tn_json_get(wanted, "spec"));
    tn_jw_object_end(&w);
    tn_jw_array_end(&w);
    tn_json_free(TN_TAKE_PTR(*sandbox));
    return pods_patch(p, "sandboxes", name, tn_buf_str(&body), sandbox, deadline, err);
}

int pods_have_made(const struct pods *p, const struct pod_plan *plan, char **ref, int64_t deadline,
                   struct tn_error *err)
{
    const struct tn_subject *s = plan->subject;
    const char *kind = pod_kinds[plan->as].plural;
    tn_autofree char *name = pod_name(s->id, "");
    tn_autobuf struct tn_buf body = TN_BUF_INIT(POD_MANIFEST_MAX);
    tn_autojson struct tn_json *made = NULL;
    TN_CLEANUP(wait_done) struct wait w = {.as = plan->as};

    if (put_object(plan, &body, err) < 0 ||
        pods_make(p, kind, name, s->id, &body, &made, s->cancel, deadline, err) < 0)
        return -1;
    /* One that was there is told to run again, by what the configuration says now. */
    if (strcmp(tn_json_get_str(tn_json_get(made, "spec"), "operatingMode", ""), "Suspended") == 0 &&
        renew(p, name, &body, &made, deadline, err) < 0)
        return -1;
    w.generation = tn_json_int(pods_meta(made, "generation"), 0);
    if (await_pod(p, plan, &w, deadline, err) < 0)
        return -1;
    return plan->as == POD_AS_CLAIM ? mark_pod(p, plan, w.object, ref, deadline, err) : 0;
}

int pods_suspend(const struct pods *p, const struct tn_subject *s, int64_t deadline,
                 struct tn_error *err)
{
    tn_autofree char *name = pod_name(s->id, "");
    tn_autojson struct tn_json *sandbox = NULL;
    struct tn_error why = {0};

    if (pods_get_now(p, "sandboxes", name, s->id, &sandbox, deadline, err) < 0)
        return -1;
    tn_autofree char *body =
        tn_asprintf("{\"metadata\":{\"uid\":\"%s\"},\"spec\":{\"operatingMode\":\"Suspended\"}}",
                    pods_uid(sandbox));
    return !sandbox || pods_patch(p, "sandboxes", name, body, NULL, deadline, &why) == 0 ||
                   why.code == TN_E_NOT_FOUND
               ? 0
               : tn_fail(err, why.code, "%s", why.text);
}

/* --- the hand of a pod that others described -------------------------------------------------- */

static void put_quoted(struct tn_buf *out, const char *text)
{
    tn_buf_putc(out, '\'');
    for (; *text; text++)
        tn_buf_puts(out, *text == '\'' ? "'\\''" : (char[]){*text, '\0'});
    tn_buf_putc(out, '\'');
}

static void put_word(void *out, const char *word)
{
    tn_buf_putc(out, ' ');
    put_quoted(out, word);
}

static int put_export(const char *name, struct tn_json *value, void *ctx)
{
    static const char letters_and_digits[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    const char *letters = letters_and_digits + 10;
    /* Its image knows its own home; the others are a shell's, which ends when they are set. */
    static const char *const not [] = {"HOME", "USER",      "UID",     "EUID",
                                       "PPID", "SHELLOPTS", "BASHOPTS"};
    size_t n = strlen(name);

    if (!n || strspn(name, letters) == 0 || strspn(name, letters_and_digits) != n)
        return 0;
    for (size_t i = 0; i < TN_COUNT(not ); i++)
        if (strcmp(name, not [i]) == 0)
            return 0;
    tn_buf_printf(ctx, "export %s=", name);
    put_quoted(ctx, tn_json_str(value, NULL) ? tn_json_str(value, NULL) : "");
    tn_buf_putc(ctx, '\n');
    return 0;
}

/* sh SIZE: the input, of that size, is one group of commands: cut short it is none. */
#define STARTS "set -e; eval \"$(head -c \"$1\")\""
/* The end of that group; it has no variables, whose names the environment may have, too. */
#define RUNS                                                                       \
    "exec >/dev/null\n[ ! -w /proc/1/fd/1 ] || exec >/proc/1/fd/1\n" POD_POOL_HAND \
    " \"$@\" </dev/null 2>&1 &\n}\n"

int pods_run_hand(const struct pods *p, const struct tn_subject *s, int64_t deadline,
                  struct tn_error *err)
{
    tn_autobuf struct tn_buf secret = TN_BUF_INIT(POD_MANIFEST_MAX),
                             input = TN_BUF_INIT(2 * POD_MANIFEST_MAX),
                             words = TN_BUF_INIT(OUTPUT_MAX);
    const struct pod_plan plan = pods_plan(p, s, NULL);
    tn_autojson struct tn_json *tree = NULL;
    const char *workspace = pod_workspace(p->host->config, s->spec);
    int status = 0;

    if (pod_put_secret(&plan, &secret, err) < 0 ||
        tn_json_parse(tn_buf_str(&secret), secret.len, &tree, err) < 0)
        return -1;
    tn_buf_puts(&input, "{\nmkdir -p");
    put_word(&input, workspace);
    tn_buf_puts(&input, "\ncd");
    put_word(&input, workspace);
    tn_buf_puts(&input, "\nset -- --username \"$(id -u)\"");
    pod_each_argument(&plan, put_word, &input);
    tn_buf_putc(&input, '\n');
    tn_json_each(tn_json_get(tree, "stringData"), put_export, &input);
    tn_buf_puts(&input, RUNS);
    tn_autofree char *size = tn_asprintf("%zu", input.len);
    const char *const argv[] = {"sh", "-c", STARTS, "sh", size, NULL};
    const struct kube_exec e = {.argv = argv, .input = input.data, .input_len = input.len};
    if (!tn_buf_ok(&input))
        return tn_fail(err, TN_E_TOO_LARGE, "the environment is too large");
    if (pods_run(p, s, e, &words, &status, deadline, err) < 0)
        return tn_error_context(err, "starting the hand");
    tn_autofree char *line = kube_line(tn_buf_str(&words));
    return status ? tn_fail(err, TN_E_PEER, "its hand does not start (status %d): %s", status, line)
                  : 0;
}
