/* The editor of a sandbox (VS Code) for browsers.
 *
 * It needs storage, workers and cookies, hence an origin of its own: it is shown as the preview of
 * its port. */
#include "base/clock.h"
#include "runtime/hand-vscode.h"
#include "service/api-native.h"
#include "service/preview-host.h"
#include "service/proxy.h"

#define START_SECONDS 70.0

char *editor_link(struct box *b, const struct caller *who, int64_t deadline, struct tn_error *err)
{
    const struct tn_service *s = box_service(b);
    tn_autovscode struct tn_hand_vscode editor = {0};
    tn_autofree char *address = NULL, *key = NULL;

    if (!preview_reaches(s->url, s->options->preview_domain)) {
        tn_fail(err, TN_E_UNSUPPORTED,
                "The editor needs a host name of its own: set service.preview_domain to a domain "
                "all of whose names lead to this service");
        return NULL;
    }
    if (box_hand(b, &address, &key, deadline, err) < 0)
        return NULL;
    const struct tn_hand_address at = {.address = address, .key = key};
    if (tn_hand_vscode_open(&at, &editor, deadline, err) < 0)
        return NULL;
    tn_autofree char *rest = tn_asprintf("%s%s", editor.base, editor.page);
    return preview_link(s, who, box_id(b), editor.port, rest, err);
}

static void post_editor(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_USE);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(32 << 10);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!b || native_read_nothing(x))
        return;
    tn_autofree char *link = editor_link(b, caller_of(x), tn_deadline_in(START_SECONDS), &err);
    if (!link) {
        reply_error(x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "link", link);
    tn_jw_object_end(&w);
    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_reply_json(x, 201, &json);
}

const struct tn_route routes_editor[] = {
    {"POST", "/v1/sandboxes/{id}/editor", post_editor,
     "starts VS Code and makes a link that opens it in a browser", 0},
    {0},
};
