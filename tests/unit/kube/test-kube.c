#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
/* cmocka.h comes last */
#include <cmocka.h>

#include "base/fs.h"
#include "base/thread.h"
#include "kube/kube-impl.h"

/* --- kubeconfigs ------------------------------------------------------------------------------ */

static char folder[] = "/tmp/test-kube-XXXXXX";

static char *put(const char *name, const char *text, mode_t mode)
{
    char *path = tn_asprintf("%s/%s", folder, name);
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(tn_fs_write(fd, text, strlen(text), NULL), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    return path;
}

static int make_folder(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    tn_autofd int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return tn_fs_remove_tree(tmp, folder + strlen("/tmp/"), 0, NULL);
}

#define CLUSTER(more) "clusters: [{name: c, cluster: {server: 'https://one:6443/', " more "}}]\n"
#define CONTEXT "contexts: [{name: x, context: {cluster: c, user: u, namespace: n}}]\n"
#define USER(text) "users: [{name: u, user: {" text "}}]\n"
#define NOW "current-context: x\n"

/* What is read of one or two files, as "server namespace token cert key ca name proxy insecure", or
 * the error's end. */
static const struct {
    const char *first, *second, *context;
    const char *expected;
} configs[] = {
    {NOW CONTEXT CLUSTER("") USER("token: t"), NULL, NULL, "https://one:6443 n t - - - - - 0"},
    /* each entry from the first file that has it, whole */
    {NOW CONTEXT USER("token: first"), CLUSTER("") USER("token: second, client-key-data: eA=="),
     NULL, "https://one:6443 n first - - - - - 0"},
    {CONTEXT, NOW CLUSTER("insecure-skip-tls-verify: true") USER("token: t"), NULL,
     "https://one:6443 n t - - - - - 1"},
    {NOW CONTEXT CLUSTER("tls-server-name: other, proxy-url: 'socks5://p:1'") USER("token: t"),
     NULL, NULL, "https://one:6443 n t - - - other socks5h://p:1 0"},
    {NOW CONTEXT CLUSTER("certificate-authority-data: 'Q\n A = =\n'")
         USER("client-certificate-data: Y2VydA==, client-key-data: a2V5"),
     NULL, NULL, "https://one:6443 n - cert key @ - - 0"},
    /* files beside the file; data counts more than a file */
    {NOW CONTEXT CLUSTER("certificate-authority: ca.pem")
         USER("tokenFile: token, client-certificate: ca.pem, client-key: ca.pem, "
              "client-key-data: a2V5"),
     NULL, NULL, "https://one:6443 n from-file pem key pem - - 0"},
    {CONTEXT CLUSTER("") "contexts: [{name: y, context: {cluster: c}}]\n", NULL, "y",
     "https://one:6443 default - - - - - - 0"},
    {"", NULL, NULL, "names no current context: name one"},
    {NOW, NULL, NULL, "there is no context x in %s/first"},
    {NOW CONTEXT, "users: []", NULL, "there is no cluster c in %s/first and the other files"},
    {NOW CONTEXT CLUSTER(""), NULL, NULL, "there is no user u in %s/first"},
    {NOW CONTEXT CLUSTER("") USER("token: 12"), NULL, NULL, "%s/first: user u: token is no text"},
    {NOW CONTEXT CLUSTER("") USER("token: 'a b'"), NULL, NULL,
     "%s/first: user u: the token of user u is none"},
    {NOW CONTEXT CLUSTER("") USER("username: a, password: b"), NULL, NULL,
     "%s/first: user u: a user name with a password is no way into a cluster any more"},
    {NOW CONTEXT CLUSTER("") USER("auth-provider: {name: gcp}"), NULL, NULL,
     "%s/first: user u: auth-provider is gone from Kubernetes: use an exec plugin, such as "
     "kubelogin or gke-gcloud-auth-plugin"},
    {NOW CONTEXT CLUSTER("") USER("client-key-data: a2V5"), NULL, NULL,
     "%s/first: user u: a client certificate needs its key, and a key its certificate"},
    {NOW CONTEXT CLUSTER("") USER("client-key-data: '!!'"), NULL, NULL, "client-key-data: *"},
    {NOW CONTEXT CLUSTER("") USER("tokenFile: missing"), NULL, NULL,
     "%s/first: user u: tokenFile: %s/missing: No such file or directory"},
    {NOW CONTEXT "clusters: [{name: c, cluster: {server: 'one:6443'}}]\n", NULL, NULL,
     "%s/first: cluster c: its server is no address: expected https://HOST[:PORT]"},
    {NOW CONTEXT
     "clusters: [{name: c, cluster: {server: 'http://10.0.0.1:80'}}]\n" USER("token: t"),
     NULL, NULL, "context x of %s/first: credentials are sent over https:// alone"},
    {NOW CONTEXT "clusters: [{name: c, cluster: {server: 'http://[::1]:80'}}]\n" USER("token: t"),
     NULL, NULL, "http://[::1]:80 n t - - - - - 0"},
    {"a: &b 1\nc: *b\n", NULL, NULL,
     "kubeconfig: %s/first: YAML, line 2: aliases are not supported"},
};

static const char *shown(const char *text)
{
    return text ? text : "-";
}

static void describe(const struct kube_access *a, struct tn_buf *out)
{
    tn_buf_printf(out, "%s %s %s %s %s %s %s %s %d", a->server, a->namespace, shown(a->token),
                  shown(a->cert), shown(a->key), shown(a->ca), shown(a->server_name),
                  shown(a->proxy), a->insecure);
}

/* "%s" is the folder; "*" at the end is anything. */
static void check_text(const char *got, const char *expected)
{
    tn_autobuf struct tn_buf want = TN_BUF_INIT(4096);

    for (const char *p = expected; *p; p++) {
        if (p[0] == '%' && p[1] == 's') {
            tn_buf_puts(&want, folder);
            p++;
        } else {
            tn_buf_putc(&want, *p);
        }
    }
    if (want.data[want.len - 1] == '*') {
        tn_buf_cut(&want, want.len - 1);
        assert_non_null(strstr(got, tn_buf_str(&want)));
    } else {
        size_t n = strlen(got), m = want.len;
        assert_string_equal(n > m && strstr(expected, "names no") ? got + n - m : got,
                            tn_buf_str(&want));
    }
}

static void test_configs(void **state)
{
    free(put("token", "from-file\n", 0600));
    free(put("ca.pem", "pem", 0600));
    for (size_t i = 0; i < TN_COUNT(configs); i++) {
        tn_autofree char *first = put("first", configs[i].first, 0600);
        tn_autofree char *second = put("second", configs[i].second ? configs[i].second : "", 0600);
        tn_autofree char *list =
            tn_asprintf("%s/nothing:%s%s%s", folder, first, configs[i].second ? ":" : "",
                        configs[i].second ? second : "");
        const struct kube_options o = {.config = list, .context = configs[i].context};
        tn_autobuf struct tn_buf got = TN_BUF_INIT(4096);
        struct tn_error err = {0};
        struct kube_access *a = kube_access_read(&o, &err);
        if (a)
            describe(a, &got);
        check_text(a ? tn_buf_str(&got) : err.text, configs[i].expected);
        kube_access_free(a);
    }
    const struct kube_options none = {.config = "/nowhere/a:/nowhere/b"};
    struct tn_error err = {0};
    assert_null(kube_access_read(&none, &err));
    assert_string_equal(err.text, "kubeconfig: there is no file /nowhere/a:/nowhere/b");
}

/* Thousands of entries are what people have who have thousands of clusters. */
static void test_large_config(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 20);

    tn_buf_puts(&text, NOW CONTEXT CLUSTER("") "users:\n");
    for (int i = 0; i < 4000; i++)
        tn_buf_printf(&text, "- name: u%d\n  user:\n    token: t\n    client-key-data: YQ==\n", i);
    tn_buf_puts(&text, "- name: u\n  user: {token: last}\n");
    tn_autofree char *path = put("large", tn_buf_str(&text), 0600);
    const struct kube_options o = {.config = path};
    struct tn_error err = {0};
    struct kube_access *a = kube_access_read(&o, &err);
    assert_string_equal(a ? a->token : err.text, "last");
    kube_access_free(a);
}

