#include "service/tcp-ports.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/pump.h"
#include "service/clock.h"
#include "service/listen.h"
#include "service/metrics.h"

#define READY_SECONDS 60.0 /* for the box to be there: a paused one may be woken */
#define DIAL_SECONDS 10.0  /* to reach its port */
#define ROW "SELECT port, box, tenant, inside FROM tcp_port"
enum {
    FULL_MS = 100,      /* without descriptors for clients */
    CHOSEN_TRIES = 100, /* of ports that the kernel chooses, where rows have those that it chose */
};

struct port {
    struct port *next;
    int64_t number, inside;
    char box[11], tenant[65];
    int fd;     /* listens; -1: could not be opened.  Only the thread of all closes it */
    bool stale; /* its box may have ended */
};

struct connection {
    struct connection *next;
    struct tcp_ports *all;
    pthread_t thread;
    char box[11], tenant[65], key[13]; /* key: that made the box, once it was asked for */
    int client, behind, port;
    bool over; /* its thread has nothing more to do but to end */
};

struct tcp_ports {
    struct tn_service *s;
    int most; /* connections */
    int wake; /* eventfd: something below has changed */
    pthread_t thread;
    bool running;
    pthread_mutex_t opening; /* one opens at a time */
    pthread_mutex_t lock;    /* of what follows */
    pthread_cond_t changed;
    struct port *ports;
    struct connection *connections;
    bool closing;
};

static void wake(struct tcp_ports *p)
{
    const uint64_t one = 1;

    if (write(p->wake, &one, sizeof one) < 0)
        return; /* it is full: awake already */
}

struct tcp_ports *tcp_ports_new(struct tn_service *s, int connections)
{
    struct tcp_ports *p = tn_calloc(1, sizeof *p);

    p->s = s;
    p->most = connections;
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&p->opening, NULL);
    pthread_mutex_init(&p->lock, NULL);
    tn_cond_init(&p->changed);
    return p;
}

/* --- which there are ------------------------------------------------------------------------- */

/* "30000-30099", or one of them.  Nothing: first and last are 0, and the kernel chooses. */
static bool read_range(const char *text, int *first, int *last)
{
    char *end;

    *first = *last = 0;
    if (!text || !*text)
        return true;
    if (*text < '0' || *text > '9')
        return false;
    long from = strtol(text, &end, 10), to = from;
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        to = strtol(end + 1, &end, 10);
    if (*end || from < 1 || to < from || to > 65535)
        return false;
    *first = (int)from;
    *last = (int)to;
    return true;
}

int tcp_ports_check(const struct tn_service_options *o, struct tn_error *err)
{
    int first, last;

    return read_range(o->tcp_ports, &first, &last)
               ? 0
               : tn_fail(err, TN_E_INVALID, "tcp_ports: expected FIRST-LAST, found %s",
                         o->tcp_ports);
}

static int take_count(const struct tn_db_row *row, void *ctx)
{
    *(int64_t *)ctx = tn_db_int(row, 0);
    return 0;
}

int tcp_ports_allow(struct tcp_ports *p, const char *tenant, size_t more, struct tn_error *err)
{
    int64_t count = 0, most = p->s->options->max_tcp_ports;

    if (more && most == 0)
        return tn_fail(err, TN_E_INVALID,
                       "unencrypted ports: not served here (service.max_tcp_ports)");
    if (more && tenant &&
        tn_db_each(p->s->db, take_count, &count, err,
                   "SELECT count(*) FROM tcp_port WHERE tenant = ?", "t", tenant) < 0)
        return -1;
    return count + (int64_t)more <= most
               ? 0
               : tn_fail(err, TN_E_QUOTA,
                         "unencrypted ports: %lld are open and %zu more are wanted, %lld may be "
                         "(service.max_tcp_ports)",
                         (long long)count, more, (long long)most);
}

/* --- opening --------------------------------------------------------------------------------- */

