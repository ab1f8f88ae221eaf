#include "runtime/hand-address.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>

#include "kube/kube.h"
#include "net/http-parse.h"
#include "net/listen.h"
#include "net/proof.h"
#include "net/url.h"
#include "web/web.h"

#define LOGIN_SECONDS 20.0 /* for a login where there is no deadline */
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

static bool is_pod(const char *address)
{
    return strncmp(address, "kube:", 5) == 0;
}

#define PROVEN "proven:"
/* A node that is lost ends no connection, and another may have the address soon after: who is there
 * no longer is asked after that many quiet seconds, by packets that carry nothing. */
enum { PROBE_AFTER = 5, PROBE_EVERY = 1, PROBES = 2 };

static bool is_proven(const char *address)
{
    return strncmp(address, PROVEN, strlen(PROVEN)) == 0;
}

size_t tn_hand_address_shown(const char *address)
{
    if (is_pod(address))
        return strcspn(address, "?");
    return scheme_of(address) || is_proven(address) ? strcspn(address, "#") : strlen(address);
}

/* The headers that follow the address.  -1: they cannot be sent as such. */
static int read_headers(const char *text, struct tn_hand_place *out)
{
    tn_autobuf struct tn_buf lines = TN_BUF_INIT(sizeof out->headers - 1);
    size_t n = strlen(text), used;

    if (n > TN_HAND_HEADERS_MAX)
        return -1;
    tn_autofree char *pairs = tn_calloc(1, TN_URL_PAIRS_MAX(n) + 1);
    used = tn_url_pairs(text, n, pairs);
    for (const char *name = pairs, *value; name < pairs + used; name = value + strlen(value) + 1) {
        value = name + strlen(name) + 1;
        if (strcasecmp(name, "Host") == 0) {
            if (strlen(value) >= sizeof out->host || !is_authority(value, strlen(value)))
                return -1;
            snprintf(out->host, sizeof out->host, "%s", value);
        } else if (tn_http_is_token(name, strlen(name)) && *value &&
                   tn_http_is_value(value, strlen(value))) {
            tn_buf_printf(&lines, "%s: %s\r\n", name, value);
        } else {
            return -1;
        }
    }
    if (!tn_buf_ok(&lines))
        return -1;
    memcpy(out->headers, tn_buf_str(&lines), lines.len + 1);
    return 0;
}

static int place_of_pod(const char *address, struct tn_hand_place *out, struct tn_error *err)
{
    TN_CLEANUP(kube_door_done) struct kube_door door = {0};

    if (kube_door(address, false, &door, tn_deadline_in(LOGIN_SECONDS), err) < 0)
        return -1;
    if (strlen(door.host) >= sizeof out->host || strlen(door.base) >= sizeof out->base ||
        strlen(door.headers) >= sizeof out->headers)
        return tn_fail(err, TN_E_TOO_LARGE, "the cluster's address or token is too long");
    snprintf(out->host, sizeof out->host, "%s", door.host);
    snprintf(out->base, sizeof out->base, "%s", door.base);
    snprintf(out->headers, sizeof out->headers, "%s", door.headers);
    out->far = true;
    return 0;
}

int tn_hand_place(const char *address, struct tn_hand_place *out, struct tn_error *err)
{
    const char *scheme = scheme_of(address);

    *out = (struct tn_hand_place){.host = "hand"};
    if (is_pod(address))
        return place_of_pod(address, out, err);
    if (is_proven(address))
        snprintf(out->host, sizeof out->host, "%.*s", (int)strcspn(address + strlen(PROVEN), "#"),
                 address + strlen(PROVEN));
    if (!scheme)
        return 0;
    const char *host = address + strlen(scheme), *more = strchr(host, '#');
    size_t n = strcspn(host, "/#");
    const char *path = host + n;
    size_t length = more ? (size_t)(more - path) : strlen(path);
    bool good = n < sizeof out->host && is_authority(host, n) && length < sizeof out->base;
    if (good) {
        memcpy(out->host, host, n);
        out->host[n] = '\0';
        memcpy(out->base, path, length);
        out->base[length] = '\0';
    }
    if (!good || strspn(out->base, PATH_BYTES) != length || !tn_url_valid(out->base, length) ||
        (length && out->base[length - 1] == '/') || (more && read_headers(more + 1, out) < 0))
        return tn_fail(err, TN_E_INVALID,
                       "not an address: expected http(s)://HOST[:PORT][/PATH], without a final "
                       "slash, user or query");
    out->far = true;
    return 0;
}

