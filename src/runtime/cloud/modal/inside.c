/* In a sandbox: programs, and what they read and print.
 *
 * A command has a number of the caller's, its output is read from an offset, and its input is
 * written at one: every call to the router can be repeated.  Before routers the control plane had
 * the same with numbers of its own. */
#include <sys/random.h>

#include "base/again.h"
#include "runtime/cloud/modal/modal.h"

#define KEPT_SECONDS (30 * 86400)
enum { PIECE = 1 << 20, WORDS_MAX = 64 << 10, TASK_SECONDS = 50, READS = 6, OUTPUT_SECONDS = 55 };
enum { KEPT = 1, ROUTER_STDOUT = 0, PIPED = 2, NOWHERE = 1, STDOUT = 1 };
/* Both streams are one. */
#define MERGED "exec \"$@\" 2>&1"

/* --- who runs programs in it ------------------------------------------------------------------ */

/* The task of the sandbox: what runs in it. */
static int find_task(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                     struct tn_error *err)
{
    Modal__Who in = MODAL__WHO__INIT;
    const struct modal_call call = {.method = "SandboxGetTaskId",
                                    .about = v->id,
                                    .in = &in,
                                    .out = &modal__sandbox_get_task_id_response__descriptor};

    in.id = v->id;
    in.has_timeout = true;
    in.timeout = TASK_SECONDS;
    for (int ms = 0; !v->task;) {
        tn_autogrpc Modal__SandboxGetTaskIdResponse *got = NULL;
        if (modal_ask(c, &call, &got, deadline, err) < 0)
            return -1;
        if (got->task_result)
            return tn_fail(err, TN_E_CONFLICT, "the sandbox has ended");
        if (got->task_id && !cloud_is_id(got->task_id))
            return tn_fail(err, TN_E_PEER, "Modal tells of a task without a usable id");
        v->task = tn_strdup_or_null(got->task_id);
        if (!v->task && tn_back_off(&ms, 0, 0, deadline, err) < 0)
            return tn_error_context(err, "Modal has not started the sandbox");
    }
    return 0;
}

/* A router is where the platform says, and as secure as the API: there, its scheme counts for
 * nothing, since a Modal of one machine has no other way to please all its clients. */
static int dial_router(const struct cloud *c, struct cloud_view *v, const Modal__RouterAccess *to,
                       struct tn_error *err)
{
    bool clear = strncmp(c->line.url, "https:", 6) != 0;
    const char *host = to->url ? strstr(to->url, "://") : NULL;
    tn_autofree char *wished =
        host ? tn_asprintf("%s%s", clear ? "http" : "https", host) : tn_strdup("");
    tn_autofree char *url = cloud_base("url", wished, NULL);

    if (!url || (!clear && strncmp(to->url, "https:", 6) != 0) || !to->jwt || !*to->jwt ||
        !cloud_is_token(to->jwt))
        return tn_fail(err, TN_E_PEER, "Modal: what it says of a router makes no sense");
    tn_autofree char *bearer = tn_asprintf("Bearer %s", to->jwt);
    tn_autoweb struct tn_web *web = modal_web(url, err);
    int failed = !web || tn_web_header(web, "Authorization", bearer, err) < 0;
    explicit_bzero(bearer, strlen(bearer));
    if (failed)
        return -1;
    tn_web_free(v->agent);
    free(v->agent_url);
    free(v->token);
    v->agent = TN_TAKE_PTR(web);
    v->agent_url = TN_TAKE_PTR(url);
    v->token = tn_strdup(to->jwt);
    return 0;
}

