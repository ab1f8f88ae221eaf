#include "image/reference.h"

#include <ctype.h>
#include <stdbool.h>

#define DEFAULT_HOST "docker.io"
#define DEFAULT_PATH "library/"
#define DEFAULT_TAG "latest"

/* Host and path together; a tag. */
#define MAX_NAME 255
#define MAX_TAG 128
#define MIN_DIGEST 32

void tn_reference_done(struct tn_reference *r)
{
    free(r->host);
    free(r->path);
    free(r->tag);
    free(r->digest);
    *r = (struct tn_reference){0};
}

/* --- what each part may look like ---------------------------------------------------------- */

static bool lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool letter_or_digit(char c)
{
    return lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

static bool all_digits(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return n > 0;
}

/* Words of lower case letters and digits, joined by ".", "_", "__" or any number of "-". */
static bool path_part(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n) {
        if (!lower_or_digit(s[i]))
            return false;
        while (i < n && lower_or_digit(s[i]))
            i++;
        if (i == n)
            return true;
        size_t start = i;
        char joint = s[i];
        while (i < n && s[i] == joint)
            i++;
        size_t most = joint == '.' ? 1 : joint == '_' ? 2 : joint == '-' ? n : 0;
        if (i - start > most)
            return false;
    }
    return false; /* empty, or it ends with a joint */
}

static bool is_path(const char *s)
{
    for (;;) {
        size_t n = strcspn(s, "/");
        if (!path_part(s, n))
            return false;
        if (!s[n])
            return true;
        s += n + 1;
    }
}

/* Letters, digits and inner dashes, joined by dots. */
static bool host_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool edge = i == 0 || i == n - 1 || s[i - 1] == '.' || s[i + 1] == '.';
        if (!letter_or_digit(s[i]) && (edge || (s[i] != '-' && s[i] != '.')))
            return false;
    }
    return n > 0;
}

static bool address_in_brackets(const char *s, size_t n)
{
    if (n < 4 || s[0] != '[' || s[n - 1] != ']')
        return false;
    for (size_t i = 1; i < n - 1; i++)
        if (!isxdigit((unsigned char)s[i]) && s[i] != ':')
            return false;
    return true;
}

static bool is_host(const char *s, size_t n)
{
    const char *bracket = memchr(s, ']', n);
    const char *from = bracket ? bracket : s;
    const char *colon = memchr(from, ':', n - (size_t)(from - s));
    size_t name = colon ? (size_t)(colon - s) : n;

    if (colon && !all_digits(colon + 1, n - name - 1))
        return false;
    return host_name(s, name) || address_in_brackets(s, name);
}

static bool is_tag(const char *s)
{
    size_t n = strlen(s);

    for (size_t i = 0; i < n; i++)
        if (!letter_or_digit(s[i]) && s[i] != '_' && (i == 0 || (s[i] != '.' && s[i] != '-')))
            return false;
    return n > 0 && n <= MAX_TAG;
}

/* ALGORITHM[+.-_ALGORITHM...]:HEX */
static bool is_digest(const char *s)
{
    size_t name = strcspn(s, ":"), n = strlen(s);

    for (size_t i = 0; i < name; i++) {
        bool joint = i > 0 && i < name - 1 && strchr("+._-", s[i]) && !strchr("+._-", s[i - 1]);
        if (!letter_or_digit(s[i]) && !joint)
            return false;
    }
    if (name == 0 || !isalpha((unsigned char)s[0]) || n < name + 1 + MIN_DIGEST)
        return false;
    for (size_t i = name + 1; i < n; i++)
        if (!isxdigit((unsigned char)s[i]))
            return false;
    return strncmp(s, "sha256:", 7) || n == 7 + 64;
}

/* The first part names a host, rather than the first part of a path. */
static bool looks_like_host(const char *s, size_t n)
{
    if (memchr(s, '.', n) || memchr(s, ':', n) || s[0] == '[')
        return true;
    for (size_t i = 0; i < n; i++)
        if (s[i] >= 'A' && s[i] <= 'Z')
            return true;
    return n == 9 && !memcmp(s, "localhost", 9);
}

/* --- parsing ------------------------------------------------------------------------------- */

static int wrong(const char *text, const char *what, struct tn_error *err)
{
    return tn_fail(err, TN_E_INVALID, "image reference '%s': %s", text, what);
}

static int parse(const char *text, char *rest, struct tn_reference *out, struct tn_error *err)
{
    char *at = strchr(rest, '@');

    if (at) {
        *at = '\0';
        if (!is_digest(at + 1))
            return wrong(text, "what follows the '@' is no digest (sha256:64 hexadecimal digits)",
                         err);
        out->digest = tn_strdup(at + 1);
    }

    size_t first = strcspn(rest, "/");
    if (rest[first] == '/' && looks_like_host(rest, first)) {
        if (!is_host(rest, first))
            return wrong(text, "what precedes the first '/' is no host name", err);
        out->host = tn_strndup(rest, first);
        rest += first + 1;
    }

    char *colon = strchr(rest, ':');
    if (colon) {
        *colon = '\0';
        if (!is_tag(colon + 1))
            return wrong(
                text,
                "the tag must be 1 to 128 letters, digits, '_', '.' and '-', and not begin "
                "with one of the last two",
                err);
        out->tag = tn_strdup(colon + 1);
    }
    for (const char *c = rest; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            return wrong(text, "the name must be in lower case", err);
    if (!is_path(rest))
        return wrong(text,
                     "the name must be words of lower case letters and digits, joined by '/', '.', "
                     "'_', '__' or '-'",
                     err);
    out->path = tn_strdup(rest);
    if (strlen(rest) + (out->host ? strlen(out->host) + 1 : 0) > MAX_NAME)
        return wrong(text, "the name is longer than 255 characters", err);
    return 0;
}

int tn_reference_parse(const char *text, struct tn_reference *out, struct tn_error *err)
{
    tn_autofree char *copy = tn_strdup(text);

    *out = (struct tn_reference){0};
    if (!*text)
        return wrong(text, "it is empty", err);
    if (!parse(text, copy, out, err))
        return 0;
    tn_reference_done(out);
    return -1;
}

/* --- writing ------------------------------------------------------------------------------- */

static void put_end(const char *tag, const char *digest, struct tn_buf *out)
{
    if (tag)
        tn_buf_printf(out, ":%s", tag);
    if (digest)
        tn_buf_printf(out, "@%s", digest);
}

void tn_reference_put(const struct tn_reference *r, struct tn_buf *out)
{
    if (r->host)
        tn_buf_printf(out, "%s/", r->host);
    tn_buf_puts(out, r->path);
    put_end(r->tag, r->digest, out);
}

void tn_reference_put_full(const struct tn_reference *r, struct tn_buf *out)
{
    bool hub = !r->host || !strcmp(r->host, DEFAULT_HOST);

    tn_buf_printf(out, "%s/%s%s", r->host ? r->host : DEFAULT_HOST,
                  hub && !strchr(r->path, '/') ? DEFAULT_PATH : "", r->path);
    put_end(r->tag ? r->tag : r->digest ? NULL : DEFAULT_TAG, r->digest, out);
}
