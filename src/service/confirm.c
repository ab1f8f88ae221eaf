#include "service/confirm.h"

#include <pthread.h>

#include "base/hmac.h"
#include "base/log.h"
#include "base/thread.h"
#include "runtime/pending.h"
#include "service/internal.h"
#include "web/web.h"

/* The hook has this long to say that it has it; it is told once more if it does not. */
#define HOOK_SECONDS 10.0
enum { HOOK_TRIES = 3, HOOK_BODY_MAX = 16 << 20, HOOK_ANSWER_MAX = 64 << 10 };

/* One message; all of it is its own, for it may outlive the service.  What it says is read when it
 * is sent: an action may be large, and answered by then. */
struct message {
    struct message *next; /* sent after it, by the same thread */
    char *url, *secret, *box, *name, *tenant, *directory;
    int64_t id;
    bool repeat;
    struct tn_buf body;
};

static struct message *message_new(struct box *b, int64_t id, bool repeat)
{
    const struct tn_service_options *options = box_service(b)->options;
    autoview struct box_view v = {0};
    struct message *m = tn_malloc(sizeof *m);

    box_look(b, &v);
    *m = (struct message){.url = tn_strdup(options->confirm_url),
                          .secret = tn_strdup_or_null(options->confirm_secret),
                          .box = tn_strdup(box_id(b)),
                          .name = tn_strdup_or_null(v.name),
                          .tenant = tn_strdup_or_null(v.tenant),
                          .directory = tn_strdup(box_directory(b)),
                          .id = id,
                          .repeat = repeat,
                          .body = TN_BUF_INIT(HOOK_BODY_MAX)};
    return m;
}

static void message_free(struct message *m)
{
    free(m->url);
    free(m->secret);
    free(m->box);
    free(m->name);
    free(m->tenant);
    free(m->directory);
    tn_buf_done(&m->body);
    free(m);
}

static void put_whose(const char *box, const char *name, const char *tenant, struct tn_jw *w)
{
    tn_jw_kstr(w, "sandbox", box);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "tenant", tenant);
}

void confirm_put(struct box *b, const char *directory, const struct tn_pending *p, struct tn_jw *w)
{
    autoview struct box_view v = {0};

    box_look(b, &v);
    tn_jw_object(w);
    put_whose(box_id(b), v.name, v.tenant, w);
    tn_pending_put(directory, p, w);
    tn_jw_object_end(w);
}

/* False: somebody has answered it, or nobody may any more. */
static bool message_write(struct message *m)
{
    struct tn_jw w = tn_jw(&m->body);
    struct tn_pending p;

    if (tn_pending_load(m->directory, m->id, &p, NULL))
        return false;
    bool waits = !tn_pending_is_late(&p);
    tn_jw_object(&w);
    put_whose(m->box, m->name, m->tenant, &w);
    tn_jw_kbool(&w, "repeat", m->repeat);
    tn_pending_put(m->directory, &p, &w);
    tn_jw_object_end(&w);
    tn_pending_done(&p);
    return waits && tn_buf_ok(&m->body);
}

/* Where the path of an address begins; its end when it has none. */
static const char *path_of(const char *url)
{
    const char *host = strstr(url, "://");

    host = host ? host + 3 : url;
    return host + strcspn(host, "/?");
}

/* "X-Tendon-Signature: t=SECONDS,v1=HEX": HMAC-SHA256 of "SECONDS.BODY" with the operator's secret.
 */
static char *sign(const struct message *m)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(HOOK_BODY_MAX + 64);
    unsigned char mac[TN_SHA256_BYTES];
    char hex[2 * TN_SHA256_BYTES + 1];
    long long now = (long long)time(NULL);

    tn_buf_printf(&text, "%lld.", now);
    tn_buf_add(&text, tn_buf_str(&m->body), m->body.len);
    tn_hmac_sha256(m->secret, strlen(m->secret), tn_buf_str(&text), text.len, mac);
    for (size_t i = 0; i < sizeof mac; i++)
        snprintf(hex + 2 * i, 3, "%02x", mac[i]);
    return tn_asprintf("X-Tendon-Signature: t=%lld,v1=%s", now, hex);
}

static int send_once(struct tn_web *web, const struct message *m, struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(HOOK_ANSWER_MAX);
    tn_autofree char *signature = m->secret ? sign(m) : NULL;
    const char *path = path_of(m->url);
    const char *const headers[] = {signature, NULL};
    const struct tn_web_call call = {.method = "POST",
                                     .target = *path == '/' ? path : "/",
                                     .headers = headers,
                                     .type = "application/json",
                                     .body = tn_buf_str(&m->body),
                                     .body_len = m->body.len,
                                     .deadline = tn_deadline_in(HOOK_SECONDS)};

    if (tn_web_call(web, &call, &answer, err) < 0)
        return -1;
    return answer.status >= 200 && answer.status < 300
               ? 0
               : tn_fail(err, TN_E_PEER, "it answered %d", answer.status);
}

static void deliver(struct message *m)
{
    const char *path = path_of(m->url);
    tn_autofree char *base = tn_strndup(m->url, (size_t)(path - m->url));
    const struct tn_web_options options = {.base = base};
    struct tn_error err = {0};
    tn_autoweb struct tn_web *web = tn_web_new(&options, &err);
    int failed = -1;

    for (int i = 0; web && failed && i < HOOK_TRIES; i++)
        failed = send_once(web, m, &err);
    if (failed)
        tn_log(TN_LOG_WARN, "service.confirm_url was not told of an action that waits",
               tn_log_str("sandbox", m->box), tn_log_str("why", err.text));
}

static void *tell(void *arg)
{
    for (struct message *m = arg, *next; m; m = next) {
        next = m->next;
        if (message_write(m))
            deliver(m);
        message_free(m);
    }
    return NULL;
}

/* All of them, in order, on one thread. */
static void start_telling(struct message *first)
{
    pthread_t thread;

    if (!first)
        return;
    if (!tn_thread_start(&thread, tell, first)) {
        pthread_detach(thread);
        return;
    }
    tn_log(TN_LOG_WARN, "service.confirm_url was not told of an action that waits",
           tn_log_str("sandbox", first->box), tn_log_str("why", "no thread"));
    for (struct message *m = first, *next; m; m = next) {
        next = m->next;
        message_free(m);
    }
}

static bool has_hook(const struct tn_service *s)
{
    return s->options->confirm_url && *s->options->confirm_url;
}

void confirm_tell(struct box *b, const struct tn_pending *p)
{
    if (has_hook(box_service(b)))
        start_telling(message_new(b, p->id, false));
}

struct repeats {
    struct box *box;
    struct message *first, **last;
};

static int add_repeat(struct tn_pending *p, void *ctx)
{
    struct repeats *r = ctx;

    *r->last = message_new(r->box, p->id, true);
    r->last = &(*r->last)->next;
    return 0;
}

static int add_box(struct box *b, void *ctx)
{
    struct repeats *r = ctx;

    r->box = b;
    tn_pending_each(box_directory(b), add_repeat, r);
    return 0;
}

void confirm_tell_again(struct tn_service *s)
{
    struct repeats r = {.last = &r.first};

    if (!has_hook(s))
        return;
    box_each(s, &(struct box_filter){0}, add_box, &r, NULL);
    start_telling(r.first);
}
