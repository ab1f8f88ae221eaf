#include "hand/browser/cdp.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "hand/helper.h"

enum { READ_PIECE = 256 << 10, MESSAGE_MAX = 256 << 20, COMMAND_MAX = 64 << 20 };
/* A browser that does not take a command for so long has hung. */
#define WRITE_SECONDS 5.0

/* A command without its answer yet; on the stack of who waits, or on the heap when posted. */
struct pending {
    int64_t id;
    const char *session;       /* "" for the browser itself */
    bool posted;               /* nobody waits */
    tn_cdp_answer_fn answered; /* posted: whom to tell, or NULL */
    void *ctx;
    bool done;
    char *text; /* the whole answer, NULL when there is an error instead */
    size_t len;
    struct tn_error err;
    struct pending *next;
};

struct tn_cdp {
    struct tn_helper *helper;
    const struct tn_cdp_event *events;
    void (*ended)(void *ctx);
    void *ctx;
    pthread_t reader;
    int quit;               /* eventfd */
    pthread_mutex_t lock;   /* of all that follows */
    pthread_cond_t changed; /* an answer is there, or the pipe is free */
    bool writing;
    struct pending *pending;
    int64_t last_id;
    size_t held; /* bytes of answers that nobody has fetched yet */
    bool broken;
    bool hurried; /* nobody waits for anything */
};

/* --- answers -------------------------------------------------------------------------------- */

static const char *const gone_words[] = {
    "Cannot find context",
    "Execution context was destroyed",
    "Session with given id not found",
    "Inspected target navigated or closed",
    "No target with given id",
    "Target closed",
    "Not attached to an active page",
    "No frame with given id",
    "Frame with the given id",
    "No node with given id",
    "Could not find node with given id",
    "Could not find object with given id",
    "Node with given id does not belong",
    "Promise was collected",
    "Frame was detached",
};

static int refused(const struct tn_json *error, struct tn_error *err)
{
    const char *message = tn_json_get_str(error, "message", "the browser refused");

    for (size_t i = 0; i < TN_COUNT(gone_words); i++) {
        if (strstr(message, gone_words[i]))
            return tn_fail(err, TN_E_GONE, "%s", message);
    }
    return tn_fail(err, TN_E_INVALID, "%s", message);
}

/* Takes an answer apart.  Frees nothing of p. */
static int open_answer(struct pending *p, struct tn_json **result, struct tn_error *err)
{
    tn_autojson struct tn_json *answer = NULL;

    *result = NULL;
    if (!p->text) {
        if (err)
            *err = p->err;
        return -1;
    }
    if (tn_json_parse(p->text, p->len, &answer, err) < 0)
        return tn_error_context(err, "answer of the browser");
    if (tn_json_has(answer, "error"))
        return refused(tn_json_get(answer, "error"), err);
    *result = tn_json_ref(tn_json_get(answer, "result"));
    return 0;
}

/* Cuts {"id":1,"result":R,"sessionId":"S"} down to R.  False for anything else, such as a refusal.
 */
static bool cut_to_result(struct pending *p)
{
    static const char start[] = ",\"result\":";
    tn_autofree char *tail =
        p->session[0] ? tn_asprintf(",\"sessionId\":\"%s\"}", p->session) : tn_strdup("}");
    size_t tail_len = strlen(tail);
    const char *from = p->text ? memchr(p->text, ',', p->len) : NULL;
    size_t before = from ? (size_t)(from - p->text) + sizeof start - 1 : 0;

    if (!from || p->len < before + tail_len || memcmp(from, start, sizeof start - 1) != 0 ||
        memcmp(p->text + p->len - tail_len, tail, tail_len) != 0)
        return false;
    p->len -= before + tail_len;
    memmove(p->text, p->text + before, p->len);
    p->text[p->len] = '\0';
    return true;
}

