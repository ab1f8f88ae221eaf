/* Files that clients bring before there is a sandbox, for images and sandboxes.  A file is a blob
 * (blobs.h) by its SHA-256; a mount is a list of names, hashes and modes, itself a blob by the hash
 * of the list.  What nobody has named for a week goes. */
#include "base/base64.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "service/blobs.h"
#include "service/modal/modal.h"

#define FILES "modal-file"
#define MOUNTS "modal-mount"
#define KEEP_SECONDS (7 * 86400.0)
#define LINK_SECONDS 3600
enum { FILES_MOST = 10000, LIST_MAX = 16 << 20, FILE_MAX = 1 << 30, HEX = 2 * TN_SHA256_BYTES };

/* --- files ----------------------------------------------------------------------------------- */

static bool is_hash(const char *text)
{
    return text && strlen(text) == HEX && strspn(text, "0123456789abcdef") == HEX;
}

/* Whether it is there; if so it stays for a while. */
static bool is_here(struct modal_call *c, const char *owner, const char *hash, struct blob *out)
{
    const double until = service_time() + KEEP_SECONDS;

    if (!is_hash(hash) || blob_find(c->s, c->who->tenant, owner, NULL, hash, out, NULL))
        return false;
    if (out->expires < until - KEEP_SECONDS / 2)
        blob_keep(c->s, out, until, NULL);
    return out->state == BLOB_WHOLE;
}

static int new_blob(struct modal_call *c, const char *owner, const char *hash, struct blob *b,
                    struct tn_error *err)
{
    snprintf(b->owner, sizeof b->owner, "%s", owner);
    snprintf(b->name, sizeof b->name, "%s", hash);
    b->expires = service_time() + KEEP_SECONDS;
    return blob_new(c->s, c->who, b, err);
}

struct bytes {
    const unsigned char *at;
    size_t left;
};

static ssize_t read_bytes(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct bytes *b = ctx;

    n = n < b->left ? n : b->left;
    memcpy(to, b->at, n);
    b->at += n;
    b->left -= n;
    return (ssize_t)n;
}

static void hash_of(const void *bytes, size_t n, char out[HEX + 1])
{
    struct tn_sha256 h;

    tn_sha256_init(&h);
    tn_sha256_add(&h, bytes, n);
    tn_sha256_end_hex(&h, out);
}

/* Bytes that are here become a blob by their hash. */
static int keep_bytes(struct modal_call *c, const char *owner, const void *bytes, size_t n,
                      struct blob *b, struct tn_error *err)
{
    struct bytes source = {bytes, n};
    char hash[HEX + 1];

    hash_of(bytes, n, hash);
    if (is_here(c, owner, hash, b))
        return 0;
    blob_done(b);
    *b = (struct blob){0};
    if (new_blob(c, owner, hash, b, err))
        return -1;
    if (blob_store(c->s, c->who, b, read_bytes, &source, err) == 0 && blob_seal(c->s, b, err) == 0)
        return 0;
    blob_delete(c->s, b, NULL);
    return -1;
}

/* Each is looked up in the database that everybody uses. */
static int check_count(size_t n, struct tn_error *err)
{
    return n <= FILES_MOST ? 0
                           : tn_fail(err, TN_E_TOO_LARGE, "at most %d files at once", FILES_MOST);
}

static int check_existence(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Hashes *in = request;
    Modal__Hashes out = MODAL__HASHES__INIT;

    if (check_count(in->n_hashes, err))
        return -1;
    tn_autofree char **missing = tn_calloc(in->n_hashes + 1, sizeof *missing);

    out.hashes = missing;
    for (size_t i = 0; i < in->n_hashes; i++) {
        autoblob struct blob b = {0};
        if (!is_here(c, FILES, in->hashes[i], &b))
            missing[out.n_hashes++] = in->hashes[i];
    }
    return modal_send(c, &out, err);
}

/* With bytes, after an upload, or to ask whether it is there. */
static int put_file(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__MountPutFileRequest *in = request;
    Modal__MountPutFileResponse out = MODAL__MOUNT_PUT_FILE_RESPONSE__INIT;
    autoblob struct blob b = {0};

    if (in->has_data && keep_bytes(c, FILES, in->data.data, in->data.len, &b, err))
        return -1;
    if (in->has_data && strcmp(b.name, in->sha256_hex ? in->sha256_hex : "") != 0)
        return tn_fail(err, TN_E_INVALID, "sha256_hex: the bytes have another one");
    blob_done(&b);
    b = (struct blob){0};
    out.has_exists = true;
    out.exists = is_here(c, FILES, in->sha256_hex, &b);
    if (!out.exists && in->data_blob_id)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no blob %.60s", in->data_blob_id);
    return modal_send(c, &out, err);
}

