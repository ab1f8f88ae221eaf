/* The network of a container, and the gate of one that has it: the container is made with a network
 * that leads nowhere, in which a keeper of this machine raises the wall (jail/container.c). */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/again.h"
#include "base/file-lock.h"
#include "base/fs.h"
#include "gate/roots.h"
#include "gate/wall.h"
#include "jail/plan.h"
#include "runtime/docker/docker.h"
#include "runtime/gated.h"
#include "runtime/programs.h"
#include "runtime/secrets.h"

#define RESOLVER "nameserver " TN_WALL_NAMES4 "\n"
#define END_SECONDS 10.0
#define END_MS 10
enum { WORDS_MAX = 4096 };

/* --- which network ------------------------------------------------------------------------- */

/* What the spec, the kwargs of the engine, or the configuration say: the first that says anything.
 */
static int said_network(const struct tn_config *c, const struct tn_spec *spec)
{
    const struct tn_json *kwargs = c->sandbox.docker_runtime_kwargs;
    const char *mode =
        tn_json_get_str(kwargs, "network_mode", tn_json_get_str(kwargs, "network", ""));

    if (spec->network != TN_NETWORK_DEFAULT)
        return spec->network;
    if (tn_json_bool(tn_json_get(kwargs, "network_disabled"), false) || strcmp(mode, "none") == 0)
        return TN_NETWORK_NONE;
    if (*mode)
        return strcmp(mode, "host") == 0 ? TN_NETWORK_HOST : TN_NETWORK_BRIDGE;
    if (c->sandbox.use_host_network)
        return TN_NETWORK_HOST;
    if (c->docker.network != TN_NETWORK_DEFAULT)
        return c->docker.network;
    if (c->sandbox.additional_networks.count)
        return TN_NETWORK_BRIDGE;
    return spec->allow.count ? TN_NETWORK_OPEN : TN_NETWORK_DEFAULT;
}

bool docker_socket_fits(const struct docker *d, const struct tn_spec *spec)
{
    const struct tn_json *kwargs = docker_config(d)->sandbox.docker_runtime_kwargs;
    const char *user = tn_json_get_str(kwargs, "user", NULL);
    bool as_root = !tn_json_get(kwargs, "user") || (user && strcmp(user, "root") == 0);

    return d->root_is_us && as_root && !docker_kwargs_sets(kwargs, "UsernsMode") &&
           (docker_config(d)->docker.runsc_gate || !tn_config_wants_gvisor(docker_config(d), spec));
}

int docker_choose_network(const struct docker *d, const struct tn_spec *spec, bool *said)
{
    int network = said_network(docker_config(d), spec);

    *said = network != TN_NETWORK_DEFAULT;
    if (*said)
        return network;
    return docker_socket_fits(d, spec) ? TN_NETWORK_OPEN : TN_NETWORK_BRIDGE;
}

bool docker_ends_tls(const struct docker *d, int network, const struct tn_spec *spec)
{
    const struct tn_str_list *allow =
        tn_gated_rules(network, spec, &docker_config(d)->docker.allow);

    return allow && (spec->secrets.count || tn_gated_look_inside(allow));
}

int docker_check_network(const struct docker *d, int network, const struct tn_spec *spec,
                         struct tn_error *err)
{
    const struct tn_str_list *allow =
        tn_gated_rules(network, spec, &docker_config(d)->docker.allow);

    if (!allow && (spec->allow.count || spec->ask || spec->secrets.count))
        return tn_fail(err, TN_E_UNSUPPORTED, "%s: the network %s of a container has no gate",
                       spec->allow.count ? "allow"
                       : spec->ask       ? "ask"
                                         : "secrets",
                       tn_networks[network]);
    if (!allow)
        return 0;
    if (!docker_socket_fits(d, spec))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network %s: a container has a gate where the engine runs on this machine "
                       "as who tendon runs as (root, or a rootless engine of this user), with "
                       "isolation gvisor only if docker.runsc_gate says so; bridge is the engine's "
                       "own network, without one",
                       tn_networks[network]);
    if (tn_config_wants_gvisor(docker_config(d), spec) && docker_ends_tls(d, network, spec))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "isolation gvisor: the gate of a container ends no TLS, which secrets and "
                       "rules about requests inside it need");
    if (docker_config(d)->sandbox.additional_networks.count)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network %s: sandbox.additional_networks would lead around the gate",
                       tn_networks[network]);
    return tn_gated_check(network, spec, err);
}