/* --- plugins ---------------------------------------------------------------------------------- */

#define PLUGIN(more) \
    USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, " more "}")
#define ANSWER(status)                                              \
    "#!/bin/sh\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":" \
    "\"client.authentication.k8s.io/v1\",\"status\":{" status "}}'\n"

static const struct {
    const char *user, *program;
    const char *expected; /* token and seconds until it is asked again, or the error's end */
} plugins[] = {
    {PLUGIN(""), ANSWER("\"token\":\"t\""), "t never"},
    {PLUGIN("env: [{name: WHO, value: me}], args: [a, 'b c']"),
     "#!/bin/sh\n[ \"$2\" = 'b c' ] && [ $# = 2 ] && [ \"$HOME\" ] || exit 1\n"
     "case $KUBERNETES_EXEC_INFO in *'\"spec\":{\"interactive\":false}'*) ;; *) exit 2;; esac\n"
     "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","
     "\"status\":{\"token\":\"'$WHO'\"}}'",
     "me never"},
    {PLUGIN("provideClusterInfo: true"),
     "#!/bin/sh\ncase $KUBERNETES_EXEC_INFO in *'\"server\":\"https://one:6443\"'*'\"config\":"
     "{\"a\":1}'*) ;; *) exit 2;; esac\n"
     "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","
     "\"status\":{\"clientCertificateData\":\"c\",\"clientKeyData\":\"k\"}}'",
     "- never"},
    {PLUGIN(""), ANSWER("\"token\":\"t\",\"expirationTimestamp\":\"2050-01-01T00:00:00Z\""),
     "t later"},
    {PLUGIN(""), ANSWER("\"token\":\"t\",\"expirationTimestamp\":\"2000-01-01T00:00:00+01:00\""),
     "what it answers has expired: log in again"},
    {PLUGIN(""), ANSWER("\"token\":\"t\",\"expirationTimestamp\":\"2050-01-01T00:00:00\""),
     "its expirationTimestamp is no time"},
    {PLUGIN(""), ANSWER(""), "it answers with neither a token nor a certificate and key"},
    {PLUGIN(""), "#!/bin/sh\necho no 'way' >&2; exit 3", "it ended with 3: no way"},
    {PLUGIN(""), "#!/bin/sh\necho hello", "its answer is no ExecCredential"},
    {PLUGIN(""), "#!/bin/sh\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":\"x\"}'",
     "it does not answer as client.authentication.k8s.io/v1, which was asked for"},
    {PLUGIN(""), "#!/bin/sh\nexec sleep 60", "it did not end in time"},
    {PLUGIN("interactiveMode: Always"), "#!/bin/sh\n",
     "it always asks somebody (interactiveMode), and nobody is here"},
    {USER("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: a}"), "",
     "it wants client.authentication.k8s.io/v1alpha1, known are v1 and v1beta1 of "
     "client.authentication.k8s.io"},
    {USER("exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: /nowhere/login, "
          "installHint: 'apt install login'}"),
     "", "it is not installed: apt install login"},
};

