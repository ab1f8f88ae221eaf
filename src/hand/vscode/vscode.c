/* The editor in the browser: what an OpenHands host asks for with --plugins vscode and VSCODE_PORT,
 * and what the owner can ask for at any time. */
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "hand/file-actions.h"
#include "hand/plugin.h"
#include "hand/v1/v1.h"
#include "hand/vscode/door.h"
#include "hand/vscode/editor.h"
#include "hand/vscode/program.h"
#include "net/url.h"

#define OPEN_SECONDS 60.0

struct vscode {
    struct tn_hand *hand;
    struct editor *editor;
    char token[40];
    char *outer; /* the base path of whoever stands in front of us: "" or "/a/b" */
    char *inner; /* the secret one below it */
    char *folder;
    char *problem; /* why it cannot be: NULL */

    pthread_mutex_t lock; /* of what follows */
    struct door *door;    /* NULL: closed */
    bool loopback;        /* it is on that interface */
};

/* --- what the environment says ------------------------------------------------------------- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

static const char *first_of(const char *a, const char *b)
{
    return *a ? a : b;
}

/* With a leading slash and without a final one; "" for none. */
static char *tidy(const char *path)
{
    path += strspn(path, "/");
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    return n ? tn_asprintf("/%.*s", (int)n, path) : tn_strdup("");
}

