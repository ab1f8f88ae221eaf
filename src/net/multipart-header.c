#include "net/multipart-header.h"

#include <stdbool.h>

#include "net/http-parse.h"
#include "net/url.h"

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* A quoted string at s (behind its first quote): fills out, which has room for it; the end behind
 * the last quote, or NULL.  A backslash escapes only quotes and itself, because some clients send
 * bare Windows paths. */
static const char *unquote(const char *s, char *out)
{
    for (; *s != '"'; s++) {
        if (s[0] == '\\' && (s[1] == '"' || s[1] == '\\'))
            s++;
        if (*s == '\0')
            return NULL;
        *out++ = *s;
    }
    *out = '\0';
    return s + 1;
}

/* A parameter's value at s, into out, which has room for all of s; the end, or NULL. */
static const char *parameter_value(const char *s, char *out)
{
    if (*s == '"')
        return unquote(s + 1, out);
    size_t n = strcspn(s, "; \t");
    if (n == 0)
        return NULL;
    memcpy(out, s, n);
    out[n] = '\0';
    return s + n;
}

int multipart_param(const char *value, const char *name, char **out)
{
    tn_autofree char *text = tn_malloc(strlen(value) + 1);
    tn_autofree char *found = NULL;

    for (const char *s = value + strcspn(value, ";"); *s == ';';) {
        s = skip_blanks(s + 1);
        if (*s == '\0')
            break;
        size_t n = strcspn(s, "=; \t");
        if (s[n] != '=' || !tn_http_is_token(s, n))
            return -1;
        const char *after = parameter_value(s + n + 1, text);
        if (!after)
            return -1;
        if (!found && tn_http_same(s, n, name))
            found = tn_strdup(text);
        s = skip_blanks(after);
        if (*s != ';' && *s != '\0')
            return -1;
    }
    if (!found)
        return 0;
    *out = TN_TAKE_PTR(found);
    return 1;
}

/* filename*=UTF-8''%e2%82%ac (RFC 5987); other charsets are ignored. */
static char *extended_filename(const char *value)
{
    tn_autofree char *text = NULL;

    if (multipart_param(value, "filename*", &text) <= 0)
        return NULL;
    char *language = strchr(text, '\'');
    char *encoded = language ? strchr(language + 1, '\'') : NULL;
    if (!encoded || !tn_http_same(text, (size_t)(language - text), "utf-8"))
        return NULL;
    encoded++;
    size_t n = strlen(encoded);
    tn_autofree char *plain = tn_malloc(n + 1);
    return tn_url_decode(encoded, n, plain, false) < 0 ? NULL : TN_TAKE_PTR(plain);
}

static int set_disposition(const char *value, struct tn_part *part, struct tn_error *err)
{
    size_t kind = strcspn(value, "; \t");

    if (!tn_http_same(value, kind, "form-data"))
        return tn_fail(err, TN_E_INVALID, "A part's disposition is not form-data");
    multipart_part_clear(part);
    if (multipart_param(value, "name", &part->name) < 0 ||
        multipart_param(value, "filename", &part->filename) < 0)
        return tn_fail(err, TN_E_INVALID, "A part's Content-Disposition is malformed");
    char *extended = extended_filename(value);
    if (extended) {
        free(part->filename);
        part->filename = extended;
    }
    return 0;
}

static int set_type(const char *value, struct tn_part *part, struct tn_error *err)
{
    free(part->type);
    part->type = tn_strdup(value);
    return 0;
}

static int check_encoding(const char *value, struct tn_part *part, struct tn_error *err)
{
    static const char *const plain[] = {"binary", "8bit", "7bit"};

    for (size_t i = 0; i < TN_COUNT(plain); i++)
        if (tn_http_same(value, strlen(value), plain[i]))
            return 0;
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "A part has the unsupported Content-Transfer-Encoding %.40s", value);
}

static const struct {
    const char *name;
    int (*set)(const char *value, struct tn_part *part, struct tn_error *err);
} fields[] = {
    {"content-disposition", set_disposition},
    {"content-type", set_type},
    {"content-transfer-encoding", check_encoding},
};

int multipart_field(const char *line, struct tn_part *part, struct tn_error *err)
{
    size_t n = strcspn(line, ":");

    if (line[n] != ':' || !tn_http_is_token(line, n) ||
        !tn_http_is_value(line + n, strlen(line + n)))
        return tn_fail(err, TN_E_INVALID, "A part's header line is malformed");
    tn_autofree char *value = tn_strdup(skip_blanks(line + n + 1));
    size_t len = strlen(value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        value[--len] = '\0';
    for (size_t i = 0; i < TN_COUNT(fields); i++)
        if (tn_http_same(line, n, fields[i].name))
            return fields[i].set(value, part, err);
    return 0;
}

void multipart_part_clear(struct tn_part *part)
{
    free(part->name);
    free(part->filename);
    free(part->type);
    *part = (struct tn_part){0};
}
