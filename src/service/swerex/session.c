/* Shell sessions of a SWE-ReX client: sessions of the hand, whose commands are actions. */
#include <regex.h>

#include "base/clock.h"
#include "runtime/hand-output.h"
#include "runtime/hand-sessions.h"
#include "security/command/tree.h"
#include "service/proxy.h"
#include "service/surface.h"
#include "service/swerex/swerex.h"

/* Its prompt, which a client is told when a command has come to its end. */
#define PROMPT "SHELLPS1PREFIX"

enum {
    NAME_SIZE = 41,
    EXPECT_MAX = 16,
    /* A pattern is a stranger's, and a library takes it as far as it goes. */
    PATTERN_MAX = 256,
    GROUPS_MAX = 16,
    HAND_MAX = 1 << 20,   /* what a hand says of its sessions */
    LOOKED_AT = 64 << 10, /* the last bytes, in which a pattern is looked for */
};
/* How long a program that is talked to is waited for before its output is looked at: from the first
 * to the last, doubled each time. */
#define SLICE_FIRST 0.1
#define SLICE_LAST 5.0

/* --- one request --------------------------------------------------------------------------- */

struct talk {
    struct tn_http_exchange *x;
    struct box *box;
    struct tn_json *body;
    char name[NAME_SIZE]; /* of the session as the hand knows it */
    char *address, *key;  /* of the hand */
};

static struct tn_hand_address hand_of(const struct talk *t)
{
    return (struct tn_hand_address){.address = t->address, .key = t->key};
}

static void talk_done(struct talk *t)
{
    if (t->key)
        explicit_bzero(t->key, strlen(t->key));
    free(t->key);
    free(t->address);
    tn_json_free(t->body);
    box_release(t->box);
}
#define autotalk TN_CLEANUP(talk_done)

/* False: answered. */
static bool begin(struct talk *t, struct tn_http_exchange *x, struct tn_service *s)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    struct tn_error err = {0};

    *t = (struct talk){.x = x, .box = native_box(x, s, SCOPE_USE)};
    if (!t->box || surface_body(x, REX_BODY_MAX, &t->body))
        return false;
    const char *name = tn_json_get_str(t->body, "session", "default");
    size_t n = strlen(name);
    if (n == 0 || n > sizeof t->name - sizeof "rex-" || strspn(name, letters) != n) {
        rex_raise(x, REX_VALUE, "session: expected at most 36 letters, digits, '.', '_' and '-'");
        return false;
    }
    snprintf(t->name, sizeof t->name, "rex-%s", name);
    if (box_hand(t->box, &t->address, &t->key, tn_deadline_in(REX_SECONDS), &err)) {
        reply_error(x, &err);
        return false;
    }
    return true;
}

/* What the hand says of its sessions; the caller's. */
static struct tn_json *ask_hand(struct talk *t, const char *target, struct tn_error *err)
{
    const struct tn_hand_address at = hand_of(t);
    tn_autobuf struct tn_buf nothing = TN_BUF_INIT(1), answer = ANSWER_BUF(t->x, HAND_MAX);
    struct tn_json *tree = NULL;

    if (tn_hand_ask(&at, "GET", target, &nothing, &answer, tn_deadline_in(REX_SECONDS), err) == 0)
        hold_json(t->x, &answer, &tree, err);
    return tree;
}

/* Answers with what it has not been able to do with its session. */
static void fail(struct talk *t, const struct tn_error *err)
{
    const char *name = t->name + strlen("rex-");

    if (err->code == TN_E_NOT_FOUND)
        rex_raise(t->x, REX_NO_SESSION, "session '%s' does not exist", name);
    else if (err->code == TN_E_CONFLICT)
        rex_raise(t->x, REX_SESSION_EXISTS, "session %s already exists", name);
    else
        rex_raise_error(t->x, err);
}

/* --- a step: one action ---------------------------------------------------------------------- */

struct step {
    struct tn_json *tree; /* the observation */
    const char *said;     /* since the step before */
    const char *end;      /* why the wait ended */
    const char *command_id;
    int64_t exit_code;
};

static bool is_over(const struct step *s)
{
    return strcmp(s->end, "completed") == 0 || strcmp(s->end, "shell_exited") == 0 ||
           strcmp(s->end, "nothing_running") == 0;
}

