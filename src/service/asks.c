#include "service/asks.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "gate/keeper-protocol.h"
#include "runtime/pending.h"
#include "security/judge.h"
#include "service/internal.h"
#include "service/proxy.h"

#define LISTEN_SECONDS 10.0

enum { LINE_MAX_BYTES = 512, QUESTIONS_MAX = 512, TENANT_QUESTIONS = 64 };

/* The keeper of one box. */
struct keeper {
    struct keeper *next;
    uint64_t number;
    char box[11];
    int fd;
    struct tn_buf line; /* so far */
    int lost;           /* how often since it was heard */
};

/* One host and port that connections of a box wait for. */
struct question {
    struct question *next;
    struct asks *all;
    uint64_t keeper; /* its number */
    char box[11], tenant[65], host[256];
    int port;
    int over;    /* an eventfd: nobody waits any more */
    bool refuse; /* there are too many: nobody is asked */
};

struct asks {
    struct tn_service *s;
    struct tn_judge *judge; /* of the runtime, or: */
    struct tn_judge *own;   /* where nothing else is judged, everything is asked */
    int epoll, end;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t ended; /* a question has */
    bool closing;
    uint64_t newest; /* number of a keeper */
    struct keeper *keepers;
    struct question *questions;
};

/* --- questions -------------------------------------------------------------------------------- */

static void question_free(struct question *q)
{
    struct asks *a = q->all;
    struct question **at = &a->questions;

    pthread_mutex_lock(&a->lock);
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    pthread_cond_broadcast(&a->ended);
    pthread_mutex_unlock(&a->lock);
    tn_close(q->over);
    free(q);
}

static void *answer(void *arg)
{
    struct question *q = arg;
    autobox struct box *b = box_find(q->all->s, NULL, q->box, NULL);

    struct pollfd over = {.fd = q->over, .events = POLLIN};
    /* What is over may be asked anew by now: that is another question. */
    if (b && (q->refuse || !act_network(b, q->all->judge, q->host, q->port, q->over)) &&
        !poll(&over, 1, 0))
        box_refuse(b, q->host, q->port);
    question_free(q);
    return NULL;
}

/* Under the lock: each is a thread, also one that is only refused, which may be a call over a
 * network; these are counted apart. */
static bool has_room(const struct asks *a, const char *tenant, bool refuse)
{
    size_t all = 0, its = 0;

    for (const struct question *q = a->questions; q; q = q->next) {
        all += q->refuse == refuse;
        its += q->refuse == refuse && strcmp(q->tenant, tenant) == 0;
    }
    return all < QUESTIONS_MAX && its < TENANT_QUESTIONS;
}

static void begin_question(struct asks *a, const struct keeper *k, const char *host, int port)
{
    autobox struct box *b = box_find(a->s, NULL, k->box, NULL);
    autoview struct box_view v = {0};
    pthread_t thread;

    if (!b)
        return;
    box_look(b, &v);
    struct question *q = tn_calloc(1, sizeof *q);
    q->all = a;
    q->keeper = k->number;
    q->port = port;
    snprintf(q->box, sizeof q->box, "%s", k->box);
    snprintf(q->host, sizeof q->host, "%s", host);
    snprintf(q->tenant, sizeof q->tenant, "%s", v.tenant);
    q->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&a->lock);
    q->refuse = !has_room(a, v.tenant, false);
    bool may = !a->closing && (!q->refuse || has_room(a, v.tenant, true));
    q->next = a->questions;
    a->questions = q;
    pthread_mutex_unlock(&a->lock);
    if (may && q->over >= 0 && tn_thread_start(&thread, answer, q) == 0) {
        pthread_detach(thread);
        return;
    }
    question_free(q); /* its gate refuses it when the time is over */
}

/* Under the lock.  host NULL: all of that keeper; keeper 0: all there are. */
static void end_questions(struct asks *a, uint64_t keeper, const char *host, int port)
{
    const uint64_t one = 1;

    for (struct question *q = a->questions; q; q = q->next)
        if ((!keeper || q->keeper == keeper) &&
            (!host || (strcmp(q->host, host) == 0 && q->port == port)))
            (void)!write(q->over, &one, sizeof one);
}

/* --- what keepers say ------------------------------------------------------------------------- */

/* The backend has lost the line to it, and dials again: told once, if that fails. */
static void take_loss(struct asks *a, struct keeper *k, const char *why)
{
    pthread_mutex_lock(&a->lock);
    end_questions(a, k->number, NULL, 0);
    pthread_mutex_unlock(&a->lock);
    if (++k->lost == 2)
        tn_log(TN_LOG_WARN, "nobody hears what the gate of a sandbox asks",
               tn_log_str("sandbox", k->box), tn_log_str("why", why));
}

static void take_line(struct asks *a, struct keeper *k, char *line)
{
    if (strncmp(line, TN_KEEPER_LOST, strlen(TN_KEEPER_LOST)) == 0) {
        take_loss(a, k, line + strlen(TN_KEEPER_LOST));
        return;
    }
    char *rest = NULL, *end = NULL, *word = strtok_r(line, " ", &rest);
    const char *host = strtok_r(NULL, " ", &rest), *port = strtok_r(NULL, " ", &rest);
    int number = port ? (int)strtol(port, &end, 10) : 0;

    number = end && *end ? 0 : number;
    k->lost = word && strcmp(word, "ok") == 0 ? 0 : k->lost;
    if (word && strcmp(word, "ask") == 0 && number > 0) {
        begin_question(a, k, host, number);
    } else if (word && strcmp(word, "over") == 0) {
        pthread_mutex_lock(&a->lock);
        end_questions(a, k->number, number > 0 ? host : NULL, number);
        pthread_mutex_unlock(&a->lock);
    }
}

