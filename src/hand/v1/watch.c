/* Changes at and below a path: /v1/files/watch as server-sent events, /v1/files/watchers for who
 * asks again and again.  Between two questions the kernel keeps the events of a watcher. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "hand/file/confine.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"
#include "net/sse.h"

enum { WATCHES_MAX = 8192, WATCHERS_MAX = 32, WATCHER_ID = 33, EVENTS_BYTES = 4 << 20 };
#define WATCHED                                                                         \
    (IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK)
#define SELF_GONE (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)

static const struct {
    uint32_t mask;
    const char *name;
} names[] = {
    {IN_CREATE, "created"},        {IN_DELETE, "deleted"},    {IN_CLOSE_WRITE, "written"},
    {IN_MOVED_FROM, "moved_from"}, {IN_MOVED_TO, "moved_to"}, {IN_ATTRIB, "attributes"},
    {IN_DELETE_SELF, "gone"},      {IN_MOVE_SELF, "gone"},    {IN_UNMOUNT, "gone"},
    {IN_Q_OVERFLOW, "overflow"},
};

struct watch {
    int id;
    char *path;
};

struct watcher {
    struct tn_http_exchange *x; /* that listens, or asks just now */
    struct tn_jw *list;         /* where events go instead of x: an open list; NULL */
    int fd;
    bool recursive;
    const char *root;
    int root_id;
    struct watch *watches; /* in order of id */
    size_t count;
    bool over; /* the client is gone, or what it watched */
};

/* Directories still to be looked at. */
struct todo {
    char **paths;
    size_t count;
};

/* --- what is being watched ----------------------------------------------------------------- */

