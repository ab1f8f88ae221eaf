/* The operator's hook: a few threads tell it of actions that wait, in the order in which they began
 * to; one for all that waited when the service began.  What the hook answers at once is carried out
 * by a few others, of which a tenant has its share: commands may take long.  What they have not
 * come to still waits, and anybody may answer it. */
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/hmac.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/thread.h"
#include "runtime/pending.h"
#include "service/audit.h"
#include "service/confirm.h"
#include "service/internal.h"
#include "service/proxy.h"
#include "service/purses.h"
#include "web/web.h"

/* The hook has this long to say that it has it; it is told once more if it does not. */
#define HOOK_SECONDS 10.0
#define NOT_CARRIED_OUT "an action that service.confirm_url answered was not carried out"
#define UNTOLD "service.confirm_url was not told of an action that waits"
enum { HOOK_TRIES = 3, HOOK_BODY_MAX = 16 << 20, HOOK_ANSWER_MAX = 64 << 10 };
enum { WORKERS_MAX = 16, TENANT_WORKERS = 4 }; /* of a line; of those that carry out */

/* Messages in their order, and the threads that go through them. */
struct line {
    struct message *first, **last;
    struct message *busy; /* those that somebody is at */
    void *(*work)(void *hook);
    const char *lost;      /* what is said of one for which there is no thread */
    size_t workers, share; /* share: the most that are at those of one tenant */
};

struct hook {
    struct tn_service *s;
    int end;              /* an eventfd: nobody is told any more */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t ended; /* a thread has */
    size_t threads;       /* all */
    bool closing;
    struct line told, answered; /* what is to be told, and to be carried out */
};

/* One action that waits.  What is said of it is read when it is sent: it may be large, and answered
 * by then. */
struct message {
    struct message *next; /* told after it */
    struct hook *hook;
    char *box, *tenant;
    int64_t id;
    bool repeat;
    struct tn_buf body; /* while it is told, in its tenant's purse */
    struct confirm_answer answer;
};

static struct message *message_new(struct hook *h, const struct box *b, int64_t id, bool repeat)
{
    struct message *m = tn_malloc(sizeof *m);

    *m = (struct message){.hook = h,
                          .box = tn_strdup(box_id(b)),
                          .tenant = tn_strdup(box_tenant(b)),
                          .id = id,
                          .repeat = repeat};
    return m;
}

static void message_free(struct message *m)
{
    tn_fields_done(&confirm_answer_fields, &m->answer);
    free(m->box);
    free(m->tenant);
    free(m);
}

static void complain(const struct message *m, const char *what, const struct tn_error *why)
{
    tn_log(TN_LOG_WARN, what, tn_log_str("sandbox", m->box), tn_log_str("why", why->text));
}

/* --- threads ---------------------------------------------------------------------------------- */

static void leave(struct hook *h)
{
    pthread_mutex_lock(&h->lock);
    h->threads--;
    pthread_cond_broadcast(&h->ended);
    pthread_mutex_unlock(&h->lock);
}

/* False: there is none, and arg is the caller's. */
static bool start(struct hook *h, void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    pthread_mutex_lock(&h->lock);
    bool may = !h->closing;
    h->threads += may;
    pthread_mutex_unlock(&h->lock);
    if (may && tn_thread_start(&thread, fn, arg) == 0) {
        pthread_detach(thread);
        return true;
    }
    if (may)
        leave(h);
    return false;
}

static bool may_take(const struct line *l, const struct message *m)
{
    size_t count = 0;

    for (const struct message *other = l->busy; other; other = other->next)
        count += strcmp(other->tenant, m->tenant) == 0;
    return count < l->share;
}

/* The next one; NULL: there is none, or no time for it, and one worker less.  Those whose tenant
 * has its share are left to the workers that it has. */
static struct message *take_next(struct hook *h, struct line *l)
{
    struct message **at = &l->first, *m = NULL;

    pthread_mutex_lock(&h->lock);
    while (!h->closing && *at && !may_take(l, *at))
        at = &(*at)->next;
    if (h->closing || !*at) {
        l->workers--;
    } else {
        m = *at;
        if (!(*at = m->next))
            l->last = at;
        m->next = l->busy;
        l->busy = m;
    }
    pthread_mutex_unlock(&h->lock);
    return m;
}

