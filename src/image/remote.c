#include "image/remote.h"

#include <inttypes.h>
#include <poll.h>
#include <strings.h>
#include <sys/random.h>

#include "base/json.h"
#include "net/url.h"

#define MAX_ANSWER (1u << 20)

/* Nothing moving for so long means that nothing will. */
#define IDLE_SECONDS 60.0

/* Pauses between questions about a build grow from the first to the second of these. */
#define FIRST_PAUSE_MS 200
#define LONGEST_PAUSE_MS 5000
/* When a busy service does not say how long. */
#define BUSY_PAUSE_MS 2000

/* Until it is time to ask again; -1 when the deadline comes first, or somebody cancels. */
static int pause_for(const struct tn_remote_build *b, int ms, int64_t deadline, const char *late,
                     struct tn_error *err)
{
    struct pollfd cancel = {.fd = b->cancel > 0 ? b->cancel : -1, .events = POLLIN};
    int left = tn_poll_ms(deadline);

    if (left >= 0 && left <= ms)
        return tn_fail(err, TN_E_TIMEOUT, "%s", late);
    if (poll(&cancel, 1, ms) > 0)
        return tn_fail(err, TN_E_GONE, "cancelled");
    return 0;
}

/* The answer as a tree; -1 for no answer, no JSON, and any status but 2xx. */
static int get(struct tn_web *web, const char *target, struct tn_json **out, int64_t deadline,
               struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(MAX_ANSWER);
    struct tn_web_call call = {.target = target, .deadline = deadline, .idle = IDLE_SECONDS};

    if (tn_web_call(web, &call, &answer, err))
        return -1;
    if (answer.status / 100 != 2)
        return tn_web_refused(&answer, NULL, err);
    if (tn_json_parse(tn_buf_str(&answer.body), answer.body.len, out, err))
        return tn_error_context(err, "the runtime service: %s", target);
    return 0;
}

char *tn_remote_registry_prefix(struct tn_web *web, int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *answer = NULL;

    if (get(web, "/registry_prefix", &answer, deadline, err))
        return NULL;
    const char *prefix = tn_json_get_str(answer, "registry_prefix", NULL);
    if (!prefix)
        tn_fail(err, TN_E_PEER, "the runtime service names no registry prefix");
    return tn_strdup_or_null(prefix);
}

int tn_remote_image_exists(struct tn_web *web, const char *image, int64_t deadline,
                           struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(8192);
    tn_autojson struct tn_json *answer = NULL;

    tn_buf_puts(&target, "/image_exists?image=");
    tn_url_encode(&target, image, "");
    if (get(web, tn_buf_str(&target), &answer, deadline, err))
        return -1;
    return tn_json_bool(tn_json_get(answer, "exists"), false);
}

/* --- sending
 * -------------------------------------------------------------------------------------- */

/* The multipart body: what precedes the context, the context, what follows it. */
struct upload {
    struct tn_buf head, tail;
    size_t head_sent, tail_sent;
    struct tn_packed *packed;
    bool packed_ended;
};

static void put_field(struct tn_buf *out, const char *boundary, const char *name, const char *value)
{
    tn_buf_printf(out, "\r\n--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s",
                  boundary, name, value);
}

static void upload_init(struct upload *u, const struct tn_remote_build *b, const char *boundary)
{
    *u = (struct upload){.head = TN_BUF_INIT(4096), .tail = TN_BUF_INIT(1 << 20)};
    tn_buf_printf(&u->head,
                  "--%s\r\nContent-Disposition: form-data; name=\"context\"; "
                  "filename=\"context.tar.gz\"\r\nContent-Type: application/octet-stream\r\n\r\n",
                  boundary);
    put_field(&u->tail, boundary, "target_image", b->image);
    for (size_t i = 0; i < b->tag_count; i++)
        put_field(&u->tail, boundary, "tags", b->tags[i]);
    tn_buf_printf(&u->tail, "\r\n--%s--\r\n", boundary);
    u->packed = tn_packed_new(b->context);
}

static void upload_done(struct upload *u)
{
    tn_buf_done(&u->head);
    tn_buf_done(&u->tail);
    tn_packed_free(u->packed);
}

static ssize_t take(const struct tn_buf *from, size_t *sent, void *to, size_t n)
{
    size_t part = from->len - *sent < n ? from->len - *sent : n;

    memcpy(to, tn_buf_str(from) + *sent, part);
    *sent += part;
    return (ssize_t)part;
}

