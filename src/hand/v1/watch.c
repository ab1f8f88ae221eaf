/* /v1/files/watch: changes below a path, as server-sent events. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "hand/file-actions.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"
#include "net/sse.h"

enum { WATCHES_MAX = 8192, DEPTH_MAX = 64 };
#define WATCHED (IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | \
                 IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK)

static const struct {
    uint32_t mask;
    const char *name;
} names[] = {
    {IN_CREATE, "created"},     {IN_DELETE, "deleted"},    {IN_CLOSE_WRITE, "written"},
    {IN_MOVED_FROM, "moved_from"}, {IN_MOVED_TO, "moved_to"}, {IN_ATTRIB, "attributes"},
    {IN_DELETE_SELF, "gone"},   {IN_MOVE_SELF, "gone"},    {IN_Q_OVERFLOW, "overflow"},
};

/* Descriptors of inotify count up from 1: the path of watch N is paths[N]. */
struct watcher {
    int fd;
    bool recursive;
    char **paths;
    size_t count;
};

static void watcher_done(struct watcher *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->paths[i]);
    free(w->paths);
    tn_close(w->fd);
}

static int add(struct watcher *w, const char *path, int depth)
{
    int id = inotify_add_watch(w->fd, path, WATCHED);
    if (id < 0 || id >= WATCHES_MAX)
        return -1;
    if ((size_t)id >= w->count) {
        w->paths = tn_realloc(w->paths, ((size_t)id + 1) * sizeof *w->paths);
        while (w->count <= (size_t)id)
            w->paths[w->count++] = NULL;
    }
    free(w->paths[id]);
    w->paths[id] = tn_strdup(path);
    if (!w->recursive || depth >= DEPTH_MAX)
        return 0;

    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
            continue;
        tn_autofree char *below = tn_asprintf("%s/%s", strcmp(path, "/") == 0 ? "" : path, e->d_name);
        add(w, below, depth + 1);
    }
    if (dir)
        closedir(dir);
    return 0;
}

static int tell(struct tn_http_exchange *x, struct watcher *w, const struct inotify_event *event)
{
    const char *kind = NULL;
    const char *where = event->wd >= 0 && (size_t)event->wd < w->count ? w->paths[event->wd] : NULL;

    for (size_t i = 0; i < TN_COUNT(names) && !kind; i++) {
        if (event->mask & names[i].mask)
            kind = names[i].name;
    }
    if (!kind || (!where && !(event->mask & IN_Q_OVERFLOW)))
        return 0;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(32 << 10);
    tn_autofree char *path =
        event->len ? tn_asprintf("%s/%s", strcmp(where, "/") == 0 ? "" : where, event->name)
                   : tn_strdup(where ? where : "");
    if (w->recursive && (event->mask & IN_ISDIR) && (event->mask & (IN_CREATE | IN_MOVED_TO)))
        add(w, path, 0);
    struct tn_jw out = tn_jw(&json);
    tn_jw_object(&out);
    tn_jw_kstr(&out, "path", path);
    tn_jw_kbool(&out, "directory", event->mask & IN_ISDIR);
    tn_jw_object_end(&out);
    return tn_sse_send(x, kind, NULL, tn_buf_str(&json), json.len);
}

static void stream(struct tn_http_exchange *x, struct watcher *w)
{
    char bytes[16 << 10] __attribute__((aligned(__alignof__(struct inotify_event))));

    if (tn_sse_start(x) < 0 || tn_sse_send(x, "watching", NULL, "{}", 2) < 0)
        return;
    for (;;) {
        struct pollfd fd = {.fd = w->fd, .events = POLLIN};
        int ready = poll(&fd, 1, tn_poll_ms(tn_deadline_in(TN_BEAT_SECONDS)));
        if (ready == 0 && tn_sse_beat(x) < 0)
            return;
        if (ready <= 0)
            continue;
        ssize_t n = read(w->fd, bytes, sizeof bytes);
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *)(bytes + at);
            if (tell(x, w, event) < 0)
                return;
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
}

static void get_watch(struct tn_http_exchange *x, void *ctx)
{
    struct watcher w = {.recursive = tn_v1_query_flag(x, "recursive")};
    struct tn_file_user user = tn_hand_file_user(ctx);
    tn_autoact struct tn_act_as as = {0}; /* new directories are entered with the user's rights too */
    const char *path = tn_http_query(x, "path");
    struct tn_error err;

    if (!path || path[0] != '/') {
        tn_http_reply_detail(x, 422, "path must be an absolute path");
        return;
    }
    if (tn_file_act_as(&as, &user, &err) < 0) {
        tn_http_reply_error(x, &err);
        return;
    }
    w.fd = inotify_init1(IN_CLOEXEC);
    if (w.fd < 0 || add(&w, path, 0) < 0) {
        tn_fail_errno(&err, errno, "watch %s", path);
        tn_http_reply_error(x, &err);
    } else {
        stream(x, &w);
    }
    watcher_done(&w);
}

const struct tn_route tn_routes_watch[] = {
    {"GET", "/v1/files/watch", get_watch, "events of changes in ?path=, with ?recursive=1 below it", 0},
    {0},
};
