#include "hand/options.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "hand/plugin.h"
#include "net/listen.h"
#include "net/proof.h"

#define UID_LAST 4294967294 /* the one after it is none */

static const char *const levels[] = {"debug", "info", "warn", "error", NULL};

static const struct tn_field rows[] = {
    TN_INT("port", struct tn_hand_options, port, .flags = TN_FIELD_POSITIONAL, .value = "PORT",
           .max = 65535,
           .help = "TCP port to listen on, on all interfaces (on loopback when there is no key)"),
    TN_STRING("working_dir", struct tn_hand_options, working_dir, .flag = "--working-dir",
              .value = "DIR",
              .help = "where the shell starts; created if missing [the current directory]"),
    TN_STRINGS("plugins", struct tn_hand_options, plugins, .flags = TN_FIELD_MANY,
               .flag = "--plugins", .value = "NAME",
               .help = "abilities the host wants: jupyter, agent_skills, vscode, or the NAME of a "
                       "program tendon-plugin-NAME"),
    TN_STRING("plugin_path", struct tn_hand_options, plugin_path, .env = "TENDON_PLUGIN_PATH",
              .flag = "--plugin-path", .value = "DIR:...",
              .help = "where such programs are, before PATH"),
    TN_BOOL("start_plugins", struct tn_hand_options, start_plugins, .env = "TENDON_START_PLUGINS",
            .flag = "--start-plugins",
            .help = "start them in the background at once, not at their first use"),
    TN_INT("plugin_seconds", struct tn_hand_options, plugin_seconds, .fallback = "120",
           .env = "INIT_PLUGIN_TIMEOUT", .min = 1, .max = 86400,
           .help = "seconds until such a start is given up"),
    TN_STRINGS("python_preload", struct tn_hand_options, python_preload, .flag = "--python-preload",
               .value = "MODULE",
               .help = "module that new kernels import in the background; may be given several "
                       "times"),
    TN_STRING("username", struct tn_hand_options, username, .flag = "--username", .value = "NAME",
              .help = "user that shell and files belong to; created if missing (as root), with "
                      "--user-id; a number is a uid, whatever its name [openhands]"),
    TN_OPT_INT("user_id", struct tn_hand_options, user_id, .flag = "--user-id", .value = "N",
               .max = UID_LAST,
               .help = "uid of a user that is created; alone: the user of that uid [1000]"),
    TN_BOOL("enable_browser", struct tn_hand_options, enable_browser, .fallback = "true",
            .flag = "--enable-browser", .help = "allow the browser"),
    TN_BOOL("viewer", struct tn_hand_options, viewer, .flag = "--viewer",
            .help = "show images and PDF files as pages on a loopback port (with PORT always)"),
    TN_BOOL("viewer_secret", struct tn_hand_options, viewer_secret, .flag = "--viewer-secret",
            .help = "their addresses hold a secret: others share this loopback"),
    TN_BOOL("downloads", struct tn_hand_options, downloads, .flag = "--downloads",
            .help = "make .downloads in the working directory at once, not at the browser's first "
                    "use"),
    TN_STRING("browsergym_eval_env", struct tn_hand_options, browsergym_eval_env,
              .flag = "--browsergym-eval-env", .value = "NAME",
              .help = "evaluation task of the browser"),
    TN_STRINGS("listen", struct tn_hand_options, listen, .flag = "--listen", .value = "ADDRESS",
               .help =
                   "HOST:PORT, [V6]:PORT, unix:PATH, fd:N or pair:N; may be given several times"),
    TN_STRING("key", struct tn_hand_options, key, .flags = TN_FIELD_SECRET,
              .env = "SESSION_API_KEY",
              .help = "key that requests must carry in X-Session-API-Key"),
    TN_STRING("key_file", struct tn_hand_options, key_file, .flag = "--key-file", .value = "FILE",
              .help = "file that holds the key"),
    TN_STRING("key_digest", struct tn_hand_options, key_digest, .flag = "--key-digest",
              .value = "HEX", .help = "SHA-256 of the key, where others can see the command line"),
    TN_STRING("shell", struct tn_hand_options, shell, .fallback = "bash", .env = "TENDON_SHELL",
              .flag = "--shell", .value = "PROGRAM",
              .help = "shell of new sessions: bash (sh where there is none), sh or a path"),
    TN_DOUBLE("ready_seconds", struct tn_hand_options, ready_seconds, .fallback = "20",
              .env = "TENDON_READY_TIMEOUT", .flag = "--ready-timeout", .value = "SECONDS",
              .min = 0.001, .max = 86400,
              .help = "how long /alive waits for the start-up files of the main shell"),
    TN_DOUBLE("no_change_seconds", struct tn_hand_options, no_change_seconds, .fallback = "10",
              .env = "NO_CHANGE_TIMEOUT_SECONDS", .min = 0.001, .max = 86400,
              .help = "seconds without output after which a wait ends"),
    TN_BOOL("su_to_user", struct tn_hand_options, su_to_user, .fallback = "true",
            .env = "SU_TO_USER", .help = "run the shell as --username (as root)"),
    TN_BOOL("exit_with_parent", struct tn_hand_options, exit_with_parent,
            .flag = "--exit-with-parent",
            .help = "stop when the process that started this one ends"),
    TN_BOOL("traceable", struct tn_hand_options, traceable, .flag = "--traceable",
            .help = "as PID 1, let others trace this process: for criu, which writes it down"),
    TN_STRING("exit_with", struct tn_hand_options, exit_with, .flag = "--exit-with",
              .value = "OWNER",
              .help = "stop when it ends: PID, PID:START (in clock ticks), or lock:FILE (whoever "
                      "holds the lock)"),
    TN_BOOL("confine", struct tn_hand_options, confine, .flag = "--confine",
            .help = "file actions and transfers reach only what is beneath --working-dir"),
    TN_BOOL("log_json", struct tn_hand_options, log_json, .env = "LOG_JSON",
            .help = "log one JSON object per line"),
    TN_STRING("log_level", struct tn_hand_options, log_level, .fallback = "info",
              .env = "TENDON_LOG", .flag = "--log-level", .value = "LEVEL", .words = levels,
              .help = "debug, info, warn or error"),
    TN_STRING("copy_to", struct tn_hand_options, copy_to, .flag = "--copy-to", .value = "FILE",
              .help = "copy this program there, executable, and end: for images that have no cp"),
    TN_BOOL("version", struct tn_hand_options, version, .flag = "--version",
            .help = "print the version"),
};