/* OPENVSCODE_SERVER_BASE_PATH, or /ID/vscode when RUNTIME_URL leads to /ID. */
static char *base_path(void)
{
    const char *given = variable("OPENVSCODE_SERVER_BASE_PATH"), *id = variable("RUNTIME_ID");
    const char *host = strstr(variable("RUNTIME_URL"), "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;

    if (*given)
        return tidy(given);
    if (*id && path && strncmp(path + 1, id, strlen(id)) == 0)
        return tn_asprintf("/%s/vscode", id);
    return tn_strdup("");
}

/* VSCODE_PORT, or 0 with err. */
static int wanted_port(struct tn_error *err)
{
    const char *text = variable("VSCODE_PORT");
    int64_t port = 0;

    if (!*text)
        tn_fail(err, TN_E_CONFLICT, "VSCODE_PORT is not set");
    else if (!tn_v1_number(text, 10, 65535, &port) || port == 0)
        tn_fail(err, TN_E_CONFLICT, "VSCODE_PORT is %.40s: expected a number from 1 to 65535",
                text);
    return (int)port;
}

static int check_username(const struct tn_hand *hand, struct tn_error *err)
{
    const char *const allowed[] = {"root", "openhands", variable("RUNTIME_USERNAME")};

    if (!hand->options.username)
        return 0; /* whoever has the uid that was asked for */
    for (size_t i = 0; i < TN_COUNT(allowed); i++) {
        if (strcmp(hand->options.username, allowed[i]) == 0)
            return 0;
    }
    return tn_fail(err, TN_E_CONFLICT,
                   "user %.60s: the editor runs as root, openhands or what RUNTIME_USERNAME names",
                   hand->options.username);
}

/* --- settings ------------------------------------------------------------------------------ */

static const char settings[] = "{\n"
                               "    \"workbench.colorTheme\": \"Default Dark Modern\",\n"
                               "    \"workbench.startupEditor\": \"none\",\n"
                               "    \"chat.commandCenter.enabled\": false\n"
                               "}\n";

/* Those of the project's own stay. */
static int write_settings(const struct vscode *v, struct tn_error *err)
{
    const char *workspace =
        first_of(v->hand->options.confine ? "" : variable("WORKSPACE_BASE"), v->folder);
    tn_autofree char *directory = tn_asprintf("%s/.vscode", workspace);
    tn_autofree char *path = tn_asprintf("%s/settings.json", directory);
    struct tn_file_user user = tn_hand_file_user(v->hand);
    tn_autoact struct tn_act_as as = {0};

    if (tn_file_act_as(&as, &user, err) < 0)
        return -1;
    tn_autofd int made = tn_fs_mkdirs(TN_FS_ANYWHERE, directory, 0777, NULL, NULL, err);
    if (made < 0)
        return -1;
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno == EEXIST ? 0 : tn_fail_errno(err, errno, "%s", path);
    fchmod(fd, 0666);
    return tn_fs_write(fd, settings, sizeof settings - 1, err);
}

/* --- opening ------------------------------------------------------------------------------- */

static int try_port(struct vscode *v, const char *host, int port, struct tn_error *err)
{
    const struct door_options options = {
        .editor = v->editor,
        .token = v->token,
        .base = v->inner,
        .folder = v->folder,
        .host = host,
        .port = port,
    };

    v->door = door_open(&options, err);
    if (!v->door)
        return -1;
    v->loopback = strcmp(host, "127.0.0.1") == 0;
    tn_log(TN_LOG_INFO, "the editor's door is open", tn_log_str("host", host),
           tn_log_int("port", door_port(v->door)));
    return 0;
}

/* With the lock held.  Beyond this machine only where there is a key: the token is as good as one,
 * but a hand without a key promises to be local. */
static int open_on_wanted_port(struct vscode *v, struct tn_error *err)
{
    const char *host = tn_hand_has_key(&v->hand->options) ? "::" : "127.0.0.1";
    int port = wanted_port(err);

    if (!port)
        return -1;
    return try_port(v, host, port, err) < 0 ? tn_error_context(err, "VSCODE_PORT") : 0;
}

static int find_program(const struct vscode *v, struct editor_program *program,
                        struct tn_error *err)
{
    if (v->problem)
        return tn_fail(err, TN_E_CONFLICT, "%s", v->problem);
    return editor_program_find((const char *const *)v->hand->shell_env, program, err);
}

/* For who wants it now. */
static int need_program(const struct vscode *v, struct tn_error *err)
{
    autoprogram struct editor_program program = {0};

    if (find_program(v, &program, err) == 0)
        return 0;
    return v->problem ? -1 : tn_plugin_lacks(&tn_plugin_vscode, err);
}

/* The port is bound at once; the editor itself starts with the first visit. */
static int vscode_start(void *state, int64_t deadline, struct tn_error *err)
{
    struct vscode *v = state;
    struct tn_error why;

    if (need_program(v, err) < 0 || check_username(v->hand, err) < 0)
        return -1;
    pthread_mutex_lock(&v->lock);
    bool was_open = v->door;
    int r = was_open ? 0 : open_on_wanted_port(v, err);
    pthread_mutex_unlock(&v->lock);
    if (r == 0 && !was_open && write_settings(v, &why) < 0)
        tn_log(TN_LOG_WARN, "no settings for the editor", tn_log_str("reason", why.text));
    return r;
}

/* The owner wants it, whatever the environment says: if need be on a port that only this sandbox
 * (and a tunnel into it) can reach. */
static int open_on_demand(struct vscode *v, struct tn_error *err)
{
    bool knows_base;

    if (need_program(v, err) < 0 || tn_plugin_enable(v->hand, &tn_plugin_vscode, err) < 0)
        return -1;
    pthread_mutex_lock(&v->lock);
    int r = v->door || open_on_wanted_port(v, NULL) == 0 ? 0 : try_port(v, "127.0.0.1", 0, err);
    pthread_mutex_unlock(&v->lock);
    if (r < 0)
        return -1;
    /* Who asks now will visit it now, and can be told here why that would fail. */
    tn_autofd int fd = editor_connect(v->editor, &knows_base, tn_deadline_in(OPEN_SECONDS), err);
    return fd < 0 ? -1 : 0;
}

/* --- routes -------------------------------------------------------------------------------- */

static void get_connection_token(struct tn_http_exchange *x, void *ctx)
{
    struct vscode *v = tn_plugin_state(ctx, &tn_plugin_vscode);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(256);
    struct tn_jw w = tn_jw(&json);

    pthread_mutex_lock(&v->lock);
    bool is_open = v->door;
    pthread_mutex_unlock(&v->lock);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "token", is_open ? v->token : NULL);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static void write_place(struct vscode *v, struct tn_jw *w)
{
    tn_autobuf struct tn_buf page = TN_BUF_INIT(16 << 10);

    tn_buf_printf(&page, "/?tkn=%s&folder=", v->token);
    tn_url_encode(&page, v->folder, "/");
    pthread_mutex_lock(&v->lock);
    if (v->door) {
        tn_jw_kint(w, "port", door_port(v->door));
        tn_jw_kbool(w, "loopback", v->loopback);
    }
    pthread_mutex_unlock(&v->lock);
    tn_jw_kstr(w, "base", v->outer);
    tn_jw_kstr(w, "page", tn_buf_str(&page));
}

static void post_vscode(struct tn_http_exchange *x, void *ctx)
{
    struct vscode *v = tn_plugin_state(ctx, &tn_plugin_vscode);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (open_on_demand(v, &err) < 0) {
        tn_http_reply_error(x, &err);
        return;
    }
    tn_jw_object(&w);
    write_place(v, &w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static const struct tn_route routes[] = {
    {"GET", "/vscode/connection_token", get_connection_token, "token of the editor, or null", 0},
    {"POST", "/v1/vscode", post_vscode, "starts the editor and tells where it is", 0},
    {0},
};

/* --- the row ------------------------------------------------------------------------------- */

/* A random UUID of version 4. */
static bool make_token(char token[40])
{
    unsigned char b[16];

    if (getrandom(b, sizeof b, 0) != sizeof b)
        return false;
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    snprintf(token, 40, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
    return true;
}

static void *vscode_open(struct tn_hand *hand)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    struct vscode *v = tn_calloc(1, sizeof *v);
    char secret[40] = "";

    v->hand = hand;
    v->outer = base_path();
    v->folder =
        tn_strdup(first_of(hand->options.confine ? "" : variable("WORKSPACE_MOUNT_PATH_IN_SANDBOX"),
                           hand->options.working_dir));
    pthread_mutex_init(&v->lock, NULL);
    if (!make_token(v->token) || !make_token(secret))
        v->problem = tn_strdup("no random numbers for a token");
    else if (v->outer[strspn(v->outer, plain)])
        v->problem = tn_asprintf("the base path %.100s holds what no path should", v->outer);
    v->inner = tn_asprintf("%s/%s", v->outer, secret);
    v->editor = editor_new(hand, v->inner, v->folder);
    return v;
}

/* False when a visit is left. */
static bool shut(struct vscode *v)
{
    pthread_mutex_lock(&v->lock);
    struct door *door = TN_TAKE_PTR(v->door);
    pthread_mutex_unlock(&v->lock);
    editor_stop(v->editor); /* which ends most visits */
    bool empty = !door || door_close(door);
    editor_stop(v->editor); /* a late one may have started it again */
    return empty;
}

static void vscode_stop(void *state)
{
    shut(state);
}

static void vscode_interrupt(void *state)
{
    struct vscode *v = state;

    editor_interrupt(v->editor);
}

static void vscode_close(void *state)
{
    struct vscode *v = state;

    editor_interrupt(v->editor);
    if (!shut(v))
        return;
    editor_free(v->editor);
    pthread_mutex_destroy(&v->lock);
    free(v->outer);
    free(v->inner);
    free(v->folder);
    free(v->problem);
    free(v);
}

static int vscode_probe(void *state, struct tn_buf *found, struct tn_error *err)
{
    autoprogram struct editor_program program = {0};

    if (find_program(state, &program, err) < 0)
        return -1;
    tn_buf_puts(found, program.path);
    return 0;
}

static void vscode_status(void *state, struct tn_jw *w)
{
    struct vscode *v = state;

    editor_status(v->editor, w);
    pthread_mutex_lock(&v->lock);
    tn_jw_key(w, "port");
    if (v->door)
        tn_jw_int(w, door_port(v->door));
    else
        tn_jw_null(w);
    pthread_mutex_unlock(&v->lock);
}

const struct tn_plugin tn_plugin_vscode = {
    .name = "vscode",
    .help = "an editor in the browser",
    .install = "npm install -g code-server",
    .flags = TN_PLUGIN_NAMED | TN_PLUGIN_IMMEDIATE,
    .open = vscode_open,
    .close = vscode_close,
    .interrupt = vscode_interrupt,
    .probe = vscode_probe,
    .start = vscode_start,
    .stop = vscode_stop,
    .status = vscode_status,
    .routes = routes,
};