static void step_done(struct step *s)
{
    tn_json_free(s->tree);
    *s = (struct step){0};
}
#define autostep TN_CLEANUP(step_done)

/* An answer to an action: -1 unless it was carried out. */
static int read_step(struct talk *t, struct step *s, int status, const struct tn_buf *answer,
                     struct tn_error *err)
{
    if (status != 200 && status != ACT_WAITS)
        return tn_hand_refused_text(status, tn_buf_str(answer), answer->len, err);
    if (hold_json(t->x, answer, &s->tree, err))
        return -1;
    const struct tn_json *metadata = tn_json_get(tn_json_get(s->tree, "extras"), "metadata");
    s->said = tn_json_get_str(s->tree, "content", "");
    s->end = tn_json_get_str(metadata, "end", "completed");
    s->command_id = tn_json_get_str(metadata, "command_id", NULL);
    s->exit_code = tn_json_int(tn_json_get(metadata, "exit_code"), -1);
    if (strcmp(tn_json_get_str(s->tree, "observation", ""), "run") != 0)
        return tn_fail(err, TN_E_DENIED, "%s", s->said);
    return 0;
}

/* seconds 0: as long as it takes. */
static int step(struct talk *t, const char *command, bool input, double seconds,
                const char *idempotency, struct step *s, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = ANSWER_BUF(t->x, ACTION_MAX);
    tn_autobuf struct tn_buf answer = ANSWER_BUF(t->x, OBSERVATION_MAX);
    const struct act_how how = {
        .idempotency = idempotency, .request = request_id(t->x), .watch = tn_http_fd(t->x)};
    struct tn_jw w = tn_jw(&body);
    struct act_news news = {0};

    step_done(s);
    tn_jw_object(&w);
    tn_jw_key(&w, "action");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "action", "run");
    tn_jw_key(&w, "args");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "command", command);
    tn_jw_kstr(&w, "session", t->name);
    tn_jw_kbool(&w, "blocking", true);
    tn_jw_kbool(&w, "script", true);
    tn_jw_kbool(&w, "is_input", input);
    tn_jw_kbool(&w, "literal", input);
    tn_jw_object_end(&w);
    if (seconds > 0)
        tn_jw_kdouble(&w, "timeout", seconds);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&body))
        return tn_fail(err, TN_E_TOO_LARGE, "The command is too large");
    int status =
        act(t->box, caller_of(t->x), tn_buf_str(&body), body.len, &how, &news, &answer, err);
    return status < 0 ? -1 : read_step(t, s, status, &answer, err);
}

/* --- what it said ---------------------------------------------------------------------------- */

static bool within(char c, char from, char to)
{
    return c >= from && c <= to;
}

/* How many bytes an escape sequence at that place has; 0: none. */
static size_t escape_length(const char *at)
{
    const char *end = at;

    if (end[0] != '\x1b' || !within(end[1], '@', '_'))
        return 0;
    for (end += 2; within(*end, '0', '?'); end++)
        ;
    for (; within(*end, ' ', '/'); end++)
        ;
    return within(*end, '@', '~') ? (size_t)(end + 1 - at) : 0;
}

/* Without escape sequences, lines ended as in a file. */
static void put_plain(struct tn_buf *out, const char *text, size_t len)
{
    for (const char *at = text; at < text + len; at++) {
        size_t n = escape_length(at);

        if (n)
            at += n - 1;
        else if (at[0] != '\r' || at[1] != '\n')
            tn_buf_add(out, at, 1);
    }
}

/* What a command wrote from there on, as long as it can be told, after what is in out. */
static int put_output(struct talk *t, const char *command_id, uint64_t *offset, struct tn_buf *out,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf raw = ANSWER_BUF(t->x, REX_TEXT_MAX);

    int r = tn_hand_output(t->address, t->key, command_id, false, offset, NULL, tn_buf_sink, &raw,
                           tn_deadline_in(REX_SECONDS), err);
    if (r == 0)
        put_plain(out, tn_buf_str(&raw), raw.len);
    return r > 0 || !tn_buf_ok(out)
               ? tn_fail(err, TN_E_TOO_LARGE, "it said more than %d MB", REX_TEXT_MAX >> 20)
               : r;
}

