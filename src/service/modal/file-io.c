/* Files as clients before 1.2 have them: opened, read, written at a place, closed.  One call does
 * it, another one asks what came of it.
 *
 * Nothing is kept here.  Where a file that is open stands is a small file in the sandbox, named by
 * its descriptor; what came of a call is spelled out by the id that the client asks with, and bytes
 * are read when it does. */
#include <sys/random.h>

#include "base/secret.h"
#include "net/url.h"
#include "service/modal/modal.h"

#define STATES "/tmp/.modal-files/"
enum { STATE_MAX = 8 << 10, HANDLE = 17, ID_MAX = 4 * STATE_MAX, LIST_MAX = 16 << 20 };
enum { REMOVE_SECONDS = 5, TEXT_MAX = 1024 }; /* of an error */
#define PLACE_MAX (((int64_t)1 << 62) - 1)    /* two of them can be added */

/* --- what came of it ------------------------------------------------------------------------- */

/* code: 0, or errno of an error whose words `text` has.  Else `text` is a path: the bytes of a file
 * to tell, or (length LISTING) the names of a directory. */
struct outcome {
    int64_t code, offset, length;
    char *text;
};
enum { LISTING = -2 };

static int64_t number_of(const struct tn_error *err)
{
    static const int numbers[TN_CODE_COUNT] = {
        [TN_E_NOT_FOUND] = ENOENT, [TN_E_DENIED] = EACCES,  [TN_E_CONFLICT] = EEXIST,
        [TN_E_TOO_LARGE] = EFBIG,  [TN_E_INVALID] = EINVAL,
    };

    return err->sys ? err->sys : numbers[err->code] ? numbers[err->code] : EIO;
}

static char *spell(const struct box *b, const struct outcome *o)
{
    tn_autobuf struct tn_buf id = TN_BUF_INIT(ID_MAX);

    tn_buf_printf(&id, "fs-%s-%lld.%lld.%lld.", box_id(b), (long long)o->code, (long long)o->offset,
                  (long long)o->length);
    tn_url_encode(&id, o->text ? o->text : "", "/");
    return tn_buf_take(&id);
}

/* The box that the id is of, and the rest of it.  NULL with err. */
static struct box *unspell(struct modal_call *c, const char *id, struct outcome *o,
                           struct tn_error *err)
{
    char task[MODAL_ID], *at;

    if (!id || strncmp(id, "fs-", 3) != 0 || strlen(id) < 14 || strlen(id) > ID_MAX) {
        tn_fail(err, TN_E_NOT_FOUND, "there is no such call");
        return NULL;
    }
    snprintf(task, sizeof task, "ta-%.10s", id + 3);
    at = (char *)(uintptr_t)id + 13;
    int64_t *const numbers[] = {&o->code, &o->offset, &o->length};
    for (size_t i = 0; i < TN_COUNT(numbers); i++)
        *numbers[i] = *at ? strtoll(at + 1, &at, 10) : 0;
    size_t n = *at ? strlen(at + 1) : 0;
    o->text = tn_malloc(n + 1);
    if (*at != '.' || tn_url_decode(at + 1, n, o->text, false) < 0 || o->offset < 0 ||
        o->offset > PLACE_MAX || o->length > PLACE_MAX) {
        tn_fail(err, TN_E_NOT_FOUND, "there is no such call");
        return NULL;
    }
    return modal_running(c, task, err);
}

/* --- files that are open --------------------------------------------------------------------- */

/* One, as the small file has it: "TOKEN POSITION MODE\nPATH".  Any process in the sandbox may write
 * that file; the token keeps it from naming another path. */
struct open_file {
    struct modal_call *c;
    struct box *box;
    struct tn_hand_files *files;
    const char *handle;
    int64_t at;
    char mode[8];
    char *path;
    int64_t deadline;
};

static char *state_path(const struct open_file *f)
{
    return tn_asprintf(STATES "%s", f->handle);
}

static void state_token(const struct open_file *f, char out[SURFACE_TOKEN])
{
    tn_autofree char *text =
        tn_asprintf("%s %s %s\n%s", box_id(f->box), f->handle, f->mode, f->path);

    surface_token(f->c->s, "modal-file", text, out);
}

static int keep_state(const struct open_file *f, struct tn_error *err)
{
    tn_autofree char *path = state_path(f);
    char token[SURFACE_TOKEN];

    state_token(f, token);
    tn_autofree char *text =
        tn_asprintf("%s %lld %s\n%s", token, (long long)f->at, f->mode, f->path);

    return tn_hand_files_put(f->files, path, text, strlen(text), f->deadline, err);
}

