#include "runtime/pending.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "event/action-body.h"
#include "event/journal.h"
#include "gate/rules.h"

#define FOLDER "pending"
#define WAITS ".json"
#define TAKEN ".taken"

enum { HEAD_MAX = 1 << 20, DIFF_MAX = 64 << 10 };

#define PENDING struct tn_pending
static const struct tn_field head_rows[] = {
    TN_INT("id", PENDING, id, .flags = TN_FIELD_REQUIRED),
    TN_DOUBLE("asked", PENDING, asked, .flags = TN_FIELD_REQUIRED),
    TN_DOUBLE("until", PENDING, until, .flags = TN_FIELD_REQUIRED),
    TN_STRING("key", PENDING, key, .flags = TN_FIELD_REQUIRED),
    TN_BOOL("keyed", PENDING, keyed),
    TN_JSON("verdict", PENDING, verdict, .flags = TN_FIELD_NULLABLE),
};
static const struct tn_fields head = TN_FIELDS(head_rows);

enum { NAME_MAX_LEN = 40 };

/* Of whoever answers: the file is locked and TAKEN for as long. */
struct tn_pending_hold {
    int folder, file;
    char name[NAME_MAX_LEN];
};

void tn_pending_done(struct tn_pending *p)
{
    struct tn_pending_hold *hold = p->hold;

    if (hold) {
        unlinkat(hold->folder, hold->name, 0);
        close(hold->folder);
        close(hold->file);
        free(hold);
    }
    free(p->key);
    free(p->body);
    tn_json_free(p->verdict);
    tn_action_done(&p->action);
}

static double now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

bool tn_pending_is_late(const struct tn_pending *p)
{
    return now_seconds() >= p->until;
}

int64_t tn_pending_deadline(const struct tn_pending *p)
{
    double left = p->until - now_seconds();

    return tn_deadline_in(left > 0 ? left : 0);
}

/* --- its file --------------------------------------------------------------------------------- */

static int open_folder(const char *directory, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/" FOLDER, directory);

    return tn_fs_open(TN_FS_ANYWHERE, path, O_RDONLY | O_DIRECTORY, 0, err);
}

static void name_of(int64_t id, const char *ending, char out[NAME_MAX_LEN])
{
    snprintf(out, NAME_MAX_LEN, "%lld%s", (long long)id, ending);
}

/* The id that a file of the folder is named after; -1 for every other file. */
static int64_t id_of(const char *name, const char *ending)
{
    char *end, same[NAME_MAX_LEN];

    errno = 0;
    long long id = strtoll(name, &end, 10);
    if (errno || end == name || strcmp(end, ending) != 0)
        return -1;
    name_of(id, ending, same);
    return id >= 0 && strcmp(same, name) == 0 ? id : -1;
}

static int put_file(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;

    return tn_fs_write(fd, tn_buf_str(text), text->len, err);
}

/* The ids of all that end so, in order; the caller frees them. */
static size_t list(const char *directory, const char *ending, int64_t **out)
{
    tn_autofree char *path = tn_asprintf("%s/" FOLDER, directory);
    DIR *folder = opendir(path);
    int64_t *ids = NULL;
    size_t count = 0;

    *out = NULL;
    if (!folder)
        return 0;
    for (struct dirent *e; (e = readdir(folder));) {
        int64_t id = id_of(e->d_name, ending);
        if (id < 0)
            continue;
        ids = tn_realloc(ids, (count + 1) * sizeof *ids);
        size_t at = count++;
        for (; at > 0 && ids[at - 1] > id; at--)
            ids[at] = ids[at - 1];
        ids[at] = id;
    }
    closedir(folder);
    *out = ids;
    return count;
}

int tn_pending_save(const char *directory, const struct tn_pending *p, struct tn_error *err)
{
    const struct tn_fs_replace how = {.mode = 0600, .sync = true};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(HEAD_MAX + TN_PENDING_BODY_MAX);
    tn_autofree char *path = tn_asprintf("%s/" FOLDER, directory);
    tn_autofree int64_t *ids = NULL;
    struct tn_jw w = tn_jw(&text);
    char name[NAME_MAX_LEN];

    if (p->len > TN_PENDING_BODY_MAX)
        return tn_fail(err, TN_E_TOO_LARGE,
                       "it is larger than %d MiB: nobody could look through it",
                       TN_PENDING_BODY_MAX >> 20);
    if (list(directory, WAITS, &ids) >= TN_PENDING_MAX)
        return tn_fail(err, TN_E_QUOTA, "%d actions of this sandbox wait for an answer already",
                       TN_PENDING_MAX);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", path);
    tn_autofd int folder = open_folder(directory, err);
    if (folder < 0)
        return -1;
    tn_jw_object(&w);
    tn_fields_to_json(&head, p, &w);
    tn_jw_kint(&w, "rights", p->rights);
    tn_jw_object_end(&w);
    tn_buf_putc(&text, '\n');
    tn_buf_add(&text, p->body, p->len);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "its verdict is too large");
    name_of(p->id, WAITS, name);
    return tn_fs_replace(folder, name, &how, put_file, &text, err);
}

