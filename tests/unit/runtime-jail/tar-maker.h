/* Tars made byte by byte, so that they can be as wicked as a test needs them. */
#ifndef TN_TESTS_TAR_MAKER_H
#define TN_TESTS_TAR_MAKER_H

#include "base/buf.h"
#include "runtime/jail/tar-stream.h"

struct made_entry {
    const char *name;
    char type; /* '0' file, '1' hard link, '2' symbolic link, '3' character device, '5' directory */
    const char *link;
    const void *content;
    size_t length;
    unsigned mode, uid, gid;
};

/* A number of a header: octal digits, a NUL at the end. */
static inline void tar_number(char *field, size_t width, uint64_t value)
{
    for (size_t i = width - 1; i-- > 0; value >>= 3)
        field[i] = (char)('0' + (value & 7));
}

static inline void tar_add(struct tn_buf *tar, struct made_entry e)
{
    char h[512] = {0};
    unsigned sum = 0;
    size_t name = strlen(e.name);

    memcpy(h, e.name, name < 100 ? name : 100);
    tar_number(h + 100, 8, e.mode ? e.mode : 0644);
    tar_number(h + 108, 8, e.uid);
    tar_number(h + 116, 8, e.gid);
    tar_number(h + 124, 12, e.length);
    tar_number(h + 136, 12, 1000000000);
    memset(h + 148, ' ', 8);
    h[156] = e.type ? e.type : '0';
    if (e.link)
        memcpy(h + 157, e.link, strlen(e.link) < 100 ? strlen(e.link) : 100);
    memcpy(h + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    tar_number(h + 148, 7, sum);
    tn_buf_add(tar, h, sizeof h);
    tn_buf_add(tar, e.content ? e.content : "", e.length);
    static const char zeros[512];
    tn_buf_add(tar, zeros, (512 - e.length % 512) % 512);
}

static inline void tar_text(struct tn_buf *tar, const char *name, const char *text)
{
    tar_add(tar, (struct made_entry){.name = name, .content = text, .length = strlen(text)});
}

static inline void tar_end(struct tn_buf *tar)
{
    static const char zeros[1024];
    tn_buf_add(tar, zeros, sizeof zeros);
}

/* A buffer as a source, in pieces of an odd size. */
struct made_source {
    struct jail_source source;
    const struct tn_buf *tar;
    size_t at;
};

static ssize_t made_next(void *ctx, const void **bytes, struct tn_error *err)
{
    struct made_source *m = ctx;
    size_t n = m->tar->len - m->at < 777 ? m->tar->len - m->at : 777;

    *bytes = m->tar->data + m->at;
    m->at += n;
    return (ssize_t)n;
}

static inline void made_init(struct made_source *m, const struct tn_buf *tar)
{
    *m = (struct made_source){.source = {.next = made_next, .ctx = m}, .tar = tar};
}

#endif
