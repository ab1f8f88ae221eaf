/* kubeconfig files, as kubectl merges them, and the service account of a pod. */
#include <ctype.h>

#include "base/base64.h"
#include "base/fs.h"
#include "base/yaml-tree.h"
#include "kube/kube-impl.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"
#define FILE_SECONDS 60.0 /* how old what was read from a file of its own may get */
enum { CONFIG_MAX = 16 << 20, VALUES_MAX = 1 << 20, PEM_MAX = 1 << 20, TOKEN_MAX = 64 << 10 };

void kube_forget(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void kube_access_free(struct kube_access *a)
{
    if (!a)
        return;
    char *const plain[] = {a->config,    a->context,     a->source, a->user,  a->server,
                           a->namespace, a->server_name, a->ca,     a->folder};
    char *const secret[] = {a->proxy, a->token, a->cert, a->key};

    for (size_t i = 0; i < TN_COUNT(plain); i++)
        free(plain[i]);
    for (size_t i = 0; i < TN_COUNT(secret); i++)
        kube_forget(secret[i]);
    tn_json_free(a->plugin);
    tn_json_free(a->cluster);
    free(a);
}

static void guard_access(struct kube_access **a)
{
    kube_access_free(*a);
}

/* --- files ------------------------------------------------------------------------------------ */

struct document {
    char *path, *folder;
    struct tn_json *tree;
};

struct documents {
    struct document *items;
    size_t count;
};

static void documents_done(struct documents *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].path);
        free(all->items[i].folder);
        tn_json_free(all->items[i].tree);
    }
    free(all->items);
}

static void secret_done(struct tn_buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    tn_buf_done(b);
}

static int read_document(const char *path, struct document *out, struct tn_error *err)
{
    TN_CLEANUP(secret_done) struct tn_buf text = TN_BUF_INIT(CONFIG_MAX);
    const char *slash = strrchr(path, '/');

    *out = (struct document){0};
    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, err) < 0)
        return -1;
    if (tn_yaml_parse(tn_buf_str(&text), text.len, VALUES_MAX, &out->tree, err) < 0)
        return tn_error_context(err, "%s", path);
    out->path = tn_strdup(path);
    out->folder = tn_strndup(path, slash ? (size_t)(slash - path + 1) : 0);
    return 0;
}

/* "a:b" with every path absolute, on the heap. */
static char *whole_paths(const char *list)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64 << 10);
    tn_autofree char *here = getcwd(NULL, 0);

    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ":");
        if (n > 0)
            tn_buf_printf(&out, "%s%s%s%.*s", out.len ? ":" : "", *at == '/' || !here ? "" : here,
                          *at == '/' || !here ? "" : "/", (int)n, at);
        at += n + (at[n] == ':');
    }
    return tn_buf_take(&out);
}

/* Those that are not there do not count, as long as one is. */
static int read_documents(const char *list, struct documents *all, struct tn_error *err)
{
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ":");
        tn_autofree char *path = tn_strndup(at, n);
        struct document d;
        struct tn_error why = {0};
        if (read_document(path, &d, &why) == 0) {
            all->items = tn_realloc(all->items, (all->count + 1) * sizeof d);
            all->items[all->count++] = d;
        } else if (why.code != TN_E_NOT_FOUND) {
            if (err)
                *err = why;
            return tn_error_context(err, "kubeconfig");
        }
        at += n + (at[n] == ':');
    }
    return all->count ? 0 : tn_fail(err, TN_E_NOT_FOUND, "kubeconfig: there is no file %s", list);
}

/* --- entries ---------------------------------------------------------------------------------- */

struct kind {
    const char *list, *member;
    const char *const *texts; /* members that are text, if they are there at all */
};

static const struct kind contexts = {"contexts", "context",
                                     (const char *const[]){"cluster", "user", "namespace", NULL}};
static const struct kind clusters = {"clusters", "cluster",
                                     (const char *const[]){"server", "tls-server-name", "proxy-url",
                                                           "certificate-authority",
                                                           "certificate-authority-data", NULL}};
