#include "runtime/mcp/challenge.h"

#include <strings.h>

#include "base/buf.h"
#include "net/http-parse.h"

enum { VALUE_MAX = 8192 };

/* --- WWW-Authenticate ------------------------------------------------------------------------- */

/* A place in the header. */
struct cursor {
    const char *at;
};

static void skip(struct cursor *c, const char *bytes)
{
    c->at += strspn(c->at, bytes);
}

/* Bytes of a token at the cursor. */
static size_t token_length(const struct cursor *c)
{
    size_t n = 0;

    while (c->at[n] && tn_http_is_token(c->at + n, 1))
        n++;
    return n;
}

/* The text in quotes, or the token, at the cursor; NULL when there is neither. */
static char *take_value(struct cursor *c)
{
    struct tn_buf text = TN_BUF_INIT(VALUE_MAX);

    if (*c->at != '"') {
        size_t n = token_length(c);
        if (n == 0 || n > VALUE_MAX)
            return NULL;
        c->at += n;
        return tn_strndup(c->at - n, n);
    }
    for (c->at++; *c->at && *c->at != '"'; c->at++) {
        if (*c->at == '\\' && c->at[1])
            c->at++;
        tn_buf_putc(&text, *c->at);
    }
    if (*c->at == '"' && tn_buf_ok(&text)) {
        c->at++;
        return tn_buf_take(&text);
    }
    tn_buf_done(&text);
    return NULL;
}

static void keep(struct mcp_challenge *out, const char *name, size_t n, char *value)
{
    const struct {
        const char *name;
        char **where;
    } members[] = {
        {"resource_metadata", &out->metadata}, {"scope", &out->scope}, {"error", &out->error}};

    for (size_t i = 0; i < TN_COUNT(members); i++) {
        if (tn_http_same(name, n, members[i].name) && !*members[i].where) {
            *members[i].where = value;
            return;
        }
    }
    free(value);
}

void mcp_challenge_read(const char *value, struct mcp_challenge *out)
{
    struct cursor c = {.at = value};
    bool ours = false;

    *out = (struct mcp_challenge){0};
    for (;;) {
        skip(&c, ", \t");
        const char *name = c.at;
        size_t n = token_length(&c);
        if (n == 0)
            return;
        c.at += n;
        struct cursor after = c;
        skip(&after, " \t");
        bool member = *after.at == '=' && after.at[1] != '=';
        if (!member) { /* the next scheme; only the first that is ours counts */
            bool bearer = tn_http_same(name, n, "Bearer"), dpop = tn_http_same(name, n, "DPoP");
            ours = (bearer || dpop) && !out->bearer && !out->dpop;
            out->bearer |= ours && bearer;
            out->dpop |= ours && dpop;
            /* Some have one opaque word after them. */
            size_t opaque = strspn(after.at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                             "0123456789-._~+/");
            size_t padding = strspn(after.at + opaque, "=");
            if (padding && strchr(", \t", after.at[opaque + padding]))
                c.at = after.at + opaque + padding;
            continue;
        }
        c.at = after.at + 1;
        skip(&c, " \t");
        char *text = take_value(&c);
        if (!text)
            return;
        if (ours)
            keep(out, name, n, text);
        else
            free(text);
    }
}

void mcp_challenge_done(struct mcp_challenge *c)
{
    free(c->metadata);
    free(c->scope);
    free(c->error);
}

/* --- URLs ------------------------------------------------------------------------------------- */

static bool well_formed(const char *text)
{
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~' || strchr("\"<>\\^`{|}#", *c))
            return false;
    return true;
}

/* "host" and ":port" or "" of n bytes. */
static int read_place(const char *text, size_t n, const char *usual, char **host, char **port)
{
    const char *close = *text == '[' ? memchr(text, ']', n) : NULL;
    size_t length = close ? (size_t)(close + 1 - text) : 0;

    if (*text == '[' && !close)
        return -1;
    if (!close)
        while (length < n && text[length] != ':')
            length++;
    size_t digits = n > length ? n - length - 1 : 0;
    if (length == 0 || (n > length && text[length] != ':') ||
        strspn(text + length + (n > length), "0123456789") < digits || digits > 5)
        return -1;
    *host = tn_strndup(text, length);
    for (char *c = *host; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    bool plain =
        digits == 0 || (strlen(usual) == digits && strncmp(text + length + 1, usual, digits) == 0);
    *port = plain ? tn_strdup("") : tn_strndup(text + length, digits + 1);
    return 0;
}

int mcp_url_read(const char *text, struct mcp_url *out, struct tn_error *err)
{
    bool secure = strncasecmp(text, "https://", 8) == 0;
    const char *place = secure ? text + 8 : text + 7;
    tn_autofree char *port = NULL;
    char *host = NULL;

    if ((!secure && strncasecmp(text, "http://", 7) != 0) || !well_formed(text))
        return tn_fail(err, TN_E_INVALID, "expected an http or https URL, found '%.60s'", text);
    size_t n = strcspn(place, "/?");
    if (memchr(place, '@', n) || read_place(place, n, secure ? "443" : "80", &host, &port) < 0)
        return tn_fail(err, TN_E_INVALID, "'%.60s' has no host of the usual form", text);
    size_t path = strcspn(place + n, "?");
    *out = (struct mcp_url){
        .origin = tn_asprintf("%s://%s%s", secure ? "https" : "http", host, port),
        .host = host,
        .path = tn_strndup(place + n, path),
        .query = tn_strdup(place + n + path),
        .secure = secure,
    };
    return 0;
}

void mcp_url_done(struct mcp_url *u)
{
    free(u->origin);
    free(u->host);
    free(u->path);
    free(u->query);
}

bool mcp_url_covers(const struct mcp_url *resource, const struct mcp_url *url)
{
    size_t n = strlen(resource->path);

    while (n > 0 && resource->path[n - 1] == '/')
        n--;
    return strcmp(resource->origin, url->origin) == 0 && !*resource->query &&
           strncmp(resource->path, url->path, n) == 0 && (!url->path[n] || url->path[n] == '/');
}

/* --- scopes ----------------------------------------------------------------------------------- */

static bool has_word(const char *list, const char *word, size_t n)
{
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, " ");
        if (length == n && strncmp(at, word, n) == 0)
            return true;
        at += length + strspn(at + length, " ");
    }
    return false;
}

static void add_words(struct tn_buf *out, const char *list)
{
    for (const char *at = list ? list + strspn(list, " ") : ""; *at;) {
        size_t n = strcspn(at, " ");
        if (!has_word(tn_buf_str(out), at, n)) {
            if (out->len)
                tn_buf_putc(out, ' ');
            tn_buf_add(out, at, n);
        }
        at += n + strspn(at + n, " ");
    }
}

char *mcp_scope_join(const char *a, const char *b)
{
    struct tn_buf out = TN_BUF_INIT(VALUE_MAX);

    add_words(&out, a);
    add_words(&out, b);
    return tn_buf_take(&out);
}

bool mcp_scope_has(const char *many, const char *few)
{
    for (const char *at = few ? few + strspn(few, " ") : ""; *at;) {
        size_t n = strcspn(at, " ");
        if (!has_word(many ? many : "", at, n))
            return false;
        at += n + strspn(at + n, " ");
    }
    return true;
}
