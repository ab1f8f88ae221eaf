#include "runtime/hand-address.h"

#include <string.h>

#include "net/listen.h"
#include "net/url.h"
#include "web/web.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define PATH_BYTES LETTERS DIGITS "-._~/%:@!$&'()*+,;="

/* "https://" of an address that begins so, else NULL. */
static const char *scheme_of(const char *address)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < TN_COUNT(schemes); i++)
        if (strncmp(address, schemes[i], strlen(schemes[i])) == 0)
            return schemes[i];
    return NULL;
}

/* "NAME", "1.2.3.4" or "[V6]", and perhaps ":PORT": the n bytes that begin at text. */
static bool is_authority(const char *text, size_t n)
{
    bool v6 = n > 0 && text[0] == '[';
    size_t name =
        v6 ? 1 + strspn(text + 1, DIGITS "abcdefABCDEF:.") : strspn(text, LETTERS DIGITS "-._");

    if (v6 && (name == 1 || text[name++] != ']'))
        return false;
    if (name == 0 || name > n)
        return false;
    size_t port = text[name] == ':' ? strspn(text + name + 1, DIGITS) : 0;
    return port <= 5 && name + (port ? port + 1 : 0) == n;
}

int tn_hand_place(const char *address, struct tn_hand_place *out, struct tn_error *err)
{
    const char *scheme = scheme_of(address);

    *out = (struct tn_hand_place){.host = "hand", .base = ""};
    if (!scheme)
        return 0;
    const char *host = address + strlen(scheme);
    size_t n = strcspn(host, "/");
    const char *path = host + n;
    size_t length = strlen(path);
    if (n >= sizeof out->host || !is_authority(host, n) || strspn(path, PATH_BYTES) != length ||
        !tn_url_valid(path, length) || (length && path[length - 1] == '/'))
        return tn_fail(err, TN_E_INVALID,
                       "not an address: expected http(s)://HOST[:PORT][/PATH], without a final "
                       "slash, user or query");
    memcpy(out->host, host, n);
    out->host[n] = '\0';
    out->far = true;
    out->base = path;
    return 0;
}

int tn_hand_dial(const char *address, int64_t deadline, struct tn_error *err)
{
    struct tn_hand_place place;

    if (tn_hand_place(address, &place, err) < 0)
        return -1;
    if (!place.far)
        return tn_dial(address, deadline, err);
    struct tn_web_options options = {.base = address};
    tn_autoweb struct tn_web *web = tn_web_new(&options, err);
    return web ? tn_web_dial(web, deadline, err) : -1;
}

struct tn_http_client *tn_hand_http(const char *address, const char *key, struct tn_error *err)
{
    struct tn_hand_place place;

    if (tn_hand_place(address, &place, err) < 0)
        return NULL;
    struct tn_http_client *http =
        place.far ? tn_http_client_at(address, tn_hand_dial, place.host, place.base)
                  : tn_http_client_new(address, err);
    if (http && key)
        tn_http_client_header(http, "X-Session-API-Key", key);
    return http;
}