static const struct kind users = {
    "users", "user",
    (const char *const[]){"token", "tokenFile", "client-certificate", "client-certificate-data",
                          "client-key", "client-key-data", "username", "password", NULL}};

/* The first of that name; NULL with err where there is none, or it is not well formed. */
static const struct tn_json *find(const struct documents *all, const struct kind *kind,
                                  const char *name, const struct document **in,
                                  struct tn_error *err)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct tn_json *list = tn_json_get(all->items[i].tree, kind->list);
        for (size_t j = 0; j < tn_json_count(list); j++) {
            const struct tn_json *entry = tn_json_at(list, j);
            if (strcmp(tn_json_get_str(entry, "name", ""), name) != 0)
                continue;
            *in = &all->items[i];
            entry = tn_json_get(entry, kind->member);
            if (tn_json_type(entry) != TN_JSON_OBJECT) {
                tn_fail(err, TN_E_INVALID, "%s: %s %s says nothing", (*in)->path, kind->member,
                        name);
                return NULL;
            }
            for (const char *const *m = kind->texts; *m; m++)
                if (tn_json_get(entry, *m) && !tn_json_get_str(entry, *m, NULL)) {
                    tn_fail(err, TN_E_INVALID, "%s: %s %s: %s is no text", (*in)->path,
                            kind->member, name, *m);
                    return NULL;
                }
            return entry;
        }
    }
    tn_fail(err, TN_E_NOT_FOUND, "there is no %s %s in %s%s", kind->member, name,
            all->items[0].path, all->count > 1 ? " and the other files" : "");
    return NULL;
}

/* A member that is text and not empty, or NULL. */
static const char *text_of(const struct tn_json *object, const char *member)
{
    const char *text = tn_json_get_str(object, member, "");

    return *text ? text : NULL;
}

char *kube_plain(const struct tn_json *object, const char *member, struct tn_error *err)
{
    const char *text = tn_json_get_str(object, member, "");
    TN_CLEANUP(secret_done) struct tn_buf dense = TN_BUF_INIT(2 * PEM_MAX);
    struct tn_buf out = TN_BUF_INIT(PEM_MAX);

    for (; *text; text++)
        if (!isspace((unsigned char)*text))
            tn_buf_putc(&dense, *text);
    if (tn_base64_decode(&out, tn_buf_str(&dense), dense.len, err) == 0)
        return tn_buf_take(&out);
    secret_done(&out);
    tn_error_context(err, "%s", member);
    return NULL;
}

static char *read_text(const char *folder, const char *name, size_t max, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s%s", *name == '/' ? "" : folder, name);
    TN_CLEANUP(secret_done) struct tn_buf out = TN_BUF_INIT(max);

    if (tn_fs_read(TN_FS_ANYWHERE, path, &out, err) < 0)
        return NULL;
    return tn_buf_take(&out);
}

/* From NAME-data, else from the file NAME; *out is NULL when there is neither. */
static int read_pem(const struct tn_json *object, const char *name, const char *folder, char **out,
                    bool *rotates, struct tn_error *err)
{
    tn_autofree char *data = tn_asprintf("%s-data", name);
    const char *path = text_of(object, name);

    *out = NULL;
    if (text_of(object, data)) {
        *out = kube_plain(object, data, err);
    } else if (path) {
        *out = read_text(folder, path, PEM_MAX, err);
        *rotates = true;
        if (!*out)
            return tn_error_context(err, "%s", name);
    } else {
        return 0;
    }
    return *out ? 0 : -1;
}

/* What may stand in a header. */
static int take_token(struct kube_access *a, char *token, struct tn_error *err)
{
    size_t n = strlen(token);

    while (n > 0 && isspace((unsigned char)token[n - 1]))
        token[--n] = '\0';
    a->token = token;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)token[i] <= ' ' || (unsigned char)token[i] >= 0x7f)
            return tn_fail(err, TN_E_INVALID, "the token of %s is none", a->user);
    return n ? 0 : tn_fail(err, TN_E_INVALID, "the token of %s is empty", a->user);
}