static void test_plugins(void **state)
{
    for (size_t i = 0; i < TN_COUNT(plugins); i++) {
        tn_autofree char *text = tn_asprintf(
            NOW CONTEXT CLUSTER("extensions: [{name: client.authentication.k8s.io/exec, "
                                "extension: {a: 1}}]") "%s",
            plugins[i].user);
        tn_autofree char *path = put("plugin", text, 0600);
        free(put("login", plugins[i].program, 0700));
        const struct kube_options o = {.config = path};
        struct tn_error err = {0};
        struct kube_access *a = kube_access_read(&o, &err);
        assert_non_null(a);
        bool slow = strstr(plugins[i].program, "sleep");
        int r = kube_plugin(a, tn_deadline_in(slow ? 0.3 : 30), &err);
        tn_autofree char *got =
            r < 0 ? tn_strdup(err.text)
                  : tn_asprintf("%s %s", shown(a->token), a->until == TN_NEVER ? "never" : "later");
        size_t n = strlen(got), m = strlen(plugins[i].expected);
        assert_string_equal(r < 0 && n > m ? got + n - m : got, plugins[i].expected);
        kube_access_free(a);
    }
}

/* --- refusals --------------------------------------------------------------------------------- */

#define STATUS(reason, message) \
    "{\"kind\":\"Status\",\"reason\":\"" reason "\",\"message\":\"" message "\"}"