/* The two parts of a file; on failure there may be something to end. */
static int read_parts(const struct tn_buf *text, struct tn_pending *out, struct tn_error *err)
{
    const char *start = tn_buf_str(text), *lf = memchr(start, '\n', text->len);
    tn_autojson struct tn_json *tree = NULL, *body = NULL;
    struct tn_action action;
    size_t held = 0;

    if (!lf)
        return tn_fail(err, TN_E_INVALID, "it has no end");
    if (tn_json_parse(start, (size_t)(lf - start), &tree, err) ||
        tn_fields_from_json(&head, out, tree, err))
        return -1;
    if (!out->key || out->until <= 0)
        return tn_fail(err, TN_E_INVALID, "it has no key, or no end");
    out->rights = (unsigned)tn_json_int(tn_json_get(tree, "rights"), 0);
    out->len = text->len - (size_t)(lf + 1 - start);
    out->body = tn_strndup(lf + 1, out->len);
    if (tn_action_body_read(out->body, out->len, NULL, &held, &body, &action, err))
        return -1;
    tn_action_done(&out->action);
    out->action = action;
    return 0;
}

static int load(const char *directory, int64_t id, const char *ending, struct tn_pending *out,
                struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(HEAD_MAX + TN_PENDING_BODY_MAX);
    tn_autofd int folder = open_folder(directory, NULL);
    char name[NAME_MAX_LEN];

    name_of(id, ending, name);
    struct tn_error why = {.code = TN_E_NOT_FOUND};
    if (folder < 0 || tn_fs_read(folder, name, &text, &why)) {
        if (why.code == TN_E_NOT_FOUND)
            tn_fail(&why, TN_E_NOT_FOUND, "no action %lld waits for an answer", (long long)id);
        if (err)
            *err = why;
        return -1;
    }
    *out = (struct tn_pending){0};
    tn_action_init(&out->action, TN_ACTION_NULL);
    if (!read_parts(&text, out, err) && out->id == id)
        return 0;
    tn_pending_done(out);
    return tn_fail(err, TN_E_INTERNAL, "pending/%s is damaged", name);
}

int tn_pending_load(const char *directory, int64_t id, struct tn_pending *out, struct tn_error *err)
{
    return load(directory, id, WAITS, out, err);
}

/* Whoever answers has not come to its end, nor died: then the file goes. */
static bool is_held(const char *directory, int64_t id)
{
    tn_autofd int folder = open_folder(directory, NULL);
    char name[NAME_MAX_LEN];

    name_of(id, TAKEN, name);
    tn_autofd int file = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return false;
    if (flock(file, LOCK_SH | LOCK_NB) < 0)
        return true;
    unlinkat(folder, name, 0);
    return false;
}

/* What a process left that was killed while it answered. */
static void forget_dead(const char *directory)
{
    tn_autofree int64_t *ids = NULL;
    size_t n = list(directory, TAKEN, &ids);

    for (size_t i = 0; i < n; i++)
        is_held(directory, ids[i]);
}

int tn_pending_each(const char *directory, tn_pending_fn fn, void *ctx)
{
    tn_autofree int64_t *ids = NULL;
    size_t n = list(directory, WAITS, &ids);
    int r = 0;

    forget_dead(directory);
    for (size_t i = 0; i < n && !r; i++) {
        struct tn_pending p;
        if (tn_pending_load(directory, ids[i], &p, NULL))
            continue;
        r = fn(&p, ctx);
        tn_pending_done(&p);
    }
    return r;
}

static int find(const char *directory, const char *key, const char *ending, struct tn_pending *out)
{
    tn_autofree int64_t *ids = NULL;
    size_t n = list(directory, ending, &ids);
    bool taken = strcmp(ending, TAKEN) == 0;

    for (size_t i = 0; i < n; i++) {
        if ((taken && !is_held(directory, ids[i])) || load(directory, ids[i], ending, out, NULL))
            continue;
        out->taken = taken;
        if (strcmp(out->key, key) == 0)
            return 0;
        tn_pending_done(out);
    }
    return -1;
}

int tn_pending_find(const char *directory, const char *key, struct tn_pending *out)
{
    return find(directory, key, WAITS, out) && find(directory, key, TAKEN, out) ? -1 : 0;
}

bool tn_pending_claim(const char *directory, int64_t id)
{
    tn_autofd int folder = open_folder(directory, NULL);
    char name[NAME_MAX_LEN];

    name_of(id, WAITS, name);
    return folder >= 0 && unlinkat(folder, name, 0) == 0;
}

/* Claims it, too, but so that tn_pending_find still finds it.  NULL: somebody else has. */
static struct tn_pending_hold *hold(const char *directory, int64_t id)
{
    tn_autofd int folder = open_folder(directory, NULL);
    struct tn_pending_hold *h = NULL;
    char before[NAME_MAX_LEN], after[NAME_MAX_LEN];

