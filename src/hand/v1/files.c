/* /v1/files: what is there and how it is called, with the rights of the sandbox's user. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/fs.h"
#include "base/utf8.h"
#include "hand/file/confine.h"
#include "hand/routes.h"
#include "hand/v1/attributes.h"
#include "hand/v1/v1.h"

enum {
    LIST_USUAL = 1000,
    LIST_MAX = 10000,
    PAGE_BYTES = 1 << 20, /* a page ends here also when it has fewer entries */
};

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void reply_errno(struct tn_http_exchange *x, int sys, const char *path)
{
    struct tn_error err;

    tn_fail_errno(&err, sys, "%s", path);
    tn_http_reply_detail(x, sys == EBUSY ? 409 : tn_code_row(err.code)->http_status, err.text);
}

/* The path leads to something, but not to a directory. */
static void reply_no_directory(struct tn_http_exchange *x, const struct tn_error *err)
{
    int status = err->sys == ENOTDIR ? 409 : tn_code_row(err->code)->http_status;
    tn_http_reply_detail(x, status, err->text);
}

/* --- looking ------------------------------------------------------------------------------- */

static const char *kind_name(mode_t mode)
{
    static const struct {
        mode_t kind;
        const char *name;
    } kinds[] = {{S_IFREG, "file"},
                 {S_IFDIR, "directory"},
                 {S_IFLNK, "symlink"},
                 {S_IFIFO, "fifo"},
                 {S_IFSOCK, "socket"}};

    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        if ((mode & S_IFMT) == kinds[i].kind)
            return kinds[i].name;
    }
    return "device";
}

/* name in dir is where a link is read; shown is what it is called; attributes: what those begin
 * with that are asked for, or NULL. */
static void write_stat(struct tn_jw *w, int dir, const char *name, const char *shown,
                       const struct stat *st, const char *attributes)
{
    char target[4096], mode[8];
    tn_autobuf struct tn_buf raw = TN_BUF_INIT(8192);

    snprintf(mode, sizeof mode, "%04o", (unsigned)(st->st_mode & 07777));
    tn_jw_object(w);
    tn_jw_kstr(w, "name", shown);
    if (!tn_utf8_valid(shown, strlen(shown))) {
        tn_base64_encode(&raw, shown, strlen(shown));
        tn_jw_kstr(w, "name_base64", tn_buf_str(&raw));
    }
    tn_jw_kstr(w, "type", kind_name(st->st_mode));
    tn_jw_kint(w, "size", st->st_size);
    tn_jw_kstr(w, "mode", mode);
    tn_jw_kint(w, "uid", st->st_uid);
    tn_jw_kint(w, "gid", st->st_gid);
    tn_jw_kdouble(w, "mtime", (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec / 1e9);
    ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir, name, target, sizeof target) : -1;
    if (n >= 0) {
        tn_jw_key(w, "target");
        tn_jw_strn(w, target, (size_t)n);
        if (!tn_utf8_valid(target, (size_t)n)) {
            tn_buf_reset(&raw);
            tn_base64_encode(&raw, target, (size_t)n);
            tn_jw_kstr(w, "target_base64", tn_buf_str(&raw));
        }
    }
    if (attributes && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
        tn_v1_put_attributes(w, dir, name, attributes);
    tn_jw_object_end(w);
}

static void get_stat(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    tn_autoact struct tn_act_as as = {0};
    tn_autofree char *path = tn_v1_query_path(x);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err;
    struct stat st;
    int follow = path ? tn_v1_query_flag(x, "follow") : -1;
    const char *attributes;

    if (follow < 0 || tn_v1_query_attributes(x, &attributes) || tn_v1_act_as_user(x, ctx, &as) < 0)
        return;
    tn_autofd int fd = tn_where_open(path, O_PATH | (follow ? 0 : O_NOFOLLOW), &err);
    if (fd < 0) {
        tn_http_reply_error(x, &err);
        return;
    }
    if (fstat(fd, &st) < 0) {
        reply_errno(x, errno, path);
        return;
    }
    write_stat(&w, fd, "", path[1] ? strrchr(path, '/') + 1 : path, &st, attributes);
    tn_http_reply_json(x, 200, &json);
}

/* --- a page of a directory ----------------------------------------------------------------- */

/* The first `limit` names after some name, in order.  There is room for twice as many: when it is
 * full, the later half goes, so that a directory of any size needs no more. */
struct page {
    char **names;
    size_t count, limit;
    bool more; /* there are names after these */
};

static void page_done(struct page *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->names[i]);
    free(p->names);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void page_cut(struct page *p)
{
    qsort(p->names, p->count, sizeof *p->names, by_name);
    for (; p->count > p->limit; p->more = true)
        free(p->names[--p->count]);
}

/* 0, or an errno. */
static int page_read(struct page *p, int fd, const char *after)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *e;

    if (!dir) {
        int sys = errno;
        tn_close(copy);
        return sys;
    }
    for (errno = 0; (e = readdir(dir)); errno = 0) {
        if (is_dots(e->d_name) || strcmp(e->d_name, after) <= 0)
            continue;
        if (p->count == 2 * p->limit)
            page_cut(p);
        p->names[p->count++] = tn_strdup(e->d_name);
    }
    int sys = errno;
    closedir(dir);
    page_cut(p);
    return sys;
}