/* With the lock. */
static struct pending *take_pending(struct tn_cdp *c, int64_t id)
{
    for (struct pending **p = &c->pending; *p; p = &(*p)->next) {
        if ((*p)->id == id) {
            struct pending *found = *p;
            *p = found->next;
            return found;
        }
    }
    return NULL;
}

static void tell_poster(struct pending *p)
{
    tn_autojson struct tn_json *result = NULL;
    struct tn_error err = {0};

    if (p->answered) {
        int status = open_answer(p, &result, &err);
        p->answered(p->ctx, result, status < 0 ? &err : NULL);
    }
    free(p->text);
    free(p);
}

/* The answer (or, without text, the failure) of command id; text is copied. */
static void deliver(struct tn_cdp *c, int64_t id, const char *text, size_t len,
                    const struct tn_error *failure)
{
    pthread_mutex_lock(&c->lock);
    struct pending *p = take_pending(c, id);
    if (!p) { /* whoever asked has given up */
        pthread_mutex_unlock(&c->lock);
        return;
    }
    if (text && c->held + len <= MESSAGE_MAX && (p->text = malloc(len + 1))) {
        memcpy(p->text, text, len);
        p->text[len] = '\0';
        p->len = len;
    } else if (text) {
        tn_fail(&p->err, TN_E_TOO_LARGE, "the browser's answer has %zu bytes", len);
    } else {
        p->err = *failure;
    }
    bool posted = p->posted; /* a waiter's memory is gone once the lock is */
    if (!posted) {
        c->held += p->len;
        p->done = true;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    if (posted)
        tell_poster(p);
}

/* Fails everything under way, or only what belongs to one session. */
static void fail_pending(struct tn_cdp *c, const char *session, const struct tn_error *failure)
{
    struct pending *posted = NULL;

    pthread_mutex_lock(&c->lock);
    for (struct pending **at = &c->pending; *at;) {
        struct pending *p = *at;
        if (session && strcmp(p->session, session) != 0) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->err = *failure;
        p->done = true;
        if (p->posted) {
            p->next = posted;
            posted = p;
        }
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    while (posted) {
        struct pending *p = posted;
        posted = p->next;
        tell_poster(p);
    }
}

void tn_cdp_forget_session(struct tn_cdp *c, const char *session, const char *why)
{
    struct tn_error gone;

    tn_fail(&gone, TN_E_GONE, "%s", why);
    fail_pending(c, session, &gone);
}

void tn_cdp_break(struct tn_cdp *c)
{
    struct tn_error gone;

    pthread_mutex_lock(&c->lock);
    c->broken = true;
    pthread_mutex_unlock(&c->lock);
    tn_fail(&gone, TN_E_PEER, "the browser is gone");
    fail_pending(c, NULL, &gone);
}

/* --- reading -------------------------------------------------------------------------------- */

/* The number after {"id": at the start of an answer, or 0 for an event. */
static int64_t answer_id(const char *text, size_t len)
{
    static const char start[] = "{\"id\":";
    size_t n = sizeof start - 1;
    char digits[24];

    if (len <= n || memcmp(text, start, n) != 0)
        return 0;
    len = len - n < sizeof digits ? len - n : sizeof digits - 1;
    memcpy(digits, text + n, len);
    digits[len] = '\0';
    return strtoll(digits, NULL, 10);
}

/* The row for the event, by its name at the start of the message: unwanted ones are not parsed. */
static const struct tn_cdp_event *event_row(const struct tn_cdp *c, const char *text, size_t len)
{
    static const char start[] = "{\"method\":\"";
    size_t n = sizeof start - 1;

    if (len <= n || memcmp(text, start, n) != 0)
        return NULL;
    const char *name = text + n, *end = memchr(name, '"', len - n);
    for (const struct tn_cdp_event *e = c->events; end && e->method; e++) {
        if (strlen(e->method) == (size_t)(end - name) &&
            memcmp(e->method, name, (size_t)(end - name)) == 0)
            return e;
    }
    return NULL;
}

static void take_message(struct tn_cdp *c, const char *text, size_t len)
{
    tn_autojson struct tn_json *message = NULL;
    struct tn_error err;
    int64_t id = answer_id(text, len);

    if (id) {
        deliver(c, id, text, len, NULL);
        return;
    }
    const struct tn_cdp_event *event = event_row(c, text, len);
    if (!event)
        return;
    if (tn_json_parse(text, len, &message, &err) < 0) {
        tn_log(TN_LOG_WARN, "an event of the browser is lost", tn_log_str("event", event->method),
               tn_log_str("why", err.text));
        return;
    }
    event->handle(c->ctx, tn_json_get_str(message, "sessionId", ""),
                  tn_json_get(message, "params"));
}

/* What is in the buffer, message by message; an unfinished one stays.  `scanned` bytes of it are
 * known to hold no end; `skip` is true inside a message that is too long. */
static void take_messages(struct tn_cdp *c, struct tn_buf *in, size_t *scanned, bool *skip)
{
    size_t start = 0;
    const char *end;

    while (in->len > *scanned &&
           (end = memchr(in->data + *scanned, '\0', in->len - *scanned)) != NULL) {
        if (!*skip)
            take_message(c, in->data + start, (size_t)(end - in->data) - start);
        *skip = false;
        start = *scanned = (size_t)(end - in->data) + 1;
    }
    tn_buf_eat(in, *skip ? in->len : start);
    *scanned = in->len;
    if (in->len <= MESSAGE_MAX)
        return;
    struct tn_error large;
    tn_fail(&large, TN_E_TOO_LARGE, "the browser's answer has more than %d bytes", MESSAGE_MAX);
    deliver(c, answer_id(in->data, in->len), NULL, 0, &large);
    *skip = true;
    *scanned = 0;
    tn_buf_done(in);
    tn_buf_init(in, MESSAGE_MAX + READ_PIECE + 1);
}

/* Reads to the end of the stream, or until told to stop. */
static void read_all(struct tn_cdp *c)
{
    tn_autobuf struct tn_buf in = TN_BUF_INIT(MESSAGE_MAX + READ_PIECE + 1);
    struct pollfd fds[] = {{.fd = tn_helper_from(c->helper), .events = POLLIN},
                           {.fd = c->quit, .events = POLLIN}};
    size_t scanned = 0;
    bool skip = false;

    for (;;) {
        char *to = tn_buf_reserve(&in, READ_PIECE);
        if (!to || (poll(fds, TN_COUNT(fds), -1) < 0 && errno != EINTR) || fds[1].revents)
            return;
        ssize_t n = read(fds[0].fd, to, READ_PIECE);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return;
        if (n > 0) {
            tn_buf_grew(&in, (size_t)n);
            take_messages(c, &in, &scanned, &skip);
        }
    }
}

static void *read_browser(void *arg)
{
    struct tn_cdp *c = arg;

    read_all(c);
    c->ended(c->ctx);
    tn_cdp_break(c);
    return NULL;
}

/* --- sending -------------------------------------------------------------------------------- */

static void put_command(struct tn_buf *out, int64_t id, const char *session, const char *method,
                        const char *params)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kint(&w, "id", id);
    tn_jw_kstr(&w, "method", method);
    if (session && session[0])
        tn_jw_kstr(&w, "sessionId", session);
    if (params) {
        tn_jw_key(&w, "params");
        tn_jw_raw(&w, params, strlen(params));
    }
    tn_jw_object_end(&w);
    tn_buf_putc(out, '\0');
}

/* Waits, with the lock, for an answer or for the pipe to be free.  False at the deadline. */
static bool wait_changed(struct tn_cdp *c, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);

    if (c->hurried)
        return false;
    if (deadline == TN_NEVER)
        return pthread_cond_wait(&c->changed, &c->lock) == 0;
    return pthread_cond_timedwait(&c->changed, &c->lock, &until) != ETIMEDOUT;
}