/* Of a label. */
static int gated_by(const char *label)
{
    return strcmp(label, tn_networks[TN_NETWORK_ALLOW]) == 0 ? TN_NETWORK_ALLOW : TN_NETWORK_OPEN;
}

int docker_gate_network(const struct tn_spec *spec, const char *label)
{
    return tn_gated(spec->network) ? spec->network : gated_by(label);
}

int docker_network(const struct tn_host *host, const struct tn_spec *spec, const char *ref,
                   const struct tn_str_list **allow)
{
    const struct docker d = {.host = host, .root_is_us = docker_expects_root(host)};
    tn_autojson struct tn_json *noted = NULL;
    bool said;
    int network = docker_choose_network(&d, spec, &said);

    /* One that was made has what it was made with, whatever the configuration says now. */
    if (spec->network == TN_NETWORK_DEFAULT && ref &&
        tn_json_parse(ref, strlen(ref), &noted, NULL) == 0) {
        const char *label = tn_json_get_str(noted, "network", "");
        network = *label ? gated_by(label) : tn_gated(network) ? TN_NETWORK_BRIDGE : network;
    }
    *allow = tn_gated_rules(network, spec, &host->config->docker.allow);
    return network;
}

/* --- files --------------------------------------------------------------------------------- */

static int write_resolver(int fd, void *ctx, struct tn_error *err)
{
    (void)ctx;
    return tn_fs_write(fd, RESOLVER, strlen(RESOLVER), err);
}

char *docker_file(const struct tn_subject *s, const char *name)
{
    return tn_asprintf("%s/%s", s->directory, name);
}

/* The keeper writes them when the container runs. */
static int make_authority_files(const struct docker_plan *p, struct tn_error *err)
{
    static const char *const names[] = {TN_ROOTS_AUTHORITY_FILE, TN_ROOTS_BUNDLE_FILE,
                                        TN_ROOTS_POLICY_FILE};
    tn_autofree char *certificate = NULL;
    tn_autofd int vault = tn_secrets_vault(p->docker->host, p->subject, false, &certificate, err);

    for (size_t i = 0; vault >= 0 && i < TN_COUNT(names); i++) {
        tn_autofree char *path = docker_file(p->subject, names[i]);
        tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
            return tn_fail_errno(err, errno, "%s", path);
    }
    return vault < 0 ? -1 : 0;
}

int docker_make_gate_files(const struct docker_plan *p, struct tn_error *err)
{
    const struct tn_fs_replace how = {.mode = 0644};
    tn_autofree char *path = docker_file(p->subject, DOCKER_RESOLVER);

    if (p->gated && tn_fs_replace(TN_FS_ANYWHERE, path, &how, write_resolver, NULL, err) < 0)
        return -1;
    return p->ends_tls ? make_authority_files(p, err) : 0;
}

/* --- the keeper ---------------------------------------------------------------------------- */

/* Whether a keeper lives that is that process's. */
static bool has_keeper(const struct tn_subject *s, const struct tn_proc *process)
{
    tn_autofd int lock = tn_gated_open_lock(s->directory);
    char wanted[64], there[64];

    snprintf(wanted, sizeof wanted, TN_JAIL_KEEPER_OF, (long long)process->pid,
             (unsigned long long)process->start);
    ssize_t n = lock < 0 ? -1 : pread(lock, there, sizeof there - 1, 0);
    if (n < 0)
        return false;
    there[n] = '\0';
    return strcmp(there, wanted) == 0 && tn_byte_is_locked(lock, 0);
}

/* "ok", or the name of an error and what it says. */
static int take_word(const char *words, struct tn_error *err)
{
    size_t n = strcspn(words, " \n");
    enum tn_code code = TN_E_INTERNAL;

    if (strcmp(words, "ok\n") == 0)
        return 0;
    for (int i = 0; i < TN_CODE_COUNT; i++)
        if (strlen(tn_code_row((enum tn_code)i)->name) == n &&
            strncmp(tn_code_row((enum tn_code)i)->name, words, n) == 0)
            code = (enum tn_code)i;
    return tn_fail(err, code, "%.*s", (int)strcspn(words + n, "\n"), words + n + (words[n] == ' '));
}

