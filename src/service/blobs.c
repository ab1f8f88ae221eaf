#include "service/blobs.h"

#include <dirent.h>
#include <math.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "runtime/database.h"
#include "service/admit.h"
#include "service/clock.h"
#include "service/internal.h"
#include "service/volume.h"

#define DIRECTORY "blobs" /* of the state directory: ID, and ID-part while it is written */
#define STORE_SECONDS 3600.0
#define TENANT_MAX ((int64_t)10 << 30)
enum { MOST = 50000, CREDIT = 1 << 20, LEAST = 4096, PIECE = 64 << 10, PAGE = 256 };

void blob_done(struct blob *b)
{
    free(TN_TAKE_PTR(b->words));
}

static char *path_of(const struct tn_service *s, const char *id, const char *more)
{
    return tn_asprintf("%s/" DIRECTORY "/%s%s", tn_runtime_host(s->rt)->state, id, more);
}

/* Its bytes are free at once, also where somebody still reads or writes them. */
static void drop(const struct tn_service *s, const char *id, const char *more)
{
    tn_autofree char *path = path_of(s, id, more);

    if (truncate(path, 0) == 0 || errno != ENOENT)
        unlink(path);
}

/* --- rows ------------------------------------------------------------------------------------ */

int blob_new(struct tn_service *s, const struct caller *who, struct blob *b, struct tn_error *err)
{
    unsigned char random[(BLOB_ID - 1) / 2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "getrandom");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(b->id + 2 * i, 3, "%02x", random[i]);
    memcpy(b->key, who->key_id, sizeof b->key);
    b->created = service_time();
    int rows = tn_db_run(s->db, err,
                         "INSERT INTO blob (id, tenant, key, owner, name, words, created, expires,"
                         " charge) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?"
                         " WHERE (SELECT count(*) FROM blob WHERE tenant = ?) < ?",
                         "ttttttdditi", b->id, who->tenant, b->key, b->owner, b->name, b->words,
                         b->created, b->expires, LEAST + (int64_t)(b->words ? strlen(b->words) : 0),
                         who->tenant, (int64_t)MOST);
    if (rows == 0)
        tn_fail(err, TN_E_QUOTA, "this tenant has %d files here: delete some", MOST);
    return rows > 0 ? 0 : -1;
}

struct each {
    blob_fn fn;
    void *ctx;
    int rows, result;
    double created; /* of the last, and its id */
    char id[BLOB_ID];
};

static void copy(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
}

static int take_row(const struct tn_db_row *row, void *ctx)
{
    struct each *each = ctx;
    struct blob b = {.words = (char *)(uintptr_t)tn_db_text(row, 4),
                     .state = (enum blob_state)tn_db_int(row, 5),
                     .size = tn_db_int(row, 6),
                     .created = tn_db_double(row, 7),
                     .expires = tn_db_double(row, 8)};

    copy(b.id, sizeof b.id, tn_db_text(row, 0));
    copy(b.key, sizeof b.key, tn_db_text(row, 1));
    copy(b.owner, sizeof b.owner, tn_db_text(row, 2));
    copy(b.name, sizeof b.name, tn_db_text(row, 3));
    each->rows++;
    each->created = b.created;
    memcpy(each->id, b.id, sizeof each->id);
    return each->result = each->fn(&b, each->ctx);
}

#define ROWS                                                                      \
    "SELECT id, key, owner, name, words, state, size, created, expires FROM blob" \
    " WHERE tenant = ? AND owner = ? AND (expires = 0 OR expires > ?)"

int blob_each(struct tn_service *s, const char *tenant, const char *owner, blob_fn fn, void *ctx,
              struct tn_error *err)
{
    struct each each = {.fn = fn, .ctx = ctx, .created = INFINITY};
    int r;

    do {
        each.rows = 0;
        r = tn_db_each(s->db, take_row, &each, err,
                       ROWS " AND created <= ? AND (created < ? OR id > ?)"
                            " ORDER BY created DESC, id LIMIT ?",
                       "ttdddti", tenant, owner, service_time(), each.created, each.created,
                       each.id, (int64_t)PAGE);
    } while (r >= 0 && !each.result && each.rows == PAGE);
    return each.result ? each.result : r < 0 ? -1 : 0;
}

static int take_first(const struct blob *b, void *ctx)
{
    struct blob *out = ctx;

    *out = *b;
    out->words = tn_strdup_or_null(b->words);
    return 1;
}