static int take_row(const struct tn_db_row *row, void *ctx)
{
    struct port **list = ctx, *one = tn_calloc(1, sizeof *one);

    *one = (struct port){.next = *list,
                         .number = tn_db_int(row, 0),
                         .inside = tn_db_int(row, 3),
                         .fd = -1,
                         .stale = true};
    snprintf(one->box, sizeof one->box, "%s", tn_db_text(row, 1));
    snprintf(one->tenant, sizeof one->tenant, "%s", tn_db_text(row, 2));
    *list = one;
    return 0;
}

static struct port *find(struct tcp_ports *p, const char *box, int64_t inside)
{
    pthread_mutex_lock(&p->lock);
    struct port *one = p->ports;
    while (one && (one->inside != inside || strcmp(one->box, box) != 0))
        one = one->next;
    pthread_mutex_unlock(&p->lock);
    return one;
}

/* Listens on the number that its row has, as far as the operator still gives it. */
static int reopen(struct tcp_ports *p, struct port *one, struct tn_error *err)
{
    int first, last, number = (int)one->number;

    read_range(p->s->options->tcp_ports, &first, &last);
    if (first && (number < first || number > last))
        return tn_fail(err, TN_E_CONFLICT, "TCP port %d: service.tcp_ports has it no more", number);
    int fd = doors_listen(p->s->doors, &number, first > 0, err);
    if (fd < 0)
        return tn_error_context(err, "TCP port %d, which this sandbox had", number);
    pthread_mutex_lock(&p->lock);
    one->fd = fd;
    pthread_mutex_unlock(&p->lock);
    return 0;
}

/* Listens and writes the row: 0, or -1 with TN_E_CONFLICT when somebody has that number. */
static int try_number(struct tcp_ports *p, struct port *one, int number, struct tn_error *err)
{
    tn_autofd int fd = doors_listen(p->s->doors, &number, number > 0, err);

    if (fd < 0 || tn_db_run(p->s->db, err, "INSERT INTO tcp_port VALUES (?, ?, ?, ?)", "itti",
                            (int64_t)number, one->box, one->tenant, one->inside) < 0)
        return -1;
    one->number = number;
    one->fd = TN_TAKE_FD(fd);
    return 0;
}

static int open_new(struct tcp_ports *p, struct port *one, struct tn_error *err)
{
    int first, last, tries = 0;

    read_range(p->s->options->tcp_ports, &first, &last);
    for (int number = first; first ? number <= last : tries < CHOSEN_TRIES; tries++) {
        struct tn_error why = {0};
        if (try_number(p, one, number, &why) == 0)
            return 0;
        if (why.code != TN_E_CONFLICT) {
            *err = why;
            return -1;
        }
        number += first > 0;
    }
    return tn_fail(err, TN_E_QUOTA,
                   "unencrypted ports: all that there are are taken (service.tcp_ports)");
}

static int make(struct tcp_ports *p, struct box *b, int inside, struct tn_error *err)
{
    autoview struct box_view v = {0};
    struct port *one = tn_calloc(1, sizeof *one);

    box_look(b, &v);
    /* Whoever changes the box from here on says so. */
    *one = (struct port){.inside = inside, .fd = -1, .stale = true};
    snprintf(one->box, sizeof one->box, "%s", v.id);
    snprintf(one->tenant, sizeof one->tenant, "%s", v.tenant);
    /* One of an earlier life may be left, which could not be deleted. */
    if (tn_db_run(p->s->db, err, "DELETE FROM tcp_port WHERE box = ? AND inside = ?", "ti",
                  one->box, one->inside) < 0 ||
        tcp_ports_allow(p, one->tenant, 1, err) || open_new(p, one, err)) {
        free(one);
        return -1;
    }
    tn_log(TN_LOG_INFO, "a TCP port leads to a sandbox", tn_log_int("port", one->number),
           tn_log_str("sandbox", one->box), tn_log_int("inside", one->inside));
    pthread_mutex_lock(&p->lock);
    one->next = p->ports;
    p->ports = one;
    int number = (int)one->number;
    pthread_mutex_unlock(&p->lock);
    return number;
}