/* Its worker is done with it. */
static void give_back(struct hook *h, struct line *l, struct message *m)
{
    struct message **at = &l->busy;

    pthread_mutex_lock(&h->lock);
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    m->next = NULL;
    pthread_mutex_unlock(&h->lock);
}

static void free_all(struct message *m, const char *why)
{
    const struct tn_error none = {.text = "no thread"};

    for (struct message *next; m; m = next) {
        next = m->next;
        if (why)
            complain(m, why, &none);
        message_free(m);
    }
}

/* All of them, in order; one more worker helps where there may be one. */
static void line_up(struct hook *h, struct line *l, struct message *first, struct message **last)
{
    if (!first)
        return;
    pthread_mutex_lock(&h->lock);
    *l->last = first;
    l->last = last;
    bool may = l->workers < WORKERS_MAX;
    l->workers += may;
    pthread_mutex_unlock(&h->lock);
    if (!may || start(h, l->work, h))
        return;
    pthread_mutex_lock(&h->lock);
    /* those who work have theirs, too */
    struct message *m = --l->workers || h->closing ? NULL : l->first;
    if (m) {
        l->first = NULL;
        l->last = &l->first;
    }
    pthread_mutex_unlock(&h->lock);
    free_all(m, l->lost);
}

/* --- its answer ------------------------------------------------------------------------------- */

/* "t=SECONDS,v1=HEX": HMAC-SHA256 of "SECONDS.BODY" with the operator's secret; of an answer, of
 * "SECONDS.SANDBOX.ID.BODY". */
static char *sign(const struct message *m, long long moment, const char *of,
                  const struct tn_buf *body)
{
    tn_autofree char *head = tn_asprintf("%lld.%s", moment, of);
    const char *secret = m->hook->s->options->confirm_secret;
    unsigned char mac[TN_SHA256_BYTES];
    char hex[2 * TN_SHA256_BYTES + 1];

    tn_hmac_sha256_pair(secret, strlen(secret), head, tn_buf_str(body), body->len, mac);
    for (size_t i = 0; i < sizeof mac; i++)
        snprintf(hex + 2 * i, 3, "%02x", mac[i]);
    return tn_asprintf("t=%lld,v1=%s", moment, hex);
}

static int check_signature(const struct message *m, long long moment,
                           const struct tn_web_answer *answer, struct tn_error *err)
{
    tn_autofree char *given = tn_web_answer_header(answer, "x-tendon-signature");
    tn_autofree char *of = tn_asprintf("%s.%lld.", m->box, (long long)m->id);
    tn_autofree char *right = sign(m, moment, of, &answer->body);

    return given && tn_same_secret(given, right)
               ? 0
               : tn_fail(err, TN_E_DENIED, "it is not signed for this action and this request");
}

/* Whether it answers: most say only that they have it, in words of their own. */
static bool is_answer(const struct tn_web_answer *answer, struct tn_json **tree)
{
    return answer->status == 200 &&
           tn_json_parse(tn_buf_str(&answer->body), answer->body.len, tree, NULL) == 0 &&
           tn_json_has(*tree, "answer");
}

/* moment: of the signature that it was told with; 0: none, and nothing that it says counts. */
static void read_answer(struct message *m, long long moment, const struct tn_web_answer *answer)
{
    tn_autojson struct tn_json *tree = NULL;
    struct confirm_answer a;
    struct tn_error err = {0};

    if (!moment || !is_answer(answer, &tree))
        return;
    tn_fields_defaults(&confirm_answer_fields, &a);
    if (check_signature(m, moment, answer, &err) ||
        tn_fields_refuse_unknown(&confirm_answer_fields, tree, &err) ||
        tn_fields_from_json(&confirm_answer_fields, &a, tree, &err) ||
        tn_fields_check(&confirm_answer_fields, &a, &err)) {
        complain(m, "the answer of service.confirm_url does not count", &err);
        tn_fields_done(&confirm_answer_fields, &a);
        return;
    }
    m->answer = a;
}

