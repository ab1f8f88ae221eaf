#include "image/upload.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "image/context.h"

enum {
    BLOCK = 512,
    NAME = 100,
    SIZE_AT = 124,
    SIZE_BYTES = 12,
    TYPE_AT = 156,
    EXTRA_MAX = 1 << 20,
    LOOK = 1 << 20 /* bytes between two looks at the clock */
};
#define TOTAL_MAX (INT64_C(16) << 30) /* a gzip of nothing but zeros is a thousandth of that */

struct tn_upload {
    gzFile file;
    struct tn_context *tail; /* the Dockerfile and the end of the tar; NULL: only looked for */
    struct tn_buf *found;    /* where it goes then */
    bool has_found;
    char block[BLOCK];
    size_t sent;   /* of the block */
    uint64_t left; /* bytes of the entry that has begun */
    int64_t total; /* of everything so far */
    int64_t deadline;
    char type;           /* of that entry */
    bool is_dockerfile;  /* it is */
    bool renamed;        /* the next entry has a longer name than its header says */
    bool ended;          /* the tail follows */
    struct tn_buf extra; /* of a header that says more of the next one */
};

struct tn_upload *tn_upload_new(int fd, const char *dockerfile, struct tn_error *err)
{
    struct tn_upload *u = tn_calloc(1, sizeof *u);
    int own = lseek(fd, 0, SEEK_SET) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;

    u->sent = BLOCK;
    u->deadline = TN_NEVER;
    tn_buf_init(&u->extra, EXTRA_MAX);
    u->file = own < 0 ? NULL : gzdopen(own, "rb");
    if (!u->file) {
        tn_fail_errno(err, errno, "the build context");
        if (own >= 0)
            close(own);
    } else if (!dockerfile || (u->tail = tn_context_new(dockerfile, NULL, err))) {
        return u;
    }
    tn_upload_free(u);
    return NULL;
}

void tn_upload_free(struct tn_upload *u)
{
    if (!u)
        return;
    if (u->file)
        gzclose(u->file);
    tn_context_free(u->tail);
    tn_buf_done(&u->extra);
    free(u);
}

static int refuse(struct tn_error *err, const char *why)
{
    return tn_fail(err, TN_E_INVALID, "context: %s", why);
}

/* --- entries --------------------------------------------------------------------------------- */

