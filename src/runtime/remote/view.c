/* What services say of a sandbox, in our words. */
#include <strings.h>

#include "runtime/hand-address.h"
#include "runtime/remote/remote.h"

#define SESSION_PREFIX "tendon-"

void remote_view_done(struct remote_view *v)
{
    if (v->key)
        explicit_bzero(v->key, strlen(v->key));
    free(v->key);
    free(v->id);
    free(v->address);
    free(v->reason);
    free(v->isolation);
    *v = (struct remote_view){0};
}

/* --- whose it is ------------------------------------------------------------------------------ */

void remote_session(const struct remote *r, const char *id, char out[REMOTE_SESSION_MAX])
{
    snprintf(out, REMOTE_SESSION_MAX, SESSION_PREFIX "%s-%.11s", r->mark, id);
}

const char *remote_own_id(const struct remote *r, const char *session)
{
    char prefix[REMOTE_SESSION_MAX];

    remote_session(r, "", prefix);
    return strncmp(session, prefix, strlen(prefix)) == 0 ? session + strlen(prefix) : NULL;
}

int remote_ref_id(const struct remote *r, const struct tn_subject *s, char **id,
                  struct tn_error *err)
{
    tn_autojson struct tn_json *ref = NULL;

    *id = NULL;
    if (!s->ref || tn_json_parse(s->ref, strlen(s->ref), &ref, NULL) < 0)
        return 0;
    const char *api = tn_json_get_str(ref, "api", r->api);
    if (strcmp(api, r->api) != 0)
        return tn_fail(err, TN_E_CONFLICT,
                       "it lives at %s, but sandbox.remote_runtime_api_url is %s", api, r->api);
    *id = tn_strdup_or_null(tn_json_get_str(ref, "id", NULL));
    return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Printable, and short enough to go into paths and messages. */
static bool is_id(const char *text)
{
    size_t n = 0;

    while (text[n] > ' ' && text[n] < 0x7f)
        n++;
    return n > 0 && n <= REMOTE_ID_MAX && text[n] == '\0';
}

static int read_id(const struct tn_json *tree, const char *member, struct remote_view *out,
                   struct tn_error *err)
{
    const char *id = tn_json_get_str(tree, member, "");

    if (!is_id(id))
        return tn_fail(err, TN_E_PEER, "the service describes a sandbox without a usable %s",
                       member);
    out->known = true;
    out->id = tn_strdup(id);
    return 0;
}

/* What people read should be one line. */
static char *sentence(const char *text)
{
    char *line = tn_strndup(text, 400);

    for (char *p = line; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = ' ';
    return line;
}

struct word {
    const char *word;
    enum tn_status status;
};

static bool status_of(const struct word *words, size_t count, const char *word,
                      enum tn_status *status)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(words[i].word, word) == 0) {
            *status = words[i].status;
            return true;
        }
    return false;
}

/* An address without its final slashes; NULL when it is none. */
static char *address_of(const char *url)
{
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/')
        n--;
    tn_autofree char *text = tn_strndup(url, n);
    return tn_hand_is_url(text) ? TN_TAKE_PTR(text) : NULL;
}

static bool has_processes(enum tn_status status)
{
    return status == TN_STATUS_RUNNING || status == TN_STATUS_PAUSED;
}

/* --- native ----------------------------------------------------------------------------------- */

static const struct word native_words[] = {
    {"starting", TN_STATUS_STARTING}, {"running", TN_STATUS_RUNNING},
    {"paused", TN_STATUS_PAUSED},     {"stopped", TN_STATUS_STOPPED},
    {"error", TN_STATUS_ERROR},       {"missing", TN_STATUS_MISSING},
};

/* What it gives as the cause of an error. */
static const struct {
    const char *cause;
    enum tn_code code;
} causes[] = {
    {"image", TN_E_NOT_FOUND},
    {"quota", TN_E_BUSY},
    {"timeout", TN_E_TIMEOUT},
};

static enum tn_code failure_of(const char *cause)
{
    for (size_t i = 0; i < TN_COUNT(causes); i++)
        if (strcmp(causes[i].cause, cause) == 0)
            return causes[i].code;
    return TN_OK;
}

