/* Watching directories: a stream, and a watcher that is asked again and again. */
#include "base/fs.h"
#include "runtime/hand-watch.h"
#include "service/e2b/e2b.h"

enum { EVENT_MAX = E2B_ENTRY_MAX + (1 << 10) };
#define ENTRY_SECONDS 20.0 /* for the entries of one event, or of one list of them */

/* What a file that was moved is to clients of theirs: gone under its old name, new under the
 * other. */
static const struct {
    const char *event, *type;
} kinds[] = {
    {"created", "EVENT_TYPE_CREATE"},  {"written", "EVENT_TYPE_WRITE"},
    {"deleted", "EVENT_TYPE_REMOVE"},  {"moved_from", "EVENT_TYPE_RENAME"},
    {"moved_to", "EVENT_TYPE_CREATE"}, {"attributes", "EVENT_TYPE_CHMOD"},
};

static const char *kind_of(const char *event)
{
    for (size_t i = 0; i < TN_COUNT(kinds); i++)
        if (strcmp(kinds[i].event, event) == 0)
            return kinds[i].type;
    return NULL;
}

/* What a hand writes a file to before it has its name: nothing that anybody asked about.  The
 * kernel calls one without any name "#123". */
static bool is_temporary(const char *path)
{
    const char *name = strrchr(path, '/') + 1;

    return strncmp(name, TN_FS_TEMP_PREFIX, sizeof TN_FS_TEMP_PREFIX - 1) == 0 ||
           (*name == '#' && name[1] && !name[1 + strspn(name + 1, "0123456789")]);
}

/* The path below what is watched, NULL: it is that itself, or nothing to tell of. */
static const char *below(const char *root, const char *path)
{
    size_t n = strlen(root);

    if (n == 1)
        n = 0;
    return strncmp(path, root, n) == 0 && path[n] == '/' && path[n + 1] && !is_temporary(path)
               ? path + n + 1
               : NULL;
}

/* f: entries are wished; one that is not there any more (removed, another name) has none. */
static void put_event(struct tn_jw *w, struct tn_hand_files *f, const char *path, const char *name,
                      const char *kind, int64_t deadline)
{
    tn_autoentry struct tn_entry e = {0};

    tn_jw_object(w);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "type", kind);
    if (f && tn_now() < deadline && tn_hand_files_stat(f, path, false, &e, deadline, NULL) == 0) {
        tn_jw_key(w, "entry");
        e2b_put_found(f, w, path, &e, deadline);
    }
    tn_jw_object_end(w);
}

static bool wants_entries(const struct tn_json *message)
{
    return tn_json_bool(e2b_member(message, "includeEntry", "include_entry"), false);
}

/* The directory to watch, which must be one; NULL: answered. */
static char *root_of(struct e2b_call *c, const struct tn_json *message, bool *recursive)
{
    tn_autofree char *path = e2b_path(c, tn_json_get_str(message, "path", NULL));
    tn_autofiles struct tn_hand_files *f = e2b_files(c);
    tn_autoentry struct tn_entry e = {0};
    struct tn_error err = {0};

    *recursive = tn_json_bool(tn_json_get(message, "recursive"), false);
    if (!f)
        return NULL;
    if (tn_hand_files_stat(f, path, true, &e, tn_deadline_in(E2B_SECONDS), &err)) {
        reply_error(c->x, &err);
        return NULL;
    }
    if (e.type != TN_ENTRY_DIRECTORY) {
        e2b_fail(c, "invalid_argument", "path is not a directory: %.400s", path);
        return NULL;
    }
    return TN_TAKE_PTR(path);
}

/* --- a stream -------------------------------------------------------------------------------- */

struct stream {
    struct e2b_call *c;
    const char *root;
    struct tn_hand_files *entries; /* of what has changed; or NULL */
    double beat;
    int64_t sent; /* when */
    bool begun;
};

static int send_text(struct stream *s, const char *json)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(EVENT_MAX);

    s->sent = tn_now();
    tn_buf_puts(&text, json);
    return e2b_stream_send(s->c, &text) < 0;
}

/* The hand says every 15 seconds that it is there. */
static int quiet(struct stream *s)
{
    bool due = tn_now() - s->sent > (int64_t)((s->beat - 16) * (double)TN_SECOND);

    return s->begun && due ? send_text(s, "{\"keepalive\":{}}") : 0;
}

static int pass_on(const char *event, const char *path, void *ctx)
{
    struct stream *s = ctx;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(EVENT_MAX);
    struct tn_jw w = tn_jw(&text);

    if (!event)
        return quiet(s);
    if (strcmp(event, "watching") == 0 && !s->begun) {
        s->begun = true;
        return e2b_stream_start(s->c) < 0 || send_text(s, "{\"start\":{}}");
    }
    const char *kind = kind_of(event), *name = below(s->root, path);
    if (!kind || !name || !s->begun)
        return 0;
    tn_jw_object(&w);
    tn_jw_key(&w, "filesystem");
    put_event(&w, s->entries, path, name, kind, tn_deadline_in(ENTRY_SECONDS));
    tn_jw_object_end(&w);
    s->sent = tn_now();
    return e2b_stream_send(s->c, &text) < 0;
}

