/* An action of a client while it runs: progress, and the end of the client's interest. */
#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/mcp/mcp.h"
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
        tn_mcp_progress(w->request, (double)(tn_now() - w->started) / 1e9, -1, NULL);
    }
    return NULL;
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
    int r = tn_sandbox_execute(sb, action, o, err);
    eventfd_write(done, 1);
    pthread_join(w.thread, NULL);
    return r;
}