const struct tn_fields tn_hand_fields = TN_FIELDS(rows);

static int read_key_file(struct tn_hand_options *o, struct tn_error *err)
{
    char key[1024];
    tn_autofd int fd = open(o->key_file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, key, sizeof key - 1);

    if (n < 0)
        return tn_fail_errno(err, errno, "key file %s", o->key_file);
    while (n > 0 && (key[n - 1] == '\n' || key[n - 1] == '\r' || key[n - 1] == ' '))
        n--;
    key[n] = '\0';
    if (n == 0)
        return tn_fail(err, TN_E_INVALID, "key file %s is empty", o->key_file);
    if (strlen(key) != (size_t)n)
        return tn_fail(err, TN_E_INVALID, "key file %s holds a NUL byte", o->key_file);
    free(o->key);
    o->key = tn_strdup(key);
    return 0;
}

static int check_digest(const struct tn_hand_options *o, struct tn_error *err)
{
    if (!o->key_digest)
        return 0;
    if (!tn_proof_is_digits(o->key_digest))
        return tn_fail(err, TN_E_INVALID, "--key-digest: expected 64 digits of 0-9a-f");
    if (o->key_file)
        return tn_fail(err, TN_E_INVALID, "--key-digest and --key-file exclude each other");
    return 0;
}

/* A number is no name, but a uid. */
static int read_uid(struct tn_hand_options *o, struct tn_error *err)
{
    const char *name = o->username;
    int64_t uid = 0;

    if (!name || !*name || strspn(name, "0123456789") != strlen(name))
        return 0;
    for (; *name && uid <= UID_LAST; name++)
        uid = uid * 10 + (*name - '0');
    if (uid > UID_LAST)
        return tn_fail(err, TN_E_INVALID, "--username %.40s: there is no such uid", o->username);
    if (o->user_id.set && o->user_id.value != uid)
        return tn_fail(err, TN_E_INVALID, "--username %s and --user-id %lld are two users",
                       o->username, (long long)o->user_id.value);
    o->user_id = (struct tn_opt_int){.set = true, .value = uid};
    free(TN_TAKE_PTR(o->username));
    return 0;
}

static int check(struct tn_hand_options *o, struct tn_error *err)
{
    if (o->port == 0 && o->listen.count == 0)
        return tn_fail(err, TN_E_INVALID, "nothing to listen on: give a port or --listen");
    if (check_digest(o, err) < 0 || read_uid(o, err) < 0)
        return -1;
    if (o->browsergym_eval_env && !o->enable_browser)
        return tn_fail(
            err, TN_E_INVALID,
            "Browser environment is not enabled in config, but browsergym_eval_env is set");
    for (size_t i = 0; i < o->listen.count; i++) {
        struct tn_listen_address address;
        if (tn_listen_parse(o->listen.items[i], &address, err) < 0)
            return tn_error_context(err, "--listen %s", o->listen.items[i]);
    }
    for (size_t i = 0; i < o->plugins.count; i++) {
        if (tn_plugin_check(o, o->plugins.items[i], err) < 0)
            return -1;
    }
    return 0;
}

static int copy_self(int fd, void *ctx, struct tn_error *err)
{
    tn_autofd int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    (void)ctx;
    if (self < 0)
        return tn_fail_errno(err, errno, "/proc/self/exe");
    if (tn_fs_copy(self, fd, UINT64_MAX, err) < 0)
        return -1;
    return fchmod(fd, 0755) < 0 ? tn_fail_errno(err, errno, "chmod") : 0; /* whatever the umask */
}

int tn_hand_options_read(struct tn_hand_options *o, int argc, char **argv, struct tn_error *err)
{
    tn_autobuf struct tn_buf help = TN_BUF_INIT(64 << 10);

    tn_fields_defaults(&tn_hand_fields, o);
    if (tn_fields_from_env(&tn_hand_fields, o, err) < 0)
        return -1;
    int r = tn_fields_from_argv(&tn_hand_fields, o, argc - 1, argv + 1, err);
    if (r < 0)
        return -1;
    if (r == 1) {
        tn_fields_help(&tn_hand_fields, "tendon-hand", &help);
        fputs(tn_buf_str(&help), stdout);
        return 1;
    }
    if (o->version) {
        puts("tendon-hand " TN_VERSION);
        return 1;
    }
    if (o->copy_to)
        return tn_fs_replace(TN_FS_ANYWHERE, o->copy_to, &(struct tn_fs_replace){.mode = 0755},
                             copy_self, NULL, err) < 0
                   ? -1
                   : 1;
    if (o->key_file && read_key_file(o, err) < 0)
        return -1;
    if (!o->working_dir) {
        o->working_dir = getcwd(NULL, 0);
        if (!o->working_dir)
            return tn_fail_errno(err, errno, "current directory");
    }
    return check(o, err);
}