static void reply_output(struct talk *t, const char *output, bool told, int64_t code,
                         const char *met)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(t->x, REX_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "output", output);
    if (told)
        tn_jw_kint(&w, "exit_code", code);
    else
        tn_jw_knull(&w, "exit_code");
    tn_jw_kstr(&w, "failure_reason", "");
    tn_jw_kstr(&w, "expect_string", met);
    tn_jw_kstr(&w, "session_type", "bash");
    tn_jw_object_end(&w);
    tn_http_reply_json(t->x, 200, &json);
}

static void fail_in_time(struct talk *t, const char *command, double seconds)
{
    rex_raise(t->x, REX_TIMEOUT, "timeout after %g seconds while running command '%s'", seconds,
              command);
}

/* --- programs that are talked to ------------------------------------------------------------- */

struct wishes {
    regex_t patterns[EXPECT_MAX];
    const char *texts[EXPECT_MAX];
    size_t count;
};

static void wishes_done(struct wishes *w)
{
    while (w->count)
        regfree(&w->patterns[--w->count]);
}
#define autowishes TN_CLEANUP(wishes_done)

/* Short, without counts and without references to what was matched before. */
static bool is_harmless(const char *pattern)
{
    size_t groups = 0;

    for (const char *at = pattern; *at; at++) {
        if (*at == '{' || (at[0] == '\\' && at[1] >= '1' && at[1] <= '9'))
            return false;
        groups += *at == '(';
        at += at[0] == '\\' && at[1];
    }
    return strlen(pattern) <= PATTERN_MAX && groups <= GROUPS_MAX;
}

static int read_wishes(const struct tn_json *list, struct wishes *w, struct tn_error *err)
{
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *text = tn_json_str(tn_json_at(list, i), NULL);

        if (!text || w->count == EXPECT_MAX || !is_harmless(text) ||
            regcomp(&w->patterns[w->count], text, REG_EXTENDED))
            return tn_fail(err, TN_E_INVALID,
                           "expect: expected at most %d regular expressions of at most %d bytes, "
                           "without {} and \\1",
                           EXPECT_MAX, PATTERN_MAX);
        w->texts[w->count++] = text;
    }
    return 0;
}

/* Which of them comes first in the text, which ends there then; NULL: none. */
static const char *cut_at_wish(const struct wishes *w, struct tn_buf *text)
{
    size_t before = text->len > LOOKED_AT ? text->len - LOOKED_AT : 0;
    const char *first = NULL;
    regoff_t at = 0;

    for (size_t i = 0; i < w->count; i++) {
        regmatch_t m;

        if (regexec(&w->patterns[i], tn_buf_str(text) + before, 1, &m, 0) == 0 &&
            (!first || m.rm_so < at)) {
            first = w->texts[i];
            at = m.rm_so;
        }
    }
    if (first)
        tn_buf_cut(text, before + (size_t)at);
    return first;
}

/* How much the program that runs has written so far. */
static int look_back(struct talk *t, uint64_t *size, struct tn_error *err)
{
    tn_autofree char *target = tn_asprintf("/v1/sessions/%s/commands", t->name);
    tn_autojson struct tn_json *tree = ask_hand(t, target, err);

    if (!tree)
        return -1;
    const struct tn_json *all = tn_json_get(tree, "commands");
    size_t n = tn_json_count(all);
    *size = n ? (uint64_t)tn_json_int(tn_json_get(tn_json_at(all, n - 1), "size"), 0) : 0;
    return 0;
}

/* Sends a line and waits for one of the wishes, or for the end of the program. */
static void converse(struct talk *t, const char *line, bool input, double seconds)
{
    tn_autobuf struct tn_buf said = ANSWER_BUF(t->x, REX_TEXT_MAX);
    autowishes struct wishes wishes = {0};
    autostep struct step s = {0};
    int64_t deadline = seconds > 0 ? tn_deadline_in(seconds) : TN_NEVER;
    struct tn_error err = {0};
    const char *met = NULL, *send = line;
    uint64_t offset = 0;
    bool late = false;

    int failed = read_wishes(tn_json_get(t->body, "expect"), &wishes, &err) ||
                 (input && look_back(t, &offset, &err));
    for (double slice = SLICE_FIRST; !failed && !met && !late;
         slice = slice < SLICE_LAST ? 2 * slice : slice) {
        double left = deadline == TN_NEVER ? 2 * SLICE_LAST : (double)(deadline - tn_now()) / 1e9,
               wait = left > slice         ? slice
                      : left > SLICE_FIRST ? left
                                           : SLICE_FIRST;

        failed = step(t, send, input, wait, NULL, &s, &err) ||
                 (s.command_id && put_output(t, s.command_id, &offset, &said, &err));
        if (!failed && !(met = cut_at_wish(&wishes, &said)) && is_over(&s))
            met = PROMPT;
        late = left <= slice;
        send = "";
        input = false;
    }
    if (failed)
        fail(t, &err);
    else if (met)
        reply_output(t, tn_buf_str(&said), true, 0, met);
    else
        fail_in_time(t, line, seconds);
}

