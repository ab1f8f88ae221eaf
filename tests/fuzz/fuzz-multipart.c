/* A multipart body with the boundary XX.  The first byte is the size of the pieces it comes in;
 * what is read must not depend on it. */
#include <assert.h>
#include <stdint.h>

#include "net/multipart.h"

struct pieces {
    const char *bytes;
    size_t left, step;
};

static ssize_t next_piece(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct pieces *p = ctx;

    n = n < p->step ? n : p->step;
    n = n < p->left ? n : p->left;
    memcpy(to, p->bytes, n);
    p->bytes += n;
    p->left -= n;
    return (ssize_t)n;
}

/* Everything that can be read, in one buffer; how it ended. */
static int read_form(const char *type, struct pieces p, size_t step, struct tn_buf *out)
{
    const struct tn_part *part;
    struct tn_error err;
    char block[100];
    ssize_t n = 0;
    int more = 0;

    struct tn_multipart *m = tn_multipart_new(type, next_piece, &p, &err);
    if (!m)
        return -2;
    while (n >= 0 && (more = tn_multipart_next(m, &part, &err)) > 0) {
        assert(part->name);
        tn_buf_printf(out, "<%s|%s|%s>", part->name, part->filename ? part->filename : "-",
                      part->type ? part->type : "-");
        while ((n = tn_multipart_read(m, block, step, &err)) > 0)
            tn_buf_add(out, block, (size_t)n);
    }
    tn_multipart_free(m);
    return n < 0 ? -1 : more;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 100000)
        return 0;
    tn_autofree char *bytes = tn_malloc(size - 1);
    tn_autobuf struct tn_buf a = TN_BUF_INIT(1 << 20), b = TN_BUF_INIT(1 << 20),
                             c = TN_BUF_INIT(1 << 20);
    size_t step = data[0] ? data[0] : 1;

    memcpy(bytes, data + 1, size - 1);
    struct pieces whole = {.bytes = bytes, .left = size - 1, .step = SIZE_MAX};
    struct pieces cut = {.bytes = bytes, .left = size - 1, .step = step};
    int r = read_form("multipart/form-data; boundary=XX", whole, 100, &a);
    assert(r == read_form("multipart/form-data; boundary=XX", cut, step % 100 + 1, &b));
    if (r == 0) {
        assert(a.len == b.len);
        assert(memcmp(tn_buf_str(&a), tn_buf_str(&b), a.len) == 0);
    }
    /* the input as a content type */
    tn_autofree char *type = tn_malloc(size + 20);
    snprintf(type, size + 20, "multipart/form-data%.*s", (int)(size - 1), bytes);
    read_form(type, cut, 100, &c);
    return 0;
}
