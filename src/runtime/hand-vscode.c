#include "runtime/hand-vscode.h"

#include "base/json.h"
#include "runtime/hand-answer.h"

enum { ANSWER_MAX = 64 << 10 };

void tn_hand_vscode_done(struct tn_hand_vscode *v)
{
    free(v->base);
    free(v->page);
}

/* A path that can be printed as a part of an address, whatever the sandbox answers. */
static bool is_plain(const char *path)
{
    return path && path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-._~/?=&%")] == '\0';
}

static int read_answer(const struct tn_buf *body, struct tn_hand_vscode *out, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;

    if (tn_json_parse(tn_buf_str(body), body->len, &tree, err) < 0)
        return -1;
    int64_t port = tn_json_int(tn_json_get(tree, "port"), 0);
    const char *base = tn_json_get_str(tree, "base", NULL);
    const char *page = tn_json_get_str(tree, "page", NULL);
    if (port < 1 || port > 65535 || !is_plain(base) || !is_plain(page))
        return tn_fail(err, TN_E_PEER, "its answer makes no sense");
    out->port = (int)port;
    out->loopback = tn_json_bool(tn_json_get(tree, "loopback"), true);
    out->base = tn_strdup(base);
    out->page = tn_strdup(page);
    return 0;
}

int tn_hand_vscode_open(const struct tn_hand_address *at, struct tn_hand_vscode *out,
                        int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(ANSWER_MAX);
    const struct tn_buf nothing = TN_BUF_INIT(0);

    if (tn_hand_ask(at, "POST", "/v1/vscode", &nothing, &answer, deadline, err) < 0)
        return -1;
    return read_answer(&answer, out, err) < 0 ? tn_error_context(err, "the hand") : 0;
}