static int add_bytes(const void *bytes, size_t n, void *ctx, struct tn_error *err)
{
    return tn_buf_add(ctx, bytes, n) ? tn_fail(err, TN_E_TOO_LARGE, "too much of it") : 0;
}

static int load_state(struct open_file *f, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = ANSWER_BUF(f->c->x, STATE_MAX);
    char *mode, token[SURFACE_TOKEN];

    if (!f->handle || strlen(f->handle) != HANDLE - 1 ||
        strspn(f->handle, "0123456789abcdef") != HANDLE - 1)
        return tn_fail(err, TN_E_INVALID, "Bad file descriptor");
    tn_autofree char *path = state_path(f);
    if (tn_hand_files_fetch(f->files, path, add_bytes, &text, f->deadline, err) < 0)
        return err->code == TN_E_NOT_FOUND ? tn_fail(err, TN_E_INVALID, "Bad file descriptor") : -1;
    const char *told = tn_buf_str(&text), *end = strchr(told, '\n');
    if (!end || end - told < SURFACE_TOKEN)
        return tn_fail(err, TN_E_INVALID, "Bad file descriptor");
    f->at = strtoll(told + SURFACE_TOKEN, &mode, 10);
    mode += strspn(mode, " ");
    snprintf(f->mode, sizeof f->mode, "%.*s", mode < end ? (int)(end - mode) : 0, mode);
    f->path = tn_strdup(end + 1);
    state_token(f, token);
    tn_autofree char *said = tn_strndup(told, SURFACE_TOKEN - 1);
    if (f->at < 0 || f->at > PLACE_MAX || !tn_same_secret(said, token))
        return tn_fail(err, TN_E_INVALID, "Bad file descriptor");
    return 0;
}

/* How large it is; -1 with err, also when it is a directory. */
static int64_t size_of(const struct open_file *f, struct tn_error *err)
{
    tn_autoentry struct tn_entry e = {0};

    if (tn_hand_files_stat(f->files, f->path, true, &e, f->deadline, err))
        return -1;
    if (e.size < 0 || e.size > PLACE_MAX)
        return tn_fail(err, TN_E_PEER, "the hand told no size");
    if (e.type != TN_ENTRY_DIRECTORY)
        return e.size;
    tn_fail(err, TN_E_INVALID, "Is a directory");
    err->sys = EISDIR;
    return -1;
}

static int parent_is_there(const struct open_file *f, struct tn_error *err)
{
    tn_autoentry struct tn_entry e = {0};
    const char *slash = strrchr(f->path, '/');
    tn_autofree char *parent = tn_strndup(f->path, slash > f->path ? (size_t)(slash - f->path) : 1);

    return tn_hand_files_stat(f->files, parent, true, &e, f->deadline, err);
}

/* Done in the sandbox: $1 is the file, $2 and $3 are numbers, its input is what to write, $4 how
 * many bytes that is.  The file is only opened for writing when all of what it will have is there;
 * where that does not fit any more it is kept beside. */
static const char write_at[] = "exec dd of=\"$1\" bs=65536 seek=\"$2\" oflag=seek_bytes "
                               "conv=notrunc iflag=fullblock status=none";
static const char make_new[] = "set -C; : >\"$1\"";
static const char splice_at[] =
    "t=$(mktemp) && head -c \"$2\" \"$1\" >\"$t\" && n=$(wc -c <\"$t\") && cat >>\"$t\" && "
    "[ $(wc -c <\"$t\") -eq $((n+$4)) ] && "
    "{ [ \"$3\" -lt 0 ] || tail -c +$(($3+1)) \"$1\" >>\"$t\"; } && true >>\"$1\" && "
    "{ cat \"$t\" >\"$1\" || { echo \"$t has all of it\" >&2; exit 1; }; }; "
    "s=$?; rm -f \"$t\"; exit $s";

/* The words of a program about what went wrong. */
static int take_words(const struct tn_process_piece *piece, void *ctx)
{
    struct tn_buf *words = ctx;

    if (piece->kind == TN_PROCESS_ERR)
        tn_buf_add(words, piece->bytes, piece->n < TEXT_MAX - words->len ? piece->n : 0);
    return 0;
}

static int failed_inside(const char *words, struct tn_error *err)
{
    static const int usual[] = {EACCES, ENOSPC, EISDIR, ENOENT, EFBIG, EROFS, EEXIST};
    tn_autofree char *text = modal_text(words, strlen(words));

    tn_fail(err, TN_E_PEER, "%s", *text ? text : "the write failed");
    err->sys = EIO;
    for (size_t i = 0; i < TN_COUNT(usual); i++)
        if (strstr(words, strerrordesc_np(usual[i])))
            err->sys = usual[i];
    return -1;
}

