#include "engine/engine.h"

#include "base/key-file.h"
#include "engine/engine-impl.h"
#include "engine/find.h"
#include "net/url.h"

/* What this code was written for; an engine that is older, or too new for it, is asked for its
 * own. */
#define OUR_API "1.41"
#define ANSWER_MAX (64u << 20)

/* --- calls ------------------------------------------------------------------------------------ */

/* The engine's own sentence. */
static int refused(const struct tn_web_answer *answer, struct tn_error *err)
{
    tn_autojson struct tn_json *body = NULL;
    const char *message = NULL;

    if (tn_json_parse(tn_buf_str(&answer->body), answer->body.len, &body, NULL) == 0)
        message = tn_json_get_str(body, "message", NULL);
    return tn_web_refused(answer, message, err);
}

static int unreachable(const struct tn_engine *e, struct tn_error *err)
{
    const char *address = e->info.address;

    if (!err)
        return -1;
    if (err->code == TN_E_DENIED && err->sys == EACCES)
        return tn_fail(err, TN_E_DENIED,
                       "no permission on the socket of the container engine, %s: add yourself to "
                       "the group docker (sudo usermod -aG docker \"$USER\") and log in again, or "
                       "use Podman",
                       address);
    if (err->code == TN_E_NOT_FOUND && err->sys == ENOENT)
        return tn_fail(err, TN_E_PEER,
                       "no container engine at %s: is it installed and running? (DOCKER_HOST says "
                       "where it is)",
                       address);
    if (err->sys == ECONNREFUSED)
        return tn_fail(err, TN_E_PEER, "the container engine at %s does not answer: is it running?",
                       address);
    return tn_error_context(err, "container engine at %s", address);
}

int tn_engine_call(struct tn_engine *e, const struct tn_engine_call *call, int *status,
                   struct tn_json **out, struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(ANSWER_MAX);
    tn_autofree char *target =
        tn_asprintf("%s%s%s", e->api ? "/v" : "", e->api ? e->api : "", call->target);
    struct tn_web_call request = {
        .method = call->method,
        .target = target,
        .headers = call->headers,
        .type = call->type ? call->type : "application/json",
        .body = call->body,
        .body_len = call->body_len,
        .source = call->source,
        .source_ctx = call->source_ctx,
        .source_len = call->source_len,
        .sink = call->sink,
        .sink_ctx = call->sink_ctx,
        .deadline = call->deadline,
        .idle = call->idle,
        .cancel = call->cancel,
    };

    if (out)
        *out = NULL;
    int r = tn_web_call(e->web, &request, &answer, err);
    if (status)
        *status = answer.status;
    if (r < 0)
        return unreachable(e, err);
    if ((answer.status < 200 || answer.status > 299) && answer.status != 304)
        return refused(&answer, err);
    if (out && answer.body.len &&
        tn_json_parse(tn_buf_str(&answer.body), answer.body.len, out, err) < 0)
        return tn_error_context(err, "answer of the container engine");
    return 0;
}

int engine_do(struct tn_engine *e, const char *method, const char *path, const int *fine,
              int64_t deadline, struct tn_error *err)
{
    struct tn_engine_call call = {.method = method, .target = path, .deadline = deadline};
    int status, r = tn_engine_call(e, &call, &status, NULL, err);

    for (; r < 0 && fine && *fine; fine++)
        if (*fine == status)
            return 0;
    return r;
}

int engine_get(struct tn_engine *e, const char *path, struct tn_json **out, int64_t deadline,
               struct tn_error *err)
{
    struct tn_engine_call call = {.target = path, .deadline = deadline};

    return tn_engine_call(e, &call, NULL, out, err);
}

/* --- paths ------------------------------------------------------------------------------------ */

enum { PATH_MAX_BYTES = 64 << 10 };

char *engine_path(const char *kind, const char *id, const char *verb, const char *query)
{
    tn_autobuf struct tn_buf path = TN_BUF_INIT(PATH_MAX_BYTES);

    tn_buf_printf(&path, "/%s/", kind);
    /* Image references hold slashes and colons, and engines want them as they are. */
    tn_url_encode(&path, id, "/:@");
    if (verb)
        tn_buf_printf(&path, "/%s", verb);
    if (query && *query)
        tn_buf_printf(&path, "?%s", query);
    return tn_buf_take(&path);
}

