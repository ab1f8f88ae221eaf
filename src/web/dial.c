/* A stream to a host: libcurl connects (names, proxies, TLS), others speak. */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/thread.h"
#include "web/web-impl.h"

#define QUIET_SECONDS 86400.0
#define HALF_SECONDS 3600.0 /* quiet, and one side has said its last word */
#define END_SECONDS 1.0     /* for all of them when the process ends */
enum { PIECE = 16 << 10 };

/* --- the thread that encrypts -------------------------------------------------------------- */

/* One direction: bytes read but not yet taken by the other side. */
struct way {
    char bytes[PIECE];
    size_t start, end;
    bool over;
};

struct relay {
    struct relay *next;
    pthread_t thread;
    bool ended; /* under the lock: the thread is about to end, and can be joined */
    const struct web_curl *curl;
    struct web_line *line;
    int ours;       /* our end of the pair */
    int theirs;     /* libcurl's socket, only to poll */
    bool gone;      /* the user of the other end has closed it */
    bool broken;    /* the connection to the host has failed */
    struct way out; /* to the host */
    struct way in;
};

/* All of them, so that the end of the process is the end of their connections. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct relay *first;
} relays = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Joins those that have ended; how many have not.  Under the lock. */
static int reap(void)
{
    int left = 0;

    for (struct relay **at = &relays.first, *r; (r = *at);) {
        if (r->ended) {
            *at = r->next;
            pthread_join(r->thread, NULL);
            free(r);
        } else {
            at = &r->next;
            left++;
        }
    }
    return left;
}

/* Cuts off whoever still uses one, and waits for the threads: the TLS library, which keeps
 * something for each of them, is taken apart next. */
static void end_relays(void)
{
    int64_t deadline = tn_deadline_in(END_SECONDS);
    struct timespec until = tn_timespec(deadline);

    pthread_mutex_lock(&relays.lock);
    for (struct relay *r = relays.first; r; r = r->next)
        if (!r->ended)
            shutdown(r->ours, SHUT_RDWR);
    while (reap() > 0 && tn_now() < deadline)
        pthread_cond_timedwait(&relays.changed, &relays.lock, &until);
    pthread_mutex_unlock(&relays.lock);
}

static void prepare_end(void)
{
    tn_cond_init(&relays.changed);
    atexit(end_relays);
}

static bool is_empty(const struct way *w)
{
    return w->start == w->end;
}

static void refill(struct way *w, size_t n)
{
    w->start = 0;
    w->end = n;
}

/* Each moves what it can without blocking; true when anything moved. */

static bool move_out(struct relay *r)
{
    struct way *w = &r->out;
    size_t sent = 0;

    if (is_empty(w) && !w->over) {
        ssize_t n = recv(r->ours, w->bytes, PIECE, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        refill(w, n > 0 ? (size_t)n : 0);
        w->over = n <= 0;
    }
    if (is_empty(w))
        return false;
    CURLcode code =
        r->curl->easy_send(r->line->easy, w->bytes + w->start, w->end - w->start, &sent);
    if (code != CURLE_OK && code != CURLE_AGAIN) {
        /* It takes no more, but may have answered before. */
        w->over = true;
        w->start = w->end;
    }
    w->start += code == CURLE_OK ? sent : 0;
    return code == CURLE_OK && sent > 0;
}

static bool take_in(struct relay *r)
{
    struct way *w = &r->in;
    size_t got = 0;
    CURLcode code = r->curl->easy_recv(r->line->easy, w->bytes, PIECE, &got);

    if (code == CURLE_AGAIN)
        return false;
    refill(w, code == CURLE_OK ? got : 0);
    if (got > 0 && code == CURLE_OK)
        return true;
    r->broken |= code != CURLE_OK;
    w->over = true;
    shutdown(r->ours, SHUT_WR);
    return false;
}

static bool move_in(struct relay *r)
{
    struct way *w = &r->in;

    if (is_empty(w) && (w->over || !take_in(r)))
        return false;
    ssize_t n = send(r->ours, w->bytes + w->start, w->end - w->start, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        r->gone = true;
    w->start += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static bool is_done(const struct relay *r)
{
    if (r->broken)
        return true;
    return r->out.over && is_empty(&r->out) && (r->gone || (r->in.over && is_empty(&r->in)));
}

static short interest(const struct way *from, const struct way *to)
{
    return (short)((!from->over && is_empty(from) ? POLLIN : 0) | (is_empty(to) ? 0 : POLLOUT));
}

/* False when nobody has had anything to say for too long. */
static bool wait_for_more(struct relay *r)
{
    short local = interest(&r->out, &r->in);
    struct pollfd fds[] = {
        {.fd = r->gone && !(local & POLLIN) ? -1 : r->ours, .events = local},
        {.fd = r->theirs, .events = interest(&r->in, &r->out)},
    };
    double quiet = r->out.over || r->in.over ? HALF_SECONDS : QUIET_SECONDS;

    /* The end of the host is seen by reading; once it was, a hangup would be told for ever. */
    if (!fds[1].events)
        fds[1].fd = -1;
    int n = poll(fds, 2, tn_poll_ms(tn_deadline_in(quiet)));
    r->gone |= n > 0 && fds[0].revents & (POLLHUP | POLLERR);
    return n != 0;
}

static void *run_relay(void *arg)
{
    struct relay *r = arg;

    do {
        bool moved = true;
        while (moved) {
            moved = move_out(r);
            moved |= move_in(r);
        }
    } while (!is_done(r) && wait_for_more(r));
    web_line_free(r->curl, r->line);
    pthread_mutex_lock(&relays.lock);
    tn_close(r->ours);
    r->ended = true;
    pthread_cond_signal(&relays.changed);
    pthread_mutex_unlock(&relays.lock);
    return NULL;
}

/* Under the lock the thread cannot end before it is listed.  0, or an errno value. */
static int enlist(struct relay *r)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, prepare_end);
    pthread_mutex_lock(&relays.lock);
    reap();
    int failed = tn_thread_start(&r->thread, run_relay, r);
    if (!failed) {
        r->next = relays.first;
        relays.first = r;
    }
    pthread_mutex_unlock(&relays.lock);
    return failed;
}

static int start_relay(const struct web_curl *curl, struct web_line *line, int theirs,
                       struct tn_error *err)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        web_line_free(curl, line);
        return tn_fail_errno(err, errno, "socket pair");
    }
    struct relay *r = tn_calloc(1, sizeof *r);
    r->curl = curl;
    r->line = line;
    r->ours = ends[1];
    r->theirs = theirs;
    int failed = enlist(r);
    if (!failed)
        return ends[0];
    web_line_free(curl, line);
    tn_close(ends[0]);
    tn_close(ends[1]);
    free(r);
    return tn_fail_errno(err, failed, "thread");
}

