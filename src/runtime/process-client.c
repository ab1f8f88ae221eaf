#include "runtime/process-client.h"

#include "base/clock.h"
#include "net/frame.h"
#include "net/url.h"
#include "runtime/hand-address.h"
#include "runtime/hand-answer.h"

#define SILENCE_SECONDS 45.0 /* it gives a sign of life every `beat` seconds */
#define BEAT_SECONDS 15.0
#define WAIT_SECONDS 20
#define FOLLOW_SECONDS 3600 /* the longest stream; then another one is opened */

enum {
    ANSWER_MAX = 8 << 20, /* a list of all; a command line has at most 256 KiB */
    TARGET_MAX = 4096,
    BODY_MAX = 4096,
    ENV_MAX = 1 << 20,
    PIECE = 64 << 10,
    FRAME_MAX = 2 << 20, /* the hand sends 32 KiB at a time, and the status in the end */
    INPUT_PIECE = 256 << 10,
    ATTEMPTS = 3,
};

struct tn_process_client {
    struct tn_http_client *http;
    struct tn_purse *purse;
};

struct tn_process_client *tn_process_client_new(const char *address, const char *key,
                                                struct tn_error *err)
{
    struct tn_http_client *http = tn_hand_http(address, key, err);

    if (!http)
        return NULL;
    struct tn_process_client *c = tn_calloc(1, sizeof *c);
    c->http = http;
    return c;
}

void tn_process_client_free(struct tn_process_client *c)
{
    if (!c)
        return;
    tn_http_client_free(c->http);
    free(c);
}

void tn_process_client_cancel_by(struct tn_process_client *c, int fd)
{
    tn_http_client_cancel_by(c->http, fd);
}

void tn_process_client_hold(struct tn_process_client *c, struct tn_purse *purse)
{
    c->purse = purse;
}

/* --- asking ---------------------------------------------------------------------------------- */

static void put_target(struct tn_buf *out, const char *which, const char *what)
{
    tn_buf_puts(out, "/v1/processes/");
    tn_url_encode(out, which, "");
    tn_buf_puts(out, what);
}

/* 0 with the answer of a success. */
static int call(struct tn_process_client *c, const struct tn_http_call *request,
                struct tn_buf *answer, struct tn_error *err)
{
    tn_buf_reset(answer);
    int status = tn_http_client_call(c->http, request, answer, err);
    if (status < 0)
        return tn_error_context(err, "the hand");
    if (status >= 300)
        return tn_hand_refused_text(status, tn_buf_str(answer), answer->len, err);
    return 0;
}

static int ask(struct tn_process_client *c, const char *method, const char *which, const char *what,
               const struct tn_buf *body, struct tn_buf *answer, int64_t deadline,
               struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);

    put_target(&target, which, what);
    if (!tn_buf_ok(&target))
        return tn_fail(err, TN_E_NOT_FOUND, "no process has such a name");
    const struct tn_http_call request = {
        .method = method,
        .target = tn_buf_str(&target),
        .type = body ? "application/json" : NULL,
        .body = body ? tn_buf_str(body) : "",
        .body_len = body ? body->len : 0,
        .deadline = deadline,
    };
    return call(c, &request, answer, err);
}

static struct tn_buf answer_buf(const struct tn_process_client *c)
{
    return (struct tn_buf){.max = ANSWER_MAX, .purse = c->purse};
}

/* --- a status -------------------------------------------------------------------------------- */

void tn_process_status_done(struct tn_process_status *s)
{
    tn_process_spec_done(&s->spec);
}

static int64_t number(const struct tn_json *v, const char *name)
{
    int64_t n = tn_json_int(tn_json_get(v, name), 0);

    return n < 0 ? 0 : n;
}

static struct tn_opt_int optional(const struct tn_json *v, const char *name, int64_t max)
{
    int64_t n = tn_json_int(tn_json_get(v, name), -1);

    return (struct tn_opt_int){.set = n >= 0 && n <= max, .value = n >= 0 && n <= max ? n : 0};
}

static struct tn_process_log log_of(const struct tn_json *v)
{
    return (struct tn_process_log){.first = (uint64_t)number(v, "first"),
                                   .end = (uint64_t)number(v, "end")};
}