void engine_query(struct tn_buf *query, const char *name, const char *value)
{
    if (!value)
        return;
    tn_buf_printf(query, "%s%s=", query->len ? "&" : "", name);
    tn_url_encode(query, value, "");
}

char *tn_engine_filters(const char *const *pairs)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(PATH_MAX_BYTES), out = TN_BUF_INIT(PATH_MAX_BYTES);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    for (const char *const *p = pairs; p && *p; p += 2) {
        bool seen = false;
        for (const char *const *q = pairs; q < p; q += 2)
            seen |= strcmp(*q, *p) == 0;
        if (seen)
            continue;
        tn_jw_key(&w, *p);
        tn_jw_array(&w);
        for (const char *const *q = p; *q; q += 2)
            if (strcmp(*q, *p) == 0)
                tn_jw_str(&w, q[1]);
        tn_jw_array_end(&w);
    }
    tn_jw_object_end(&w);
    tn_url_encode(&out, tn_buf_str(&json), "");
    return tn_buf_take(&out);
}

/* --- opening ---------------------------------------------------------------------------------- */

void tn_engine_free(struct tn_engine *e)
{
    if (!e)
        return;
    tn_web_free(e->web);
    free(e->address);
    free(e->host);
    free(e->version);
    free(e->api);
    free(e->os);
    free(e->arch);
    free(e);
}

const struct tn_engine_info *tn_engine_info(const struct tn_engine *e)
{
    return &e->info;
}

/* Compares "1.41" and "1.9" as numbers; what makes no sense is 0.0. */
static int compare_versions(const char *a, const char *b)
{
    unsigned a1 = 0, a2 = 0, b1 = 0, b2 = 0;

    sscanf(a, "%u.%u", &a1, &a2);
    sscanf(b, "%u.%u", &b1, &b2);
    if (a1 != b1)
        return a1 < b1 ? -1 : 1;
    return a2 < b2 ? -1 : a2 > b2;
}

static bool is_version(const char *text)
{
    return *text && strspn(text, "0123456789.") == strlen(text) && strlen(text) < 16;
}

static int agree(struct tn_engine *e, const struct tn_json *version, struct tn_error *err)
{
    const char *most = tn_json_get_str(version, "ApiVersion", "");
    const char *least = tn_json_get_str(version, "MinAPIVersion", "1.24");
    const struct tn_json *component = tn_json_at(tn_json_get(version, "Components"), 0);
    const char *name = tn_json_get_str(component, "Name", "");

    if (!is_version(most) || !is_version(least))
        return tn_fail(err, TN_E_PEER, "%s: this is not a container engine", e->address);
    e->api = tn_strdup(compare_versions(most, OUR_API) < 0    ? most
                       : compare_versions(least, OUR_API) > 0 ? least
                                                              : OUR_API);
    e->version = tn_strdup(tn_json_get_str(version, "Version", ""));
    e->os = tn_strdup(tn_json_get_str(version, "Os", ""));
    e->arch = tn_strdup(tn_json_get_str(version, "Arch", ""));
    e->info.api = e->api;
    e->info.version = e->version;
    e->info.os = e->os;
    e->info.arch = e->arch;
    e->info.name = strcasestr(name, "podman") ? "podman" : "docker";
    return 0;
}