/* --- commands -------------------------------------------------------------------------------- */

static bool is_bash(const char *command, struct tn_error *err)
{
    struct tn_sh_tree *tree = tn_sh_parse(command, strlen(command), err);

    tn_sh_tree_free(tree);
    return tree || err->code != TN_E_INVALID; /* one that is too large is bash's to judge */
}

static void run(struct talk *t, const char *command, double seconds)
{
    const char *check = tn_json_get_str(t->body, "check", "raise");
    tn_autobuf struct tn_buf out = ANSWER_BUF(t->x, REX_TEXT_MAX);
    autostep struct step s = {0};
    struct tn_error err = {0};
    bool told = strcmp(check, "ignore") != 0;
    uint64_t offset = 0;

    if (!is_bash(command, &err)) {
        rex_raise(t->x, REX_SYNTAX, "syntax error in bash command '%s': %s", command, err.text);
        return;
    }
    if (!command[strspn(command, " \t\n")])
        command = ":"; /* the hand would wait for more of the command before */
    if (step(t, command, false, seconds, tn_http_header(t->x, "X-Request-ID"), &s, &err))
        fail(t, &err);
    else if (!is_over(&s))
        fail_in_time(t, command, seconds);
    else if (s.command_id && put_output(t, s.command_id, &offset, &out, &err))
        rex_raise_error(t->x, &err);
    else if (strcmp(check, "raise") == 0 && s.exit_code != 0)
        rex_raise_exit(t->x, t->body, s.exit_code, tn_buf_str(&out));
    else
        reply_output(t, tn_buf_str(&out), told, s.exit_code, PROMPT);
}

/* Ctrl-C as often as is asked for; then it is killed. */
static void interrupt(struct talk *t)
{
    const struct tn_hand_address at = hand_of(t);
    int64_t tries = tn_json_int(tn_json_get(t->body, "n_retry"), 3);
    double seconds = tn_json_double(tn_json_get(t->body, "timeout"), 0.2);
    tn_autobuf struct tn_buf said = ANSWER_BUF(t->x, REX_TEXT_MAX);
    autostep struct step s = {0};
    struct tn_error err = {0};
    int failed = 0;

    for (int64_t i = 0; !failed && i <= tries && i < 20; i++) {
        const char *number = i < tries ? "INT" : "KILL";

        failed = tn_hand_session_signal(&at, t->name, number, tn_deadline_in(REX_SECONDS), &err) &&
                 err.code != TN_E_CONFLICT; /* nothing runs any more */
        failed = failed || step(t, "", false, seconds > 0.1 ? seconds : 0.1, NULL, &s, &err);
        if (!failed && strcmp(s.end, "nothing_running") != 0)
            tn_buf_puts(&said, s.said); /* else that is the hand's own word for it */
        if (!failed && is_over(&s))
            break;
    }
    if (failed)
        fail(t, &err);
    else if (is_over(&s))
        reply_output(t, tn_buf_str(&said), true, 0, PROMPT);
    else
        rex_raise(t->x, REX_TIMEOUT, "Failed to interrupt session");
}