/* Before it is carried out, or after it was not; -1: there is no line. */
static int note(const struct message *m, const char *what, const struct tn_error *why)
{
    const struct audit_entry entry = {.what = what,
                                      .box = m->box,
                                      .result = tn_code_row(why ? why->code : TN_OK)->name,
                                      .detail = why ? why->text : "service.confirm_url"};

    return audit_write(m->hook->s->audit, &entry, NULL);
}

/* Once for all: somebody else may have answered it by now. */
static void answer(const struct message *m, struct box *b)
{
    struct purses *purses = m->hook->s->purses;
    const char *what = confirm_says_yes(&m->answer) ? "action.confirm" : "action.reject";
    struct tn_error err = {0};
    struct tn_pending p;

    if (confirm_take(b, NULL, m->id, &m->answer, &p, &err)) {
        note(m, "action.answer", &err);
        return;
    }
    struct tn_buf out = {.max = OBSERVATION_MAX, .purse = purse_get(purses, box_tenant(b))};
    struct tn_purse *purse = out.purse;
    if (note(m, what, NULL))
        confirm_unnoted(b, &p, &out);
    else if (confirm_answer(b, &p, &m->answer, NULL, &out, &err) < 0)
        complain(m, NOT_CARRIED_OUT, &err);
    tn_buf_done(&out);
    purse_release(purses, purse);
    tn_pending_done(&p);
}

static void carry_out_one(const struct message *m)
{
    autobox struct box *b = box_find(m->hook->s, NULL, m->box, NULL);

    if (b)
        answer(m, b);
}

static void *carry_out(void *arg)
{
    struct hook *h = arg;

    for (struct message *m; (m = take_next(h, &h->answered)); message_free(m)) {
        carry_out_one(m);
        give_back(h, &h->answered, m);
    }
    leave(h);
    return NULL;
}

/* --- how it is told --------------------------------------------------------------------------- */

/* False: somebody has answered it, or nobody may any more; or it is too large. */
static bool message_write(struct message *m, struct box *b)
{
    const struct tn_error why = {.text = "it is too large, or there is no memory for it"};
    struct tn_jw w = tn_jw(&m->body);
    struct tn_pending p;

    if (tn_pending_load(box_directory(b), m->id, &p, NULL))
        return false;
    bool waits = !tn_pending_is_late(&p);
    tn_jw_object(&w);
    confirm_put(b, &p, &w);
    tn_jw_kbool(&w, "repeat", m->repeat);
    tn_jw_object_end(&w);
    tn_pending_done(&p);
    if (waits && !tn_buf_ok(&m->body))
        complain(m, UNTOLD, &why);
    return waits && tn_buf_ok(&m->body);
}

/* Where the path of an address begins; its end when it has none. */
static const char *path_of(const char *url)
{
    const char *host = strstr(url, "://");

    host = host ? host + 3 : url;
    return host + strcspn(host, "/?");
}

static int send_once(struct tn_web *web, struct message *m, struct tn_error *err)
{
    const struct tn_service_options *options = m->hook->s->options;
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(HOOK_ANSWER_MAX);
    bool keyed = options->confirm_secret && *options->confirm_secret;
    long long moment = keyed ? (long long)time(NULL) : 0;
    tn_autofree char *signature = moment ? sign(m, moment, "", &m->body) : NULL;
    tn_autofree char *header = signature ? tn_asprintf("X-Tendon-Signature: %s", signature) : NULL;
    const char *path = path_of(options->confirm_url);
    const char *const headers[] = {header, NULL};
    const struct tn_web_call call = {.method = "POST",
                                     .target = *path == '/' ? path : "/",
                                     .headers = headers,
                                     .type = "application/json",
                                     .body = tn_buf_str(&m->body),
                                     .body_len = m->body.len,
                                     .cancel = m->hook->end,
                                     .deadline = tn_deadline_in(HOOK_SECONDS)};

    if (tn_web_call(web, &call, &answer, err) < 0)
        return -1;
    if (answer.status < 200 || answer.status >= 300)
        return tn_fail(err, TN_E_PEER, "it answered %d", answer.status);
    read_answer(m, moment, &answer);
    return 0;
}