static int connect_web(struct tn_engine *e, const struct engine_target *t,
                       const struct tn_engine_options *o, struct tn_error *err)
{
    const char *home = getenv("HOME");
    tn_autofree char *usual = tn_asprintf("%s/.docker", home ? home : "");
    const char *certs = o->cert_path && *o->cert_path ? o->cert_path : usual;
    tn_autofree char *ca = tn_asprintf("%s/ca.pem", certs);
    tn_autofree char *cert = tn_asprintf("%s/cert.pem", certs);
    tn_autofree char *key = tn_asprintf("%s/key.pem", certs);
    tn_autokeyfile struct tn_buf key_text = TN_KEY_FILE_INIT;
    struct tn_web_options options = {.base = t->base, .socket = t->socket};

    if (strncmp(t->base, "https://", 8) == 0) {
        options.tls.insecure = !o->tls_verify && o->cert_path && *o->cert_path;
        options.tls.ca_file = access(ca, F_OK) == 0 ? ca : NULL;
        options.tls.cert_file = access(cert, F_OK) == 0 ? cert : NULL;
        if (access(key, F_OK) == 0) {
            if (tn_key_file_read(key, TN_KEY_FILE_READABLE, &key_text, err) < 0)
                return -1;
            options.tls.key = tn_buf_str(&key_text);
        }
    }
    e->web = tn_web_new(&options, err);
    return e->web ? 0 : -1;
}

static struct tn_engine *open_target(const struct engine_target *t,
                                     const struct tn_engine_options *o, int64_t deadline,
                                     struct tn_error *err)
{
    tn_autoengine struct tn_engine *e = tn_calloc(1, sizeof *e);
    tn_autojson struct tn_json *version = NULL;

    e->address = tn_strdup(t->address);
    e->host = tn_strdup(t->host);
    e->info.address = e->address;
    e->info.host = e->host;
    e->info.local = t->socket;
    if (connect_web(e, t, o, err) < 0 || engine_get(e, "/version", &version, deadline, err) < 0 ||
        agree(e, version, err) < 0)
        return NULL;
    return TN_TAKE_PTR(e);
}

/* Of several failures: a socket that is there tells more than one that is not. */
static bool tells_more(const struct tn_error *new, const struct tn_error *old)
{
    return old->code == TN_OK || (new->sys != ENOENT && old->sys == ENOENT) ||
           (new->code == TN_E_DENIED && old->code != TN_E_DENIED);
}

static struct tn_engine *open_usual(const struct tn_engine_options *o, int64_t deadline,
                                    struct tn_error *err)
{
    struct engine_target targets[ENGINE_USUAL_MAX];
    size_t count = engine_targets_usual(targets);
    tn_autobuf struct tn_buf places = TN_BUF_INIT(4096);
    struct tn_error best = {0};
    struct tn_engine *e = NULL;

    for (size_t i = 0; i < count && !e; i++) {
        struct tn_error why = {0};
        bool there = access(targets[i].socket, F_OK) == 0 || errno != ENOENT;
        tn_buf_printf(&places, "%s%s", i ? ", " : "", targets[i].socket);
        e = there ? open_target(&targets[i], o, deadline, &why) : NULL;
        if (there && !e && tells_more(&why, &best))
            best = why;
    }
    for (size_t i = 0; i < count; i++)
        engine_target_done(&targets[i]);
    if (e)
        return e;
    if (best.code == TN_OK)
        tn_fail(&best, TN_E_PEER,
                "no container engine found (looked for %s): is Docker or Podman installed and "
                "running? DOCKER_HOST says where it is",
                tn_buf_str(&places));
    if (err)
        *err = best;
    return NULL;
}

char *tn_engine_usual_socket(const char *host)
{
    struct engine_target targets[ENGINE_USUAL_MAX] = {0};
    bool said = host && *host;
    size_t count = said ? engine_target_parse(host, false, &targets[0], NULL) == 0
                        : engine_targets_usual(targets);
    char *found = NULL;

    for (size_t i = 0; i < count; i++) {
        if (!found && targets[i].socket && access(targets[i].socket, F_OK) == 0)
            found = tn_strdup(targets[i].socket);
        engine_target_done(&targets[i]);
    }
    return found;
}

struct tn_engine *tn_engine_open(const struct tn_engine_options *o, int64_t deadline,
                                 struct tn_error *err)
{
    struct engine_target target;
    bool tls = o->tls_verify || (o->cert_path && *o->cert_path);

    if (!o->host || !*o->host)
        return open_usual(o, deadline, err);
    if (engine_target_parse(o->host, tls, &target, err) < 0)
        return NULL;
    struct tn_engine *e = open_target(&target, o, deadline, err);
    engine_target_done(&target);
    return e;
}