int blob_find(struct tn_service *s, const char *tenant, const char *owner, const char *id,
              const char *name, struct blob *out, struct tn_error *err)
{
    struct each each = {.fn = take_first, .ctx = out};
    const double now = service_time();
    int found =
        id ? tn_db_each(s->db, take_row, &each, err, ROWS " AND id = ?", "ttdt", tenant, owner, now,
                        id)
           : tn_db_each(s->db, take_row, &each, err, ROWS " AND name = ? ORDER BY created DESC, id",
                        "ttdt", tenant, owner, now, name);

    if (found == 0)
        tn_fail(err, TN_E_NOT_FOUND, "%.100s not found", id ? id : name);
    return found > 0 ? 0 : -1;
}

int blob_seal(struct tn_service *s, const struct blob *b, struct tn_error *err)
{
    int rows = tn_db_run(s->db, err, "UPDATE blob SET state = ? WHERE id = ? AND state >= ?", "iti",
                         (int64_t)BLOB_WHOLE, b->id, (int64_t)BLOB_STORED);

    if (rows == 0)
        tn_fail(err, TN_E_INVALID, "nothing was uploaded");
    return rows > 0 ? 0 : -1;
}

int blob_delete(struct tn_service *s, const struct blob *b, struct tn_error *err)
{
    int rows = tn_db_run(s->db, err, "DELETE FROM blob WHERE id = ? AND state <> ?", "ti", b->id,
                         (int64_t)BLOB_STORING);

    if (rows > 0)
        drop(s, b->id, "");
    if (rows == 0)
        tn_fail(err, TN_E_CONFLICT, "its bytes are being written, or it is gone");
    return rows > 0 ? 0 : -1;
}

int blob_say(struct tn_service *s, const struct blob *b, const char *words, struct tn_error *err)
{
    return tn_db_run(s->db, err, "UPDATE blob SET words = ? WHERE id = ?", "tt", words, b->id) < 0
               ? -1
               : 0;
}

int blob_keep(struct tn_service *s, const struct blob *b, double expires, struct tn_error *err)
{
    return tn_db_run(s->db, err, "UPDATE blob SET expires = ? WHERE id = ?", "dt", expires, b->id) <
                   0
               ? -1
               : 0;
}

static int take_number(const struct tn_db_row *row, void *ctx)
{
    *(int64_t *)ctx = tn_db_int(row, 0);
    return 1;
}

int64_t blobs_charge(struct tn_service *s, const char *tenant)
{
    int64_t bytes = 0;

    tn_db_each(s->db, take_number, &bytes, NULL,
               "SELECT coalesce(sum(charge), 0) FROM blob WHERE tenant = ?", "t", tenant);
    return bytes;
}

/* --- bytes ----------------------------------------------------------------------------------- */

/* So many more; sandboxes and volumes may have a part of what the key allows. */
static int reserve(struct tn_service *s, const struct caller *who, const struct blob *b,
                   int64_t volumes, struct tn_error *err)
{
    int64_t most = who->limits.max_disk;

    most = most > 0 ? most - box_disk_taken(s, who->tenant) - volumes : TENANT_MAX;
    if (most > TENANT_MAX)
        most = TENANT_MAX;
    if (admit_reserve(s, err))
        return -1;
    int rows = tn_db_run(s->db, err,
                         "UPDATE blob SET charge = charge + ? WHERE id = ? AND state = ? AND ? +"
                         " (SELECT sum(charge) FROM blob WHERE tenant = ?) <= ?",
                         "itiiti", (int64_t)CREDIT, b->id, (int64_t)BLOB_STORING, (int64_t)CREDIT,
                         who->tenant, most);
    if (rows == 0)
        tn_fail(err, TN_E_TOO_LARGE,
                "files that this tenant keeps here may have %lld MiB: delete some",
                (long long)(most > 0 ? most >> 20 : 0));
    return rows > 0 ? 0 : -1;
}

