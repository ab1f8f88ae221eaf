/* A cell and who listens to it: the request's thread asks the hand for what the cell prints
 * (/v1/cells) while another one waits for the observation.
 *
 * The kernel tells each event of a cell as a line of JSON after a mark (python/e2b_cells.py); what
 * is on other lines was written by programs that it started, or is a note of the hand. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "runtime/hand-address.h"
#include "service/caller.h"
#include "service/cells.h"
#include "service/e2b/cells.h"
#include "service/proxy.h"

#define ASK_SECONDS 60.0
enum {
    LINE_MAX_BYTES = 32 << 20,
    LIVE_WAIT = 20, /* seconds that the hand may keep a question for more */
    AGAIN_MS = 200,
};
static const char mark[] = "@@e2b ", variables[] = "#@@e2b-env ";
static const char no_output[] = "[Code executed successfully with no output]";
static const char late[] = "[Execution timed out (";

struct cell {
    const struct cells *c;
    const struct cells_wish *wish;
    const struct cells_listener *listener;
    char id[65];        /* of this one alone, which clients that choose their ids cannot share */
    struct tn_buf line; /* what it has printed of its next one */
    bool told, left;    /* some event; nobody listens any more */
    /* Of the thread that waits for the observation. */
    int ended, given_up; /* eventfds */
    int failed;
    struct tn_json *observation;
    struct tn_error err;
};

/* --- as an action ----------------------------------------------------------------------------- */

/* Its variables, if there are any, in a line before it that the kernel takes away. */
static void put_code(struct tn_jw *w, const struct cells_wish *wish, struct tn_purse *purse)
{
    tn_autobuf struct tn_buf code = {.max = ACTION_MAX, .purse = purse};
    struct tn_jw inner = tn_jw(&code);

    if (tn_json_count(wish->env)) {
        tn_buf_puts(&code, variables);
        tn_jw_tree(&inner, wish->env);
        tn_buf_puts(&code, "\n");
    }
    tn_buf_puts(&code, wish->code);
    tn_jw_key(w, "code");
    tn_jw_strn(w, tn_buf_str(&code), code.len);
}

static void put_start(struct tn_jw *w, const struct cells_wish *wish)
{
    tn_autobuf struct tn_buf code = TN_BUF_INIT(ACTION_MAX);

    for (int i = 0; i <= wish->charts; i++)
        tn_buf_add(&code, e2b_cells[i].bytes, e2b_cells[i].size);
    tn_jw_key(w, "kernel_init_code");
    tn_jw_strn(w, tn_buf_str(&code), code.len);
}

static void put_action(struct tn_buf *out, const struct cells_wish *wish)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_key(&w, "action");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "action", "run_ipython");
    tn_jw_key(&w, "args");
    tn_jw_object(&w);
    put_code(&w, wish, out->purse);
    tn_jw_kbool(&w, "include_extra", false);
    tn_jw_kstr(&w, "session", wish->kernel);
    put_start(&w, wish);
    tn_jw_object_end(&w);
    tn_jw_kdouble(&w, "timeout", wish->seconds);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
}

static int carry_out(struct cell *cell, struct tn_error *err)
{
    struct tn_http_exchange *x = cell->c->x;
    tn_autobuf struct tn_buf body = ANSWER_BUF(x, ACTION_MAX);
    tn_autobuf struct tn_buf answer = ANSWER_BUF(x, OBSERVATION_MAX);
    const struct act_how how = {.request = cell->id, .watch = cell->given_up};
    struct act_news news = {0};

    put_action(&body, cell->wish);
    int status =
        act(cell->c->b, caller_of(x), tn_buf_str(&body), body.len, &how, &news, &answer, err);
    if (status < 0)
        return -1;
    if (status == ACT_WAITS)
        return tn_fail(err, TN_E_CONFLICT, "this code waits for somebody's confirmation");
    if (status != 200)
        return tn_fail(err, TN_E_INVALID, "the code could not be run");
    if (hold_json(x, &answer, &cell->observation, err))
        return -1;
    if (strcmp(tn_json_get_str(cell->observation, "observation", ""), "error") == 0)
        return tn_fail(err, TN_E_INVALID, "%.400s", cells_content(cell->observation));
    return 0;
}

