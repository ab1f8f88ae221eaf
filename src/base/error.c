#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static const struct tn_code_row rows[TN_CODE_COUNT] = {
    [TN_OK] = {"ok", 200, 0, false},
    [TN_E_INVALID] = {"invalid", 400, 2, false},
    [TN_E_DENIED] = {"denied", 403, 77, false},
    [TN_E_NOT_FOUND] = {"not_found", 404, 66, false},
    [TN_E_METHOD] = {"method_not_allowed", 405, 2, false},
    [TN_E_TIMEOUT] = {"timeout", 408, 124, true},
    [TN_E_CONFLICT] = {"conflict", 409, 73, false},
    [TN_E_GONE] = {"gone", 410, 66, false},
    [TN_E_TOO_LARGE] = {"too_large", 413, 65, false},
    [TN_E_URI_TOO_LONG] = {"uri_too_long", 414, 65, false},
    [TN_E_MEDIA_TYPE] = {"unsupported_media_type", 415, 65, false},
    [TN_E_RANGE] = {"range_not_satisfiable", 416, 65, false},
    [TN_E_UNPROCESSABLE] = {"unprocessable", 422, 65, false},
    [TN_E_QUOTA] = {"quota", 429, 75, true},
    [TN_E_HEADERS_TOO_LARGE] = {"headers_too_large", 431, 65, false},
    [TN_E_INTERNAL] = {"internal", 500, 70, false},
    [TN_E_UNSUPPORTED] = {"unsupported", 501, 69, false},
    [TN_E_BUSY] = {"busy", 503, 75, true},
    [TN_E_HTTP_VERSION] = {"http_version", 505, 76, false},
    [TN_E_IO] = {"io", 500, 74, false},
    [TN_E_PEER] = {"peer", 502, 76, true},
};

const struct tn_code_row *tn_code_row(enum tn_code code)
{
    return &rows[code < TN_CODE_COUNT ? code : TN_E_INTERNAL];
}

char *tn_asprintf(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    return text;
}

const char *tn_strerror(int sys)
{
    const char *text = strerrordesc_np(sys);
    return text ? text : "Unknown error";
}

static void set_text(struct tn_error *err, const char *text)
{
    size_t n = strnlen(text, sizeof err->text - 1);
    memcpy(err->text, text, n);
    err->text[n] = '\0';
}

/* Through a copy: the arguments may well be the old text. */
static void fill(struct tn_error *err, enum tn_code code, int sys, const char *fmt, va_list ap)
{
    char text[sizeof err->text];

    vsnprintf(text, sizeof text, fmt, ap);
    if (sys) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ": %s", tn_strerror(sys));
    }
    set_text(err, text);
    err->code = code;
    err->sys = sys;
}

int tn_fail(struct tn_error *err, enum tn_code code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    fill(err, code, 0, fmt, ap);
    va_end(ap);
    return -1;
}

static enum tn_code code_of_errno(int sys)
{
    switch (sys) {
    case ENOENT:
    case ENOTDIR:
        return TN_E_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return TN_E_DENIED;
    case EEXIST:
    case ENOTEMPTY:
    case EISDIR:
        return TN_E_CONFLICT;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
    case EXDEV:
        return TN_E_INVALID;
    case ETIMEDOUT:
        return TN_E_TIMEOUT;
    case ENOSYS:
    case EOPNOTSUPP:
        return TN_E_UNSUPPORTED;
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return TN_E_BUSY;
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
        return TN_E_PEER;
    default:
        return TN_E_IO;
    }
}

int tn_fail_errno(struct tn_error *err, int sys, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    fill(err, code_of_errno(sys), sys, fmt, ap);
    va_end(ap);
    return -1;
}

int tn_error_context(struct tn_error *err, const char *fmt, ...)
{
    char text[2 * sizeof err->text + 2];
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    vsnprintf(text, sizeof err->text, fmt, ap);
    va_end(ap);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, ": %s", err->text);
    set_text(err, text);
    return -1;
}