/* --- uploads --------------------------------------------------------------------------------- */

/* Base64 as hexadecimal digits, so many bytes. */
static int to_hex(const char *base64, size_t bytes, char *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf raw = TN_BUF_INIT(256);

    if (!base64 || tn_base64_decode(&raw, base64, strlen(base64), NULL) || raw.len != bytes)
        return tn_fail(err, TN_E_INVALID, "expected hashes in base64");
    for (size_t i = 0; i < bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned char)raw.data[i]);
    return 0;
}

/* Clients compare the ETag with their own MD5, so what they say of it is told again; that the
 * bytes are right is seen by their SHA-256. */
static int blob_create(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__BlobCreateRequest *in = request;
    Modal__BlobCreateResponse out = MODAL__BLOB_CREATE_RESPONSE__INIT;
    Modal__UploadUrlList urls = MODAL__UPLOAD_URL_LIST__INIT;
    char hash[HEX + 1], md5[33];
    struct blob b = {.words = md5};

    if (in->content_length > FILE_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "files of mounts have at most %d MiB here",
                       FILE_MAX >> 20);
    if (to_hex(in->content_sha256_base64, TN_SHA256_BYTES, hash, err) ||
        to_hex(in->content_md5, 16, md5, err) || new_blob(c, FILES, hash, &b, err))
        return -1;
    tn_autofree char *path = tn_asprintf("/modal/blobs/%s", b.id),
                     *url = surface_link(c->x, c->s, "modal-blob", path, LINK_SECONDS);
    char *id = b.id;
    out.n_blob_ids = urls.n_items = 1;
    out.blob_ids = &id;
    urls.items = &url;
    out.upload_urls = &urls;
    return modal_send(c, &out, err);
}

struct hashed {
    struct tn_http_exchange *x;
    struct tn_sha256 sha;
};

static ssize_t read_hashed(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct hashed *h = ctx;
    ssize_t got = tn_http_read(h->x, to, n, err);

    if (got > 0)
        tn_sha256_add(&h->sha, to, (size_t)got);
    return got;
}

static void put_blob(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    autoblob struct blob b = {0};
    struct hashed source = {.x = x};
    struct tn_error err = {0};
    char hash[HEX + 1], tag[40];

    if (!surface_by_link(x, s, "modal-blob"))
        return;
    tn_sha256_init(&source.sha);
    int failed = blob_find(s, caller_of(x)->tenant, FILES, tn_http_param(x, "id"), NULL, &b, &err);
    failed = failed || blob_store(s, caller_of(x), &b, read_hashed, &source, &err);
    tn_sha256_end_hex(&source.sha, hash);
    if (!failed && strcmp(hash, b.name) != 0) {
        blob_delete(s, &b, NULL);
        failed = tn_fail(&err, TN_E_INVALID, "the bytes have another SHA-256 than was said");
    }
    if (failed || blob_seal(s, &b, &err)) {
        reply_error(x, &err);
        return;
    }
    snprintf(tag, sizeof tag, "\"%.32s\"", b.words);
    tn_http_set_header(x, "ETag", tag);
    tn_http_reply(x, 200, NULL, NULL, 0);
}

/* --- mounts ---------------------------------------------------------------------------------- */

bool modal_is_filename(const char *text)
{
    if (!text || !*text)
        return false;
    for (const char *at = text; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
            return false;
    }
    return true;
}

