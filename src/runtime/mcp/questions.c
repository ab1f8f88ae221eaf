#include "runtime/mcp/questions.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "mcp/meta.h"

enum { UNDER_WAY_MAX = 8, ANSWER_MAX = 1 << 20, MOMENT_MS = 200 };

/* Several servers may ask at once; a person is asked one thing at a time. */
static pthread_mutex_t person = PTHREAD_MUTEX_INITIALIZER;

struct question {
    struct mcp_questions *all;
    struct question *next;
    pthread_t thread;
    struct tn_mcp_peer *peer;
    struct tn_json *id, *params; /* its own */
    bool answered;               /* its thread has nothing more to do */
};

struct mcp_questions {
    const struct mcp_server *server;
    int stop;
    pthread_mutex_t lock; /* of what follows */
    struct question *first;
    int count;
    bool stopped;
};

/* Until the others have their answers, or nobody wants ours any more.  (A lock with a deadline on
 * this clock, pthread_mutex_clocklock, is none that ThreadSanitizer knows.) */
static int wait_for_person(int stop, struct tn_error *err)
{
    struct pollfd over = {.fd = stop, .events = POLLIN};

    while (pthread_mutex_trylock(&person) != 0) {
        if (poll(&over, 1, MOMENT_MS) > 0)
            return tn_fail(err, TN_E_GONE, "nobody waits for the answer any more");
    }
    return 0;
}

static int ask(const struct mcp_server *server, const struct tn_json *params, int stop,
               struct tn_jw *w, struct tn_error *err)
{
    const char *mode = tn_json_get_str(params, "mode", "form");

    if (strcmp(mode, "form") != 0)
        return tn_fail(err, TN_E_UNSUPPORTED, "questions of the kind '%.40s' are not answered",
                       mode);
    if (wait_for_person(stop, err) < 0)
        return -1;
    int result = server->question(server->label, params, stop, w, server->question_ctx, err);
    pthread_mutex_unlock(&person);
    return result;
}

/* --- in the middle of a call ------------------------------------------------------------------ */

struct mcp_questions *mcp_questions_new(const struct mcp_server *server)
{
    struct mcp_questions *q = tn_calloc(1, sizeof *q);

    q->server = server;
    q->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&q->lock, NULL);
    return q;
}

static void *answer(void *arg)
{
    struct question *question = arg;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(ANSWER_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_error err = {0};

    if (ask(question->all->server, question->params, question->all->stop, &w, &err) < 0)
        tn_mcp_answer(question->peer, question->id, TN_RPC_INTERNAL_ERROR, err.text, NULL);
    else
        tn_mcp_answer(question->peer, question->id, 0, tn_buf_str(&text), NULL);
    pthread_mutex_lock(&question->all->lock);
    question->answered = true;
    pthread_mutex_unlock(&question->all->lock);
    return NULL;
}

static void question_free(struct question *question)
{
    pthread_join(question->thread, NULL);
    tn_json_free(question->id);
    tn_json_free(question->params);
    free(question);
}

/* Under the lock: those that were answered are over. */
static void forget_answered(struct mcp_questions *q)
{
    for (struct question **at = &q->first; *at;) {
        struct question *one = *at;
        if (!one->answered) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        q->count--;
        question_free(one);
    }
}

void mcp_questions_take(struct mcp_questions *q, struct tn_mcp_peer *peer,
                        const struct tn_rpc *message)
{
    struct question *question = NULL;

    pthread_mutex_lock(&q->lock);
    forget_answered(q);
    if (q->server->question && !q->stopped && q->stop >= 0 && q->count < UNDER_WAY_MAX &&
        strcmp(message->method, "elicitation/create") == 0) {
        question = tn_calloc(1, sizeof *question);
        *question = (struct question){.all = q,
                                      .next = q->first,
                                      .peer = peer,
                                      .id = tn_json_copy(message->id),
                                      .params = tn_json_copy(message->params)};
        if (tn_thread_start(&question->thread, answer, question) == 0) {
            q->first = question;
            q->count++;
        } else {
            tn_json_free(question->id);
            tn_json_free(question->params);
            free(TN_TAKE_PTR(question));
        }
    }
    pthread_mutex_unlock(&q->lock);
    if (!question)
        tn_mcp_answer(peer, message->id, TN_RPC_METHOD_NOT_FOUND, "Method not found", NULL);
}

void mcp_questions_stop(struct mcp_questions *q)
{
    uint64_t one = 1;

    pthread_mutex_lock(&q->lock);
    q->stopped = true;
    struct question *all = TN_TAKE_PTR(q->first);
    pthread_mutex_unlock(&q->lock);
    (void)!write(q->stop, &one, sizeof one);
    for (struct question *next; all; all = next) {
        next = all->next;
        question_free(all);
    }
}

void mcp_questions_free(struct mcp_questions *q)
{
    tn_close(q->stop);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

/* --- as a result ------------------------------------------------------------------------------ */

struct inputs {
    const struct mcp_server *server;
    int late; /* readable at the deadline */
    struct tn_jw *w;
    struct tn_error *err;
};

static int put_input(const char *key, struct tn_json *request, void *ctx)
{
    struct inputs *in = ctx;
    const char *method = tn_json_get_str(request, "method", "");

    if (!in->server->question || strcmp(method, "elicitation/create") != 0)
        return tn_fail(in->err, TN_E_UNSUPPORTED,
                       "the tool asks for '%.60s', and there is nobody to answer", method);
    tn_jw_key(in->w, key);
    int result = ask(in->server, tn_json_get(request, "params"), in->late, in->w, in->err);
    if (result < 0 && poll(&(struct pollfd){.fd = in->late, .events = POLLIN}, 1, 0) > 0)
        return tn_fail(in->err, TN_E_TIMEOUT, "what the tool asks was not answered in time");
    return result;
}

/* A descriptor that is readable from the deadline on. */
static int open_timer(int64_t deadline, struct tn_error *err)
{
    const struct itimerspec at = {.it_value = tn_timespec(deadline)};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

    if (fd >= 0 && (deadline == TN_NEVER || timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) == 0))
        return fd;
    tn_fail_errno(err, errno, "timerfd");
    tn_close(fd);
    return -1;
}

int mcp_put_inputs(const struct mcp_server *server, const struct tn_json *result, int64_t deadline,
                   struct tn_jw *w, struct tn_error *err)
{
    tn_autofd int late = open_timer(deadline, err);
    const struct tn_json *requests = tn_json_get(result, "inputRequests");
    const struct tn_json *state = tn_json_get(result, "requestState");
    struct inputs in = {.server = server, .late = late, .w = w, .err = err};

    if (late < 0)
        return -1;
    if (tn_json_count(requests) > TN_MCP_INPUTS_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "the tool asks more than %d things", TN_MCP_INPUTS_MAX);
    if (tn_json_count(requests)) {
        tn_jw_key(w, "inputResponses");
        tn_jw_object(w);
        if (tn_json_each(requests, put_input, &in) != 0)
            return -1;
        tn_jw_object_end(w);
    }
    if (state) {
        tn_jw_key(w, "requestState");
        tn_jw_tree(w, state);
    }
    return 0;
}