/* --- a context -------------------------------------------------------------------------------- */

static int take_server(struct kube_access *a, const char *server, struct tn_error *err)
{
    size_t n = strlen(server);

    while (n > 0 && server[n - 1] == '/')
        n--;
    a->server = tn_strndup(server, n);
    const char *host = strstr(a->server, "://");
    if ((strncmp(a->server, "https://", 8) == 0 || strncmp(a->server, "http://", 7) == 0) &&
        host[3] && host[3] != '/' && !strpbrk(a->server, " \t\r\n@?#"))
        return 0;
    return tn_fail(err, TN_E_INVALID, "its server is no address: expected https://HOST[:PORT]");
}

static int take_cluster(struct kube_access *a, const struct tn_json *c, const struct document *in,
                        struct tn_error *err)
{
    const char *proxy = text_of(c, "proxy-url");
    const char *names = proxy && strncmp(proxy, "socks5://", 9) == 0 ? "socks5h" : NULL;

    a->server_name = tn_strdup_or_null(text_of(c, "tls-server-name"));
    /* Names are then looked up by the proxy, as kubectl has it. */
    a->proxy = names ? tn_asprintf("%s%s", names, proxy + 6) : tn_strdup_or_null(proxy);
    a->insecure = tn_json_bool(tn_json_get(c, "insecure-skip-tls-verify"), false);
    a->cluster = tn_json_copy(c);
    if (take_server(a, tn_json_get_str(c, "server", ""), err) < 0)
        return -1;
    return read_pem(c, "certificate-authority", in->folder, &a->ca, &a->rotates, err);
}

/* Whoever is on the way would read who we are. */
static int check_way(const struct kube_access *a, struct tn_error *err)
{
    const char *host = strstr(a->server, "://") + 3;
    tn_autofree char *name =
        tn_strndup(host, *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/"));

    if (strncmp(a->server, "http://", 7) != 0 || (!a->token && !a->cert && !a->plugin) ||
        tn_web_reach_of(name) == TN_WEB_LOOPBACK)
        return 0;
    return tn_fail(err, TN_E_DENIED, "%s: credentials are sent over https:// alone", a->source);
}

static int refuse_ways(const struct tn_json *u, struct tn_error *err)
{
    static const struct {
        const char *member, *why;
    } ways[] = {
        {"username", "a user name with a password is no way into a cluster any more"},
        {"auth-provider", "auth-provider is gone from Kubernetes: use an exec plugin, such as "
                          "kubelogin or gke-gcloud-auth-plugin"},
        {"as", "acting as another user (as) is not supported"},
    };

    for (size_t i = 0; i < TN_COUNT(ways); i++)
        if (tn_json_get(u, ways[i].member))
            return tn_fail(err, TN_E_UNSUPPORTED, "%s", ways[i].why);
    return 0;
}

static int take_user(struct kube_access *a, const struct tn_json *u, const struct document *in,
                     struct tn_error *err)
{
    const char *file = text_of(u, "tokenFile");

    if (refuse_ways(u, err) < 0 ||
        read_pem(u, "client-certificate", in->folder, &a->cert, &a->rotates, err) < 0 ||
        read_pem(u, "client-key", in->folder, &a->key, &a->rotates, err) < 0)
        return -1;
    if (!a->cert != !a->key)
        return tn_fail(err, TN_E_INVALID,
                       "a client certificate needs its key, and a key its "
                       "certificate");
    if (file) {
        char *token = read_text(in->folder, file, TOKEN_MAX, err);
        a->rotates = true;
        if (!token)
            return tn_error_context(err, "tokenFile");
        return take_token(a, token, err);
    }
    if (text_of(u, "token"))
        return take_token(a, tn_strdup(text_of(u, "token")), err);
    if (!a->cert && tn_json_get(u, "exec")) {
        a->plugin = tn_json_copy(tn_json_get(u, "exec"));
        a->folder = tn_strdup(in->folder);
    }
    return 0;
}

/* The first file that has one. */
static const char *current_context(const struct documents *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const char *name = text_of(all->items[i].tree, "current-context");
        if (name)
            return name;
    }
    return NULL;
}