/* Without a router v->agent stays NULL. */
static int find_router(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                       struct tn_error *err)
{
    bool first = strlen(v->id) == 25 && strncmp(v->id, "sb-", 3) == 0;
    Modal__SandboxGetCommandRouterAccessRequest of_box =
        MODAL__SANDBOX_GET_COMMAND_ROUTER_ACCESS_REQUEST__INIT;
    Modal__Who of_task = MODAL__WHO__INIT;
    const struct modal_call call = {.method = first ? "TaskGetCommandRouterAccess"
                                                    : "SandboxGetCommandRouterAccess",
                                    .in = first ? (const void *)&of_task : (const void *)&of_box,
                                    .out = &modal__router_access__descriptor};
    tn_autogrpc Modal__RouterAccess *got = NULL;
    struct tn_error why = {0};

    of_box.sandbox_id = v->id;
    of_task.id = v->task;
    if (modal_ask(c, &call, &got, deadline, &why) == 0)
        return dial_router(c, v, got, err);
    /* FAILED_PRECONDITION, UNIMPLEMENTED: it has none. */
    if (why.code == TN_E_CONFLICT || why.code == TN_E_METHOD)
        return 0;
    return cloud_fail(err, &why);
}

/* --- a command -------------------------------------------------------------------------------- */

struct command {
    const struct cloud *c;
    struct cloud_view *v;
    tn_log_fn out;
    void *ctx;
    char **words;
    size_t count;
    char *cwd;
    uint32_t seconds;
    char id[CLOUD_ID_MAX + 1];
    uint64_t read; /* bytes of the output; without a router batches */
    int status;    /* -1: it runs */
};

static void command_done(struct command *x)
{
    for (size_t i = 0; i < x->count; i++)
        free(x->words[i]);
    free(x->words);
}

static void add_word(struct command *x, const char *word)
{
    x->words = tn_realloc(x->words, (x->count + 1) * sizeof *x->words);
    x->words[x->count++] = tn_strdup(word);
}

static int add_variable(const char *name, struct tn_json *value, void *ctx)
{
    tn_autofree char *word = tn_asprintf("%s=%s", name, tn_json_str(value, NULL));

    add_word(ctx, word);
    return 0;
}

static void set_words(struct command *x, const struct cloud_run *run, bool input)
{
    const char *const first[] = {"sh", "-c", input ? MERGED : MERGED " </dev/null", "sh", "env"};

    for (size_t i = 0; i < TN_COUNT(first); i++)
        add_word(x, first[i]);
    tn_json_each(run->env, add_variable, x);
    for (const char *const *word = run->argv; *word; word++)
        add_word(x, *word);
}

/* Tokens of routers end: with another one it may be heard. */
static int renew(struct command *x, const struct tn_error *why, int64_t deadline)
{
    return why->code == TN_E_DENIED ? find_router(x->c, x->v, deadline, NULL) : -1;
}

static int route(struct command *x, const struct modal_call *call, void *out, int64_t deadline,
                 struct tn_error *err)
{
    struct tn_error why = {0};

    if (modal_ask(x->c, call, out, deadline, &why) == 0)
        return 0;
    if (renew(x, &why, deadline) == 0)
        return modal_ask(x->c, call, out, deadline, err);
    return cloud_fail(err, &why);
}

/* --- by the router ---------------------------------------------------------------------------- */

static int start_routed(struct command *x, int64_t deadline, struct tn_error *err)
{
    Modal__TaskExecStartRequest in = MODAL__TASK_EXEC_START_REQUEST__INIT;
    const struct modal_call call = {.method = "TaskExecStart", .router = x->v, .in = &in};
    unsigned char random[16];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "getrandom");
    modal_uuid(random, x->id);
    in.task_id = x->v->task;
    in.exec_id = x->id;
    in.n_command_args = x->count;
    in.command_args = x->words;
    in.has_stdout_config = in.has_timeout_secs = true;
    in.stdout_config = KEPT;
    in.timeout_secs = x->seconds;
    in.workdir = x->cwd;
    return route(x, &call, NULL, deadline, err);
}

static int feed_routed(struct command *x, const void *bytes, size_t n, uint64_t at, bool last,
                       int64_t deadline, struct tn_error *err)
{
    Modal__TaskExecStdinWriteRequest in = MODAL__TASK_EXEC_STDIN_WRITE_REQUEST__INIT;
    const struct modal_call call = {.method = "TaskExecStdinWrite", .router = x->v, .in = &in};

    in.task_id = x->v->task;
    in.exec_id = x->id;
    in.has_offset = in.has_data = in.has_eof = true;
    in.offset = at;
    in.data = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
    in.eof = last;
    return route(x, &call, NULL, deadline, err);
}

