#include "service/preview-host.h"

#include <stdlib.h>
#include <strings.h>

#include "base/guard.h"

enum { ID = 10 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

int preview_port(const char *text, size_t n)
{
    int port = 0;

    if (n == 0 || n > 5 || text[0] == '0')
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(text[i]))
            return 0;
        port = port * 10 + (text[i] - '0');
    }
    return port <= 65535 ? port : 0;
}

bool preview_is_id(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_digit(text[i]) && !(text[i] >= 'a' && text[i] <= 'z'))
            return false;
    return n == ID;
}

/* "", or a colon and digits: the port of the service. */
static bool is_port_part(const char *text)
{
    if (*text == ':')
        for (text++; is_digit(*text); text++)
            ;
    return *text == '\0';
}

bool preview_parse_host(const char *host, const char *domain, int *port, char id[11])
{
    size_t digits = strcspn(host, "-"), domain_len = strlen(domain);

    *port = host[digits] ? preview_port(host, digits) : 0;
    if (!*port)
        return false;
    const char *name = host + digits + 1;
    size_t n = strcspn(name, ".");
    if (n != ID || !name[n])
        return false;
    for (size_t i = 0; i < n; i++)
        id[i] = lower(name[i]);
    id[n] = '\0';
    const char *rest = name + n + 1;
    return preview_is_id(id, n) && domain_len && strncasecmp(rest, domain, domain_len) == 0 &&
           is_port_part(rest + domain_len);
}

/* Where the host of a URL begins, and its length without the port. */
static const char *host_of(const char *url, size_t *n)
{
    const char *at = strstr(url, "://");

    at = at ? at + 3 : url;
    *n = *at == '[' ? strcspn(at, "]") + 1 : strcspn(at, ":/");
    return at;
}

static bool is_loopback(const char *host, size_t n)
{
    static const char *const exact[] = {"localhost", "[::1]"};

    for (size_t i = 0; i < TN_COUNT(exact); i++)
        if (n == strlen(exact[i]) && strncasecmp(host, exact[i], n) == 0)
            return true;
    return n > 4 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= n;
}

bool preview_reaches(const char *url, const char *domain)
{
    size_t n;
    const char *host = host_of(url, &n);

    return strcasecmp(domain, "localhost") != 0 || is_loopback(host, n);
}

char *preview_origin(const char *url, const char *domain, const char *id, int port)
{
    const char *colon = strstr(url, "://");
    size_t n;
    const char *host = host_of(url, &n);

    return tn_asprintf("%.*s://%d-%s.%s%.*s", colon ? (int)(colon - url) : 4, colon ? url : "http",
                       port, id, domain, (int)strcspn(host + n, "/"), host + n);
}