static int take_context(struct kube_access *a, const struct documents *all,
                        const struct kube_options *o, struct tn_error *err)
{
    const char *name = o->context ? o->context : current_context(all);
    const struct document *in = NULL;

    if (!name)
        return tn_fail(err, TN_E_INVALID, "%s names no current context: name one",
                       all->items[0].path);
    a->context = tn_strdup(name);
    const struct tn_json *c = find(all, &contexts, name, &in, err);
    if (!c)
        return -1;
    const char *cluster = tn_json_get_str(c, "cluster", ""), *user = text_of(c, "user");
    a->source = tn_asprintf("context %s of %s", name, in->path);
    a->user = user ? tn_asprintf("user %s", user) : tn_strdup("nobody");
    a->namespace = tn_strdup(o->namespace              ? o->namespace
                             : text_of(c, "namespace") ? text_of(c, "namespace")
                                                       : "default");
    const struct tn_json *found = find(all, &clusters, cluster, &in, err);
    if (!found || take_cluster(a, found, in, err) < 0)
        return found ? tn_error_context(err, "%s: cluster %s", in->path, cluster) : -1;
    if (!user)
        return 0;
    found = find(all, &users, user, &in, err);
    if (!found || take_user(a, found, in, err) < 0)
        return found ? tn_error_context(err, "%s: user %s", in->path, user) : -1;
    return 0;
}

/* --- a pod ------------------------------------------------------------------------------------ */

static int take_account(struct kube_access *a, const struct kube_options *o, struct tn_error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    bool v6 = host && strchr(host, ':');

    if (!host || !*host || !port)
        return tn_fail(err, TN_E_NOT_FOUND,
                       "there is no kubeconfig ($KUBECONFIG, ~/.kube/config), and this is no pod "
                       "of a cluster");
    tn_autofree char *server =
        tn_asprintf("https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
    a->rotates = true;
    a->config = tn_strdup("");
    a->context = tn_strdup("");
    a->source = tn_strdup("the service account of this pod");
    a->user = tn_strdup("the service account");
    char *token = NULL;
    if (take_server(a, server, err) < 0 || !(a->ca = read_text(ACCOUNT, "ca.crt", PEM_MAX, err)) ||
        !(token = read_text(ACCOUNT, "token", TOKEN_MAX, err)) || take_token(a, token, err) < 0)
        return tn_error_context(err, "service account");
    a->namespace =
        o->namespace ? tn_strdup(o->namespace) : read_text(ACCOUNT, "namespace", 256, NULL);
    if (a->namespace)
        a->namespace[strcspn(a->namespace, " \t\r\n")] = '\0';
    else
        a->namespace = tn_strdup("default");
    return 0;
}

/* The files that are meant, on the heap; "" for the account of the pod. */
static char *which_files(const struct kube_options *o)
{
    const char *named = getenv("KUBECONFIG"), *home = getenv("HOME");

    if (o->config)
        return whole_paths(o->config);
    if (named && *named)
        return whole_paths(named);
    tn_autofree char *usual = tn_asprintf("%s/.kube/config", home ? home : "");
    return home && access(usual, F_OK) == 0 ? TN_TAKE_PTR(usual) : tn_strdup("");
}

struct kube_access *kube_access_read(const struct kube_options *o, struct tn_error *err)
{
    TN_CLEANUP(guard_access) struct kube_access *a = tn_calloc(1, sizeof *a);
    TN_CLEANUP(documents_done) struct documents all = {0};
    tn_autofree char *config = which_files(o);

    if (*config) {
        a->config = tn_strdup(config);
        if (read_documents(config, &all, err) < 0 || take_context(a, &all, o, err) < 0)
            return NULL;
    } else if (take_account(a, o, err) < 0) {
        return NULL;
    }
    if (check_way(a, err) < 0)
        return NULL;
    a->until = a->rotates ? tn_deadline_in(FILE_SECONDS) : TN_NEVER;
    return TN_TAKE_PTR(a);
}
