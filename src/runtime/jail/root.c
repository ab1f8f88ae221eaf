#include <dirent.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "runtime/jail/jail.h"
#include "runtime/jail/layer.h"

/* --- what lies below ------------------------------------------------------------------------ */

static bool is_below(const char *path, const char *directory)
{
    size_t n = strlen(directory);
    return strncmp(path, directory, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* The unpacked tar of `docker save`: what its manifest.json says is not what a root would have. */
static bool is_saved_image(const char *path)
{
    tn_autofree char *file = tn_asprintf("%s/manifest.json", path);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    tn_autojson struct tn_json *json = NULL;

    return tn_fs_read(TN_FS_ANYWHERE, file, &text, NULL) == 0 &&
           tn_json_parse(text.data, text.len, &json, NULL) == 0 &&
           tn_json_get(tn_json_at(json, 0), "Layers");
}

static bool is_empty(const char *path)
{
    DIR *list = opendir(path);
    size_t count = 0;

    while (list && count < 3 && readdir(list)) /* . and .. are there always */
        count++;
    if (list)
        closedir(list);
    return list && count < 3;
}

static int take_directory(const struct jail_engine *e, char *path, struct jail_storage *s,
                          struct tn_error *err)
{
    tn_autofree char *owned = path;

    if (strcmp(path, "/") == 0)
        return tn_fail(
            err, TN_E_INVALID,
            "image /: the whole of this machine is no image; without an image a jail has "
            "its system directories");
    if (is_below(path, e->host->state) || is_below(e->host->state, path))
        return tn_fail(err, TN_E_INVALID,
                       "image %s: it and our own state directory lie in each other", path);
    if (is_empty(path))
        return tn_fail(err, TN_E_UNSUPPORTED, "image %s: the directory is empty", path);
    if (is_saved_image(path))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "image %s: this is what `docker save` wrote, unpacked: give the tar itself",
                       path);
    s->root = TN_TAKE_PTR(owned);
    return 0;
}

int jail_root_find(const struct jail_engine *e, const struct tn_subject *subject,
                   struct jail_storage *s, int64_t deadline, struct tn_error *err)
{
    const char *wish = subject->spec->image ? subject->spec->image : e->host->config->jail.rootfs;
    struct stat st;

    if (!wish) {
        s->host = true;
        return 0;
    }
    char *path = realpath(wish, NULL);
    if (!path || stat(path, &st) < 0) {
        int sys = errno;
        free(path);
        tn_fail_errno(err, sys, "image %s", wish);
        if (err && sys == ENOENT && *wish != '/')
            tn_fail(err, err->code,
                    "image %.200s: no such directory or file; a jail takes a directory, a tar, an "
                    "OCI layout or what `docker save` wrote (images by name: --runtime docker)",
                    wish);
        return -1;
    }
    if (S_ISDIR(st.st_mode) && !jail_image_is_layout(path))
        return take_directory(e, path, s, err);
    tn_autofree char *file = path;
    jail_image_done(&s->image);
    return jail_image_open(e->host, file, subject->id, &s->image, deadline, err);
}

/* --- the plan ------------------------------------------------------------------------------- */

static void add(struct tn_str_list *list, char *owned)
{
    list->items = tn_realloc(list->items, (list->count + 2) * sizeof *list->items);
    list->items[list->count++] = owned;
    list->items[list->count] = NULL;
}

static void replace(struct tn_str_list *list, const struct tn_str_list *with)
{
    jail_list_done(list);
    *list = jail_list_copy(NULL, with);
}

static int check_there(const char *path, const char *what, struct tn_error *err)
{
    if (access(path, F_OK) == 0)
        return 0;
    return tn_fail_errno(err, errno, "%s %s, which the sandbox is built on", what, path);
}

int jail_root_plan(const struct jail_engine *e, const struct jail_storage *s,
                   struct tn_jail_plan *plan, struct tn_error *err)
{
    const struct tn_config_jail *c = &e->host->config->jail;

    for (size_t i = 0; i < s->layers.count; i++) {
        add(&plan->lowers, jail_layer_path(e->host->state, s->layers.items[i]));
        bool filled = i > 0 || !plan->files_fd;
        if (filled && check_there(plan->lowers.items[plan->lowers.count - 1], "layer", err) < 0)
            return -1;
    }
    for (size_t i = 0; i < s->image.layers.count; i++) {
        add(&plan->lowers, jail_image_layer_path(e->host, s->image.layers.items[i]));
        if (check_there(plan->lowers.items[plan->lowers.count - 1], "image layer", err) < 0)
            return -1;
    }
    if (s->root) {
        add(&plan->lowers, tn_strdup(s->root));
        return check_there(s->root, "image", err);
    }
    if (s->host) {
        replace(&plan->host_paths, &c->host_paths);
        replace(&plan->etc_hidden, &c->etc_hidden);
    }
    return 0;
}
