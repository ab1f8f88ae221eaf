#include "gate/gate.h"

static const double spans[TIMER_KINDS] = {
    [TIMER_JUDGE] = 30, [TIMER_CONNECT] = 30, [TIMER_HALF] = 300,  [TIMER_FLOW] = 60,
    [TIMER_QUERY] = 3,  [TIMER_LINGER] = 2,   [TIMER_HELD] = 0.25, [TIMER_LEFT] = 0.5,
};

int watch_begin(struct gate *g, struct watch *w)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = w};

    return epoll_ctl(g->epoll, EPOLL_CTL_ADD, w->fd, &e);
}

void timer_stop(struct timer *t)
{
    if (!t->after)
        return;
    t->before->after = t->after;
    t->after->before = t->before;
    t->before = t->after = NULL;
}

void timer_start(struct gate *g, struct timer *t, enum timer_kind kind)
{
    struct timer *head = &g->timers[kind];

    timer_stop(t);
    t->kind = kind;
    double span = kind == TIMER_ASKED ? g->ask_seconds : spans[kind];
    t->at = g->now + (int64_t)(span * (double)TN_SECOND);
    t->before = head->before;
    t->after = head;
    head->before->after = t;
    head->before = t;
}

void bury(struct gate *g, struct grave *grave)
{
    grave->next = g->graves;
    g->graves = grave;
}

void run_again(struct gate *g, struct again *a)
{
    if (a->waits)
        return;
    a->waits = true;
    a->next = NULL;
    *g->again_end = a;
    g->again_end = &a->next;
}