static void post_run(struct tn_http_exchange *x, void *ctx)
{
    autotalk struct talk t;
    tn_autojson struct tn_json *session = NULL;
    struct tn_error err = {0};

    if (!begin(&t, x, ctx))
        return;
    const struct tn_hand_address at = hand_of(&t);
    if (tn_hand_session_get(&at, t.name, &session, tn_deadline_in(REX_SECONDS), &err)) {
        fail(&t, &err);
        return;
    }
    const char *command = tn_json_get_str(t.body, "command", NULL);
    double seconds = tn_json_double(tn_json_get(t.body, "timeout"), 0);
    bool running = tn_json_bool(tn_json_get(session, "running"), false),
         talks = tn_json_bool(tn_json_get(t.body, "is_interactive_command"), false) ||
                 tn_json_bool(tn_json_get(t.body, "is_interactive_quit"), false);
    if (strcmp(tn_json_get_str(t.body, "action_type", "bash"), "bash_interrupt") == 0)
        interrupt(&t);
    else if (!command || seconds < 0)
        rex_raise(x, REX_VALUE, "expected a command, and a timeout that is no negative number");
    else if (talks || tn_json_count(tn_json_get(t.body, "expect")) > 0)
        converse(&t, command, running, seconds);
    else
        run(&t, command, seconds);
}

/* --- their lives ----------------------------------------------------------------------------- */

/* Sources what it is to source; said is what they say. */
static int prepare(struct talk *t, struct tn_buf *said, struct tn_error *err)
{
    const struct tn_json *files = tn_json_get(t->body, "startup_source");
    double seconds = tn_json_double(tn_json_get(t->body, "startup_timeout"), 1.0);
    autostep struct step s = {0};

    for (size_t i = 0; i < tn_json_count(files); i++) {
        const char *file = tn_json_str(tn_json_at(files, i), NULL);
        tn_autofree char *line = tn_asprintf("source %s", file ? file : "''");

        if (step(t, line, false, seconds, NULL, &s, err))
            return -1;
        tn_buf_puts(said, s.said);
        if (!is_over(&s))
            return tn_fail(err, TN_E_TIMEOUT, "'%.400s' takes longer than %g seconds", line,
                           seconds);
    }
    return 0;
}

static void post_create(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf said = ANSWER_BUF(x, REX_TEXT_MAX),
                             json = ANSWER_BUF(x, REX_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    autotalk struct talk t;

    if (!begin(&t, x, ctx))
        return;
    const struct tn_hand_address at = hand_of(&t);
    if (tn_hand_session_make(&at, t.name, "bash", NULL, tn_deadline_in(REX_SECONDS), &err)) {
        fail(&t, &err);
        return;
    }
    if (prepare(&t, &said, &err)) {
        tn_hand_session_remove(&at, t.name, tn_deadline_in(REX_SECONDS), NULL);
        rex_raise_error(x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "output", tn_buf_str(&said));
    tn_jw_kstr(&w, "session_type", "bash");
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void post_close(struct tn_http_exchange *x, void *ctx)
{
    static const char closed[] = "{\"session_type\":\"bash\"}";
    struct tn_error err = {0};
    autotalk struct talk t;

    if (!begin(&t, x, ctx))
        return;
    const struct tn_hand_address at = hand_of(&t);
    if (tn_hand_session_remove(&at, t.name, tn_deadline_in(REX_SECONDS), &err))
        fail(&t, &err);
    else
        tn_http_reply(x, 200, "application/json", closed, strlen(closed));
}

/* The sandbox stays: whoever made it ends it. */
static void post_close_all(struct tn_http_exchange *x, void *ctx)
{
    struct tn_error err = {0};
    autotalk struct talk t;

    if (!begin(&t, x, ctx))
        return;
    const struct tn_hand_address at = hand_of(&t);
    tn_autojson struct tn_json *tree = ask_hand(&t, "/v1/sessions", &err);
    if (!tree) {
        rex_raise_error(x, &err);
        return;
    }
    const struct tn_json *all = tn_json_get(tree, "sessions");
    for (size_t i = 0; i < tn_json_count(all); i++) {
        const char *name = tn_json_get_str(tn_json_at(all, i), "name", "");

        if (strncmp(name, "rex-", 4) == 0)
            tn_hand_session_remove(&at, name, tn_deadline_in(REX_SECONDS), NULL);
    }
    rex_reply_nothing(x);
}

#define ONE "/swerex/{id}"
const struct tn_route routes_swerex_session[] = {
    {"POST", ONE "/create_session", post_create, "SWE-ReX: a shell", 0},
    {"POST", ONE "/run_in_session", post_run, "SWE-ReX: a command in a shell, or ctrl-C", 0},
    {"POST", ONE "/close_session", post_close, "SWE-ReX: ends a shell", 0},
    {"POST", ONE "/close", post_close_all, "SWE-ReX: ends all of its shells", 0},
    {0},
};
