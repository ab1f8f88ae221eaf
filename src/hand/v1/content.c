/* /v1/files/content: the bytes of one file, in both directions, with the rights of the sandbox's
 * user. */
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "hand/file-actions.h"
#include "hand/file/confine.h"
#include "hand/routes.h"
#include "hand/v1/attributes.h"
#include "hand/v1/v1.h"

enum {
    PIECE = 64 << 10,
    KERNEL_SIZE = 4096, /* the most that a file of /proc or /sys says it has */
    KERNEL_MAX = 16 << 20,
    TAG_MAX = 96,
    LOOKS = 8, /* at a file that goes on changing */
};

/* --- tags ---------------------------------------------------------------------------------- */

/* Times alone can be set back by whoever writes; that of the change to the inode cannot. */
static void make_tag(const struct stat *st, char tag[TAG_MAX])
{
    snprintf(tag, TAG_MAX, "\"%llx-%llx-%llx%08lx-%llx%08lx\"", (unsigned long long)st->st_ino,
             (unsigned long long)st->st_size, (unsigned long long)st->st_mtim.tv_sec,
             (unsigned long)st->st_mtim.tv_nsec, (unsigned long long)st->st_ctim.tv_sec,
             (unsigned long)st->st_ctim.tv_nsec);
}

static int64_t nanoseconds(const struct timespec *t)
{
    return t->tv_sec * TN_SECOND + t->tv_nsec;
}

static void await_tick(const struct timespec *tick)
{
    tn_autofd int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    uint64_t ticks;

    if (timerfd_settime(timer, 0, &(struct itimerspec){.it_value = *tick}, NULL) == 0)
        while (read(timer, &ticks, sizeof ticks) < 0 && errno == EINTR)
            ;
}

/* The clock of files has ticks of some milliseconds: what changes twice in one may look the same.
 * So a file that was changed in this tick is looked at again in the next: from then on every change
 * shows.  False: it goes on changing, and no tag would be worth anything. */
static bool settle(int fd, const char *path, struct stat *st)
{
    struct timespec now, tick;

    clock_getres(CLOCK_REALTIME_COARSE, &tick);
    for (int i = 0; i < LOOKS; i++) {
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
        int64_t age = nanoseconds(&now) - nanoseconds(&st->st_ctim);
        if (age > 0 || age < -nanoseconds(&tick)) /* in the future: by another clock than ours */
            return true;
        await_tick(&tick);
        if ((fd >= 0 ? fstat(fd, st) : tn_where_stat(path, st, NULL)) < 0)
            return false;
    }
    return false;
}

/* --- reading ------------------------------------------------------------------------------- */

struct source {
    int fd;
    struct tn_buf memory; /* all of it, when the file could not tell its size */
    bool in_memory;
    int64_t size;
    char tag[TAG_MAX]; /* "" while it goes on changing */
};

/* A piece of it; whole: there was no (usable) range; outside: there is nothing of it. */
enum range { RANGE_WHOLE, RANGE_PART, RANGE_OUTSIDE };

/* "bytes=A-B", "bytes=A-" or "bytes=-N".  Anything else is no range, and no error either. */
static enum range parse_range(const char *text, int64_t size, int64_t *first, int64_t *length)
{
    int64_t a, b = INT64_MAX;

    if (!text || strncasecmp(text, "bytes=", 6) != 0)
        return RANGE_WHOLE;
    const char *dash = strchr(text + 6, '-');
    if (!dash)
        return RANGE_WHOLE;
    tn_autofree char *from = tn_strndup(text + 6, (size_t)(dash - text) - 6);
    if (dash[1] && !tn_v1_number(dash + 1, 10, INT64_MAX, &b))
        return RANGE_WHOLE;
    if (!*from) { /* the last b bytes */
        if (!dash[1])
            return RANGE_WHOLE;
        a = b < size ? size - b : 0;
        b = b ? INT64_MAX : -1;
    } else if (!tn_v1_number(from, 10, INT64_MAX, &a) || b < a) {
        return RANGE_WHOLE;
    }
    if (a >= size || b < 0)
        return RANGE_OUTSIDE;
    *first = a;
    *length = (b < size - 1 ? b : size - 1) - a + 1;
    return RANGE_PART;
}

