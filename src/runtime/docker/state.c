/* What the engine says about a container, in our words. */
#include <netdb.h>
#include <sys/socket.h>

#include "jail/isolation.h"
#include "runtime/docker/docker.h"
#include "runtime/gated.h"

enum { REASON_MAX = 8192 };

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

static const struct {
    const char *word;
    int reach; /* enum tn_jail_reach */
} reaches[] = {
    {"none", TN_JAIL_REACH_NONE},
    {"host", TN_JAIL_REACH_HOST},
    {"open", TN_JAIL_REACH_OPEN},
    {"allow", TN_JAIL_REACH_ALLOW},
};

const char *docker_reaches(const char *network)
{
    for (size_t i = 0; i < TN_COUNT(reaches); i++)
        if (strcmp(reaches[i].word, network) == 0)
            return tn_jail_reach_sentence(reaches[i].reach);
    return "what the engine's own network leads to: there is no gate";
}

/* In the words of a jail; the engine's other networks have names of their own. */
static void put_reach(struct tn_jw *w, const struct tn_json *tree, const struct tn_spec *spec,
                      const char *mode)
{
    const char *label = docker_label(tree, DOCKER_LABEL_NETWORK);
    bool alone = strcmp(mode, "none") == 0 || strcmp(mode, "host") == 0;
    const char *reach = *label  ? tn_networks[docker_gate_network(spec, label)]
                        : alone ? mode
                                : tn_networks[TN_NETWORK_BRIDGE];

    tn_jw_kbool(w, "gated", *label != '\0');
    tn_jw_kstr(w, "reach", reach);
    tn_jw_kstr(w, "reaches", docker_reaches(reach));
}

/* The names are those of the jail. */
static char *isolation(const struct docker *d, const struct tn_json *tree,
                       const struct tn_spec *spec)
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
    tn_jw_kstr(&w, "gvisor", docker_has_gvisor(d, tree) ? "by the engine" : "none");
    tn_jw_kbool(&w, "privileged", privileged);
    tn_jw_kbool(&w, "pid", is_own(h, "PidMode"));
    tn_jw_kbool(&w, "mount", true);
    tn_jw_kbool(&w, "network", none);
    tn_jw_kstr(&w, "network_mode", tn_json_get_str(h, "NetworkMode", ""));
    put_reach(&w, tree, spec, tn_json_get_str(h, "NetworkMode", ""));
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

int docker_place(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    const char *word = docker_status(tree);
    struct tn_proc process;

    place->status = TN_STATUS_ERROR;
    for (size_t i = 0; i < TN_COUNT(states); i++)
        if (strcmp(states[i].word, word) == 0)
            place->status = states[i].status;
    if (place->status == TN_STATUS_ERROR && strcmp(word, "dead") != 0 && ended_well(s, tree))
        place->status = TN_STATUS_STOPPED;
    docker_process(d, tree, &process);
    place->ref = docker_ref(docker_id(tree), docker_label(tree, DOCKER_LABEL_NETWORK),
                            place->status == TN_STATUS_STOPPED, &process);
    place->isolation = isolation(d, tree, s->spec);
    if (place->status == TN_STATUS_ERROR)
        place->reason = docker_end_reason(d, tree, &place->blame, deadline);
    if (place->status != TN_STATUS_RUNNING && place->status != TN_STATUS_PAUSED)
        return 0;
    place->address = docker_address(d, s, tree, err);
    return place->address ? 0 : -1;
}

/* What troubles one that lives, and what its gate refuses; a gate that was lost is there again. */
static char *live_reason(const struct docker *d, const struct tn_subject *s,
                         const struct tn_json *tree, int64_t deadline)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(REASON_MAX);
    tn_autofree char *trouble = docker_trouble(d, tree, deadline);
    struct tn_error why = {0};

    if (trouble)
        tn_buf_puts(&out, trouble);
    if (docker_gate_up(d, s, tree, deadline, &why) < 0)
        tn_buf_printf(&out, "%sits network is cut off: %s", out.len ? "; " : "", why.text);
    else if (*docker_label(tree, DOCKER_LABEL_NETWORK))
        tn_gated_put_refusals(&out, s, deadline);
    return out.len ? tn_buf_take(&out) : NULL;
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
    if (place->status == TN_STATUS_RUNNING || place->status == TN_STATUS_PAUSED)
        place->reason = live_reason(d, s, tree, deadline);
    return 0;
}
