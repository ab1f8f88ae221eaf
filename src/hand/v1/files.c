/* /v1/files: files as a program wants them, with the rights of the sandbox's user. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "hand/file-actions.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"

enum { PIECE = 64 << 10, LIST_MAX = 10000 };

/* The absolute path in the query or the body; NULL when there is none (answered). */
static const char *checked_path(struct tn_http_exchange *x, const char *path, const char *name)
{
    if (path && path[0] == '/')
        return path;
    tn_autofree char *detail = tn_asprintf("%s must be an absolute path", name);
    tn_http_reply_detail(x, 422, detail);
    return NULL;
}

static const char *query_path(struct tn_http_exchange *x)
{
    return checked_path(x, tn_http_query(x, "path"), "path");
}

/* Takes on the user's rights until `as` leaves its scope; false when that failed (answered). */
static bool act_as_user(struct tn_http_exchange *x, struct tn_hand *hand, struct tn_act_as *as)
{
    struct tn_file_user user = tn_hand_file_user(hand);
    struct tn_error err;

    if (tn_file_act_as(as, &user, &err) == 0)
        return true;
    tn_http_reply_error(x, &err);
    return false;
}

static void reply_errno(struct tn_http_exchange *x, int sys, const char *path)
{
    struct tn_error err;
    tn_fail_errno(&err, sys, "%s", path);
    tn_http_reply_error(x, &err);
}

/* --- looking ------------------------------------------------------------------------------------------------ */

static const char *kind_name(mode_t mode)
{
    return S_ISREG(mode)   ? "file"
           : S_ISDIR(mode) ? "directory"
           : S_ISLNK(mode) ? "symlink"
           : S_ISFIFO(mode) ? "fifo"
           : S_ISSOCK(mode) ? "socket"
                            : "device";
}

static void write_stat(struct tn_jw *w, int dir, const char *name, const char *shown, const struct stat *st)
{
    char target[4096];

    tn_jw_object(w);
    tn_jw_kstr(w, "name", shown);
    tn_jw_kstr(w, "type", kind_name(st->st_mode));
    tn_jw_kint(w, "size", st->st_size);
    tn_jw_kint(w, "mode", st->st_mode & 07777);
    tn_jw_kint(w, "uid", st->st_uid);
    tn_jw_kint(w, "gid", st->st_gid);
    tn_jw_kdouble(w, "mtime", (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec / 1e9);
    ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir, name, target, sizeof target) : -1;
    if (n >= 0) {
        tn_jw_key(w, "target");
        tn_jw_strn(w, target, (size_t)n);
    }
    tn_jw_object_end(w);
}