int tcp_ports_open(struct tcp_ports *p, struct box *b, int inside, struct tn_error *err)
{
    pthread_mutex_lock(&p->opening);
    struct port *one = find(p, box_id(b), inside);
    int number = !one                                       ? make(p, b, inside, err)
                 : one->fd >= 0 || reopen(p, one, err) == 0 ? (int)one->number
                                                            : -1;
    pthread_mutex_unlock(&p->opening);
    wake(p);
    return number;
}

/* --- the end of a box ------------------------------------------------------------------------ */

void tcp_ports_changed(struct tcp_ports *p, const char *box)
{
    bool ours = false;

    pthread_mutex_lock(&p->lock);
    for (struct port *one = p->ports; one; one = one->next)
        if (strcmp(one->box, box) == 0)
            ours = one->stale = true;
    pthread_mutex_unlock(&p->lock);
    if (ours)
        wake(p);
}

/* Its time-out is forgotten only when it runs again. */
static bool has_ended(struct tcp_ports *p, const char *id)
{
    autoview struct box_view v = {0};
    autobox struct box *b = box_find(p->s, NULL, id, NULL);

    if (!b)
        return true;
    box_look(b, &v);
    bool timed_out =
        v.timeout > 0 && (v.goal == BOX_PAUSED || v.asleep) && service_time() >= v.timeout - 1;
    return timed_out || (v.goal == BOX_STOPPED && !v.asleep) || v.goal == BOX_GONE ||
           v.goal == BOX_ERROR || v.goal == BOX_MISSING || v.state == BOX_MISSING;
}

/* Those of a box, or of a key; NULL and NULL: all.  With the lock. */
static void cut(struct tcp_ports *p, const char *box, const char *key)
{
    for (struct connection *c = p->connections; c; c = c->next) {
        if ((box && strcmp(c->box, box) != 0) || (key && strcmp(c->key, key) != 0))
            continue;
        if (c->client >= 0)
            shutdown(c->client, SHUT_RDWR);
        if (c->behind >= 0)
            shutdown(c->behind, SHUT_RDWR);
    }
}

/* Looked at while nobody opens one: who opens one of a box that runs again keeps it. */
static void close_ended(struct tcp_ports *p, const char *box)
{
    struct tn_error why = {0};

    pthread_mutex_lock(&p->opening);
    if (!has_ended(p, box)) {
        pthread_mutex_unlock(&p->opening);
        return;
    }
    pthread_mutex_lock(&p->lock);
    for (struct port **at = &p->ports, *one; (one = *at);) {
        if (strcmp(one->box, box) != 0) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        tn_close(one->fd);
        free(one);
    }
    cut(p, box, NULL);
    pthread_mutex_unlock(&p->lock);
    if (tn_db_run(p->s->db, &why, "DELETE FROM tcp_port WHERE box = ?", "t", box) < 0)
        tn_log(TN_LOG_ERROR, "TCP ports of a sandbox that has ended", tn_log_str("sandbox", box),
               tn_log_str("error", why.text));
    pthread_mutex_unlock(&p->opening);
}

static bool take_stale(struct tcp_ports *p, char id[11])
{
    pthread_mutex_lock(&p->lock);
    struct port *one = p->ports;
    while (one && !one->stale)
        one = one->next;
    if (one) {
        one->stale = false;
        memcpy(id, one->box, sizeof one->box);
    }
    pthread_mutex_unlock(&p->lock);
    return one != NULL;
}

static void look_at_stale(struct tcp_ports *p)
{
    char id[11];

    while (take_stale(p, id))
        close_ended(p, id);
}

/* --- connections ----------------------------------------------------------------------------- */

