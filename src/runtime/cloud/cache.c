/* The hand, kept at the vendor: the first create from an image takes a snapshot as soon as the hand
 * was put in, and later ones begin with that.
 *
 * It is taken before anything of the user has entered: the hand has not run, its key is not there,
 * and the environment comes with the hand's start.  Its name says whose it is, of which hand and of
 * what it was made; which it is at the vendor is noted in a file of that name, and all that has our
 * mark and no such file is removed by gc. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/sha256.h"
#include "runtime/cloud/cloud.h"

#define TAKE_SECONDS 60.0 /* a vendor that needs longer has none */
enum { HAND_LETTERS = 12, ORIGIN_LETTERS = 16 };
/* Kept at a vendor: users name images and accounts as they like. */
enum { NOTES_MAX = 8 };
/* Until a vendor that had none, or was too slow, is asked for one again. */
enum { NONE_SECONDS = 6 * 3600 };

/* --- names ------------------------------------------------------------------------------------ */

/* What the names of those with this hand begin with, and of those of this state. */
static int prefixes(const struct cloud *c, char hand[CLOUD_CACHE_NAME], char ours[CLOUD_CACHE_NAME],
                    struct tn_error *err)
{
    char digest[CLOUD_DIGEST];

    if (cloud_hand_digest(c->host, digest, err) < 0)
        return -1;
    snprintf(ours, CLOUD_CACHE_NAME, CLOUD_CACHE_PREFIX "%s-", c->mark);
    snprintf(hand, CLOUD_CACHE_NAME, "%s%.*s-", ours, HAND_LETTERS, digest);
    return 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

int cloud_open_notes(const struct cloud *c)
{
    tn_autofree char *path = tn_asprintf("clouds/%s", c->vendor->name);
    tn_autofd int state = open(c->host->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    tn_autofd int made = state < 0 ? -1 : tn_fs_mkdirs(state, path, 0700, NULL, NULL, NULL);
    return made < 0 ? -1 : openat(state, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* What the note of that name says; false: there is none, or it said long ago that there is none. */
static bool read_note(const struct cloud *c, const char *name, char out[2 * CLOUD_ID_MAX])
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(2 * CLOUD_ID_MAX - 1);
    tn_autofd int notes = cloud_open_notes(c);
    struct stat st;
    bool there = notes >= 0 && tn_fs_read(notes, name, &text, NULL) == 0 &&
                 fstatat(notes, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                 (text.len || time(NULL) - st.st_mtime < NONE_SECONDS);

    snprintf(out, 2 * CLOUD_ID_MAX, "%s", there ? tn_buf_str(&text) : "");
    return there;
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    return tn_fs_write(fd, ctx, strlen(ctx), err);
}

void cloud_cache_forget(const struct cloud *c, const struct cloud_cache *cache)
{
    tn_autofd int notes = cloud_open_notes(c);

    unlinkat(notes, cache->name, 0);
}

void cloud_cache_find(const struct cloud *c, const struct tn_spec *spec, struct cloud_cache *out)
{
    const char *image = spec->image ? spec->image : c->usual, *user = spec->user ? spec->user : "";
    /* What a Tendon makes of a snapshot has the network of that, whatever the wish says. */
    const char *network = spec->network == TN_NETWORK_NONE ? "\nnone" : "";
    tn_autofree char *made_of =
        tn_asprintf("%s\n%s\n%s%s", c->line.url, image ? image : "", user, network);
    char hand[CLOUD_CACHE_NAME], ours[CLOUD_CACHE_NAME], digest[CLOUD_DIGEST];
    struct tn_sha256 hash;
    struct tn_limits sizes;

    *out = (struct cloud_cache){0};
    /* What a snapshot keeps of the volumes and the rules of its sandbox is the vendor's secret. */
    if (!c->usual || c->unmarked || spec->volumes.count || spec->allow.count ||
        !c->host->config->tendon.cache_hand || tn_spec_limits(spec, &sizes, NULL) < 0 ||
        prefixes(c, hand, ours, NULL) < 0)
        return;
    if (c->vendor->shelf && c->vendor->shelf->sized &&
        (sizes.cpus > 0 || sizes.memory || sizes.disk))
        return;
    tn_sha256_init(&hash);
    tn_sha256_add(&hash, made_of, strlen(made_of));
    tn_sha256_end_hex(&hash, digest);
    snprintf(out->name, sizeof out->name, "%.45s%.*s", hand, ORIGIN_LETTERS, digest);
    if (read_note(c, out->name, out->image) && !*out->image)
        out->name[0] = '\0'; /* the vendor has none */
}

/* --- at vendors that talk JSON ---------------------------------------------------------------- */

char *cloud_take(const struct cloud *c, struct cloud_view *v, const char *name, int64_t deadline,
                 struct tn_error *err)
{
    const struct cloud_shelf *shelf = c->vendor->shelf;
    tn_autofree char *target = cloud_target(shelf->sandbox, v->id, shelf->take);
    tn_autobuf struct tn_buf body = TN_BUF_INIT(256);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};

    tn_buf_printf(&body, "{\"name\": \"%s\"}", name);
    struct cloud_call call = cloud_post(target, &body);
    call.unsafe = true;
    /* A conflict: what has our mark, this hand and this origin is as good. */
    if (cloud_ask(&c->line, &call, &tree, deadline, &why) < 0 &&
        !(why.code == TN_E_CONFLICT && !shelf->id)) {
        cloud_fail(err, &why);
        return NULL;
    }
    tn_autofree char *id = shelf->id ? cloud_token(tree, shelf->id) : tn_strdup(name);
    if (id && strlen(id) <= CLOUD_ID_MAX)
        return tn_asprintf("%s%s", shelf->before_id, id);
    tn_fail(err, TN_E_PEER, "%s tells of a snapshot without a usable id", c->line.who);
    return NULL;
}

int cloud_drop(const struct cloud *c, const char *image, int64_t deadline, struct tn_error *err)
{
    const struct cloud_shelf *shelf = c->vendor->shelf;
    tn_autofree char *target =
        cloud_target(shelf->one, image + strlen(shelf->before_id), shelf->after);
    const struct cloud_call call = {.web = {.method = shelf->method, .target = target},
                                    .ends = true};

    return cloud_ask(&c->line, &call, NULL, deadline, err);
}

/* Those of ours that no note tells of; the newest page of the list. */
static int drop_strays(const struct cloud *c, const char *ours, int64_t deadline,
                       struct tn_error *err)
{
    const struct cloud_shelf *shelf = c->vendor->shelf;
    const struct cloud_call call = {.web = {.target = shelf->list}};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};
    int failed = 0;

    if (cloud_ask(&c->line, &call, &tree, deadline, &why) < 0)
        return why.code == TN_E_NOT_FOUND ? 0 : cloud_fail(err, &why);
    const struct tn_json *items = shelf->items ? tn_json_get(tree, shelf->items) : tree;
    for (size_t i = 0; i < tn_json_count(items); i++) {
        const struct tn_json *item = tn_json_at(items, i), *names = tn_json_get(item, "names");
        const char *id = tn_json_get_str(item, shelf->id ? shelf->id : "name", ""),
                   *told = tn_json_str(tn_json_at(names, 0), NULL),
                   *name = strstr(told ? told : tn_json_get_str(item, "name", id), ours);
        if (!name || strlen(name) >= CLOUD_CACHE_NAME || !cloud_is_token(id))
            continue;
        /* The vendor may put something of its own around a name. */
        tn_autofree char *own = tn_strndup(name,
                                           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")),
                         *image = tn_asprintf("%s%s", shelf->before_id, id);
        char note[2 * CLOUD_ID_MAX];
        if (!read_note(c, own, note) || strcmp(note, image) != 0)
            failed |= c->vendor->drop(c, image, deadline, err);
    }
    return failed;
}

/* Room for one more: the oldest one goes, with what is at the vendor. */
static void make_room(const struct cloud *c, const char *name, int64_t deadline)
{
    char hand[CLOUD_CACHE_NAME], ours[CLOUD_CACHE_NAME];
    struct cloud_cache oldest = {0};
    time_t since = 0;
    int count = 0;

    DIR *notes = prefixes(c, hand, ours, NULL) < 0 ? NULL : fdopendir(cloud_open_notes(c));
    for (struct dirent *e; notes && (e = readdir(notes));) {
        struct stat st;
        if (!begins(e->d_name, ours) || strcmp(e->d_name, name) == 0 ||
            fstatat(dirfd(notes), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (count++ && st.st_mtime >= since)
            continue;
        since = st.st_mtime;
        snprintf(oldest.name, sizeof oldest.name, "%.63s", e->d_name);
    }
    if (notes)
        closedir(notes);
    if (count < NOTES_MAX)
        return;
    read_note(c, oldest.name, oldest.image);
    /* What stays there without a note is removed by gc. */
    if (*oldest.image)
        c->vendor->drop(c, oldest.image, deadline, NULL);
    cloud_cache_forget(c, &oldest);
}

/* --- the policy ------------------------------------------------------------------------------- */

int cloud_cache_take(const struct cloud *c, struct cloud_view *v, const struct cloud_cache *cache,
                     int64_t deadline, struct tn_error *err)
{
    int64_t soon = tn_deadline_in(TAKE_SECONDS);
    tn_autofree char *id = tn_strdup(v->id), *image = NULL;
    tn_autofd int notes = cloud_open_notes(c);
    struct tn_error why = {0};

    if (!cache || !*cache->name || notes < 0)
        return 0;
    if (deadline < soon)
        soon = deadline;
    make_room(c, cache->name, soon);
    image = c->vendor->take(c, v, cache->name, soon, &why);
    /* What was refused once, or took too long, would be so again; what got lost would perhaps not.
     */
    bool hurried = soon == deadline && why.code == TN_E_TIMEOUT;
    if (image ||
        (why.code != TN_E_PEER && why.code != TN_E_BUSY && why.code != TN_E_QUOTA && !hurried))
        tn_fs_replace(notes, cache->name, &(struct tn_fs_replace){.mode = 0600}, write_text,
                      image ? image : (char[1]){""}, NULL);
    v->status = TN_STATUS_STARTING; /* it may have been stopped for that */
    return cloud_reach(c, id, TN_STATUS_RUNNING, v, 0, deadline, err);
}

int cloud_tidy(void *engine, int64_t deadline, struct tn_error *err)
{
    const struct cloud *c = engine;
    char hand[CLOUD_CACHE_NAME], ours[CLOUD_CACHE_NAME];
    int failed = 0;

    if (c->unmarked || prefixes(c, hand, ours, err) < 0)
        return c->unmarked ? 0 : -1;
    DIR *notes = fdopendir(cloud_open_notes(c));
    for (struct dirent *e; notes && (e = readdir(notes));) {
        struct cloud_cache old = {0};
        if (!begins(e->d_name, ours))
            continue;
        read_note(c, e->d_name, old.image);
        snprintf(old.name, sizeof old.name, "%.63s", e->d_name);
        if (*old.image && begins(old.name, hand))
            continue;
        if (*old.image && c->vendor->drop(c, old.image, deadline, err) < 0)
            failed = -1;
        else
            cloud_cache_forget(c, &old);
    }
    if (notes)
        closedir(notes);
    return c->vendor->shelf && drop_strays(c, ours, deadline, err) < 0 ? -1 : failed;
}
