/* Images of the runtime API: where they are, whether they are there, and building them.
 *
 * Where the runtime takes images by name they are built and looked for in its engine.  Where it
 * does not, every name stands for the runtime's own root, so that every image is there already; so
 * does a name of ours for a cluster, which pulls any other. */
#include <time.h>

#include "base/base64.h"
#include "base/fs.h"
#include "engine/engine.h"
#include "image/upload.h"
#include "net/multipart.h"
#include "service/builds.h"
#include "service/dockerfile.h"
#include "service/openhands.h"

#define ENGINE_SECONDS 30.0
#define CHECK_SECONDS 60.0 /* for a context, which is unpacked for it */
/* A client that hears of a limit comes back after so many seconds. */
#define RETRY_SECONDS "30"

enum { CONTEXT_MAX = 1 << 30, NAME_MAX_BYTES = 512, TAGS_MAX = 32, PIECE = 48 << 10 };

static bool takes_images(const struct tn_service *s)
{
    return openhands_takes_images(s, NULL);
}

/* --- looking ------------------------------------------------------------------------------- */

static void handle_prefix(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_autofree char *prefix = openhands_registry_prefix(ctx, caller_of(x)->tenant);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "registry_prefix", prefix);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* 1 with the engine's description, 0, or -1. */
static int look_for(struct tn_service *s, const char *image, struct tn_json **out,
                    struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(ENGINE_SECONDS);
    tn_autoengine struct tn_engine *engine = builds_engine(s, deadline, err);

    if (!engine)
        return -1;
    if (!tn_engine_image(engine, image, out, deadline, err))
        return 1;
    return err->code == TN_E_NOT_FOUND ? 0 : -1;
}

