/* Serves the dashboard (web/dashboard): a page, its scripts and styles, all built in.
 *
 * They are the same for everybody and hold no secret, so no key is asked for; what the page shows
 * it gets from /v1 with the key that a person gave it. */
#include "service/dashboard.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/sha256.h"
#include "service/internal.h"
#include "service/login.h"

enum { PLAIN_MAX = 4 << 20 };

static const char *media_type(const char *name)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
    };
    const char *end = strrchr(name, '.');

    for (size_t i = 0; end && i < TN_COUNT(types); i++) {
        if (strcmp(types[i].end, end) == 0)
            return types[i].type;
    }
    return "application/octet-stream";
}

/* Nothing comes from elsewhere, nothing in the page is a script or a style, no other page may frame
 * it or learn of it; what sandboxes print could do no harm even if it became markup. */
static void set_headers(struct tn_http_exchange *x)
{
    static const struct {
        const char *name, *value;
    } headers[] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
         "connect-src 'self'; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types default"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"X-Frame-Options", "DENY"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
        /* Kept, but asked for each time: an upgraded service shows its own page at once. */
        {"Cache-Control", "no-cache"},
        {"Vary", "Accept-Encoding"},
    };

    for (size_t i = 0; i < TN_COUNT(headers); i++)
        tn_http_set_header(x, headers[i].name, headers[i].value);
}

static void set_etag(struct tn_http_exchange *x, const struct tn_embedded *file, char tag[35])
{
    char digest[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 h;

    tn_sha256_init(&h);
    tn_sha256_add(&h, file->bytes, file->size);
    tn_sha256_end_hex(&h, digest);
    snprintf(tag, 35, "\"%.32s\"", digest);
    tn_http_set_header(x, "ETag", tag);
}

/* What follows the name of an encoding, up to the comma: "", ";q=0.5", "; q=0". */
static bool is_refused(const char *parameters, size_t n)
{
    tn_autofree char *text = tn_strndup(parameters, n);
    const char *weight = strcasestr(text, "q=");

    return weight && strtod(weight + 2, NULL) <= 0;
}

/* "gzip", "x-gzip" or "*" in the list, unless with a weight of 0. */
static bool takes_gzip(const char *accepted)
{
    static const char *const names[] = {"gzip", "x-gzip", "*"};

    for (const char *at = accepted; at && *at; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        size_t n = strcspn(at, ",;"), name = n;
        while (name && strchr(" \t", at[name - 1]))
            name--;
        for (size_t i = 0; i < TN_COUNT(names); i++)
            if (name == strlen(names[i]) && strncasecmp(at, names[i], name) == 0)
                return !is_refused(at + n, strcspn(at + n, ","));
    }
    return false;
}

static void serve(struct tn_http_exchange *x, const char *name)
{
    tn_autofree char *packed = tn_asprintf("%s.gz", name);
    const struct tn_embedded *file = tn_embedded_in(dashboard_files, packed);
    const char *known = tn_http_header(x, "If-None-Match");
    char tag[35];

    set_headers(x);
    if (!file) {
        tn_http_reply_detail(x, 404, "the dashboard has no such file");
        return;
    }
    set_etag(x, file, tag);
    if (known && strstr(known, tag)) {
        tn_http_reply(x, 304, media_type(name), NULL, 0);
        return;
    }
    if (takes_gzip(tn_http_header(x, "Accept-Encoding"))) {
        tn_http_set_header(x, "Content-Encoding", "gzip");
        tn_http_reply(x, 200, media_type(name), file->bytes, file->size);
        return;
    }
    tn_autobuf struct tn_buf plain = TN_BUF_INIT(PLAIN_MAX);
    if (tn_embedded_inflate(file, &plain, NULL) < 0)
        tn_http_reply_detail(x, 500, "the dashboard cannot be unpacked");
    else
        tn_http_reply(x, 200, media_type(name), plain.data, plain.len);
}

static void page(struct tn_http_exchange *x, void *service)
{
    serve(x, "index.html");
}

static void part(struct tn_http_exchange *x, void *service)
{
    serve(x, tn_http_param(x, "name"));
}

const struct tn_route routes_dashboard[] = {
    {"GET", "/", page, "the dashboard", TN_ROUTE_OPEN},
    {"GET", "/dashboard/{name}", part, "scripts and styles of the dashboard", TN_ROUTE_OPEN},
    {"POST", "/dashboard/link", login_make_link, "a link that signs in who opens it", 0},
    {"POST", "/dashboard/login", login_take_ticket, "a pass for the ticket of a link",
     TN_ROUTE_OPEN},
    {0},
};