/* --- connecting ---------------------------------------------------------------------------- */

static int connect_line(struct tn_web *web, struct web_line *line, int64_t deadline, int *socket,
                        struct tn_error *err)
{
    struct tn_web_call call = {.target = "/", .deadline = deadline};
    struct web_transfer t = {
        .call = &call, .easy = line->easy, .curl = web->curl, .moved = tn_now()};
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode result = CURLE_OK;

    web_set_place(web, &t, web->place);
    web->curl->easy_setopt(line->easy, CURLOPT_CONNECT_ONLY, 1L);
    web->curl->easy_setopt(line->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    web->curl->easy_setopt(line->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    CURLMcode added = web->curl->multi_add_handle(line->multi, line->easy);
    if (added != CURLM_OK)
        return tn_fail(err, TN_E_INTERNAL, "libcurl: %s", web->curl->multi_strerror(added));
    int r = web_carry_out(line, &t, &result, err);
    if (r > 0)
        r = result == CURLE_OK ? 0 : web_failed(web, &t, result, err);
    if (r == 0)
        web->curl->easy_getinfo(line->easy, CURLINFO_ACTIVESOCKET, &fd);
    if (r == 0 && fd == CURL_SOCKET_BAD)
        r = tn_fail(err, TN_E_PEER, "the connection was closed at once");
    web->curl->easy_setopt(line->easy, CURLOPT_ERRORBUFFER, NULL); /* t ends here */
    *socket = (int)fd;
    return r;
}

/* Without TLS the socket itself will do. */
static int take_socket(const struct web_curl *curl, struct web_line *line, int theirs,
                       struct tn_error *err)
{
    tn_autofd int fd = fcntl(theirs, F_DUPFD_CLOEXEC, 3);
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    bool good = flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
    int why = errno;

    web_line_free(curl, line);
    return good ? TN_TAKE_FD(fd) : tn_fail_errno(err, why, "connection");
}

int tn_web_dial(struct tn_web *web, int64_t deadline, struct tn_error *err)
{
    struct web_line *line = web_line_new(web->curl);
    int theirs = -1;

    if (!line)
        return tn_fail(err, TN_E_INTERNAL, "no memory for a connection");
    if (connect_line(web, line, deadline, &theirs, err) < 0) {
        web_line_free(web->curl, line);
        return tn_error_context(err, "connect to %s", web->socket ? web->socket : web->base);
    }
    if (strncmp(web->base, "https:", 6) == 0)
        return start_relay(web->curl, line, theirs, err);
    return take_socket(web->curl, line, theirs, err);
}