static const struct {
    int status;
    const char *body, *headers;
    enum tn_code code;
    const char *text;
    double after;
} refusals[] = {
    {404, STATUS("NotFound", "pods \\\"a\\\" not found"), "", TN_E_NOT_FOUND,
     "pods \"a\" not found", 0},
    {409, STATUS("AlreadyExists", "it exists"), "", TN_E_CONFLICT, "it exists", 0},
    {403, STATUS("Forbidden", "pods is forbidden: User x cannot"), "", TN_E_DENIED,
     "pods is forbidden: User x cannot", 0},
    {403, STATUS("Forbidden", "pods a is forbidden: exceeded quota: q, requested: pods=1"), "",
     TN_E_QUOTA, "pods a is forbidden: exceeded quota: q, requested: pods=1", 0},
    {401, STATUS("Unauthorized", "Unauthorized"), "", TN_E_DENIED,
     "the API server answered 401: Unauthorized", 0},
    {422, STATUS("Invalid", "Pod is invalid"), "", TN_E_INVALID, "Pod is invalid", 0},
    {400, STATUS("BadRequest", "admission webhook denied"), "", TN_E_INVALID,
     "admission webhook denied", 0},
    {410, STATUS("Expired", "too old"), "", TN_E_GONE, "too old", 0},
    {429, "{\"kind\":\"Status\",\"message\":\"slow\",\"details\":{\"retryAfterSeconds\":2}}", "",
     TN_E_BUSY, "slow", 2},
    {503, "", "retry-after: 3\n", TN_E_BUSY, "the API server answered 503", 3},
    {504, STATUS("Timeout", "late"), "", TN_E_TIMEOUT, "late", 0},
    {500, STATUS("InternalError", "boom\\n\\u001b[31m"), "", TN_E_PEER, "boom  [31m", 0},
    {502, "<html>\nbad gateway", "", TN_E_PEER, "the API server answered 502: <html> bad gateway",
     0},
    {418, "[]", "", TN_E_INVALID, "the API server answered 418", 0},
};

static void test_refusals(void **state)
{
    for (size_t i = 0; i < TN_COUNT(refusals); i++) {
        tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(4096);
        struct tn_error err = {0};
        double after = -1;
        answer.status = refusals[i].status;
        tn_buf_puts(&answer.body, refusals[i].body);
        tn_buf_puts(&answer.headers, refusals[i].headers);
        assert_int_equal(kube_answer_refused(&answer, &after, &err), -1);
        assert_string_equal(err.text, refusals[i].text);
        assert_int_equal(err.code, refusals[i].code);
        assert_true(after >= refusals[i].after && after <= refusals[i].after);
    }
}

/* --- watches ---------------------------------------------------------------------------------- */

static int note(enum kube_change change, const struct tn_json *object, void *ctx)
{
    const struct tn_json *m = tn_json_get(object, "metadata");

    tn_buf_printf(ctx, "%c%s%s ", "AMDS"[change], tn_json_get_str(m, "name", ""),
                  tn_json_get_str(m, "uid", ""));
    return strcmp(tn_json_get_str(m, "name", ""), "stop") == 0;
}

#define OBJECT(name, uid, version) \
    "{\"metadata\":{\"name\":\"" name "\",\"uid\":\"" uid "\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"

static const struct {
    const char *stream, *expected, *version;
    enum kube_fed fed;
} streams[] = {
    {EVENT("ADDED", OBJECT("b", "2", "11")) EVENT("MODIFIED", OBJECT("a", "1", "12"))
         EVENT("DELETED", OBJECT("a", "1", "13")) EVENT("BOOKMARK", OBJECT("", "", "20")) "\n",
     "Ab2 Ma1 Da1 S ", "20", KUBE_FED},
    {EVENT("ADDED", OBJECT("a", "9", "11")), "Da1 Aa9 ", "11", KUBE_FED},
    {EVENT("ERROR", "{\"kind\":\"Status\",\"code\":410}") EVENT("ADDED", OBJECT("b", "2", "11")),
     "", "10", KUBE_STALE},
    {"nonsense\n", "", "10", KUBE_STALE},
    {EVENT("ADDED", OBJECT("b", "2", "x&y")), "Ab2 ", "10", KUBE_FED},
    {EVENT("ADDED", OBJECT("stop", "", "11")) EVENT("ADDED", OBJECT("b", "2", "12")), "Astop ",
     "11", KUBE_ENOUGH},
};

