#include "service/cells.h"

#include <sys/random.h>

#include "runtime/hand-answer.h"
#include "service/caller.h"

#define ASK_SECONDS 60.0
enum { SESSIONS_MAX = 4 << 20 };

const char cells_usual[] = "default";

bool cells_is_usual(const char *id)
{
    return !id || strcmp(id, cells_usual) == 0;
}

int cells_new_id(char out[CELLS_ID], struct tn_error *err)
{
    unsigned char bytes[CELLS_ID / 2];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return tn_fail(err, TN_E_INTERNAL, "no random bytes");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static bool is_id(const char *text)
{
    return strspn(text, "0123456789abcdef") == CELLS_ID - 1 && !text[CELLS_ID - 1];
}

static void name_kernel(const struct cells *c, const char *id, char out[CELLS_KERNEL])
{
    snprintf(out, CELLS_KERNEL, "%s%s", c->prefix, id ? id : cells_usual);
}

/* One question to the hand about its sessions; kernel NULL: about all of them. */
static int ask(const struct cells *c, const char *method, const char *kernel,
               const struct tn_buf *body, struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = ANSWER_BUF(c->x, SESSIONS_MAX);
    tn_autofree char *target =
        tn_asprintf("/v1/sessions%s%s", kernel ? "/" : "", kernel ? kernel : "");
    tn_autofree char *address = NULL, *key = NULL;
    static const struct tn_buf nothing;
    int64_t deadline = tn_deadline_in(ASK_SECONDS);

    if (box_hand(c->b, &address, &key, deadline, err))
        return -1;
    const struct tn_hand_address at = {.address = address, .key = key};
    if (tn_hand_ask(&at, method, target, body ? body : &nothing, &answer, deadline, err))
        return -1;
    return out ? hold_json(c->x, &answer, out, err) : 0;
}

static int begin(const struct cells *c, const char *kernel, const char *cwd, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "name", kernel);
    if (cwd)
        tn_jw_kstr(&w, "cwd", cwd);
    tn_jw_object_end(&w);
    return ask(c, "POST", NULL, &body, NULL, err);
}

int cells_make_context(const struct cells *c, const char *cwd, char id[CELLS_ID],
                       struct tn_error *err)
{
    char kernel[CELLS_KERNEL];

    if (cells_new_id(id, err))
        return -1;
    name_kernel(c, id, kernel);
    return begin(c, kernel, cwd, err);
}

int cells_find_context(const struct cells *c, const char *id, char kernel[CELLS_KERNEL], char **cwd,
                       struct tn_error *err)
{
    tn_autojson struct tn_json *session = NULL;
    struct tn_error why = {0};

    name_kernel(c, id, kernel);
    if (cells_is_usual(id))
        return 0;
    if (is_id(id) && ask(c, "GET", kernel, NULL, &session, &why) == 0) {
        if (cwd)
            *cwd = tn_strdup(tn_json_get_str(session, "cwd", "/"));
        return 0;
    }
    if (!is_id(id) || why.code == TN_E_NOT_FOUND)
        return tn_fail(err, TN_E_NOT_FOUND, "Context %.40s not found", id);
    *err = why;
    return -1;
}

/* The usual one gets a session first, and loses it. */
int cells_end_context(const struct cells *c, const char *id, bool again, struct tn_error *err)
{
    tn_autofree char *cwd = NULL;
    char kernel[CELLS_KERNEL];
    struct tn_error why = {0};

    if (cells_find_context(c, id, kernel, &cwd, err))
        return -1;
    if (!cwd && begin(c, kernel, NULL, &why) && why.code != TN_E_CONFLICT) {
        *err = why;
        return -1;
    }
    if (ask(c, "DELETE", kernel, NULL, NULL, err))
        return -1;
    return cwd && again ? begin(c, kernel, cwd, err) : 0;
}

int cells_each_context(const struct cells *c, cells_context_fn fn, void *ctx, struct tn_error *err)
{
    tn_autojson struct tn_json *all = NULL;
    size_t n = strlen(c->prefix);

    if (ask(c, "GET", NULL, NULL, &all, err))
        return -1;
    const struct tn_json *sessions = tn_json_get(all, "sessions");
    for (size_t i = 0; i < tn_json_count(sessions); i++) {
        const struct tn_json *one = tn_json_at(sessions, i);
        const char *name = tn_json_get_str(one, "name", "");
        if (strncmp(name, c->prefix, n) == 0 && is_id(name + n))
            fn(name + n, tn_json_get_str(one, "cwd", ""),
               tn_json_double(tn_json_get(one, "age_seconds"), 0), ctx);
    }
    return 0;
}