/* A range of a file that is not the one the client has a part of would make a mixture: it gets all.
 */
static const char *wanted_range(struct tn_http_exchange *x, const struct source *s)
{
    const char *unless = tn_http_header(x, "If-Range");
    return unless && strcmp(unless, s->tag) != 0 ? NULL : tn_http_header(x, "Range");
}

/* A quoted tag cannot be a part of another one. */
static bool is_known(struct tn_http_exchange *x, const struct source *s)
{
    const char *known = tn_http_header(x, "If-None-Match");
    return known && (strcmp(known, "*") == 0 || (*s->tag && strstr(known, s->tag)));
}

static void set_tag(struct tn_http_exchange *x, const char *tag)
{
    if (*tag)
        tn_http_set_header(x, "ETag", tag);
}

static void send_content(struct tn_http_exchange *x, const struct source *s)
{
    int64_t first = 0, length = s->size;
    char text[96];

    if (is_known(x, s)) {
        set_tag(x, s->tag);
        tn_http_reply(x, 304, NULL, NULL, 0);
        return;
    }
    enum range range = parse_range(wanted_range(x, s), s->size, &first, &length);
    tn_http_set_header(x, "Accept-Ranges", "bytes");
    set_tag(x, s->tag);
    if (range == RANGE_OUTSIDE) {
        snprintf(text, sizeof text, "bytes */%lld", (long long)s->size);
        tn_http_set_header(x, "Content-Range", text);
        tn_http_reply_detail(x, 416, "the range lies outside the file");
        return;
    }
    if (range == RANGE_PART) {
        snprintf(text, sizeof text, "bytes %lld-%lld/%lld", (long long)first,
                 (long long)(first + length - 1), (long long)s->size);
        tn_http_set_header(x, "Content-Range", text);
    }
    if (tn_http_start(x, range == RANGE_PART ? 206 : 200, "application/octet-stream", length) < 0)
        return;
    int r = s->in_memory ? tn_http_write(x, tn_buf_str(&s->memory) + first, (size_t)length)
                         : tn_http_write_file(x, s->fd, first, length);
    if (r < 0)
        tn_http_abort(x);
    else
        tn_http_end(x);
}