static ssize_t upload_read(void *to, size_t n, void *ctx, struct tn_error *err)
{
    struct upload *u = ctx;

    if (u->head_sent < u->head.len)
        return take(&u->head, &u->head_sent, to, n);
    if (!u->packed_ended) {
        ssize_t got = tn_packed_read(to, n, u->packed, err);
        if (got)
            return got;
        u->packed_ended = true;
    }
    return take(&u->tail, &u->tail_sent, to, n);
}

/* How long a busy service wants to be left alone. */
static int busy_pause(const struct tn_web_answer *answer)
{
    double seconds = tn_web_retry_after(answer);

    return seconds > 0 && seconds < 3600 ? (int)(seconds * 1000) : BUSY_PAUSE_MS;
}

/* One attempt: the status, or -1. */
static int send_once(struct tn_web *web, const struct tn_remote_build *b,
                     struct tn_web_answer *answer, int64_t deadline, struct tn_error *err)
{
    char boundary[64], type[128];
    uint64_t random[2];
    struct upload u;

    if (tn_context_rewind(b->context, err))
        return -1;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "no random bytes");
    snprintf(boundary, sizeof boundary, "tendon-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    snprintf(type, sizeof type, "multipart/form-data; boundary=%s", boundary);
    upload_init(&u, b, boundary);
    struct tn_web_call call = {.method = "POST",
                               .target = "/build",
                               .type = type,
                               .source = upload_read,
                               .source_ctx = &u,
                               .source_len = -1,
                               .deadline = deadline,
                               .idle = IDLE_SECONDS,
                               .cancel = b->cancel};
    int failed = tn_web_call(web, &call, answer, err);
    upload_done(&u);
    return failed ? -1 : answer->status;
}

/* The id of the build, on the heap. */
static char *start(struct tn_web *web, const struct tn_remote_build *b, int64_t deadline,
                   struct tn_error *err)
{
    for (;;) {
        tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(MAX_ANSWER);
        tn_autojson struct tn_json *tree = NULL;
        int status = send_once(web, b, &answer, deadline, err);

        if (status < 0)
            return NULL;
        if (status == 429) {
            if (b->progress)
                b->progress("the builder is busy", b->ctx);
            if (pause_for(b, busy_pause(&answer), deadline, "the builder was busy all the time",
                          err))
                return NULL;
            continue;
        }
        if (status / 100 != 2) {
            tn_web_refused(&answer, NULL, err);
            return NULL;
        }
        if (tn_json_parse(tn_buf_str(&answer.body), answer.body.len, &tree, err))
            return NULL;
        const char *id = tn_json_get_str(tree, "build_id", NULL);
        if (!id)
            tn_fail(err, TN_E_PEER, "the runtime service gave no build_id");
        return tn_strdup_or_null(id);
    }
}

/* --- waiting
 * -------------------------------------------------------------------------------------- */

static const char *const fatal[] = {"FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED"};

/* 1 when it is done, 0 when it goes on, -1 when it failed. */
static int judge(const struct tn_json *answer, char **image, struct tn_error *err)
{
    const char *status = tn_json_get_str(answer, "status", "");
    const char *why = tn_json_get_str(answer, "error", NULL);

    if (!strcasecmp(status, "SUCCESS")) {
        *image = tn_strdup_or_null(tn_json_get_str(answer, "image", NULL));
        return *image ? 1 : tn_fail(err, TN_E_PEER, "the runtime service names no image");
    }
    for (size_t i = 0; i < TN_COUNT(fatal); i++)
        if (!strcasecmp(status, fatal[i]))
            return tn_fail(err, TN_E_PEER, "the build ended with %s%s%s", fatal[i], why ? ": " : "",
                           why ? why : "");
    return 0;
}

int tn_remote_build(struct tn_web *web, const struct tn_remote_build *b, char **image,
                    int64_t deadline, struct tn_error *err)
{
    tn_autofree char *id = start(web, b, deadline, err);
    tn_autobuf struct tn_buf target = TN_BUF_INIT(8192);
    int pause = FIRST_PAUSE_MS;

    if (!id)
        return -1;
    tn_buf_puts(&target, "/build_status?build_id=");
    tn_url_encode(&target, id, "");
    for (;;) {
        tn_autojson struct tn_json *answer = NULL;
        if (get(web, tn_buf_str(&target), &answer, deadline, err))
            return -1;
        int result = judge(answer, image, err);
        if (result)
            return result < 0 ? -1 : 0;
        if (b->progress)
            b->progress(tn_json_get_str(answer, "status", "building"), b->ctx);
        if (pause_for(b, pause, deadline, "the build is not done yet", err))
            return -1;
        pause = pause * 2 < LONGEST_PAUSE_MS ? pause * 2 : LONGEST_PAUSE_MS;
    }
}
