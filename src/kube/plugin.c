/* Programs that log in: "exec" of a user in a kubeconfig.  They are asked once, and again when what
 * they gave ends or is refused; nobody is there whom they could ask. */
#include <time.h>

#include "base/base64.h"
#include "base/child.h"
#include "kube/kube-impl.h"

#define PLUGIN_SECONDS 60.0
#define EARLY_SECONDS 10.0 /* before credentials end, they are renewed */
#define GROUP "client.authentication.k8s.io/"
enum { ANSWER_MAX = 1 << 20, COMPLAINTS_MAX = 8 << 10, INFO_MAX = 2 << 20 };

extern char **environ;

/* --- the question ----------------------------------------------------------------------------- */

static void tell_cluster(struct tn_jw *w, const struct kube_access *a)
{
    const struct tn_json *list = tn_json_get(a->cluster, "extensions");

    tn_jw_key(w, "cluster");
    tn_jw_object(w);
    tn_jw_kstr(w, "server", a->server);
    if (a->server_name)
        tn_jw_kstr(w, "tls-server-name", a->server_name);
    if (a->insecure)
        tn_jw_kbool(w, "insecure-skip-tls-verify", true);
    if (a->ca) {
        tn_autobuf struct tn_buf data = TN_BUF_INIT(INFO_MAX);
        tn_base64_encode(&data, a->ca, strlen(a->ca));
        tn_jw_kstr(w, "certificate-authority-data", tn_buf_str(&data));
    }
    if (a->proxy)
        tn_jw_kstr(w, "proxy-url", a->proxy);
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *e = tn_json_at(list, i);
        if (strcmp(tn_json_get_str(e, "name", ""), GROUP "exec") == 0) {
            tn_jw_key(w, "config");
            tn_jw_tree(w, tn_json_get(e, "extension"));
        }
    }
    tn_jw_object_end(w);
}

static void tell(struct tn_buf *out, const struct kube_access *a, const char *version)
{
    struct tn_jw w = tn_jw(out);

    tn_buf_puts(out, "KUBERNETES_EXEC_INFO=");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "kind", "ExecCredential");
    tn_jw_kstr(&w, "apiVersion", version);
    tn_jw_key(&w, "spec");
    tn_jw_object(&w);
    if (tn_json_bool(tn_json_get(a->plugin, "provideClusterInfo"), false))
        tell_cluster(&w, a);
    tn_jw_kbool(&w, "interactive", false);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
}

/* Words with a NULL after them; each is the list's own. */
struct words {
    char **items;
    size_t count;
};

static void add_word(struct words *w, char *word)
{
    w->items = tn_realloc(w->items, (w->count + 2) * sizeof *w->items);
    w->items[w->count++] = word;
    w->items[w->count] = NULL;
}

static void words_done(struct words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->items[i]);
    free(w->items);
}