static void deliver(struct message *m)
{
    const char *url = m->hook->s->options->confirm_url, *path = path_of(url);
    tn_autofree char *base = tn_strndup(url, (size_t)(path - url));
    const struct tn_web_options options = {.base = base};
    struct tn_error err = {0};
    tn_autoweb struct tn_web *web = tn_web_new(&options, &err);
    int failed = -1;

    for (int i = 0; web && failed && i < HOOK_TRIES && err.code != TN_E_GONE; i++)
        failed = send_once(web, m, &err);
    if (failed)
        complain(m, UNTOLD, &err);
}

static void tell_one(struct message *m)
{
    struct purses *purses = m->hook->s->purses;
    autobox struct box *b = box_find(m->hook->s, NULL, m->box, NULL);

    if (!b)
        return;
    struct tn_purse *purse = purse_get(purses, box_tenant(b));
    m->body = (struct tn_buf){.max = HOOK_BODY_MAX, .purse = purse};
    if (message_write(m, b))
        deliver(m);
    tn_buf_done(&m->body);
    purse_release(purses, purse);
}

static void *tell(void *arg)
{
    struct hook *h = arg;

    for (struct message *m; (m = take_next(h, &h->told));) {
        tell_one(m);
        bool yes = m->answer.answer && confirm_says_yes(&m->answer);
        if (m->answer.answer && !yes) /* nothing runs */
            carry_out_one(m);
        give_back(h, &h->told, m);
        if (yes)
            line_up(h, &h->answered, m, &m->next);
        else
            message_free(m);
    }
    leave(h);
    return NULL;
}

static bool is_set(const struct hook *h)
{
    return h->s->options->confirm_url && *h->s->options->confirm_url;
}

void hook_tell(struct hook *h, struct box *b, const struct tn_pending *p)
{
    if (!is_set(h))
        return;
    struct message *m = message_new(h, b, p->id, false);
    line_up(h, &h->told, m, &m->next);
}

struct repeats {
    struct hook *hook;
    struct box *box;
    struct message *first, **last;
};

static int add_repeat(struct tn_pending *p, void *ctx)
{
    struct repeats *r = ctx;

    *r->last = message_new(r->hook, r->box, p->id, true);
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

void hook_tell_again(struct hook *h)
{
    struct repeats r = {.hook = h, .last = &r.first};

    if (!is_set(h))
        return;
    box_each(h->s, &(struct box_filter){0}, add_box, &r, NULL);
    line_up(h, &h->told, r.first, r.last);
}

/* --- its life --------------------------------------------------------------------------------- */

struct hook *hook_new(struct tn_service *s, struct tn_error *err)
{
    struct hook *h = tn_calloc(1, sizeof *h);

    h->s = s;
    h->told =
        (struct line){.last = &h->told.first, .work = tell, .lost = UNTOLD, .share = WORKERS_MAX};
    h->answered = (struct line){.last = &h->answered.first,
                                .work = carry_out,
                                .lost = NOT_CARRIED_OUT,
                                .share = TENANT_WORKERS};
    pthread_mutex_init(&h->lock, NULL);
    tn_cond_init(&h->ended);
    h->end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->end >= 0)
        return h;
    tn_fail_errno(err, errno, "no descriptor for the hook");
    hook_free(h);
    return NULL;
}

bool hook_end(struct hook *h, int64_t deadline)
{
    const uint64_t one = 1;
    struct timespec until = tn_timespec(deadline);
    int late = 0;

    if (!h)
        return true;
    (void)!write(h->end, &one, sizeof one);
    pthread_mutex_lock(&h->lock);
    h->closing = true;
    while (h->threads && !late)
        late = pthread_cond_timedwait(&h->ended, &h->lock, &until);
    bool ended = !h->threads;
    pthread_mutex_unlock(&h->lock);
    return ended;
}

void hook_free(struct hook *h)
{
    if (!h)
        return;
    free_all(h->told.first, NULL);
    free_all(h->answered.first, NULL);
    tn_close(h->end);
    pthread_cond_destroy(&h->ended);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
