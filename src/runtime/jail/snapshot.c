/* Snapshot, rollback and fork: layer operations.
 *
 * A mounted overlay cannot get another layer, so the changed files of a running sandbox are copied,
 * while it is frozen; those of a stopped one become a layer by a rename.  From there on layers are
 * only shared: rollback and fork start a jail on them and copy nothing. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "gate/keeper-protocol.h"
#include "runtime/jail/jail.h"
#include "runtime/jail/layer.h"

/* overlayfs takes 500 layers.  A sandbox adds to its own only up to the first number; a fork always
 * adds one, up to the second. */
#define LAYERS_FOLD_MAX 64
#define LAYERS_MAX 400

/* --- the changed files ---------------------------------------------------------------------- */

static int open_in_keeper(const struct tn_subject *subject, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(256);
    int fd = -1;

    if (tn_keeper_ask(subject->directory, TN_KEEPER_STORAGE, &answer, &fd, deadline, err) < 0)
        return -1;
    tn_autofd int storage = fd;
    if (storage < 0)
        return tn_fail(err, TN_E_PEER, "the keeper did not hand out the files: %s",
                       tn_buf_str(&answer));
    int upper = openat(storage, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return upper < 0 ? tn_fail_errno(err, errno, "changed files") : upper;
}

int jail_open_upper(const struct tn_subject *subject, bool running, int64_t deadline,
                    struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/upper", subject->directory);
    jail_autoref struct jail_ref ref = {0};

    jail_ref_read(subject, &ref);
    if (running && ref.disk)
        return open_in_keeper(subject, deadline, err);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? tn_fail_errno(err, errno, "%s", path) : fd;
}

int jail_save_upper(const struct jail_engine *e, const struct tn_subject *subject, int upper,
                    int64_t deadline, struct tn_error *err)
{
    tn_autofd int dir = open(subject->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tn_tree_count count;

    if (dir < 0)
        return tn_fail_errno(err, errno, "%s", subject->directory);
    if (tn_fs_remove_tree(dir, "saving", 0, err) < 0)
        return -1;
    if (mkdirat(dir, "saving", 0755) < 0)
        return tn_fail_errno(err, errno, "directory for the changed files");
    tn_autofd int to = openat(dir, "saving", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (to < 0)
        return tn_fail_errno(err, errno, "directory for the changed files");
    if (jail_copy(e, upper, to, deadline, &count, err) < 0 ||
        jail_storage_empty(subject->directory, err) < 0)
        return -1;
    if (renameat(dir, "saving", dir, "upper") < 0)
        return tn_fail_errno(err, errno, "%s/upper", subject->directory);
    jail_storage_clear_trash(subject->directory);
    return 0;
}

/* True when there is nothing to keep: no entry; with depth 1, none but empty directories, which is
 * how it begins on the system directories of the host. */
static bool is_empty(int fd, int depth)
{
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    bool empty = dir != NULL;

    if (!dir)
        tn_close(again);
    for (struct dirent *e; empty && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        tn_autofd int below =
            depth > 0 ? openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        empty = below >= 0 && is_empty(below, depth - 1);
    }
    if (dir)
        closedir(dir);
    return empty;
}

/* --- making a layer of them ----------------------------------------------------------------- */

struct taking {
    struct jail_engine *e;
    const struct tn_subject *subject;
    struct jail_storage storage;
    struct jail_ref ref;
    bool running, paused;
    int64_t deadline;
};

static int begin(struct taking *t, void *engine, const struct tn_subject *subject, int64_t deadline,
                 struct tn_error *err)
{
    *t = (struct taking){.e = engine, .subject = subject, .deadline = deadline};
    jail_storage_init(&t->storage);
    t->running = jail_ref_find(subject, &t->ref, deadline);
    if (!t->running && jail_has_mark(subject, TN_JAIL_SUSPENDED))
        return tn_fail(err, TN_E_CONFLICT, "it is suspended: resume it first, or stop it");
    if (jail_storage_load(t->e->host->state, subject->directory, subject->id, &t->storage, err) < 0)
        return -1;
    t->paused = t->running && jail_is_frozen(t->e, subject, &t->ref, deadline);
    return 0;
}

static void end(struct taking *t)
{
    jail_storage_done(&t->storage);
    jail_ref_done(&t->ref);
}

static int copy_frozen(struct taking *t, int upper, int layer, struct tn_tree_count *count,
                       struct tn_error *err)
{
    if (!t->running || t->paused)
        return jail_layer_fill(t->e, layer, upper, t->deadline, count, err);
    int r = jail_freeze_to_copy(t->e, t->subject, &t->ref, t->deadline, err);
    if (r == 0)
        r = jail_layer_fill(t->e, layer, upper, t->deadline, count, err);
    struct tn_error why = {0};
    if (jail_thaw_copied(t->e, t->subject, &t->ref, &why) < 0 && r == 0) {
        if (err)
            *err = why;
        return -1;
    }
    return r;
}

static int fill_layer(struct taking *t, const char *name, int upper, int layer,
                      struct tn_error *err)
{
    struct tn_tree_count count;

    if (copy_frozen(t, upper, layer, &count, err) < 0)
        return -1;
    return jail_layer_set_size(t->e->host->state, name, count.bytes, err);
}

/* The layer has been written down by whoever will use it. */
static int copy_layer(struct taking *t, const char *name, const char *user, int upper,
                      struct tn_error *err)
{
    tn_autofd int layer = jail_layer_make(t->e->host->state, name, user, err);

    return layer < 0 ? -1 : fill_layer(t, name, upper, layer, err);
}

/* upper becomes the first of the sandbox's own layers. */
static int fold(struct taking *t, const char *layer, int upper, struct tn_error *err)
{
    const char *state = t->e->host->state;
    struct jail_storage *s = &t->storage;
    tn_autofd int dir = open(t->subject->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tn_tree_count count;

    if (tn_tree_measure(upper, t->deadline, &count, err) < 0)
        return -1;
    s->folding = tn_strdup(layer);
    if (dir < 0)
        return tn_fail_errno(err, errno, "%s", t->subject->directory);
    if (jail_storage_save(t->subject->directory, s, err) < 0 ||
        jail_layer_take(state, layer, t->subject->id, dir, "upper", count.bytes, err) < 0)
        return -1;
    struct tn_str_list layers = jail_list_copy(layer, &s->layers);
    jail_list_done(&s->layers);
    s->layers = layers;
    free(TN_TAKE_PTR(s->folding));
    return jail_storage_save(t->subject->directory, s, err);
}

static bool can_fold(const struct taking *t)
{
    return !t->running && !t->ref.disk && t->storage.layers.count < LAYERS_FOLD_MAX;
}

/* --- snapshot ------------------------------------------------------------------------------- */

/* The layers of the sandbox as it is now, in *out. */
static int take_layers(struct taking *t, struct tn_str_list *out, struct tn_error *err)
{
    struct jail_storage *s = &t->storage;
    char layer[JAIL_LAYER_NAME];
    tn_autofd int upper = jail_open_upper(t->subject, t->running, t->deadline, err);

    if (upper < 0)
        return -1;
    if (is_empty(upper, t->storage.host)) {
        *out = jail_list_copy(NULL, &s->layers);
        return 0;
    }
    if (jail_layer_name(t->subject->id, layer, err) < 0)
        return -1;
    if (can_fold(t)) {
        if (fold(t, layer, upper, err) < 0)
            return -1;
        *out = jail_list_copy(NULL, &s->layers);
        return 0;
    }
    s->making = tn_strdup(layer);
    if (jail_storage_save(t->subject->directory, s, err) < 0 ||
        copy_layer(t, layer, t->subject->id, upper, err) < 0)
        return -1;
    free(TN_TAKE_PTR(s->making));
    *out = jail_list_copy(layer, &s->layers);
    return 0;
}

static int snapshot(struct taking *t, const char *name, struct tn_error *err)
{
    struct tn_str_list layers = {0};

    if (jail_storage_find(&t->storage, name))
        return tn_fail(err, TN_E_CONFLICT, "there is a snapshot %s already", name);
    if (take_layers(t, &layers, err) < 0)
        return -1;
    jail_storage_add(&t->storage, name, &layers);
    jail_list_done(&layers);
    return jail_storage_save(t->subject->directory, &t->storage, err);
}

int jail_snapshot(void *engine, const struct tn_subject *subject, const char *name,
                  int64_t deadline, struct tn_error *err)
{
    struct taking t;
    int r = begin(&t, engine, subject, deadline, err);

    if (r == 0)
        r = snapshot(&t, name, err);
    end(&t);
    if (r < 0) { /* what is half done is undone at once */
        jail_autostorage struct jail_storage s = {0};
        jail_storage_init(&s);
        jail_storage_load(t.e->host->state, subject->directory, subject->id, &s, NULL);
    }
    return r;
}

/* Writes down what the storage is from now on, then does it. */
static int settle(struct taking *t, struct tn_error *err)
{
    const struct tn_subject *subject = t->subject;

    if (jail_storage_save(subject->directory, &t->storage, err) < 0)
        return -1;
    return jail_storage_settle(t->e->host->state, subject->directory, subject->id, &t->storage,
                               err);
}

static int forget(struct taking *t, const char *name, struct tn_error *err)
{
    struct jail_snapshot *found = jail_storage_find(&t->storage, name);

    if (!found)
        return 0;
    struct tn_str_list layers = jail_list_copy(NULL, &found->layers);
    jail_storage_drop(&t->storage, name);
    jail_storage_release(&t->storage, &layers);
    jail_list_done(&layers);
    return settle(t, err);
}

int jail_forget(void *engine, const struct tn_subject *subject, const char *name, int64_t deadline,
                struct tn_error *err)
{
    struct taking t;
    int r = begin(&t, engine, subject, deadline, err);

    if (r == 0)
        r = forget(&t, name, err);
    end(&t);
    return r;
}

/* --- rollback ------------------------------------------------------------------------------- */

static int rollback(struct taking *t, const char *name, struct tn_place *place,
                    struct tn_error *err)
{
    struct jail_storage *s = &t->storage;
    struct jail_snapshot *found = jail_storage_find(s, name);

    if (!found)
        return tn_fail(err, TN_E_NOT_FOUND, "the sandbox has no snapshot %s", name);
    if (jail_kill(t->e, t->subject, t->deadline, err) < 0)
        return -1;
    struct tn_str_list old = s->layers;
    s->layers = jail_list_copy(NULL, &found->layers);
    jail_storage_release(s, &old);
    jail_list_done(&old);
    s->discard = true;
    if (settle(t, err) < 0)
        return -1;
    return jail_launch(t->e, t->subject, s, place, t->deadline, err);
}

int jail_rollback(void *engine, const struct tn_subject *subject, const char *name,
                  struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    struct taking t;
    int r = begin(&t, engine, subject, deadline, err);

    if (r == 0)
        r = rollback(&t, name, place, err);
    end(&t);
    return r;
}

/* --- fork ----------------------------------------------------------------------------------- */

/* A fresh storage on the same ground. */
static void inherit(const struct jail_storage *from, struct jail_storage *to)
{
    to->root = tn_strdup_or_null(from->root);
    to->host = from->host;
    jail_list_done(&to->image.layers);
    to->image.layers = jail_list_copy(NULL, &from->image.layers);
    jail_list_done(&to->image.env);
    to->image.env = jail_list_copy(NULL, &from->image.env);
    to->image.workdir = tn_strdup_or_null(from->image.workdir);
    to->image.user = tn_strdup_or_null(from->image.user);
}

/* The child is a user of each layer, which it has written down before. */
static int join_layers(const struct taking *t, const struct tn_subject *child,
                       const struct tn_str_list *layers, struct tn_error *err)
{
    for (size_t i = 0; i < layers->count; i++)
        if (jail_layer_join(t->e->host->state, layers->items[i], child->id, err) < 0)
            return -1;
    return 0;
}

static int check_count(const struct jail_storage *s, struct tn_error *err)
{
    if (s->layers.count <= LAYERS_MAX)
        return 0;
    return tn_fail(err, TN_E_TOO_LARGE,
                   "a fork of a fork, %d times over: more layers cannot be mounted", LAYERS_MAX);
}

static int fork_snapshot(struct taking *t, const struct tn_str_list *layers,
                         const struct tn_subject *child, struct jail_storage *s,
                         struct tn_place *place, struct tn_error *err)
{
    jail_list_done(&s->layers);
    s->layers = jail_list_copy(NULL, layers);
    if (jail_storage_save(child->directory, s, err) < 0 || check_count(s, err) < 0 ||
        join_layers(t, child, layers, err) < 0)
        return -1;
    return jail_launch(t->e, child, s, place, t->deadline, err);
}

static bool has_disk_limit(const struct taking *t, const struct tn_subject *child)
{
    struct tn_limits limits;

    return jail_limits(t->e, child->spec, &limits, NULL) < 0 || limits.disk > 0;
}

/* The jail comes up while its topmost layer is filled.  With a disk limit it has to wait: what the
 * layer holds counts. */
static int launch_and_copy(struct taking *t, const struct tn_subject *child,
                           const struct jail_storage *s, int upper, struct tn_place *place,
                           struct tn_error *err)
{
    TN_CLEANUP(jail_start_done) struct jail_start start = {.launcher = JAIL_LAUNCHER_NONE};
    const char *name = s->layers.items[0];
    tn_autofd int layer = jail_layer_make(t->e->host->state, name, child->id, err);
    int ends[2];

    if (layer < 0 || join_layers(t, child, &t->storage.layers, err) < 0)
        return -1;
    if (has_disk_limit(t, child))
        return fill_layer(t, name, upper, layer, err) < 0
                   ? -1
                   : jail_launch(t->e, child, s, place, t->deadline, err);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pipe");
    tn_autofd int theirs = ends[0], ours = ends[1];
    if (jail_launch_begin(t->e, child, s, theirs, &start, t->deadline, err) < 0)
        return -1;
    if (fill_layer(t, name, upper, layer, err) < 0) {
        tn_close(TN_TAKE_FD(ours)); /* the launcher hears that, and gives up */
        jail_launch_finish(child, &start, place, t->deadline, NULL);
        return -1;
    }
    if (tn_fs_write(ours, "", 1, err) < 0) /* our own end to read from is open: no SIGPIPE */
        return -1;
    return jail_launch_finish(child, &start, place, t->deadline, err);
}

/* As it is now: one more layer that only the child has, unless the parent holds still anyway. */
static int fork_now(struct taking *t, const struct tn_subject *child, struct jail_storage *s,
                    struct tn_place *place, struct tn_error *err)
{
    char layer[JAIL_LAYER_NAME];
    tn_autofd int upper = jail_open_upper(t->subject, t->running, t->deadline, err);

    if (upper < 0)
        return -1;
    if (is_empty(upper, t->storage.host))
        return fork_snapshot(t, &t->storage.layers, child, s, place, err);
    if (can_fold(t)) {
        if (jail_layer_name(t->subject->id, layer, err) < 0 || fold(t, layer, upper, err) < 0)
            return -1;
        return fork_snapshot(t, &t->storage.layers, child, s, place, err);
    }
    if (jail_layer_name(child->id, layer, err) < 0)
        return -1;
    jail_list_done(&s->layers);
    s->layers = jail_list_copy(layer, &t->storage.layers);
    if (jail_storage_save(child->directory, s, err) < 0 || check_count(s, err) < 0)
        return -1;
    return launch_and_copy(t, child, s, upper, place, err);
}

static int fork_child(struct taking *t, const char *name, const struct tn_subject *child,
                      struct tn_place *place, struct tn_error *err)
{
    jail_autostorage struct jail_storage s = {0};
    struct jail_snapshot *found = name ? jail_storage_find(&t->storage, name) : NULL;

    jail_storage_init(&s);
    if (name && !found)
        return tn_fail(err, TN_E_NOT_FOUND, "the sandbox has no snapshot %s", name);
    inherit(&t->storage, &s);
    return found ? fork_snapshot(t, &found->layers, child, &s, place, err)
                 : fork_now(t, child, &s, place, err);
}

int jail_fork(void *engine, const struct tn_subject *subject, const char *name,
              const struct tn_subject *child, struct tn_place *place, int64_t deadline,
              struct tn_error *err)
{
    struct taking t;
    int r = begin(&t, engine, subject, deadline, err);

    if (r == 0)
        r = fork_child(&t, name, child, place, err);
    end(&t);
    return r;
}