    name_of(id, WAITS, before);
    name_of(id, TAKEN, after);
    tn_autofd int file = folder < 0 ? -1 : openat(folder, before, O_RDONLY | O_CLOEXEC);
    if (file < 0 || flock(file, LOCK_EX | LOCK_NB) < 0 ||
        renameat(folder, before, folder, after) < 0)
        return NULL;
    h = tn_calloc(1, sizeof *h);
    *h = (struct tn_pending_hold){.folder = TN_TAKE_FD(folder), .file = TN_TAKE_FD(file)};
    memcpy(h->name, after, sizeof after);
    return h;
}

static bool has_waited(const char *directory, int64_t id)
{
    tn_autojson struct tn_json *event = tn_pending_event(directory, id);
    const struct tn_json *args = tn_json_get(event, "args");

    return tn_json_get(event, "verdict") &&
           !strcmp(tn_json_get_str(args, "confirmation_state", ""), "awaiting_confirmation");
}

int tn_pending_take(const char *directory, int64_t id, tn_pending_check_fn check, void *ctx,
                    struct tn_pending *out, struct tn_error *err)
{
    struct tn_error why = {0};

    int failed = tn_pending_load(directory, id, out, &why);
    if (!failed && check && check(out, ctx, err)) {
        tn_pending_done(out);
        return -1;
    }
    if (!failed && (out->hold = hold(directory, id)))
        return 0;
    if (!failed)
        tn_pending_done(out);
    if (!failed || (why.code == TN_E_NOT_FOUND && has_waited(directory, id)))
        return tn_fail(err, TN_E_CONFLICT, "action %lld has been answered already", (long long)id);
    if (err)
        *err = why;
    return -1;
}

/* --- for people ------------------------------------------------------------------------------- */

struct tn_json *tn_pending_event(const char *directory, int64_t id)
{
    tn_autojournalreader struct tn_journal_reader *r = tn_journal_reader_new(directory, id, NULL);
    struct tn_journal_event event;
    struct tn_json *tree = NULL;

    if (!r || tn_journal_next(r, &event, NULL) != 1 || event.id != id ||
        tn_json_parse(event.json, event.len, &tree, NULL))
        return NULL;
    return tree;
}

static void put_lines(struct tn_buf *out, char mark, const struct tn_text *text)
{
    const char *at = text->data, *end = at + text->len;

    while (at && at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        size_t n = lf ? (size_t)(lf - at) : (size_t)(end - at);
        tn_buf_printf(out, "%c", mark);
        tn_buf_add(out, at, n);
        tn_buf_putc(out, '\n');
        at += n + 1;
    }
}

void tn_pending_put_diff(const struct tn_action *action, struct tn_buf *out)
{
    if (action->type == TN_ACTION_WRITE)
        put_lines(out, '+', &action->write.content);
    if (action->type != TN_ACTION_EDIT)
        return;
    put_lines(out, '-', &action->edit.old_str);
    put_lines(out, '+', &action->edit.file_text);
    put_lines(out, '+', &action->edit.new_str);
    put_lines(out, '+', &action->edit.content);
}

static void put_diff(const struct tn_json *event, struct tn_jw *w)
{
    tn_autobuf struct tn_buf diff = TN_BUF_INIT(DIFF_MAX);
    struct tn_action action;

    if (tn_action_from_json(event, &action, NULL))
        return;
    tn_pending_put_diff(&action, &diff);
    if (diff.len)
        tn_jw_kstr(w, "diff", tn_buf_str(&diff));
    tn_action_done(&action);
}

_Static_assert((int)TN_PENDING_RULE == (int)TN_RULE_FOR, "the same text");
bool tn_pending_rule(const struct tn_pending *p, char rule[TN_PENDING_RULE])
{
    const struct tn_network_action *n = &p->action.network;

    return p->action.type == TN_ACTION_NETWORK && tn_rule_for(n->host, (unsigned)n->port, rule);
}

void tn_pending_put(const char *directory, const struct tn_pending *p, struct tn_jw *w)
{
    tn_autojson struct tn_json *event = tn_pending_event(directory, p->id);
    char rule[TN_PENDING_RULE];

    tn_jw_kint(w, "id", p->id);
    tn_jw_kdouble(w, "asked", p->asked);
    tn_jw_kdouble(w, "until", p->until);
    tn_jw_key(w, "action");
    tn_jw_object(w);
    tn_jw_kstr(w, "action", tn_json_get_str(event, "action", tn_action_name(p->action.type)));
    tn_jw_key(w, "args");
    tn_jw_tree(w, tn_json_get(event, "args"));
    tn_jw_object_end(w);
    put_diff(event, w);
    if (tn_pending_rule(p, rule))
        tn_jw_kstr(w, "rule", rule);
    tn_jw_key(w, "verdict");
    tn_jw_tree(w, p->verdict);
}
