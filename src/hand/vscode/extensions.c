#include "hand/vscode/extensions.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/account.h"
#include "base/fs.h"
#include "base/json.h"
#include "hand/embedded.h"
#include "hand/file-actions.h"

/* The editor's own list of what is installed: what is not on it does not count, but where there is
 * no list the editor makes one of the directories it finds. */
#define LIST "extensions.json"
#define PUBLISHER "tendon"
#define VERSION "1.0.0"

enum { LIST_MAX = 8 << 20 };

static const char *const names[] = {"hello-world", "memory-monitor"};

/* An empty file beside an extension that was brought here once: what its user has removed since
 * stays away.  Editors do not look at names with a dot. */
#define MARK "."

/* --- directories --------------------------------------------------------------------------- */

static char *directory_name(const char *name)
{
    return tn_asprintf(PUBLISHER ".%s-" VERSION, name);
}

/* What is there of any version of it, of names that begin with that; on the heap, or NULL. */
static char *find_version(const char *directory, const char *begin, const char *name)
{
    tn_autofree char *id = tn_asprintf("%s" PUBLISHER ".%s", begin, name);
    size_t n = strlen(id);
    DIR *dir = opendir(directory);
    char *found = NULL;

    for (struct dirent *d; dir && !found && (d = readdir(dir));)
        if (strncasecmp(d->d_name, id, n) == 0 && (!d->d_name[n] || d->d_name[n] == '-'))
            found = tn_strdup(d->d_name);
    if (dir)
        closedir(dir);
    return found;
}

/* Under a name that editors do not look at, so that nobody sees half of it. */
static int unpack(int dir, const char *directory, const char *name, struct tn_error *err)
{
    tn_autofree char *prefix = tn_asprintf("src/hand/vscode/extensions/%s/", name);
    tn_autofree char *room = tn_asprintf("%s/" TN_FS_TEMP_PREFIX "XXXXXX", directory);
    tn_autofree char *to = directory_name(name);

    if (!mkdtemp(room))
        return tn_fail_errno(err, errno, "%s", directory);
    tn_autofree char *from = tn_asprintf("%s/%s", room, name);
    int r = tn_embedded_unpack(prefix, room, err);
    if (r == 0 && renameat(AT_FDCWD, from, dir, to) < 0 && errno != EEXIST &&
        errno != ENOTEMPTY) /* another editor of the same user was quicker */
        r = tn_fail_errno(err, errno, "%s/%s", directory, to);
    tn_fs_remove_tree(dir, strrchr(room, '/') + 1, 0, NULL);
    return r;
}

/* --- the list ------------------------------------------------------------------------------ */

static const struct tn_json *find_entry(const struct tn_json *list, const char *name)
{
    tn_autofree char *id = tn_asprintf(PUBLISHER ".%s", name);

    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *identifier = tn_json_get(tn_json_at(list, i), "identifier");
        if (strcasecmp(tn_json_get_str(identifier, "id", ""), id) == 0)
            return tn_json_at(list, i);
    }
    return NULL;
}

static void put_entry(struct tn_jw *w, const char *directory, const char *name)
{
    tn_autofree char *id = tn_asprintf(PUBLISHER ".%s", name);
    tn_autofree char *place = directory_name(name);
    tn_autofree char *path = tn_asprintf("%s/%s", directory, place);

    tn_jw_object(w);
    tn_jw_key(w, "identifier");
    tn_jw_object(w);
    tn_jw_kstr(w, "id", id);
    tn_jw_object_end(w);
    tn_jw_kstr(w, "version", VERSION);
    tn_jw_key(w, "location");
    tn_jw_object(w);
    tn_jw_kint(w, "$mid", 1); /* how the editor marks a URI */
    tn_jw_kstr(w, "path", path);
    tn_jw_kstr(w, "scheme", "file");
    tn_jw_object_end(w);
    tn_jw_kstr(w, "relativeLocation", place);
    tn_jw_object_end(w);
}

/* What is to become of one of ours here. */
enum fate {
    STAYS_AS_IT_IS,
    COMES,      /* unless some version of it is there: somebody's own */
    IS_REPLACED /* our version from before */
};

static enum fate decide(int dir, const char *directory, const struct tn_json *list,
                        const char *name)
{
    tn_autofree char *mark = find_version(directory, MARK, name);
    tn_autofree char *now = directory_name(name);

    if (!mark)
        return COMES;
    const char *before = mark + strlen(MARK);
    bool there =
        list ? strcmp(tn_json_get_str(find_entry(list, name), "relativeLocation", ""), before) == 0
             : faccessat(dir, before, F_OK, 0) == 0;
    return there && strcasecmp(before, now) != 0 ? IS_REPLACED : STAYS_AS_IT_IS;
}