/* Where the next page starts: a name in hexadecimal, because a name may be no text at all. */
static void write_next(struct tn_jw *w, const char *last)
{
    tn_autobuf struct tn_buf hex = TN_BUF_INIT(2 * NAME_MAX + 1);

    for (const char *c = last; c && *c; c++)
        tn_buf_printf(&hex, "%02x", (unsigned)(unsigned char)*c);
    tn_jw_kstr(w, "next", last ? tn_buf_str(&hex) : NULL);
}

static bool read_after(const char *hex, char name[NAME_MAX + 1])
{
    static const char digits[] = "0123456789abcdef";
    size_t n = hex ? strlen(hex) : 0;

    if (n % 2 || n > 2 * (size_t)NAME_MAX)
        return false;
    for (size_t i = 0; i < n / 2; i++) {
        const char *high = strchr(digits, hex[2 * i]), *low = strchr(digits, hex[2 * i + 1]);
        if (!high || !low)
            return false;
        name[i] = (char)((high - digits) << 4 | (low - digits));
    }
    name[n / 2] = '\0';
    return true;
}

static void write_page(struct tn_jw *w, int dir, const struct page *p, const char *attributes)
{
    const char *last = NULL;
    size_t i = 0;

    tn_jw_object(w);
    tn_jw_key(w, "entries");
    tn_jw_array(w);
    for (; i < p->count && w->out->len < PAGE_BYTES; i++) {
        struct stat st;
        last = p->names[i];
        if (fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) == 0)
            write_stat(w, dir, last, last, &st, attributes);
    }
    tn_jw_array_end(w);
    write_next(w, i < p->count || p->more ? last : NULL);
    tn_jw_object_end(w);
}

static void list_directory(struct tn_http_exchange *x, const char *path, size_t limit,
                           const char *after, const char *attributes)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(2 * PAGE_BYTES);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err;

    tn_autofd int dir = tn_where_open(path, O_RDONLY | O_DIRECTORY, &err);
    if (dir < 0) {
        reply_no_directory(x, &err);
        return;
    }
    struct page page = {.limit = limit, .names = tn_calloc(2 * limit, sizeof *page.names)};
    int sys = page_read(&page, dir, after);
    if (sys) {
        reply_errno(x, sys, path);
    } else {
        write_page(&w, dir, &page, attributes);
        tn_http_reply_json(x, 200, &json);
    }
    page_done(&page);
}

