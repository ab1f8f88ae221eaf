/* filesystem.Filesystem of envd: what is there, and how it is called. */
#include <math.h>
#include <sys/stat.h>

#include "base/utc.h"
#include "service/e2b/e2b.h"

enum { DEPTH_MAX = 64, ENTRIES_MAX = 100000 };

/* --- entries --------------------------------------------------------------------------------- */

static const char *const types[] = {
    [TN_ENTRY_FILE] = "FILE_TYPE_FILE",
    [TN_ENTRY_DIRECTORY] = "FILE_TYPE_DIRECTORY",
    [TN_ENTRY_SYMLINK] = "FILE_TYPE_SYMLINK",
    [TN_ENTRY_OTHER] = "FILE_TYPE_UNSPECIFIED",
};

static void put_time_of(struct tn_jw *w, double time)
{
    double whole = floor(time);
    struct tm utc;
    char text[64];

    tn_utc((int64_t)whole, &utc);
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", utc.tm_year + 1900,
             utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
             (int)((time - whole) * 1e6));
    tn_jw_kstr(w, "modifiedTime", text);
}

/* type: what a link leads to, where it leads anywhere. */
static void put_entry(struct tn_jw *w, const char *path, const struct tn_entry *e,
                      enum tn_entry_type type)
{
    char size[24], mode[11];

    snprintf(size, sizeof size, "%lld", (long long)e->size);
    tn_jw_object(w);
    tn_jw_kstr(w, "name", e->name);
    tn_jw_kstr(w, "type", types[type]);
    tn_jw_kstr(w, "path", path);
    tn_jw_kstr(w, "size", size); /* 64 bits are text in JSON of protobuf */
    tn_jw_kint(w, "mode", (int64_t)e->mode);
    surface_mode_text(e, mode);
    tn_jw_kstr(w, "permissions", mode);
    surface_put_owner(w, "owner", e->uid);
    surface_put_owner(w, "group", e->gid);
    put_time_of(w, e->mtime);
    if (e->target)
        tn_jw_kstr(w, "symlinkTarget", e->target);
    if (e->type == TN_ENTRY_SYMLINK)
        tn_jw_kbool(w, "isSymlink", true);
    if (e->attributes) {
        tn_jw_key(w, "metadata");
        tn_jw_tree(w, e->attributes);
    }
    tn_jw_object_end(w);
}

void e2b_put_found(struct tn_hand_files *f, struct tn_jw *w, const char *path,
                   const struct tn_entry *e, int64_t deadline)
{
    tn_autoentry struct tn_entry target = {0};
    enum tn_entry_type type = e->type;

    if (type == TN_ENTRY_SYMLINK)
        type = tn_hand_files_stat(f, path, true, &target, deadline, NULL) == 0 ? target.type
                                                                               : TN_ENTRY_OTHER;
    put_entry(w, path, e, type);
}

/* Answers with what is there now. */
static void answer_entry(struct e2b_call *c, struct tn_hand_files *f, const char *path)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(E2B_ENTRY_MAX);
    tn_autoentry struct tn_entry e = {0};
    struct tn_jw w = tn_jw(&json);
    int64_t deadline = tn_deadline_in(E2B_SECONDS);
    struct tn_error err = {0};

    if (tn_hand_files_stat(f, path, false, &e, deadline, &err)) {
        reply_error(c->x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_key(&w, "entry");
    e2b_put_found(f, &w, path, &e, deadline);
    tn_jw_object_end(&w);
    e2b_answer(c, &json);
}

/* --- calls ----------------------------------------------------------------------------------- */

static void stat_path(struct e2b_call *c, const struct tn_json *message)
{
    tn_autofree char *path = e2b_path(c, tn_json_get_str(message, "path", NULL));
    tn_autofiles struct tn_hand_files *f = e2b_files(c);

    if (f)
        answer_entry(c, f, path);
}

static void make_dir(struct e2b_call *c, const struct tn_json *message)
{
    tn_autofree char *path = e2b_path(c, tn_json_get_str(message, "path", NULL));
    tn_autofiles struct tn_hand_files *f = e2b_files(c);
    tn_autoentry struct tn_entry e = {0};
    int64_t deadline = tn_deadline_in(E2B_SECONDS);
    struct tn_error err = {0};

    if (!f)
        return;
    if (tn_hand_files_stat(f, path, true, &e, deadline, NULL) == 0)
        e2b_fail(c, e.type == TN_ENTRY_DIRECTORY ? "already_exists" : "invalid_argument",
                 "%.400s exists already, as a %s", path,
                 e.type == TN_ENTRY_DIRECTORY ? "directory" : "file");
    else if (tn_hand_files_mkdir(f, path, -1, deadline, &err))
        reply_error(c->x, &err);
    else
        answer_entry(c, f, path);
}

/* Parents of the new path are made. */
static void move(struct e2b_call *c, const struct tn_json *message)
{
    tn_autofree char *from = e2b_path(c, tn_json_get_str(message, "source", NULL));
    tn_autofree char *to = e2b_path(c, tn_json_get_str(message, "destination", NULL));
    tn_autofree char *parent = tn_strndup(to, (size_t)(strrchr(to, '/') - to));
    tn_autofiles struct tn_hand_files *f = e2b_files(c);
    tn_autoentry struct tn_entry e = {0};
    int64_t deadline = tn_deadline_in(E2B_SECONDS);
    struct tn_error err = {0};

    if (!f)
        return;
    if (tn_hand_files_stat(f, from, false, &e, deadline, &err) ||
        (*parent && tn_hand_files_mkdir(f, parent, -1, deadline, &err)) ||
        tn_hand_files_move(f, from, to, true, deadline, &err))
        reply_error(c->x, &err);
    else
        answer_entry(c, f, to);
}

static void remove_path(struct e2b_call *c, const struct tn_json *message)
{
    tn_autofree char *path = e2b_path(c, tn_json_get_str(message, "path", NULL));
    tn_autofiles struct tn_hand_files *f = e2b_files(c);
    struct tn_error err = {0};

    if (!f)
        return;
    if (tn_hand_files_remove(f, path, true, tn_deadline_in(E2B_SECONDS), &err) &&
        err.code != TN_E_NOT_FOUND)
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 200, "application/json", "{}", 2);
}

