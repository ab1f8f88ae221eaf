/* Files.  Clients have no calls for them: they start a program of the vendor's that every sandbox
 * of theirs has, with what to do as JSON.  Here it is done by the service, through the hand; what
 * the program would have said is told by a small script in its place, which gets exit status and
 * text on its input.  So everything that clients do with a command (output, input, wait) works on
 * it, and nothing is kept here: the script's arguments say what it stands for. */
#include "service/modal/modal.h"

enum { TEXT_MAX = 16 << 20, REQUEST_MAX = 256 << 10 };
enum { PROGRAM = 3, REQUEST = 4 }; /* where both stand in its arguments */
static const char script[] =
    "read -r code; if [ \"$code\" = 0 ]; then cat; else cat >&2; fi; exit \"$code\"";
static const char program[] = "modal-sandbox-fs-tools";

/* What they call an error of ours. */
static const char other[] = "Io";
static const char *kind_of(const struct tn_error *err)
{
    static const struct {
        enum tn_code code;
        const char *kind;
    } kinds[] = {
        {TN_E_NOT_FOUND, "NotFound"},         {TN_E_DENIED, "PermissionDenied"},
        {TN_E_CONFLICT, "PathAlreadyExists"}, {TN_E_TOO_LARGE, "FileTooLarge"},
        {TN_E_UNSUPPORTED, "NotSupported"},
    };

    if (err->sys == ENOTDIR || err->sys == EISDIR)
        return err->sys == ENOTDIR ? "NotDirectory" : "IsDirectory";
    if (err->sys == ENOTEMPTY)
        return "DirectoryNotEmpty";
    for (size_t i = 0; i < TN_COUNT(kinds); i++)
        if (kinds[i].code == err->code)
            return kinds[i].kind;
    return other;
}

static int refuse(struct tn_error *err, int sys, const char *text)
{
    tn_fail(err, TN_E_INVALID, "%s", text);
    err->sys = sys;
    return -1;
}

/* --- entries --------------------------------------------------------------------------------- */

static void put_entry(struct tn_jw *w, const struct tn_entry *e, const char *path)
{
    char mode[11];

    surface_mode_text(e, mode);
    tn_jw_object(w);
    tn_jw_kstr(w, "name", e->name);
    tn_jw_kstr(w, "path", path);
    tn_jw_kstr(w, "type",
               e->type == TN_ENTRY_DIRECTORY ? "directory"
               : e->type == TN_ENTRY_SYMLINK ? "symlink"
                                             : "file");
    tn_jw_kint(w, "size", e->size);
    tn_jw_kint(w, "mode", e->mode);
    tn_jw_kstr(w, "permissions", mode + 1);
    surface_put_owner(w, "owner", e->uid);
    surface_put_owner(w, "group", e->gid);
    tn_jw_kdouble(w, "modified_time", e->mtime);
    tn_jw_kstr(w, "symlink_target", e->target);
    tn_jw_object_end(w);
}

struct listing {
    struct tn_jw w;
    const char *path;
};

static int list_entry(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    struct listing *l = ctx;
    tn_autofree char *path =
        tn_asprintf("%s%s%s", l->path, strcmp(l->path, "/") == 0 ? "" : "/", e->name);

    put_entry(&l->w, e, path);
    return 0;
}

/* --- what is done at once -------------------------------------------------------------------- */

struct work {
    struct tn_hand_files *files;
    const char *path;
    bool all; /* `parents` or `recursive` */
    struct tn_buf *out;
    int64_t deadline;
};

static int look(const struct work *k, struct tn_entry *e, struct tn_error *err)
{
    return tn_hand_files_stat(k->files, k->path, true, e, k->deadline, err);
}

static int read_file(const struct work *k, struct tn_error *err)
{
    tn_autoentry struct tn_entry e = {0};

    if (look(k, &e, err))
        return -1;
    return e.type == TN_ENTRY_DIRECTORY ? refuse(err, EISDIR, "Is a directory") : 0;
}

/* Before its bytes come: whatever is there already must not be a directory. */
static int write_file(const struct work *k, struct tn_error *err)
{
    tn_autoentry struct tn_entry e = {0};

    if (look(k, &e, err) == 0)
        return e.type == TN_ENTRY_DIRECTORY ? refuse(err, EISDIR, "Is a directory") : 0;
    return err->code == TN_E_NOT_FOUND && err->sys != ENOTDIR ? 0 : -1;
}

static int list_files(const struct work *k, struct tn_error *err)
{
    struct listing l = {.w = tn_jw(k->out), .path = k->path};
    tn_autoentry struct tn_entry e = {0};

    if (look(k, &e, err))
        return -1;
    if (e.type != TN_ENTRY_DIRECTORY)
        return refuse(err, ENOTDIR, "Not a directory");
    tn_jw_array(&l.w);
    int failed = tn_hand_files_list(k->files, k->path, list_entry, &l, k->deadline, err);
    tn_jw_array_end(&l.w);
    return failed;
}

