/* Why a container ended, and what troubles one that lives on. */
#include <signal.h>
#include <time.h>

#include "base/again.h"
#include "runtime/docker/docker.h"

enum { LAST_LINES = 3, LAST_WORDS_MAX = 400 };
#define EVENTS_SECONDS 1.0
/* By how much the engine may tell later that memory ran out than that the container ended. */
#define LATE_SECONDS 1.0
#define LATE_MS 50

/* "2026-01-31T12:00:00.123Z". */
static double seconds_of(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    double fraction = 0, digit = 0.1;

    for (const char *p = rest && *rest == '.' ? rest + 1 : ""; *p >= '0' && *p <= '9'; p++) {
        fraction += (*p - '0') * digit;
        digit /= 10;
    }
    return rest ? (double)timegm(&tm) + fraction : 0;
}

/* --- memory --------------------------------------------------------------------------------- */

static char *out_of_memory(const struct tn_json *tree)
{
    int64_t limit = tn_json_int(tn_json_get(tn_json_get(tree, "HostConfig"), "Memory"), 0);

    return limit > 0
               ? tn_asprintf("killed: out of memory (limit %lld MiB)", (long long)(limit >> 20))
               : tn_strdup("killed: out of memory");
}

static int count_event(const struct tn_json *event, void *ctx)
{
    ++*(int *)ctx;
    return 0;
}

/* Podman has no event for it. */
static bool tells_of_memory(const struct docker *d, const struct tn_json *tree)
{
    return strcmp(tn_engine_info(d->engine)->name, "docker") == 0 &&
           tn_json_int(tn_json_get(tn_json_get(tree, "HostConfig"), "Memory"), 0) > 0;
}

/* How often its memory ran out since then. */
static int oom_events(const struct docker *d, const struct tn_json *tree, double since,
                      int64_t deadline)
{
    const char *const filters[] = {"container", docker_id(tree), "event", "oom", NULL};
    int64_t soon = tn_deadline_in(EVENTS_SECONDS);
    int count = 0;

    if (tells_of_memory(d, tree))
        tn_engine_past_events(d->engine, filters, since, count_event, &count,
                              soon < deadline ? soon : deadline, NULL);
    return count;
}

/* Whether that is why it was killed.  The engine hears of it by another event than of the end; when
 * that one is the later, only the event itself says so. */
static bool memory_ran_out(const struct docker *d, const struct tn_json *tree, int64_t deadline)
{
    const struct tn_json *state = tn_json_get(tree, "State");
    double ended = seconds_of(tn_json_get_str(state, "FinishedAt", ""));
    double left = ended + LATE_SECONDS - (double)time(NULL);
    int64_t late = tn_deadline_in(left > 0 && left < 2 * LATE_SECONDS ? left : 0);

    if (tn_json_bool(tn_json_get(state, "OOMKilled"), false))
        return true;
    if (tn_json_int(tn_json_get(state, "ExitCode"), -1) != 128 + SIGKILL ||
        !tells_of_memory(d, tree))
        return false;
    do
        if (oom_events(d, tree, ended - LATE_SECONDS, deadline))
            return true;
    while (tn_look_again_in(LATE_MS, late < deadline ? late : deadline));
    return false;
}

/* A limit that was hit while the sandbox lives on. */
char *docker_trouble(const struct docker *d, const struct tn_json *tree, int64_t deadline)
{
    double started = seconds_of(tn_json_get_str(tn_json_get(tree, "State"), "StartedAt", ""));
    int count = oom_events(d, tree, started, deadline);

    if (!count)
        return NULL;
    tn_autofree char *what = out_of_memory(tree);
    return tn_asprintf("processes were %s, %d time%s", what, count, count == 1 ? "" : "s");
}

/* --- the end -------------------------------------------------------------------------------- */

static int keep_tail(int stream, const void *bytes, size_t n, void *ctx)
{
    tn_buf_add(ctx, bytes, n);
    return 0;
}

/* The last lines it printed as one; empty when it printed nothing. */
static char *last_words(const struct docker *d, const char *id, int64_t deadline)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10), out = TN_BUF_INIT(LAST_WORDS_MAX);

    tn_engine_logs(d->engine, id, false, LAST_LINES, keep_tail, &text, deadline, NULL);
    for (const char *line = tn_buf_str(&text); *line;) {
        size_t n = strcspn(line, "\r\n");
        if (n)
            tn_buf_printf(&out, "%s%.*s", out.len ? "; " : "", (int)n, line);
        line += n + strspn(line + n, "\r\n");
    }
    return tn_buf_take(&out);
}

char *docker_end_reason(const struct docker *d, const struct tn_json *tree, enum tn_blame *blame,
                        int64_t deadline)
{
    const struct tn_json *state = tn_json_get(tree, "State");
    const char *error = tn_json_get_str(state, "Error", "");
    int64_t code = tn_json_int(tn_json_get(state, "ExitCode"), -1);

    *blame = memory_ran_out(d, tree, deadline) ? TN_BLAME_MEMORY : TN_BLAME_NONE;
    if (*blame)
        return out_of_memory(tree);
    if (*error)
        return tn_strdup(error);
    if (code > 128 && code < 128 + 65)
        return tn_asprintf("killed by signal %lld (%s)", (long long)code - 128,
                           sigabbrev_np((int)code - 128) ? sigabbrev_np((int)code - 128) : "?");
    tn_autofree char *line = last_words(d, docker_id(tree), deadline);
    return tn_asprintf("the hand ended with status %lld%s%s", (long long)code, *line ? ": " : "",
                       line);
}
