/* The hand's image to a registry, by the distribution project's API: each blob is asked for, then
 * sent to where the registry wants it; then the manifests by digest, and the index by its tag. */
#include "base/base64.h"
#include "base/json.h"
#include "engine/auth.h"
#include "image/hand-image.h"
#include "net/url.h"
#include "web/web.h"

#define HUB "docker.io"
#define HUB_API "registry-1.docker.io"
#define IDLE_SECONDS 60.0
enum { ANSWER_MAX = 1 << 20, SECRET_MAX = 64 << 10 };

struct push {
    struct tn_web *web;
    char *base; /* "https://HOST" */
    char *path; /* of the repository */
    const char *reference;
    bool authorized;
    int64_t deadline;
};

static void push_done(struct push *p)
{
    tn_web_free(p->web);
    free(p->base);
    free(p->path);
}

/* Secrets go over TLS, or do not leave this machine. */
static bool is_loopback(const char *host)
{
    tn_autofree char *name =
        tn_strndup(host, *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?"));

    return tn_web_reach_of(name) == TN_WEB_LOOPBACK;
}

/* --- what a registry says --------------------------------------------------------------------- */

/* {"errors": [{"code", "message"}]} */
static int refused(const struct tn_web_answer *answer, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;
    const char *text = NULL;

    if (tn_json_parse(tn_buf_str(&answer->body), answer->body.len, &tree, NULL) == 0)
        text = tn_json_get_str(tn_json_at(tn_json_get(tree, "errors"), 0), "message", NULL);
    return tn_web_refused(answer, text, err);
}

/* The value of NAME="..." in a challenge, on the heap, or NULL. */
static char *parameter(const char *challenge, const char *name)
{
    tn_autofree char *start = tn_asprintf("%s=\"", name);
    const char *at = strstr(challenge, start);

    return at ? tn_strndup(at + strlen(start), strcspn(at + strlen(start), "\"")) : NULL;
}

/* --- who we are ------------------------------------------------------------------------------- */

static int put_basic(struct tn_web *web, const struct tn_login *login, struct tn_error *err)
{
    tn_autobuf struct tn_buf plain = TN_BUF_INIT(SECRET_MAX), value = TN_BUF_INIT(2 * SECRET_MAX);

    tn_buf_printf(&plain, "%s:%s", login->username, login->password);
    tn_buf_puts(&value, "Basic ");
    tn_base64_encode(&value, plain.data, plain.len);
    int failed = tn_web_header(web, "Authorization", tn_buf_str(&value), err);
    explicit_bzero(plain.data, plain.len);
    explicit_bzero(value.data, value.len);
    return failed;
}

static void put_pair(struct tn_buf *out, const char *name, const char *value)
{
    tn_buf_printf(out, "%s=", name);
    tn_url_encode(out, value, "");
    tn_buf_putc(out, '&');
}

/* A token for this repository from the server that the registry names.  Of an identity token it
 * wants a form, of a password or nobody a query. */
static int ask_token(struct push *p, const char *realm, const char *service,
                     const struct tn_login *login, struct tn_web_answer *answer,
                     struct tn_error *err)
{
    const char *host = strstr(realm, "//") + 2, *path = host + strcspn(host, "/");
    tn_autofree char *base = tn_strndup(realm, (size_t)(path - realm));
    tn_autoweb struct tn_web *web = tn_web_new(&(struct tn_web_options){.base = base}, err);
    tn_autobuf struct tn_buf pairs = TN_BUF_INIT(2 * SECRET_MAX);
    tn_autofree char *scope = tn_asprintf("repository:%s:pull,push", p->path);

    if (!web || (!login->token && login->username && put_basic(web, login, err) < 0))
        return -1;
    path = *path ? path : "/";
    if (!login->token)
        tn_buf_printf(&pairs, "%s?", path);
    if (service)
        put_pair(&pairs, "service", service);
    put_pair(&pairs, "scope", scope);
    if (login->token) {
        put_pair(&pairs, "grant_type", "refresh_token");
        put_pair(&pairs, "refresh_token", login->token);
    }
    put_pair(&pairs, "client_id", "tendon");
    tn_buf_cut(&pairs, pairs.len - 1);
    struct tn_web_call call = {.target = tn_buf_str(&pairs), .deadline = p->deadline};
    if (login->token)
        call = (struct tn_web_call){.target = path,
                                    .type = "application/x-www-form-urlencoded",
                                    .body = pairs.data,
                                    .body_len = pairs.len,
                                    .deadline = p->deadline};
    int failed = tn_web_call(web, &call, answer, err);
    if (pairs.data)
        explicit_bzero(pairs.data, pairs.len);
    return failed ? -1 : answer->status / 100 != 2 ? refused(answer, err) : 0;
}

static int take_token(struct push *p, const char *challenge, const struct tn_login *login,
                      struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(ANSWER_MAX);
    tn_autojson struct tn_json *tree = NULL;
    tn_autofree char *realm = parameter(challenge, "realm"),
                     *service = parameter(challenge, "service");

    if (!realm || strpbrk(realm, "?#@") ||
        (strncmp(realm, "https://", 8) != 0 &&
         (strncmp(realm, "http://", 7) != 0 || !is_loopback(realm + 7))))
        return tn_fail(err, TN_E_PEER,
                       "the registry names no server with TLS that gives tokens: %.200s",
                       realm ? realm : "none");
    if (ask_token(p, realm, service, login, &answer, err) < 0 ||
        tn_json_parse(tn_buf_str(&answer.body), answer.body.len, &tree, err) < 0)
        return tn_error_context(err, "token for %s", p->path);
    const char *token = tn_json_get_str(tree, "token", NULL);
    if (!token)
        token = tn_json_get_str(tree, "access_token", NULL);
    if (!token)
        return tn_fail(err, TN_E_PEER, "%.200s gave no token", realm);
    tn_autofree char *value = tn_asprintf("Bearer %s", token);
    int failed = tn_web_header(p->web, "Authorization", value, err);
    explicit_bzero(value, strlen(value));
    return failed;
}

static int authorize(struct push *p, const struct tn_web_answer *asked, struct tn_error *err)
{
    tn_autofree char *challenge = tn_web_answer_header(asked, "www-authenticate");
    tn_autologin struct tn_login login = {0};

    p->authorized = true;
    tn_login_find(p->reference, &login, p->deadline);
    if (challenge && strncasecmp(challenge, "Bearer ", 7) == 0)
        return take_token(p, challenge, &login, err);
    if (!login.username || !login.password)
        return tn_fail(err, TN_E_DENIED, "the registry wants a login: docker login %s",
                       strstr(p->base, "//") + 2);
    return put_basic(p->web, &login, err);
}

/* --- requests --------------------------------------------------------------------------------- */

/* The status, or -1.  The first that is refused for want of a login is sent again with it. */
static int ask(struct push *p, const char *method, const char *target, const struct tn_blob *body,
               const char *type, struct tn_web_answer *answer, struct tn_error *err)
{
    const struct tn_web_call call = {.method = method,
                                     .target = target,
                                     .type = type,
                                     .body = body ? body->bytes.data : NULL,
                                     .body_len = body ? body->bytes.len : 0,
                                     .idle = IDLE_SECONDS,
                                     .deadline = p->deadline};

    if (tn_web_call(p->web, &call, answer, err) < 0)
        return -1;
    if (answer->status == 401 && !p->authorized &&
        (authorize(p, answer, err) < 0 || tn_web_call(p->web, &call, answer, err) < 0))
        return -1;
    return answer->status;
}

/* Where the bytes go: a place of the same server, to which alone we show what we were given. */
static char *upload_target(const struct push *p, const struct tn_web_answer *answer,
                           const char *digest, struct tn_error *err)
{
    tn_autofree char *location = tn_web_answer_header(answer, "location");
    size_t base = strlen(p->base);
    const char *place =
        location && strncmp(location, p->base, base) == 0 ? location + base : location;

    if (!place || *place != '/') {
        tn_fail(err, TN_E_PEER, "the registry wants the bytes elsewhere: %.200s",
                location ? location : "it does not say where");
        return NULL;
    }
    return tn_asprintf("%s%cdigest=%s", place, strchr(place, '?') ? '&' : '?', digest);
}

static int push_blob(struct push *p, const struct tn_blob *blob, struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(ANSWER_MAX);
    tn_autofree char *there = tn_asprintf("/v2/%s/blobs/%s", p->path, blob->digest);
    tn_autofree char *uploads = tn_asprintf("/v2/%s/blobs/uploads/", p->path);
    int status = ask(p, "HEAD", there, NULL, NULL, &answer, err);

    if (status < 0 || status == 200)
        return status < 0 ? -1 : 0;
    status = ask(p, "POST", uploads, NULL, NULL, &answer, err);
    if (status != 202)
        return status < 0 ? -1 : refused(&answer, err);
    tn_autofree char *target = upload_target(p, &answer, blob->digest, err);
    if (!target)
        return -1;
    status = ask(p, "PUT", target, blob, "application/octet-stream", &answer, err);
    return status == 201 ? 0 : status < 0 ? -1 : refused(&answer, err);
}

static int push_manifest(struct push *p, const struct tn_blob *blob, const char *name,
                         struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(ANSWER_MAX);
    tn_autofree char *target = tn_asprintf("/v2/%s/manifests/%s", p->path, name);
    int status = ask(p, "PUT", target, blob, blob->type, &answer, err);

    return status / 100 == 2 ? 0 : status < 0 ? -1 : refused(&answer, err);
}

int tn_hand_image_push(const struct tn_hand_image *image, const struct tn_reference *name,
                       int64_t deadline, struct tn_error *err)
{
    bool hub = !name->host || strcmp(name->host, HUB) == 0;
    const char *host = hub ? HUB_API : name->host;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
    struct push TN_CLEANUP(push_done) p = {
        .base = tn_asprintf("%s://%s", is_loopback(host) ? "http" : "https", host),
        .path = tn_asprintf("%s%s", hub && !strchr(name->path, '/') ? "library/" : "", name->path),
        .deadline = deadline};

    tn_reference_put(name, &text);
    p.reference = tn_buf_str(&text);
    p.web = tn_web_new(&(struct tn_web_options){.base = p.base}, err);
    int failed = !p.web;
    for (size_t i = 0; i < image->count && !failed; i++) {
        const struct tn_blob *b = &image->blobs[i];
        failed = b == tn_hand_image_index(image) ? push_manifest(&p, b, name->tag, err)
                 : b->architecture               ? push_manifest(&p, b, b->digest, err)
                                                 : push_blob(&p, b, err);
    }
    return failed ? tn_error_context(err, "push %s", p.reference) : 0;
}