static void get_list(struct tn_http_exchange *x, void *ctx)
{
    tn_autoact struct tn_act_as as = {0};
    tn_autofree char *path = tn_v1_query_path(x);
    int64_t limit = path ? tn_v1_query_number(x, "limit", LIST_USUAL) : -1;
    char after[NAME_MAX + 1];
    const char *attributes;

    if (limit < 0 || tn_v1_query_attributes(x, &attributes))
        return;
    if (limit == 0 || limit > LIST_MAX)
        tn_http_reply_detail(x, 422, "limit must be a number from 1 to 10000");
    else if (!read_after(tn_http_query(x, "after"), after))
        tn_http_reply_detail(x, 422, "after must be the `next` of the page before");
    else if (tn_v1_act_as_user(x, ctx, &as) == 0)
        list_directory(x, path, (size_t)limit, after, attributes);
}

/* --- changing ------------------------------------------------------------------------------ */

/* "0755" or "755"; -1 when there is none.  False: answered. */
static bool read_mode(struct tn_http_exchange *x, const char *text, int64_t *mode)
{
    *mode = -1;
    if (!text || tn_v1_number(text, 8, 07777, mode))
        return true;
    tn_http_reply_detail(x, 422, "mode must be an octal number such as 755");
    return false;
}

/* The path and the mode stand in the body, or in the query: a path that is no UTF-8 is no JSON. */
static char *wanted_directory(struct tn_http_exchange *x, int64_t *mode)
{
    tn_autojson struct tn_json *body = NULL;
    const char *path, *mode_text;

    if (tn_http_query(x, "path"))
        return read_mode(x, tn_http_query(x, "mode"), mode) ? tn_v1_query_path(x) : NULL;
    if (tn_v1_body(x, &body) < 0 || tn_v1_string(x, body, "path", true, &path) < 0 ||
        tn_v1_string(x, body, "mode", false, &mode_text) < 0 || !read_mode(x, mode_text, mode))
        return NULL;
    return tn_v1_path(x, path, "path");
}