/* What a hand says is believed only as far as it makes sense. */
static int read_status(const struct tn_json *v, struct tn_process_status *out, struct tn_error *err)
{
    const char *id = tn_json_get_str(v, "id", "");
    struct tn_error why = {0};

    *out = (struct tn_process_status){0};
    if (strlen(id) != TN_PROCESS_ID_SIZE - 1 || id[0] != 'p' ||
        strspn(id + 1, "0123456789abcdef") != TN_PROCESS_ID_SIZE - 2)
        return tn_fail(err, TN_E_PEER, "the hand named a process without an id");
    memcpy(out->id, id, TN_PROCESS_ID_SIZE);
    out->pid = number(v, "pid");
    out->running = tn_json_bool(tn_json_get(v, "running"), false);
    out->over = tn_json_bool(tn_json_get(v, "over"), false) && !out->running;
    if (!out->running) {
        out->exit_code = optional(v, "exit_code", 255);
        if (!out->exit_code.set)
            out->signal = optional(v, "signal", 127);
        out->ended = tn_json_double(tn_json_get(v, "ended"), 0);
    }
    out->late = tn_json_bool(tn_json_get(v, "late"), false);
    out->started = tn_json_double(tn_json_get(v, "started"), 0);
    out->out = log_of(tn_json_get(v, "stdout"));
    out->err = log_of(tn_json_get(v, "stderr"));
    out->input = (uint64_t)number(v, "input");
    out->input_open = tn_json_bool(tn_json_get(v, "input_open"), false);
    if (tn_process_spec_from_json(tn_json_get(v, "process"), &out->spec, &why))
        return tn_fail(err, TN_E_PEER, "the hand told nonsense of process %s: %s", id, why.text);
    return 0;
}

static int parse_status(const struct tn_process_client *c, const char *text, size_t n,
                        struct tn_process_status *out, struct tn_error *err)
{
    tn_autoheld struct tn_held held = {.purse = c->purse};
    tn_autojson struct tn_json *tree = NULL;

    if (tn_json_parse_held(text, n, held.purse, &held.bytes, &tree, err))
        return tn_error_context(err, "the hand");
    return read_status(tree, out, err);
}

/* Whether that is the process that was asked for: a hand may say anything. */
static bool is_that(const struct tn_process_status *s, const char *which)
{
    if (strncmp(which, "tag:", 4) == 0)
        return s->spec.tag && strcmp(s->spec.tag, which + 4) == 0;
    return *which == 'p' ? strcmp(s->id, which) == 0 : s->pid == strtoll(which, NULL, 10);
}

static int look(struct tn_process_client *c, const char *which, const char *what,
                struct tn_process_status *out, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = answer_buf(c);

    if (ask(c, "GET", which, what, NULL, &answer, deadline, err))
        return -1;
    if (parse_status(c, tn_buf_str(&answer), answer.len, out, err))
        return -1;
    if (is_that(out, which))
        return 0;
    tn_process_status_done(out);
    return tn_fail(err, TN_E_PEER, "the hand told of another process than %.60s", which);
}

int tn_process_look(struct tn_process_client *c, const char *which, struct tn_process_status *out,
                    int64_t deadline, struct tn_error *err)
{
    return look(c, which, "", out, deadline, err);
}

static int seconds_left(int64_t deadline, int most)
{
    int64_t left = deadline == TN_NEVER ? most : (deadline - tn_now()) / TN_SECOND;

    return left < 0 ? 0 : left < most ? (int)left : most;
}

int tn_process_wait(struct tn_process_client *c, const char *which, struct tn_process_status *out,
                    int64_t deadline, struct tn_error *err)
{
    char what[40];

    for (;;) {
        /* at least a second: the hand is asked often enough near the end */
        snprintf(what, sizeof what, "?wait=%d", 1 + seconds_left(deadline, WAIT_SECONDS));
        if (look(c, which, what, out, deadline, err))
            return -1;
        if (!out->running)
            return 0;
        tn_process_status_done(out);
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "process %.60s has not ended in time", which);
    }
}

int tn_process_each(struct tn_process_client *c, tn_process_fn fn, void *ctx, int64_t deadline,
                    struct tn_error *err)
{
    const struct tn_http_call request = {.target = "/v1/processes", .deadline = deadline};
    tn_autobuf struct tn_buf answer = answer_buf(c);
    tn_autoheld struct tn_held held = {.purse = c->purse};
    tn_autojson struct tn_json *tree = NULL;

