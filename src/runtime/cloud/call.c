/* One request to a vendor, as often as it takes and as often as it may be sent. */
#include <ctype.h>

#include "base/sha256.h"
#include "net/url.h"
#include "runtime/cloud/cloud.h"
#include "runtime/hand-address.h"

enum {
    SENTENCE_MAX = 400,
    MOST_PAGES = 1000,
    KEY_LETTERS = 32,
};

/* --- text of others --------------------------------------------------------------------------- */

char *cloud_sentence(const char *text)
{
    char *line = tn_strndup(text, SENTENCE_MAX);

    for (char *p = line; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
            *p = ' ';
    return line;
}

char *cloud_target(const char *before, const char *id, const char *after)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64 << 10);

    tn_buf_puts(&out, before);
    tn_url_encode(&out, id, "");
    tn_buf_puts(&out, after);
    return tn_buf_take(&out);
}

bool cloud_is_id(const char *text)
{
    size_t n = 0;

    while (isalnum((unsigned char)text[n]) || text[n] == '-' || text[n] == '_')
        n++;
    return n > 0 && n <= CLOUD_ID_MAX && !text[n];
}

bool cloud_is_host(const char *text)
{
    tn_autofree char *url = tn_asprintf("http://%s", text);

    return !strpbrk(text, "/#[") && tn_hand_is_url(url);
}

char *cloud_base(const char *setting, const char *url, struct tn_error *err)
{
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/')
        n--;
    tn_autofree char *base = tn_strndup(url, n);
    if (tn_hand_is_url(base))
        return TN_TAKE_PTR(base);
    tn_fail(err, TN_E_INVALID, "%s: expected http(s)://HOST[:PORT][/PATH]", setting);
    return NULL;
}

bool cloud_is_token(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n <= CLOUD_TOKEN_MAX &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                        "-._~+/=:") == n;
}

char *cloud_token(const struct tn_json *tree, const char *name)
{
    const char *text = tn_json_get_str(tree, name, "");

    return cloud_is_token(text) ? tn_strdup(text) : NULL;
}

/* --- refusals --------------------------------------------------------------------------------- */

/* Whoever repeats what was sent must not make us print it. */
static bool tells_secret(const struct cloud_line *line, const char *text)
{
    for (const char *const *secret = line->secrets; *secret; secret++)
        if (**secret && strstr(text, *secret))
            return true;
    return false;
}

char *cloud_words(const struct cloud_line *line, const char *text)
{
    char *words = cloud_sentence(text);

    if (tells_secret(line, text) || tells_secret(line, words))
        *words = '\0';
    return words;
}

/* The first of the members that is text, or text within an object of that name. */
static const char *find_words(const struct tn_json *tree)
{
    static const char *const names[] = {"message", "error"};

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        const struct tn_json *v = tn_json_get(tree, names[i]);
        const char *text = tn_json_str(v, NULL);
        if (!text)
            text = tn_json_get_str(v, "message", NULL);
        if (text && *text)
            return text;
    }
    return "";
}

static int refused(const struct cloud_line *line, const struct tn_web_answer *answer,
                   const char *told, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;

    if (!told)
        tn_json_parse(tn_buf_str(&answer->body), answer->body.len, &tree, NULL);
    tn_autofree char *words = cloud_words(line, told ? told : find_words(tree));
    if (answer->status >= 300 && answer->status < 400)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "%s answers that somebody else is to be asked (HTTP %d): nobody else is "
                       "sent a key",
                       line->who, answer->status);
    if (answer->status == 401 && line->key_advice)
        return tn_fail(err, TN_E_DENIED, "%s does not accept the key%s%s (HTTP 401): %s", line->who,
                       *words ? ": " : "", words, line->key_advice);
    tn_web_refused(answer, *words ? words : "it gives no reason", err);
    return tn_error_context(err, "%s", line->who);
}

/* --- asking again ----------------------------------------------------------------------------- */

static bool may_repeat(const struct cloud_line *line, const struct cloud_call *call,
                       const struct tn_error *why, int status)
{
    /* A status that comes last comes after what the sink has taken. */
    if (call->hurried || (line->status && call->web.sink))
        return false;
    if (status == 429) /* it was not even looked at */
        return true;
    if (call->unsafe || call->web.sink || call->web.source)
        return false;
    return status ? status == 502 || status == 503 || status == 504 : why->code == TN_E_PEER;
}

static bool is_good(const struct tn_web_answer *answer)
{
    return answer->status >= 200 && answer->status < 300;
}

static int send_once(const struct cloud_line *line, const struct cloud_call *call,
                     struct tn_web_answer *answer, int64_t deadline, struct tn_error *err)
{
    struct tn_web_call web = call->web;
    int64_t soon = line->seconds > 0 ? tn_deadline_in(line->seconds) : deadline;

    web.deadline = soon < deadline ? soon : deadline;
    web.once = call->unsafe;
    return tn_web_call(line->web, &web, answer, err);
}

int cloud_ask_raw(const struct cloud_line *line, const struct cloud_call *call,
                  struct tn_web_answer *answer, int64_t deadline, struct tn_error *err)
{
    struct tn_web_again again = {0};
    struct tn_error why = {0};

    for (;;) {
        tn_autofree char *words = NULL;
        int failed = send_once(line, call, answer, deadline, &why);
        if (!failed && line->status)
            answer->status = line->status(answer, &words);
        if (!failed && (is_good(answer) || (answer->status == 404 && call->ends)))
            return 0;
        if (failed)
            tn_error_context(&why, "%s", line->who);
        else
            refused(line, answer, words, &why);
        if (!may_repeat(line, call, &why, failed ? 0 : answer->status) ||
            tn_web_again(&again, failed ? NULL : answer, call->web.cancel, deadline, &why) < 0)
            return cloud_fail(err, &why);
    }
}

