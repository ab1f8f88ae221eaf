/* Answers: errors as each surface wants them, and bodies that should be JSON. */
#include "base/error-hide.h"
#include "service/caller.h"
#include "service/front.h"
#include "service/surface.h"

/* Problem details below /v1; what OpenHands' clients expect everywhere else. */
static bool wants_problem(const struct tn_http_exchange *x)
{
    const char *path = tn_http_path(x);

    return strncmp(path, "/v1", 3) == 0 && (path[3] == '/' || path[3] == '\0');
}

static int reply_problem(struct tn_http_exchange *x, int status, const char *code,
                         const char *detail)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 * 1024);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "about:blank");
    tn_jw_kstr(&w, "title", tn_http_reason(status));
    tn_jw_kint(&w, "status", status);
    tn_jw_kstr(&w, "detail", detail);
    if (code)
        tn_jw_kstr(&w, "code", code);
    tn_jw_kstr(&w, "request_id", request_id(x));
    tn_jw_object_end(&w);
    return tn_http_reply(x, status, "application/problem+json", json.data,
                         tn_buf_ok(&json) ? json.len : 0);
}

int reply_status(struct tn_http_exchange *x, int status, const char *code, const char *detail)
{
    surface_reply_fn vendor = surface_reply(x);
    tn_autofree char *hidden = tn_hide_paths(detail);

    detail = hidden ? hidden : detail;
    if (vendor)
        return vendor(x, status, code, detail);
    return wants_problem(x) ? reply_problem(x, status, code, detail)
                            : tn_http_reply_detail(x, status, detail);
}

int reply_error(struct tn_http_exchange *x, const struct tn_error *err)
{
    const struct tn_code_row *row = tn_code_row(err->code);
    /* 408 would say that the client was too slow. */
    int status = err->code == TN_E_TIMEOUT ? 504 : row->http_status;

    if (err->code == TN_E_BUSY)
        tn_http_set_header(x, "Retry-After", "1");
    return reply_status(x, status, row->name, err->text);
}

int read_whole(struct tn_http_exchange *x, struct tn_buf *out)
{
    struct tn_error err = {0};

    out->purse = purse_of(x);
    if (tn_http_read_all(x, out, &err) == 0)
        return 0;
    if (err.code == TN_E_TIMEOUT) /* 408: it was the client that was too slow */
        reply_status(x, tn_code_row(err.code)->http_status, tn_code_row(err.code)->name, err.text);
    else
        reply_error(x, &err);
    return -1;
}

int read_json(struct tn_http_exchange *x, size_t max, struct tn_json **out)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(max);
    struct tn_error err = {0};

    *out = NULL;
    if (read_whole(x, &body) < 0)
        return -1;
    if (hold_json(x, &body, out, &err) < 0) {
        if (err.code != TN_E_BUSY) {
            tn_error_context(&err, "The body is not JSON");
            err.code = TN_E_INVALID;
        }
        reply_error(x, &err);
        return -1;
    }
    return 0;
}

void front_refuse(struct tn_http_exchange *x, int status, const char *detail, void *ctx)
{
    static const struct {
        int status;
        enum tn_code code;
    } codes[] = {{400, TN_E_INVALID},   {404, TN_E_NOT_FOUND},    {405, TN_E_METHOD},
                 {413, TN_E_TOO_LARGE}, {414, TN_E_URI_TOO_LONG}, {417, TN_E_INVALID},
                 {500, TN_E_INTERNAL},  {501, TN_E_UNSUPPORTED}};
    const char *code = NULL;

    front_begin(x, ctx); /* it may have come to nothing before the front saw it */
    for (size_t i = 0; i < TN_COUNT(codes); i++)
        if (codes[i].status == status)
            code = tn_code_row(codes[i].code)->name;
    reply_status(x, status, code, detail);
}