static int change(struct open_file *f, const char *script, int64_t from, int64_t to,
                  const ProtobufCBinaryData *data, struct tn_error *err)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(TEXT_MAX);
    tn_autoprocess struct tn_process_spec spec = {.input = true};
    tn_autostatus struct tn_process_status status = {0};
    struct tn_process_follow follow = {0};
    struct process_started started;
    char first[24], second[24], size[24];
    int watch = tn_http_fd(f->c->x);

    if (strpbrk(f->mode, "wax+") == NULL)
        return tn_fail(err, TN_E_INVALID, "not writeable");
    snprintf(first, sizeof first, "%lld", (long long)from);
    snprintf(second, sizeof second, "%lld", (long long)to);
    snprintf(size, sizeof size, "%zu", data ? data->len : 0);
    const char *const args[] = {"/bin/sh", "-c",  script, "modal-file",
                                f->path,   first, second, size};
    for (size_t i = 0; i < TN_COUNT(args); i++)
        surface_add_arg(&spec.args, args[i]);
    if (modal_start(f->c, f->box, &spec, NULL, NULL, &started, err))
        return -1;
    struct tn_error lost = {0}; /* one that ends early says itself why */
    if (data && data->len)
        process_input(f->box, started.id, 0, data->data, data->len, NULL, f->deadline, &lost);
    process_close_input(f->box, started.id, f->deadline, NULL);
    int ended = process_follow(f->box, started.id, &follow, take_words, &words, watch, f->deadline,
                               err) < 0 ||
                process_look(f->box, started.id, &status, f->deadline, err);
    process_remove(f->box, started.id, tn_deadline_in(REMOVE_SECONDS), NULL);
    if (ended)
        return -1;
    return status.exit_code.set && status.exit_code.value == 0 && !lost.code
               ? 0
               : failed_inside(tn_buf_str(&words), err);
}

static int open_file(struct open_file *f, const Modal__FileOpen *in, struct tn_error *err)
{
    const char *mode = in->mode ? in->mode : "r";

    if (!in->path || !*in->path || strlen(in->path) > STATE_MAX / 2 || !*mode ||
        strlen(mode) >= sizeof f->mode || strspn(mode, "rwaxb+") != strlen(mode))
        return tn_fail(err, TN_E_INVALID, "expected a path and a mode");
    snprintf(f->mode, sizeof f->mode, "%s", mode);
    f->path = surface_path(MODAL_HOME, in->path);
    bool there = size_of(f, err) >= 0;
    if (!there && (err->code != TN_E_NOT_FOUND || strchr(mode, 'r')))
        return -1;
    *err = (struct tn_error){0};
    if (there && strchr(mode, 'x'))
        return tn_fail(err, TN_E_CONFLICT, "File exists");
    if (!there && parent_is_there(f, err))
        return -1;
    if (strchr(mode, 'x') ? change(f, make_new, 0, 0, NULL, err)
                          : (!there || strchr(mode, 'w')) &&
                                tn_hand_files_put(f->files, f->path, "", 0, f->deadline, err))
        return -1;
    return keep_state(f, err);
}

/* --- the calls ------------------------------------------------------------------------------- */

typedef int (*file_fn)(struct open_file *f, const void *request, struct outcome *o,
                       struct tn_error *err);

/* That many bytes are to be told, from where it stands on. */
static int tell_bytes(struct open_file *f, int64_t n, struct outcome *o, struct tn_error *err)
{
    *o = (struct outcome){.offset = f->at, .length = n, .text = tn_strdup(f->path)};
    f->at += n;
    return keep_state(f, err);
}

static int file_read(struct open_file *f, const void *request, struct outcome *o,
                     struct tn_error *err)
{
    const Modal__FileNumbers *in = request;
    int64_t size = size_of(f, err), left = size > f->at ? size - f->at : 0;

    if (size < 0)
        return -1;
    bool some = in->has_first && in->first >= 0 && in->first < left;
    return tell_bytes(f, some ? in->first : left, o, err);
}

static int find_end(const void *bytes, size_t n, void *ctx, struct tn_error *err)
{
    const char *end = memchr(bytes, '\n', n);

    *(int64_t *)ctx += end ? end - (const char *)bytes + 1 : (int64_t)n;
    return end ? tn_fail(err, TN_E_RANGE, "that is all of it") : 0;
}

static int file_read_line(struct open_file *f, const void *request, struct outcome *o,
                          struct tn_error *err)
{
    int64_t n = 0;

