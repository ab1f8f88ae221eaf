#include "hand/v1/v1.h"

#include <signal.h>
#include <strings.h>

#include "hand/file-actions.h"

enum { BODY_MAX = 1 << 20 };

static void refuse(struct tn_http_exchange *x, const char *name, const char *why)
{
    tn_autofree char *detail = tn_asprintf("%s %s", name, why);
    tn_http_reply_detail(x, 422, detail);
}

/* --- the query ----------------------------------------------------------------------------- */

bool tn_v1_number(const char *text, int base, int64_t max, int64_t *out)
{
    int64_t value = 0;

    if (!*text)
        return false;
    for (; *text; text++) {
        int digit = *text - '0';
        if (digit < 0 || digit >= base || value > (max - digit) / base)
            return false;
        value = value * base + digit;
    }
    *out = value;
    return true;
}

int64_t tn_v1_query_number(struct tn_http_exchange *x, const char *name, int64_t fallback)
{
    const char *text = tn_http_query(x, name);
    int64_t value = fallback;

    if (!text || tn_v1_number(text, 10, INT64_MAX, &value))
        return value;
    refuse(x, name, "must be a whole number, 0 or more");
    return -1;
}

int tn_v1_query_flag(struct tn_http_exchange *x, const char *name)
{
    static const char *const words[] = {"false", "0", "no", "off", "true", "1", "yes", "on"};
    const char *text = tn_http_query(x, name);

    for (size_t i = 0; text && i < TN_COUNT(words); i++) {
        if (strcasecmp(text, words[i]) == 0)
            return i >= TN_COUNT(words) / 2;
    }
    if (!text)
        return 0;
    refuse(x, name, "must be true or false");
    return -1;
}

/* --- the body ------------------------------------------------------------------------------ */

int tn_v1_body(struct tn_http_exchange *x, struct tn_json **tree)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(BODY_MAX);
    struct tn_error err = {0};

    *tree = NULL;
    if (tn_http_read_all(x, &body, &err) < 0 ||
        (body.len && tn_json_parse(tn_buf_str(&body), body.len, tree, &err) < 0)) {
        tn_http_reply_error(x, &err);
        return -1;
    }
    if (body.len && tn_json_type(*tree) != TN_JSON_OBJECT) {
        tn_json_free(TN_TAKE_PTR(*tree));
        refuse(x, "the body", "must be a JSON object");
        return -1;
    }
    return 0;
}

int tn_v1_string(struct tn_http_exchange *x, const struct tn_json *body, const char *name,
                 bool needed, const char **out)
{
    const struct tn_json *value = tn_json_get(body, name);
    size_t n = 0;

    *out = tn_json_str(value, &n);
    if (*out ? strlen(*out) == n : !value && !needed)
        return 0;
    refuse(x, name, value ? "must be a string without NUL" : "is required");
    return -1;
}

/* "INT", "SIGINT" or 2; 0 for none of them. */
static int signal_number(const struct tn_json *v)
{
    const char *name = tn_json_str(v, NULL);

    if (!name) {
        int64_t n = tn_json_int(v, 0);
        return n > 0 && n < NSIG ? (int)n : 0;
    }
    if (strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; i < NSIG; i++) {
        const char *abbrev = sigabbrev_np(i);
        if (abbrev && strcasecmp(abbrev, name) == 0)
            return i;
    }
    return 0;
}

int tn_v1_signal(struct tn_http_exchange *x, const struct tn_json *body)
{
    int number = signal_number(tn_json_get(body, "signal"));

    if (!number)
        refuse(x, "signal", "must be a name such as \"INT\" or a number");
    return number;
}

/* --- files and sessions -------------------------------------------------------------------- */

char *tn_v1_path(struct tn_http_exchange *x, const char *path, const char *name)
{
    struct tn_error err;

    if (!path || path[0] != '/') {
        refuse(x, name, path ? "must be an absolute path" : "is required");
        return NULL;
    }
    char *normal = tn_path_normal(tn_slice(path), &err);
    if (!normal)
        tn_http_reply_error(x, &err);
    return normal;
}

char *tn_v1_query_path(struct tn_http_exchange *x)
{
    return tn_v1_path(x, tn_http_query(x, "path"), "path");
}

int tn_v1_act_as_user(struct tn_http_exchange *x, struct tn_hand *hand, struct tn_act_as *as)
{
    struct tn_file_user user = tn_hand_file_user(hand);
    struct tn_error err;

    if (tn_file_act_as(as, &user, &err) == 0)
        return 0;
    tn_http_reply_error(x, &err);
    return -1;
}

struct tn_session *tn_v1_session(struct tn_http_exchange *x, struct tn_hand *hand)
{
    const char *name = tn_http_param(x, "name");
    struct tn_error err;
    struct tn_session *s = tn_sessions_get(hand->sessions, name ? name : "", &err);

    if (!s)
        tn_http_reply_error(x, &err);
    return s;
}
