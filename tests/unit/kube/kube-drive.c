/* Does with a cluster what its command line says, for tests/kubernetes/test_kube_client.py:
 *
 *     kube-drive call METHOD TARGET [BODY]      the answer
 *     kube-drive calls TARGET                   "ok" for each line of input
 *     kube-drive watch TARGET [NAME]            a line for each change, until NAME changes
 *     kube-drive exec NAMESPACE POD CONTAINER WORD...   standard input is its input, if a file
 *     kube-drive address NAMESPACE POD PORT
 *     kube-drive reach ADDRESS TARGET           the status and body of a pod's answer to $KEY
 *
 * An error is "error CODE: TEXT" and exit status 1. */
#include <sys/stat.h>

#include "base/fs.h"
#include "kube/kube.h"
#include "runtime/hand-address.h"

#define SECONDS 60.0

static int failed(const struct tn_error *err)
{
    printf("error %s: %s\n", tn_code_row(err->code)->name, err->text);
    return 1;
}

static void print_tree(const struct tn_json *tree)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64 << 20);
    struct tn_jw w = tn_jw(&out);

    tn_jw_tree(&w, tree);
    puts(tn_buf_str(&out));
    fflush(stdout);
}

static int call(struct kube *k, char **words)
{
    const struct kube_call c = {
        .method = words[0], .target = words[1], .body = words[2], .hurried = false};
    tn_autojson struct tn_json *answer = NULL;
    struct tn_error err = {0};

    if (kube_call(k, &c, &answer, tn_deadline_in(SECONDS), &err) < 0)
        return failed(&err);
    print_tree(answer);
    return 0;
}

static int calls(struct kube *k, char **words)
{
    const struct kube_call c = {.target = words[0], .hurried = true};
    char line[256];

    while (fgets(line, sizeof line, stdin)) {
        struct tn_error err = {0};
        if (kube_call(k, &c, NULL, tn_deadline_in(SECONDS), &err) < 0)
            failed(&err);
        else
            puts("ok");
        fflush(stdout);
    }
    return 0;
}

static int show_change(enum kube_change change, const struct tn_json *object, void *ctx)
{
    static const char *const words[] = {"added", "modified", "deleted", "synced"};
    const char *name = tn_json_get_str(tn_json_get(object, "metadata"), "name", "");

    printf("%s %s\n", words[change], name);
    fflush(stdout);
    return ctx && strcmp(name, ctx) == 0;
}

static int watch(struct kube *k, char **words)
{
    struct tn_error err = {0};

    return kube_watch(k, words[0], show_change, words[1], 0, tn_deadline_in(2 * SECONDS), &err) < 0
               ? failed(&err)
               : 0;
}

static int print_bytes(const void *bytes, size_t n, void *ctx)
{
    return fwrite(bytes, 1, n, stdout) != n;
}

static int exec(struct kube *k, char **words)
{
    tn_autobuf struct tn_buf input = TN_BUF_INIT(64 << 20);
    struct tn_error err = {0};
    struct stat st;
    int status = -1;

    if (fstat(0, &st) == 0 && S_ISREG(st.st_mode) && tn_fs_read_fd(0, &input, &err) < 0)
        return failed(&err);
    const struct kube_exec e = {.namespace = words[0],
                                .pod = words[1],
                                .container = words[2],
                                .argv = (const char *const *)words + 3,
                                .input = S_ISREG(st.st_mode) ? tn_buf_str(&input) : NULL,
                                .input_len = input.len,
                                .out = print_bytes};
    if (kube_exec(k, &e, &status, tn_deadline_in(SECONDS), &err) < 0)
        return failed(&err);
    printf("\nstatus %d\n", status);
    return 0;
}

static int address(struct kube *k, char **words)
{
    tn_autofree char *text = kube_address(k, words[0], words[1], (int)strtol(words[2], NULL, 10));

    puts(text);
    return 0;
}

/* Its own words have all that is needed: no kubeconfig of the environment. */
static int reach(char **words)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    const struct tn_http_call c = {.target = words[1], .deadline = tn_deadline_in(SECONDS)};
    struct tn_error err = {0};
    struct tn_http_client *http = tn_hand_http(words[0], getenv("KEY"), &err);
    int status = http ? tn_http_client_call(http, &c, &out, &err) : -1;

    tn_http_client_free(http);
    if (status < 0)
        return failed(&err);
    printf("%d %s", status, tn_buf_str(&out));
    return 0;
}

static const struct {
    const char *name;
    int words;
    int (*run)(struct kube *k, char **words);
} verbs[] = {
    {"call", 2, call}, {"calls", 1, calls},     {"watch", 1, watch},
    {"exec", 4, exec}, {"address", 3, address},
};

int main(int argc, char **argv)
{
    const struct kube_options o = {.context = getenv("CONTEXT")};
    struct tn_error err = {0};
    if (argc == 4 && strcmp(argv[1], "reach") == 0)
        return reach(argv + 2);
    struct kube *k = kube_open(&o, &err);
    if (!k)
        return failed(&err);
    int result = 2;
    for (size_t i = 0; i < TN_COUNT(verbs) && argc > 1; i++)
        if (strcmp(verbs[i].name, argv[1]) == 0 && argc >= 2 + verbs[i].words)
            result = verbs[i].run(k, argv + 2);
    kube_close(k);
    return result;
}
