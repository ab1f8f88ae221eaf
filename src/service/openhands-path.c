/* The way from SERVICE/ID to the hand of a box, and to its editor. */
#include "base/secret.h"
#include "runtime/hand-plugins.h"
#include "service/front.h"
#include "service/openhands.h"
#include "service/proxy.h"

#define EDITOR_SECONDS 60.0
#define LOOK_SECONDS 10.0

enum { ID_LENGTH = 10 };

/* The path and query behind /ID in target, or NULL when there is no id. */
static const char *behind_id(const char *target, char id[ID_LENGTH + 1])
{
    if (*target != '/' || strspn(target + 1, "abcdefghijklmnopqrstuvwxyz0123456789") != ID_LENGTH)
        return NULL;
    memcpy(id, target + 1, ID_LENGTH);
    id[ID_LENGTH] = '\0';
    target += 1 + ID_LENGTH;
    return *target == '/' ? target : NULL;
}

/* By its session key, or by a key of its tenant.  NULL: answered. */
static struct box *enter(struct tn_service *s, struct tn_http_exchange *x, const char *id)
{
    struct tn_error err = {0};
    struct box *b = NULL;

    if (openhands_session_enter(s, x, id, &b) <= 0)
        return b;
    if (!front_check(x, s) || !caller_may(x, SCOPE_USE))
        return NULL;
    b = box_find(s, native_tenant(caller_of(x)), id, &err);
    if (!b)
        reply_error(x, &err);
    return b;
}

static void execute(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(ACTION_MAX), out = TN_BUF_INIT(OBSERVATION_MAX);
    struct tn_error err = {0};
    struct act_news news = {0};

    if (read_whole(x, &body))
        return;
    out.purse = purse_of(x);
    const struct act_how how = {.idempotency = tn_http_header(x, "Idempotency-Key"),
                                .request = request_id(x),
                                .watch = tn_http_fd(x)};
    int status = act(b, caller_of(x), tn_buf_str(&body), body.len, &how, &news, &out, &err);
    if (status == ACT_WAITS)
        status = 200; /* which is all that its clients know */
    if (status < 0) {
        reply_error(x, &err);
        return;
    }
    if (news.again)
        tn_http_set_header(x, "Idempotency-Replayed", "true");
    tn_http_reply(x, status, "application/json", out.data, out.len);
}

/* --- the editor ---------------------------------------------------------------------------- */

/* The box whose editor a link with this token opens, and who made the box; NULL: answered. */
static struct box *enter_by_token(struct tn_service *s, struct tn_http_exchange *x, const char *id,
                                  const char *given)
{
    autobox struct box *b = box_find(s, NULL, id, NULL);
    struct caller who;
    char token[33];

    openhands_editor_token(s, id, token);
    if (!b || !tn_same_secret(given, token)) {
        reply_unauthorized(x, "This link opens nothing: it is wrong, or what it opened is gone");
        return NULL;
    }
    autoview struct box_view v;
    box_look(b, &v);
    if (keyring_find(s->keys, v.key_id, &who, NULL)) {
        reply_unauthorized(x, "The key that made this sandbox does not count any more");
        return NULL;
    }
    return caller_enter(x, &who) ? TN_TAKE_PTR(b) : NULL;
}

static void open_editor(struct tn_service *s, struct tn_http_exchange *x, const char *id)
{
    const char *token = tn_http_query(x, "tkn");
    autobox struct box *b = token ? enter_by_token(s, x, id, token) : enter(s, x, id);
    struct tn_error err = {0};

    if (!b)
        return;
    tn_autofree char *link = editor_link(b, caller_of(x), tn_deadline_in(EDITOR_SECONDS), &err);
    if (!link) {
        reply_error(x, &err);
        return;
    }
    tn_http_set_header(x, "Location", link);
    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_set_header(x, "Referrer-Policy", "no-referrer");
    tn_http_reply(x, 302, NULL, NULL, 0);
}

/* Whether there is an editor in it: 1, 0 or -1. */
static int has_editor(struct box *b, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(LOOK_SECONDS);
    tn_autofree char *address = NULL, *key = NULL;
    tn_autojson struct tn_json *plugins = NULL;

    if (box_hand(b, &address, &key, deadline, err))
        return -1;
    if (tn_hand_plugins(&(struct tn_hand_address){.address = address, .key = key}, &plugins,
                        deadline, err))
        return -1;
    const struct tn_json *editor = tn_hand_plugin_named(plugins, "vscode");
    return tn_json_bool(tn_json_get(editor, "usable"), false);
}

/* The hand's own token opens a port of the sandbox; the client is to come through here. */
static void tell_token(struct tn_http_exchange *x, struct box *b)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 10);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    char token[33];
    int there = has_editor(b, &err);

    if (there < 0) {
        reply_error(x, &err);
        return;
    }
    openhands_editor_token(box_service(b), box_id(b), token);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "token", there ? token : NULL);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- all of it ----------------------------------------------------------------------------- */

bool openhands_take(struct tn_service *s, struct tn_http_exchange *x)
{
    bool get = strcmp(tn_http_method(x), "GET") == 0, post = strcmp(tn_http_method(x), "POST") == 0;
    char id[ID_LENGTH + 1];
    const char *target = behind_id(tn_http_target(x), id);

    if (!target)
        return false;
    /* Decoded, as the hand will read it. */
    const char *path = tn_http_path(x) + 1 + ID_LENGTH;
    if (get && (strcmp(path, "/vscode") == 0 || strcmp(path, "/vscode/") == 0)) {
        open_editor(s, x, id);
        return true;
    }
    autobox struct box *b = enter(s, x, id);
    if (!b)
        return true;
    if (post && strcmp(path, "/execute_action") == 0)
        execute(x, b);
    else if (get && strcmp(path, "/vscode/connection_token") == 0)
        tell_token(x, b);
    else
        proxy_to_hand(x, b, target);
    return true;
}