static void get_stat(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    tn_autoact struct tn_act_as as = {0};
    struct tn_jw w = tn_jw(&json);
    struct stat st;
    const char *path = query_path(x);

    if (!path || !act_as_user(x, ctx, &as))
        return;
    if (lstat(path, &st) < 0) {
        reply_errno(x, errno, path);
        return;
    }
    const char *slash = strrchr(path, '/');
    write_stat(&w, AT_FDCWD, path, slash[1] ? slash + 1 : path, &st);
    tn_http_reply_json(x, 200, &json);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_dots(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* In order of name, ?limit= at a time; "next" is the ?after= of the following page. */
static void get_list(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 20);
    tn_autoact struct tn_act_as as = {0};
    struct tn_jw w = tn_jw(&json);
    struct dirent **names = NULL;
    const char *path = query_path(x), *after = tn_http_query(x, "after"), *last = NULL;
    int64_t limit = path ? tn_v1_query_number(x, "limit", 1000) : -1, shown = 0;

    if (limit < 0 || !act_as_user(x, ctx, &as))
        return;
    if (limit == 0 || limit > LIST_MAX)
        limit = LIST_MAX;
    tn_autofd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int n = dir < 0 ? -1 : scandirat(dir, ".", &names, not_dots, by_name);
    if (n < 0) {
        reply_errno(x, errno, path);
        return;
    }
    tn_jw_object(&w);
    tn_jw_key(&w, "entries");
    tn_jw_array(&w);
    int i = 0;
    for (; i < n && shown < limit; i++) {
        struct stat st;
        if ((after && strcmp(names[i]->d_name, after) <= 0) ||
            fstatat(dir, names[i]->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        write_stat(&w, dir, names[i]->d_name, names[i]->d_name, &st);
        last = names[i]->d_name;
        shown++;
    }
    tn_jw_array_end(&w);
    tn_jw_kstr(&w, "next", i < n ? last : NULL);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
    for (int k = 0; k < n; k++)
        free(names[k]);
    free(names);
}

/* --- reading ------------------------------------------------------------------------------------------------ */

/* "bytes=a-b", "bytes=a-" or "bytes=-n": 1 with the part, 0 when there is no usable range, -1 when it lies
 * outside. */
static int parse_range(const char *text, int64_t size, int64_t *first, int64_t *length)
{
    char *end;

    if (!text || strncmp(text, "bytes=", 6) != 0 || strchr(text, ','))
        return 0;
    text += 6;
    if (*text == '-') {
        long long tail = strtoll(text + 1, &end, 10);
        if (*end || tail <= 0)
            return *end ? 0 : -1;
        *first = tail < size ? size - tail : 0;
        *length = size - *first;
        return size > 0 ? 1 : -1;
    }
    long long a = strtoll(text, &end, 10), b = size - 1;
    if (end == text || *end != '-' || a < 0)
        return 0;
    if (end[1]) {
        char *stop;
        b = strtoll(end + 1, &stop, 10);
        if (*stop || b < a)
            return 0;
    }
    if (a >= size)
        return -1;
    *first = a;
    *length = (b < size - 1 ? b : size - 1) - a + 1;
    return 1;
}

static void get_content(struct tn_http_exchange *x, void *ctx)
{
    tn_autofd int fd = -1;
    struct tn_error err;
    struct stat st;
    char text[96];
    const char *path = query_path(x);

    if (!path)
        return;
    {
        tn_autoact struct tn_act_as as = {0};
        if (!act_as_user(x, ctx, &as))
            return;
        fd = tn_file_open(path, &st, &err);
    }
    if (fd >= 0 && !S_ISREG(st.st_mode))
        tn_fail(&err, TN_E_CONFLICT, "%s is not a regular file", path);
    if (fd < 0 || !S_ISREG(st.st_mode)) {
        tn_http_reply_error(x, &err);
        return;
    }
    int64_t first = 0, length = st.st_size;
    int ranged = parse_range(tn_http_header(x, "Range"), st.st_size, &first, &length);
    tn_http_set_header(x, "Accept-Ranges", "bytes");
    if (ranged < 0) {
        snprintf(text, sizeof text, "bytes */%lld", (long long)st.st_size);
        tn_http_set_header(x, "Content-Range", text);
        tn_http_reply_detail(x, 416, "the range lies outside the file");
        return;
    }
    if (ranged) {
        snprintf(text, sizeof text, "bytes %lld-%lld/%lld", (long long)first, (long long)(first + length - 1),
                 (long long)st.st_size);
        tn_http_set_header(x, "Content-Range", text);
    }
    if (tn_http_start(x, ranged ? 206 : 200, "application/octet-stream", length) < 0)
        return;
    if (tn_http_write_file(x, fd, first, length) < 0)
        tn_http_abort(x);
    else
        tn_http_end(x);
}

/* --- changing ----------------------------------------------------------------------------------------------- */

struct incoming {
    struct tn_http_exchange *x;
    bool is_new;
    mode_t mode;
};

static int write_body(int fd, void *ctx, struct tn_error *err)
{
    struct incoming *in = ctx;
    tn_autofree char *piece = tn_malloc(PIECE);

    if (in->is_new && fchmod(fd, in->mode) < 0)
        return tn_fail_errno(err, errno, "mode of the new file");
    for (;;) {
        ssize_t n = tn_http_read(in->x, piece, PIECE, err);
        if (n <= 0)
            return (int)n;
        if (tn_fs_write(fd, piece, (size_t)n, err) < 0)
            return -1;
    }
}

/* The body becomes the file in one step; missing parents are made. */
static int store(struct tn_http_exchange *x, struct tn_hand *hand, const char *path, mode_t mode,
                 struct tn_error *err)
{
    struct tn_file_user user = tn_hand_file_user(hand);
    struct tn_fs_replace how = {.mode = mode, .in_place = true, .journal = user.journal};
    tn_autoact struct tn_act_as as = {0};
    struct stat st;

    if (tn_file_act_as(&as, &user, err) < 0)
        return -1;
    struct incoming in = {.x = x, .is_new = stat(path, &st) < 0, .mode = mode};
    tn_autofree char *parent = tn_strndup(path, (size_t)(strrchr(path, '/') - path));
    tn_autofd int dir = *parent ? tn_fs_mkdirs(TN_FS_ANYWHERE, parent, 0755, NULL, NULL, err) : -1;
    if (*parent && dir < 0)
        return -1;
    return tn_fs_replace(TN_FS_ANYWHERE, path, &how, write_body, &in, err);
}

static void put_content(struct tn_http_exchange *x, void *ctx)
{
    struct tn_error err;
    const char *path = query_path(x), *mode_text = tn_http_query(x, "mode");
    char *end = NULL;

    if (!path)
        return;
    unsigned long mode = mode_text ? strtoul(mode_text, &end, 8) : 0664;
    if (mode_text && (*end || mode > 07777)) {
        tn_http_reply_detail(x, 422, "mode must be an octal number such as 644");
        return;
    }
    if (store(x, ctx, path, (mode_t)mode, &err) < 0)
        tn_http_reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

static void post_directory(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    tn_autoact struct tn_act_as as = {0};
    struct tn_error err;

    if (tn_v1_body(x, &body) < 0)
        return;
    const char *path = checked_path(x, tn_json_get_str(body, "path", NULL), "path");
    if (!path || !act_as_user(x, ctx, &as))
        return;
    int fd = tn_fs_mkdirs(TN_FS_ANYWHERE, path, 0755, NULL, NULL, &err);
    if (fd < 0)
        tn_http_reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
    tn_close(fd);
}

static void post_move(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    tn_autoact struct tn_act_as as = {0};

    if (tn_v1_body(x, &body) < 0)
        return;
    const char *from = checked_path(x, tn_json_get_str(body, "from", NULL), "from");
    const char *to = from ? checked_path(x, tn_json_get_str(body, "to", NULL), "to") : NULL;
    bool overwrite = tn_json_bool(tn_json_get(body, "overwrite"), false);
    if (!to || !act_as_user(x, ctx, &as))
        return;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, overwrite ? 0 : RENAME_NOREPLACE) < 0)
        reply_errno(x, errno, to);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

static void delete_file(struct tn_http_exchange *x, void *ctx)
{
    tn_autoact struct tn_act_as as = {0};
    struct tn_error err;
    const char *path = query_path(x);

    if (!path || !act_as_user(x, ctx, &as))
        return;
    tn_autofree char *parent = tn_strdup(path);
    char *slash = strrchr(parent, '/');
    const char *name = path + (slash - parent) + 1;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        tn_http_reply_detail(x, 422, "path must end in a name");
        return;
    }
    slash[slash == parent] = '\0';
    tn_autofd int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        reply_errno(x, errno, path);
        return;
    }
    int r;
    if (tn_v1_query_flag(x, "recursive")) {
        r = tn_fs_remove_tree(dir, name, 0, &err);
    } else {
        r = unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
        if (r < 0)
            tn_fail_errno(&err, errno, "%s", path);
    }
    if (r < 0)
        tn_http_reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

const struct tn_route tn_routes_files[] = {
    {"GET", "/v1/files/stat", get_stat, "what ?path= is", 0},
    {"GET", "/v1/files/list", get_list, "entries of the directory ?path=", 0},
    {"GET", "/v1/files/content", get_content, "bytes of ?path=; Range is heeded", 0},
    {"PUT", "/v1/files/content", put_content, "replaces ?path= by the body, in one step", 0},
    {"POST", "/v1/files/directory", post_directory, "{path}: makes it, with its parents", 0},
    {"POST", "/v1/files/move", post_move, "{from, to, overwrite}", 0},
    {"DELETE", "/v1/files", delete_file, "removes ?path=, with ?recursive=1 a whole directory", 0},
    {0},
};
