#include "runtime/jail/storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "jail/plan.h"
#include "runtime/jail/layer.h"

#define FILE_MAX (4u << 20)

#define STORAGE struct jail_storage
static const struct tn_field rows[] = {
    TN_STRING("root", STORAGE, root, .flags = TN_FIELD_NULLABLE),
    TN_OBJECT("image", STORAGE, image, &jail_image_fields),
    TN_BOOL("host", STORAGE, host),
    TN_STRINGS("layers", STORAGE, layers),
    TN_DOUBLE("ran", STORAGE, ran),
    TN_STRING("making", STORAGE, making, .flags = TN_FIELD_NULLABLE),
    TN_STRING("folding", STORAGE, folding, .flags = TN_FIELD_NULLABLE),
    TN_BOOL("discard", STORAGE, discard),
    TN_STRINGS("leaving", STORAGE, leaving),
};
static const struct tn_fields fields = TN_FIELDS(rows);

static const struct tn_field snapshot_rows[] = {
    TN_STRING("name", struct jail_snapshot, name, .flags = TN_FIELD_REQUIRED),
    TN_STRINGS("layers", struct jail_snapshot, layers),
};
static const struct tn_fields snapshot_fields = TN_FIELDS(snapshot_rows);

void jail_storage_init(struct jail_storage *s)
{
    *s = (struct jail_storage){0};
    tn_fields_defaults(&fields, s);
}

void jail_storage_done(struct jail_storage *s)
{
    for (size_t i = 0; i < s->snapshot_count; i++)
        tn_fields_done(&snapshot_fields, &s->snapshots[i]);
    free(s->snapshots);
    s->snapshots = NULL;
    s->snapshot_count = 0;
    tn_fields_done(&fields, s);
}

/* --- lists and snapshots -------------------------------------------------------------------- */

struct tn_str_list jail_list_copy(const char *top, const struct tn_str_list *list)
{
    struct tn_str_list copy = {.items = tn_calloc(list->count + 2, sizeof *copy.items)};

    if (top)
        copy.items[copy.count++] = tn_strdup(top);
    for (size_t i = 0; i < list->count; i++)
        copy.items[copy.count++] = tn_strdup(list->items[i]);
    return copy;
}

void jail_list_done(struct tn_str_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct tn_str_list){0};
}

struct jail_snapshot *jail_storage_find(const struct jail_storage *s, const char *name)
{
    for (size_t i = 0; i < s->snapshot_count; i++)
        if (strcmp(s->snapshots[i].name, name) == 0)
            return &s->snapshots[i];
    return NULL;
}

void jail_storage_add(struct jail_storage *s, const char *name, const struct tn_str_list *layers)
{
    s->snapshots = tn_realloc(s->snapshots, (s->snapshot_count + 1) * sizeof *s->snapshots);
    s->snapshots[s->snapshot_count++] =
        (struct jail_snapshot){.name = tn_strdup(name), .layers = jail_list_copy(NULL, layers)};
}

void jail_storage_drop(struct jail_storage *s, const char *name)
{
    struct jail_snapshot *found = jail_storage_find(s, name);

    if (!found)
        return;
    tn_fields_done(&snapshot_fields, found);
    *found = s->snapshots[--s->snapshot_count];
}

static bool needs(const struct jail_storage *s, const char *layer)
{
    if (tn_str_list_has(&s->layers, layer))
        return true;
    for (size_t i = 0; i < s->snapshot_count; i++)
        if (tn_str_list_has(&s->snapshots[i].layers, layer))
            return true;
    return false;
}

struct tn_str_list jail_storage_all_layers(const struct jail_storage *s)
{
    struct tn_str_list all = jail_list_copy(NULL, &s->layers);

    for (size_t i = 0; i < s->snapshot_count; i++) {
        const struct tn_str_list *layers = &s->snapshots[i].layers;
        for (size_t k = 0; k < layers->count; k++) {
            if (tn_str_list_has(&all, layers->items[k]))
                continue;
            struct tn_str_list longer = jail_list_copy(layers->items[k], &all);
            jail_list_done(&all);
            all = longer;
        }
    }
    return all;
}

void jail_storage_release(struct jail_storage *s, const struct tn_str_list *layers)
{
    for (size_t i = 0; i < layers->count; i++) {
        if (needs(s, layers->items[i]) || tn_str_list_has(&s->leaving, layers->items[i]))
            continue;
        struct tn_str_list longer = jail_list_copy(layers->items[i], &s->leaving);
        jail_list_done(&s->leaving);
        s->leaving = longer;
    }
}

/* --- the file ------------------------------------------------------------------------------- */

