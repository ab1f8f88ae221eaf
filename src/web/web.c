#include "web/web.h"

#include <strings.h>

#include "web/web-impl.h"

/* More idle connections than this are closed. */
enum { IDLE_MAX = 8 };
#define CONNECT_SECONDS 10.0

/* --- the web ---------------------------------------------------------------------------------- */

static int check_options(const struct tn_web_options *o, struct tn_error *err)
{
    if (!o->base || (strncmp(o->base, "http://", 7) != 0 && strncmp(o->base, "https://", 8) != 0) ||
        strpbrk(o->base, " \t\r\n"))
        return tn_fail(err, TN_E_INVALID, "not an http or https address");
    return 0;
}

/* As most programs do that use OpenSSL. */
static const char *ca_file_of(const struct tn_web_tls *tls)
{
    const char *usual = getenv("SSL_CERT_FILE");

    return tls->ca_file || tls->ca || !usual || !*usual ? tls->ca_file : usual;
}

/* libcurl holds a certificate against the host of the URL: that is then the certificate's. */
static void name_place(struct tn_web *web, const char *server_name)
{
    tn_autofree char *host = NULL, *port = NULL;

    if (!server_name || strncmp(web->base, "https://", 8) != 0) {
        web->place = tn_strdup(web->base);
        return;
    }
    web_split_base(web->base, &host, &port);
    tn_autofree char *to = tn_asprintf("::%s:%s", host, port);
    const char *path = strchr(web->base + 8, '/');
    web->connect_to = tn_check_memory(web->curl->slist_append(NULL, to));
    web->place = tn_asprintf("https://%s:%s%s", server_name, port, path ? path : "");
    tn_autofree char *called = tn_strndup(web->base + 8, strcspn(web->base + 8, "/"));
    tn_web_header(web, "Host", called, NULL);
}

struct tn_web *tn_web_new(const struct tn_web_options *o, struct tn_error *err)
{
    const struct web_curl *curl;

    if (check_options(o, err) < 0 || !(curl = web_curl(err)))
        return NULL;
    struct tn_web *web = tn_calloc(1, sizeof *web);
    web->curl = curl;
    web->base = tn_strdup(o->base);
    web->socket = tn_strdup_or_null(o->socket);
    web->proxy = tn_strdup_or_null(o->proxy);
    web->ca_file = tn_strdup_or_null(ca_file_of(&o->tls));
    web->cert_file = tn_strdup_or_null(o->tls.cert_file);
    web->ca = tn_strdup_or_null(o->tls.ca);
    web->cert = tn_strdup_or_null(o->tls.cert);
    web->key = tn_strdup_or_null(o->tls.key);
    web->insecure = o->tls.insecure;
    web->http2 = o->http2;
    web->connect_timeout = o->connect_timeout > 0 ? o->connect_timeout : CONNECT_SECONDS;
    web->reach = o->reach;
    web->headers = tn_calloc(1, sizeof *web->headers);
    pthread_mutex_init(&web->lock, NULL);
    name_place(web, o->tls.server_name);
    return web;
}

void web_line_free(const struct web_curl *curl, struct web_line *line)
{
    if (line->easy && line->multi)
        curl->multi_remove_handle(line->multi, line->easy); /* also when it was never added */
    if (line->easy)
        curl->easy_cleanup(line->easy);
    if (line->multi)
        curl->multi_cleanup(line->multi);
    free(line);
}

static void free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void tn_web_free(struct tn_web *web)
{
    if (!web)
        return;
    for (struct web_line *line = web->idle, *next; line; line = next) {
        next = line->next;
        web_line_free(web->curl, line);
    }
    for (size_t i = 0; i < web->header_count; i++)
        free_secret(web->headers[i]);
    free(web->headers);
    free(web->base);
    free(web->socket);
    free_secret(web->proxy); /* may have a password */
    free(web->place);
    web->curl->slist_free_all(web->connect_to);
    free(web->ca_file);
    free(web->cert_file);
    free(web->ca);
    free(web->cert);
    free_secret(web->key);
    pthread_mutex_destroy(&web->lock);
    free(web);
}

/* --- lines ------------------------------------------------------------------------------------ */

struct web_line *web_line_new(const struct web_curl *curl)
{
    struct web_line *line = tn_calloc(1, sizeof *line);

    line->multi = curl->multi_init();
    line->easy = curl->easy_init();
    if (line->multi && line->easy)
        return line;
    web_line_free(curl, line);
    return NULL;
}

