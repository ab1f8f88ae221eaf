/* Commands: through the router, the older way through ModalClient, and that of the sandbox
 * itself. */
#include "base/utf8.h"
#include "service/modal/modal.h"

enum { PENDING_MAX = 8 << 20, EXEC_ID = 48 };
/* The hand of a sandbox that was paused says nothing any more, not even that: who waits inside one
 * finds out in so many seconds.  Output is followed by one stream: what nobody reads in between may
 * be lost. */
#define BEAT_SECONDS 2.0
#define SILENCE_SECONDS 8.0

char *modal_text(const void *bytes, size_t n)
{
    static const char unknown[] = "\xef\xbf\xbd";
    tn_autobuf struct tn_buf text = TN_BUF_INIT(3 * n + 1);
    const char *at = bytes;
    uint32_t cp;

    for (size_t i = 0; i < n;) {
        size_t length = tn_utf8_decode(at + i, n - i, &cp);
        tn_buf_add(&text, length && cp ? at + i : unknown, length && cp ? length : 3);
        i += length ? length : 1;
    }
    return tn_buf_take(&text);
}

/* --- one that exists ------------------------------------------------------------------------- */

/* A command of a client, by its own name for it. */
static int name_of(const char *exec_id, char which[MODAL_WHICH], struct tn_error *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = exec_id ? strlen(exec_id) : 0;

    if (n == 0 || n > TN_PROCESS_TAG_MAX || strspn(exec_id, letters) != n)
        return tn_fail(err, TN_E_INVALID, "exec_id: expected a UUID");
    snprintf(which, MODAL_WHICH, "tag:%s", exec_id);
    return 0;
}

/* The box, and in `which` the command.  NULL with err. */
static struct box *find(struct modal_call *c, const char *task, const char *exec_id,
                        char which[MODAL_WHICH], struct tn_error *err)
{
    return name_of(exec_id, which, err) ? NULL : modal_running(c, task, err);
}

/* "ex-BOX-PROCESS", as the older way names commands. */
static struct box *find_old(struct modal_call *c, const char *id, char which[MODAL_WHICH],
                            struct tn_error *err)
{
    char task[MODAL_ID], process[TN_PROCESS_ID_SIZE];

    if (!id || strlen(id) != 3 + 10 + 1 + TN_PROCESS_ID_SIZE - 1 || strncmp(id, "ex-", 3) != 0) {
        tn_fail(err, TN_E_NOT_FOUND, "there is no command %.40s", id ? id : "");
        return NULL;
    }
    snprintf(task, sizeof task, "ta-%.10s", id + 3);
    snprintf(process, sizeof process, "%s", id + 14);
    if (process[0] != 'p' || strspn(process + 1, "0123456789abcdef") != strlen(process) - 1) {
        tn_fail(err, TN_E_NOT_FOUND, "there is no command %.40s", id);
        return NULL;
    }
    snprintf(which, MODAL_WHICH, "%s", process);
    return modal_running(c, task, err);
}

static int64_t exit_code(const struct tn_process_status *s)
{
    return s->exit_code.set ? s->exit_code.value : 128 + s->signal.value;
}

/* --- starting -------------------------------------------------------------------------------- */

struct command {
    char *const *args;
    size_t count;
    const char *workdir, *tag;
    const Modal__PtyInfo *pty;
    double seconds;
    bool together; /* what goes to stderr goes to stdout */
};