static int take_routed(const void *message, void *ctx)
{
    const Modal__StdioReadResponse *said = message;
    struct command *x = ctx;

    if (!said->has_data || !said->data.len)
        return 0;
    x->read += said->data.len;
    return x->out(said->data.data, said->data.len, x->ctx);
}

static int read_routed(struct command *x, int64_t deadline, struct tn_error *err)
{
    Modal__TaskExecStdioReadRequest in = MODAL__TASK_EXEC_STDIO_READ_REQUEST__INIT;
    const struct modal_call call = {.method = "TaskExecStdioRead",
                                    .router = x->v,
                                    .in = &in,
                                    .out = &modal__stdio_read_response__descriptor,
                                    .patient = true};

    in.task_id = x->v->task;
    in.exec_id = x->id;
    in.has_offset = in.has_file_descriptor = true;
    in.offset = x->read;
    in.file_descriptor = ROUTER_STDOUT;
    return modal_listen(x->c, &call, take_routed, x, deadline, err);
}

static int end_routed(struct command *x, int64_t deadline, struct tn_error *err)
{
    Modal__TaskExec in = MODAL__TASK_EXEC__INIT;
    const struct modal_call call = {.method = "TaskExecWait",
                                    .router = x->v,
                                    .in = &in,
                                    .out = &modal__exit_status__descriptor,
                                    .patient = true};

    in.task_id = x->v->task;
    in.exec_id = x->id;
    for (int ms = 0; x->status < 0;) {
        tn_autogrpc Modal__ExitStatus *got = NULL;
        if (route(x, &call, &got, deadline, err) < 0)
            return -1;
        if (got->has_code)
            x->status = got->code & 255;
        else if (got->has_signal)
            x->status = 128 + (got->signal & 127);
        else if (tn_back_off(&ms, 0, 0, deadline, err) < 0)
            return -1;
    }
    return 0;
}

/* --- before routers --------------------------------------------------------------------------- */

static int start_old(struct command *x, int64_t deadline, struct tn_error *err)
{
    Modal__ContainerExecRequest in = MODAL__CONTAINER_EXEC_REQUEST__INIT;
    const struct modal_call call = {
        .method = "ContainerExec", .in = &in, .out = &modal__exec_id__descriptor, .unsafe = true};
    tn_autogrpc Modal__ExecId *got = NULL;

    in.task_id = x->v->task;
    in.n_command = x->count;
    in.command = x->words;
    in.has_stdout_output = in.has_stderr_output = in.has_timeout_secs = true;
    in.stdout_output = PIPED;
    in.stderr_output = NOWHERE;
    in.timeout_secs = x->seconds;
    in.workdir = x->cwd;
    if (modal_ask(x->c, &call, &got, deadline, err) < 0)
        return -1;
    if (!got->exec_id || !cloud_is_id(got->exec_id))
        return tn_fail(err, TN_E_PEER, "Modal tells of a command without a usable id");
    snprintf(x->id, sizeof x->id, "%s", got->exec_id);
    return 0;
}

static int feed_old(struct command *x, const void *bytes, size_t n, uint64_t at, bool last,
                    int64_t deadline, struct tn_error *err)
{
    Modal__RuntimeInputMessage input = MODAL__RUNTIME_INPUT_MESSAGE__INIT;
    Modal__ContainerExecPutInputRequest in = MODAL__CONTAINER_EXEC_PUT_INPUT_REQUEST__INIT;
    const struct modal_call call = {.method = "ContainerExecPutInput", .in = &in};

    in.exec_id = x->id;
    in.input = &input;
    input.has_message = input.has_message_index = input.has_eof = true;
    input.message = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
    input.message_index = at / PIECE + 1;
    input.eof = last;
    return modal_ask(x->c, &call, NULL, deadline, err);
}