int remote_read_native(const struct remote *r, const struct tn_json *tree, struct remote_view *out,
                       struct tn_error *err)
{
    const char *state = tn_json_get_str(tree, "state", "");
    const char *reason = tn_json_get_str(tree, "reason", NULL);
    const struct tn_json *isolation = tn_json_get(tree, "isolation");
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&text);

    *out = (struct remote_view){0};
    if (read_id(tree, "id", out, err) < 0)
        return -1;
    if (!status_of(native_words, TN_COUNT(native_words), state, &out->status))
        return tn_fail(err, TN_E_PEER, "the service has it in a state that is not known: %.40s",
                       state);
    /* Its runtime can only stop: as with OpenHands' dialect, a pause all the same to who uses it. */
    if (out->status == TN_STATUS_STOPPED && tn_json_bool(tn_json_get(tree, "asleep"), false))
        out->status = TN_STATUS_PAUSED;
    out->version = tn_json_int(tn_json_get(tree, "version"), 0);
    out->reason = reason ? sentence(reason) : NULL;
    out->failure = failure_of(tn_json_get_str(tree, "cause", ""));
    out->blame = tn_blame_find(tn_json_get_str(tree, "cause", NULL));
    if (has_processes(out->status)) {
        out->address = tn_asprintf("%s/%s", r->api, out->id);
        out->key = tn_strdup_or_null(tn_json_get_str(tree, "session_key", NULL));
    }
    if (tn_json_type(isolation) == TN_JSON_OBJECT) {
        tn_jw_tree(&w, isolation);
        out->isolation = tn_buf_ok(&text) ? tn_buf_take(&text) : NULL;
    }
    return 0;
}

/* --- OpenHands -------------------------------------------------------------------------------- */

/* What its pod is doing counts for one that is meant to run; else what the service has in mind. */
static const struct word pod_words[] = {
    {"ready", TN_STATUS_RUNNING},          {"not found", TN_STATUS_STARTING},
    {"pending", TN_STATUS_STARTING},       {"running", TN_STATUS_STARTING},
    {"failed", TN_STATUS_ERROR},           {"unknown", TN_STATUS_ERROR},
    {"crashloopbackoff", TN_STATUS_ERROR},
};
/* Nothing is left of a stopped one. */
static const struct word session_words[] = {
    {"running", TN_STATUS_RUNNING}, {"starting", TN_STATUS_STARTING}, {"paused", TN_STATUS_PAUSED},
    {"stopped", TN_STATUS_MISSING}, {"missing", TN_STATUS_MISSING},   {"error", TN_STATUS_ERROR},
};

static bool is_secure(const char *address)
{
    return strncmp(address, "https:", 6) == 0;
}

static char *why_it_failed(const struct tn_json *tree, const char *pod)
{
    const struct tn_json *reasons = tn_json_get(tree, "restart_reasons");
    int64_t restarts = tn_json_int(tn_json_get(tree, "restart_count"), 0);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1024);

    tn_buf_puts(&text, strcasecmp(pod, "crashloopbackoff") == 0
                           ? "it crashes again and again, most likely because it needs more memory "
                             "than it has: try a larger remote_runtime_resource_factor"
                           : "the service reports that it failed");
    if (restarts > 0)
        tn_buf_printf(&text, " (%lld restart%s", (long long)restarts, restarts == 1 ? "" : "s");
    for (size_t i = 0; restarts > 0 && i < tn_json_count(reasons) && i < 3; i++) {
        const char *reason = tn_json_str(tn_json_at(reasons, i), NULL);
        tn_buf_printf(&text, "%s%.80s", i ? ", " : ": ", reason ? reason : "?");
    }
    tn_buf_puts(&text, restarts > 0 ? ")" : "");
    return sentence(tn_buf_str(&text));
}

int remote_read_openhands(const struct remote *r, const struct tn_json *tree,
                          struct remote_view *out, struct tn_error *err)
{
    const char *pod = tn_json_get_str(tree, "pod_status", NULL);
    const char *status = tn_json_get_str(tree, "status", NULL);
    enum tn_status meant = TN_STATUS_STARTING;

    *out = (struct remote_view){0};
    if (read_id(tree, "runtime_id", out, err) < 0)
        return -1;
    out->address = address_of(tn_json_get_str(tree, "url", ""));
    if (out->address && is_secure(r->api) && !is_secure(out->address))
        return tn_fail(err, TN_E_DENIED,
                       "%s says to reach the sandbox without TLS: its key would travel in the "
                       "clear",
                       r->api);
    out->key = tn_strdup_or_null(tn_json_get_str(tree, "session_api_key", NULL));
    bool told = status && status_of(session_words, TN_COUNT(session_words), status, &meant);
    out->status = meant;
    if (pod && (!told || meant == TN_STATUS_RUNNING || meant == TN_STATUS_STARTING) &&
        !status_of(pod_words, TN_COUNT(pod_words), pod, &out->status))
        out->status = TN_STATUS_STARTING;
    if (out->status == TN_STATUS_ERROR)
        out->reason = why_it_failed(tree, pod ? pod : "");
    return 0;
}
