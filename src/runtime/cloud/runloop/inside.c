/* In a devbox: files, commands and what they print.
 *
 * A command there is a line for a shell, and its output text.  So the words are quoted, and what
 * they print comes as base64 after a line of our own, or, where that is much, as a file: bytes stay
 * bytes, and what a profile of the shell says is not the command's. */
#include <ctype.h>
#include <limits.h>

#include "base/again.h"
#include "base/base64.h"
#include "base/clock.h"
#include "runtime/cloud/runloop/runloop.h"

enum {
    POLL_SECONDS = 25,
    COMMAND_MAX = 512 << 10,
    ANSWER_BYTES = 64 << 10, /* of output in an answer: vendors cut them off */
};
#define KILL_SECONDS 10.0
#define OUTPUT_LINE "tendon-output:"
#define FILE_LINE "tendon-file:"

/* --- files ------------------------------------------------------------------------------------ */

static int discard(const void *bytes, size_t n, void *ctx)
{
    return 0;
}

/* Uploads belong to the user of the devbox; another one takes its copy. */
static int copy_as(const struct cloud *c, struct cloud_view *v, const char *user, const char *from,
                   const char *to, int64_t deadline, struct tn_error *err)
{
    const char *const copy[] = {
        "sh", "-c", "mkdir -p \"$(dirname \"$2\")\" && cp \"$1\" \"$2\"", "sh", from, to, NULL};
    const char *const removal[] = {"rm", "-f", from, NULL};
    struct cloud_run run = {.argv = copy, .user = user, .out = discard};
    int status = 0, ignored;

    int failed = devbox_run(c, v, &run, &status, deadline, err);
    run = (struct cloud_run){.argv = removal, .out = discard};
    devbox_run(c, v, &run, &ignored, deadline, NULL);
    if (failed < 0)
        return -1;
    return status ? tn_fail(err, TN_E_DENIED, "%s: %s may not write there", to, user) : 0;
}

int devbox_put(const struct cloud *c, struct cloud_view *v, const char *user, const char *path,
               const void *bytes, size_t n, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/v1/devboxes/", v->id, "/upload_file");
    tn_autofree char *aside =
        user ? tn_asprintf("/tmp/.tendon-upload-%lld", (long long)tn_now()) : NULL;

    if (cloud_upload(&c->line, target, NULL, aside ? aside : path, bytes, n, deadline, err) < 0)
        return -1;
    return aside ? copy_as(c, v, user, aside, path, deadline, err) : 0;
}

/* --- commands --------------------------------------------------------------------------------- */

/* One more word, in single quotes: no shell expands it. */
static void put_word(struct tn_buf *out, const char *word)
{
    tn_buf_puts(out, " '");
    for (const char *quote; (quote = strchr(word, '\'')); word = quote + 1) {
        tn_buf_add(out, word, (size_t)(quote - word));
        tn_buf_puts(out, "'\\''");
    }
    tn_buf_printf(out, "%s'", word);
}

static int put_variable(const char *name, struct tn_json *value, void *ctx)
{
    tn_autofree char *word = tn_asprintf("%s=%s", name, tn_json_str(value, NULL));

    put_word(ctx, word);
    return 0;
}

int devbox_write_command(const struct cloud_run *run, struct tn_buf *out, struct tn_error *err)
{
    tn_buf_puts(out, "f=$(mktemp) || exit 125; set -o pipefail; { ");
    if (run->cwd) {
        tn_buf_puts(out, "cd");
        put_word(out, run->cwd);
        tn_buf_puts(out, " || exit 126; ");
    }
    tn_buf_puts(out, "set -- env");
    tn_json_each(run->env, put_variable, out);
    for (const char *const *word = run->argv; *word; word++)
        put_word(out, *word);
    if (run->user) {
        tn_buf_puts(out, "; for u in");
        put_word(out, run->user);
        tn_buf_puts(out,
                    "; do [ \"$u\" = \"$(id -un)\" ] || set -- sudo -n -H -u \"$u\" -- \"$@\"; "
                    "done");
    }
    tn_buf_printf(out,
                  "; \"$@\"; } 2>&1 </dev/null | head -c %d >\"$f\"; s=$?; echo; "
                  "if [ \"$(wc -c <\"$f\")\" -gt %d ]; then echo \"" FILE_LINE
                  "$f\"; else echo " OUTPUT_LINE "; base64 <\"$f\"; rm -f \"$f\"; fi; exit $s",
                  DEVBOX_OUTPUT_MAX, ANSWER_BYTES);
    return tn_buf_ok(out) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "the command is too long");
}

