/* /v1/files/links: where names lead at this moment, for whoever judges an action by its paths. */
#include <errno.h>
#include <limits.h>

#include "hand/routes.h"
#include "hand/sessions.h"
#include "hand/v1/v1.h"

enum { NAMES_MAX = 256, LINKS_MAX = 40 };

/* What the kernel means by these depends on who asks, which is not us: "" or what follows, or NULL
 * for other paths. */
static const char *of_asker(const char *path)
{
    static const char *const own[] = {"/proc/self", "/proc/thread-self"};

    for (size_t i = 0; i < TN_COUNT(own); i++) {
        size_t n = strlen(own[i]);
        if (strncmp(path, own[i], n) == 0 && (path[n] == '/' || !path[n]))
            return path + n;
    }
    return NULL;
}

/* Whether nobody but the asker can tell where the path leads, with more behind it or not.  All have
 * one root. */
static bool is_hidden(const char *path, bool more)
{
    static const char *const clear[] = {"", "/root", "/fd", "/fdinfo", "/net", "/ns", "/attr"};
    const char *mine = of_asker(path);
    bool hidden = mine && (more || strcmp(mine, "/cwd") == 0);

    for (size_t i = 0; hidden && i < TN_COUNT(clear); i++)
        hidden = strcmp(mine, clear[i]) != 0;
    return hidden;
}

/* The target of the link that is there; 0: it is none, or nothing is there; -1: nobody knows. */
static ssize_t read_target(const char *path, char target[PATH_MAX])
{
    const char *mine = of_asker(path);

    if (mine && strcmp(mine, "/root") != 0)
        return 0;
    ssize_t n = readlink(path, target, PATH_MAX - 1);
    if (n < 0) /* a name that is too long is nobody's */
        return errno == EINVAL || errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG ? 0
                                                                                               : -1;
    target[n] = '\0';
    bool of_kernel = strncmp(path, "/proc/", 6) == 0;
    return of_kernel && target[0] != '/' && strchr(target, ':') ? 0 : n; /* no path: pipe:[7] */
}

static void cut_last(struct tn_buf *path)
{
    const char *slash = strrchr(tn_buf_str(path), '/');

    tn_buf_cut(path, slash ? (size_t)(slash - tn_buf_str(path)) : 0);
}

/* Goes along `rest` (on the heap, and taken) from `path`, which has no links in it ("" is the
 * root).  What is not there, and all below it, stays as it is written.  -1: nobody can tell. */
static int walk(struct tn_buf *path, char *rest)
{
    int links = 0;

    for (char *at = rest; *(at += strspn(at, "/"));) {
        char target[PATH_MAX];
        size_t n = strcspn(at, "/");
        bool up = n == 2 && at[0] == '.' && at[1] == '.';
        bool lost = up && strcmp(tn_buf_str(path), "/proc/thread-self") == 0;
        if (up)
            cut_last(path);
        else if (n != 1 || at[0] != '.')
            tn_buf_printf(path, "/%.*s", (int)(n > NAME_MAX ? NAME_MAX + 1 : n), at);
        at += n;
        const char *here = tn_buf_str(path);
        lost |= !tn_buf_ok(path) || links > LINKS_MAX || is_hidden(here, at[strspn(at, "/")]);
        ssize_t len = lost ? -1 : up ? 0 : read_target(here, target);
        if (len < 0) {
            free(rest);
            return -1;
        }
        if (!len)
            continue;
        links++;
        if (target[0] == '/')
            tn_buf_reset(path);
        else
            cut_last(path);
        char *further = tn_asprintf("%s/%s", target, at);
        free(rest);
        at = rest = further;
    }
    free(rest);
    return 0;
}

static char *directory_of(struct tn_hand *hand, const char *session)
{
    struct tn_session *s =
        tn_sessions_get(hand->sessions, session ? session : TN_MAIN_SESSION, NULL);
    char *cwd = s ? tn_session_cwd(s) : NULL;

    if (s)
        tn_session_unref(s);
    return cwd ? cwd : tn_strdup(hand->options.working_dir);
}

static void put_target(struct tn_jw *w, const struct tn_hand *hand, const char *cwd,
                       const char *name)
{
    tn_autobuf struct tn_buf path = TN_BUF_INIT(PATH_MAX - 1);
    bool home = name[0] == '~' && (name[1] == '/' || !name[1]);
    char *whole = home             ? tn_asprintf("%s/%s", hand->user.account.home, name + 1)
                  : name[0] == '/' ? tn_strdup(name)
                                   : tn_asprintf("%s/%s", cwd, name);

    if (walk(&path, whole) < 0)
        tn_jw_null(w);
    else
        tn_jw_str(w, path.len ? tn_buf_str(&path) : "/");
}

static void post_links(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autojson struct tn_json *body = NULL;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(2 * NAMES_MAX * PATH_MAX);
    tn_autoact struct tn_act_as as = {0};
    struct tn_jw w = tn_jw(&json);
    const char *session;

    if (tn_v1_body(x, &body) < 0 || tn_v1_string(x, body, "session", false, &session) < 0)
        return;
    const struct tn_json *names = tn_json_get(body, "names");
    size_t count = tn_json_type(names) == TN_JSON_ARRAY ? tn_json_count(names) : 0;
    bool good = count > 0 && count <= NAMES_MAX;
    for (size_t i = 0; good && i < count; i++)
        good = tn_json_type(tn_json_at(names, i)) == TN_JSON_STRING;
    if (!good) {
        tn_http_reply_detail(x, 422, "names must be a list of 1 to 256 strings");
        return;
    }
    tn_autofree char *cwd = directory_of(hand, session);
    if (tn_v1_act_as_user(x, hand, &as) < 0)
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "targets");
    tn_jw_array(&w);
    for (size_t i = 0; i < count; i++)
        put_target(&w, hand, cwd, tn_json_str(tn_json_at(names, i), NULL));
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route tn_routes_links[] = {
    {"POST", "/v1/files/links", post_links, "{session, names}: where each leads, links followed",
     0},
    {0},
};
