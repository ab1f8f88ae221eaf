#include "hand/file/zip-write.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/clock.h"
#include "hand/file/confine.h"
#include "hand/file/path.h"
#include "hand/file/zip-format.h"
#include "hand/file/zip-spool.h"

#define PIECE 65536
/* Each level of directories holds one descriptor open. */
#define MAX_DEPTH 256

struct level {
    DIR *dir;
    uint16_t base; /* length of its path */
};

struct tn_zip_plan {
    int root;                       /* what entry names are relative to */
    struct level levels[MAX_DEPTH]; /* of the walk */
    size_t depth;
    struct zip_spool spool;
    uint64_t entries;
    uint64_t data;    /* bytes up to the central directory */
    uint64_t central; /* bytes of it */
    int64_t deadline;
    unsigned looked_at;
    struct zip_entry entry; /* the one at hand; its name is the path of the walk */
};

/* --- planning ------------------------------------------------------------------------------ */

static int add_file(struct tn_zip_plan *p, int dir, const char *name, const struct stat *st,
                    struct tn_error *err)
{
    struct zip_entry *e = &p->entry;

    if (faccessat(dir, name, R_OK, AT_EACCESS))
        return tn_fail_errno(err, errno, "cannot read %s", e->name);
    e->size = (uint64_t)st->st_size;
    e->offset = p->data;
    e->mtime = st->st_mtime;
    e->mode = st->st_mode & 0xffff;
    p->data += zip_local_length(e) + e->size + zip_descriptor_length(e);
    p->central += zip_central_length(e);
    p->entries++;
    return zip_spool_add(&p->spool, e, err);
}

/* Opens the directory `name` in dir as the next level; the entry's name is its path. */
static int descend(struct tn_zip_plan *p, int dir, const char *name, struct tn_error *err)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "cannot read %s", p->entry.name);
    if (p->depth == MAX_DEPTH) {
        tn_close(fd);
        return tn_fail(err, TN_E_INVALID, "more than %d directories deep", MAX_DEPTH);
    }
    if (p->depth > 0 && tn_file_is_kernel(fd)) {
        tn_close(fd);
        return 0;
    }
    DIR *opened = fdopendir(fd);
    if (!opened) {
        tn_close(fd);
        return tn_fail_errno(err, errno, "cannot read %s", p->entry.name);
    }
    p->levels[p->depth++] = (struct level){.dir = opened, .base = p->entry.name_len};
    return 0;
}

static int set_name(struct tn_zip_plan *p, size_t base, const char *name, struct tn_error *err)
{
    size_t room = sizeof p->entry.name - base;
    int n = snprintf(p->entry.name + base, room, "%s%s", base ? "/" : "", name);

    if (n < 0 || (size_t)n >= room)
        return tn_fail_errno(err, ENAMETOOLONG, "%.200s...", p->entry.name);
    p->entry.name_len = (uint16_t)(base + (size_t)n);
    return 0;
}

static int look_at(struct tn_zip_plan *p, int dir, const char *name, struct tn_error *err)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "cannot read %s", p->entry.name);
    if (S_ISDIR(st.st_mode))
        return descend(p, dir, name, err);
    if (S_ISLNK(st.st_mode)) {
        tn_autofd int target = tn_where_openat(p->root, NULL, p->entry.name, O_PATH);
        if (target < 0 || fstat(target, &st) || tn_file_is_kernel(target))
            return 0;
    }
    return S_ISREG(st.st_mode) ? add_file(p, dir, name, &st, err) : 0;
}

static int walk(struct tn_zip_plan *p, struct tn_error *err)
{
    if (descend(p, p->root, ".", err))
        return -1;
    while (p->depth > 0) {
        struct level *level = &p->levels[p->depth - 1];
        const struct dirent *d = readdir(level->dir);
        if (!d) {
            closedir(level->dir);
            p->depth--;
            continue;
        }
        if (++p->looked_at % 256 == 0 && tn_now() > p->deadline)
            return tn_fail(err, TN_E_TIMEOUT, "there are too many files to look at in time");
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (set_name(p, level->base, d->d_name, err) ||
            look_at(p, dirfd(level->dir), d->d_name, err))
            return -1;
    }
    return 0;
}

static int plan_one_file(struct tn_zip_plan *p, const char *path, const struct stat *st,
                         struct tn_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    tn_autofree char *dir = slash ? tn_strndup(path, (size_t)(slash - path) + 1) : tn_strdup(".");

    p->root = tn_where_open(dir, O_RDONLY | O_DIRECTORY, err);
    if (p->root < 0)
        return -1;
    if (strlen(name) >= sizeof p->entry.name)
        return tn_fail_errno(err, ENAMETOOLONG, "%.200s...", path);
    p->entry.name_len = (uint16_t)snprintf(p->entry.name, sizeof p->entry.name, "%s", name);
    return add_file(p, p->root, name, st, err);
}

static int plan(struct tn_zip_plan *p, const char *path, struct tn_error *err)
{
    struct stat st;

    if (tn_where_stat(path, &st, err))
        return -1;
    if (S_ISREG(st.st_mode))
        return plan_one_file(p, path, &st, err);
    p->root = tn_where_open(path, O_RDONLY | O_DIRECTORY, err);
    return p->root < 0 ? -1 : walk(p, err);
}