static int start(struct modal_call *c, struct box *b, const struct command *command,
                 const struct tn_buf *env, struct process_started *out, struct tn_error *err)
{
    static const char *const together[] = {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
    tn_autoprocess struct tn_process_spec spec = {.input = true, .seconds = command->seconds};
    tn_autojson struct tn_json *tree = NULL;

    if (!command->count)
        return tn_fail(err, TN_E_INVALID, "expected a command");
    for (size_t i = 0; command->together && i < TN_COUNT(together); i++)
        surface_add_arg(&spec.args, together[i]);
    for (size_t i = 0; i < command->count; i++)
        surface_add_arg(&spec.args, command->args[i]);
    spec.cwd = command->workdir && *command->workdir ? tn_strdup(command->workdir) : NULL;
    spec.pty = command->pty && command->pty->enabled;
    if (spec.pty) {
        spec.columns = command->pty->winsz_cols;
        spec.rows = command->pty->winsz_rows;
    }
    if (!tn_buf_ok(env))
        return tn_fail(err, TN_E_INVALID, "too many variables");
    return tn_json_parse(tn_buf_str(env), env->len, &tree, err) ||
                   modal_start(c, b, &spec, tree, command->tag, out, err)
               ? -1
               : 0;
}

static int exec_start(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__TaskExecStartRequest *in = request;
    tn_autobuf struct tn_buf env = {.max = 1 << 20, .purse = purse_of(c->x)};
    const struct command command = {.args = in->command_args,
                                    .count = in->n_command_args,
                                    .workdir = in->workdir,
                                    .tag = in->exec_id,
                                    .pty = in->pty_info,
                                    .seconds = in->timeout_secs,
                                    .together = in->stderr_config == 2};
    struct process_started started;
    struct tn_jw w = tn_jw(&env);
    char which[MODAL_WHICH];

    autobox struct box *b = find(c, in->task_id, in->exec_id, which, err);
    if (!b)
        return -1;
    if (in->container_id && *in->container_id)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no container %.40s", in->container_id);
    if (command.count == 2 && strcmp(command.args[0], MODAL_FS_TOOLS) == 0)
        return modal_fs_start(c, b, in->exec_id, command.args[1], err);
    tn_jw_object(&w);
    modal_put_pairs(&w, in->env, in->n_env);
    if (modal_put_secrets(c, &w, in->secret_ids, in->n_secret_ids, in->secret_sources,
                          in->n_secret_sources, err))
        return -1;
    tn_jw_object_end(&w);
    return start(c, b, &command, &env, &started, err);
}

static int exec_start_old(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__ContainerExecRequest *in = request;
    Modal__ExecId out = MODAL__EXEC_ID__INIT;
    tn_autobuf struct tn_buf env = {.max = 1 << 20, .purse = purse_of(c->x)};
    const struct command command = {.args = in->command,
                                    .count = in->n_command,
                                    .workdir = in->workdir,
                                    .tag = tn_http_header(c->x, "X-Idempotency-Key"),
                                    .pty = in->pty_info,
                                    .seconds = in->timeout_secs};
    struct process_started started;
    struct tn_jw w = tn_jw(&env);
    char id[EXEC_ID];

    autobox struct box *b = modal_running(c, in->task_id, err);
    if (!b)
        return -1;
    tn_jw_object(&w);
    if (modal_put_secrets(c, &w, in->secret_ids, in->n_secret_ids, NULL, 0, err))
        return -1;
    tn_jw_object_end(&w);
    if (start(c, b, &command, &env, &started, err))
        return -1;
    snprintf(id, sizeof id, "ex-%s-%s", box_id(b), started.id);
    out.exec_id = id;
    return modal_send(c, &out, err);
}

/* --- output ---------------------------------------------------------------------------------- */

/* A reader of one of the two streams. */
struct stream {
    struct modal_call *c;
    enum tn_process_piece_kind kind;
    int (*send)(struct stream *s, const void *bytes, size_t n, uint64_t offset);
    int (*end)(struct stream *s, const struct tn_process_status *status); /* or NULL */
    struct tn_error *err;
    char rest[4]; /* the beginning of a character whose end has not come yet */
    size_t left;
    bool torn; /* what came before the next piece is lost */
    bool over;
};

/* How many bytes are the end of a character whose beginning is lost. */
static size_t torn_bytes(const char *bytes, size_t n)
{
    size_t torn = 0;

    while (torn < n && torn < 3 && (bytes[torn] & 0xc0) == 0x80)
        torn++;
    return torn;
}

/* Clients decode what they are sent and fail at half a character. */
static int pass_on(struct stream *s, const struct tn_process_piece *piece)
{
    const char *bytes = piece->bytes;
    size_t torn = s->torn ? torn_bytes(bytes, piece->n) : 0;

    s->torn = s->torn && torn == piece->n;
    return torn < piece->n && s->send(s, bytes + torn, piece->n - torn, piece->offset + torn);
}

static int take_piece(const struct tn_process_piece *piece, void *ctx)
{
    struct stream *s = ctx;

    if (piece->kind == s->kind)
        return pass_on(s, piece);
    if (piece->kind == TN_PROCESS_LOST && piece->stream == s->kind) {
        s->torn = true;
        s->left = 0;
    }
    if (piece->kind != TN_PROCESS_END)
        return 0;
    s->over = true;
    return s->end && s->end(s, piece->status) ? 1 : 0;
}

/* Until it ends, nobody listens, or the time is over (which is no error: they come again). */
static int follow(struct stream *s, struct box *b, const char *which, uint64_t offset,
                  int64_t deadline)
{
    struct tn_process_follow f = {
        .at = {UINT64_MAX, UINT64_MAX}, .beat = BEAT_SECONDS, .silence = SILENCE_SECONDS};
    struct tn_error why = {0};

    *(s->kind == TN_PROCESS_OUT ? &f.at.out : &f.at.err) = offset;
    process_follow(b, which, &f, take_piece, s, tn_http_fd(s->c->x), deadline, &why);
    if (s->over || s->err->code || !modal_goes_on(b, s->err))
        return s->err->code ? -1 : 0;
    if (why.code == TN_E_TIMEOUT && tn_now() >= deadline && !tn_http_peer_gone(s->c->x))
        return 0;
    *s->err = why;
    return -1;
}

static int send_bytes(struct stream *s, const void *bytes, size_t n, uint64_t offset)
{
    Modal__StdioReadResponse out = MODAL__STDIO_READ_RESPONSE__INIT;

    out.has_data = out.has_starting_offset = true;
    out.data = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
    out.starting_offset = offset;
    return modal_send(s->c, &out, s->err);
}

/* A stream without a message has a head at least. */
static int begin(struct modal_call *c, struct tn_error *err)
{
    if (c->started)
        return 0;
    c->started = true;
    return tn_http_start(c->x, 200, "application/grpc", -1)
               ? tn_fail(err, TN_E_GONE, "the client is gone")
               : 0;
}

static int stdio_read(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__TaskExecStdioReadRequest *in = request;
    tn_autostatus struct tn_process_status status = {0};
    struct stream s = {.c = c,
                       .kind = in->file_descriptor == 1 ? TN_PROCESS_ERR : TN_PROCESS_OUT,
                       .send = send_bytes,
                       .err = err};
    char which[MODAL_WHICH];

    autobox struct box *b = find(c, in->task_id, in->exec_id, which, err);
    if (!b || process_look(b, which, &status, tn_deadline_in(MODAL_SECONDS), err))
        return -1;
    tn_autofree char *path =
        s.kind == TN_PROCESS_OUT ? modal_fs_path(c, &status, "ReadFile") : NULL;
    if (begin(c, err))
        return -1;
    return path ? modal_fs_send(c, b, path, in->offset, err)
                : follow(&s, b, which, in->offset, TN_NEVER);
}

/* Of the command of the sandbox itself: one that has none says nothing, and one that has ended
 * nothing more. */
static int follow_own(struct stream *s, const char *id, uint64_t offset, int64_t deadline)
{
    autobox struct box *known = modal_box(s->c, id, s->err);

    if (!known || begin(s->c, s->err))
        return -1;
    autobox struct box *b = modal_running(s->c, id, s->err);
    int r = b ? follow(s, b, "tag:" MODAL_ENTRYPOINT, offset, deadline) : -1;
    if (r == 0 || s->err->code != TN_E_NOT_FOUND)
        return r;
    s->err->code = TN_OK;
    return s->end ? s->end(s, NULL) : 0;
}

static int sandbox_stdio(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxStdioReadV2Request *in = request;
    struct stream s = {.c = c,
                       .kind = in->file_descriptor == 1 ? TN_PROCESS_ERR : TN_PROCESS_OUT,
                       .send = send_bytes,
                       .err = err};

    return follow_own(&s, in->task_id, in->offset, TN_NEVER);
}

/* What is whole of what was left over and of this; what is not is left over. */
static void take_whole(struct stream *s, const void *bytes, size_t n, struct tn_buf *whole)
{
    tn_buf_add(whole, s->rest, s->left);
    tn_buf_add(whole, bytes, n);
    s->left = tn_utf8_unfinished(tn_buf_str(whole), whole->len);
    memcpy(s->rest, tn_buf_str(whole) + whole->len - s->left, s->left);
    tn_buf_cut(whole, whole->len - s->left);
}

/* The next batch begins where this one ended: that is its number, from 1 on. */
static int put_batch(struct stream *s, const void *bytes, size_t n, uint64_t end)
{
    Modal__RuntimeOutputBatch out = MODAL__RUNTIME_OUTPUT_BATCH__INIT;
    Modal__RuntimeOutputMessage one = MODAL__RUNTIME_OUTPUT_MESSAGE__INIT, *all[] = {&one};

    one.has_file_descriptor = one.has_message_bytes = out.has_batch_index = true;
    one.file_descriptor = s->kind == TN_PROCESS_OUT ? 1 : 2;
    one.message_bytes = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
    out.n_items = 1;
    out.items = all;
    out.batch_index = end + 1;
    return modal_send(s->c, &out, s->err);
}

static int send_batch(struct stream *s, const void *bytes, size_t n, uint64_t offset)
{
    tn_autobuf struct tn_buf whole = TN_BUF_INIT(n + sizeof s->rest);

    take_whole(s, bytes, n, &whole);
    return whole.len ? put_batch(s, tn_buf_str(&whole), whole.len, offset + n - s->left) : 0;
}

static int end_batches(struct stream *s, const struct tn_process_status *status)
{
    Modal__RuntimeOutputBatch out = MODAL__RUNTIME_OUTPUT_BATCH__INIT;
    uint64_t end = s->kind == TN_PROCESS_OUT ? status->out.end : status->err.end;

    out.has_exit_code = true;
    out.exit_code = (int32_t)exit_code(status);
    return (s->left && put_batch(s, s->rest, s->left, end)) || modal_send(s->c, &out, s->err) ? -1
                                                                                              : 0;
}

static double seconds_of(float wanted)
{
    return wanted > 0 && wanted < MODAL_POLL_SECONDS ? (double)wanted : MODAL_POLL_SECONDS;
}

static int output_old(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__ContainerExecGetOutputRequest *in = request;
    struct stream s = {.c = c,
                       .kind = in->file_descriptor == 2 ? TN_PROCESS_ERR : TN_PROCESS_OUT,
                       .send = send_batch,
                       .end = end_batches,
                       .err = err};
    char which[MODAL_WHICH];

    autobox struct box *b = find_old(c, in->exec_id, which, err);
    if (!b || begin(c, err))
        return -1;
    return follow(&s, b, which, in->last_batch_index ? in->last_batch_index - 1 : 0,
                  tn_deadline_in(seconds_of(in->timeout)));
}

/* Text that begins at the offset; what is no whole character waits for the next. */
static int send_lines(struct stream *s, const void *bytes, size_t n, uint64_t offset)
{
    tn_autobuf struct tn_buf whole = TN_BUF_INIT(n + sizeof s->rest);
    Modal__TaskLogsBatch out = MODAL__TASK_LOGS_BATCH__INIT;
    Modal__TaskLogs one = MODAL__TASK_LOGS__INIT, *all[] = {&one};
    char entry[32];

    take_whole(s, bytes, n, &whole);
    tn_autofree char *text = modal_text(tn_buf_str(&whole), whole.len);
    snprintf(entry, sizeof entry, "%llu-0", (unsigned long long)(offset + n - s->left));
    one.data = text;
    one.has_file_descriptor = true;
    one.file_descriptor = s->kind == TN_PROCESS_OUT ? 1 : 2;
    out.n_items = 1;
    out.items = all;
    out.entry_id = entry;
    return modal_send(s->c, &out, s->err);
}

static int end_lines(struct stream *s, const struct tn_process_status *status)
{
    Modal__TaskLogsBatch out = MODAL__TASK_LOGS_BATCH__INIT;
    static char entry[] = "18446744073709551615-0";

    out.has_eof = out.eof = true;
    out.entry_id = entry;
    return modal_send(s->c, &out, s->err);
}

static int sandbox_logs(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxGetLogsRequest *in = request;
    struct stream s = {.c = c,
                       .kind = in->file_descriptor == 2 ? TN_PROCESS_ERR : TN_PROCESS_OUT,
                       .send = send_lines,
                       .end = end_lines,
                       .err = err};

    return follow_own(&s, in->sandbox_id,
                      in->last_entry_id ? strtoull(in->last_entry_id, NULL, 10) : 0,
                      tn_deadline_in(seconds_of(in->timeout)));
}

/* --- waiting --------------------------------------------------------------------------------- */

static int send_exit(struct modal_call *c, const struct tn_process_status *status,
                     struct tn_error *err)
{
    Modal__ExitStatus out = MODAL__EXIT_STATUS__INIT;

    out.has_code = status->exit_code.set;
    out.code = (int32_t)status->exit_code.value;
    out.has_signal = status->signal.set;
    out.signal = (int32_t)status->signal.value;
    return modal_send(c, &out, err);
}

/* Until it ends, or its sandbox does. */
static int await_exit(struct modal_call *c, struct box *b, const char *which,
                      struct tn_process_status *status, struct tn_error *err)
{
    for (;;) {
        struct tn_error why = {0};
        int64_t soon = tn_deadline_in(MODAL_SLICE_SECONDS);

        if (process_wait(b, which, status, tn_http_fd(c->x), soon, &why) == 0)
            return 0;
        if (!modal_goes_on(b, err))
            return -1;
        if (why.code != TN_E_TIMEOUT || tn_http_peer_gone(c->x)) {
            *err = why;
            return -1;
        }
    }
}

static int exec_wait(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__TaskExec *in = request;
    tn_autostatus struct tn_process_status status = {0};
    char which[MODAL_WHICH];

    autobox struct box *b = find(c, in->task_id, in->exec_id, which, err);
    return b && await_exit(c, b, which, &status, err) == 0 ? send_exit(c, &status, err) : -1;
}

static int exec_poll(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__TaskExec *in = request;
    tn_autostatus struct tn_process_status status = {0};
    char which[MODAL_WHICH];

    autobox struct box *b = find(c, in->task_id, in->exec_id, which, err);
    return b && process_look(b, which, &status, tn_deadline_in(MODAL_SECONDS), err) == 0
               ? send_exit(c, &status, err)
               : -1;
}

static int wait_old(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__ContainerExecWaitRequest *in = request;
    Modal__ContainerExecWaitResponse out = MODAL__CONTAINER_EXEC_WAIT_RESPONSE__INIT;
    tn_autostatus struct tn_process_status status = {0};
    char which[MODAL_WHICH];

    autobox struct box *b = find_old(c, in->exec_id, which, err);
    if (!b)
        return -1;
    int64_t deadline = tn_deadline_in(in->timeout > 0 ? seconds_of(in->timeout) : 0);
    int failed = in->timeout > 0
                     ? process_wait(b, which, &status, tn_http_fd(c->x), deadline, err)
                     : process_look(b, which, &status, tn_deadline_in(MODAL_SECONDS), err);
    if (failed && err->code != TN_E_TIMEOUT)
        return -1;
    out.has_completed = out.completed = out.has_exit_code = !failed && !status.running;
    out.exit_code = out.completed ? (int32_t)exit_code(&status) : 0;
    return modal_send(c, &out, err);
}

/* --- input ----------------------------------------------------------------------------------- */

/* Who writes to one that has ended, or whose input is closed, is told so. */
static int input(struct box *b, const char *which, uint64_t offset, const ProtobufCBinaryData *data,
                 bool eof, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(MODAL_SECONDS);
    int failed =
        data->len && process_input(b, which, offset, data->data, data->len, NULL, deadline, err);

    failed = failed || (eof && process_close_input(b, which, deadline, err));
    if (failed && err->code == TN_E_GONE)
        err->code = TN_E_CONFLICT;
    return failed ? -1 : 0;
}

static int stdin_write(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__TaskExecStdinWriteRequest *in = request;
    char which[MODAL_WHICH];

    autobox struct box *b = find(c, in->task_id, in->exec_id, which, err);
    return b ? input(b, which, in->offset, &in->data, in->eof, err) : -1;
}

static int stdin_status(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__TaskExec *in = request;
    Modal__TaskExecStdinStatusResponse out = MODAL__TASK_EXEC_STDIN_STATUS_RESPONSE__INIT;
    tn_autostatus struct tn_process_status status = {0};
    char which[MODAL_WHICH];

    autobox struct box *b = find(c, in->task_id, in->exec_id, which, err);
    if (!b || process_look(b, which, &status, tn_deadline_in(MODAL_SECONDS), err))
        return -1;
    out.has_num_bytes_written = out.has_closed = true;
    out.num_bytes_written = status.input;
    out.closed = !status.input_open;
    return modal_send(c, &out, err);
}

static int sandbox_stdin(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxStdinWriteV2Request *in = request;
    autobox struct box *b = modal_running(c, in->task_id, err);

    return b ? input(b, "tag:" MODAL_ENTRYPOINT, in->offset, &in->data, in->eof, err) : -1;
}

static int sandbox_stdin_old(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxStdinWriteRequest *in = request;
    autobox struct box *b = modal_running(c, in->sandbox_id, err);

    return b ? input(b, "tag:" MODAL_ENTRYPOINT, UINT64_MAX, &in->input, in->eof, err) : -1;
}

static int stdin_old(struct modal_call *c, const void *request, struct tn_error *err)
{
    static const Modal__RuntimeInputMessage nothing = MODAL__RUNTIME_INPUT_MESSAGE__INIT;
    const Modal__ContainerExecPutInputRequest *in = request;
    const Modal__RuntimeInputMessage *message = in->input ? in->input : &nothing;
    char which[MODAL_WHICH];

    autobox struct box *b = find_old(c, in->exec_id, which, err);
    return b ? input(b, which, UINT64_MAX, &message->message, message->eof, err) : -1;
}

/* Input as a stream of messages, to be read as one of bytes. */
struct incoming {
    struct modal_call *c;
    struct tn_frame_reader reader;
    struct tn_buf bytes;    /* that nobody has taken yet */
    Modal__TaskExec *start; /* its first message */
    struct tn_held held;    /* of that */
    bool over;
    struct tn_error *err;
};

static int take_message(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    struct incoming *in = ctx;
    tn_autoheld struct tn_held held = {.purse = purse_of(in->c->x)};
    tn_autogrpc Modal__TaskExecStdinWriteStreamRequest *m = tn_grpc_read(
        &modal__task_exec_stdin_write_stream_request__descriptor, kind, bytes, n, &held, in->err);

    if (!m && in->err->code == TN_E_BUSY)
        return -1;
    if (!m || (!m->start && !in->start))
        return tn_fail(in->err, TN_E_INVALID, "no message of such a stream");
    if (m->start && in->start)
        return tn_fail(in->err, TN_E_INVALID, "a second start");
    if (m->start) {
        in->start = TN_TAKE_PTR(m->start);
        in->held = held;
        held.bytes = 0;
    }
    in->over |= m->end != NULL;
    return m->has_data && tn_buf_add(&in->bytes, m->data.data, m->data.len)
               ? tn_fail(in->err, TN_E_BUSY, "There is no memory for the input just now")
               : 0;
}

/* As tn_http_source_fn: a stream that breaks off before its end is an error. */
static ssize_t next_bytes(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct incoming *in = ctx;
    char piece[16 << 10];

    while (!in->bytes.len && !in->over) {
        ssize_t got = tn_http_read(in->c->x, piece, sizeof piece, err);
        in->err = err;
        if (got == 0)
            tn_fail(err, TN_E_INVALID, "the input breaks off");
        if (got <= 0 || tn_frame_read(&in->reader, piece, (size_t)got, take_message, in, err))
            return -1;
        if (n == 0 && in->start)
            break;
    }
    size_t have = in->bytes.len < n ? in->bytes.len : n;
    memcpy(to, tn_buf_str(&in->bytes), have);
    tn_buf_eat(&in->bytes, have);
    return (ssize_t)have;
}

static int pass_input(struct incoming *in, struct box *b, const char *which, struct tn_error *err)
{
    uint64_t offset = in->start->offset;
    char piece[16 << 10];
    ssize_t n;

    while ((n = next_bytes(in, piece, sizeof piece, err)) > 0) {
        const ProtobufCBinaryData data = {(size_t)n, (uint8_t *)piece};
        if (input(b, which, offset, &data, false, err))
            return -1;
        offset += (uint64_t)n;
    }
    return n < 0 ? -1 : input(b, which, offset, &(ProtobufCBinaryData){0}, true, err);
}

static int stdin_stream(struct modal_call *c, const void *request, struct tn_error *err)
{
    tn_autostatus struct tn_process_status status = {0};
    struct incoming in = {.c = c, .bytes = {.max = PENDING_MAX, .purse = purse_of(c->x)}};
    char which[MODAL_WHICH];
    int result = -1;

    tn_frame_reader_init(&in.reader, PENDING_MAX / 2);
    in.reader.held.purse = purse_of(c->x);
    autobox struct box *b = NULL;
    if (next_bytes(&in, which, 0, err) == 0)
        b = find(c, in.start->task_id, in.start->exec_id, which, err);
    if (b && process_look(b, which, &status, tn_deadline_in(MODAL_SECONDS), err) == 0) {
        tn_autofree char *path = modal_fs_path(c, &status, "WriteFile");
        if (path)
            result = modal_fs_store(c, b, &status, path, next_bytes, &in, err);
        else
            result = pass_input(&in, b, which, err);
    }
    tn_frame_reader_done(&in.reader);
    tn_buf_done(&in.bytes);
    if (in.start)
        modal__task_exec__free_unpacked(in.start, NULL);
    tn_guard_held(&in.held);
    return result;
}

const struct modal_method modal_router[] = {
    {"TaskExecStart", MODAL_MESSAGE(task_exec_start_request), exec_start, SCOPE_USE},
    {"TaskExecStdioRead", MODAL_MESSAGE(task_exec_stdio_read_request), stdio_read, SCOPE_USE},
    {"TaskExecStdinWrite", MODAL_MESSAGE(task_exec_stdin_write_request), stdin_write, SCOPE_USE},
    {"TaskExecStdinWriteStream", NULL, stdin_stream, SCOPE_USE},
    {"TaskExecStdinStatus", MODAL_MESSAGE(task_exec), stdin_status, SCOPE_USE},
    {"TaskExecWait", MODAL_MESSAGE(task_exec), exec_wait, SCOPE_USE},
    {"TaskExecPoll", MODAL_MESSAGE(task_exec), exec_poll, SCOPE_USE},
    {"TaskSnapshotFilesystem", MODAL_MESSAGE(task_snapshot_filesystem_request), modal_task_snapshot,
     SCOPE_MANAGE},
    {"TaskSetNetworkAccess", MODAL_MESSAGE(task_set_network_access_request), modal_set_network,
     SCOPE_MANAGE},
    {"TaskReloadVolumes", MODAL_MESSAGE(who), modal_reload_volumes, SCOPE_USE},
    {"SandboxStdioReadV2", MODAL_MESSAGE(sandbox_stdio_read_v2_request), sandbox_stdio, SCOPE_USE},
    {"SandboxStdinWriteV2", MODAL_MESSAGE(sandbox_stdin_write_v2_request), sandbox_stdin,
     SCOPE_USE},
    {"SandboxWaitUntilReady", MODAL_MESSAGE(who), modal_ready, SCOPE_USE},
    {0},
};

const struct modal_method modal_commands[] = {
    {"SandboxGetLogs", MODAL_MESSAGE(sandbox_get_logs_request), sandbox_logs, SCOPE_USE},
    {"SandboxStdinWrite", MODAL_MESSAGE(sandbox_stdin_write_request), sandbox_stdin_old, SCOPE_USE},
    {"ContainerExec", MODAL_MESSAGE(container_exec_request), exec_start_old, SCOPE_USE},
    {"ContainerExecGetOutput", MODAL_MESSAGE(container_exec_get_output_request), output_old,
     SCOPE_USE},
    {"ContainerExecPutInput", MODAL_MESSAGE(container_exec_put_input_request), stdin_old,
     SCOPE_USE},
    {"ContainerExecWait", MODAL_MESSAGE(container_exec_wait_request), wait_old, SCOPE_USE},
    {0},
};
