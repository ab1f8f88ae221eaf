#include "net/http-parse.h"

#include "net/url.h"

enum { LINE_SLACK = 64 }; /* of the request line beside the target: method, version, spaces */

/* The text of a piece of a head that is being parsed. */
struct cursor {
    const char *bytes;
    struct tn_http_head *head;
    struct tn_error *err;
};

static struct tn_http_slice slice(const char *bytes, const char *from, const char *to)
{
    return (struct tn_http_slice){.at = (uint32_t)(from - bytes), .len = (uint32_t)(to - from)};
}

/* --- the end of the head ------------------------------------------------------------------- */

static int check_size(const struct tn_http_scan *scan, size_t n,
                      const struct tn_http_limits *limits, struct tn_error *err)
{
    if (!scan->first) {
        if (n > limits->target + LINE_SLACK)
            return tn_fail(err, TN_E_URI_TOO_LONG, "The first line is too long");
    } else if (n - scan->first > limits->fields) {
        return tn_fail(err, TN_E_HEADERS_TOO_LARGE, "The headers are too large");
    }
    return 0;
}

ssize_t tn_http_scan(struct tn_http_scan *scan, const char *bytes, size_t n,
                     const struct tn_http_limits *limits, struct tn_error *err)
{
    /* Nothing a method or a version can start with: TLS on a plain port, for example. */
    if (n > 0 && !tn_http_is_token(bytes, 1))
        return tn_fail(err, TN_E_INVALID, "This is not HTTP");

    while (scan->at < n) {
        const char *lf = memchr(bytes + scan->at, '\n', n - scan->at);
        if (!lf) {
            scan->at = n;
            break;
        }
        size_t end = (size_t)(lf - bytes);
        if (end == scan->line || bytes[end - 1] != '\r')
            return tn_fail(err, TN_E_INVALID, "Lines must end with CR LF");
        bool empty = end == scan->line + 1;
        scan->at = scan->line = end + 1;
        if (empty)
            return check_size(scan, scan->at - 2, limits, err) < 0 ? -1 : (ssize_t)scan->at;
        if (!scan->first) {
            if (check_size(scan, scan->at, limits, err) < 0)
                return -1;
            scan->first = scan->at;
        }
    }
    return check_size(scan, n, limits, err);
}

/* --- fields -------------------------------------------------------------------------------- */

static int set_length(struct cursor *c, const char *value, size_t n)
{
    int64_t length = 0;

    for (size_t i = 0; i < n; i++) {
        if (value[i] < '0' || value[i] > '9')
            return tn_fail(c->err, TN_E_INVALID, "Content-Length is not a number");
        if (length > (INT64_MAX - 9) / 10)
            return tn_fail(c->err, TN_E_TOO_LARGE, "Content-Length is too large");
        length = length * 10 + (value[i] - '0');
    }
    if (n == 0)
        return tn_fail(c->err, TN_E_INVALID, "Content-Length is empty");
    if (c->head->length >= 0 && c->head->length != length)
        return tn_fail(c->err, TN_E_INVALID, "Content-Length is given twice and differs");
    c->head->length = length;
    return 0;
}

static int set_transfer(struct cursor *c, const char *value, size_t n)
{
    bool only = tn_http_same(value, n, "chunked");

    if (c->head->chunked || (!only && tn_http_list_has(value, n, "chunked") &&
                             !tn_http_same(value + n - 7, 7, "chunked")))
        return tn_fail(c->err, TN_E_INVALID, "Transfer-Encoding must end with one chunked");
    if (!only)
        return tn_fail(c->err, TN_E_UNSUPPORTED, "Only the chunked transfer coding is supported");
    c->head->chunked = true;
    return 0;
}

static int set_connection(struct cursor *c, const char *value, size_t n)
{
    c->head->close |= tn_http_list_has(value, n, "close");
    c->head->keep_alive |= tn_http_list_has(value, n, "keep-alive");
    c->head->upgrade |= tn_http_list_has(value, n, "upgrade");
    return 0;
}