/* Of a line of ours, what follows it. */
static const char *after(const char *text, size_t n, const char *line)
{
    const char *at = memmem(text, n, line, strlen(line));

    return at ? at + strlen(line) : NULL;
}

int devbox_decode(const char *text, size_t n, struct tn_buf *out, char **file, struct tn_error *err)
{
    const char *at = after(text, n, "\n" OUTPUT_LINE "\n"),
               *path = at ? NULL : after(text, n, "\n" FILE_LINE), *end = text + n;
    tn_autobuf struct tn_buf packed = TN_BUF_INIT(CLOUD_ANSWER_MAX);

    *file = NULL;
    if (path && path < end && *path == '/' && (end = memchr(path, '\n', (size_t)(end - path))) &&
        end - path < PATH_MAX) {
        *file = tn_strndup(path, (size_t)(end - path));
        return 0;
    }
    for (const char *p = at; p && p < end; p++)
        if (!isspace((unsigned char)*p))
            tn_buf_putc(&packed, *p);
    if (!at || !tn_buf_ok(&packed) ||
        tn_base64_decode(out, tn_buf_str(&packed), packed.len, NULL) < 0)
        return tn_fail(err, TN_E_PEER, "Runloop: what a command has printed makes no sense");
    return 0;
}

/* --- executions ------------------------------------------------------------------------------- */

struct execution {
    const struct cloud *c;
    char *target; /* "/v1/devboxes/ID/executions/ID" */
    struct tn_json *tree;
};

static void execution_done(struct execution *x)
{
    free(x->target);
    tn_json_free(x->tree);
}

static int begin(struct execution *x, const char *id, const struct cloud_run *run, int64_t deadline,
                 struct tn_error *err)
{
    tn_autofree char *target = cloud_target("/v1/devboxes/", id, "/execute_async"),
                     *before = cloud_target("/v1/devboxes/", id, "/executions/");
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX), body = TN_BUF_INIT(CLOUD_BODY_MAX);
    struct tn_jw w = tn_jw(&body);

    if (devbox_write_command(run, &command, err) < 0)
        return -1;
    tn_jw_object(&w);
    tn_jw_kstr(&w, "command", tn_buf_str(&command));
    tn_jw_object_end(&w);
    struct cloud_call call = cloud_post(target, &body);
    call.unsafe = true;
    if (!tn_buf_ok(&body))
        return tn_fail(err, TN_E_TOO_LARGE, "the command is too long");
    if (cloud_ask(&x->c->line, &call, &x->tree, deadline, err) < 0)
        return -1;
    const char *execution = tn_json_get_str(x->tree, "execution_id", "");
    if (!cloud_is_id(execution))
        return tn_fail(err, TN_E_PEER, "Runloop describes an execution without a usable id");
    x->target = tn_asprintf("%s%s", before, execution);
    return 0;
}

static bool is_over(const struct execution *x)
{
    return strcmp(tn_json_get_str(x->tree, "status", ""), "completed") == 0;
}

