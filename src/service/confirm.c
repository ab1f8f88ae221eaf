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

void confirm_put(struct box *b, const char *directory, const struct tn_pending *p, struct tn_jw *w)
{
    autoview struct box_view v = {0};

    box_look(b, &v);
    tn_jw_object(w);
    tn_jw_kstr(w, "sandbox", box_id(b));
    tn_jw_kstr(w, "name", v.name);
    tn_jw_kstr(w, "tenant", v.tenant);
    tn_pending_put(directory, p, w);
    tn_jw_object_end(w);
}

/* One message; all of it is its own, for it may outlive the service. */
struct message {
    char *url, *secret, *box;
    struct tn_buf body;
};

static void message_free(struct message *m)
{
    free(m->url);
    free(m->secret);
    free(m->box);
    tn_buf_done(&m->body);
    free(m);
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

static void *tell(void *arg)
{
    struct message *m = arg;
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
    message_free(m);
    return NULL;
}

void confirm_tell(struct box *b, const char *directory, const struct tn_pending *p)
{
    const struct tn_service_options *options = box_service(b)->options;
    pthread_t thread;

    if (!options->confirm_url || !*options->confirm_url)
        return;
    struct message *m = tn_calloc(1, sizeof *m);
    m->url = tn_strdup(options->confirm_url);
    m->secret = tn_strdup_or_null(options->confirm_secret);
    m->box = tn_strdup(box_id(b));
    m->body = (struct tn_buf)TN_BUF_INIT(HOOK_BODY_MAX);
    struct tn_jw w = tn_jw(&m->body);
    confirm_put(b, directory, p, &w);
    if (!tn_buf_ok(&m->body) || tn_thread_start(&thread, tell, m))
        message_free(m);
    else
        pthread_detach(thread);
}