static int64_t fill(struct tn_service *s, const struct caller *who, const struct blob *b, int fd,
                    tn_http_source_fn source, void *ctx, struct tn_error *err)
{
    tn_autofree char *piece = tn_malloc(PIECE);
    int64_t deadline = tn_deadline_in(STORE_SECONDS), size = 0;
    const int64_t volumes = who->limits.max_disk > 0 ? volume_charge(s, who->tenant) : 0;
    ssize_t n, credit = CREDIT; /* also for an empty file */

    if (reserve(s, who, b, volumes, err))
        return -1;
    while ((n = source(ctx, piece, PIECE, err)) > 0) {
        if (tn_now() > deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the upload takes too long");
        for (; credit < n; credit += CREDIT)
            if (reserve(s, who, b, volumes, err))
                return -1;
        credit -= n;
        size += n;
        if (tn_fs_write(fd, piece, (size_t)n, err))
            return -1;
    }
    return n < 0 ? -1 : size;
}

static int64_t store(struct tn_service *s, const struct caller *who, const struct blob *b,
                     tn_http_source_fn source, void *ctx, struct tn_error *err)
{
    tn_autofree char *directory = path_of(s, "", ""), *part = path_of(s, b->id, "-part"),
                     *path = path_of(s, b->id, "");
    tn_autofd int parent = tn_fs_mkdirs(TN_FS_ANYWHERE, directory, 0700, NULL, NULL, err);
    tn_autofd int fd =
        parent < 0 ? -1 : tn_fs_open(TN_FS_ANYWHERE, part, O_WRONLY | O_CREAT | O_EXCL, 0600, err);

    if (fd < 0)
        return -1;
    int64_t size = fill(s, who, b, fd, source, ctx, err);
    if (size >= 0 && rename(part, path))
        size = tn_fail_errno(err, errno, "the file");
    if (size < 0)
        drop(s, b->id, "-part");
    return size;
}

int blob_store(struct tn_service *s, const struct caller *who, const struct blob *b,
               tn_http_source_fn source, void *ctx, struct tn_error *err)
{
    int rows = tn_db_run(
        s->db, err, "UPDATE blob SET state = ?, charge = 0 WHERE id = ? AND state IN (?, ?)",
        "itii", (int64_t)BLOB_STORING, b->id, (int64_t)BLOB_OPEN, (int64_t)BLOB_STORED);

    if (rows == 0)
        tn_fail(err, TN_E_CONFLICT, "its bytes are being written, or were");
    if (rows <= 0)
        return -1;
    drop(s, b->id, ""); /* what it had counts no more */
    int64_t size = store(s, who, b, source, ctx, err);
    rows = tn_db_run(s->db, size < 0 ? NULL : err,
                     "UPDATE blob SET state = ?, size = ?, charge = ? WHERE id = ?", "iiit",
                     (int64_t)(size < 0 ? BLOB_OPEN : BLOB_STORED), size < 0 ? 0 : size,
                     (size < 0 ? 0 : size) + LEAST, b->id);
    if (size >= 0 && rows <= 0) /* nobody else has it: it is gone, or stays as it is */
        drop(s, b->id, "");
    if (size >= 0 && rows == 0)
        tn_fail(err, TN_E_GONE, "it was deleted meanwhile");
    return size < 0 || rows <= 0 ? -1 : 0;
}

int blob_open(const struct tn_service *s, const struct blob *b, struct tn_error *err)
{
    tn_autofree char *path = path_of(s, b->id, "");
    int fd = b->state < BLOB_STORED ? -1 : tn_fs_open(TN_FS_ANYWHERE, path, O_RDONLY, 0, NULL);

    return fd >= 0 ? fd : tn_fail(err, TN_E_INVALID, "%.60s was not uploaded", b->name);
}

/* --- after them ------------------------------------------------------------------------------ */

static bool is_known(struct tn_service *s, const char *file, enum blob_state least)
{
    tn_autofree char *id = tn_asprintf("%.*s", BLOB_ID - 1, file);
    int64_t n = 0;

    return tn_db_each(s->db, take_number, &n, NULL,
                      "SELECT 1 FROM blob WHERE id = ? AND state >= ?", "ti", id,
                      (int64_t)least) != 0;
}

/* At the start nobody writes. */
static void sweep(struct tn_service *s, bool start)
{
    const enum blob_state least = start ? BLOB_STORED : BLOB_OPEN;
    tn_autofree char *directory = path_of(s, "", "");
    DIR *d = opendir(directory);

    for (struct dirent *e; d && (e = readdir(d));)
        if (*e->d_name != '.' &&
            ((start && strchr(e->d_name, '-')) || !is_known(s, e->d_name, least)))
            drop(s, e->d_name, "");
    if (d)
        closedir(d);
}

void blobs_sweep(struct tn_service *s)
{
    struct tn_error err = {0};

    if (tn_db_run(s->db, &err, "DELETE FROM blob WHERE expires > 0 AND expires < ? AND state <> ?",
                  "di", service_time(), (int64_t)BLOB_STORING) < 0)
        tn_log(TN_LOG_WARN, "old files stay", tn_log_str("error", err.text));
    sweep(s, false);
}

int blobs_begin(struct tn_service *s, struct tn_error *err)
{
    sweep(s, true);
    return tn_db_run(s->db, err, "UPDATE blob SET state = ?, size = 0, charge = ? WHERE state = ?",
                     "iii", (int64_t)BLOB_OPEN, (int64_t)LEAST, (int64_t)BLOB_STORING) < 0
               ? -1
               : 0;
}