/* It answers within a while, with 408 when there is nothing to say yet. */
static int await(struct execution *x, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = tn_asprintf("%s/wait_for_status", x->target);

    for (int ms = 0; !is_over(x);) {
        tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(CLOUD_ANSWER_MAX);
        tn_autobuf struct tn_buf body = TN_BUF_INIT(256);
        int left = tn_poll_ms(deadline);
        tn_buf_printf(&body, "{\"statuses\": [\"completed\"], \"timeout_seconds\": %d}",
                      left >= 0 && left < POLL_SECONDS * 1000 ? left / 1000 + 1 : POLL_SECONDS);
        const struct cloud_call call = cloud_post(target, &body);
        bool told = cloud_ask_raw(&x->c->line, &call, &answer, deadline, err) == 0;
        if (!told && answer.status != 408)
            return -1;
        if (told) {
            tn_json_free(TN_TAKE_PTR(x->tree));
            if (tn_json_parse(tn_buf_str(&answer.body), answer.body.len, &x->tree, NULL) < 0)
                return tn_fail(err, TN_E_PEER, "Runloop: what it says of a command makes no sense");
        }
        if (!is_over(x) && tn_back_off(&ms, 0, 0, deadline, err) < 0)
            return -1;
    }
    return 0;
}

static void end(const struct execution *x)
{
    tn_autofree char *target = tn_asprintf("%s/kill", x->target);
    tn_autobuf struct tn_buf body = TN_BUF_INIT(64);

    tn_buf_puts(&body, "{\"kill_process_group\": true}");
    const struct cloud_call call = cloud_post(target, &body);
    cloud_ask(&x->c->line, &call, NULL, tn_deadline_in(KILL_SECONDS), NULL);
}

/* What is too long for an answer lies in a file. */
static int fetch(const struct cloud *c, const char *id, const char *path, struct tn_buf *out,
                 int64_t deadline, struct tn_error *err)
{
    TN_CLEANUP(execution_done) struct execution x = {.c = c};
    tn_autofree char *target = cloud_target("/v1/devboxes/", id, "/download_file");
    const char *const removal[] = {"rm", "-f", path, NULL};
    const struct cloud_run run = {.argv = removal};
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(CLOUD_BODY_MAX);
    tn_autobuf struct tn_buf body = TN_BUF_INIT(CLOUD_BODY_MAX);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "path", path);
    tn_jw_object_end(&w);
    struct cloud_call call = cloud_post(target, &body);
    call.web.sink = tn_buf_sink;
    call.web.sink_ctx = out;
    int failed = cloud_ask_raw(&c->line, &call, &answer, deadline, err);
    begin(&x, id, &run, deadline, NULL);
    return failed;
}

static int tell(const struct execution *x, const char *id, const struct cloud_run *run, int *status,
                int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(DEVBOX_OUTPUT_MAX + 1);
    int64_t code = tn_json_int(tn_json_get(x->tree, "exit_status"), 255);
    tn_autofree char *file = NULL;
    size_t n = 0;
    const char *text = tn_json_str(tn_json_get(x->tree, "stdout"), &n);

    if (devbox_decode(text ? text : "", n, &bytes, &file, err) < 0) {
        tn_autofree char *words = cloud_sentence(tn_json_get_str(x->tree, "stderr", ""));
        return *words ? tn_error_context(err, "%s", words) : -1;
    }
    if (file && fetch(x->c, id, file, &bytes, deadline, err) < 0)
        return -1;
    if (bytes.len >= DEVBOX_OUTPUT_MAX || (bytes.len && run->out(bytes.data, bytes.len, run->ctx)))
        return tn_fail(err, TN_E_TOO_LARGE, "its output was more than was wanted");
    *status = code >= 0 && code <= 255 ? (int)code : 255;
    return 0;
}

int devbox_run(const struct cloud *c, struct cloud_view *v, const struct cloud_run *run,
               int *status, int64_t deadline, struct tn_error *err)
{
    TN_CLEANUP(execution_done) struct execution x = {.c = c};

    if (begin(&x, v->id, run, deadline, err) < 0)
        return -1;
    if (await(&x, deadline, err) < 0) {
        end(&x);
        return -1;
    }
    return tell(&x, v->id, run, status, deadline, err);
}
