#include "hand/browser/process.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/child.h"

#define DEFAULT_MEMORY (INT64_C(4) << 30)
enum { SMALL_SHM = 512 << 20 };

/* --- the program ---------------------------------------------------------------------------- */

static const char *const variables[] = {"TENDON_CHROMIUM", "CHROMIUM"};
static const char *const names[] = {"chromium", "chromium-browser", "google-chrome",
                                    "google-chrome-stable", "chromium-headless-shell"};
#define PLAYWRIGHT "/opt/playwright-browsers"

static bool can_run(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static char *in_path(const char *name)
{
    const char *path = getenv("PATH");

    for (const char *at = path && *path ? path : "/usr/local/bin:/usr/bin:/bin"; *at;) {
        size_t n = strcspn(at, ":");
        tn_autofree char *file = tn_asprintf("%.*s/%s", (int)n, at, name);
        if (at[0] == '/' && can_run(file))
            return TN_TAKE_PTR(file);
        at += n + (at[n] == ':');
    }
    return NULL;
}

/* The newest: "chromium-1187" is newer than "chromium-999". */
static char *of_playwright(void)
{
    static const char prefix[] = "chromium-";
    DIR *dir = opendir(PLAYWRIGHT);
    char *newest = NULL;
    long best = -1;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        long version = strncmp(e->d_name, prefix, sizeof prefix - 1) == 0
                           ? strtol(e->d_name + sizeof prefix - 1, NULL, 10)
                           : -1;
        tn_autofree char *file = tn_asprintf(PLAYWRIGHT "/%s/chrome-linux/chrome", e->d_name);
        if (version > best && can_run(file)) {
            best = version;
            free(newest);
            newest = TN_TAKE_PTR(file);
        }
    }
    if (dir)
        closedir(dir);
    return newest;
}

char *browser_find(struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(variables); i++) {
        const char *value = getenv(variables[i]);
        if (!value || !*value)
            continue;
        char *file = strchr(value, '/') ? tn_strdup(value) : in_path(value);
        if (file && can_run(file))
            return file;
        free(file);
        tn_fail(err, TN_E_NOT_FOUND, "%s names %s, which is no program", variables[i], value);
        return NULL;
    }
    char *file = of_playwright();
    for (size_t i = 0; i < TN_COUNT(names) && !file; i++)
        file = in_path(names[i]);
    if (!file)
        tn_fail(err, TN_E_NOT_FOUND, "there is no Chromium in this sandbox (neither %s nor %s)",
                "chromium, chromium-browser or google-chrome in PATH", "$TENDON_CHROMIUM");
    return file;
}

/* --- its flags ------------------------------------------------------------------------------ */

static const char *const flags[] = {
    "--headless=new",
    "--remote-debugging-pipe",
    "--window-size=1280,720",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-service-autorun",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-back-forward-cache",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-hang-monitor",
    "--disable-ipc-flooding-protection",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-search-engine-choice-screen",
    "--disable-smooth-scrolling",
    "--disable-sync",
    "--disable-gpu",
    "--allow-pre-commit-input",
    "--force-color-profile=srgb",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disable-features=OverlayScrollbars,ExtendedOverlayScrollbars,Translate,MediaRouter,"
    "OptimizationHints,AcceptCHFrame,DialMediaRouteProvider,GlobalMediaControls,HttpsUpgrades,"
    "LensOverlay,PaintHolding,ThirdPartyStoragePartitioning,AutofillServerCommunication,"
    "CertificateTransparencyComponentUpdater,DestroyProfileOnBrowserClose,WebUIOmnibox,"
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup",
};

static bool shm_is_small(void)
{
    struct statvfs fs;
    return statvfs("/dev/shm", &fs) < 0 || (uint64_t)fs.f_blocks * fs.f_frsize < SMALL_SHM;
}

/* --- its environment ------------------------------------------------------------------------ */