static void handle_exists(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    tn_autojson struct tn_json *found = NULL;
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    struct tn_service *s = ctx;
    int exists = 1;

    if (!caller_may(x, SCOPE_READ))
        return;
    const char *name = tn_http_query(x, "image");
    if (!name || !*name || strlen(name) > NAME_MAX_BYTES) {
        native_refuse(x, TN_E_UNPROCESSABLE, "image: expected the name of an image");
        return;
    }
    tn_autofree char *image = openhands_image(s, caller_of(x)->tenant, name, &err);
    if (!image && err.code != TN_E_NOT_FOUND) {
        reply_error(x, &err);
        return;
    }
    if (!image)
        exists = 0;
    else if (takes_images(s) && !openhands_pulls_images(s, NULL))
        exists = look_for(s, image, &found, &err);
    if (exists < 0) {
        reply_error(x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kbool(&w, "exists", exists);
    tn_jw_key(&w, "image");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "upload_time", tn_json_get_str(found, "Created", NULL));
    tn_jw_kint(&w, "image_size_bytes", tn_json_int(tn_json_get(found, "Size"), 0));
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- building ------------------------------------------------------------------------------ */

static ssize_t read_body(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_http_read(ctx, to, n, err);
}

/* Base64 text of a part into the file, piece by piece; line breaks are let pass. */
static int store_context(struct tn_multipart *m, int fd, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(2 * PIECE), bytes = TN_BUF_INIT(2 * PIECE);
    int64_t size = 0;
    bool ended = false;
    ssize_t n;

    do {
        char *to = tn_buf_reserve(&text, PIECE);
        n = tn_multipart_read(m, to, PIECE, err);
        if (n < 0)
            return -1;
        size_t kept = 0;
        for (ssize_t i = 0; i < n; i++)
            if (to[i] != '\n' && to[i] != '\r')
                to[kept++] = to[i];
        tn_buf_grew(&text, kept);
        size_t whole = n ? text.len / 4 * 4 : text.len;
        if (!whole)
            continue;
        tn_buf_reset(&bytes);
        if (ended)
            return tn_fail(err, TN_E_INVALID, "context: there is something after its end");
        if (tn_base64_decode(&bytes, text.data, whole, err))
            return tn_error_context(err, "context");
        ended = text.data[whole - 1] == '=';
        tn_buf_eat(&text, whole);
        size += (int64_t)bytes.len;
        if (size > CONTEXT_MAX)
            return tn_fail(err, TN_E_TOO_LARGE, "context: expected at most %d bytes", CONTEXT_MAX);
        if (tn_fs_write(fd, bytes.data, bytes.len, err))
            return -1;
    } while (n > 0);
    return 0;
}

/* The text of a part, as one more tag. */
static int add_tag(struct tn_multipart *m, struct tn_str_list *tags, bool first,
                   struct tn_error *err)
{
    char text[NAME_MAX_BYTES + 1];
    size_t len = 0;
    ssize_t n;

    if (tags->count == TAGS_MAX)
        return tn_fail(err, TN_E_UNPROCESSABLE, "tags: expected at most %d", TAGS_MAX - 1);
    while ((n = tn_multipart_read(m, text + len, sizeof text - len, err)) > 0)
        if ((len += (size_t)n) == sizeof text)
            return tn_fail(err, TN_E_UNPROCESSABLE, "the name of an image is too long");
    if (n < 0)
        return -1;
    tags->items = tn_realloc(tags->items, (tags->count + 2) * sizeof *tags->items);
    size_t at = first ? 0 : tags->count;
    memmove(tags->items + at + 1, tags->items + at, (tags->count - at) * sizeof *tags->items);
    tags->items[at] = tn_strndup(text, len);
    tags->items[++tags->count] = NULL;
    return 0;
}

/* A gzip begins with these. */
static bool is_gzip(int fd)
{
    unsigned char head[2];

    return pread(fd, head, sizeof head, 0) == sizeof head && head[0] == 0x1f && head[1] == 0x8b;
}

static int read_parts(struct tn_http_exchange *x, int fd, struct tn_str_list *tags,
                      struct tn_error *err)
{
    struct tn_multipart *m = tn_multipart_new(tn_http_header(x, "Content-Type"), read_body, x, err);
    const struct tn_part *part;
    bool target = false, context = false;
    int more = m ? 1 : -1;

    while (more > 0 && (more = tn_multipart_next(m, &part, err)) > 0) {
        int failed = 0;
        if (strcmp(part->name, "context") == 0) {
            failed = context ? tn_fail(err, TN_E_UNPROCESSABLE, "context: there is more than one")
                             : store_context(m, fd, err);
            context = true;
        } else if (strcmp(part->name, "target_image") == 0) {
            failed = target
                         ? tn_fail(err, TN_E_UNPROCESSABLE, "target_image: there is more than one")
                         : add_tag(m, tags, true, err);
            target = true;
        } else if (strcmp(part->name, "tags") == 0) {
            failed = add_tag(m, tags, false, err);
        }
        if (failed)
            more = -1;
    }
    tn_multipart_free(m);
    if (more < 0)
        return -1;
    if (!target || !context)
        return tn_fail(err, TN_E_UNPROCESSABLE, "%s is missing",
                       target ? "context" : "target_image");
    return is_gzip(fd) ? 0 : tn_fail(err, TN_E_INVALID, "context: this is no gzip'ed tar");
}

/* Everybody builds below the own prefix: nobody's image is replaced. */
static int check_tags(struct tn_service *s, const char *tenant, struct tn_str_list *tags,
                      struct tn_error *err)
{
    tn_autofree char *prefix = openhands_registry_prefix(s, tenant);

    for (size_t i = 0; i < tags->count; i++) {
        size_t n = strlen(prefix);
        if (strncmp(tags->items[i], prefix, n) != 0 || tags->items[i][n] != '/')
            return tn_fail(err, TN_E_INVALID,
                           "%.200s: expected a name below the registry prefix, %s/...",
                           tags->items[i], prefix);
        char *image = openhands_image(s, tenant, tags->items[i], err);
        if (!image)
            return -1;
        free(tags->items[i]);
        tags->items[i] = image;
    }
    return 0;
}

struct builder {
    struct tn_service *s;
    const struct caller *who;
};

/* One of this client's own, or of the kind that service.images allows.  What could be an id, or a
 * file of the engine's machine in the words of Podman, is no name. */
static int check_image(const char *image, void *ctx, struct tn_error *err)
{
    static const char *const transports[] = {
        "docker",      "docker-archive",     "docker-daemon", "dir", "oci",
        "oci-archive", "containers-storage", "ostree",        "sif", "tarball"};
    const struct builder *by = ctx;
    bool strange = strspn(image, "0123456789abcdef") == strlen(image);

    for (size_t i = 0; i < TN_COUNT(transports); i++) {
        size_t n = strlen(transports[i]);
        strange |= strncmp(image, transports[i], n) == 0 && image[n] == ':';
    }
    if (strange)
        return tn_fail(err, TN_E_DENIED, "Dockerfile: image %.200s: expected a name with a tag",
                       image);
    tn_autofree char *whole = openhands_image(by->s, by->who->tenant, image, err);
    return !whole || bounds_image(by->s, by->who, image, err) ? tn_error_context(err, "Dockerfile")
                                                              : 0;
}

/* Nothing is built from what the client could not have for a sandbox. */
static int check_dockerfile(struct builder *by, int fd, struct build_wish *wish,
                            struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(DOCKERFILE_MAX);

    if (tn_upload_dockerfile(fd, &text, tn_deadline_in(CHECK_SECONDS), err) ||
        dockerfile_images(tn_buf_str(&text), check_image, by, err))
        return -1;
    wish->dockerfile = tn_buf_take(&text);
    return 0;
}

static void handle_build(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_MANAGE))
        return;
    if (!takes_images(s)) {
        native_refuse(x, TN_E_UNSUPPORTED,
                      "the runtime of this service takes no images by name, so none is built: "
                      "start a runtime with any image");
        return;
    }
    struct builder by = {.s = s, .who = caller_of(x)};
    struct build_wish wish = {.tenant = by.who->tenant};
    tn_autofd int fd =
        bounds_build(s, by.who, &wish.bound, &err) ? -1 : build_begin(s->builds, &wish, &err);
    if (fd < 0 && err.code == TN_E_QUOTA) {
        tn_http_set_header(x, "Retry-After", RETRY_SECONDS);
        reply_status(x, 429, NULL, err.text);
        return;
    }
    char id[sizeof wish.id];
    memcpy(id, wish.id, sizeof id);
    int failed = fd < 0 || read_parts(x, fd, &wish.tags, &err) ||
                 check_tags(s, wish.tenant, &wish.tags, &err) ||
                 check_dockerfile(&by, fd, &wish, &err);
    if (failed)
        build_drop(s->builds, &wish);
    else
        failed = build_run(s->builds, &wish, &err);
    if (native_audit(x, s, "image.build", NULL, failed ? &err : NULL))
        return;
    if (failed) {
        reply_error(x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "build_id", id);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void handle_status(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    TN_CLEANUP(build_info_done) struct build_info info = {0};
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!caller_may(x, SCOPE_READ))
        return;
    const char *id = tn_http_query(x, "build_id");
    if (!id) {
        native_refuse(x, TN_E_UNPROCESSABLE, "build_id is missing");
        return;
    }
    if (build_find(s->builds, caller_of(x)->tenant, id, &info, &err)) {
        reply_error(x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "build_id", id);
    tn_jw_kstr(&w, "status", info.status);
    tn_jw_kstr(&w, "image", info.image);
    tn_jw_kstr(&w, "error", info.error);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route routes_builds[] = {
    {"GET", "/registry_prefix", handle_prefix, "where the tenant's images are", 0},
    {"GET", "/image_exists", handle_exists, "whether an image is there", 0},
    {"POST", "/build", handle_build, "builds an image", 0},
    {"GET", "/build_status", handle_status, "how a build is", 0},
    {0},
};