/* Where the id is, or would be. */
static size_t place_of(const struct watcher *w, int id)
{
    size_t low = 0, high = w->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (w->watches[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct watch *find(const struct watcher *w, int id)
{
    size_t at = place_of(w, id);
    return at < w->count && w->watches[at].id == id ? &w->watches[at] : NULL;
}

static void forget(struct watcher *w, struct watch *watch)
{
    free(watch->path);
    w->count--;
    memmove(watch, watch + 1, (size_t)(w->watches + w->count - watch) * sizeof *watch);
}

/* A directory was moved away: what is below it has other names now. */
static void forget_below(struct watcher *w, const char *path)
{
    size_t n = strlen(path);

    for (size_t i = w->count; i-- > 0;) {
        const char *p = w->watches[i].path;
        if (strncmp(p, path, n) == 0 && (p[n] == '\0' || p[n] == '/')) {
            inotify_rm_watch(w->fd, w->watches[i].id);
            forget(w, &w->watches[i]);
        }
    }
}

/* A confined server looks at what it has opened beneath its root, not at the path again. */
static int add_watch(const struct watcher *w, const char *path, uint32_t flags)
{
    struct tn_error err = {0};
    char link[40];

    if (!tn_confined())
        return inotify_add_watch(w->fd, path, WATCHED | flags);
    tn_autofd int fd =
        tn_where_open(path, O_PATH | (flags & IN_DONT_FOLLOW ? O_NOFOLLOW : 0), &err);
    if (fd < 0) {
        errno = err.sys ? err.sys : EACCES;
        return -1;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return inotify_add_watch(w->fd, link, WATCHED | (flags & ~(uint32_t)IN_DONT_FOLLOW));
}

/* The id, or -1 with errno.  Something that is watched already gets the new path. */
static int watch_one(struct watcher *w, const char *path, uint32_t flags)
{
    int id = add_watch(w, path, flags);
    if (id < 0)
        return -1;
    struct watch *known = find(w, id);
    if (known) {
        free(known->path);
        known->path = tn_strdup(path);
        return id;
    }
    if (w->count == WATCHES_MAX) {
        inotify_rm_watch(w->fd, id);
        errno = ENOSPC;
        return -1;
    }
    size_t at = place_of(w, id);
    w->watches = tn_realloc(w->watches, (w->count + 1) * sizeof *w->watches);
    memmove(w->watches + at + 1, w->watches + at, (w->count - at) * sizeof *w->watches);
    w->watches[at] = (struct watch){.id = id, .path = tn_strdup(path)};
    w->count++;
    return id;
}

static void watcher_done(struct watcher *w)
{
    while (w->count)
        forget(w, &w->watches[w->count - 1]);
    free(w->watches);
    tn_close(w->fd);
}

/* --- telling ------------------------------------------------------------------------------- */

static char *joined(const char *dir, const char *name)
{
    return tn_asprintf("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);
}

static void tell(struct watcher *w, const char *event, const char *path, bool directory,
                 uint32_t cookie)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw out = tn_jw(&json);

    if (w->list)
        out = *w->list;
    tn_jw_object(&out);
    if (w->list)
        tn_jw_kstr(&out, "event", event);
    tn_jw_kstr(&out, "path", path);
    tn_jw_kbool(&out, "directory", directory);
    if (cookie)
        tn_jw_kint(&out, "cookie", cookie);
    tn_jw_object_end(&out);
    if (w->list)
        *w->list = out;
    else if (!w->over && tn_sse_send(w->x, event, NULL, tn_buf_str(&json), json.len) < 0)
        w->over = true;
}

/* --- going down ---------------------------------------------------------------------------- */

/* Looks into a directory: tells what is in it, when that is new, and notes its directories. */
static void look_into(struct watcher *w, const char *path, bool is_new, struct todo *todo)
{
    int flags = O_RDONLY | O_DIRECTORY | (path == w->root ? 0 : O_NOFOLLOW);
    int fd = tn_where_open(path, flags, NULL);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        tn_close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(dir)) && !w->over;) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        tn_autofree char *below = joined(path, e->d_name);
        if (is_new)
            tell(w, "created", below, S_ISDIR(st.st_mode), 0);
        if (!S_ISDIR(st.st_mode))
            continue;
        if (todo->count + w->count >= WATCHES_MAX) {
            tell(w, "skipped", below, true, 0);
            continue;
        }
        todo->paths = tn_realloc(todo->paths, (todo->count + 1) * sizeof *todo->paths);
        todo->paths[todo->count++] = TN_TAKE_PTR(below);
    }
    closedir(dir);
}

/* Watches what lies below a directory that is watched.  A directory is watched first and looked
 * into then: what comes into it meanwhile may be told twice, but is not missed. */
static void watch_below(struct watcher *w, const char *path, bool is_new)
{
    struct todo todo = {0};

    look_into(w, path, is_new, &todo);
    while (todo.count) {
        tn_autofree char *next = todo.paths[--todo.count];
        if (w->over)
            continue;
        if (watch_one(w, next, IN_ONLYDIR | IN_DONT_FOLLOW) >= 0)
            look_into(w, next, is_new, &todo);
        else if (errno != ENOENT && errno != ENOTDIR) /* gone again is no loss */
            tell(w, "skipped", next, true, 0);
    }
    free(todo.paths);
}

static void watch_new_directory(struct watcher *w, const char *path)
{
    if (watch_one(w, path, IN_ONLYDIR | IN_DONT_FOLLOW) >= 0)
        watch_below(w, path, true);
    else if (errno != ENOENT && errno != ENOTDIR)
        tell(w, "skipped", path, true, 0);
}

/* --- events -------------------------------------------------------------------------------- */

static void take_event(struct watcher *w, const struct inotify_event *event)
{
    struct watch *watch = find(w, event->wd);
    bool directory = event->mask & IN_ISDIR;
    const char *kind = NULL;

    for (size_t i = 0; i < TN_COUNT(names) && !kind; i++) {
        if (event->mask & names[i].mask)
            kind = names[i].name;
    }
    if (event->mask & IN_Q_OVERFLOW) {
        tell(w, kind, w->root, false, 0);
        if (w->recursive) /* new directories may be among what was lost */
            watch_below(w, w->root, false);
        return;
    }
    if (!watch)
        return;
    if (event->mask & IN_IGNORED) {
        forget(w, watch);
        return;
    }
    bool self = event->mask & SELF_GONE;
    if (!kind || (self && event->wd != w->root_id)) /* its parent told it */
        return;
    tn_autofree char *path = event->len ? joined(watch->path, event->name) : tn_strdup(watch->path);
    tell(w, kind, path, directory, event->cookie);
    if (self) {
        if (!w->list)
            tn_http_end(w->x);
        w->over = true;
    }
    if (!w->recursive || !directory)
        return;
    if (event->mask & IN_MOVED_FROM)
        forget_below(w, path);
    if (event->mask & (IN_CREATE | IN_MOVED_TO))
        watch_new_directory(w, path);
}

/* False: there were none. */
static bool take_events(struct watcher *w)
{
    char bytes[16 << 10] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(w->fd, bytes, sizeof bytes);

    for (ssize_t at = 0; at < n && !w->over;) {
        const struct inotify_event *event = (const void *)(bytes + at);
        take_event(w, event);
        at += (ssize_t)(sizeof *event + event->len);
    }
    return n > 0;
}

/* Until the client or what is watched is gone. */
static void stream(struct watcher *w)
{
    struct pollfd fds[] = {{.fd = w->fd, .events = POLLIN},
                           {.fd = tn_http_fd(w->x), .events = POLLRDHUP}};

    if (tn_sse_start(w->x) < 0)
        return;
    if (w->recursive)
        watch_below(w, w->root, false);
    tell(w, "watching", w->root, false, 0);
    for (int64_t beat = tn_deadline_in(TN_BEAT_SECONDS); !w->over;) {
        poll(fds, 2, tn_poll_ms(beat));
        if (fds[1].revents)
            return;
        if (fds[0].revents)
            take_events(w);
        if (tn_now() < beat || w->over)
            continue;
        w->over = tn_sse_beat(w->x) < 0;
        beat = tn_deadline_in(TN_BEAT_SECONDS);
    }
}

/* -1: answered. */
static int watch_root(struct watcher *w)
{
    struct tn_error err;

    w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    w->root_id = w->fd < 0 ? -1 : watch_one(w, w->root, 0);
    if (w->root_id >= 0)
        return 0;
    if (errno == EMFILE || errno == ENOSPC) {
        tn_http_reply_detail(
            w->x, 503,
            "the limit of the system on watches is reached (fs.inotify.max_user_instances and "
            "max_user_watches)");
        return -1;
    }
    tn_fail_errno(&err, errno, "watch %s", w->root);
    tn_http_reply_error(w->x, &err);
    return -1;
}

static void get_watch(struct tn_http_exchange *x, void *ctx)
{
    tn_autoact struct tn_act_as as = {
        0}; /* new directories are entered with the user's rights too */
    tn_autofree char *path = tn_v1_query_path(x);
    int recursive = path ? tn_v1_query_flag(x, "recursive") : -1;
    struct watcher w = {.x = x, .root = path, .recursive = recursive == 1, .fd = -1};

    if (recursive < 0 || tn_v1_act_as_user(x, ctx, &as) < 0)
        return;
    if (watch_root(&w) == 0)
        stream(&w);
    watcher_done(&w);
}

/* --- watchers that are asked --------------------------------------------------------------- */

struct polled {
    char id[WATCHER_ID];
    char *path;
    struct watcher w;
};
static struct {
    pthread_mutex_t lock;
    struct polled *items[WATCHERS_MAX];
} watchers = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void polled_free(struct polled *p)
{
    if (!p)
        return;
    watcher_done(&p->w);
    free(p->path);
    free(p);
}

/* Under the lock: where the watcher of {id} is, or the first free place for a NULL. */
static struct polled **place_of_watcher(const char *id)
{
    for (size_t i = 0; i < WATCHERS_MAX; i++) {
        struct polled *p = watchers.items[i];
        if (id ? p && strcmp(p->id, id) == 0 : !p)
            return &watchers.items[i];
    }
    return NULL;
}

static void reply_watcher(struct tn_http_exchange *x, const char *id)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "id", id);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 201, &json);
}