/* What it would otherwise leave in other places goes into its profile. */
static const char *const directories[] = {"TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"};
/* A socket in its temporary directory must fit into an address. */
enum { TEMPORARY_MAX = 62 };

static bool is_replaced(const char *entry)
{
    for (size_t i = 0; i < TN_COUNT(directories); i++) {
        size_t n = strlen(directories[i]);
        if (strncmp(entry, directories[i], n) == 0 && entry[n] == '=')
            return true;
    }
    return false;
}

/* The agent's environment with these; the caller frees it as tn_agent_env_free does. */
static char **environment(const struct tn_hand *hand, const char *profile)
{
    const char *temporary = strlen(profile) > TEMPORARY_MAX ? "/tmp" : profile;
    size_t count = 0, n = 0;

    while (hand->shell_env[count])
        count++;
    char **env = tn_calloc(count + TN_COUNT(directories) + 1, sizeof *env);
    for (size_t i = 0; i < count; i++) {
        if (!is_replaced(hand->shell_env[i]))
            env[n++] = tn_strdup(hand->shell_env[i]);
    }
    for (size_t i = 0; i < TN_COUNT(directories); i++)
        env[n++] = tn_asprintf("%s=%s", directories[i], i == 0 ? temporary : profile);
    return env;
}

/* A browser that was killed leaves a lock behind, which names a process that may by now be
 * somebody else. */
static void remove_lock(const char *profile)
{
    static const char *const files[] = {"SingletonLock", "SingletonCookie", "SingletonSocket"};

    for (size_t i = 0; i < TN_COUNT(files); i++) {
        tn_autofree char *path = tn_asprintf("%s/%s", profile, files[i]);
        unlink(path);
    }
}

struct tn_helper *browser_launch(struct tn_hand *hand, const char *program, const char *profile,
                                 bool sandbox, struct tn_error *err)
{
    tn_autofree char *data = tn_asprintf("--user-data-dir=%s", profile);
    const char *argv[TN_COUNT(flags) + 6];
    size_t n = 0;

    argv[n++] = program;
    for (size_t i = 0; i < TN_COUNT(flags); i++)
        argv[n++] = flags[i];
    argv[n++] = data;
    if (!sandbox)
        argv[n++] = "--no-sandbox";
    if (shm_is_small())
        argv[n++] = "--disable-dev-shm-usage";
    argv[n++] = "about:blank";
    argv[n] = NULL;
    remove_lock(profile);
    char **env = environment(hand, profile);
    const struct tn_helper_spec spec = {
        .name = "the browser",
        .argv = argv,
        .env = (const char *const *)env,
        .in = 3,
        .out = 4,
    };
    struct tn_helper *helper = tn_helper_start(hand, &spec, err);
    tn_agent_env_free(env);
    return helper;
}

/* --- its surroundings ----------------------------------------------------------------------- */

bool browser_sandbox_possible(const struct tn_hand *hand)
{
    static const char *const files[] = {"/proc/sys/kernel/unprivileged_userns_clone",
                                        "/proc/sys/user/max_user_namespaces"};

    if (hand->user.account.uid == 0)
        return false;
    for (size_t i = 0; i < TN_COUNT(files); i++) {
        tn_autofile FILE *f = fopen(files[i], "re");
        if (f && getc(f) == '0')
            return false;
    }
    return true;
}

static const struct {
    char letter;
    int shift;
} units[] = {{'k', 10}, {'K', 10}, {'m', 20}, {'M', 20}, {'g', 30}, {'G', 30}};

int64_t browser_memory_limit(void)
{
    const char *text = getenv("TENDON_BROWSER_MEMORY");
    char *end = NULL;

    if (!text || !*text)
        return DEFAULT_MEMORY;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    for (size_t i = 0; i < TN_COUNT(units) && *end; i++) {
        if (*end == units[i].letter && !end[1] && value < INT64_MAX >> units[i].shift) {
            value <<= units[i].shift;
            end++;
        }
    }
    return errno || end == text || *end || value < 0 ? DEFAULT_MEMORY : value;
}