    if (call(c, &request, &answer, err))
        return -1;
    if (tn_json_parse_held(tn_buf_str(&answer), answer.len, held.purse, &held.bytes, &tree, err))
        return tn_error_context(err, "the hand");
    const struct tn_json *list = tn_json_get(tree, "processes");
    for (size_t i = 0; i < tn_json_count(list); i++) {
        tn_autostatus struct tn_process_status status = {0};
        if (read_status(tn_json_at(list, i), &status, err))
            return -1;
        int stop = fn(&status, ctx);
        if (stop)
            return stop;
    }
    return 0;
}

/* --- output ---------------------------------------------------------------------------------- */

/* Results beside 0 and -1 that stay inside. */
enum { STOPPED = 1, ENDED, BROKEN, PAUSED };

struct reading {
    struct tn_process_client *c;
    const char *which;
    struct tn_process_follow *f;
    tn_process_piece_fn fn;
    void *ctx;
    int stopped; /* what fn said */
    int64_t deadline;
    struct tn_frame_reader frames;
    struct tn_error *err; /* of a frame that makes no sense */
};

static double beat_of(const struct tn_process_follow *f)
{
    double beat = f->beat > 0 ? f->beat : BEAT_SECONDS;

    return beat < TN_PROCESS_BEAT_MIN   ? TN_PROCESS_BEAT_MIN
           : beat > TN_PROCESS_BEAT_MAX ? TN_PROCESS_BEAT_MAX
                                        : beat;
}

static int64_t patience(const struct reading *r)
{
    double least = 3 * beat_of(r->f), wish = r->f->silence > 0 ? r->f->silence : SILENCE_SECONDS;
    int64_t silent = tn_deadline_in(least > wish ? least : wish);

    return silent < r->deadline ? silent : r->deadline;
}

static int hand_over(struct reading *r, const struct tn_process_piece *piece)
{
    r->stopped = r->fn(piece, r->ctx);
    return r->stopped ? STOPPED : 0;
}

/* The offset and then the bytes.  What lies between was dropped; what was handed over before is
 * not handed over again. */
static int take_bytes(struct reading *r, enum tn_process_piece_kind stream,
                      const unsigned char *bytes, size_t n)
{
    uint64_t *at = stream == TN_PROCESS_OUT ? &r->f->at.out : &r->f->at.err;

    if (n < 8)
        return tn_fail(r->err, TN_E_PEER, "a frame of the hand is too short");
    struct tn_process_piece piece = {.kind = stream,
                                     .stream = stream,
                                     .offset = tn_frame_number(bytes),
                                     .bytes = bytes + 8,
                                     .n = n - 8};
    if (piece.offset > UINT64_MAX - 1 - piece.n)
        return tn_fail(r->err, TN_E_PEER, "a frame of the hand is beyond all bounds");
    if (*at == UINT64_MAX)
        *at = piece.offset;
    if (piece.offset + piece.n <= *at)
        return 0;
    if (piece.offset > *at) {
        struct tn_process_piece lost = {.kind = TN_PROCESS_LOST,
                                        .stream = stream,
                                        .offset = piece.offset,
                                        .lost = piece.offset - *at};
        *at = piece.offset;
        int stop = hand_over(r, &lost);
        if (stop)
            return stop;
    }
    size_t known = (size_t)(*at - piece.offset);
    piece.offset += known;
    piece.bytes = bytes + 8 + known;
    piece.n -= known;
    *at = piece.offset + piece.n;
    return hand_over(r, &piece);
}

/* Where the hand begins, for who begins at the end. */
static int take_place(struct reading *r, const unsigned char *bytes, size_t n)
{
    struct tn_process_place *at = &r->f->at;

    if (n != 16)
        return tn_fail(r->err, TN_E_PEER, "a frame of the hand has the wrong size");
    at->out = at->out == UINT64_MAX ? tn_frame_number(bytes) : at->out;
    at->err = at->err == UINT64_MAX ? tn_frame_number(bytes + 8) : at->err;
    return 0;
}

static int take_end(struct reading *r, const unsigned char *bytes, size_t n)
{
    tn_autostatus struct tn_process_status status = {0};
    struct tn_process_piece piece = {.kind = TN_PROCESS_END, .status = &status};

    if (parse_status(r->c, (const char *)bytes, n, &status, r->err))
        return -1;
    int stop = hand_over(r, &piece);
    return stop ? stop : ENDED;
}