void tn_hand_place_done(struct tn_hand_place *place)
{
    explicit_bzero(place->headers, sizeof place->headers);
}

bool tn_hand_is_url(const char *address)
{
    tn_autohandplace struct tn_hand_place place;

    return scheme_of(address) && !strchr(address, '#') && tn_hand_place(address, &place, NULL) == 0;
}

static void probe_often(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){PROBE_AFTER}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){PROBE_EVERY}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){PROBES}, sizeof(int));
}

static int dial_proven(const char *address, int64_t deadline, struct tn_error *err)
{
    const char *start = address + strlen(PROVEN), *digest = strchr(start, '#');
    tn_autofree char *plain = tn_strndup(start, strcspn(start, "#"));

    if (!digest || !tn_proof_is_digits(digest + 1))
        return tn_fail(err, TN_E_INVALID, "not an address: expected proven:HOST:PORT#DIGEST");
    tn_autofd int fd = tn_dial(plain, deadline, err);
    probe_often(fd);
    if (fd < 0 || tn_proof_ask(fd, digest + 1, deadline, err) < 0)
        return fd < 0 ? -1 : tn_error_context(err, "%s", plain);
    return TN_TAKE_FD(fd);
}

int tn_hand_dial(const char *address, int64_t deadline, struct tn_error *err)
{
    tn_autohandplace struct tn_hand_place place;

    if (is_pod(address)) {
        TN_CLEANUP(kube_door_done) struct kube_door door = {0};
        return kube_door(address, false, &door, deadline, err) < 0
                   ? -1
                   : kube_dial(door.kube, deadline, err);
    }
    if (is_proven(address))
        return dial_proven(address, deadline, err);
    if (tn_hand_place(address, &place, err) < 0)
        return -1;
    if (!place.far)
        return tn_dial(address, deadline, err);
    tn_autofree char *base = tn_strndup(address, tn_hand_address_shown(address));
    struct tn_web_options options = {.base = base};
    tn_autoweb struct tn_web *web = tn_web_new(&options, err);
    return web ? tn_web_dial(web, deadline, err) : -1;
}

static int lines_of_pod(const char *address, bool refused, struct tn_buf *out, int64_t deadline,
                        struct tn_error *err)
{
    TN_CLEANUP(kube_door_done) struct kube_door door = {0};

    if (kube_door(address, refused, &door, deadline, err) < 0)
        return -1;
    return tn_buf_puts(out, door.headers);
}

struct tn_http_client *tn_hand_http(const char *address, const char *key, struct tn_error *err)
{
    tn_autohandplace struct tn_hand_place place;

    if (tn_hand_place(address, &place, err) < 0)
        return NULL;
    struct tn_http_client *http =
        place.far || is_proven(address)
            ? tn_http_client_at(address, tn_hand_dial, place.host, place.base)
            : tn_http_client_new(address, err);
    if (http && key)
        tn_http_client_header(http, "X-Session-API-Key", key);
    if (http && is_pod(address)) {
        tn_http_client_lines_by(http, lines_of_pod);
        return http;
    }
    for (char *line = place.headers, *end; http && *line; line = end + 2) {
        end = strstr(line, "\r\n");
        *end = '\0';
        char *value = strstr(line, ": ");
        *value = '\0';
        tn_http_client_header(http, line, value + 2);
    }
    return http;
}