static void tag_by_content(struct source *s)
{
    char digest[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 h;

    tn_sha256_init(&h);
    tn_sha256_add(&h, tn_buf_str(&s->memory), s->memory.len);
    tn_sha256_end_hex(&h, digest);
    snprintf(s->tag, sizeof s->tag, "\"%.32s\"", digest);
}

/* Whether size and time tell of changes: not in /proc and /sys. */
static bool is_telling(const struct source *s, const struct stat *st)
{
    struct statfs fs;

    return s->size == st->st_size && fstatfs(s->fd, &fs) == 0 && fs.f_type != SYSFS_MAGIC;
}

/* Files of the kernel are empty, or a page long, until they are read. */
static int measure(struct source *s, struct stat *st, struct tn_error *err)
{
    if (settle(s->fd, NULL, st))
        make_tag(st, s->tag);
    s->size = st->st_size;
    s->in_memory = st->st_blocks == 0 && st->st_size <= KERNEL_SIZE;
    if (!s->in_memory)
        return 0;
    if (tn_fs_read_fd(s->fd, &s->memory, err) < 0)
        return -1;
    s->size = (int64_t)s->memory.len;
    if (!is_telling(s, st))
        tag_by_content(s);
    return 0;
}

static int open_source(struct tn_http_exchange *x, struct tn_hand *hand, struct source *s,
                       const char *path)
{
    tn_autoact struct tn_act_as as = {0};
    struct tn_error err;
    struct stat st;

    if (tn_v1_act_as_user(x, hand, &as) < 0)
        return -1;
    s->fd = tn_file_open(path, &st, &err);
    if (s->fd >= 0 && !S_ISREG(st.st_mode))
        tn_fail(&err, TN_E_CONFLICT, "%s is not a regular file", path);
    else if (s->fd >= 0 && measure(s, &st, &err) < 0)
        tn_error_context(&err, "%s", path);
    else if (s->fd >= 0)
        return 0;
    tn_http_reply_error(x, &err);
    return -1;
}

static void get_content(struct tn_http_exchange *x, void *ctx)
{
    tn_autofree char *path = tn_v1_query_path(x);
    struct source source = {.fd = -1, .memory = TN_BUF_INIT(KERNEL_MAX)};

    if (path && open_source(x, ctx, &source, path) == 0)
        send_content(x, &source);
    tn_close(source.fd);
    tn_buf_done(&source.memory);
}

/* --- writing ------------------------------------------------------------------------------- */

struct incoming {
    struct tn_http_exchange *x;
    const char *path;
    mode_t mode;
    bool mode_given;
    bool is_new;
    const char *prefix;         /* of attributes that become those below; or NULL */
    struct tn_json *attributes; /* or NULL: none */
    const char *match;          /* If-Match: what the client has seen; or NULL */
    bool changed;               /* it is something else by now */
    bool alone;                 /* no other save that minds what is there can come in between */
    struct timespec written;
    char tag[TAG_MAX]; /* of what it has become; "" when nobody can tell */
};

/* Whether it still is what the client wants to replace. */
static int check_match(struct incoming *in, struct tn_error *err)
{
    char tag[TAG_MAX] = "";
    struct stat st;

    if (!in->match)
        return 0;
    if (tn_where_stat(in->path, &st, NULL) == 0)
        make_tag(&st, tag);
    in->changed = !*tag || (strcmp(in->match, "*") != 0 && !strstr(in->match, tag));
    return in->changed ? tn_fail(err, TN_E_CONFLICT, "%s was changed meanwhile", in->path) : 0;
}

static pthread_mutex_t saves = PTHREAD_MUTEX_INITIALIZER;

/* A time to the nanosecond, which no tick gives to anything else: its tag need not wait for one.
 * Who sets that time again in the same tick is seen by finer times of change only (Linux 6.13). */
static void stamp(struct incoming *in, int fd)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};

    clock_gettime(CLOCK_REALTIME, &in->written);
    times[1] = in->written;
    futimens(fd, times); /* who may write may not always do that: then it is waited for */
}

static void tag_written(struct incoming *in)
{
    struct stat st;

    if (tn_where_stat(in->path, &st, NULL) == 0 &&
        (nanoseconds(&st.st_mtim) == nanoseconds(&in->written) || settle(-1, in->path, &st)))
        make_tag(&st, in->tag);
}

static int write_body(int fd, void *ctx, struct tn_error *err)
{
    struct incoming *in = ctx;
    tn_autofree char *piece = tn_malloc(PIECE);

    if (tn_file_may_write(fd, in->path, err) < 0)
        return -1;
    if (in->is_new && fchmod(fd, in->mode) < 0)
        return tn_fail_errno(err, errno, "mode of the new file");
    if (in->prefix && tn_v1_set_attributes(fd, in->prefix, in->attributes, err) < 0)
        return -1; /* before anything has changed: they may not be had at all */
    for (;;) {
        ssize_t n = tn_http_read(in->x, piece, PIECE, err);
        if (n < 0)
            return -1;
        if (n == 0) { /* it is about to become the file */
            if (in->match)
                pthread_mutex_lock(&saves);
            in->alone = in->match;
            stamp(in, fd);
            return check_match(in, err);
        }
        if (tn_fs_write(fd, piece, (size_t)n, err) < 0)
            return -1;
    }
}