static bool is_zero(const char block[BLOCK])
{
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

/* Octal digits and nothing that one reader takes for a number and another does not. */
static int read_size(const char *field, uint64_t *out)
{
    size_t i = 0, digits = 0;

    for (*out = 0; i < SIZE_BYTES && field[i] == ' '; i++)
        ;
    for (; i < SIZE_BYTES && field[i] >= '0' && field[i] <= '7'; i++, digits++)
        *out = *out * 8 + (uint64_t)(field[i] - '0');
    while (i < SIZE_BYTES && (field[i] == ' ' || !field[i]))
        i++;
    return digits && i == SIZE_BYTES ? 0 : -1;
}

/* A header that says something of what follows it. */
static bool is_extra(char type)
{
    return type && strchr("xgLK", type);
}

static int begin_entry(struct tn_upload *u, struct tn_error *err)
{
    const char *name = u->block;

    u->type = u->block[TYPE_AT];
    if (!u->type || !strchr("0125xgLK", u->type))
        return refuse(err, "it has entries that are neither files, directories nor links");
    if (read_size(u->block + SIZE_AT, &u->left) ||
        (u->left && u->type != '0' && !is_extra(u->type)))
        return refuse(err, "the size of an entry cannot be read");
    while (strncmp(name, "./", 2) == 0)
        name += 2;
    u->is_dockerfile = u->found && u->type == '0' && !u->renamed &&
                       strnlen(name, NAME) == strlen("Dockerfile") &&
                       strncmp(name, "Dockerfile", strlen("Dockerfile")) == 0;
    if (u->is_dockerfile) {
        tn_buf_reset(u->found);
        u->has_found = true;
    }
    if (strchr("0125", u->type))
        u->renamed = false;
    tn_buf_reset(&u->extra);
    return 0;
}

/* What a header says of the next one may not say how long that is, and of all that follow, to which
 * the tail belongs, not what they are called. */
static int check_extra(struct tn_upload *u, struct tn_error *err)
{
    tn_buf_putc(&u->extra, '\0');
    if (!tn_buf_ok(&u->extra))
        return refuse(err, "the header of an entry is too long");
    if (memmem(u->extra.data, u->extra.len, " size=", 6) ||
        memmem(u->extra.data, u->extra.len, " GNU.sparse", 11))
        return refuse(err, "it has an entry with holes, or of more than 8 GiB");
    if (u->type == 'g' && memmem(u->extra.data, u->extra.len, " path=", 6))
        return refuse(err, "it has one name for all entries");
    u->renamed |=
        u->type == 'L' || (u->type == 'x' && memmem(u->extra.data, u->extra.len, " path=", 6));
    return 0;
}

static int go_on(struct tn_upload *u, struct tn_error *err)
{
    size_t n = u->left < BLOCK ? (size_t)u->left : BLOCK;

    u->left -= n;
    if (u->is_dockerfile)
        tn_buf_add(u->found, u->block, n);
    if (u->type == '0')
        return 0;
    tn_buf_add(&u->extra, u->block, n);
    return u->left ? 0 : check_extra(u, err);
}

/* The next block, or the end. */
static int advance(struct tn_upload *u, struct tn_error *err)
{
    int n = gzread(u->file, u->block, BLOCK);

    if (n < 0)
        return refuse(err, "this is no gzip'ed tar");
    if (n && n < BLOCK)
        return refuse(err, "it is cut short");
    u->sent = 0;
    u->total += n;
    if (u->total > TOTAL_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "context: it is too large");
    if (u->total % LOOK == 0 && u->deadline != TN_NEVER && tn_now() >= u->deadline)
        return tn_fail(err, TN_E_TOO_LARGE, "context: it takes too long to be read through");
    if (u->left && n)
        return go_on(u, err);
    if (u->left)
        return refuse(err, "it is cut short");
    if (n && !is_zero(u->block))
        return begin_entry(u, err);
    if (is_extra(u->type)) /* it would be said of the tail */
        return refuse(err, "its last header has no entry");
    u->ended = true;
    u->sent = BLOCK;
    return 0;
}

/* --- reading --------------------------------------------------------------------------------- */

ssize_t tn_upload_read(void *to, size_t n, void *ctx, struct tn_error *err)
{
    struct tn_upload *u = ctx;

    if (u->sent == BLOCK && !u->ended && advance(u, err))
        return -1;
    if (u->ended)
        return u->tail ? tn_context_read(to, n, u->tail, err) : 0;
    n = n < BLOCK - u->sent ? n : BLOCK - u->sent;
    memcpy(to, u->block + u->sent, n);
    u->sent += n;
    return (ssize_t)n;
}

int tn_upload_dockerfile(int fd, struct tn_buf *out, int64_t deadline, struct tn_error *err)
{
    struct tn_upload *u = tn_upload_new(fd, NULL, err);
    char bytes[BLOCK];
    ssize_t n = -1;

    if (u) {
        u->found = out;
        u->deadline = deadline;
        while ((n = tn_upload_read(bytes, sizeof bytes, u, err)) > 0)
            ;
        if (n == 0 && !u->has_found)
            n = refuse(err, "there is no file Dockerfile at its top");
        else if (n == 0 && (!tn_buf_ok(out) || memchr(out->len ? out->data : "", '\0', out->len)))
            n = refuse(err, "its Dockerfile is too large, or no text");
    }
    tn_upload_free(u);
    return n < 0 ? -1 : 0;
}