/* As a preview does it: a box that is paused is woken where the operator lets use do so, and a key
 * that was revoked opens nothing.  One that has ended is not woken: its port is about to close. */
static int reach(struct connection *c, struct box *b, struct tn_error *err)
{
    tn_autofree char *address = NULL, *key = NULL;
    autoview struct box_view v = {0};
    struct caller who;

    if (has_ended(c->all, c->box)) {
        tcp_ports_changed(c->all, c->box);
        return -1;
    }
    box_look(b, &v);
    pthread_mutex_lock(&c->all->lock);
    snprintf(c->key, sizeof c->key, "%s", v.key_id);
    pthread_mutex_unlock(&c->all->lock);
    return keyring_find(c->all->s->keys, v.key_id, &who, err) ||
                   box_hand_in_time(b, &address, &key, tn_deadline_in(READY_SECONDS), err)
               ? -1
               : box_dial(b, address, key, c->port, tn_deadline_in(DIAL_SECONDS), err);
}

static void carry(struct connection *c)
{
    struct tcp_ports *p = c->all;
    struct tn_error err = {0};
    autobox struct box *b = box_find(p->s, c->tenant, c->box, &err);
    int fd = b ? reach(c, b, &err) : -1;

    pthread_mutex_lock(&p->lock);
    c->behind = fd;
    bool closing = p->closing;
    pthread_mutex_unlock(&p->lock);
    if (fd < 0 || closing)
        return;
    box_enter_use(b);
    uint64_t bytes = tn_pump(c->client, fd, NULL, NULL);
    box_leave_use(b);
    metric_add(p->s->metrics, METRIC_PROXIED_BYTES, NULL, bytes);
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    struct tcp_ports *p = c->all;

    carry(c);
    pthread_mutex_lock(&p->lock);
    tn_close(TN_TAKE_FD(c->behind));
    tn_close(TN_TAKE_FD(c->client));
    c->over = true;
    pthread_cond_broadcast(&p->changed);
    wake(p);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Joins those that are over; with the lock. */
static void bury(struct tcp_ports *p)
{
    for (struct connection **at = &p->connections, *c; (c = *at);) {
        if (!c->over) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        pthread_join(c->thread, NULL);
        free(c);
    }
}

/* Whether one more of the tenant may come in: who has fewer than are free.  Anybody can take those
 * of a tenant, and there is always something left for the next one.  With the lock. */
static bool has_room(const struct tcp_ports *p, const char *tenant)
{
    int all = 0, theirs = 0;

    for (const struct connection *c = p->connections; c; c = c->next) {
        all++;
        theirs += strcmp(c->tenant, tenant) == 0;
    }
    return theirs < p->most - all;
}

/* With the lock.  False: there are no descriptors or threads left just now. */
static bool let_in(struct tcp_ports *p, const struct port *one)
{
    tn_autofd int client = accept4(one->fd, NULL, NULL, SOCK_CLOEXEC);

    if (client < 0)
        return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    struct connection *c = tn_calloc(1, sizeof *c);
    *c = (struct connection){.all = p, .client = client, .behind = -1, .port = (int)one->inside};
    memcpy(c->box, one->box, sizeof c->box);
    memcpy(c->tenant, one->tenant, sizeof c->tenant);
    if (tn_thread_start(&c->thread, serve, c)) {
        free(c);
        return false;
    }
    TN_TAKE_FD(client);
    c->next = p->connections;
    p->connections = c;
    return true;
}

/* Waits until somebody comes, or something else happens; lets in who has come. */
static void wait_for_clients(struct tcp_ports *p, bool *full)
{
    struct pollfd *fds = tn_malloc(sizeof *fds);
    uint64_t count;
    size_t n = 1;

    fds[0] = (struct pollfd){.fd = p->wake, .events = POLLIN};
    pthread_mutex_lock(&p->lock);
    for (const struct port *one = *full ? NULL : p->ports; one; one = one->next) {
        if (one->fd < 0 || !has_room(p, one->tenant))
            continue;
        fds = tn_realloc(fds, (n + 1) * sizeof *fds);
        fds[n++] = (struct pollfd){.fd = one->fd, .events = POLLIN};
    }
    pthread_mutex_unlock(&p->lock);
    poll(fds, n, *full ? FULL_MS : -1);
    *full = false;
    if (fds[0].revents)
        *full = read(p->wake, &count, sizeof count) < 0;
    pthread_mutex_lock(&p->lock);
    bury(p);
    for (const struct port *one = p->ports; one && !p->closing; one = one->next)
        for (size_t i = 1; i < n && !*full; i++)
            if (fds[i].fd == one->fd && fds[i].revents && has_room(p, one->tenant))
                *full = !let_in(p, one);
    pthread_mutex_unlock(&p->lock);
    free(fds);
}

static void *attend(void *arg)
{
    struct tcp_ports *p = arg;
    bool full = false, closing = false;

    while (!closing) {
        look_at_stale(p);
        wait_for_clients(p, &full);
        pthread_mutex_lock(&p->lock);
        closing = p->closing;
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

void tcp_ports_tick(struct tcp_ports *p)
{
    char(*keys)[13] = tn_calloc((size_t)p->most, sizeof *keys);
    size_t count = 0;

    pthread_mutex_lock(&p->lock);
    for (const struct connection *c = p->connections; c; c = c->next)
        if (*c->key)
            memcpy(keys[count++], c->key, sizeof *keys);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < count; i++) {
        struct tn_error err = {0};
        struct caller who;
        if (keyring_find(p->s->keys, keys[i], &who, &err) == 0 || err.code != TN_E_DENIED)
            continue;
        pthread_mutex_lock(&p->lock);
        cut(p, NULL, keys[i]);
        pthread_mutex_unlock(&p->lock);
    }
    free(keys);
}

/* --- beginning and end ----------------------------------------------------------------------- */

int tcp_ports_begin(struct tcp_ports *p, struct tn_error *err)
{
    struct port *found = NULL;

    if (p->wake < 0)
        return tn_fail_errno(err, errno, "eventfd");
    if (tn_db_each(p->s->db, take_row, &found, err, ROW, "") < 0)
        return -1;
    pthread_mutex_lock(&p->lock);
    p->ports = found;
    pthread_mutex_unlock(&p->lock);
    for (struct port *one = found; one; one = one->next) {
        struct tn_error why = {0};
        if (reopen(p, one, &why))
            tn_log(TN_LOG_WARN, "a TCP port of a sandbox is not open",
                   tn_log_str("sandbox", one->box), tn_log_str("error", why.text));
    }
    int failed = tn_thread_start(&p->thread, attend, p);
    p->running = !failed;
    return failed ? tn_fail_errno(err, failed, "thread") : 0;
}

bool tcp_ports_end(struct tcp_ports *p, int64_t deadline)
{
    const struct timespec until = tn_timespec(deadline);
    int late = 0;

    if (!p)
        return true;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    cut(p, NULL, NULL);
    pthread_mutex_unlock(&p->lock);
    wake(p);
    if (p->running)
        pthread_join(p->thread, NULL);
    p->running = false;
    pthread_mutex_lock(&p->lock);
    cut(p, NULL, NULL);
    for (bury(p); p->connections && !late; bury(p))
        late = pthread_cond_timedwait(&p->changed, &p->lock, &until);
    bool ended = !p->connections;
    pthread_mutex_unlock(&p->lock);
    return ended;
}

void tcp_ports_free(struct tcp_ports *p)
{
    if (!p)
        return;
    for (struct port *one; (one = p->ports);) {
        p->ports = one->next;
        tn_close(one->fd);
        free(one);
    }
    tn_close(p->wake);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->opening);
    free(p);
}