static int set_host(struct cursor *c, const char *value, size_t n)
{
    if (c->head->host)
        return tn_fail(c->err, TN_E_INVALID, "Host is given twice");
    c->head->host = true;
    return 0;
}

static int set_expect(struct cursor *c, const char *value, size_t n)
{
    bool known = tn_http_same(value, n, "100-continue");

    c->head->expect_continue |= known;
    c->head->expect_other |= !known;
    return 0;
}

/* The fields that decide how the message is read. */
static const struct {
    const char *name;
    int (*set)(struct cursor *c, const char *value, size_t n);
} known_fields[] = {
    {"connection", set_connection},
    {"content-length", set_length},
    {"expect", set_expect},
    {"host", set_host},
    {"transfer-encoding", set_transfer},
};

static int interpret(struct cursor *c, const struct tn_http_field *f)
{
    const char *name = c->bytes + f->name.at;

    for (size_t i = 0; i < TN_COUNT(known_fields); i++)
        if (tn_http_same(name, f->name.len, known_fields[i].name))
            return known_fields[i].set(c, c->bytes + f->value.at, f->value.len);
    return 0;
}

/* One line without its CRLF. */
static int parse_field(struct cursor *c, const char *line, const char *end)
{
    if (*line == ' ' || *line == '\t')
        return tn_fail(c->err, TN_E_INVALID, "Folded header lines are not accepted");
    const char *colon = memchr(line, ':', (size_t)(end - line));
    if (!colon)
        return tn_fail(c->err, TN_E_INVALID, "A header line has no colon");
    if (!tn_http_is_token(line, (size_t)(colon - line)))
        return tn_fail(c->err, TN_E_INVALID, "A header name is not a token");
    if (!tn_http_is_value(colon + 1, (size_t)(end - colon - 1)))
        return tn_fail(c->err, TN_E_INVALID, "A header value holds control bytes");
    if (c->head->field_count == TN_HTTP_MAX_FIELDS)
        return tn_fail(c->err, TN_E_HEADERS_TOO_LARGE, "There are too many headers");

    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    struct tn_http_field *f = &c->head->fields[c->head->field_count++];
    f->name = slice(c->bytes, line, colon);
    f->value = slice(c->bytes, value, end);
    return interpret(c, f);
}

/* Everything after the first line, down to the empty line that ends at n. */
static int parse_fields(struct cursor *c, const char *line, size_t n)
{
    const char *stop = c->bytes + n - 2;

    while (line < stop) {
        const char *lf = memchr(line, '\n', (size_t)(stop - line));
        if (!lf || lf == line || lf[-1] != '\r')
            return tn_fail(c->err, TN_E_INVALID, "Lines must end with CR LF");
        if (parse_field(c, line, lf - 1) < 0)
            return -1;
        line = lf + 1;
    }
    if (c->head->chunked && c->head->length >= 0)
        return tn_fail(c->err, TN_E_INVALID,
                       "Content-Length and Transfer-Encoding exclude each other");
    return 0;
}

/* --- first lines --------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "HTTP/x.y" in exactly n bytes. */
static int parse_version(struct cursor *c, const char *s, size_t n)
{
    if (n != 8 || memcmp(s, "HTTP/", 5) != 0 || !is_digit(s[5]) || s[6] != '.' || !is_digit(s[7]))
        return tn_fail(c->err, TN_E_INVALID, "The HTTP version is malformed");
    if (s[5] != '1')
        return tn_fail(c->err, TN_E_HTTP_VERSION, "Only HTTP/1.0 and HTTP/1.1 are supported");
    c->head->minor = s[7] == '0' ? 0 : 1;
    return 0;
}

static int check_target(struct cursor *c, const char *target, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)target[i] <= ' ' || target[i] == 127 || target[i] == '#')
            return tn_fail(c->err, TN_E_INVALID, "The request target holds a forbidden character");
    if (!tn_url_valid(target, n))
        return tn_fail(c->err, TN_E_INVALID, "The request target holds a bad percent escape");
    struct tn_http_slice path = tn_http_target_path(target, n);
    bool star = n == 1 && target[0] == '*';
    bool options = tn_http_same(c->bytes, c->head->method.len, "OPTIONS");
    if (path.len == 0 || (star && !options))
        return tn_fail(c->err, TN_E_INVALID, "The request target must be a path");
    return 0;
}