/* What replaced the file has kept those of the old one. */
static int set_attributes(const struct incoming *in, struct tn_error *err)
{
    tn_autofd int fd = tn_where_open(in->path, O_PATH, err);

    return fd < 0 || tn_v1_set_attributes(fd, in->prefix, in->attributes, err) < 0
               ? tn_error_context(err, "the content is stored, but not all of these")
               : 0;
}

/* The body becomes the file in one step; missing parents are made. */
static int store(struct incoming *in, struct tn_hand *hand, struct tn_error *err)
{
    struct tn_file_user user = tn_hand_file_user(hand);
    struct tn_fs_replace how = {
        .mode = in->mode, .in_place = true, .journal = user.journal, .announced = true};
    tn_autofree char *parent = tn_strndup(in->path, (size_t)(strrchr(in->path, '/') - in->path));
    tn_autoact struct tn_act_as as = {0};
    struct stat st;

    if (tn_file_act_as(&as, &user, err) < 0)
        return -1;
    in->is_new = tn_where_stat(in->path, &st, NULL) < 0;
    tn_autofd int dir = *parent ? tn_where_mkdirs(parent, 0755, err) : -1;
    if (*parent && dir < 0)
        return -1;
    tn_autowhere struct tn_where w;
    if (tn_where(in->path, TN_LAST_FOLLOWED, &w, err) < 0)
        return -1;
    int result = tn_fs_replace(w.root, w.path, &how, write_body, in, err);
    if (result == 0 && in->mode_given && !in->is_new && tn_where_chmod(in->path, in->mode, err) < 0)
        result = tn_error_context(err, "the content is stored, but not its mode");
    if (result == 0 && in->prefix && !in->is_new)
        result = set_attributes(in, err);
    if (result == 0)
        tag_written(in);
    if (in->alone)
        pthread_mutex_unlock(&saves);
    return result;
}

static void put_content(struct tn_http_exchange *x, void *ctx)
{
    const char *raw = tn_http_query(x, "path"), *mode_text = tn_http_query(x, "mode");
    tn_autofree char *path = tn_v1_query_path(x);
    const char *prefix, *attributes = tn_http_header(x, "Tendon-Attributes");
    tn_autojson struct tn_json *these = NULL;
    int64_t mode = 0664;
    struct tn_error err = {0};

    if (!path || tn_v1_query_attributes(x, &prefix))
        return;
    if (prefix && attributes &&
        (tn_json_parse(attributes, strlen(attributes), &these, NULL) ||
         tn_json_type(these) != TN_JSON_OBJECT)) {
        tn_http_reply_detail(x, 422, "Tendon-Attributes must be an object of strings");
        return;
    }
    if (raw[strlen(raw) - 1] == '/') {
        tn_http_reply_detail(x, 422, "path must be that of a file");
        return;
    }
    if (mode_text && !tn_v1_number(mode_text, 8, 07777, &mode)) {
        tn_http_reply_detail(x, 422, "mode must be an octal number such as 644");
        return;
    }
    if (tn_http_header(x, "Content-Range")) { /* or the part would become the whole */
        tn_http_reply_detail(x, 400, "a file can only be put as a whole, without Content-Range");
        return;
    }
    struct incoming in = {.x = x,
                          .path = path,
                          .mode = (mode_t)mode,
                          .mode_given = mode_text,
                          .prefix = prefix,
                          .attributes = these,
                          .match = tn_http_header(x, "If-Match")};
    int result = store(&in, ctx, &err);
    if (result < 0 && in.changed) {
        tn_http_reply_detail(x, 412, err.text);
    } else if (result < 0) {
        tn_http_reply_error(x, &err);
    } else {
        set_tag(x, in.tag);
        tn_http_reply(x, in.is_new ? 201 : 204, NULL, NULL, 0);
    }
}

const struct tn_route tn_routes_content[] = {
    {"GET", "/v1/files/content", get_content, "bytes of ?path=; Range is heeded", 0},
    {"PUT", "/v1/files/content", put_content,
     "replaces ?path= by the body, in one step; If-Match is heeded", 0},
    {0},
};