/* What its gate is to know, where it was made for that: the vault, and a file in memory with the
 * certificate of its authority. */
static int open_vault(const struct docker *d, const struct tn_subject *s, int fds[2],
                      struct tn_error *err)
{
    tn_autofree char *mark = docker_file(s, TN_ROOTS_AUTHORITY_FILE), *certificate = NULL;

    if (access(mark, F_OK) < 0)
        return 0;
    tn_autofd int vault = tn_secrets_vault(d->host, s, false, &certificate, err);
    tn_autofd int text = vault < 0 ? -1 : memfd_create("authority", MFD_CLOEXEC);
    if (vault < 0)
        return -1;
    if (text < 0 || tn_fs_write(text, certificate, strlen(certificate), NULL) < 0 ||
        lseek(text, 0, SEEK_SET) < 0)
        return tn_fail_errno(err, errno, "certificate of its authority");
    fds[0] = TN_TAKE_FD(text);
    fds[1] = TN_TAKE_FD(vault);
    return 0;
}

static int start_keeper(const struct docker *d, const struct tn_subject *s, const char *container,
                        const struct tn_proc *process, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *keeper = tn_gated_program(d->host, TN_GATED_KEEPER, err);
    tn_autofree char *gate = keeper ? tn_gated_program(d->host, TN_GATED_GATE, err) : NULL;
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);
    int vault[2] = {-1, -1};
    char pid[24], start[24], ask[24];

    if (!gate || open_vault(d, s, vault, err) < 0)
        return -1;
    tn_autofd int authority = vault[0], values = vault[1];
    const struct tn_child_fd given[] = {{authority, STDIN_FILENO}, {values, TN_JAIL_VAULT_FD}};
    snprintf(pid, sizeof pid, "%lld", (long long)process->pid);
    snprintf(start, sizeof start, "%llu", (unsigned long long)process->start);
    snprintf(ask, sizeof ask, "%.3f", s->spec->ask ? docker_config(d)->jail.ask_seconds : 0);
    const char *const argv[] = {TN_GATED_KEEPER, "--container", s->directory, container, pid,
                                start,           gate,          ask,          NULL};
    if (tn_program_ask_with(keeper, argv, given, values < 0 ? 0 : TN_COUNT(given), &words, deadline,
                            err) < 0)
        return -1;
    return take_word(tn_buf_str(&words), err);
}

int docker_gate_up(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree,
                   int64_t deadline, struct tn_error *err)
{
    const char *label = docker_label(tree, DOCKER_LABEL_NETWORK);
    int network = docker_gate_network(s->spec, label);
    struct tn_proc process;

    if (!*label)
        return 0;
    docker_process(d, tree, &process);
    if (!process.pid)
        return tn_fail(err, TN_E_GONE, "its gate: the container has no process on this machine");
    if (has_keeper(s, &process))
        return 0;
    if (docker_has_gvisor(d, tree) && docker_check_sockets(d, &process, err) < 0)
        return tn_error_context(err, "its gate");
    if (tn_gated_write_rules(s->directory, network,
                             tn_gated_rules(network, s->spec, &docker_config(d)->docker.allow),
                             err) < 0 ||
        start_keeper(d, s, docker_id(tree), &process, deadline, err) < 0)
        return tn_error_context(err, "its gate");
    return 0;
}

void docker_gate_down(const struct tn_subject *s, int64_t deadline)
{
    tn_autofd int lock = tn_gated_open_lock(s->directory);
    int64_t patience = tn_deadline_in(END_SECONDS);

    while (lock >= 0 && tn_byte_is_locked(lock, 0))
        if (!tn_look_again_in(END_MS, patience < deadline ? patience : deadline))
            return;
}

int docker_reload(void *engine, const struct tn_subject *s, int64_t deadline, struct tn_error *err)
{
    const struct docker *d = engine;
    const struct tn_str_list *allow;
    int network = docker_network(d->host, s->spec, s->ref, &allow);

    return tn_gated_reload(s->directory, network, allow, deadline, err);
}
