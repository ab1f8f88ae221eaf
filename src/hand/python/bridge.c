#include "hand/python/bridge.h"

#include <poll.h>
#include <signal.h>

enum { LINE_MAX_BYTES = 32 << 20, READ_BYTES = 64 << 10, UNASKED_MAX = 16 };
#define END_SECONDS 0.2

struct bridge {
    struct tn_helper *helper;
    struct tn_buf in;
    size_t looked; /* so much of it holds no end of a line */
    int unasked;   /* lines since the last request */
};

struct bridge *bridge_start(struct tn_hand *hand, const char *interpreter, const char *directory,
                            const char *name, char *const *env, struct tn_error *err)
{
    tn_autofree char *program = tn_asprintf("%s/tendon_kernel.py", directory);
    tn_autofree char *prefix = tn_asprintf("%s/%s", directory, name);
    const struct tn_str_list *preload = &hand->options.python_preload;
    const char *const words[] = {interpreter, "-W", "ignore", program, prefix};
    tn_autofree const char **argv = tn_calloc(TN_COUNT(words) + preload->count + 1, sizeof *argv);
    memcpy(argv, words, sizeof words);
    for (size_t i = 0; i < preload->count; i++)
        argv[TN_COUNT(words) + i] = preload->items[i];
    struct tn_helper_spec spec = {
        .name = "the kernel",
        .argv = argv,
        .env = (const char *const *)env,
        .in = 3,
        .out = 4,
    };
    struct tn_helper *helper = tn_helper_start(hand, &spec, err);

    if (!helper)
        return NULL;
    struct bridge *b = tn_calloc(1, sizeof *b);
    b->helper = helper;
    tn_buf_init(&b->in, LINE_MAX_BYTES);
    return b;
}

void bridge_free(struct bridge *b)
{
    if (!b)
        return;
    tn_helper_free(b->helper);
    tn_buf_done(&b->in);
    free(b);
}

/* Not to the kernel itself: which process that is, only the bridge knows for certain, and what the
 * bridge says is the agent's word.  One that does not expect these signals yet ignores them. */
void bridge_interrupt(struct bridge *b)
{
    tn_helper_signal(b->helper, SIGURG, NULL);
}

void bridge_give_up(struct bridge *b)
{
    tn_helper_signal(b->helper, SIGWINCH, NULL);
}

struct tn_helper *bridge_helper(struct bridge *b)
{
    return b->helper;
}

static int fail_ended(struct bridge *b, struct tn_error *err)
{
    tn_autobuf struct tn_buf how = TN_BUF_INIT(8192);

    tn_helper_wait(b->helper, tn_deadline_in(END_SECONDS), NULL);
    tn_helper_obituary(b->helper, &how);
    return tn_fail(err, TN_E_PEER, "%s", tn_buf_str(&how));
}

int bridge_send(struct bridge *b, const struct tn_buf *line, int64_t deadline, struct tn_error *err)
{
    if (!tn_buf_ok(line))
        return tn_fail(err, TN_E_TOO_LARGE, "the cell is too long");
    b->unasked = 0;
    if (tn_helper_write(b->helper, tn_buf_str(line), line->len, deadline, err) == 0)
        return 0;
    return err->code == TN_E_PEER ? fail_ended(b, err)
                                  : tn_fail(err, err->code, "did not take its input in time");
}

void bridge_expect(struct bridge *b)
{
    b->unasked = 0;
}

/* 1 with the first whole line taken off the buffer, 0 when there is none. */
static int take_line(struct bridge *b, struct tn_json **message, struct tn_error *err)
{
    const char *end =
        b->in.len > b->looked ? memchr(b->in.data + b->looked, '\n', b->in.len - b->looked) : NULL;

    if (!end) {
        b->looked = b->in.len;
        return 0;
    }
    size_t len = (size_t)(end - b->in.data);
    int r = tn_json_parse(b->in.data, len, message, err);
    tn_buf_eat(&b->in, len + 1);
    b->looked = 0;
    /* The descriptor is also the agent's, who could keep us listening for ever. */
    if (r == 0 && ++b->unasked > UNASKED_MAX) {
        tn_json_free(TN_TAKE_PTR(*message));
        return tn_fail(err, TN_E_PEER, "talked without being asked");
    }
    if (r < 0) {
        err->code = TN_E_PEER;
        return tn_error_context(err, "the kernel's bridge");
    }
    return 1;
}

int bridge_receive(struct bridge *b, int64_t deadline, struct tn_json **message,
                   struct tn_error *err)
{
    struct pollfd p = {.fd = tn_helper_from(b->helper), .events = POLLIN};

    for (;;) {
        int r = take_line(b, message, err);
        if (r != 0)
            return r < 0 ? -1 : 0;
        char *to = tn_buf_reserve(&b->in, READ_BYTES);
        if (!to)
            return tn_fail(err, TN_E_PEER, "said more than %d bytes at once", LINE_MAX_BYTES);
        ssize_t n = read(p.fd, to, READ_BYTES);
        if (n > 0)
            tn_buf_grew(&b->in, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return fail_ended(b, err);
        else if (poll(&p, 1, tn_poll_ms(deadline)) == 0)
            return tn_fail(err, TN_E_TIMEOUT, "the kernel does not answer");
    }
}
