#include "service/login.h"

#include "base/json.h"
#include "service/audit.h"
#include "service/caller.h"
#include "service/ticket.h"

#define PASS_PREFIX "tnt_"
#define LINK_SECONDS 60.0
#define PASS_SECONDS (12 * 3600.0)
enum { BODY_MAX = 4096 };

bool login_is_pass(const char *text)
{
    return strncmp(text, PASS_PREFIX, sizeof PASS_PREFIX - 1) == 0;
}

int login_check(struct tn_service *s, const char *pass, struct caller *out, struct tn_error *err)
{
    return ticket_check(s, pass + sizeof PASS_PREFIX - 1, "pass", "", out, err);
}

static void reply_secret(struct tn_http_exchange *x, const char *name, const char *value,
                         double seconds)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(BODY_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, name, value);
    tn_jw_kdouble(&w, "seconds", seconds);
    tn_jw_object_end(&w);
    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_reply_json(x, 201, &json);
}

/* Passes make no links, so one that was stolen ends by itself (unless it may make keys). */
static bool came_with_pass(const struct tn_http_exchange *x)
{
    static const char *const headers[] = {"X-API-Key", "Authorization"};

    for (size_t i = 0; i < TN_COUNT(headers); i++) {
        const char *value = tn_http_header(x, headers[i]);
        const char *space = value ? strrchr(value, ' ') : NULL;
        if (value && login_is_pass(space ? space + 1 : value))
            return true;
    }
    return false;
}

void login_make_link(struct tn_http_exchange *x, void *service)
{
    char ticket[TICKET_MAX];
    struct tn_error err = {0};

    if (came_with_pass(x)) {
        reply_status(x, 403, tn_code_row(TN_E_DENIED)->name,
                     "You signed in by a link: only who has the key itself can make another");
        return;
    }
    if (ticket_make_link(((struct tn_service *)service)->secret, caller_of(x)->key_id, LINK_SECONDS,
                         ticket, &err) < 0) {
        reply_error(x, &err);
        return;
    }
    tn_autofree char *url = base_url(x);
    tn_autofree char *link = tn_asprintf("%s/#ticket=%s", url, ticket);
    reply_secret(x, "link", link, LINK_SECONDS);
}

void login_take_ticket(struct tn_http_exchange *x, void *service)
{
    struct tn_service *s = service;
    tn_autojson struct tn_json *body = NULL;
    char pass[sizeof PASS_PREFIX + TICKET_MAX] = PASS_PREFIX;
    struct tn_error err = {0};
    struct caller who;

    if (read_json(x, BODY_MAX, &body) < 0)
        return;
    if (ticket_use_link(s, tn_json_get_str(body, "ticket", ""), &who, &err) < 0) {
        if (err.code == TN_E_DENIED)
            reply_unauthorized(x, err.text);
        else
            reply_error(x, &err);
        return;
    }
    const struct audit_entry entry = {.who = &who,
                                      .what = "dashboard.login",
                                      .result = tn_code_row(TN_OK)->name,
                                      .request_id = request_id(x)};
    if (!caller_enter(x, &who))
        return;
    if (ticket_make(s, &who, "pass", "", PASS_SECONDS, pass + sizeof PASS_PREFIX - 1, &err) < 0 ||
        audit_write(s->audit, &entry, &err) < 0)
        reply_error(x, &err);
    else
        reply_secret(x, "key", pass, PASS_SECONDS);
}