/* Appends the list with ours on it; false when it is as it should be. */
static bool put_list(struct tn_buf *out, const struct tn_json *list, const enum fate *fates,
                     int dir, const char *directory)
{
    const struct tn_json *replaced[TN_COUNT(names)] = {0};
    struct tn_jw w = tn_jw(out);
    bool any = false;

    tn_jw_array(&w);
    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (fates[i] == IS_REPLACED)
            replaced[i] = find_entry(list, names[i]);
    for (size_t i = 0; i < tn_json_count(list); i++) {
        bool stays = true;
        for (size_t j = 0; j < TN_COUNT(names); j++)
            stays = stays && replaced[j] != tn_json_at(list, i);
        if (stays)
            tn_jw_tree(&w, tn_json_at(list, i));
    }
    for (size_t i = 0; i < TN_COUNT(names); i++) {
        tn_autofree char *place = directory_name(names[i]);
        if (fates[i] == STAYS_AS_IT_IS || (fates[i] == COMES && find_entry(list, names[i])) ||
            faccessat(dir, place, F_OK, 0) < 0)
            continue;
        put_entry(&w, directory, names[i]);
        any = true;
    }
    tn_jw_array_end(&w);
    return any;
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;
    return tn_fs_write(fd, text->data, text->len, err);
}

/* *list is NULL when the editor has none yet. */
static int read_list(int dir, const char *path, struct tn_json **list, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(LIST_MAX);

    if (faccessat(dir, LIST, F_OK, 0) < 0)
        return 0;
    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, err) < 0)
        return -1;
    if (tn_json_parse(tn_buf_str(&text), text.len, list, err) < 0)
        return tn_error_context(err, "%s", path);
    if (tn_json_type(*list) != TN_JSON_ARRAY)
        return tn_fail(err, TN_E_INVALID, "%s: expected a list", path);
    return 0;
}

static int extend_list(const char *path, const struct tn_json *list, const enum fate *fates,
                       int dir, const char *directory, struct tn_error *err)
{
    tn_autobuf struct tn_buf new = TN_BUF_INIT(2 * LIST_MAX);
    const struct tn_fs_replace how = {.mode = 0644};

    if (!list || !put_list(&new, list, fates, dir, directory))
        return 0;
    if (!tn_buf_ok(&new))
        return tn_fail(err, TN_E_TOO_LARGE, "%s: too long a list", path);
    return tn_fs_replace(TN_FS_ANYWHERE, path, &how, write_text, &new, err);
}

/* --- both ---------------------------------------------------------------------------------- */

static int bring(int dir, const char *directory, enum fate fate, const char *name,
                 struct tn_error *err)
{
    tn_autofree char *there = find_version(directory, "", name);

    return fate == STAYS_AS_IT_IS || (fate == COMES && there) ? 0
                                                              : unpack(dir, directory, name, err);
}

/* One mark for each, of the newest. */
static int leave_mark(int dir, const char *directory, const char *name, struct tn_error *err)
{
    tn_autofree char *before = find_version(directory, MARK, name);
    tn_autofree char *place = directory_name(name);
    tn_autofree char *mark = tn_asprintf(MARK "%s", place);
    tn_autofd int fd =
        openat(dir, mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);

    if (fd < 0)
        return tn_fail_errno(err, errno, "%s/%s", directory, mark);
    if (before && strcmp(before, mark) != 0)
        unlinkat(dir, before, 0);
    return 0;
}

int editor_extensions_install(struct tn_hand *hand, const char *directory, struct tn_error *err)
{
    struct tn_file_user user = tn_hand_file_user(hand);
    tn_autofree char *path = tn_asprintf("%s/" LIST, directory);
    tn_autojson struct tn_json *list = NULL;
    tn_autoact struct tn_act_as as = {0};
    enum fate fates[TN_COUNT(names)];

    if (tn_file_act_as(&as, &user, err) < 0)
        return -1;
    tn_autofd int dir = tn_fs_mkdirs(TN_FS_ANYWHERE, directory, 0755, NULL, NULL, err);
    if (dir < 0 || read_list(dir, path, &list, err) < 0)
        return -1;
    for (size_t i = 0; i < TN_COUNT(names); i++) {
        fates[i] = decide(dir, directory, list, names[i]);
        if (bring(dir, directory, fates[i], names[i], err) < 0)
            return -1;
    }
    if (extend_list(path, list, fates, dir, directory, err) < 0)
        return -1;
    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (fates[i] != STAYS_AS_IT_IS && leave_mark(dir, directory, names[i], err) < 0)
            return -1;
    return 0;
}