static const char *first_line_end(const char *bytes, size_t n)
{
    const char *lf = memchr(bytes, '\n', n);

    return lf && lf > bytes && lf[-1] == '\r' ? lf - 1 : NULL;
}

int tn_http_parse_request(const char *bytes, size_t n, const struct tn_http_limits *limits,
                          struct tn_http_head *head, struct tn_error *err)
{
    struct cursor c = {.bytes = bytes, .head = head, .err = err};

    memset(head, 0, offsetof(struct tn_http_head, fields));
    head->length = -1;
    const char *end = first_line_end(bytes, n);
    const char *space = end ? memchr(bytes, ' ', (size_t)(end - bytes)) : NULL;
    const char *second = space ? memchr(space + 1, ' ', (size_t)(end - space - 1)) : NULL;
    if (!second || !tn_http_is_token(bytes, (size_t)(space - bytes)))
        return tn_fail(err, TN_E_INVALID, "The request line is malformed");
    head->method = slice(bytes, bytes, space);
    head->target = slice(bytes, space + 1, second);
    if (parse_version(&c, second + 1, (size_t)(end - second - 1)) < 0)
        return -1;
    if (head->target.len > limits->target)
        return tn_fail(err, TN_E_URI_TOO_LONG, "The request target is too long");
    if (check_target(&c, space + 1, head->target.len) < 0 || parse_fields(&c, end + 2, n) < 0)
        return -1;
    if (head->minor == 1 && !head->host)
        return tn_fail(err, TN_E_INVALID, "Host is missing");
    if (head->minor == 0 && head->chunked)
        return tn_fail(err, TN_E_INVALID, "HTTP/1.0 has no Transfer-Encoding");
    return 0;
}

int tn_http_parse_response(const char *bytes, size_t n, struct tn_http_head *head,
                           struct tn_error *err)
{
    struct cursor c = {.bytes = bytes, .head = head, .err = err};

    memset(head, 0, offsetof(struct tn_http_head, fields));
    head->length = -1;
    const char *end = first_line_end(bytes, n);
    if (!end || end - bytes < 12 || bytes[8] != ' ')
        return tn_fail(err, TN_E_INVALID, "The status line is malformed");
    if (parse_version(&c, bytes, 8) < 0)
        return -1;
    for (int i = 9; i < 12; i++) {
        if (!is_digit(bytes[i]))
            return tn_fail(err, TN_E_INVALID, "The status is not a number");
        head->status = head->status * 10 + (bytes[i] - '0');
    }
    if (head->status < 100 || (end - bytes > 12 && bytes[12] != ' '))
        return tn_fail(err, TN_E_INVALID, "The status line is malformed");
    return parse_fields(&c, end + 2, n);
}

/* --- looking things up --------------------------------------------------------------------- */

const struct tn_http_slice *tn_http_find(const struct tn_http_head *head, const char *bytes,
                                         const char *name)
{
    for (unsigned i = 0; i < head->field_count; i++) {
        const struct tn_http_field *f = &head->fields[i];
        if (tn_http_same(bytes + f->name.at, f->name.len, name))
            return &f->value;
    }
    return NULL;
}

struct tn_http_slice tn_http_target_path(const char *target, size_t n)
{
    const char *at = target, *end = target + n;

    if (n == 1 && *target == '*')
        return slice(target, at, end);
    if (n > 0 && *target != '/')
        at += n > 7 && tn_http_same(target, 7, "http://")    ? 7
              : n > 8 && tn_http_same(target, 8, "https://") ? 8
                                                             : n;
    const char *query = memchr(at, '?', (size_t)(end - at));
    if (query)
        end = query;
    while (at < end && *at != '/')
        at++;
    return slice(target, at, end);
}
