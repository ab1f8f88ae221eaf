/* What the engine says about a container, in our words. */
#include <netdb.h>
#include <sys/socket.h>

#include "runtime/docker/docker.h"

enum { LAST_LINES = 3, LAST_WORDS_MAX = 400 };
#define EVENTS_SECONDS 1.0

/* --- why it ended --------------------------------------------------------------------------- */

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

static char *out_of_memory(const struct tn_json *tree)
{
    int64_t limit = tn_json_int(tn_json_get(tn_json_get(tree, "HostConfig"), "Memory"), 0);

    return limit > 0
               ? tn_asprintf("killed: out of memory (limit %lld MiB)", (long long)(limit >> 20))
               : tn_strdup("killed: out of memory");
}

char *docker_end_reason(const struct docker *d, const struct tn_json *tree, int64_t deadline)
{
    const struct tn_json *state = tn_json_get(tree, "State");
    const char *error = tn_json_get_str(state, "Error", "");
    int64_t code = tn_json_int(tn_json_get(state, "ExitCode"), -1);

    if (tn_json_bool(tn_json_get(state, "OOMKilled"), false))
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

/* --- isolation ------------------------------------------------------------------------------ */

static bool has_option(const struct tn_json *list, const char *start)
{
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *item = tn_json_str(tn_json_at(list, i), NULL);
        if (item && strncmp(item, start, strlen(start)) == 0)
            return true;
    }
    return false;
}

static bool is_own(const struct tn_json *host_config, const char *mode)
{
    return strcmp(tn_json_get_str(host_config, mode, ""), "host") != 0;
}

static bool has_ulimit(const struct tn_json *host_config, const char *name)
{
    const struct tn_json *list = tn_json_get(host_config, "Ulimits");

    for (size_t i = 0; i < tn_json_count(list); i++)
        if (strcasecmp(tn_json_get_str(tn_json_at(list, i), "Name", ""), name) == 0)
            return true;
    return false;
}

static bool is_positive(const struct tn_json *host_config, const char *name)
{
    return tn_json_int(tn_json_get(host_config, name), 0) > 0;
}

/* The names are those of the jail. */
static char *isolation(const struct docker *d, const struct tn_json *tree)
{
    const struct tn_json *h = tn_json_get(tree, "HostConfig");
    const struct tn_json *options = tn_json_get(h, "SecurityOpt");
    const struct tn_engine_info *info = tn_engine_info(d->engine);
    bool privileged = tn_json_bool(tn_json_get(h, "Privileged"), false);
    bool none = strcmp(tn_json_get_str(h, "NetworkMode", ""), "none") == 0;
    tn_autofree char *engine = tn_asprintf("%s %s", info->name, info->version);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "engine", engine);
    tn_jw_kbool(&w, "privileged", privileged);
    tn_jw_kbool(&w, "pid", is_own(h, "PidMode"));
    tn_jw_kbool(&w, "mount", true);
    tn_jw_kbool(&w, "network", none);
    tn_jw_kstr(&w, "network_mode", tn_json_get_str(h, "NetworkMode", ""));
    tn_jw_kbool(&w, "ipc", is_own(h, "IpcMode"));
    tn_jw_kbool(&w, "uts", is_own(h, "UTSMode"));
    tn_jw_kbool(&w, "seccomp", !privileged && !has_option(options, "seccomp=unconfined"));
    tn_jw_kbool(&w, "no_new_privs", has_option(options, "no-new-privileges"));
    tn_jw_kbool(&w, "capabilities", !privileged && tn_json_count(tn_json_get(h, "CapDrop")) > 0);
    tn_jw_kbool(&w, "memory_limit", is_positive(h, "Memory"));
    tn_jw_kbool(&w, "cpu_limit", is_positive(h, "NanoCpus") || is_positive(h, "CpuQuota"));
    tn_jw_kbool(&w, "pids_limit", is_positive(h, "PidsLimit"));
    tn_jw_kbool(&w, "disk_limit", tn_json_get(tn_json_get(h, "StorageOpt"), "size") != NULL);
    tn_jw_kbool(&w, "file_size_limit", has_ulimit(h, "fsize") || has_ulimit(h, "RLIMIT_FSIZE"));
    tn_jw_kbool(&w, "open_files_limit", has_ulimit(h, "nofile") || has_ulimit(h, "RLIMIT_NOFILE"));
    tn_jw_object_end(&w);
    return tn_buf_take(&out);
}

/* --- where the hand is ---------------------------------------------------------------------- */

/* The client of the hand takes numbers only. */
static char *resolve(const char *host, int port, struct tn_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char number[NI_MAXHOST];

    int r = getaddrinfo(host, NULL, &hints, &found);
    if (r == 0)
        r = getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof number, NULL, 0,
                        NI_NUMERICHOST);
    if (found)
        freeaddrinfo(found);
    if (r != 0) {
        tn_fail(err, TN_E_PEER, "%s: %s", host, gai_strerror(r));
        return NULL;
    }
    return tn_asprintf(strchr(number, ':') ? "[%s]:%d" : "%s:%d", number, port);
}

