#include "image/context.h"

#include "base/buf.h"
#include "base/fs.h"
#include "image/walk.h"

#define BLOCK 512

struct tn_context {
    char *dockerfile;
    char *directory; /* or NULL */
    struct tn_walk walk;

    struct tn_buf pending; /* headers and padding to be sent */
    size_t sent;           /* of pending */
    int file;              /* whose content follows, or -1 */
    uint64_t left;         /* of it */
    uint64_t size;         /* of all of it */
    bool ended;
};

struct tn_context *tn_context_new(const char *dockerfile, const char *directory,
                                  struct tn_error *err)
{
    struct tn_context *c = tn_calloc(1, sizeof *c);

    c->dockerfile = tn_strdup(dockerfile);
    c->directory = tn_strdup_or_null(directory);
    c->file = c->walk.file = c->walk.depth = -1;
    tn_buf_init(&c->pending, 1 << 20);
    if (!tn_context_rewind(c, err))
        return c;
    tn_context_free(c);
    return NULL;
}

static void close_all(struct tn_context *c)
{
    tn_walk_done(&c->walk);
    tn_close(TN_TAKE_FD(c->file));
}

void tn_context_free(struct tn_context *c)
{
    if (!c)
        return;
    close_all(c);
    tn_buf_done(&c->pending);
    free(c->dockerfile);
    free(c->directory);
    free(c);
}

/* --- headers
 * -------------------------------------------------------------------------------------- */

static void put_octal(char *to, size_t size, uint64_t value)
{
    to[--size] = '\0';
    while (size > 0) {
        to[--size] = (char)('0' + (value & 7));
        value >>= 3;
    }
}

static void put_header(struct tn_buf *out, const char *name, char type, mode_t mode, uint64_t size,
                       time_t mtime, const char *link)
{
    char h[BLOCK] = {0};
    unsigned sum = 0;

    memcpy(h, name, strnlen(name, 100));
    put_octal(h + 100, 8, mode & 07777);
    put_octal(h + 108, 8, 0);
    put_octal(h + 116, 8, 0);
    put_octal(h + 124, 12, size);
    put_octal(h + 136, 12, mtime > 0 ? (uint64_t)mtime : 0);
    memset(h + 148, ' ', 8);
    h[156] = type;
    if (link)
        memcpy(h + 157, link, strnlen(link, 100));
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    put_octal(h + 148, 7, sum);
    tn_buf_add(out, h, sizeof h);
}

static void pad(struct tn_buf *out, uint64_t size)
{
    static const char zeros[BLOCK];

    tn_buf_add(out, zeros, (BLOCK - size % BLOCK) % BLOCK);
}

static size_t digits(size_t number)
{
    return (size_t)snprintf(NULL, 0, "%zu", number);
}

/* "LENGTH key=value\n", where LENGTH counts itself. */
static void put_pax(struct tn_buf *out, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, length = 0;

    for (size_t guess = rest; length != guess; guess = rest + digits(length))
        length = guess;
    tn_buf_printf(out, "%zu %s=%s\n", length, key, value);
}

/* A header, with one before it for what does not fit. */
static void put_entry(struct tn_context *c, const char *name, char type, const struct stat *st,
                      const char *link)
{
    tn_autobuf struct tn_buf pax = TN_BUF_INIT(3 * TN_WALK_PATH);
    uint64_t size = type == '0' ? (uint64_t)st->st_size : 0;

    if (strlen(name) > 100)
        put_pax(&pax, "path", name);
    if (link && strlen(link) > 100)
        put_pax(&pax, "linkpath", link);
    if (size >= UINT64_C(1) << 33) {
        char text[32];
        snprintf(text, sizeof text, "%llu", (unsigned long long)size);
        put_pax(&pax, "size", text);
    }
    if (pax.len) {
        put_header(&c->pending, "././@PaxHeader", 'x', 0644, pax.len, 0, NULL);
        tn_buf_add(&c->pending, pax.data, pax.len);
        pad(&c->pending, pax.len);
    }
    put_header(&c->pending, name, type, st->st_mode, size, st->st_mtime, link);
}

static void put_dockerfile(struct tn_context *c)
{
    size_t n = strlen(c->dockerfile);

    put_header(&c->pending, "Dockerfile", '0', 0644, n, 0, NULL);
    tn_buf_add(&c->pending, c->dockerfile, n);
    pad(&c->pending, n);
}

/* --- the walk
 * -------------------------------------------------------------------------------------- */

int tn_context_rewind(struct tn_context *c, struct tn_error *err)
{
    close_all(c);
    tn_buf_reset(&c->pending);
    c->sent = 0;
    c->left = c->size = 0;
    c->ended = false;
    put_dockerfile(c);
    return tn_walk_init(&c->walk, c->directory, err);
}

/* The next entry's header to pending, or the end marker. */
static int advance(struct tn_context *c, struct tn_error *err)
{
    static const char end[2 * BLOCK],
        types[] = {[TN_WALK_FILE] = '0', [TN_WALK_LINK] = '2', [TN_WALK_DIRECTORY] = '5'};
    struct tn_walk *w = &c->walk;
    int kind;

    do
        kind = tn_walk_next(w, err);
    while (kind == TN_WALK_LEFT);
    if (kind < 0)
        return -1;
    if (kind == TN_WALK_END) {
        tn_buf_add(&c->pending, end, sizeof end);
        c->ended = true;
        return 0;
    }
    tn_autofree char *name = tn_asprintf("%s%s", w->path, kind == TN_WALK_DIRECTORY ? "/" : "");
    put_entry(c, name, types[kind], &w->st, kind == TN_WALK_LINK ? w->target : NULL);
    if (kind == TN_WALK_FILE) {
        c->left = c->size = (uint64_t)w->st.st_size;
        c->file = TN_TAKE_FD(w->file);
    }
    return 0;
}

/* --- reading
 * --------------------------------------------------------------------------------------- */

/* A file that shrank meanwhile is filled up with zeros: its size is sent already. */
static ssize_t read_file(struct tn_context *c, void *to, size_t n, struct tn_error *err)
{
    ssize_t got = read(c->file, to, n < c->left ? n : (size_t)c->left);

    if (got < 0)
        return tn_fail_errno(err, errno, "build context %s", c->walk.path);
    if (got == 0) {
        got = (ssize_t)(n < c->left ? n : c->left);
        memset(to, 0, (size_t)got);
    }
    c->left -= (uint64_t)got;
    return got;
}

ssize_t tn_context_read(void *to, size_t n, void *ctx, struct tn_error *err)
{
    struct tn_context *c = ctx;

    for (;;) {
        if (c->sent < c->pending.len) {
            size_t take = c->pending.len - c->sent < n ? c->pending.len - c->sent : n;
            memcpy(to, c->pending.data + c->sent, take);
            c->sent += take;
            return (ssize_t)take;
        }
        if (c->left)
            return read_file(c, to, n, err);
        tn_buf_reset(&c->pending);
        c->sent = 0;
        if (c->file >= 0) {
            tn_close(TN_TAKE_FD(c->file));
            pad(&c->pending, c->size);
            if (c->pending.len)
                continue;
        }
        if (c->ended)
            return 0;
        if (advance(c, err))
            return -1;
    }
}
