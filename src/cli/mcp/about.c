/* What a sandbox is like, as a model wants to know it: operating system, directory, user, network.
 */
#include <sys/utsname.h>

#include "base/account.h"
#include "base/clock.h"
#include "base/fs.h"
#include "cli/mcp/mcp.h"
#include "runtime/hand-sessions.h"
#include "runtime/registry.h"

#define LOOK_SECONDS 30.0

/* What backends do when a spec says nothing; others are asked once there is a sandbox. */
static const struct habit {
    const char *backend;
    bool host_system; /* that of this machine, without an image */
    const char *directory, *user;
    enum tn_network network;
} habits[] = {
    {"jail", true, "/workspace", "root", TN_NETWORK_OPEN},
    {"local", true, NULL, NULL, TN_NETWORK_HOST},
    {"cli", true, NULL, NULL, TN_NETWORK_HOST},
    {"docker", false, "/workspace", NULL, TN_NETWORK_BRIDGE},
};

static const struct habit *habit_of(const char *backend)
{
    for (size_t i = 0; i < TN_COUNT(habits); i++)
        if (strcmp(habits[i].backend, backend) == 0)
            return &habits[i];
    return NULL;
}

/* ref: of one that is there, or NULL. */
static enum tn_network network_of(const struct tn_config *config, const struct tn_spec *spec,
                                  const char *name, const char *ref)
{
    const struct habit *habit = habit_of(name);
    const struct tn_backend *backend = config ? tn_backend_find(config, name, NULL) : NULL;
    const struct tn_host host = {.config = config};
    const struct tn_str_list *allow;

    if (backend && backend->network)
        return (enum tn_network)backend->network(&host, spec, ref, &allow);
    if (spec->network != TN_NETWORK_DEFAULT)
        return (enum tn_network)spec->network;
    return habit ? habit->network : TN_NETWORK_HOST;
}

/* PRETTY_NAME of this machine, and its processor. */
static void put_host_system(struct tn_buf *out)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);
    struct utsname name;

    if (uname(&name) < 0)
        return;
    tn_fs_read(AT_FDCWD, "/etc/os-release", &text, NULL);
    const char *pretty = strstr(tn_buf_str(&text), "PRETTY_NAME=\"");
    if (pretty) {
        pretty += strlen("PRETTY_NAME=\"");
        tn_buf_printf(out, "%.*s, ", (int)strcspn(pretty, "\"\n"), pretty);
    }
    tn_buf_printf(out, "Linux on %s", name.machine);
}

static void put_system(const struct tn_spec *spec, const struct habit *habit, struct tn_buf *out)
{
    tn_buf_puts(out, "Operating system: ");
    if (spec->image)
        tn_buf_printf(out, "Linux, image %s", spec->image);
    else if (habit && habit->host_system)
        put_host_system(out);
    else
        tn_buf_puts(out, "Linux");
    tn_buf_puts(out, ". ");
}

static const struct {
    const char *word, *sentence;
} networks[] = {
    [TN_NETWORK_NONE] = {"none", "There is no network: nothing can be downloaded. "},
    [TN_NETWORK_HOST] = {"host", "The network is that of the machine it runs on. "},
    [TN_NETWORK_BRIDGE] = {"bridge", "It has a network of its own, with a way out. "},
    [TN_NETWORK_OPEN] = {"open", "It reaches the internet, and neither the machine it runs on nor "
                                 "private networks. "},
    [TN_NETWORK_ALLOW] = {"allow", "It reaches only what its rules name: most downloads are "
                                   "refused. "},
};

static void put_spec(const struct tn_config *config, const struct tn_spec *spec,
                     const char *backend, struct tn_buf *out)
{
    const struct habit *habit = habit_of(backend);
    const char *directory = spec->workspace ? spec->workspace : habit ? habit->directory : NULL;
    const char *user = spec->user ? spec->user : habit && !spec->image ? habit->user : NULL;

    put_system(spec, habit, out);
    if (directory)
        tn_buf_printf(out, "Commands start in %s", directory);
    else
        tn_buf_puts(out, "Commands start in a directory of the sandbox's own");
    if (user)
        tn_buf_printf(out, ", as user %s", user);
    tn_buf_puts(out, ". ");
    tn_buf_puts(out, networks[network_of(config, spec, backend, NULL)].sentence);
}

void mcp_put_about(struct mcp_service *s, struct tn_buf *out)
{
    const struct tn_config *config = cli_config(s->cli, NULL);
    tn_autosandbox struct tn_sandbox *given = s->given ? cli_sandbox(s->cli, s->given, NULL) : NULL;

    if (given) {
        put_spec(config, tn_sandbox_spec(given), tn_sandbox_backend(given)->name, out);
        return;
    }
    const char *name = s->spec->runtime ? s->spec->runtime : config ? config->tendon.runtime : "";
    const struct tn_backend *backend = config ? tn_backend_find(config, name, NULL) : NULL;
    put_spec(config, s->spec, backend ? backend->name : name, out);
}

/* --- one that is there ----------------------------------------------------------------------- */

#define QUESTION                                                                           \
    "(. /etc/os-release 2>/dev/null; echo \"${PRETTY_NAME:+$PRETTY_NAME, }$(uname -s) on " \
    "$(uname -m)\"); id -un 2>/dev/null || id -u"

/* The two lines of its answer: system and user; out is cut up. */
static int ask(struct tn_sandbox *sb, struct tn_buf *out, const char **system, const char **user,
               struct tn_error *err)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    tn_action_init_run(&action, QUESTION, LOOK_SECONDS);
    action.run.hidden = true;
    action.run.is_static = true;
    if (tn_sandbox_execute_own(sb, &action, &o, err) < 0)
        return -1;
    tn_buf_add(out, o.content.data ? o.content.data : "", o.content.len);
    char *text = (char *)(uintptr_t)tn_buf_str(out);
    char *lf = strchr(text, '\n');
    *system = text;
    *user = lf ? lf + 1 : "";
    if (lf) {
        lf[lf > text && lf[-1] == '\r' ? -1 : 0] = '\0';
        lf[1 + strcspn(lf + 1, "\r\n")] = '\0';
    }
    return 0;
}

/* One that is there says itself that it has none where a gate cannot be. */
static enum tn_network network_that_holds(const struct tn_config *config,
                                          const struct tn_sandbox *sb)
{
    enum tn_network said = network_of(config, tn_sandbox_spec(sb), tn_sandbox_backend(sb)->name,
                                      tn_sandbox_record(sb)->ref);
    const char *told = tn_sandbox_record(sb)->isolation;
    tn_autojson struct tn_json *isolation = NULL;

    if (said == TN_NETWORK_OPEN && told &&
        tn_json_parse(told, strlen(told), &isolation, NULL) == 0 &&
        !tn_json_bool(tn_json_get(isolation, "gated"), true))
        return TN_NETWORK_NONE;
    return said;
}

int mcp_put_facts(const struct tn_config *config, struct tn_sandbox *sb, struct tn_jw *w,
                  struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(64 << 10);
    tn_autofree char *directory = mcp_absolute(sb, ".", err);
    const char *system, *user;

    if (!directory || ask(sb, &answer, &system, &user, err) < 0)
        return -1;
    tn_jw_kstr(w, "system", system);
    tn_jw_kstr(w, "user", user);
    tn_jw_kstr(w, "directory", directory);
    tn_jw_kstr(w, "network", networks[network_that_holds(config, sb)].word);
    return 0;
}