static void post_directory(struct tn_http_exchange *x, void *ctx)
{
    tn_autoact struct tn_act_as as = {0};
    struct tn_error err;
    int64_t mode;

    tn_autofree char *path = wanted_directory(x, &mode);
    if (!path || tn_v1_act_as_user(x, ctx, &as) < 0)
        return;
    tn_autofd int fd = tn_where_mkdirs(path, 0755, &err);
    if (fd < 0)
        reply_no_directory(x, &err);
    else if (mode >= 0 && fchmodat(fd, ".", (mode_t)mode, 0) < 0)
        reply_errno(x, errno, path);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

/* The last name of a path, and the directory it is in (-1: answered). */
static int open_parent(struct tn_http_exchange *x, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    tn_autofree char *parent = tn_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    struct tn_error err;

    *name = slash + 1;
    if (!**name || is_dots(*name)) {
        tn_autofree char *detail = tn_asprintf("%s does not end in a name", path);
        tn_http_reply_detail(x, 422, detail);
        return -1;
    }
    int fd = tn_where_open(parent, O_PATH | O_DIRECTORY, &err);
    if (fd < 0)
        tn_http_reply_error(x, &err);
    return fd;
}

/* Not every file system can rename and refuse to replace in one step. */
static int rename_unless_there(int from_dir, const char *from, int to_dir, const char *to)
{
    struct stat st;

    if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(from_dir, from, to_dir, to);
}

static void reply_not_moved(struct tn_http_exchange *x, int sys, const char *from, const char *to)
{
    static const struct {
        int sys;
        int status;
        const char *why;
    } reasons[] = {
        {EXDEV, 409, "they are on different file systems; copy it and remove the old one"},
        {EINVAL, 409, "a directory cannot be moved into itself"},
        {ENOTDIR, 409, "a directory cannot replace a file"},
        {EBUSY, 409, "it is in use by the system"},
    };
    struct tn_error err;

    for (size_t i = 0; i < TN_COUNT(reasons); i++) {
        if (sys == reasons[i].sys) {
            tn_autofree char *detail = tn_asprintf("move %s to %s: %s", from, to, reasons[i].why);
            tn_http_reply_detail(x, reasons[i].status, detail);
            return;
        }
    }
    tn_fail_errno(&err, sys, "move %s to %s", from, to);
    tn_http_reply_error(x, &err);
}

static void move(struct tn_http_exchange *x, const char *from, const char *to, bool overwrite)
{
    const char *from_name, *to_name;
    tn_autofd int from_dir = open_parent(x, from, &from_name);
    tn_autofd int to_dir = from_dir < 0 ? -1 : open_parent(x, to, &to_name);

    if (to_dir < 0)
        return;
    int r = overwrite ? renameat(from_dir, from_name, to_dir, to_name)
                      : rename_unless_there(from_dir, from_name, to_dir, to_name);
    if (r < 0)
        reply_not_moved(x, errno, from, to);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

static void post_move(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    tn_autoact struct tn_act_as as = {0};
    const char *from_text, *to_text;

    if (tn_v1_body(x, &body) < 0 || tn_v1_string(x, body, "from", true, &from_text) < 0 ||
        tn_v1_string(x, body, "to", true, &to_text) < 0)
        return;
    const struct tn_json *overwrite = tn_json_get(body, "overwrite");
    if (overwrite && tn_json_type(overwrite) != TN_JSON_BOOL) {
        tn_http_reply_detail(x, 422, "overwrite must be true or false");
        return;
    }
    tn_autofree char *from = tn_v1_path(x, from_text, "from");
    tn_autofree char *to = from ? tn_v1_path(x, to_text, "to") : NULL;
    if (to && tn_v1_act_as_user(x, ctx, &as) == 0)
        move(x, from, to, tn_json_bool(overwrite, false));
}

/* In one step too: whoever looks sees the old link or the new one. */
static int replace_link(int dir, const char *name, const char *target)
{
    struct stat st;
    char temporary[64];

    if (symlinkat(target, dir, name) == 0)
        return 0;
    if (errno != EEXIST || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    snprintf(temporary, sizeof temporary, TN_FS_TEMP_PREFIX "link-%d-%lx", (int)gettid(),
             (unsigned long)st.st_ino);
    if (symlinkat(target, dir, temporary) < 0)
        return -1;
    if (renameat(dir, temporary, dir, name) == 0)
        return 0;
    int sys = errno;
    unlinkat(dir, temporary, 0);
    errno = sys;
    return -1;
}

static void post_symlink(struct tn_http_exchange *x, void *ctx)
{
    tn_autoact struct tn_act_as as = {0};
    tn_autofree char *path = tn_v1_query_path(x);
    const char *target = tn_http_query(x, "target");
    const char *name;

    if (!path)
        return;
    if (!target || !*target) {
        tn_http_reply_detail(x, 422, "target is missing");
        return;
    }
    if (tn_v1_act_as_user(x, ctx, &as) < 0)
        return;
    tn_autofd int dir = open_parent(x, path, &name);
    if (dir < 0)
        return;
    if (replace_link(dir, name, target) < 0)
        reply_errno(x, errno, path);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

static void delete_file(struct tn_http_exchange *x, void *ctx)
{
    tn_autoact struct tn_act_as as = {0};
    tn_autofree char *path = tn_v1_query_path(x);
    int recursive = path ? tn_v1_query_flag(x, "recursive") : -1;
    const char *name;
    struct stat st;
    struct tn_error err;

    if (recursive < 0 || tn_v1_act_as_user(x, ctx, &as) < 0)
        return;
    tn_autofd int dir = open_parent(x, path, &name);
    if (dir < 0)
        return;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!recursive && unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0))
        reply_errno(x, errno, path);
    else if (recursive && tn_fs_remove_tree(dir, name, 0, &err) < 0)
        tn_http_reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

const struct tn_route tn_routes_files[] = {
    {"GET", "/v1/files/stat", get_stat, "what ?path= is", 0},
    {"GET", "/v1/files/list", get_list, "entries of the directory ?path=", 0},
    {"POST", "/v1/files/directory", post_directory, "{path, mode}: makes it, with its parents", 0},
    {"POST", "/v1/files/move", post_move, "{from, to, overwrite}", 0},
    {"POST", "/v1/files/symlink", post_symlink, "makes ?path= a link to ?target=", 0},
    {"DELETE", "/v1/files", delete_file, "removes ?path=, with ?recursive=1 a whole directory", 0},
    {0},
};
