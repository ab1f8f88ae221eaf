/* What a cluster and its users write.  The first byte chooses: a kubeconfig; a Status, as the end
 * of an exec and as a refusal; a stream of a watch, of which what is told must not depend on the
 * size of its pieces, and no version may be more than a number. */
#include <fcntl.h>
#include <stdint.h>

#include "base/fs.h"
#include "kube/kube-impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_config(const char *text, size_t n)
{
    char path[] = "/tmp/fuzz-kube-XXXXXX";
    tn_autofd int fd = mkostemp(path, O_CLOEXEC);
    const struct kube_options o = {.config = path};
    struct tn_error err = {0};

    if (fd < 0 || tn_fs_write(fd, text, n, NULL) < 0)
        abort();
    struct kube_access *a = kube_access_read(&o, &err);
    if (!a && !*err.text)
        abort();
    if (a && ((a->token && strpbrk(a->token, " \r\n")) || strpbrk(a->server, " \r\n@")))
        abort();
    kube_access_free(a);
    unlink(path);
}

static void read_status(const char *text, size_t n)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(1 << 20);
    tn_autobuf struct tn_buf message = TN_BUF_INIT(1 << 20);
    const struct kube_exec e = {0};
    struct tn_error err = {0};
    int status = 0;

    tn_buf_putc(&message, 3);
    tn_buf_add(&message, text, n);
    if (kube_exec_message(&e, tn_buf_str(&message), message.len, &status, &err) > 0 &&
        (status < 0 || status > 99999))
        abort();
    answer.status = n ? 400 + text[0] % 200 : 500;
    tn_buf_add(&answer.body, text, n);
    kube_answer_refused(&answer, NULL, &err);
    if (!*err.text || strpbrk(err.text, "\r\n\033"))
        abort();
}

static int note(enum kube_change change, const struct tn_json *object, void *ctx)
{
    struct tn_jw w = tn_jw(ctx);

    tn_buf_printf(ctx, "%d", (int)change);
    tn_jw_tree(&w, object);
    return 0;
}

static enum kube_fed feed(const char *text, size_t n, size_t step, struct tn_buf *told)
{
    struct kube_feed *f = kube_feed_new(note, told);
    enum kube_fed fed = KUBE_FED;

    kube_feed_begin(f);
    for (size_t at = 0; at < n && fed == KUBE_FED; at += step)
        fed = kube_feed_bytes(f, text + at, n - at < step ? n - at : step);
    if (strspn(kube_feed_version(f), "0123456789") != strlen(kube_feed_version(f)))
        abort();
    kube_feed_free(f);
    return fed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;

    if (size < 2)
        return 0;
    if (data[0] == 'c') {
        read_config(text, size - 1);
    } else if (data[0] == 's') {
        read_status(text, size - 1);
    } else {
        tn_autobuf struct tn_buf whole = TN_BUF_INIT(16 << 20), pieces = TN_BUF_INIT(16 << 20);
        if (feed(text, size - 1, size, &whole) != feed(text, size - 1, 1 + data[0] % 7, &pieces) ||
            whole.len != pieces.len || memcmp(tn_buf_str(&whole), tn_buf_str(&pieces), whole.len))
            abort();
    }
    return 0;
}