/* The paths in a list do not outlast the request: directories that are there are watched, and what
 * is in them is not told. */
static void begin_polling(struct tn_http_exchange *x, struct polled *p)
{
    unsigned char bytes[(WATCHER_ID - 1) / 2];
    tn_autobuf struct tn_buf skipped = TN_BUF_INIT(EVENTS_BYTES);
    struct tn_jw list = tn_jw(&skipped);

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        tn_http_reply_detail(x, 500, "no random bytes");
        polled_free(p);
        return;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(p->id + 2 * i, 3, "%02x", bytes[i]);
    p->w.list = &list;
    if (p->w.recursive)
        watch_below(&p->w, p->w.root, false);
    p->w.list = NULL;
    pthread_mutex_lock(&watchers.lock);
    struct polled **place = place_of_watcher(NULL);
    if (place)
        *place = p;
    pthread_mutex_unlock(&watchers.lock);
    if (place) {
        reply_watcher(x, p->id);
    } else {
        polled_free(p);
        tn_http_reply_detail(x, 503, "there are too many watchers: remove some");
    }
}

static void post_watcher(struct tn_http_exchange *x, void *ctx)
{
    tn_autoact struct tn_act_as as = {0};
    tn_autofree char *path = tn_v1_query_path(x);
    int recursive = path ? tn_v1_query_flag(x, "recursive") : -1;

    if (recursive < 0 || tn_v1_act_as_user(x, ctx, &as) < 0)
        return;
    struct polled *p = tn_calloc(1, sizeof *p);
    p->path = TN_TAKE_PTR(path);
    p->w = (struct watcher){.x = x, .root = p->path, .recursive = recursive == 1, .fd = -1};
    if (watch_root(&p->w) == 0)
        begin_polling(x, p);
    else
        polled_free(p);
}