static int read_snapshots(const struct tn_json *list, struct jail_storage *s, struct tn_error *err)
{
    size_t count = tn_json_count(list);

    s->snapshots = tn_calloc(count, sizeof *s->snapshots);
    for (size_t i = 0; i < count; i++) {
        struct jail_snapshot *one = &s->snapshots[i];
        tn_fields_defaults(&snapshot_fields, one);
        s->snapshot_count++;
        if (tn_fields_from_json(&snapshot_fields, one, tn_json_at(list, i), err) < 0 ||
            tn_fields_check(&snapshot_fields, one, err) < 0)
            return -1;
    }
    return 0;
}

int jail_storage_read(const char *directory, struct jail_storage *s, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" JAIL_STORAGE_FILE, directory);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(FILE_MAX);
    tn_autojson struct tn_json *json = NULL;

    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, err) < 0)
        return -1;
    if (tn_json_parse(tn_buf_str(&text), text.len, &json, err) < 0 ||
        tn_fields_from_json(&fields, s, json, err) < 0 ||
        read_snapshots(tn_json_get(json, "snapshots"), s, err) < 0)
        return tn_error_context(err, "%s", path);
    return 0;
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;
    return tn_fs_write(fd, text->data, text->len, err);
}

int jail_storage_save(const char *directory, const struct jail_storage *s, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" JAIL_STORAGE_FILE, directory);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(FILE_MAX);
    const struct tn_fs_replace how = {.mode = 0600};
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_fields_to_json(&fields, s, &w);
    tn_jw_key(&w, "snapshots");
    tn_jw_array(&w);
    for (size_t i = 0; i < s->snapshot_count; i++) {
        tn_jw_object(&w);
        tn_fields_to_json(&snapshot_fields, &s->snapshots[i], &w);
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the sandbox has too many snapshots");
    return tn_fs_replace(TN_FS_ANYWHERE, path, &how, write_text, &text, err);
}

/* --- upper ---------------------------------------------------------------------------------- */

/* Whatever `name` is, it is now trash. */
static int move_away(int dir, const char *name, struct tn_error *err)
{
    uint64_t number;
    char trash[32];

    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return tn_fail_errno(err, errno, "random number");
    snprintf(trash, sizeof trash, TN_JAIL_TRASH "%016llx", (unsigned long long)number);
    if (renameat(dir, name, dir, trash) < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "%s", name);
    return 0;
}

int jail_storage_empty(const char *directory, struct tn_error *err)
{
    tn_autofd int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return tn_fail_errno(err, errno, "%s", directory);
    if (move_away(dir, "upper", err) < 0 || move_away(dir, "work", err) < 0)
        return -1;
    if (mkdirat(dir, "upper", 0755) < 0)
        return tn_fail_errno(err, errno, "%s/upper", directory);
    return 0;
}

void jail_storage_clear_trash(const char *directory)
{
    DIR *dir = opendir(directory);

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, TN_JAIL_TRASH, strlen(TN_JAIL_TRASH)) == 0)
            tn_fs_remove_tree(dirfd(dir), e->d_name, 0, NULL);
    if (dir)
        closedir(dir);
}

/* --- repair --------------------------------------------------------------------------------- */

/* upper was becoming a layer: either it has, or nothing happened. */
static void finish_fold(const char *state, const char *sandbox, struct jail_storage *s)
{
    tn_autofree char *layer = TN_TAKE_PTR(s->folding);

    if (jail_layer_exists(state, layer)) {
        struct tn_str_list layers = jail_list_copy(layer, &s->layers);
        jail_list_done(&s->layers);
        s->layers = layers;
    } else {
        jail_layer_leave(state, layer, sandbox, NULL);
    }
}

int jail_storage_settle(const char *state, const char *directory, const char *sandbox,
                        struct jail_storage *s, struct tn_error *err)
{
    if (!s->making && !s->folding && !s->discard && !s->leaving.count)
        return 0;
    if (s->folding)
        finish_fold(state, sandbox, s);
    if (s->making && jail_layer_leave(state, s->making, sandbox, err) < 0)
        return -1;
    free(TN_TAKE_PTR(s->making));
    for (size_t i = 0; i < s->leaving.count; i++)
        if (jail_layer_leave(state, s->leaving.items[i], sandbox, err) < 0)
            return -1;
    jail_list_done(&s->leaving);
    if (s->discard && jail_storage_empty(directory, err) < 0)
        return -1;
    s->discard = false;
    return jail_storage_save(directory, s, err);
}

int jail_storage_load(const char *state, const char *directory, const char *sandbox,
                      struct jail_storage *s, struct tn_error *err)
{
    if (jail_storage_read(directory, s, err) < 0)
        return -1;
    return jail_storage_settle(state, directory, sandbox, s, err);
}