    if (tn_hand_files_range(f->files, f->path, f->at, -1, find_end, &n, f->deadline, err) < 0 &&
        err->code != TN_E_RANGE)
        return -1;
    *err = (struct tn_error){0};
    tn_hand_files_free(f->files); /* the rest of the answer is not read */
    f->files = surface_files(f->c->x, f->box, err);
    return f->files ? tell_bytes(f, n, o, err) : -1;
}

static int file_write(struct open_file *f, const void *request, struct outcome *o,
                      struct tn_error *err)
{
    const Modal__FileData *in = request;

    if (strchr(f->mode, 'a') && (f->at = size_of(f, err)) < 0)
        return -1;
    if (change(f, write_at, f->at, 0, &in->data, err))
        return -1;
    f->at += (int64_t)in->data.len;
    return keep_state(f, err);
}

static int file_flush(struct open_file *f, const void *request, struct outcome *o,
                      struct tn_error *err)
{
    return 0;
}

static int file_seek(struct open_file *f, const void *request, struct outcome *o,
                     struct tn_error *err)
{
    const Modal__FileNumbers *in = request;
    int64_t from = in->second == 1 ? f->at : in->second == 2 ? size_of(f, err) : 0;

    if (from < 0)
        return -1;
    if (in->first < INT32_MIN || in->first > INT32_MAX || from + in->first < 0)
        return tn_fail(err, TN_E_INVALID, "Invalid argument");
    f->at = from + in->first;
    return keep_state(f, err);
}

static int splice(struct open_file *f, bool has_start, int64_t start, bool has_end, int64_t end,
                  const ProtobufCBinaryData *data, struct tn_error *err)
{
    start = has_start ? start : 0;
    if (start < 0 || (has_end && end < start))
        return tn_fail(err, TN_E_INVALID, "Invalid argument");
    return change(f, splice_at, start, has_end ? end : -1, data, err);
}

static int file_delete(struct open_file *f, const void *request, struct outcome *o,
                       struct tn_error *err)
{
    const Modal__FileNumbers *in = request;

    return splice(f, in->has_first, in->first, in->has_second, in->second, NULL, err);
}

static int file_replace(struct open_file *f, const void *request, struct outcome *o,
                        struct tn_error *err)
{
    const Modal__FileData *in = request;

    return splice(f, in->has_start_inclusive, in->start_inclusive, in->has_end_exclusive,
                  in->end_exclusive, &in->data, err);
}

static int file_close(struct open_file *f, const void *request, struct outcome *o,
                      struct tn_error *err)
{
    tn_autofree char *path = state_path(f);

    return tn_hand_files_remove(f->files, path, false, f->deadline, err);
}

static int list_later(struct open_file *f, const void *request, struct outcome *o,
                      struct tn_error *err)
{
    *o = (struct outcome){.length = LISTING, .text = tn_strdup(f->path)};
    return 0;
}

static int make_directory(struct open_file *f, const void *request, struct outcome *o,
                          struct tn_error *err)
{
    const Modal__FileNumbers *in = request;

    return modal_fs_do(f->c, f->box, "MakeDirectory", f->path, in->first != 0, err);
}

static int remove_path(struct open_file *f, const void *request, struct outcome *o,
                       struct tn_error *err)
{
    const Modal__FileNumbers *in = request;

    return modal_fs_do(f->c, f->box, "Remove", f->path, in->first != 0, err);
}

#define IN(member) offsetof(Modal__ContainerFilesystemExecRequest, member)
static const struct {
    size_t member; /* a pointer to its request, which begins with the file's descriptor or path */
    file_fn call;
    bool by_path;
} calls[] = {
    {IN(write), file_write, false},
    {IN(read), file_read, false},
    {IN(flush), file_flush, false},
    {IN(read_line), file_read_line, false},
    {IN(seek), file_seek, false},
    {IN(delete_bytes), file_delete, false},
    {IN(replace_bytes), file_replace, false},
    {IN(close), file_close, false},
    {IN(ls), list_later, true},
    {IN(mkdir), make_directory, true},
    {IN(rm), remove_path, true},
};

static int carry_out(struct open_file *f, const Modal__ContainerFilesystemExecRequest *in,
                     struct outcome *o, struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(calls); i++) {
        const void *request = *(void *const *)((const char *)in + calls[i].member);
        if (!request)
            continue;
        const Modal__FileNumbers *numbers = request;
        const Modal__FileData *data = request;
        bool bytes = calls[i].call == file_write || calls[i].call == file_replace;
        f->handle = bytes ? data->file_descriptor : numbers->what;
        if (!calls[i].by_path)
            return load_state(f, err) ? -1 : calls[i].call(f, request, o, err);
        if (!f->handle || !*f->handle || strlen(f->handle) > STATE_MAX / 2)
            return tn_fail(err, TN_E_INVALID, "expected a path");
        f->path = surface_path(MODAL_HOME, f->handle);
        return calls[i].call(f, request, o, err);
    }
    return tn_fail(err, TN_E_UNSUPPORTED, "This is not served here");
}