static int take_frame(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    struct tn_process_piece beat = {.kind = TN_PROCESS_BEAT};

    switch (kind) {
    case 'a':
        return take_place(ctx, bytes, n);
    case 'o':
        return take_bytes(ctx, TN_PROCESS_OUT, bytes, n);
    case 'e':
        return take_bytes(ctx, TN_PROCESS_ERR, bytes, n);
    case 'k':
        return hand_over(ctx, &beat);
    case 'x':
        return take_end(ctx, bytes, n);
    default: /* of a later hand */
        return 0;
    }
}

static int read_frames(struct reading *r, struct tn_error *err)
{
    tn_autofree char *piece = tn_malloc(PIECE);

    tn_frame_reader_reset(&r->frames);
    r->err = err;
    for (;;) {
        int64_t until = patience(r);
        ssize_t n = tn_http_client_read(r->c->http, piece, PIECE, until, err);
        if (n < 0 && err->code == TN_E_TIMEOUT && tn_now() >= until && tn_now() < r->deadline)
            return tn_fail(err, TN_E_PEER, "the hand is silent");
        if (n < 0)
            return err->code == TN_E_TIMEOUT ? -1 : BROKEN;
        if (n == 0)
            return PAUSED;
        int result = tn_frame_read(&r->frames, piece, (size_t)n, take_frame, r, err);
        if (result)
            return result;
    }
}

static int refused(struct reading *r, int status, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(64 << 10);
    char piece[1024];

    for (ssize_t n;
         (n = tn_http_client_read(r->c->http, piece, sizeof piece, patience(r), NULL)) > 0;)
        if (tn_buf_add(&body, piece, (size_t)n))
            break;
    return tn_hand_refused_text(status, tn_buf_str(&body), body.len, err);
}

static void put_place(struct tn_buf *target, const char *name, uint64_t at)
{
    if (at == UINT64_MAX)
        tn_buf_printf(target, "%s=end", name);
    else
        tn_buf_printf(target, "%s=%llu", name, (unsigned long long)at);
}

static int attempt(struct reading *r, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);

    put_target(&target, r->which, "/output?");
    put_place(&target, "stdout", r->f->at.out);
    put_place(&target, "&stderr", r->f->at.err);
    tn_buf_printf(&target, "&beat=%d&follow=%d", (int)beat_of(r->f),
                  r->f->now ? 0 : 1 + seconds_left(r->deadline, FOLLOW_SECONDS - 1));
    if (!tn_buf_ok(&target))
        return tn_fail(err, TN_E_NOT_FOUND, "no process has such a name");
    const struct tn_http_call request = {.target = tn_buf_str(&target), .deadline = patience(r)};
    int status = tn_http_client_open(r->c->http, &request, err);
    if (status < 0)
        return err->code == TN_E_PEER ? BROKEN : -1;
    return status == 200 ? read_frames(r, err) : refused(r, status, err);
}

int tn_process_read(struct tn_process_client *c, const char *which, struct tn_process_follow *f,
                    tn_process_piece_fn fn, void *ctx, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {.code = TN_E_PEER, .text = "the connection to the hand breaks"};
    struct reading r = {.c = c, .which = which, .f = f, .fn = fn, .ctx = ctx, .deadline = deadline};
    int result = BROKEN;

    tn_frame_reader_init(&r.frames, FRAME_MAX);
    r.frames.held.purse = c->purse;
    for (int tries = 0; tries < ATTEMPTS && (result == BROKEN || result == PAUSED); tries++) {
        struct tn_process_place before = f->at;
        int64_t began = tn_now();
        result = attempt(&r, &why);
        if (result == PAUSED && f->now)
            break;
        if (result == PAUSED)
            tn_fail(&why, TN_E_PEER, "the hand does not tell of process %.60s", which);
        if (result == PAUSED && tn_now() >= deadline)
            result = tn_fail(&why, TN_E_TIMEOUT, "process %.60s goes on", which);
        /* a stream that ends at once gets nobody on */
        if (before.out != f->at.out || before.err != f->at.err ||
            (result == PAUSED && tn_now() - began > TN_SECOND / 2))
            tries = -1;
    }
    tn_frame_reader_done(&r.frames);
    if (result == STOPPED)
        return r.stopped;
    if (result == ENDED || (result == PAUSED && f->now))
        return 0;
    if (err)
        *err = why;
    return -1;
}

/* --- input and signals ----------------------------------------------------------------------- */