char *docker_address(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                     struct tn_error *err)
{
    const char *hand = docker_label(tree, DOCKER_LABEL_HAND);
    tn_autofree char *host = NULL;

    if (strcmp(hand, "socket") == 0)
        return docker_socket_address(s);
    int inside = (int)strtol(hand, NULL, 10);
    if (docker_has_host_network(tree))
        return resolve(docker_reach(d, ""), inside, err);
    int port = docker_published(d, tree, inside, &host);
    if (port > 0)
        return resolve(host, port, err);
    tn_fail(err, TN_E_PEER, "the engine does not publish port %s of the hand", hand);
    return NULL;
}

/* --- the place ------------------------------------------------------------------------------ */

static const struct {
    const char *word;
    enum tn_status status;
} states[] = {
    {"created", TN_STATUS_STOPPED},    {"initialized", TN_STATUS_STOPPED},
    {"configured", TN_STATUS_STOPPED}, {"running", TN_STATUS_RUNNING},
    {"paused", TN_STATUS_PAUSED},      {"restarting", TN_STATUS_STARTING},
    {"removing", TN_STATUS_MISSING},   {"exited", TN_STATUS_ERROR},
    {"stopped", TN_STATUS_ERROR},      {"stopping", TN_STATUS_STOPPED},
    {"dead", TN_STATUS_ERROR},
};

/* By us, or by itself without a fault. */
static bool ended_well(const struct tn_subject *s, const struct tn_json *tree)
{
    const struct tn_json *state = tn_json_get(tree, "State");
    tn_autojson struct tn_json *ref = NULL;

    if (tn_json_bool(tn_json_get(state, "OOMKilled"), false))
        return false;
    if (tn_json_int(tn_json_get(state, "ExitCode"), -1) == 0 &&
        !*tn_json_get_str(state, "Error", ""))
        return true;
    return s->ref && tn_json_parse(s->ref, strlen(s->ref), &ref, NULL) == 0 &&
           tn_json_bool(tn_json_get(ref, "stopped"), false);
}

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

static int count_event(const struct tn_json *event, void *ctx)
{
    ++*(int *)ctx;
    return 0;
}

/* A limit that was hit while the sandbox lives on.  (Podman has no event for it.) */
static char *trouble(const struct docker *d, const struct tn_json *tree, int64_t deadline)
{
    int64_t soon = tn_deadline_in(EVENTS_SECONDS);
    const char *const filters[] = {"container", docker_id(tree), "event", "oom", NULL};
    double started = seconds_of(tn_json_get_str(tn_json_get(tree, "State"), "StartedAt", ""));
    int count = 0;

    if (strcmp(tn_engine_info(d->engine)->name, "docker") != 0 ||
        !is_positive(tn_json_get(tree, "HostConfig"), "Memory"))
        return NULL;
    tn_engine_past_events(d->engine, filters, started, count_event, &count,
                          soon < deadline ? soon : deadline, NULL);
    if (!count)
        return NULL;
    tn_autofree char *what = out_of_memory(tree);
    return tn_asprintf("processes were %s, %d time%s", what, count, count == 1 ? "" : "s");
}

int docker_place(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    const char *word = docker_status(tree);

    place->status = TN_STATUS_ERROR;
    for (size_t i = 0; i < TN_COUNT(states); i++)
        if (strcmp(states[i].word, word) == 0)
            place->status = states[i].status;
    if (place->status == TN_STATUS_ERROR && strcmp(word, "dead") != 0 && ended_well(s, tree))
        place->status = TN_STATUS_STOPPED;
    place->ref = docker_ref(docker_id(tree), place->status == TN_STATUS_STOPPED);
    place->isolation = isolation(d, tree);
    if (place->status == TN_STATUS_ERROR)
        place->reason = docker_end_reason(d, tree, deadline);
    if (place->status != TN_STATUS_RUNNING && place->status != TN_STATUS_PAUSED)
        return 0;
    place->address = docker_address(d, s, tree, err);
    return place->address ? 0 : -1;
}

int docker_inspect(void *engine, const struct tn_subject *s, struct tn_place *place,
                   int64_t deadline, struct tn_error *err)
{
    const struct docker *d = engine;
    tn_autojson struct tn_json *tree = NULL;

    *place = (struct tn_place){.status = TN_STATUS_MISSING};
    if (docker_find(d, s, &tree, deadline, err) < 0 ||
        (tree && docker_place(d, s, tree, place, deadline, err) < 0)) {
        tn_place_done(place);
        return tn_error_context(err, "docker: sandbox %s", s->id);
    }
    if (place->status == TN_STATUS_RUNNING)
        place->reason = trouble(d, tree, deadline);
    return 0;
}