static int mount_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__MountGetOrCreateRequest *in = request;
    Modal__MountGetOrCreateResponse out = MODAL__MOUNT_GET_OR_CREATE_RESPONSE__INIT;
    Modal__MountHandleMetadata metadata = MODAL__MOUNT_HANDLE_METADATA__INIT;
    tn_autobuf struct tn_buf text = {.max = LIST_MAX, .purse = purse_of(c->x)};
    struct tn_jw w = tn_jw(&text);
    autoblob struct blob b = {0};

    if (in->deployment_name && *in->deployment_name)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no mount '%.60s': none has a name here",
                       in->deployment_name);
    if (check_count(in->n_files, err))
        return -1;
    tn_jw_array(&w);
    for (size_t i = 0; i < in->n_files; i++) {
        const Modal__MountFile *f = in->files[i];
        autoblob struct blob file = {0};
        if (!modal_is_filename(f->filename) || !is_here(c, FILES, f->sha256_hex, &file))
            return tn_fail(err, TN_E_INVALID, "files: %.100s was not uploaded, or is no path",
                           f->filename ? f->filename : "one");
        tn_jw_array(&w);
        tn_jw_str(&w, f->filename);
        tn_jw_str(&w, f->sha256_hex);
        tn_jw_int(&w, f->mode & 0777 ? f->mode & 0777 : 0644);
        tn_jw_array_end(&w);
    }
    tn_jw_array_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "files: too many");
    if (keep_bytes(c, MOUNTS, tn_buf_str(&text), text.len, &b, err))
        return -1;
    tn_autofree char *id = tn_asprintf("mo-%s", b.id);
    metadata.content_checksum_sha256_hex = b.name;
    out.mount_id = id;
    out.handle_metadata = &metadata;
    return modal_send(c, &out, err);
}

int modal_find_mount(struct modal_call *c, const char *id, struct blob *out, struct tn_error *err)
{
    return id && strncmp(id, "mo-", 3) == 0
               ? blob_find(c->s, c->who->tenant, MOUNTS, id + 3, NULL, out, err)
               : tn_fail(err, TN_E_NOT_FOUND, "there is no mount %.60s", id ? id : "");
}

static int write_file(struct modal_call *c, struct tn_hand_files *f, const struct tn_json *row,
                      const char *root, int64_t deadline, struct tn_error *err)
{
    const char *name = tn_json_str(tn_json_at(row, 0), NULL),
               *hash = tn_json_str(tn_json_at(row, 1), NULL);
    autoblob struct blob b = {0};

    if (!name || !is_here(c, FILES, hash, &b))
        return tn_fail(err, TN_E_NOT_FOUND, "a file of the mount is gone: mount it again");
    tn_autofree char *path = tn_asprintf("%s/%s", root, name + (*name == '/'));
    tn_autofd int fd = blob_open(c->s, &b, err);
    return fd < 0 ? -1
                  : tn_hand_files_write(f, path, fd, b.size,
                                        (int)tn_json_int(tn_json_at(row, 2), 0644), NULL, NULL,
                                        deadline, err);
}

int modal_write_mount(struct modal_call *c, struct box *b, const char *id, const char *root,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf text = {.max = LIST_MAX, .purse = purse_of(c->x)};
    tn_autojson struct tn_json *rows = NULL;
    autoblob struct blob mount = {0};
    char piece[16 << 10];
    ssize_t n = -1;

    if (modal_find_mount(c, id, &mount, err))
        return -1;
    tn_autofd int fd = blob_open(c->s, &mount, err);
    while (fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0)
        tn_buf_add(&text, piece, (size_t)n);
    if (fd < 0 || n < 0 || !tn_buf_ok(&text))
        return tn_fail(err, TN_E_BUSY, "the mount cannot be read");
    if (hold_json(c->x, &text, &rows, err))
        return -1;
    tn_autofiles struct tn_hand_files *f = surface_files(c->x, b, err);
    const int64_t deadline = tn_deadline_in(SURFACE_WRITE_SECONDS);
    for (size_t i = 0; f && i < tn_json_count(rows); i++) {
        if (tn_http_peer_gone(c->x))
            return tn_fail(err, TN_E_GONE, "the client has gone");
        if (write_file(c, f, tn_json_at(rows, i), root, deadline, err))
            return -1;
    }
    return f ? 0 : -1;
}

const struct modal_method modal_mounts[] = {
    {"MountBatchedCheckExistence", MODAL_MESSAGE(hashes), check_existence, SCOPE_READ},
    {"MountPutFile", MODAL_MESSAGE(mount_put_file_request), put_file, SCOPE_MANAGE},
    {"MountGetOrCreate", MODAL_MESSAGE(mount_get_or_create_request), mount_get, SCOPE_MANAGE},
    {"BlobCreate", MODAL_MESSAGE(blob_create_request), blob_create, SCOPE_MANAGE},
    {0},
};

const struct tn_route routes_modal_mounts[] = {
    {"PUT", "/modal/blobs/{id}", put_blob, "Modal: bytes of a file, by a link", TN_ROUTE_OPEN},
    {0},
};