static int stat_file(const struct work *k, struct tn_error *err)
{
    tn_autoentry struct tn_entry e = {0};
    struct tn_jw w = tn_jw(k->out);

    if (tn_hand_files_stat(k->files, k->path, false, &e, k->deadline, err))
        return -1;
    put_entry(&w, &e, k->path);
    return 0;
}

/* Without `parents` the parent must be there, and nothing of the name itself. */
static int make_directory(const struct work *k, struct tn_error *err)
{
    tn_autoentry struct tn_entry e = {0}, above = {0};
    const char *slash = strrchr(k->path, '/');
    bool there = look(k, &e, err) == 0;

    if (!there && err->code != TN_E_NOT_FOUND)
        return -1;
    if (there && (e.type != TN_ENTRY_DIRECTORY || !k->all))
        return tn_fail(err, TN_E_CONFLICT, "Path already exists");
    *err = (struct tn_error){0};
    if (!there && !k->all) {
        tn_autofree char *parent =
            tn_strndup(k->path, slash > k->path ? (size_t)(slash - k->path) : 1);
        if (tn_hand_files_stat(k->files, parent, true, &above, k->deadline, err))
            return -1;
        if (above.type != TN_ENTRY_DIRECTORY)
            return refuse(err, ENOTDIR, "Not a directory");
    }
    return tn_hand_files_mkdir(k->files, k->path, -1, k->deadline, err);
}

static int stop_at_it(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    return 1;
}

static int remove_path(const struct work *k, struct tn_error *err)
{
    tn_autoentry struct tn_entry e = {0};

    if (tn_hand_files_stat(k->files, k->path, false, &e, k->deadline, err))
        return -1;
    if (e.type == TN_ENTRY_DIRECTORY && !k->all) {
        int found = tn_hand_files_list(k->files, k->path, stop_at_it, NULL, k->deadline, err);
        if (found)
            return found < 0 ? -1 : refuse(err, ENOTEMPTY, "Directory not empty");
    }
    return tn_hand_files_remove(k->files, k->path, e.type == TN_ENTRY_DIRECTORY, k->deadline, err);
}

static int not_served(const struct work *k, struct tn_error *err)
{
    return tn_fail(err, TN_E_UNSUPPORTED, "This is not served here");
}

static const struct operation {
    const char *name;
    int (*work)(const struct work *k, struct tn_error *err);
    bool later; /* its end is told when its bytes have come */
} operations[] = {
    {"ReadFile", read_file, false},
    {"WriteFile", write_file, true},
    {"ListFiles", list_files, false},
    {"Stat", stat_file, false},
    {"MakeDirectory", make_directory, false},
    {"Remove", remove_path, false},
    {"", not_served, false}, /* Watch, and what comes after us */
};

int modal_fs_do(struct modal_call *c, struct box *b, const char *operation, const char *path,
                bool all, struct tn_error *err)
{
    tn_autofiles struct tn_hand_files *f = surface_files(c->x, b, err);
    const struct work k = {
        .files = f, .path = path, .all = all, .deadline = tn_deadline_in(MODAL_SECONDS)};
    const struct operation *o = operations;

    while (*o->name && strcmp(o->name, operation) != 0)
        o++;
    return f ? o->work(&k, err) : -1;
}

/* --- the script in its place ----------------------------------------------------------------- */

/* How the program ends, and what it says. */
static int tell(struct modal_call *c, struct box *b, const char *which, const struct tn_error *why,
                const struct tn_buf *said, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = ANSWER_BUF(c->x, TEXT_MAX + 4096);
    struct tn_jw w = tn_jw(&text);
    int64_t deadline = tn_deadline_in(MODAL_SECONDS);

    tn_buf_puts(&text, why->code ? "1\n" : "0\n");
    if (why->code) {
        tn_jw_object(&w);
        tn_jw_kstr(&w, "error_kind", kind_of(why));
        tn_jw_kstr(&w, "message", why->text);
        tn_jw_kstr(&w, "detail", "");
        tn_jw_object_end(&w);
    } else {
        tn_buf_add(&text, tn_buf_str(said), said->len);
    }
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_BUSY, "There is no memory for the answer just now");
    return process_input(b, which, 0, tn_buf_str(&text), text.len, NULL, deadline, err) ||
                   process_close_input(b, which, deadline, err)
               ? -1
               : 0;
}

static int parse_request(struct modal_call *c, const char *text, struct tn_held *held,
                         struct tn_json **tree, struct tn_error *err)
{
    size_t n = strnlen(text, REQUEST_MAX + 1);

    if (n > REQUEST_MAX)
        return tn_fail(err, TN_E_INVALID, "more than %d KiB for a command", REQUEST_MAX >> 10);
    held->purse = purse_of(c->x);
    return tn_json_parse_held(text, n, held->purse, &held->bytes, tree, err);
}

/* The operation that the text asks for; *wish is what it says of it. */
static const struct operation *read_request(const struct tn_json *tree, const struct tn_json **wish)
{
    const struct operation *o = operations;

    for (; *o->name && !(*wish = tn_json_get(tree, o->name)); o++)
        ;
    return o;
}

