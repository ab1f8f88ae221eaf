/* An action of a client while it runs: progress, and the end of the client's interest. */
#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/mcp/mcp.h"
#include "runtime/hand-output.h"
#include "runtime/hand-plugins.h"
#include "runtime/hand-sessions.h"

#define PROGRESS_MS 1000

/* Tells the client that it goes on, interrupts the program when the client gives up, and removes
 * its sandboxes when it has left. */
struct watch {
    struct mcp_client *client;
    struct tn_mcp_request *request;
    struct tn_hand_address at;
    const struct tn_action *action;
    int done; /* eventfd */
    int64_t started;
    pthread_t thread;
};

static bool client_has_left(struct tn_mcp_request *request)
{
    struct tn_mcp_client *client = tn_mcp_client_ref(tn_mcp_request_client(request));

    tn_mcp_client_unref(client);
    return !client;
}

static bool is_cancelled(const struct tn_mcp_request *request)
{
    struct pollfd p = {.fd = tn_mcp_request_cancel_fd(request), .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

static void interrupt(const struct tn_hand_address *at, const struct tn_action *a)
{
    int64_t deadline = tn_deadline_in(5);

    if (a->type == TN_ACTION_RUN)
        tn_hand_session_signal(at, a->run.session, "INT", deadline, NULL);
    else if (a->type == TN_ACTION_RUN_IPYTHON)
        tn_hand_plugin_interrupt(at, "jupyter", deadline, NULL);
    else if (a->type == TN_ACTION_BROWSE || a->type == TN_ACTION_BROWSE_INTERACTIVE)
        tn_hand_plugin_interrupt(at, "browser", deadline, NULL);
}

/* The request is cancelled; called again and again, because a program may just be starting. */
static void give_up(struct watch *w)
{
    if (client_has_left(w->request))
        mcp_client_gone(w->client);
    else
        interrupt(&w->at, w->action);
}

/* --- the tail of the output ------------------------------------------------------------------ */

enum { TAIL_BYTES = 2000, TAIL_LINES = 3, TAIL_SHOWN = 500, LIST_MAX = 1 << 20 };
#define TAIL_SECONDS 2.0

/* Bytes of a terminal as plain lines: without escape sequences and other controls. */
static void make_plain(struct tn_buf *b)
{
    char *s = b->data;
    size_t to = 0;

    for (size_t i = 0; i < b->len; i++) {
        if (s[i] == '\033' && i + 1 < b->len && s[i + 1] == '[')
            for (i += 2; i < b->len && (s[i] < '@' || s[i] > '~'); i++)
                ;
        else if (s[i] == '\n' || s[i] == '\t' || ((unsigned char)s[i] >= ' ' && s[i] != 127))
            s[to++] = s[i];
    }
    tn_buf_cut(b, to);
}

/* Where the last lines begin. */
static const char *last_lines(const struct tn_buf *text)
{
    const char *s = tn_buf_str(text);
    size_t at = text->len, lines = 0;

    while (at > 0 && text->len - at < TAIL_SHOWN && (s[at - 1] != '\n' || ++lines < TAIL_LINES))
        at--;
    while (((unsigned char)s[at] & 0xC0) == 0x80) /* not in the middle of a letter */
        at++;
    return s + at;
}

/* What the command that runs there wrote last; "" when nothing did, or it cannot be told. */
static void put_tail(const struct watch *w, struct tn_buf *out)
{
    tn_autobuf struct tn_buf list = TN_BUF_INIT(LIST_MAX), bytes = TN_BUF_INIT(64 << 10);
    const struct tn_buf nothing = TN_BUF_INIT(1);
    tn_autojson struct tn_json *tree = NULL;
    tn_autofree char *target = tn_asprintf("/v1/sessions/%s/commands", w->action->run.session);
    int64_t deadline = tn_deadline_in(TAIL_SECONDS);

    if (tn_hand_ask(&w->at, "GET", target, &nothing, &list, deadline, NULL) < 0 ||
        tn_json_parse(tn_buf_str(&list), list.len, &tree, NULL) < 0)
        return;
    const struct tn_json *commands = tn_json_get(tree, "commands");
    size_t n = tn_json_count(commands);
    const struct tn_json *last = n ? tn_json_at(commands, n - 1) : NULL;
    const char *id = tn_json_get_str(last, "id", NULL);
    int64_t size = tn_json_int(tn_json_get(last, "size"), 0);
    uint64_t offset = size > TAIL_BYTES ? (uint64_t)(size - TAIL_BYTES) : 0;
    if (!id || tn_json_bool(tn_json_get(last, "finished"), false) ||
        tn_hand_output(w->at.address, w->at.key, id, false, &offset, NULL, tn_buf_sink, &bytes,
                       deadline, NULL) < 0)
        return;
    make_plain(&bytes);
    while (bytes.len && bytes.data[bytes.len - 1] == '\n')
        tn_buf_cut(&bytes, bytes.len - 1);
    tn_buf_puts(out, last_lines(&bytes));
}

static void tell_progress(const struct watch *w)
{
    tn_autobuf struct tn_buf tail = TN_BUF_INIT(64 << 10);

    if (!tn_mcp_wants_progress(w->request))
        return;
    if (w->action->type == TN_ACTION_RUN)
        put_tail(w, &tail);
    tn_mcp_progress(w->request, (double)(tn_now() - w->started) / 1e9, -1,
                    tail.len ? tn_buf_str(&tail) : NULL);
}

static void *watch(void *arg)
{
    struct watch *w = arg;
    bool cancelled = false;
    struct pollfd p[] = {{.fd = w->done, .events = POLLIN},
                         {.fd = tn_mcp_request_cancel_fd(w->request), .events = POLLIN}};

    while (poll(p, TN_COUNT(p), PROGRESS_MS) >= 0 || errno == EINTR) {
        if (p[0].revents)
            break;
        if (p[1].revents) {
            cancelled = true;
            p[1].fd = -1;
        }
        if (cancelled)
            give_up(w);
        tell_progress(w);
    }
    return NULL;
}

static void keep_verdict(struct tool_call *c, const struct tn_observation *o)
{
    tn_json_free(c->verdict);
    c->verdict = tn_json_ref(o->event.verdict);
}

int mcp_execute(struct tool_call *c, const char *sandbox, const struct tn_action *action,
                struct tn_observation *o, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = mcp_sandbox(c->client, sandbox, err);
    struct watch w = {
        .client = c->client, .request = c->request, .action = action, .started = tn_now()};
    const char *address, *key;

    if (!sb || tn_sandbox_address(sb, &address, &key, tn_deadline_in(30), err) < 0)
        return -1;
    /* The sandbox may replace its own while the thread uses them. */
    tn_autofree char *own_address = tn_strdup(address);
    tn_autofree char *own_key = tn_strdup_or_null(key);
    w.at = (struct tn_hand_address){.address = own_address, .key = own_key};
    if (is_cancelled(c->request)) /* while the sandbox was made */
        return tn_fail(err, TN_E_GONE, "cancelled");
    tn_autofd int done = w.done = eventfd(0, EFD_CLOEXEC);
    int sys = done < 0 ? errno : tn_thread_start(&w.thread, watch, &w);
    if (sys)
        return tn_fail_errno(err, sys, "cannot start a thread");
    tn_sandbox_set_ask(sb, mcp_elicit, c, false);
    int r = tn_sandbox_execute(sb, action, o, err);
    eventfd_write(done, 1);
    pthread_join(w.thread, NULL);
    if (r >= 0)
        keep_verdict(c, o);
    return r;
}

int mcp_perform(struct tool_call *c, const char *sandbox, const struct tn_action *action,
                tn_perform_fn fn, void *ctx, struct tn_observation *o, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = mcp_sandbox(c->client, sandbox, err);

    if (!sb)
        return -1;
    tn_sandbox_set_ask(sb, mcp_elicit, c, false);
    int r = tn_sandbox_perform(sb, action, fn, ctx, o, err);
    if (r >= 0)
        keep_verdict(c, o);
    return r;
}
