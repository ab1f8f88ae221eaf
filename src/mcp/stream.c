/* The queue of a stream.  All of it with the server's lock held. */
#include <sys/eventfd.h>

#include "mcp/serve-internal.h"

struct stream *stream_new(uint64_t number, bool keeps)
{
    struct stream *s = tn_calloc(1, sizeof *s);

    s->refs = 1;
    s->number = number;
    s->keeps = keeps;
    s->next_number = 1;
    s->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return s;
}

void event_unref(struct event *e)
{
    if (e && --e->refs == 0)
        free(e);
}

static void drop_first(struct stream *s)
{
    struct event *e = s->first;

    if (e == s->unsent) {
        s->unsent = e->next;
        s->unsent_bytes -= e->len;
    } else {
        s->kept_bytes -= e->len;
        s->kept_count--;
    }
    s->first = e->next;
    if (!s->first)
        s->last = NULL;
    event_unref(e);
}

void stream_unref(struct stream *s)
{
    if (!s || --s->refs > 0)
        return;
    while (s->first)
        drop_first(s);
    tn_close(s->ready);
    free(s);
}

void stream_wake(struct stream *s)
{
    uint64_t one = 1;
    (void)!write(s->ready, &one, sizeof one);
}

static void drop_old(struct stream *s)
{
    while (s->first != s->unsent &&
           (!s->keeps || s->kept_count > KEPT_EVENTS || s->kept_bytes > KEPT_BYTES))
        drop_first(s);
}

int stream_push(struct stream *s, const char *text, size_t n, bool answer)
{
    if (s->done)
        return 0; /* too late to matter */
    while (s->lossy && s->first && s->unsent_bytes + n > KEPT_BYTES)
        drop_first(s);
    if (s->unsent_bytes + n > UNREAD_MAX)
        return -1;
    struct event *e = malloc(sizeof *e + n + 1);
    if (!e)
        return -1;
    *e = (struct event){.refs = 1, .number = s->next_number++, .answer = answer, .len = n};
    memcpy(e->text, text, n);
    e->text[n] = '\0';
    if (s->last)
        s->last->next = e;
    else
        s->first = e;
    s->last = e;
    if (!s->unsent)
        s->unsent = e;
    s->unsent_bytes += n;
    s->talk |= !answer;
    stream_wake(s);
    return 0;
}

unsigned stream_claim(struct stream *s)
{
    stream_wake(s);
    return ++s->turn;
}

struct event *stream_take(struct stream *s)
{
    struct event *e = s->unsent;

    if (!e)
        return NULL;
    e->refs++;
    s->unsent = e->next;
    s->unsent_bytes -= e->len;
    s->kept_bytes += e->len;
    s->kept_count++;
    drop_old(s);
    return e;
}

int stream_rewind(struct stream *s, uint64_t number)
{
    struct event *at = s->first;

    /* Number 0 is the beginning, before the first event. */
    if (number >= s->next_number || (at ? at->number : s->next_number) > number + 1)
        return -1;
    while (at && at->number <= number)
        at = at->next;
    s->unsent = at;
    s->unsent_bytes = s->kept_bytes = s->kept_count = 0;
    bool kept = true;
    for (at = s->first; at; at = at->next) {
        kept = kept && at != s->unsent;
        if (kept) {
            s->kept_bytes += at->len;
            s->kept_count++;
        } else {
            s->unsent_bytes += at->len;
        }
    }
    return 0;
}