void e2b_watch_dir(struct e2b_call *c, const struct tn_json *message)
{
    bool recursive;
    tn_autofree char *root = root_of(c, message, &recursive);
    struct stream s = {.c = c, .root = root, .beat = e2b_stream_beat(c)};
    struct tn_error err = {0};

    if (!root)
        return;
    tn_autofiles struct tn_hand_files *f = wants_entries(message) ? e2b_files(c) : NULL;
    if (wants_entries(message) && !f)
        return;
    s.entries = f;
    int result = tn_hand_watch(&(struct tn_hand_address){c->address, c->key}, root, recursive,
                               pass_on, &s, tn_http_fd(c->x), &err);
    if (tn_http_peer_gone(c->x))
        tn_http_abort(c->x);
    else if (s.begun)
        e2b_stream_end(c, result < 0 ? &err : NULL);
    else
        reply_error(c->x, &err);
}

/* --- asked again and again ------------------------------------------------------------------- */

void e2b_create_watcher(struct e2b_call *c, const struct tn_json *message)
{
    bool recursive;
    tn_autofree char *root = root_of(c, message, &recursive);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(EVENT_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    char id[TN_WATCHER_ID];

    if (!root)
        return;
    if (tn_hand_watcher_begin(&(struct tn_hand_address){c->address, c->key}, root, recursive, id,
                              tn_deadline_in(E2B_SECONDS), &err)) {
        reply_error(c->x, &err);
        return;
    }
    /* Events tell whole paths: the directory goes along in the name, which is the client's to
     * keep, and whether they have entries ("+"). */
    tn_autofree char *name = tn_asprintf("%s:%s%s", id, wants_entries(message) ? "+" : "", root);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "watcherId", name);
    tn_jw_object_end(&w);
    e2b_answer(c, &json);
}

struct listing {
    struct tn_jw w;
    const char *root;
    struct tn_hand_files *entries;
    int64_t deadline;
};

static int list_event(const char *event, const char *path, void *ctx)
{
    struct listing *l = ctx;
    const char *kind = kind_of(event), *name = below(l->root, path);

    if (kind && name)
        put_event(&l->w, l->entries, path, name, kind, l->deadline);
    return 0;
}

/* "ID:/directory" taken apart, and files of the hand.  NULL: answered. */
static struct tn_hand_files *find_watcher(struct e2b_call *c, const struct tn_json *message,
                                          char id[TN_WATCHER_ID], const char **root)
{
    const char *name = tn_json_str(e2b_member(message, "watcherId", "watcher_id"), NULL);
    size_t n = name ? strcspn(name, ":") : 0;

    if (!n || n >= TN_WATCHER_ID || !name[n]) {
        e2b_fail(c, "not_found", "there is no such watcher");
        return NULL;
    }
    snprintf(id, n + 1, "%s", name);
    *root = name + n + 1;
    return e2b_files(c);
}

void e2b_watcher_events(struct e2b_call *c, const struct tn_json *message)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, E2B_ANSWER_MAX);
    struct listing l = {.w = tn_jw(&json), .deadline = tn_deadline_in(ENTRY_SECONDS)};
    struct tn_error err = {0};
    char id[TN_WATCHER_ID];

    tn_autofiles struct tn_hand_files *f = find_watcher(c, message, id, &l.root);
    if (!f)
        return;
    if (*l.root == '+') {
        l.root++;
        l.entries = f;
    }
    tn_jw_object(&l.w);
    tn_jw_key(&l.w, "events");
    tn_jw_array(&l.w);
    if (tn_hand_watcher_ask(&(struct tn_hand_address){c->address, c->key}, id, list_event, &l,
                            tn_deadline_in(E2B_SECONDS), &err)) {
        reply_error(c->x, &err);
        return;
    }
    tn_jw_array_end(&l.w);
    tn_jw_object_end(&l.w);
    e2b_answer(c, &json);
}

void e2b_remove_watcher(struct e2b_call *c, const struct tn_json *message)
{
    struct tn_error err = {0};
    char id[TN_WATCHER_ID];
    const char *root;

    tn_autofiles struct tn_hand_files *f = find_watcher(c, message, id, &root);
    if (!f)
        return;
    if (tn_hand_watcher_end(&(struct tn_hand_address){c->address, c->key}, id,
                            tn_deadline_in(E2B_SECONDS), &err))
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 200, "application/json", "{}", 2);
}