static bool names_same(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");

    return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* What the plugin is told, what its user wants it to see, and the rest of our own environment. */
static void set_environment(const struct kube_access *a, char *info, struct words *env)
{
    const struct tn_json *extra = tn_json_get(a->plugin, "env");

    add_word(env, info);
    for (size_t i = 0; i < tn_json_count(extra); i++) {
        const struct tn_json *e = tn_json_at(extra, i);
        add_word(env, tn_asprintf("%s=%s", tn_json_get_str(e, "name", ""),
                                  tn_json_get_str(e, "value", "")));
    }
    size_t own = env->count;
    for (char **e = environ; *e; e++) {
        bool known = false;
        for (size_t i = 0; i < own; i++)
            known |= names_same(env->items[i], *e);
        if (!known)
            add_word(env, tn_strdup(*e));
    }
}

static void set_command(const struct kube_access *a, struct words *argv)
{
    const char *command = tn_json_get_str(a->plugin, "command", "");
    const struct tn_json *args = tn_json_get(a->plugin, "args");
    bool near = *command != '/' && strchr(command, '/');

    add_word(argv, tn_asprintf("%s%s", near ? a->folder : "", command));
    for (size_t i = 0; i < tn_json_count(args); i++) {
        const char *arg = tn_json_str(tn_json_at(args, i), NULL);
        add_word(argv, tn_strdup(arg ? arg : ""));
    }
}

/* --- the answer ------------------------------------------------------------------------------- */

/* "2026-11-18T03:00:00[.5]Z" or with "+01:00", in seconds after 1970; -1: it is none. */
static int64_t instant(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int hours = 0, minutes = 0;

    if (!rest)
        return -1;
    rest += *rest == '.' ? 1 + strspn(rest + 1, "0123456789") : 0;
    if (*rest != 'Z' &&
        ((*rest != '+' && *rest != '-') || sscanf(rest + 1, "%2d:%2d", &hours, &minutes) != 2))
        return -1;
    return timegm(&tm) - (*rest == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
}

static int take_end(struct kube_access *a, const char *text, struct tn_error *err)
{
    a->until = TN_NEVER;
    if (!text)
        return 0;
    int64_t end = instant(text);
    if (end < 0)
        return tn_fail(err, TN_E_PEER, "its expirationTimestamp is no time");
    double left = (double)(end - time(NULL));
    if (left <= 0)
        return tn_fail(err, TN_E_DENIED, "what it answers has expired: log in again");
    a->until = tn_deadline_in(left > 2 * EARLY_SECONDS ? left - EARLY_SECONDS : left / 2);
    return 0;
}

static int take_answer(struct kube_access *a, const struct tn_buf *text, const char *version,
                       struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;

    if (tn_json_parse(tn_buf_str(text), text->len, &tree, NULL) < 0 ||
        strcmp(tn_json_get_str(tree, "kind", ""), "ExecCredential") != 0)
        return tn_fail(err, TN_E_PEER, "its answer is no ExecCredential");
    if (strcmp(tn_json_get_str(tree, "apiVersion", ""), version) != 0)
        return tn_fail(err, TN_E_PEER, "it does not answer as %s, which was asked for", version);
    const struct tn_json *status = tn_json_get(tree, "status");
    const char *token = tn_json_get_str(status, "token", "");
    const char *cert = tn_json_get_str(status, "clientCertificateData", "");
    const char *key = tn_json_get_str(status, "clientKeyData", "");
    if ((!*token && !*cert) || !*cert != !*key)
        return tn_fail(err, TN_E_PEER, "it answers with neither a token nor a certificate and key");
    if (strpbrk(token, " \t\r\n"))
        return tn_fail(err, TN_E_PEER, "its token is none");
    a->token = *token ? tn_strdup(token) : NULL;
    a->cert = *cert ? tn_strdup(cert) : NULL;
    a->key = *key ? tn_strdup(key) : NULL;
    return take_end(a, tn_json_get_str(status, "expirationTimestamp", NULL), err);
}

static int check(const struct kube_access *a, const char *version, struct tn_error *err)
{
    const char *mode = tn_json_get_str(a->plugin, "interactiveMode", "");

    if (strcmp(version, GROUP "v1") != 0 && strcmp(version, GROUP "v1beta1") != 0)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "it wants %s, known are v1 and v1beta1 of client.authentication.k8s.io",
                       *version ? version : "no apiVersion");
    if (strcmp(mode, "Always") == 0)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "it always asks somebody (interactiveMode), and "
                       "nobody is here");
    return 0;
}

static int ask(struct kube_access *a, int64_t deadline, struct tn_error *err)
{
    const char *version = tn_json_get_str(a->plugin, "apiVersion", "");
    const char *hint = tn_json_get_str(a->plugin, "installHint", "");
    TN_CLEANUP(words_done) struct words argv = {0}, env = {0};
    tn_autobuf struct tn_buf info = TN_BUF_INIT(INFO_MAX), out = TN_BUF_INIT(ANSWER_MAX),
                             complaints = TN_BUF_INIT(COMPLAINTS_MAX);

    if (check(a, version, err) < 0)
        return -1;
    tell(&info, a, version);
    set_environment(a, tn_buf_take(&info), &env);
    set_command(a, &argv);
    int code = tn_child_run((const char *const *)argv.items, (const char *const *)env.items, NULL,
                            &out, &complaints, deadline, err);
    int r = code;
    if (code < 0 && err && err->code == TN_E_NOT_FOUND && *hint) {
        tn_autofree char *line = kube_line(hint);
        r = tn_fail(err, TN_E_NOT_FOUND, "it is not installed: %s", line);
    } else if (code > 0) {
        tn_autofree char *line = kube_line(tn_buf_str(&complaints));
        r = tn_fail(err, TN_E_DENIED, "it ended with %d: %s", code, line);
    } else if (code == 0) {
        r = take_answer(a, &out, version, err);
    }
    if (out.data)
        explicit_bzero(out.data, out.len);
    return r;
}

int kube_plugin(struct kube_access *a, int64_t deadline, struct tn_error *err)
{
    if (ask(a, tn_deadline_within(PLUGIN_SECONDS, deadline), err) == 0)
        return 0;
    return tn_error_context(err, "%s: the exec plugin %s", a->user,
                            tn_json_get_str(a->plugin, "command", ""));
}