static void feed_page(struct kube_feed *f, const char *text, bool first)
{
    tn_autojson struct tn_json *page = NULL;

    assert_int_equal(tn_json_parse(text, strlen(text), &page, NULL), 0);
    assert_int_equal(kube_feed_page(f, page, first), KUBE_FED);
}

/* What is told does not depend on where the bytes are cut. */
static void test_streams(void **state)
{
    for (size_t i = 0; i < TN_COUNT(streams); i++) {
        size_t n = strlen(streams[i].stream);
        for (size_t cut = 0; cut <= n; cut++) {
            tn_autobuf struct tn_buf told = TN_BUF_INIT(4096);
            struct kube_feed *f = kube_feed_new(note, &told);
            feed_page(
                f,
                "{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[" OBJECT("a", "1", "5") "]}",
                true);
            assert_string_equal(tn_buf_str(&told), "Aa1 S ");
            tn_buf_reset(&told);
            kube_feed_begin(f);
            enum kube_fed fed = kube_feed_bytes(f, streams[i].stream, cut);
            if (fed == KUBE_FED)
                fed = kube_feed_bytes(f, streams[i].stream + cut, n - cut);
            assert_string_equal(tn_buf_str(&told), streams[i].expected);
            assert_int_equal(fed, streams[i].fed);
            assert_string_equal(kube_feed_version(f), streams[i].version);
            kube_feed_free(f);
        }
    }
}

static void test_lists(void **state)
{
    tn_autobuf struct tn_buf told = TN_BUF_INIT(4096);
    struct kube_feed *f = kube_feed_new(note, &told);

    feed_page(f,
              "{\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"more\"},\"items\":[" OBJECT(
                  "a", "1", "1") "," OBJECT("b", "2", "2") "]}",
              true);
    feed_page(f, "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[" OBJECT("c", "3", "3") "]}",
              false);
    assert_string_equal(tn_buf_str(&told), "Aa1 Ab2 Ac3 S ");
    tn_buf_reset(&told);
    feed_page(f,
              "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[" OBJECT(
                  "b", "2", "8") "," OBJECT("c", "4", "9") "]}",
              true);
    assert_string_equal(tn_buf_str(&told), "Mb2 Dc3 Ac4 Da1 S ");
    assert_string_equal(kube_feed_version(f), "9");
    tn_buf_reset(&told);
    kube_feed_each(f, note, &told);
    assert_string_equal(tn_buf_str(&told), "Ab2 Ac4 ");
    assert_null(kube_feed_get(f, "", "a"));
    tn_autojson struct tn_json *known = kube_feed_get(f, "", "b");
    assert_string_equal(tn_json_get_str(tn_json_get(known, "metadata"), "resourceVersion", ""),
                        "8");
    kube_feed_free(f);
}

/* A line that no object can be is something lost. */
static void test_long_line(void **state)
{
    tn_autobuf struct tn_buf told = TN_BUF_INIT(4096);
    struct kube_feed *f = kube_feed_new(note, &told);
    tn_autofree char *piece = tn_calloc(1, 1 << 20);
    enum kube_fed fed = KUBE_FED;
    int pieces = 0;

    memset(piece, ' ', 1 << 20);
    while (fed == KUBE_FED && ++pieces < 100)
        fed = kube_feed_bytes(f, piece, 1 << 20);
    assert_int_equal(fed, KUBE_STALE);
    assert_true(pieces < 12);
    kube_feed_free(f);
}

/* --- exec ------------------------------------------------------------------------------------- */

static int keep(const void *bytes, size_t n, void *ctx)
{
    return tn_buf_add(ctx, bytes, n) < 0;
}

