#include "runtime/jail/image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/jail/image-cache.h"
#include "runtime/jail/image-manifest.h"
#include "runtime/jail/unpack.h"

#define DIGEST_CHARS (2 * TN_SHA256_BYTES)
#define ENTRIES_MAX 4000000
#define RECORD_MAX (4u << 20)

static const struct tn_field rows[] = {
    TN_STRINGS("layers", struct jail_image, layers),
    TN_STRINGS("env", struct jail_image, env),
    TN_STRING("workdir", struct jail_image, workdir, .flags = TN_FIELD_NULLABLE),
    TN_STRING("user", struct jail_image, user, .flags = TN_FIELD_NULLABLE),
};
const struct tn_fields jail_image_fields = TN_FIELDS(rows);

/* One file being opened. */
struct opening {
    const struct tn_host *host;
    const char *path, *id;
    int fd;
    bool layout; /* fd is a directory */
    uint64_t size;
    int64_t deadline;
    struct jail_cache cache;
    int percent; /* told last */
};

void jail_image_done(struct jail_image *image)
{
    tn_fields_done(&jail_image_fields, image);
}

char *jail_image_layer_path(const struct tn_host *host, const char *digest)
{
    return tn_asprintf("%s/images/layer-%s", host->state, digest);
}

/* --- the record of a file ------------------------------------------------------------------- */