static int take_old(const void *message, void *ctx)
{
    const Modal__RuntimeOutputBatch *batch = message;
    struct command *x = ctx;

    for (size_t i = 0; i < batch->n_items; i++) {
        const Modal__RuntimeOutputMessage *item = batch->items[i];
        const void *bytes =
            item->has_message_bytes ? (void *)item->message_bytes.data : item->message;
        size_t n = item->has_message_bytes ? item->message_bytes.len
                                           : strlen(item->message ? item->message : "");
        if (n && x->out(bytes, n, x->ctx))
            return 1;
    }
    if (batch->has_batch_index)
        x->read = batch->batch_index;
    if (batch->has_exit_code)
        x->status = batch->exit_code & 255;
    return 0;
}

/* A stream ends now and then before the command does; the last batch has its exit code. */
static int read_old(struct command *x, int64_t deadline, struct tn_error *err)
{
    Modal__ContainerExecGetOutputRequest in = MODAL__CONTAINER_EXEC_GET_OUTPUT_REQUEST__INIT;
    const struct modal_call call = {.method = "ContainerExecGetOutput",
                                    .in = &in,
                                    .out = &modal__runtime_output_batch__descriptor,
                                    .patient = true};
    int stop = 0;

    in.exec_id = x->id;
    in.has_timeout = in.has_last_batch_index = in.has_file_descriptor = in.has_get_raw_bytes = true;
    in.timeout = OUTPUT_SECONDS;
    in.file_descriptor = STDOUT;
    in.get_raw_bytes = true;
    for (int ms = 0; !stop && x->status < 0;) {
        in.last_batch_index = x->read;
        stop = modal_listen(x->c, &call, take_old, x, deadline, err);
        if (!stop && x->status < 0)
            stop = tn_back_off(&ms, 0, 0, deadline, err);
    }
    return stop;
}

/* Its exit code has come with its output. */
static int end_old(struct command *x, int64_t deadline, struct tn_error *err)
{
    return 0;
}

static const struct way {
    int (*start)(struct command *x, int64_t deadline, struct tn_error *err);
    /* The next bytes of its input; last: there are no more. */
    int (*feed)(struct command *x, const void *bytes, size_t n, uint64_t at, bool last,
                int64_t deadline, struct tn_error *err);
    /* Its output to the end; 1: that was enough. */
    int (*read)(struct command *x, int64_t deadline, struct tn_error *err);
    int (*end)(struct command *x, int64_t deadline, struct tn_error *err);
} routed = {start_routed, feed_routed, read_routed, end_routed},
  old = {start_old, feed_old, read_old, end_old};

/* --- running ---------------------------------------------------------------------------------- */

static int feed_all(const struct way *way, struct command *x, const char *bytes, size_t n,
                    int64_t deadline, struct tn_error *err)
{
    size_t at = 0, part;

    do {
        part = n - at < PIECE ? n - at : PIECE;
        if (way->feed(x, bytes + at, part, at, at + part == n, deadline, err) < 0)
            return -1;
    } while ((at += part) < n);
    return 0;
}

/* A stream that breaks is read on from where it broke. */
static int read_all(const struct way *way, struct command *x, int64_t deadline,
                    struct tn_error *err)
{
    struct tn_error why = {0};
    int ms = 0;

    for (int i = 0; i < READS && tn_now() < deadline; i++) {
        uint64_t before = x->read;
        int stop = way->read(x, deadline, &why);
        if (stop > 0)
            return tn_fail(err, TN_E_TOO_LARGE, "its output was more than was wanted");
        if (stop == 0)
            return 0;
        bool again = why.code == TN_E_PEER || why.code == TN_E_TIMEOUT || why.code == TN_E_BUSY ||
                     why.code == TN_E_QUOTA || renew(x, &why, deadline) == 0;
        if (!again || tn_back_off(&ms, 0, 0, deadline, NULL) < 0)
            break;
        if (x->read > before)
            i = 0;
    }
    return cloud_fail(err, &why);
}