static void *await_observation(void *arg)
{
    struct cell *cell = arg;

    cell->failed = carry_out(cell, &cell->err);
    eventfd_write(cell->ended, 1);
    return NULL;
}

/* --- what came of it -------------------------------------------------------------------------- */

const char *cells_content(const struct tn_json *observation)
{
    return tn_json_get_str(observation, "content", "");
}

bool cells_was_late(const struct tn_json *observation)
{
    const char *text = cells_content(observation), *found = strstr(text, late);

    while (found && found != text && found[-1] != '\n')
        found = strstr(found + 1, late);
    return found != NULL;
}

static void tell(struct cell *cell, const char *type, const char *json, size_t n)
{
    cell->told = true;
    cell->listener->event(type, json, n, cell->listener->ctx);
}

/* False: it is no event. */
static bool tell_event(struct cell *cell, const char *line, size_t n)
{
    tn_autojson struct tn_json *event = NULL;

    if (tn_json_parse(line, n, &event, NULL) || tn_json_type(event) != TN_JSON_OBJECT ||
        !tn_json_get_str(event, "type", NULL))
        return false;
    tell(cell, tn_json_get_str(event, "type", ""), line, n);
    return true;
}

static void tell_text(struct cell *cell, const char *text, size_t n)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(OBSERVATION_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "stdout");
    tn_jw_key(&w, "text");
    tn_jw_strn(&w, text, n);
    tn_jw_kint(&w, "timestamp", 0);
    tn_jw_object_end(&w);
    tell(cell, "stdout", tn_buf_str(&json), json.len);
}

/* Its n bytes, behind which there is a newline. */
static void tell_line(struct cell *cell, const char *line, size_t n)
{
    static const size_t marked = sizeof mark - 1;

    if (n > marked && strncmp(line, mark, marked) == 0 &&
        tell_event(cell, line + marked, n - marked))
        return;
    if (n && strncmp(line, no_output, sizeof no_output - 1) != 0)
        tell_text(cell, line, n + 1);
}

/* The next bytes of what it prints. */
static void take(struct cell *cell, const char *bytes, size_t n)
{
    const char *end;

    tn_buf_add(&cell->line, bytes, n);
    while (cell->line.len && (end = memchr(cell->line.data, '\n', cell->line.len))) {
        size_t length = (size_t)(end - cell->line.data);
        tell_line(cell, cell->line.data, length);
        tn_buf_eat(&cell->line, length + 1);
    }
    if (!tn_buf_ok(&cell->line)) /* a line without an end */
        tn_buf_reset(&cell->line);
}

/* --- following it ----------------------------------------------------------------------------- */

/* Asks the hand for what the cell has printed from *offset on; false: that was all, or it does not
 * say. */
static bool hear(struct cell *cell, struct tn_http_client *hand, uint64_t *offset, int wait)
{
    tn_autobuf struct tn_buf text = {.max = LINE_MAX_BYTES, .purse = cell->line.purse};
    char target[160];

    snprintf(target, sizeof target, "/v1/cells/%s/output?offset=%llu&wait=%d", cell->id,
             (unsigned long long)*offset, wait);
    const struct tn_http_call call = {.target = target,
                                      .deadline = tn_deadline_in(wait + ASK_SECONDS)};
    if (tn_http_client_call(hand, &call, &text, NULL) != 200)
        return false;
    take(cell, tn_buf_str(&text), text.len);
    *offset += text.len;
    const char *finished = tn_http_client_answer(hand, "X-Output-Finished");
    return (wait || text.len) && !(finished && strcmp(finished, "true") == 0);
}

