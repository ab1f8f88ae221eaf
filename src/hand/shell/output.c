#include "hand/shell/output.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/thread.h"

enum { MEMORY_MAX = 8 << 10, PUNCH_STEP = 8 << 20 };

struct tn_output {
    pthread_mutex_t lock;
    pthread_cond_t grew;
    int refs;
    int waiting;
    char *id;
    struct tn_output_options options;
    struct tn_buf memory;
    int fd;
    char *path;
    struct tn_output_state state;
    bool file_failed;
};

struct tn_output *tn_output_new(const char *id, const struct tn_output_options *options)
{
    struct tn_output *o = tn_calloc(1, sizeof *o);

    pthread_mutex_init(&o->lock, NULL);
    tn_cond_init(&o->grew);
    o->refs = 1;
    o->id = tn_strdup(id);
    o->options = *options;
    o->fd = -1;
    tn_buf_init(&o->memory, MEMORY_MAX);
    return o;
}

struct tn_output *tn_output_ref(struct tn_output *o)
{
    __atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED);
    return o;
}

void tn_output_unref(struct tn_output *o)
{
    if (!o || __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (o->path)
        unlink(o->path);
    tn_close(o->fd);
    free(o->path);
    free(o->id);
    tn_buf_done(&o->memory);
    pthread_cond_destroy(&o->grew);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

const char *tn_output_id(const struct tn_output *o)
{
    return o->id;
}

const char *tn_output_path(const struct tn_output *o)
{
    return __atomic_load_n(&o->path, __ATOMIC_ACQUIRE);
}

struct tn_output_state tn_output_state(struct tn_output *o)
{
    pthread_mutex_lock(&o->lock);
    struct tn_output_state state = o->state;
    pthread_mutex_unlock(&o->lock);
    return state;
}

/* From here on nothing that was there can be read any more. */
static void give_up_file(struct tn_output *o)
{
    o->file_failed = true;
    o->state.first = o->state.size;
}

static void write_file(struct tn_output *o, const char *bytes, size_t n)
{
    uint64_t at = o->state.size;
    while (n > 0) {
        ssize_t k = pwrite(o->fd, bytes, n, (off_t)at);
        if (k <= 0) {
            if (k < 0 && errno == EINTR)
                continue;
            give_up_file(o);
            return;
        }
        bytes += k;
        n -= (size_t)k;
        at += (uint64_t)k;
    }
    if (at - o->state.first > o->options.cap + PUNCH_STEP) {
        uint64_t first = (at - o->options.cap) & ~(uint64_t)4095;
        if (fallocate(o->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)o->state.first,
                      (off_t)(first - o->state.first)) == 0)
            o->state.first = first;
        else if (ftruncate(o->fd, 0) == 0) /* no holes on this file system: start over */
            o->state.first = at;
    }
}

static void move_to_file(struct tn_output *o)
{
    static unsigned files; /* ids come again when a session is made anew under its name */
    tn_autofree char *path = tn_asprintf("%s/%s.%u.log", o->options.directory, o->id,
                                         __atomic_add_fetch(&files, 1, __ATOMIC_RELAXED));

    o->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (o->fd < 0) {
        give_up_file(o);
        return;
    }
    if (fchown(o->fd, (uid_t)-1, o->options.group) < 0) {
        /* Then only the server's own user reads it; the route still serves it. */
    }
    uint64_t size = o->state.size;
    o->state.size = 0;
    write_file(o, tn_buf_str(&o->memory), o->memory.len);
    o->state.size = size;
    if (o->file_failed)
        o->state.first = size;
    __atomic_store_n(&o->path, TN_TAKE_PTR(path), __ATOMIC_RELEASE);
    tn_buf_done(&o->memory);
}

void tn_output_append(struct tn_output *o, const char *bytes, size_t n)
{
    pthread_mutex_lock(&o->lock);
    if (o->fd < 0 && !o->file_failed && o->memory.len + n > MEMORY_MAX)
        move_to_file(o);
    if (o->file_failed)
        o->state.first += n;
    else if (o->fd >= 0)
        write_file(o, bytes, n);
    else
        tn_buf_add(&o->memory, bytes, n);
    o->state.size += n;
    if (o->waiting)
        pthread_cond_broadcast(&o->grew);
    pthread_mutex_unlock(&o->lock);
}

void tn_output_finish(struct tn_output *o)
{
    pthread_mutex_lock(&o->lock);
    o->state.finished = true;
    if (o->waiting)
        pthread_cond_broadcast(&o->grew);
    pthread_mutex_unlock(&o->lock);
}

ssize_t tn_output_read(struct tn_output *o, uint64_t offset, char *to, size_t n,
                       struct tn_error *err)
{
    ssize_t got = 0;

    pthread_mutex_lock(&o->lock);
    if (offset < o->state.first) {
        got = tn_fail(err, TN_E_GONE, "output before offset %llu is discarded",
                      (unsigned long long)o->state.first);
    } else if (offset < o->state.size) {
        uint64_t left = o->state.size - offset;
        size_t want = left < n ? (size_t)left : n;
        if (o->fd < 0) {
            memcpy(to, o->memory.data + offset, want);
            got = (ssize_t)want;
        } else {
            got = pread(o->fd, to, want, (off_t)offset);
            if (got < 0)
                tn_fail_errno(err, errno, "read %s", o->path);
        }
    }
    pthread_mutex_unlock(&o->lock);
    return got;
}

bool tn_output_wait(struct tn_output *o, uint64_t offset, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    bool ready = false;

    pthread_mutex_lock(&o->lock);
    o->waiting++;
    while (!(ready = o->state.size > offset || o->state.finished)) {
        if (pthread_cond_timedwait(&o->grew, &o->lock, &until) == ETIMEDOUT)
            break;
    }
    o->waiting--;
    pthread_mutex_unlock(&o->lock);
    return ready;
}