/* Runs it with that input (NULL: none). */
static int execute(const struct cloud *c, struct cloud_view *v, const struct cloud_run *run,
                   const void *input, size_t n, int *status, int64_t deadline, struct tn_error *err)
{
    int left = tn_poll_ms(deadline);
    TN_CLEANUP(command_done)
    struct command x = {
        .c = c,
        .v = v,
        .out = run->out,
        .ctx = run->ctx,
        .cwd = (char *)(uintptr_t)run->cwd,
        .seconds = left < 0 ? 86400 : (uint32_t)left / 1000 + 1,
        .status = -1,
    };
    struct tn_error fed = {0};

    set_words(&x, run, input);
    if (!v->task && (find_task(c, v, deadline, err) < 0 || find_router(c, v, deadline, err) < 0))
        return -1;
    const struct way *way = v->agent ? &routed : &old;
    if (way->start(&x, deadline, err) < 0)
        return -1;
    /* One that has ended early takes no more: what it printed says why. */
    bool starved = input && feed_all(way, &x, input, n, deadline, &fed) < 0;
    if (read_all(way, &x, deadline, err) < 0 || way->end(&x, deadline, err) < 0)
        return -1;
    if (starved && x.status == 0)
        return cloud_fail(err, &fed);
    *status = x.status;
    return 0;
}

int modal_run(const struct cloud *c, struct cloud_view *v, const struct cloud_run *run, int *status,
              int64_t deadline, struct tn_error *err)
{
    return execute(c, v, run, NULL, 0, status, deadline, err);
}

int modal_put(const struct cloud *c, struct cloud_view *v, const char *user, const char *path,
              const void *bytes, size_t n, int64_t deadline, struct tn_error *err)
{
    static const char write[] = "mkdir -p \"$(dirname \"$1\")\" && cat >\"$1\"";
    const char *const argv[] = {"sh", "-c", write, "sh", path, NULL};
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);
    const struct cloud_run run = {.argv = argv, .out = tn_buf_sink, .ctx = &words};
    int status = 0;

    if (execute(c, v, &run, n ? bytes : "", n, &status, deadline, err) < 0)
        return -1;
    tn_autofree char *said = cloud_sentence(tn_buf_str(&words));
    return status ? tn_fail(err, TN_E_DENIED, "%s: %s", path, said) : 0;
}

/* --- snapshots -------------------------------------------------------------------------------- */

char *modal_image_take(const struct cloud *c, struct cloud_view *v, const char *name,
                       int64_t deadline, struct tn_error *err)
{
    Modal__TaskSnapshotFilesystemRequest of_task = MODAL__TASK_SNAPSHOT_FILESYSTEM_REQUEST__INIT;
    Modal__Who of_box = MODAL__WHO__INIT;
    /* The answers of both begin with the id. */
    const struct modal_call call = {.method =
                                        v->agent ? "TaskSnapshotFilesystem" : "SandboxSnapshotFs",
                                    .router = v->agent ? v : NULL,
                                    .in = v->agent ? (const void *)&of_task : (const void *)&of_box,
                                    .out = &modal__image_id__descriptor,
                                    .unsafe = true,
                                    .patient = true};
    tn_autogrpc Modal__ImageId *got = NULL;
    unsigned char random[16] = {0};
    char id[MODAL_UUID];

    if (getrandom(random, sizeof random, 0) < 0)
        return NULL;
    modal_uuid(random, id);
    of_task.task_id = v->task;
    of_task.snapshot_id = id;
    of_task.has_ttl_seconds = true;
    of_task.ttl_seconds = KEPT_SECONDS;
    of_box.id = v->id;
    if (modal_ask(c, &call, &got, deadline, err) < 0)
        return NULL;
    if (got->image_id && strncmp(got->image_id, "im-", 3) == 0 && cloud_is_id(got->image_id))
        return tn_strdup(got->image_id);
    tn_fail(err, TN_E_PEER, "Modal tells of an image without a usable id");
    return NULL;
}

int modal_image_drop(const struct cloud *c, const char *image, int64_t deadline,
                     struct tn_error *err)
{
    Modal__ImageId in = MODAL__IMAGE_ID__INIT;
    const struct modal_call call = {.method = "ImageDelete", .in = &in, .ends = true};

    in.image_id = (char *)(uintptr_t)image;
    return modal_ask(c, &call, NULL, deadline, err);
}