struct tn_zip_plan *tn_zip_plan_new(const char *path, const char *spool_dir, int64_t deadline,
                                    struct tn_error *err)
{
    struct tn_zip_plan *p = tn_calloc(1, sizeof *p);

    p->root = -1;
    p->deadline = deadline;
    if (zip_spool_init(&p->spool, spool_dir, err) || plan(p, path, err)) {
        tn_zip_plan_free(p);
        return NULL;
    }
    return p;
}

void tn_zip_plan_free(struct tn_zip_plan *p)
{
    if (!p)
        return;
    while (p->depth > 0)
        closedir(p->levels[--p->depth].dir);
    tn_close(p->root);
    zip_spool_done(&p->spool);
    free(p);
}

uint64_t tn_zip_plan_entries(const struct tn_zip_plan *p)
{
    return p->entries;
}

uint64_t tn_zip_plan_length(const struct tn_zip_plan *p)
{
    return p->data + p->central + zip_end_length(p->entries, p->data, p->central);
}

/* --- sending ------------------------------------------------------------------------------- */

struct sending {
    tn_zip_sink_fn sink;
    void *ctx;
    uint64_t sent;
    struct tn_buf piece; /* collects small records */
    char *contents;      /* PIECE bytes */
};

static int send_bytes(struct sending *s, const void *bytes, size_t n, struct tn_error *err)
{
    s->sent += n;
    return n ? s->sink(s->ctx, bytes, n, err) : 0;
}

static int send_piece(struct sending *s, struct tn_error *err)
{
    int r = send_bytes(s, tn_buf_str(&s->piece), s->piece.len, err);
    tn_buf_reset(&s->piece);
    return r;
}

/* Zeros until the archive is that long. */
static int send_filler(struct sending *s, uint64_t until, struct tn_error *err)
{
    memset(s->contents, 0, PIECE);
    while (s->sent < until) {
        uint64_t left = until - s->sent;
        if (send_bytes(s, s->contents, left < PIECE ? (size_t)left : PIECE, err))
            return -1;
    }
    return 0;
}

/* Never blocks on a pipe that has taken the file's place. */
static int open_file(const struct tn_zip_plan *p, const char *name)
{
    tn_autofd int fd = tn_where_openat(p->root, NULL, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return -1;
    return TN_TAKE_FD(fd);
}

static int send_contents(struct sending *s, int fd, struct zip_entry *e, struct tn_error *err)
{
    while (e->sent < e->size) {
        uint64_t left = e->size - e->sent;
        ssize_t n = read(fd, s->contents, left < PIECE ? (size_t)left : PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tn_fail_errno(err, errno, "%s", e->name);
        if (n == 0)
            break;
        e->crc = (uint32_t)crc32(e->crc, (const Bytef *)s->contents, (uInt)n);
        e->sent += (uint64_t)n;
        if (send_bytes(s, s->contents, (size_t)n, err))
            return -1;
    }
    return 0;
}

static int send_entry(struct tn_zip_plan *p, struct sending *s, struct zip_entry *e,
                      struct tn_error *err)
{
    uint64_t end = e->offset + zip_local_length(e) + e->size + zip_descriptor_length(e);
    tn_autofd int fd = open_file(p, e->name);

    e->gone = fd < 0;
    if (!e->gone) {
        zip_put_local(&s->piece, e);
        if (send_piece(s, err) || send_contents(s, fd, e, err))
            return -1;
        zip_put_descriptor(&s->piece, e);
        if (send_piece(s, err))
            return -1;
    }
    return send_filler(s, end, err);
}

static int send_central(struct tn_zip_plan *p, struct sending *s, struct zip_end *end,
                        struct tn_error *err)
{
    int r = 0;

    for (uint64_t at = 0; (r = zip_spool_next(&p->spool, &at, &p->entry, err)) > 0;) {
        if (p->entry.gone)
            continue;
        zip_put_central(&s->piece, &p->entry);
        if (s->piece.len >= PIECE / 2 && send_piece(s, err))
            return -1;
    }
    zip_put_end(&s->piece, end);
    return r || send_piece(s, err) ? -1 : 0;
}

static int send_all(struct tn_zip_plan *p, struct sending *s, struct tn_error *err)
{
    uint64_t missing = 0;
    struct zip_end end = {.wide = zip_end_length(p->entries, p->data, p->central) >
                                  zip_end_length(0, 0, 0)};
    int r = 0;

    for (uint64_t at = 0, start = 0; (r = zip_spool_next(&p->spool, &at, &p->entry, err)) > 0;
         start = at) {
        if (send_entry(p, s, &p->entry, err) || zip_spool_update(&p->spool, start, &p->entry, err))
            return -1;
        end.entries += !p->entry.gone;
        missing += p->entry.gone ? zip_central_length(&p->entry) : 0;
    }
    end.central_offset = p->data + missing;
    end.central = p->central - missing;
    return r || send_filler(s, end.central_offset, err) ? -1 : send_central(p, s, &end, err);
}

int tn_zip_plan_send(struct tn_zip_plan *p, tn_zip_sink_fn sink, void *ctx, struct tn_error *err)
{
    struct sending s = {
        .sink = sink, .ctx = ctx, .piece = TN_BUF_INIT(PIECE), .contents = tn_malloc(PIECE)};
    int r = send_all(p, &s, err);

    tn_buf_done(&s.piece);
    free(s.contents);
    return r;
}
