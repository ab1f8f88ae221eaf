/* Addresses that others gave us lead outside, not to our own machine and its neighbours.
 *
 * What is judged is the address that is connected to, at the moment of connecting, so that a name
 * cannot mean one thing when it is looked at and another when it is used.  With a proxy that moment
 * is not ours: then the name is looked up before, and a connection without the proxy (no_proxy) is
 * held to the addresses that were seen. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

#include "net/address.h"
#include "web/web-impl.h"

/* An address as a reach; nobody's are nearer than everything that can be allowed. */
enum { NOBODYS = TN_WEB_PUBLIC + TN_ADDRESS_NOBODYS };
_Static_assert(TN_WEB_PUBLIC + (int)TN_ADDRESS_PRIVATE == (int)TN_WEB_PRIVATE &&
                   TN_WEB_PUBLIC + (int)TN_ADDRESS_LOOPBACK == (int)TN_WEB_LOOPBACK,
               "both are in the order of nearness");

static int kind_of(const struct sockaddr *from)
{
    struct tn_address address;
    uint16_t port;

    return tn_address_from(from, &address, &port) ? TN_WEB_PUBLIC + (int)tn_address_kind(&address)
                                                  : (int)NOBODYS;
}

/* Without the brackets that a URL has around an address, on the heap. */
static char *bare_host(const char *host)
{
    char *bare = tn_strdup(*host == '[' ? host + 1 : host);

    bare[strcspn(bare, "]")] = '\0';
    return bare;
}

enum tn_web_reach tn_web_reach_of(const char *host)
{
    tn_autofree char *bare = bare_host(host);
    struct tn_address address;

    if (strcasecmp(host, "localhost") == 0)
        return TN_WEB_LOOPBACK;
    int kind = TN_WEB_PUBLIC;
    if (tn_address_parse(bare, &address))
        kind += (int)tn_address_kind(&address);
    return kind == (int)NOBODYS ? TN_WEB_PUBLIC : (enum tn_web_reach)kind;
}

/* --- transfers -------------------------------------------------------------------------------- */

bool web_proxy_named(const struct tn_web *web)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                        "ALL_PROXY"};

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return true;
    }
    return web->proxy != NULL;
}

static curl_socket_t on_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct web_transfer *t = ctx;

    if (!t->checked && kind_of(&a->addr) > (int)t->reach) {
        t->barred = true;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

void web_split_base(const char *base, char **host, char **port)
{
    const char *start = strstr(base, "://") + 3;
    size_t n = strcspn(start, "/?#");
    const char *close = *start == '[' ? memchr(start, ']', n) : NULL;
    const char *from = close ? close : start;
    const char *colon = memchr(from, ':', n - (size_t)(from - start));

    *host = tn_strndup(start, colon ? (size_t)(colon - start) : n);
    *port = colon ? tn_strndup(colon + 1, n - (size_t)(colon + 1 - start))
                  : tn_strdup(strncmp(base, "https", 5) == 0 ? "443" : "80");
}

/* Looks the host up and judges every address; "host:port:address,..." when there are any. */
static int look_up(struct web_transfer *t, const char *host, const char *port, struct tn_buf *pin)
{
    const struct addrinfo address = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    const struct addrinfo name = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    tn_autofree char *bare = bare_host(host);
    struct addrinfo *all = NULL;

    /* An address counts also where this machine has none of its kind. */
    if (getaddrinfo(bare, port, &address, &all) != 0 && getaddrinfo(bare, port, &name, &all) != 0)
        return 0; /* only the proxy knows it */
    for (const struct addrinfo *a = all; a; a = a->ai_next) {
        char text[INET6_ADDRSTRLEN + 16];
        if (kind_of(a->ai_addr) > (int)t->reach)
            t->barred = true;
        if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        const char *around = a->ai_family == AF_INET6 ? "[]" : NULL;
        tn_buf_printf(pin, "%s%.1s%s%.1s", pin->len ? "," : "", around ? around : "", text,
                      around ? around + 1 : "");
    }
    freeaddrinfo(all);
    return t->barred ? -1 : 0;
}

int web_guard(const struct tn_web *web, struct web_transfer *t, struct curl_slist **pinned,
              struct tn_error *err)
{
    tn_autofree char *host = NULL, *port = NULL;
    tn_autobuf struct tn_buf pin = TN_BUF_INIT(4096);

    if (web->reach == TN_WEB_ANYWHERE)
        return 0;
    t->guarded = true;
    t->reach = web->reach;
    web_split_base(web->base, &host, &port);
    if (!web_proxy_named(web) || tn_web_reach_of(host) == TN_WEB_LOOPBACK)
        return 0;
    t->checked = true;
    if (look_up(t, host, port, &pin) < 0)
        return web_failed(web, t, CURLE_OK, err);
    if (pin.len) {
        tn_autofree char *line = tn_asprintf("%s:%s:%s", host, port, tn_buf_str(&pin));
        *pinned = tn_check_memory(t->curl->slist_append(NULL, line));
    }
    t->pinned = *pinned;
    return 0;
}

void web_set_guard(const struct tn_web *web, struct web_transfer *t)
{
    if (!t->guarded)
        return;
    t->curl->easy_setopt(t->easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    t->curl->easy_setopt(t->easy, CURLOPT_OPENSOCKETDATA, t);
    if (!t->checked)
        t->curl->easy_setopt(t->easy, CURLOPT_PROXY, "");
    else if (t->pinned)
        t->curl->easy_setopt(t->easy, CURLOPT_RESOLVE, t->pinned);
    else
        t->curl->easy_setopt(t->easy, CURLOPT_NOPROXY, "");
}