void tn_cdp_hurry(struct tn_cdp *c, bool hurried)
{
    pthread_mutex_lock(&c->lock);
    c->hurried = hurried;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* One writer at a time. */
static int take_pipe(struct tn_cdp *c, int64_t deadline, struct tn_error *err)
{
    pthread_mutex_lock(&c->lock);
    while (c->writing && wait_changed(c, deadline))
        ;
    bool mine = !c->writing;
    c->writing = true;
    pthread_mutex_unlock(&c->lock);
    return mine ? 0 : tn_fail(err, TN_E_TIMEOUT, "the browser does not take commands");
}

static void leave_pipe(struct tn_cdp *c)
{
    pthread_mutex_lock(&c->lock);
    c->writing = false;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* A command that is cut short would spoil all that follow: then the connection is broken. */
static int send_bytes(struct tn_cdp *c, const struct tn_buf *bytes, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(WRITE_SECONDS);

    if (!tn_buf_ok(bytes))
        return tn_fail(err, TN_E_TOO_LARGE, "a command to the browser is too long");
    if (take_pipe(c, deadline, err) < 0)
        return -1;
    int r = tn_helper_write(c->helper, bytes->data, bytes->len, deadline, err);
    leave_pipe(c);
    if (r < 0)
        tn_cdp_break(c);
    return r;
}

/* Makes p known, with a number.  -1 when there is no browser any more. */
static int enlist(struct tn_cdp *c, struct pending *p, struct tn_error *err)
{
    pthread_mutex_lock(&c->lock);
    bool broken = c->broken;
    if (!broken) {
        p->id = ++c->last_id;
        p->next = c->pending;
        c->pending = p;
    }
    pthread_mutex_unlock(&c->lock);
    return broken ? tn_fail(err, TN_E_PEER, "the browser is gone") : 0;
}

/* Waits for p; afterwards nobody else knows it. */
static void await(struct tn_cdp *c, struct pending *p, int64_t deadline)
{
    pthread_mutex_lock(&c->lock);
    while (!p->done && wait_changed(c, deadline))
        ;
    if (!p->done) {
        take_pending(c, p->id);
        tn_fail(&p->err, TN_E_TIMEOUT, "the browser did not answer in time");
    }
    c->held -= p->len;
    pthread_mutex_unlock(&c->lock);
}

/* Gives a command its answer; nothing of p remains. */
static void finish(struct tn_cdp_command *k, struct pending *p)
{
    k->result = NULL;
    k->text = NULL;
    k->status = 0;
    if (k->raw && cut_to_result(p)) {
        k->text = TN_TAKE_PTR(p->text);
        k->text_len = p->len;
        return;
    }
    k->status = open_answer(p, &k->result, &k->err);
    if (k->status < 0)
        tn_error_context(&k->err, "%s", k->method);
    else if (k->raw) /* not in the order that every browser so far writes it */
        k->status = tn_fail(&k->err, TN_E_PEER, "%s: an answer of another form", k->method);
    free(TN_TAKE_PTR(p->text));
}

/* Until when a command is waited for whose neighbours took so long. */
static int64_t grace_end(double seconds, int64_t taken, int64_t deadline)
{
    int64_t grace = (int64_t)(seconds * 1e9);
    int64_t end = tn_now() + (taken > grace ? taken : grace);

    return end < deadline ? end : deadline;
}

int tn_cdp_call_all(struct tn_cdp *c, struct tn_cdp_command *commands, size_t count,
                    int64_t deadline, struct tn_error *err)
{
    tn_autofree struct pending *list = tn_calloc(count, sizeof *list);
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(COMMAND_MAX);
    size_t first_failed = count;

    for (size_t i = 0; i < count; i++) {
        struct tn_cdp_command *k = &commands[i];
        list[i].session = k->session ? k->session : "";
        if (enlist(c, &list[i], &list[i].err) < 0)
            list[i].done = true;
        else
            put_command(&bytes, list[i].id, k->session, k->method, k->params_json);
    }
    struct tn_error unsent = {0};
    int64_t began = tn_now();
    bool sent = bytes.len == 0 || send_bytes(c, &bytes, &unsent) == 0;
    for (size_t i = 0; i < count; i++) {
        if (commands[i].grace == 0)
            await(c, &list[i], sent ? deadline : 0);
    }
    int64_t taken = tn_now() - began;
    for (size_t i = 0; i < count; i++) {
        if (commands[i].grace > 0)
            await(c, &list[i], sent ? grace_end(commands[i].grace, taken, deadline) : 0);
        if (!sent && !list[i].text)
            list[i].err = unsent;
        finish(&commands[i], &list[i]);
        if (commands[i].status < 0 && first_failed == count)
            first_failed = i;
    }
    if (first_failed == count)
        return 0;
    if (err)
        *err = commands[first_failed].err;
    return -1;
}

void tn_cdp_commands_done(struct tn_cdp_command *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tn_json_free(TN_TAKE_PTR(commands[i].result));
        free(TN_TAKE_PTR(commands[i].text));
    }
}

int tn_cdp_call(struct tn_cdp *c, const char *session, const char *method, const char *params_json,
                int64_t deadline, struct tn_json **result, struct tn_error *err)
{
    struct tn_cdp_command command = {
        .session = session, .method = method, .params_json = params_json};
    int r = tn_cdp_call_all(c, &command, 1, deadline, err);

    if (result)
        *result = TN_TAKE_PTR(command.result);
    tn_cdp_commands_done(&command, 1);
    return r;
}

void tn_cdp_post(struct tn_cdp *c, const char *session, const char *method, const char *params_json,
                 tn_cdp_answer_fn answered, void *ctx)
{
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(COMMAND_MAX);
    size_t n = session ? strlen(session) + 1 : 1;
    struct pending *p = tn_calloc(1, sizeof *p + n); /* its session stands behind it */

    p->session = memcpy(p + 1, session ? session : "", n);
    p->posted = true;
    p->answered = answered;
    p->ctx = ctx;
    if (enlist(c, p, &p->err) < 0) {
        tell_poster(p);
        return;
    }
    int64_t id = p->id; /* p is the reader's as soon as the command is sent */
    put_command(&bytes, id, session, method, params_json);
    struct tn_error err;
    if (send_bytes(c, &bytes, &err) < 0) {
        tn_log(TN_LOG_WARN, "browser", tn_log_str("command", method), tn_log_str("why", err.text));
        deliver(c, id, NULL, 0, &err); /* unless a broken connection has told it already */
    }
}

/* --- life ----------------------------------------------------------------------------------- */

struct tn_cdp *tn_cdp_new(struct tn_helper *helper, const struct tn_cdp_event *events,
                          void (*ended)(void *ctx), void *ctx, struct tn_error *err)
{
    struct tn_cdp *c = tn_calloc(1, sizeof *c);

    c->helper = helper;
    c->events = events;
    c->ended = ended;
    c->ctx = ctx;
    pthread_mutex_init(&c->lock, NULL);
    tn_cond_init(&c->changed);
    c->quit = eventfd(0, EFD_CLOEXEC);
    int sys = c->quit < 0 ? errno : tn_thread_start(&c->reader, read_browser, c);
    if (sys == 0)
        return c;
    tn_fail_errno(err, sys, "reader of the browser");
    tn_close(c->quit);
    free(c);
    return NULL;
}

void tn_cdp_free(struct tn_cdp *c)
{
    if (!c)
        return;
    eventfd_write(c->quit, 1);
    pthread_join(c->reader, NULL);
    tn_close(c->quit);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