static const struct {
    const char *message;
    size_t n;
    int result, status;
    const char *out; /* or the error */
} messages[] = {
#define MESSAGE(text) text, sizeof(text) - 1
    {MESSAGE("\1out"), 0, -1, "out"},
    {MESSAGE("\2err"), 0, -1, "err"},
    {MESSAGE("\1"), 0, -1, ""},
    {MESSAGE(""), 0, -1, ""},
    {MESSAGE("\5x"), 0, -1, ""},
    {MESSAGE("\3{\"status\":\"Success\"}"), 1, 0, ""},
    {MESSAGE("\3{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"details\":{\"causes\":[{"
             "\"reason\":\"ExitCode\",\"message\":\"137\"}]}}"),
     1, 137, ""},
    {MESSAGE("\3{\"status\":\"Failure\",\"code\":404,\"message\":\"no such container\"}"), -1, -1,
     "exec: no such container"},
    {MESSAGE("\3{\"status\":\"Failure\",\"details\":{\"causes\":[{\"reason\":\"ExitCode\","
             "\"message\":\"-1\"}]},\"message\":\"odd\"}"),
     -1, -1, "exec: odd"},
    {MESSAGE("\3what"), -1, -1, "exec: its end makes no sense"},
};

static void test_messages(void **state)
{
    for (size_t i = 0; i < TN_COUNT(messages); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
        const struct kube_exec e = {.out = keep, .ctx = &out};
        struct tn_error err = {0};
        int status = -1;
        assert_int_equal(kube_exec_message(&e, messages[i].message, messages[i].n, &status, &err),
                         messages[i].result);
        assert_int_equal(status, messages[i].status);
        assert_string_equal(messages[i].result < 0 ? err.text : tn_buf_str(&out), messages[i].out);
    }
}

/* --- a server that knows us, or not ----------------------------------------------------------- */

struct gatekeeper {
    int listener, port;
    atomic_int status, asked;
    pthread_t thread;
};

