/* By which names clients may call the service, and from which pages.
 *
 * Browsers run what strangers wrote.  A page of theirs must not get at a service on its reader's
 * machine: neither under a name that was made to mean this machine (Host), nor from elsewhere
 * (Origin), unless somebody said that it may. */
#include <arpa/inet.h>
#include <ctype.h>
#include <strings.h>

#include "service/caller.h"
#include "service/front.h"

enum { HOST_MAX = 255 };

/* "Example.org:7171" -> "example.org", "[::1]:80" -> "::1". */
static bool host_name(const char *host, char out[HOST_MAX + 1])
{
    bool v6 = host[0] == '[';
    size_t n = v6 ? strcspn(++host, "]") : strcspn(host, ":");

    if (n == 0 || n > HOST_MAX || (v6 && host[n] != ']'))
        return false;
    const char *rest = host + n + v6; /* nothing but a port: links are made of all of it */
    if (*rest && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")]))
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tolower((unsigned char)host[i]);
    out[n] = '\0';
    if (out[n - 1] == '.') /* a name that is fully qualified */
        out[n - 1] = '\0';
    return true;
}

/* What follows "://" of a URL, up to its path. */
static bool url_host(const char *url, char out[HOST_MAX + 32])
{
    const char *at = url ? strstr(url, "://") : NULL;
    size_t n = at ? strcspn(at + 3, "/?#") : 0;

    if (n == 0 || n >= HOST_MAX + 32)
        return false;
    memcpy(out, at + 3, n);
    out[n] = '\0';
    return true;
}

static bool is_in(const struct tn_str_list *list, const char *word)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcasecmp(list->items[i], word) == 0)
            return true;
    return false;
}

/* A page can make a name of its own mean this machine; it cannot do that with an address, nor with
 * localhost. */
static bool is_our_name(const struct tn_service *s, const char *name)
{
    char host[HOST_MAX + 32], ours[HOST_MAX + 1];
    struct in6_addr address;

    if (strcmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &address) == 1 ||
        inet_pton(AF_INET6, name, &address) == 1)
        return true;
    return is_in(&s->options->hosts, name) ||
           (url_host(s->options->url, host) && host_name(host, ours) && strcmp(ours, name) == 0);
}

bool host_check(const struct tn_service *s, struct tn_http_exchange *x)
{
    const char *host = tn_http_header(x, "Host");
    char name[HOST_MAX + 1];

    /* No browser gets to a unix socket, none leaves Host away. */
    if (!host || strcmp(tn_http_peer(x), "unix") == 0)
        return true;
    if (host_name(host, name) && is_our_name(s, name))
        return true;
    return front_deny(x, 421, "This service does not know itself by that Host: see service.hosts");
}

/* --- pages that may call ------------------------------------------------------------------- */

/* "https://a.example" of "https://a.example/path"? */
static bool same_origin(const char *origin, const char *url)
{
    const char *at = url ? strstr(url, "://") : NULL;
    size_t n = at ? (size_t)(at - url) + 3 + strcspn(at + 3, "/?#") : 0;

    return n && strlen(origin) == n && strncasecmp(origin, url, n) == 0;
}

/* A page of ours: its Origin is the Host that it talks to, which was checked to be ours. */
static bool is_own_page(const struct tn_service *s, const struct tn_http_exchange *x,
                        const char *origin)
{
    const char *host = tn_http_header(x, "Host");
    char site[HOST_MAX + 32];

    return (host && url_host(origin, site) && strcasecmp(site, host) == 0) ||
           same_origin(origin, s->options->url);
}

static void allow_page(struct tn_http_exchange *x, const char *origin)
{
    tn_http_set_header(x, "Access-Control-Allow-Origin", origin);
    tn_http_set_header(x, "Access-Control-Expose-Headers",
                       "X-Request-Id, Retry-After, Location, Link, ETag, Server-Timing");
    tn_http_set_header(x, "Vary", "Origin");
}

static bool answer_preflight(struct tn_http_exchange *x)
{
    tn_http_set_header(x, "Access-Control-Allow-Methods",
                       "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    tn_http_set_header(x, "Access-Control-Allow-Headers",
                       "Authorization, X-API-Key, X-Session-API-Key, X-Request-Id, Content-Type, "
                       "Idempotency-Key, Last-Event-ID, If-Match, If-None-Match, Range");
    tn_http_set_header(x, "Access-Control-Max-Age", "600");
    tn_http_reply(x, 204, NULL, NULL, 0);
    return false;
}

bool origin_check(const struct tn_service *s, struct tn_http_exchange *x)
{
    const char *origin = tn_http_header(x, "Origin");

    if (!origin || is_own_page(s, x, origin))
        return true;
    if (!is_in(&s->options->origins, origin))
        return front_deny(x, 403,
                          "Pages of that Origin may not call this service: see service.origins");
    allow_page(x, origin);
    if (strcmp(tn_http_method(x), "OPTIONS") == 0 &&
        tn_http_header(x, "Access-Control-Request-Method"))
        return answer_preflight(x);
    return true;
}

/* --- settings ------------------------------------------------------------------------------ */

/* "https://name:port" and nothing behind it. */
static bool is_origin(const char *text)
{
    const char *at = strstr(text, "://");

    return at && at > text && at[3] && !at[3 + strcspn(at + 3, "/?#@* ")];
}

int hosts_check(const struct tn_service_options *o, struct tn_error *err)
{
    char host[HOST_MAX + 32], name[HOST_MAX + 1];

    if (o->url && ((strncmp(o->url, "http://", 7) != 0 && strncmp(o->url, "https://", 8) != 0) ||
                   !url_host(o->url, host) || !host_name(host, name)))
        return tn_fail(err, TN_E_INVALID, "url: expected https://NAME or http://NAME, found %s",
                       o->url);
    for (size_t i = 0; i < o->origins.count; i++)
        if (!is_origin(o->origins.items[i]))
            return tn_fail(err, TN_E_INVALID,
                           "origins: expected https://NAME, without anything behind it, found %s",
                           o->origins.items[i]);
    for (size_t i = 0; i < o->hosts.count; i++)
        if (strpbrk(o->hosts.items[i], ":/*") || !*o->hosts.items[i])
            return tn_fail(err, TN_E_INVALID, "hosts: expected a name without a port, found %s",
                           o->hosts.items[i]);
    return 0;
}
