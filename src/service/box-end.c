/* Hearing of the end of a hand at once: one thread waits on descriptors of their processes; some
 * backends are told of it, and tell it on. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/thread.h"
#include "service/box-internal.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"
#define END UINT64_MAX

/* An id as a number: an event names its box, which may be gone by then. */
static uint64_t number_of(const char *id)
{
    uint64_t n = 0;

    for (; *id; id++)
        n = n * 36 + (uint64_t)(strchr(LETTERS, *id) - LETTERS);
    return n;
}

static void id_of(uint64_t n, char id[11])
{
    id[10] = '\0';
    for (int i = 9; i >= 0; i--, n /= 36)
        id[i] = LETTERS[n % 36];
}

static void has_ended(struct boxes *all, uint64_t number)
{
    char id[11];

    id_of(number, id);
    autobox struct box *b = boxes_find(all, id);
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    struct pollfd p = {.fd = b->pidfd, .events = POLLIN};
    bool ended = b->pidfd >= 0 && poll(&p, 1, 0) == 1;
    if (ended)
        ends_forget(b);
    pthread_mutex_unlock(&b->lock);
    if (ended)
        box_suspect(b);
}

void boxes_changed(const char *id, void *ctx)
{
    autobox struct box *b = boxes_find(ctx, id);

    if (b)
        box_suspect(b);
}

static void *wait_for_ends(void *arg)
{
    struct boxes *all = arg;
    struct epoll_event events[64];

    for (;;) {
        int n = epoll_wait(all->epoll, events, TN_COUNT(events), -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == END)
                return NULL;
            has_ended(all, events[i].data.u64);
        }
    }
}

/* Without it ends are noticed at the next use. */
void ends_open(struct boxes *all)
{
    struct epoll_event end = {.events = EPOLLIN, .data.u64 = END};

    all->epoll = epoll_create1(EPOLL_CLOEXEC);
    all->epoll_end = eventfd(0, EFD_CLOEXEC);
    all->end_running = all->epoll >= 0 && all->epoll_end >= 0 &&
                       !epoll_ctl(all->epoll, EPOLL_CTL_ADD, all->epoll_end, &end) &&
                       !tn_thread_start(&all->end_thread, wait_for_ends, all);
}

void ends_close(struct boxes *all)
{
    uint64_t one = 1;

    if (all->end_running && write(all->epoll_end, &one, sizeof one) == sizeof one)
        pthread_join(all->end_thread, NULL);
    all->end_running = false;
    tn_close(TN_TAKE_FD(all->epoll));
    tn_close(TN_TAKE_FD(all->epoll_end));
}

void ends_forget(struct box *b)
{
    if (b->pidfd >= 0 && b->all->epoll >= 0)
        epoll_ctl(b->all->epoll, EPOLL_CTL_DEL, b->pidfd, NULL);
    tn_close(TN_TAKE_FD(b->pidfd));
}

void ends_watch(struct box *b, struct tn_sandbox *sb)
{
    tn_autofd int fd = b->all->end_running ? tn_sandbox_watch(sb) : -1;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT,
                                .data.u64 = number_of(b->names.id)};

    pthread_mutex_lock(&b->lock);
    ends_forget(b);
    if (fd >= 0 && !epoll_ctl(b->all->epoll, EPOLL_CTL_ADD, fd, &event))
        b->pidfd = TN_TAKE_FD(fd);
    pthread_mutex_unlock(&b->lock);
}