struct web_line *web_line_take(struct tn_web *web)
{
    pthread_mutex_lock(&web->lock);
    struct web_line *line = web->idle;
    if (line) {
        web->idle = line->next;
        web->idle_count--;
    }
    pthread_mutex_unlock(&web->lock);
    return line ? line : web_line_new(web->curl);
}

void web_line_give(struct tn_web *web, struct web_line *line, bool reusable)
{
    pthread_mutex_lock(&web->lock);
    bool keep = reusable && web->idle_count < IDLE_MAX;
    if (keep) {
        line->next = web->idle;
        web->idle = line;
        web->idle_count++;
    }
    pthread_mutex_unlock(&web->lock);
    if (!keep)
        web_line_free(web->curl, line);
}

/* --- headers ---------------------------------------------------------------------------------- */

bool web_header_valid(const char *line)
{
    size_t name = strcspn(line, ":");

    if (name == 0 || line[name] != ':')
        return false;
    for (const char *p = line; *p; p++) {
        unsigned char c = (unsigned char)*p;
        bool separator = p < line + name && (c <= ' ' || strchr("()<>@,;\\\"/[]?={}", c));
        if (separator || c == 0x7f || (c < ' ' && c != '\t'))
            return false;
    }
    return true;
}

static bool same_name(const char *line, const char *name)
{
    size_t n = strlen(name);

    return strncasecmp(line, name, n) == 0 && line[n] == ':';
}

int tn_web_header(struct tn_web *web, const char *name, const char *value, struct tn_error *err)
{
    char *line = tn_asprintf("%s: %s", name, value);
    size_t i = 0;

    if (!web_header_valid(line)) {
        free_secret(line);
        return tn_fail(err, TN_E_INVALID, "header %s: it has a value that cannot be sent", name);
    }
    pthread_mutex_lock(&web->lock);
    while (i < web->header_count && !same_name(web->headers[i], name))
        i++;
    if (i < web->header_count) {
        free_secret(web->headers[i]);
    } else {
        web->headers = tn_realloc(web->headers, (++web->header_count + 1) * sizeof *web->headers);
        web->headers[web->header_count] = NULL;
    }
    web->headers[i] = line;
    pthread_mutex_unlock(&web->lock);
    return 0;
}

/* An empty value: libcurl sends a header without one only when it ends with a semicolon. */
static void append(const struct web_curl *curl, struct curl_slist **list, const char *line)
{
    const char *value = strchr(line, ':') + 1;

    value += strspn(value, " \t");
    tn_autofree char *empty = *value ? NULL : tn_asprintf("%.*s;", (int)strcspn(line, ":"), line);
    *list = tn_check_memory(curl->slist_append(*list, empty ? empty : line));
}

static bool call_has(const struct tn_web_call *call, const char *line)
{
    tn_autofree char *name = tn_strndup(line, strcspn(line, ":"));

    for (const char *const *h = call->headers; h && *h; h++)
        if (same_name(*h, name))
            return true;
    return false;
}

int web_headers(struct tn_web *web, const struct tn_web_call *call, struct curl_slist **out,
                struct tn_error *err)
{
    const struct web_curl *curl = web->curl;
    tn_autofree char *type =
        tn_asprintf("Content-Type: %s", call->type ? call->type : "application/octet-stream");
    bool has_body = call->body || call->source;

    *out = NULL;
    for (const char *const *h = call->headers; h && *h; h++)
        if (!web_header_valid(*h))
            return tn_fail(err, TN_E_INVALID, "header %.*s: it has a value that cannot be sent",
                           (int)strcspn(*h, ":\r\n"), *h);
    if (!web_header_valid(type))
        return tn_fail(err, TN_E_INVALID, "not a content type");

    /* No waiting for "100 Continue"; no content type where there is no content. */
    *out = tn_check_memory(curl->slist_append(*out, "Expect:"));
    if (!call_has(call, type))
        *out = tn_check_memory(curl->slist_append(*out, has_body ? type : "Content-Type:"));
    pthread_mutex_lock(&web->lock);
    for (size_t i = 0; i < web->header_count; i++)
        if (!call_has(call, web->headers[i]))
            append(curl, out, web->headers[i]);
    pthread_mutex_unlock(&web->lock);
    for (const char *const *h = call->headers; h && *h; h++)
        append(curl, out, *h);
    return 0;
}