static bool wait_ended(const struct cell *cell, int ms)
{
    return poll(&(struct pollfd){.fd = cell->ended, .events = POLLIN}, 1, ms) > 0;
}

/* Readable when the cell has ended, or the client stirs. */
static int either(const struct cell *cell)
{
    struct epoll_event ended = {.events = EPOLLIN}, stirs = {.events = cell->listener->stirs};
    tn_autofd int fd = epoll_create1(EPOLL_CLOEXEC);

    return epoll_ctl(fd, EPOLL_CTL_ADD, cell->ended, &ended) ||
                   epoll_ctl(fd, EPOLL_CTL_ADD, tn_http_fd(cell->c->x), &stirs)
               ? -1
               : TN_TAKE_FD(fd);
}

/* Until it has ended, whatever it is at: at its judge, on its way to the hand, in line there, or
 * running. */
static void give_up(const struct cell *cell, struct tn_http_client *hand)
{
    char target[128];

    eventfd_write(cell->given_up, 1);
    snprintf(target, sizeof target, "/v1/cells/%s", cell->id);
    while (!wait_ended(cell, 0)) {
        const struct tn_http_call call = {
            .method = "DELETE", .target = target, .deadline = tn_deadline_in(ASK_SECONDS)};
        tn_http_client_call(hand, &call, NULL, NULL);
        wait_ended(cell, AGAIN_MS);
    }
}

static bool stays(struct cell *cell)
{
    cell->left = cell->left || !cell->listener->stays(cell->listener->ctx);
    return !cell->left;
}

static int start_and_follow(struct cell *cell, struct tn_http_client *hand, struct tn_error *err)
{
    tn_autofd int over = either(cell);
    struct pollfd something = {.fd = over, .events = POLLIN};
    uint64_t offset = 0;
    pthread_t thread;

    hear(cell, hand, &offset, 0); /* so that the hand keeps it */
    if (over < 0 || tn_thread_start(&thread, await_observation, cell))
        return tn_fail(err, TN_E_BUSY, "no thread or descriptor for the cell just now; try again");
    tn_http_client_cancel_by(hand, over);
    while (stays(cell) && !wait_ended(cell, 0))
        if (!hear(cell, hand, &offset, LIVE_WAIT))
            poll(&something, 1, -1);
    tn_http_client_cancel_by(hand, -1);
    if (!stays(cell))
        give_up(cell, hand);
    pthread_join(thread, NULL);
    while (!cell->left && hear(cell, hand, &offset, 0)) /* what came with its end */
        ;
    if (cell->line.len)
        take(cell, "\n", 1);
    *err = cell->err;
    return cell->failed;
}

int cells_follow(const struct cells *c, const struct cells_wish *wish,
                 const struct cells_listener *listener, struct tn_json **out, struct tn_error *err)
{
    tn_autofree char *address = NULL, *key = NULL;
    tn_autofd int ended = eventfd(0, EFD_CLOEXEC), given_up = eventfd(0, EFD_CLOEXEC);
    struct cell cell = {.c = c,
                        .wish = wish,
                        .listener = listener,
                        .line = ANSWER_BUF(c->x, LINE_MAX_BYTES),
                        .ended = ended,
                        .given_up = given_up};

    char own[CELLS_ID];
    if (cells_new_id(own, err) || box_hand(c->b, &address, &key, tn_deadline_in(ASK_SECONDS), err))
        return -1;
    snprintf(cell.id, sizeof cell.id, "%.47s-%s", request_id(c->x), own);
    struct tn_http_client *hand = tn_hand_http(address, key, err);
    int failed = hand ? start_and_follow(&cell, hand, err) : -1;
    if (!failed && !cell.told && !cell.left) { /* a hand that lets nobody follow */
        const char *content = cells_content(cell.observation);
        take(&cell, content, strlen(content));
        take(&cell, "\n", 1);
    }
    *out = cell.observation;
    tn_http_client_free(hand);
    tn_buf_done(&cell.line);
    return failed;
}