/* False: it has nothing to say any more. */
static bool hear(struct asks *a, struct keeper *k)
{
    char bytes[4096];
    ssize_t n = recv(k->fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            tn_buf_putc(&k->line, bytes[i]);
            continue;
        }
        if (tn_buf_ok(&k->line)) {
            tn_autofree char *line = tn_strdup(tn_buf_str(&k->line));
            take_line(a, k, line);
        }
        tn_buf_reset(&k->line);
    }
    return true;
}

/* Under the lock. */
static void forget(struct asks *a, struct keeper *k)
{
    struct keeper **at = &a->keepers;

    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    end_questions(a, k->number, NULL, 0);
    tn_close(k->fd);
    tn_buf_done(&k->line);
    free(k);
}

static void *listen_to_all(void *arg)
{
    struct asks *a = arg;
    struct epoll_event events[64];

    for (;;) {
        int n = epoll_wait(a->epoll, events, TN_COUNT(events), -1);
        for (int i = 0; i < n; i++) {
            struct keeper *k = events[i].data.ptr;
            if (!k)
                return NULL;
            if (hear(a, k))
                continue;
            pthread_mutex_lock(&a->lock);
            forget(a, k);
            pthread_mutex_unlock(&a->lock);
        }
    }
}

/* --- which keepers ---------------------------------------------------------------------------- */

/* One that has closed counts no more, also when its thread has not heard of it. */
static bool is_followed(struct asks *a, const char *box)
{
    bool found = false;
    char byte;

    pthread_mutex_lock(&a->lock);
    for (const struct keeper *k = a->keepers; k && !found; k = k->next)
        found = strcmp(k->box, box) == 0 && recv(k->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
    pthread_mutex_unlock(&a->lock);
    return found;
}

/* What a service that was killed was asked: its connections ended with it. */
static int withdraw(struct tn_pending *p, void *ctx)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct box *b = ctx;

    if (p->action.type == TN_ACTION_NETWORK && tn_pending_claim(box_directory(b), p->id))
        act_rejected(b, p, "The connection does not wait any more.", &out);
    return 0;
}

void asks_follow(struct asks *a, struct box *b, struct tn_sandbox *sb)
{
    struct tn_error err = {0};

    if (!tn_sandbox_spec(sb)->ask || is_followed(a, box_id(b)))
        return;
    tn_pending_each(box_directory(b), withdraw, b);
    int fd = tn_sandbox_listen(sb, tn_deadline_in(LISTEN_SECONDS), &err);
    if (fd < 0) {
        if (err.code != TN_E_CONFLICT)
            tn_log(TN_LOG_WARN, "nobody hears what the gate of a sandbox asks",
                   tn_log_str("sandbox", box_id(b)), tn_log_str("why", err.text));
        return;
    }
    struct keeper *k = tn_calloc(1, sizeof *k);
    *k = (struct keeper){.fd = fd, .line = TN_BUF_INIT(LINE_MAX_BYTES)};
    snprintf(k->box, sizeof k->box, "%s", box_id(b));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = k};
    pthread_mutex_lock(&a->lock);
    k->number = ++a->newest;
    k->next = a->keepers;
    a->keepers = k;
    if (a->closing || epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &event))
        forget(a, k);
    pthread_mutex_unlock(&a->lock);
}

/* --- its life --------------------------------------------------------------------------------- */

struct asks *asks_new(struct tn_service *s, struct tn_error *err)
{
    struct asks *a = tn_calloc(1, sizeof *a);
    struct epoll_event end = {.events = EPOLLIN};

    a->s = s;
    pthread_mutex_init(&a->lock, NULL);
    tn_cond_init(&a->ended);
    a->judge = tn_runtime_judge(s->rt);
    if (!a->judge)
        a->judge = a->own = tn_judge_new(&tn_runtime_host(s->rt)->config->security, err);
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    a->end = eventfd(0, EFD_CLOEXEC);
    a->running = a->judge && a->epoll >= 0 && a->end >= 0 &&
                 !epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->end, &end) &&
                 !tn_thread_start(&a->thread, listen_to_all, a);
    if (a->running)
        return a;
    if (a->judge)
        tn_fail_errno(err, errno, "a thread that hears what gates ask");
    asks_free(a);
    return NULL;
}

bool asks_end(struct asks *a, int64_t deadline)
{
    const uint64_t one = 1;
    struct timespec until = tn_timespec(deadline);
    int late = 0;

    if (!a)
        return true;
    if (a->running && write(a->end, &one, sizeof one) == sizeof one)
        pthread_join(a->thread, NULL);
    a->running = false;
    pthread_mutex_lock(&a->lock);
    a->closing = true;
    while (a->keepers)
        forget(a, a->keepers);
    end_questions(a, 0, NULL, 0);
    while (a->questions && !late)
        late = pthread_cond_timedwait(&a->ended, &a->lock, &until);
    bool ended = !a->questions;
    pthread_mutex_unlock(&a->lock);
    return ended;
}

void asks_free(struct asks *a)
{
    if (!a)
        return;
    tn_judge_free(a->own);
    tn_close(a->epoll);
    tn_close(a->end);
    pthread_cond_destroy(&a->ended);
    pthread_mutex_destroy(&a->lock);
    free(a);
}
