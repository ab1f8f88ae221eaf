/* A port of a pod through the API server's proxy, by an address without a secret in it. */
#include "kube/kube-impl.h"
#include "net/url.h"

#define SCHEME "kube:"
#define ASK_SECONDS 10.0

char *kube_address(const struct kube *k, const char *namespace, const char *pod, int port)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64 << 10);
    const char *const members[][2] = {{"config", k->first->config}, {"context", k->first->context}};

    tn_buf_printf(&out, SCHEME "%s/%s:%d", namespace, pod, port);
    for (size_t i = 0; i < TN_COUNT(members) && *k->first->config; i++) {
        tn_buf_printf(&out, "%c%s=", i ? '&' : '?', members[i][0]);
        tn_url_encode(&out, members[i][1], "/:");
    }
    return tn_buf_take(&out);
}

bool kube_is_inside(const struct kube *k)
{
    return !*k->first->config;
}

/* --- who was opened --------------------------------------------------------------------------- */

/* Every cluster that an address of this process has named; they are few and stay. */
static struct opened {
    struct opened *next;
    char *config, *context;
    struct kube *kube;
} * all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct kube *open_once(const char *config, const char *context, struct tn_error *err)
{
    const struct kube_options o = {.config = config, .context = *context ? context : NULL};
    struct opened *found = NULL;

    pthread_mutex_lock(&lock);
    for (struct opened *e = all; e && !found; e = e->next)
        if (strcmp(e->config, config) == 0 && strcmp(e->context, context) == 0)
            found = e;
    struct kube *k = found ? found->kube : kube_open(&o, err);
    if (k && !found) {
        found = tn_calloc(1, sizeof *found);
        *found = (struct opened){
            .next = all, .config = tn_strdup(config), .context = tn_strdup(context), .kube = k};
        all = found;
    }
    pthread_mutex_unlock(&lock);
    return k;
}

/* --- doors ------------------------------------------------------------------------------------ */

/* "NAMESPACE/POD:PORT": names as Kubernetes has them, so that they are a path as they are. */
static char *path_of(const char *text, size_t n)
{
    size_t namespace = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (namespace == 0 || text[namespace] != '/')
        return NULL;
    const char *pod = text + namespace + 1;
    size_t name = strspn(pod, "abcdefghijklmnopqrstuvwxyz0123456789-.");
    if (name == 0 || *pod == '.' || pod[name] != ':')
        return NULL;
    const char *port = pod + name + 1;
    size_t digits = strspn(port, "0123456789");
    if (digits == 0 || digits > 5 || port + digits != text + n)
        return NULL;
    return tn_asprintf("/api/v1/namespaces/%.*s/pods/%.*s:%.*s/proxy", (int)namespace, text,
                       (int)name, pod, (int)digits, port);
}

/* Whether it is the API server that does not know us: pods behind it answer 401, too. */
static bool is_refused(const struct kube_seat *seat, int64_t deadline)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(64 << 10);
    const struct tn_web_call call = {.target = "/version",
                                     .deadline = tn_deadline_within(ASK_SECONDS, deadline)};

    return tn_web_call(seat->web, &call, &answer, NULL) == 0 && answer.status == 401;
}

int kube_door(const char *address, bool refused, struct kube_door *out, int64_t deadline,
              struct tn_error *err)
{
    const char *start =
        strncmp(address, SCHEME, strlen(SCHEME)) == 0 ? address + strlen(SCHEME) : "";
    size_t n = strcspn(start, "?");
    const char *query = start[n] ? start + n + 1 : "", *config = "", *context = "";
    tn_autofree char *pairs = tn_calloc(1, TN_URL_PAIRS_MAX(strlen(query)) + 1);
    size_t used = tn_url_pairs(query, strlen(query), pairs);
    tn_autofree char *path = path_of(start, n);

    *out = (struct kube_door){0};
    if (!path)
        return tn_fail(err, TN_E_INVALID, "not an address: expected kube:NAMESPACE/POD:PORT");
    for (const char *name = pairs, *value; name < pairs + used; name = value + strlen(value) + 1) {
        value = name + strlen(name) + 1;
        config = strcmp(name, "config") == 0 ? value : config;
        context = strcmp(name, "context") == 0 ? value : context;
    }
    struct kube *k = open_once(config, context, err);
    struct kube_seat *seat = k ? kube_seat(k, NULL, deadline, err) : NULL;
    if (seat && refused && is_refused(seat, deadline)) {
        struct kube_seat *other = kube_seat(k, seat, deadline, err);
        kube_seat_give(k, seat);
        seat = other;
    }
    if (!seat)
        return -1;
    const char *host = strstr(k->first->server, "://") + 3;
    size_t length = strcspn(host, "/");
    out->kube = k;
    out->host = tn_strndup(host, length);
    out->base = tn_asprintf("%s%s", host + length, path);
    out->headers = tn_strdup(seat->headers);
    kube_seat_give(k, seat);
    return 0;
}

void kube_door_done(struct kube_door *door)
{
    free(door->host);
    free(door->base);
    kube_forget(door->headers);
}

int kube_dial(struct kube *k, int64_t deadline, struct tn_error *err)
{
    struct kube_seat *seat = kube_seat(k, NULL, deadline, err);

    if (!seat)
        return -1;
    int fd = tn_web_dial(seat->web, deadline, err);
    kube_seat_give(k, seat);
    return fd;
}
