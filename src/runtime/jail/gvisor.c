/* A jail on gVisor's kernel, as seen from here: which runsc, what it cannot do, and whether it
 * works on this machine.  The launcher does the rest (jail/gvisor.c). */
#include "base/log.h"
#include "runtime/jail/jail.h"
#include "runtime/programs.h"

#define WORDS_MAX (64u << 10)
#define TRIAL_SECONDS 20.0

static char *find_runsc(const struct tn_host *host, struct tn_error *err)
{
    struct tn_error why = {0};
    char *runsc = tn_program_find("runsc", host->config->jail.runsc, &why);

    if (!runsc)
        tn_fail(err, TN_E_UNSUPPORTED,
                "there is no program runsc (%s): install gVisor, or set "
                "jail.runsc",
                why.text);
    return runsc;
}

/* The same for whoever wants a sandbox, who may be a tenant: where it was looked for is told by
 * doctor and by the log. */
static char *offered_runsc(const struct tn_host *host, struct tn_error *err)
{
    struct tn_error why = {0};
    char *runsc = find_runsc(host, &why);

    if (runsc)
        return runsc;
    tn_log(TN_LOG_WARN, "a sandbox wants gVisor", tn_log_str("reason", why.text));
    tn_fail(err, TN_E_UNSUPPORTED,
            "isolation gvisor: this machine offers no gVisor (`tendon doctor` says why)");
    return NULL;
}

static int platform_of(const struct tn_host *host)
{
    int i = TN_JAIL_PLATFORM_SYSTRAP;

    while (tn_jail_platforms[i] && strcmp(tn_jail_platforms[i], host->config->jail.platform) != 0)
        i++;
    return tn_jail_platforms[i] ? i : TN_JAIL_PLATFORM_SYSTRAP;
}

int jail_plan_gvisor(const struct tn_host *host, const struct tn_spec *spec,
                     struct tn_jail_plan *plan, struct tn_error *err)
{
    if (!tn_config_wants_gvisor(host->config, spec))
        return 0;
    if (spec->devices.count || spec->gpus)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "%s: a jail under gVisor sees no device of this machine",
                       spec->gpus ? "gpus" : "devices");
    tn_autofree char *runsc = offered_runsc(host, err);
    if (!runsc)
        return -1;
    if (plan) {
        plan->runsc = TN_TAKE_PTR(runsc);
        plan->platform = platform_of(host);
    }
    return 0;
}

/* --- tendon doctor ---------------------------------------------------------------------------- */

/* "runsc version release-20250101.0\nspec: 1.1.0\n": what stands behind the second word. */
static char *version_of(const char *runsc)
{
    const char *const argv[] = {"runsc", "--version", NULL};
    static const char begin[] = "runsc version ";
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);

    if (tn_program_ask(runsc, argv, &words, tn_deadline_in(TRIAL_SECONDS), NULL) != 0 ||
        strncmp(tn_buf_str(&words), begin, strlen(begin)) != 0)
        return NULL;
    const char *version = tn_buf_str(&words) + strlen(begin);
    return tn_strndup(version, strcspn(version, "\n"));
}

/* The last line of what it says is the reason. */
static char *last_line(const struct tn_buf *words)
{
    tn_autofree char *text = tn_strdup(tn_buf_str(words));
    size_t n = strlen(text);

    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    const char *line = strrchr(text, '\n');
    return tn_strndup(line ? line + 1 : text, 300);
}

/* NULL: a program ran on it; else why none did. */
static char *try_platform(const char *runsc, const char *platform)
{
    tn_autofree char *which = tn_asprintf("--platform=%s", platform);
    const char *const argv[] = {"runsc",
                                which,
                                "--network=none",
                                "--ignore-cgroups",
                                geteuid() == 0 ? "--rootless=false" : "--rootless=true",
                                "do",
                                "/bin/true",
                                NULL};
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);
    struct tn_error err = {0};
    int code = tn_program_ask(runsc, argv, &words, tn_deadline_in(TRIAL_SECONDS), &err);

    if (code == 0)
        return NULL;
    return code < 0 ? tn_strdup(err.text) : last_line(&words);
}

void jail_tell_gvisor(const struct tn_host *host, tn_symptom_fn fn, void *ctx)
{
    const char *platform = host->config->jail.platform;
    struct tn_error err = {0};
    tn_autofree char *runsc = find_runsc(host, &err);
    tn_autofree char *version = runsc ? version_of(runsc) : NULL;
    tn_autofree char *why = version ? try_platform(runsc, platform) : NULL;
    tn_autofree char *detail =
        !runsc     ? tn_strdup(err.text)
        : !version ? tn_asprintf("%s does not tell its version: is it runsc?", runsc)
        : why ? tn_asprintf("%s %s: platform %s does not work: %s", runsc, version, platform, why)
              : tn_asprintf("%s %s, platform %s works", runsc, version, platform);

    fn(&(struct tn_symptom){.what = "gVisor", .good = version && !why, .detail = detail}, ctx);
}