int modal_fs_start(struct modal_call *c, struct box *b, const char *exec_id, const char *text,
                   struct tn_error *err)
{
    tn_autoprocess struct tn_process_spec spec = {.input = true};
    tn_autobuf struct tn_buf out = ANSWER_BUF(c->x, TEXT_MAX);
    tn_autoheld struct tn_held held = {0};
    tn_autojson struct tn_json *tree = NULL;
    const char *const words[] = {"/bin/sh", "-c", script, program, text};
    const struct tn_json *wish = NULL;
    struct process_started started;
    struct tn_error why = {0};

    if (parse_request(c, text, &held, &tree, err))
        return -1;
    const struct operation *o = read_request(tree, &wish);
    const char *path = tn_json_get_str(wish, "path", NULL);
    if (*o->name && (!path || *path != '/'))
        return tn_fail(err, TN_E_INVALID, "path: expected an absolute one");
    for (size_t i = 0; i < TN_COUNT(words); i++)
        surface_add_arg(&spec.args, words[i]);
    if (modal_start(c, b, &spec, NULL, exec_id, &started, err))
        return -1;
    tn_autofiles struct tn_hand_files *f = surface_files(c->x, b, err);
    if (!f)
        return -1;
    const struct work k = {.files = f,
                           .path = path,
                           .all = tn_json_bool(tn_json_get(wish, "parents"), false) ||
                                  tn_json_bool(tn_json_get(wish, "recursive"), false),
                           .out = &out,
                           .deadline = tn_deadline_in(MODAL_SECONDS)};
    if (started.again)
        return 0; /* asked once more: it was done, or is being done */
    int failed = o->work(&k, &why);
    if (!failed)
        why.code = tn_buf_ok(&out) ? TN_OK : TN_E_TOO_LARGE;
    return o->later && !failed ? 0 : tell(c, b, started.id, &why, &out, err);
}

char *modal_fs_path(struct modal_call *c, const struct tn_process_status *status,
                    const char *operation)
{
    const struct tn_str_list *args = &status->spec.args;
    tn_autoheld struct tn_held held = {0};
    tn_autojson struct tn_json *tree = NULL;

    if (args->count != REQUEST + 1 || strcmp(args->items[PROGRAM], program) != 0 ||
        parse_request(c, args->items[REQUEST], &held, &tree, NULL))
        return NULL;
    return tn_strdup_or_null(tn_json_get_str(tn_json_get(tree, operation), "path", NULL));
}

/* --- bytes ----------------------------------------------------------------------------------- */

static int send_piece(const void *bytes, size_t n, void *ctx, struct tn_error *err)
{
    Modal__StdioReadResponse out = MODAL__STDIO_READ_RESPONSE__INIT;

    out.has_data = true;
    out.data = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
    return modal_send(ctx, &out, err);
}

int modal_fs_send(struct modal_call *c, struct box *b, const char *path, uint64_t offset,
                  struct tn_error *err)
{
    struct tn_error why = {0};

    tn_autofiles struct tn_hand_files *f = surface_files(c->x, b, err);
    if (!f)
        return -1;
    box_enter_use(b);
    int64_t n = offset > INT64_MAX ? 0
                                   : tn_hand_files_range(f, path, (int64_t)offset, -1, send_piece,
                                                         c, TN_NEVER, &why);
    box_leave_use(b);
    if (n >= 0 || why.code == TN_E_RANGE || strcmp(kind_of(&why), other) != 0)
        return 0; /* nothing follows; that it cannot be read was told, on the other stream */
    *err = why;
    return -1;
}

/* Clients ask how the program has ended when its input is refused: it has, by then. */
static int ended(struct modal_call *c, struct box *b, const char *which, struct tn_error *err)
{
    tn_autostatus struct tn_process_status status = {0};

    process_wait(b, which, &status, tn_http_fd(c->x), tn_deadline_in(MODAL_SECONDS), NULL);
    return tn_fail(err, TN_E_CONFLICT, "the program has ended");
}

int modal_fs_store(struct modal_call *c, struct box *b, const struct tn_process_status *status,
                   const char *path, tn_http_source_fn source, void *ctx, struct tn_error *err)
{
    tn_autobuf struct tn_buf nothing = TN_BUF_INIT(1);
    struct tn_error why = {0};

    if (!status->running || !status->input_open)
        return ended(c, b, status->id, err);
    tn_autofiles struct tn_hand_files *f = surface_files(c->x, b, err);
    if (!f)
        return -1;
    box_enter_use(b);
    int failed = tn_hand_files_store(f, path, source, ctx, -1, -1, TN_NEVER, &why);
    box_leave_use(b);
    if (failed && tn_http_peer_gone(c->x)) {
        *err = why; /* they come again with it */
        return -1;
    }
    if (tell(c, b, status->id, &why, &nothing, err))
        return -1;
    return failed ? ended(c, b, status->id, err) : 0;
}