static char *record_name(const struct stat *st)
{
    return tn_asprintf("image-%llx-%llx-%llx-%llx.%lx-%llx.%lx", (unsigned long long)st->st_dev,
                       (unsigned long long)st->st_ino, (unsigned long long)st->st_size,
                       (unsigned long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
                       (unsigned long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

/* True when the file was unpacked before and all of it is still there. */
static bool record_read(const struct jail_cache *c, const char *name, struct jail_image *out)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(RECORD_MAX);
    tn_autojson struct tn_json *json = NULL;

    tn_fields_defaults(&jail_image_fields, out);
    if (tn_fs_read(c->dir, name, &text, NULL) == 0 &&
        tn_json_parse(tn_buf_str(&text), text.len, &json, NULL) == 0 &&
        tn_fields_from_json(&jail_image_fields, out, json, NULL) == 0 && out->layers.count > 0) {
        size_t i = 0;
        while (i < out->layers.count && jail_cache_has(c, out->layers.items[i]))
            i++;
        if (i == out->layers.count)
            return true;
    }
    jail_image_done(out);
    return false;
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;
    return tn_fs_write(fd, text->data, text->len, err);
}

static int record_write(const struct jail_cache *c, const char *name,
                        const struct jail_image *image, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(RECORD_MAX);
    const struct tn_fs_replace how = {.mode = 0600};
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_fields_to_json(&jail_image_fields, image, &w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the image's settings are too large");
    return tn_fs_replace(c->dir, name, &how, write_text, &text, err);
}

/* --- unpacking ------------------------------------------------------------------------------ */

static void tell(uint64_t read, void *ctx)
{
    struct opening *o = ctx;
    int percent = o->size ? (int)(100.0 * (double)read / (double)o->size) : 100;

    if (percent == o->percent)
        return;
    o->percent = percent;
    tn_autofree char *text = tn_asprintf("unpacking %s: %d%%", o->path, percent);
    o->host->progress(text, o->host->progress_ctx);
}

static int rewind_source(struct opening *o, struct jail_file_source *source, bool progress,
                         struct tn_error *err)
{
    if (lseek(o->fd, 0, SEEK_SET) < 0)
        return tn_fail_errno(err, errno, "rewind");
    source->read = 0;
    source->told = progress && o->host->progress ? tell : NULL;
    source->told_ctx = o;
    return 0;
}

static struct jail_unpack limits(const struct opening *o, int root, bool layer)
{
    struct statvfs fs;
    uint64_t room = UINT64_MAX;

    if (fstatvfs(root, &fs) == 0)
        room = (uint64_t)fs.f_bavail * fs.f_frsize / 10 * 9;
    return (struct jail_unpack){.root = root,
                                .layer = layer,
                                .bytes = room,
                                .entries = ENTRIES_MAX,
                                .deadline = o->deadline};
}

/* Unpacks one tar into a fresh directory and says what its digest is. */
static int unpack_to_temp(struct opening *o, const struct jail_source *source, bool layer,
                          char **temp, char digest[DIGEST_CHARS + 1], struct tn_error *err)
{
    struct tn_sha256 sum;
    tn_sha256_init(&sum);
    jail_autotar struct jail_tar *tar = jail_tar_new(source, &sum, err);
    tn_autofd int root = tar ? jail_cache_make(&o->cache, temp, err) : -1;

    if (root < 0)
        return -1;
    struct jail_unpack how = limits(o, root, layer);
    if (jail_unpack(tar, &how, err) < 0 || jail_tar_finish(tar, err) < 0)
        return -1;
    tn_sha256_end_hex(&sum, digest);
    return 0;
}

/* expected NULL: whatever it is.  The digest of what is now in the cache lands in digest. */
static int unpack_one(struct opening *o, const struct jail_source *source, const char *expected,
                      char digest[DIGEST_CHARS + 1], struct tn_error *err)
{
    tn_autofree char *temp = NULL;
    int r = unpack_to_temp(o, source, expected != NULL, &temp, digest, err);

    if (r == 0 && expected && strcmp(digest, expected) != 0)
        r = tn_fail(err, TN_E_INVALID,
                    "the image is damaged: a layer should have digest %s, not %s", expected,
                    digest);
    if (r == 0)
        r = jail_cache_publish(&o->cache, temp, digest, err);
    if (temp)
        jail_cache_discard(&o->cache, temp);
    return r;
}

/* Every layer whose file is the current entry: the same file may stand for several. */
static int unpack_entry(struct opening *o, struct jail_tar *tar, const char *name,
                        const struct jail_manifest *m, struct tn_error *err)
{
    char digest[DIGEST_CHARS + 1];

    while (strncmp(name, "./", 2) == 0)
        name += 2;
    for (size_t i = 0; i < m->count; i++) {
        if (strcmp(m->layers[i].file, name) != 0 || jail_cache_has(&o->cache, m->layers[i].digest))
            continue;
        struct jail_source source = jail_tar_entry_source(tar);
        if (unpack_one(o, &source, m->layers[i].digest, digest, err) < 0)
            return tn_error_context(err, "layer %zu", i + 1);
        return 0;
    }
    return 0;
}

static int unpack_layers(struct opening *o, const struct jail_manifest *m, struct tn_error *err)
{
    const struct jail_archive_lib *lib = jail_archive_lib(err);
    jail_autofilesource struct jail_file_source source;
    struct archive_entry *entry;
    int r;

    jail_file_source_init(&source, o->fd);
    if (!lib || rewind_source(o, &source, true, err) < 0)
        return -1;
    jail_autotar struct jail_tar *tar = jail_tar_new(&source.source, NULL, err);
    if (!tar)
        return -1;
    while ((r = jail_tar_next(tar, &entry, err)) > 0) {
        const char *name = lib->archive_entry_pathname(entry);
        if (name && unpack_entry(o, tar, name, m, err) < 0)
            return -1;
    }
    for (size_t i = 0; r == 0 && i < m->count; i++)
        if (!jail_cache_has(&o->cache, m->layers[i].digest))
            return tn_fail(err, TN_E_INVALID, "layer %s is not in the file", m->layers[i].file);
    return r;
}

/* --- what kind of file it is ---------------------------------------------------------------- */

static void add(struct tn_str_list *list, const char *text)
{
    list->items = tn_realloc(list->items, (list->count + 2) * sizeof *list->items);
    list->items[list->count++] = tn_strdup(text);
    list->items[list->count] = NULL;
}

static void take_manifest(struct jail_manifest *m, struct jail_image *out)
{
    /* A layer that comes twice counts where it is higher; overlayfs takes it only once. */
    for (size_t i = m->count; i-- > 0;)
        if (!tn_str_list_has(&out->layers, m->layers[i].digest))
            add(&out->layers, m->layers[i].digest);
    for (size_t i = 0; i < m->env.count; i++)
        add(&out->env, m->env.items[i]);
    out->workdir = TN_TAKE_PTR(m->workdir);
    out->user = TN_TAKE_PTR(m->user);
}

/* 1: an image, and its papers are collected; 0: something else, a root then; -1. */
static int collect(struct opening *o, struct jail_papers *papers, struct tn_error *err)
{
    const struct jail_archive_lib *lib = jail_archive_lib(err);
    jail_autofilesource struct jail_file_source source;
    struct archive_entry *first;

    jail_file_source_init(&source, o->fd);
    if (!lib || rewind_source(o, &source, false, err) < 0)
        return -1;
    jail_autotar struct jail_tar *tar = jail_tar_new(&source.source, NULL, err);
    int r = tar ? jail_tar_next(tar, &first, err) : -1;
    if (r < 0)
        return -1;
    const char *name = r > 0 ? lib->archive_entry_pathname(first) : NULL;
    if (!name || !jail_papers_likely(name))
        return 0;
    jail_tar_free(TN_TAKE_PTR(tar));
    if (rewind_source(o, &source, false, err) < 0)
        return -1;
    tar = jail_tar_new(&source.source, NULL, err);
    return !tar || jail_papers_collect(tar, papers, err) < 0 ? -1 : 1;
}

static int unpack_root(struct opening *o, struct jail_image *out, struct tn_error *err)
{
    jail_autofilesource struct jail_file_source source;
    char digest[DIGEST_CHARS + 1];

    jail_file_source_init(&source, o->fd);
    if (rewind_source(o, &source, true, err) < 0 ||
        unpack_one(o, &source.source, NULL, digest, err) < 0)
        return -1;
    add(&out->layers, digest);
    return 0;
}

/* A layer that is a file of a layout. */
static int unpack_blob(struct opening *o, const char *file, const char *expected,
                       struct tn_error *err)
{
    tn_autofd int fd = tn_fs_open(o->fd, file, O_RDONLY | O_NONBLOCK, 0, err);
    jail_autofilesource struct jail_file_source source;
    char digest[DIGEST_CHARS + 1];
    struct stat st = {0};

    jail_file_source_init(&source, fd);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return tn_fail(err, TN_E_INVALID, "%s: expected a regular file, found %s", file,
                       tn_fs_kind(st.st_mode));
    o->size = (uint64_t)st.st_size;
    source.told = o->host->progress ? tell : NULL;
    source.told_ctx = o;
    return unpack_one(o, &source.source, expected, digest, err);
}

static int unpack_blobs(struct opening *o, const struct jail_manifest *m, struct tn_error *err)
{
    for (size_t i = 0; i < m->count; i++)
        if (!jail_cache_has(&o->cache, m->layers[i].digest) &&
            unpack_blob(o, m->layers[i].file, m->layers[i].digest, err) < 0)
            return tn_error_context(err, "layer %zu", i + 1);
    return 0;
}

static int unpack_layout(struct opening *o, struct jail_image *out, struct tn_error *err)
{
    jail_autopapers struct jail_papers papers = {0};
    jail_automanifest struct jail_manifest manifest = {0};

    if (jail_papers_collect_layout(o->fd, &papers, err) < 0)
        return -1;
    int r = jail_manifest_read(&papers, &manifest, err);
    if (r == 0)
        return tn_fail(err, TN_E_INVALID, "index.json of the layout describes no image");
    if (r < 0 || unpack_blobs(o, &manifest, err) < 0)
        return -1;
    take_manifest(&manifest, out);
    return 0;
}

static int unpack_file(struct opening *o, struct jail_image *out, struct tn_error *err)
{
    jail_autopapers struct jail_papers papers = {0};
    jail_automanifest struct jail_manifest manifest = {0};
    int r = collect(o, &papers, err);

    if (r > 0)
        r = jail_manifest_read(&papers, &manifest, err);
    if (r < 0)
        return -1;
    if (r == 0)
        return unpack_root(o, out, err);
    if (unpack_layers(o, &manifest, err) < 0)
        return -1;
    take_manifest(&manifest, out);
    return 0;
}

static int open_locked(struct opening *o, const char *record, struct jail_image *out,
                       struct tn_error *err)
{
    if (record_read(&o->cache, record, out))
        return 0;
    if (jail_cache_lock(&o->cache, record, o->deadline, err) < 0)
        return -1;
    if (record_read(&o->cache, record, out)) /* somebody else has just done it */
        return 0;
    tn_autofree char *what = tn_asprintf("unpacking %s", o->path);
    tn_host_tell(o->host, o->id, TN_RUNTIME_BUILDING_RUNTIME, what);
    tn_fields_defaults(&jail_image_fields, out);
    if ((o->layout ? unpack_layout : unpack_file)(o, out, err) < 0 ||
        record_write(&o->cache, record, out, err) < 0) {
        jail_image_done(out);
        return -1;
    }
    tn_host_tell(o->host, o->id, TN_RUNTIME_STARTING_RUNTIME, "");
    return 0;
}

bool jail_image_is_layout(const char *path)
{
    static const struct {
        const char *name;
        mode_t type;
    } parts[] = {{"oci-layout", S_IFREG}, {"index.json", S_IFREG}, {"blobs", S_IFDIR}};
    struct stat st;

    for (size_t i = 0; i < TN_COUNT(parts); i++) {
        tn_autofree char *part = tn_asprintf("%s/%s", path, parts[i].name);
        if (lstat(part, &st) < 0 || (st.st_mode & S_IFMT) != parts[i].type)
            return false;
    }
    return true;
}

/* What tells one state of the image from another. */
static int look_at(struct opening *o, const char *path, struct stat *st, struct tn_error *err)
{
    if (fstat(o->fd, st) < 0)
        return tn_fail_errno(err, errno, "image %s", path);
    o->layout = S_ISDIR(st->st_mode);
    if (o->layout && fstatat(o->fd, "index.json", st, AT_SYMLINK_NOFOLLOW) < 0)
        return tn_fail_errno(err, errno, "image %s: index.json", path);
    if (!S_ISREG(st->st_mode))
        return tn_fail(err, TN_E_INVALID, "image %s is neither a file nor a directory", path);
    o->size = (uint64_t)st->st_size;
    return 0;
}

int jail_image_open(const struct tn_host *host, const char *path, const char *id,
                    struct jail_image *out, int64_t deadline, struct tn_error *err)
{
    struct opening o = {.host = host, .path = path, .id = id, .deadline = deadline, .percent = -1};
    jail_autocache struct jail_cache cache = JAIL_CACHE_INIT;
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0)
        return tn_fail_errno(err, errno, "image %s", path);
    o.fd = fd;
    if (look_at(&o, path, &st, err) < 0 || jail_cache_open(host->state, &cache, err) < 0)
        return -1;
    o.cache = cache;
    tn_autofree char *record = record_name(&st);
    if (open_locked(&o, record, out, err) < 0)
        return tn_error_context(err, "image %s", path);
    return 0;
}