int cloud_ask(const struct cloud_line *line, const struct cloud_call *call, struct tn_json **out,
              int64_t deadline, struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer got = TN_WEB_ANSWER_INIT(CLOUD_ANSWER_MAX);
    tn_autojson struct tn_json *tree = NULL;

    if (out)
        *out = NULL;
    if (cloud_ask_raw(line, call, &got, deadline, err) < 0)
        return -1;
    if (!out || got.body.len == 0)
        return 0;
    tn_autofree char *type = tn_web_answer_header(&got, "content-type");
    if ((!type || strstr(type, "json")) &&
        tn_json_parse(tn_buf_str(&got.body), got.body.len, &tree, NULL) == 0) {
        *out = TN_TAKE_PTR(tree);
        return 0;
    }
    return tn_fail(err, TN_E_PEER, "%s: its answer to %s %.*s makes no sense", line->who,
                   call->web.method ? call->web.method : "GET", (int)strcspn(call->web.target, "?"),
                   call->web.target);
}

/* --- vendors that talk JSON ------------------------------------------------------------------- */

struct cloud_call cloud_post(const char *target, const struct tn_buf *body)
{
    return (struct cloud_call){.web = {.method = "POST",
                                       .target = target,
                                       .type = "application/json",
                                       .body = tn_buf_str(body),
                                       .body_len = body->len}};
}

int cloud_ask_for(const struct cloud *c, const struct tn_subject *s, const char *target,
                  const char *key, const struct tn_buf *body, struct tn_json **out,
                  int64_t deadline, struct tn_error *err)
{
    struct cloud_call call = cloud_post(target, body);
    char digest[CLOUD_DIGEST];
    struct tn_sha256 hash;

    if (!tn_buf_ok(body))
        return tn_fail(err, TN_E_TOO_LARGE, "its variables and labels are too large");
    /* The marks are in the body: nobody else sends that.  Another image is another request, and so
     * is a later create of a sandbox that was removed: it has another deadline, which both tries of
     * one have in common. */
    tn_sha256_init(&hash);
    tn_sha256_add(&hash, body->data, body->len);
    tn_sha256_add(&hash, &deadline, sizeof deadline);
    tn_sha256_end_hex(&hash, digest);
    tn_autofree char *header = key ? tn_asprintf("%s%.*s", key, KEY_LETTERS, digest) : NULL;
    const char *const headers[] = {header, NULL};
    call.unsafe = true;
    call.web.headers = headers;
    call.web.cancel = s->cancel;
    return cloud_ask(&c->line, &call, out, deadline, err);
}

int cloud_look(const struct cloud *c, const char *before, const char *id, cloud_read_fn *read,
               struct cloud_view *out, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = cloud_target(before, id, "");
    const struct cloud_call call = {.web = {.target = target}};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};

    *out = (struct cloud_view){0};
    if (cloud_ask(&c->line, &call, &tree, deadline, &why) < 0)
        return why.code == TN_E_NOT_FOUND ? 0 : cloud_fail(err, &why);
    if (read(c, tree, out, err) < 0)
        return -1;
    if (out->known && strcmp(out->id, id) != 0)
        return tn_fail(err, TN_E_PEER, "%s was asked for one sandbox and tells of another",
                       c->line.who);
    return 0;
}

/* Where the next page begins, on the heap; NULL: this was the last. */
static char *next_of(const struct tn_web_answer *answer, const struct tn_json *tree,
                     const struct tn_json *items)
{
    char *token = tn_web_answer_header(answer, "x-next-token");
    size_t count = tn_json_count(items);

    if (token || tn_json_type(tree) != TN_JSON_OBJECT)
        return token;
    if (tn_json_bool(tn_json_get(tree, "has_more"), false) && count)
        return tn_strdup_or_null(tn_json_get_str(tn_json_at(items, count - 1), "id", NULL));
    return tn_strdup_or_null(tn_json_get_str(tree, "nextCursor", NULL));
}

int cloud_each(const struct cloud *c, const struct cloud_list *l, const char *id, cloud_found_fn fn,
               void *ctx, int64_t deadline, struct tn_error *err)
{
    autocloudpile struct cloud_pile pile = {0};
    tn_autofree char *next = NULL;

    for (int pages = 0; pages < MOST_PAGES && pile.count <= CLOUD_PILE_MAX; pages++) {
        tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(CLOUD_ANSWER_MAX);
        tn_autofree char *more = next ? cloud_target(l->more, next, "") : tn_strdup("");
        tn_autofree char *target = tn_asprintf("%s%s", l->first, more);
        const struct cloud_call call = {.web = {.target = target}};
        tn_autojson struct tn_json *tree = NULL;
        if (cloud_ask_raw(&c->line, &call, &answer, deadline, err) < 0)
            return -1;
        tn_json_parse(tn_buf_str(&answer.body), answer.body.len, &tree, NULL);
        const struct tn_json *items = tn_json_type(tree) == TN_JSON_ARRAY
                                          ? tree
                                          : tn_json_get(tree, l->items ? l->items : "");
        if (tn_json_type(items) != TN_JSON_ARRAY)
            return tn_fail(err, TN_E_PEER, "%s: its list makes no sense", c->line.who);
        for (size_t i = 0; i < tn_json_count(items); i++) {
            autocloudview struct cloud_view v = {0};
            if (l->read(c, tn_json_at(items, i), &v, NULL) == 0)
                cloud_pile_add(&pile, &v, id);
        }
        free(next);
        next = next_of(&answer, tree, items);
        if (!next || !*next)
            return cloud_pile_tell(&pile, l->newest_first, fn, ctx);
    }
    return tn_fail(err, TN_E_PEER, "%s: its list has no end", c->line.who);
}