/* --- lists ----------------------------------------------------------------------------------- */

/* Directories are listed one after the other: the connection is one. */
struct walk {
    struct tn_hand_files *f;
    struct tn_jw w;
    int64_t deadline;
    size_t count;
    const char *dir;
    int64_t depth;           /* of what is in dir; the first is 1 */
    int64_t most;            /* deeper is not looked */
    struct tn_str_list dirs; /* still to be listed */
    int64_t *depths;         /* of each */
    size_t next;
};

static int list_entry(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    struct walk *walk = ctx;
    tn_autofree char *path = tn_asprintf("%s/%s", walk->dir[1] ? walk->dir : "", e->name);

    if (++walk->count > ENTRIES_MAX || !tn_buf_ok(walk->w.out))
        return tn_fail(err, TN_E_TOO_LARGE, "more than %d entries", ENTRIES_MAX);
    if (e->type == TN_ENTRY_SYMLINK)
        e2b_put_found(walk->f, &walk->w, path, e, walk->deadline);
    else
        put_entry(&walk->w, path, e, e->type);
    if (e->type == TN_ENTRY_DIRECTORY && walk->depth < walk->most) {
        size_t n = walk->dirs.count++;
        walk->dirs.items = tn_realloc(walk->dirs.items, (n + 1) * sizeof *walk->dirs.items);
        walk->depths = tn_realloc(walk->depths, (n + 1) * sizeof *walk->depths);
        walk->dirs.items[n] = TN_TAKE_PTR(path);
        walk->depths[n] = walk->depth + 1;
    }
    return 0;
}

/* A directory that went away meanwhile, or may not be read, is left out. */
static int list_below(struct walk *walk, const char *root, struct tn_error *err)
{
    struct tn_error why = {0};

    walk->dir = root;
    walk->depth = 1;
    if (tn_hand_files_list(walk->f, root, list_entry, walk, walk->deadline, err))
        return -1;
    while (walk->next < walk->dirs.count) {
        tn_autofree char *dir = TN_TAKE_PTR(walk->dirs.items[walk->next]);
        walk->depth = walk->depths[walk->next++];
        walk->dir = dir;
        if (tn_hand_files_list(walk->f, dir, list_entry, walk, walk->deadline, &why) &&
            why.code != TN_E_NOT_FOUND && why.code != TN_E_DENIED) {
            *err = why;
            return -1;
        }
    }
    return 0;
}

static void list_dir(struct e2b_call *c, const struct tn_json *message)
{
    tn_autofree char *path = e2b_path(c, tn_json_get_str(message, "path", NULL));
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, E2B_ANSWER_MAX);
    tn_autofiles struct tn_hand_files *f = e2b_files(c);
    int64_t depth = tn_json_int(tn_json_get(message, "depth"), 1);
    struct walk walk = {.f = f,
                        .w = tn_jw(&json),
                        .deadline = tn_deadline_in(E2B_SECONDS),
                        .most = depth < 1           ? 1
                                : depth > DEPTH_MAX ? DEPTH_MAX
                                                    : depth};
    struct tn_error err = {0};

    if (!f)
        return;
    tn_jw_object(&walk.w);
    tn_jw_key(&walk.w, "entries");
    tn_jw_array(&walk.w);
    if (list_below(&walk, path, &err) == 0) {
        tn_jw_array_end(&walk.w);
        tn_jw_object_end(&walk.w);
        e2b_answer(c, &json);
    } else if (err.code == TN_E_CONFLICT) {
        e2b_fail(c, "invalid_argument", "path is not a directory: %.400s", path);
    } else {
        reply_error(c->x, &err);
    }
    for (size_t i = walk.next; i < walk.dirs.count; i++)
        free(walk.dirs.items[i]);
    free(walk.dirs.items);
    free(walk.depths);
}

const struct e2b_method e2b_filesystem[] = {
    {.name = "Stat", .call = stat_path},
    {.name = "ListDir", .call = list_dir},
    {.name = "MakeDir", .call = make_dir},
    {.name = "Move", .call = move},
    {.name = "Remove", .call = remove_path},
    {.name = "WatchDir", .call = e2b_watch_dir, .stream = true},
    {.name = "CreateWatcher", .call = e2b_create_watcher},
    {.name = "GetWatcherEvents", .call = e2b_watcher_events},
    {.name = "RemoveWatcher", .call = e2b_remove_watcher},
    {0},
};
