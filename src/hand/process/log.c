#include "hand/process/log.h"

#include "base/guard.h"

enum { CAP_MIN = 4096 };

void process_log_init(struct process_log *log, size_t max)
{
    *log = (struct process_log){.max = max};
}

void process_log_done(struct process_log *log)
{
    free(log->ring);
    *log = (struct process_log){.max = log->max};
}

static void copy_out(const struct process_log *log, uint64_t from, char *to, size_t n)
{
    size_t at = (size_t)(from % log->cap), before = log->cap - at < n ? log->cap - at : n;

    memcpy(to, log->ring + at, before);
    memcpy(to + before, log->ring, n - before);
}

static void copy_in(struct process_log *log, uint64_t at, const char *from, size_t n)
{
    size_t start = (size_t)(at % log->cap), before = log->cap - start < n ? log->cap - start : n;

    memcpy(log->ring + start, from, before);
    memcpy(log->ring, from + before, n - before);
}

static void resize(struct process_log *log, size_t cap)
{
    size_t kept = (size_t)(log->end - log->first);
    tn_autofree char *bytes = tn_malloc(kept);

    if (kept)
        copy_out(log, log->first, bytes, kept);
    log->ring = tn_realloc(log->ring, cap);
    log->cap = cap;
    copy_in(log, log->first, bytes, kept);
}

static size_t wanted_cap(const struct process_log *log, size_t n)
{
    size_t cap = log->cap ? log->cap : CAP_MIN;

    while (cap < n && cap < log->max)
        cap *= 2;
    return cap < log->max ? cap : log->max;
}

void process_log_add(struct process_log *log, const void *bytes, size_t n)
{
    const char *from = bytes;
    size_t cap = wanted_cap(log, (size_t)(log->end - log->first) + n);

    if (!n)
        return;
    if (cap != log->cap)
        resize(log, cap);
    log->end += n;
    if (n > cap) {
        from += n - cap;
        n = cap;
    }
    copy_in(log, log->end - n, from, n);
    if (log->end - log->first > cap)
        log->first = log->end - cap;
}

size_t process_log_read(const struct process_log *log, uint64_t *offset, void *to, size_t n)
{
    if (*offset < log->first)
        *offset = log->first;
    if (*offset >= log->end)
        return 0;
    if (log->end - *offset < n)
        n = (size_t)(log->end - *offset);
    copy_out(log, *offset, to, n);
    return n;
}

void process_log_shrink(struct process_log *log)
{
    size_t kept = (size_t)(log->end - log->first);

    if (kept && kept < log->cap)
        resize(log, kept);
    else if (!kept)
        free(TN_TAKE_PTR(log->ring));
}