/* One piece of input.  *done: how many of them are taken. */
static int send_input(struct tn_process_client *c, const char *which, uint64_t offset,
                      const char *bytes, size_t n, size_t *done, uint64_t *taken, int64_t deadline,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX), answer = TN_BUF_INIT(BODY_MAX);
    tn_autojson struct tn_json *tree = NULL;
    int r = -1;

    put_target(&target, which, "/input?");
    put_place(&target, "offset", offset);
    if (!tn_buf_ok(&target))
        return tn_fail(err, TN_E_NOT_FOUND, "no process has such a name");
    const struct tn_http_call request = {.method = "POST",
                                         .target = tn_buf_str(&target),
                                         .type = "application/octet-stream",
                                         .body = bytes,
                                         .body_len = n,
                                         .deadline = deadline};
    for (int tries = 0; tries < ATTEMPTS && r; tries++) {
        r = call(c, &request, &answer, err);
        if (r && (err->code != TN_E_PEER || offset == UINT64_MAX))
            return -1;
    }
    if (r || tn_json_parse(tn_buf_str(&answer), answer.len, &tree, err))
        return -1;
    *done = (size_t)number(tree, "done");
    *taken = (uint64_t)number(tree, "taken");
    return *done <= n ? 0 : tn_fail(err, TN_E_PEER, "the hand took more than it was given");
}

int tn_process_input(struct tn_process_client *c, const char *which, uint64_t offset,
                     const void *bytes, size_t n, uint64_t *taken, int64_t deadline,
                     struct tn_error *err)
{
    struct tn_error why = {0};
    const char *at = bytes;
    uint64_t all = 0;
    int r = 0;

    do {
        size_t piece = n < INPUT_PIECE ? n : INPUT_PIECE, done = 0;
        r = send_input(c, which, offset, at, piece, &done, &all, deadline, &why);
        if (r == 0 && done < n && tn_now() >= deadline)
            r = tn_fail(&why, TN_E_TIMEOUT, "process %.60s does not read its input", which);
        at += done;
        n -= done;
        offset += offset == UINT64_MAX ? 0 : done;
    } while (r == 0 && n > 0);
    if (taken)
        *taken = all;
    if (r && err)
        *err = why;
    return r;
}

int tn_process_close_input(struct tn_process_client *c, const char *which, int64_t deadline,
                           struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = answer_buf(c);

    return ask(c, "DELETE", which, "/input", NULL, &answer, deadline, err);
}

int tn_process_resize(struct tn_process_client *c, const char *which, int64_t columns, int64_t rows,
                      int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(BODY_MAX), answer = answer_buf(c);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kint(&w, "columns", columns);
    tn_jw_kint(&w, "rows", rows);
    tn_jw_object_end(&w);
    return ask(c, "POST", which, "/size", &body, &answer, deadline, err);
}

int tn_process_signal(struct tn_process_client *c, const char *which, int signal, int64_t deadline,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(BODY_MAX), answer = answer_buf(c);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kint(&w, "signal", signal);
    tn_jw_object_end(&w);
    return ask(c, "POST", which, "/signal", &body, &answer, deadline, err);
}

int tn_process_remove(struct tn_process_client *c, const char *which, int64_t deadline,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = answer_buf(c);

    return ask(c, "DELETE", which, "", NULL, &answer, deadline, err);
}

int tn_process_change_env(struct tn_process_client *c, const struct tn_json *unset,
                          const struct tn_json *set, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = {.max = ENV_MAX, .purse = c->purse}, answer = answer_buf(c);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    if (unset) {
        tn_jw_key(&w, "unset");
        tn_jw_tree(&w, unset);
    }
    if (set) {
        tn_jw_key(&w, "set");
        tn_jw_tree(&w, set);
    }
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&body))
        return tn_fail(err, TN_E_TOO_LARGE, "env: more than %d KiB", ENV_MAX >> 10);
    const struct tn_http_call request = {.method = "POST",
                                         .target = "/v1/environment",
                                         .type = "application/json",
                                         .body = tn_buf_str(&body),
                                         .body_len = body.len,
                                         .deadline = deadline};
    int failed = call(c, &request, &answer, err);
    return failed && err->code == TN_E_NOT_FOUND
               ? tn_fail(err, TN_E_UNSUPPORTED, "the hand of this sandbox is older: start it anew")
               : failed;
}