static void *keep_gate(void *arg)
{
    struct gatekeeper *g = arg;
    int fd;

    while ((fd = accept(g->listener, NULL, NULL)) >= 0) {
        char in[4096];
        char *out = tn_asprintf("HTTP/1.1 %d x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                                atomic_load(&g->status));
        atomic_fetch_add(&g->asked, 1);
        (void)!recv(fd, in, sizeof in, 0);
        (void)!send(fd, out, strlen(out), MSG_NOSIGNAL);
        free(out);
        close(fd);
    }
    return NULL;
}

static void open_gate(struct gatekeeper *g, int status)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;

    *g = (struct gatekeeper){.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    atomic_store(&g->status, status);
    assert_int_equal(bind(g->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(g->listener, 64), 0);
    assert_int_equal(getsockname(g->listener, (struct sockaddr *)&a, &n), 0);
    g->port = ntohs(a.sin_port);
    assert_int_equal(tn_thread_start(&g->thread, keep_gate, g), 0);
}

static void close_gate(struct gatekeeper *g)
{
    shutdown(g->listener, SHUT_RDWR);
    pthread_join(g->thread, NULL);
    close(g->listener);
}

/* A kubeconfig of it. */
static char *put_gate(const char *name, const struct gatekeeper *g, const char *user)
{
    tn_autofree char *text = tn_asprintf(
        NOW CONTEXT "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:%d'}}]\n%s", g->port,
        user);

    return put(name, text, 0600);
}

/* --- addresses -------------------------------------------------------------------------------- */

static void test_addresses(void **state)
{
    static const char *const wrong[] = {
        "kube:",       "kube:a/b",   "kube:a/b:",    "kube:a/b:1x",     "kube:a/../b:1",
        "kube:a/..:1", "kube:A/b:1", "kube:a/b:1/c", "kube:a/b:123456", "http://a/b:1"};
    struct gatekeeper g;
    open_gate(&g, 404);
    tn_autofree char *path = put_gate("reach", &g, USER("token: t"));
    tn_autofree char *host = tn_asprintf("127.0.0.1:%d", g.port);
    const struct kube_options o = {.config = path};
    struct kube *k = kube_open(&o, NULL);
    struct tn_error err = {0};

    assert_non_null(k);
    tn_autofree char *address = kube_address(k, "ns", "pod-1", 8080);
    assert_null(strstr(address, "token"));
    /* Not refused, refused by the pod alone, refused by the server. */
    for (int i = 0; i < 3; i++) {
        struct kube_door door;
        assert_int_equal(kube_door(address, i > 0, &door, tn_deadline_in(10), &err), 0);
        assert_string_equal(door.host, host);
        assert_string_equal(door.base, "/api/v1/namespaces/ns/pods/pod-1:8080/proxy");
        assert_string_equal(door.headers, i == 2 ? "Authorization: Bearer new\r\n"
                                                 : "Authorization: Bearer t\r\n");
        assert_int_equal(atomic_load(&g.asked), i);
        kube_door_done(&door);
        free(put_gate("reach", &g, USER("token: new")));
        atomic_store(&g.status, i == 1 ? 401 : 404);
    }
    kube_close(k);
    close_gate(&g);
    for (size_t i = 0; i < TN_COUNT(wrong); i++) {
        struct kube_door door;
        assert_int_equal(kube_door(wrong[i], false, &door, tn_deadline_in(10), &err), -1);
        assert_int_equal(err.code, TN_E_INVALID);
    }
}

/* --- many threads ----------------------------------------------------------------------------- */

/* Asks again and again, also for others than it got. */
static void *knock(void *address)
{
    for (int i = 0; i < 300; i++) {
        struct kube_door door;
        struct tn_error err = {0};
        if (kube_door(address, i % 3 == 0, &door, tn_deadline_in(60), &err) < 0)
            return tn_strdup(err.text);
        kube_door_done(&door);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    tn_autofree char *token = put("rotating", "t0", 0600);
    struct gatekeeper g;
    open_gate(&g, 401);
    tn_autofree char *path = put_gate("many", &g, USER("tokenFile: rotating"));
    tn_autofree char *address = tn_asprintf("kube:ns/pod:1?config=%s", path);
    pthread_t threads[8];

    for (size_t i = 0; i < TN_COUNT(threads); i++)
        assert_int_equal(tn_thread_start(&threads[i], knock, address), 0);
    for (int i = 0; i < 50; i++) {
        tn_autofree char *text = tn_asprintf("t%d", i);
        tn_autofree char *fresh = put("rotating.new", text, 0600);
        assert_int_equal(rename(fresh, token), 0);
    }
    for (size_t i = 0; i < TN_COUNT(threads); i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        if (wrong)
            fail_msg("%s", (char *)wrong);
    }
    close_gate(&g);
}

/* A plugin that fails is not run again for every call. */
static void test_failing_plugins(void **state)
{
    tn_autofree char *path =
        put("failing",
            NOW CONTEXT CLUSTER("")
                USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: ./fails}"),
            0600);
    tn_autofree char *log = tn_asprintf("%s/runs", folder);
    tn_autofree char *program = tn_asprintf("#!/bin/sh\necho run >> %s\nexit 1\n", log);
    free(put("fails", program, 0700));
    const struct kube_options o = {.config = path};
    struct kube *k = kube_open(&o, NULL);
    tn_autobuf struct tn_buf runs = TN_BUF_INIT(4096);

    assert_non_null(k);
    int64_t begun = tn_now();
    for (int i = 0; i < 20; i++) {
        struct tn_error err = {0};
        assert_null(kube_seat(k, NULL, tn_deadline_in(60), &err));
        assert_int_equal(err.code, TN_E_DENIED);
    }
    assert_int_equal(tn_fs_read(TN_FS_ANYWHERE, log, &runs, NULL), 0);
    size_t most = 2 + (size_t)((tn_now() - begun) / TN_SECOND); /* on a slow machine */
    assert_in_range(runs.len, strlen("run\n"), most * strlen("run\n"));
    kube_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configs),         cmocka_unit_test(test_large_config),
        cmocka_unit_test(test_plugins),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_streams),         cmocka_unit_test(test_lists),
        cmocka_unit_test(test_long_line),       cmocka_unit_test(test_messages),
        cmocka_unit_test(test_addresses),       cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_failing_plugins),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