static void get_watcher(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(2 * EVENTS_BYTES);
    tn_autoact struct tn_act_as as = {0};
    struct tn_jw w = tn_jw(&json);

    if (tn_v1_act_as_user(x, ctx, &as) < 0)
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "events");
    tn_jw_array(&w);
    pthread_mutex_lock(&watchers.lock);
    struct polled **place = place_of_watcher(tn_http_param(x, "id"));
    if (place) {
        struct watcher *watcher = &(*place)->w;
        watcher->x = x;
        watcher->list = &w;
        while (json.len < EVENTS_BYTES && take_events(watcher))
            ;
        watcher->list = NULL;
    }
    pthread_mutex_unlock(&watchers.lock);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    if (place)
        tn_http_reply_json(x, 200, &json);
    else
        tn_http_reply_detail(x, 404, "there is no such watcher");
}

static void delete_watcher(struct tn_http_exchange *x, void *ctx)
{
    struct polled *gone = NULL;

    pthread_mutex_lock(&watchers.lock);
    struct polled **place = place_of_watcher(tn_http_param(x, "id"));
    if (place)
        gone = TN_TAKE_PTR(*place);
    pthread_mutex_unlock(&watchers.lock);
    if (gone)
        tn_http_reply(x, 204, NULL, NULL, 0);
    else
        tn_http_reply_detail(x, 404, "there is no such watcher");
    polled_free(gone);
}

const struct tn_route tn_routes_watch[] = {
    {"GET", "/v1/files/watch", get_watch, "events of changes in ?path=, with ?recursive=1 below it",
     0},
    {"POST", "/v1/files/watchers", post_watcher,
     "a watcher of ?path=, with ?recursive=1 also below it", 0},
    {"GET", "/v1/files/watchers/{id}", get_watcher, "what it has seen since it was last asked", 0},
    {"DELETE", "/v1/files/watchers/{id}", delete_watcher, "ends it", 0},
    {0},
};