static int file_exec(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__ContainerFilesystemExecRequest *in = request;
    Modal__ContainerFilesystemExecResponse out = MODAL__CONTAINER_FILESYSTEM_EXEC_RESPONSE__INIT;
    struct open_file f = {.c = c, .deadline = tn_deadline_in(MODAL_SECONDS)};
    struct tn_error why = {0};
    struct outcome o = {0};
    char handle[HANDLE];
    uint64_t random;

    autobox struct box *b = modal_running(c, in->task_id, err);
    if (!b || !(f.files = surface_files(c->x, f.box = b, err)))
        return -1;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = (uint64_t)tn_now();
    snprintf(handle, sizeof handle, "%016llx", (unsigned long long)random);
    if (in->open)
        f.handle = out.file_descriptor = handle;
    int failed = in->open ? open_file(&f, in->open, &why) : carry_out(&f, in, &o, &why);
    if (failed) {
        free(o.text);
        o = (struct outcome){.code = number_of(&why), .text = tn_strdup(why.text)};
    }
    tn_autofree char *id = spell(b, &o);
    out.exec_id = id;
    free(o.text);
    free(f.path);
    tn_hand_files_free(f.files);
    return modal_send(c, &out, err);
}

/* --- what came of it, told ------------------------------------------------------------------- */

static int send_piece(const void *bytes, size_t n, void *ctx, struct tn_error *err)
{
    Modal__FilesystemRuntimeOutputBatch out = MODAL__FILESYSTEM_RUNTIME_OUTPUT_BATCH__INIT;
    ProtobufCBinaryData data = {n, (uint8_t *)(uintptr_t)bytes};

    out.n_output = 1;
    out.output = &data;
    return modal_send(ctx, &out, err);
}

static int add_name(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    tn_jw_str(ctx, e->name);
    return 0;
}

static int send_names(struct modal_call *c, struct tn_hand_files *f, const char *path,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf text = ANSWER_BUF(c->x, LIST_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_jw_key(&w, "paths");
    tn_jw_array(&w);
    if (tn_hand_files_list(f, path, add_name, &w, tn_deadline_in(MODAL_SECONDS), err))
        return -1;
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    return tn_buf_ok(&text) ? send_piece(tn_buf_str(&text), text.len, c, err)
                            : tn_fail(err, TN_E_TOO_LARGE, "too many names");
}

static int file_output(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__ContainerExecWaitRequest *in = request;
    Modal__FilesystemRuntimeOutputBatch out = MODAL__FILESYSTEM_RUNTIME_OUTPUT_BATCH__INIT;
    Modal__SystemErrorMessage error = MODAL__SYSTEM_ERROR_MESSAGE__INIT;
    struct tn_error why = {0};
    struct outcome o = {0};
    int failed = 0;

    autobox struct box *b = unspell(c, in->exec_id, &o, err);
    tn_autofree char *text = o.text;
    tn_autofiles struct tn_hand_files *f = b ? surface_files(c->x, b, err) : NULL;
    if (!f)
        return -1;
    box_enter_use(b);
    if (!o.code && o.length == LISTING)
        failed = send_names(c, f, text, &why);
    else if (!o.code && o.length > 0)
        failed =
            tn_hand_files_range(f, text, o.offset, o.length, send_piece, c, TN_NEVER, &why) < 0;
    box_leave_use(b);
    if (failed && tn_http_peer_gone(c->x)) {
        *err = why;
        return -1;
    }
    error.has_error_code = true;
    error.error_code = (int32_t)(failed ? number_of(&why) : o.code);
    error.error_message = failed ? why.text : text;
    if (error.error_code) {
        out.error = &error;
        if (modal_send(c, &out, err))
            return -1;
        out.error = NULL;
    }
    out.has_eof = out.eof = true;
    return modal_send(c, &out, err);
}

const struct modal_method modal_file_io[] = {
    {"ContainerFilesystemExec", MODAL_MESSAGE(container_filesystem_exec_request), file_exec,
     SCOPE_USE},
    {"ContainerFilesystemExecGetOutput", MODAL_MESSAGE(container_exec_wait_request), file_output,
     SCOPE_USE},
    {0},
};
