#include "service/preview-page.h"

#include "service/caller.h"

enum { PAGE_MAX = 16 << 10 };
#define AGAIN_SECONDS 3

static void put_html(struct tn_buf *out, const char *text)
{
    static const struct {
        char c;
        const char *entity;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

    for (; *text; text++) {
        size_t i = 0;
        while (i < TN_COUNT(escapes) && escapes[i].c != *text)
            i++;
        if (i < TN_COUNT(escapes))
            tn_buf_puts(out, escapes[i].entity);
        else
            tn_buf_putc(out, *text);
    }
}

static void write_page(const struct page *p, struct tn_buf *out)
{
    tn_buf_puts(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width\">\n");
    if (p->again)
        tn_buf_printf(out, "<meta http-equiv=\"refresh\" content=\"%d\">\n", AGAIN_SECONDS);
    tn_buf_puts(out, "<title>");
    put_html(out, p->title);
    tn_buf_puts(out, "</title>\n<style>:root{color-scheme:light dark}body{font:16px/1.5 "
                     "system-ui,sans-serif;max-width:36em;margin:15vh auto;padding:0 1em}"
                     "h1{font-size:1.3em}p{white-space:pre-line}</style>\n</head><body>\n<h1>");
    put_html(out, p->title);
    tn_buf_puts(out, "</h1>\n<p>");
    put_html(out, p->advice);
    tn_buf_puts(out, "</p>\n</body></html>\n");
}

static bool wants_page(const struct tn_http_exchange *x)
{
    const char *accept = tn_http_header(x, "Accept");
    const char *method = tn_http_method(x);

    return accept && strstr(accept, "text/html") &&
           (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0);
}

void preview_page(struct tn_http_exchange *x, const struct page *p)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(PAGE_MAX);

    tn_http_set_header(x, "Cache-Control", "no-store");
    if (p->status == 503)
        tn_http_set_header(x, "Retry-After", "3");
    if (!wants_page(x)) {
        tn_buf_printf(&out, "%s. %s", p->title, p->advice);
        reply_status(x, p->status, p->code, tn_buf_str(&out));
        return;
    }
    write_page(p, &out);
    tn_http_set_header(x, "Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    tn_http_reply(x, p->status, "text/html; charset=utf-8", out.data,
                  tn_buf_ok(&out) ? out.len : 0);
}

void preview_not_running(struct tn_http_exchange *x, struct box *b, const struct tn_error *err)
{
    autoview struct box_view v = {0};
    const struct tn_code_row *row = tn_code_row(err->code);

    box_look(b, &v);
    tn_autofree char *title = tn_asprintf("This sandbox is %s", box_state_words[v.state]);
    tn_autofree char *advice =
        tn_asprintf("%s.\nResume it in the dashboard, or with POST /v1/sandboxes/%s/resume.",
                    v.reason ? v.reason : err->text, v.id);
    preview_page(x, &(struct page){
                        .status = row->http_status == 404 || row->http_status == 410 ? 404 : 503,
                        .code = row->name,
                        .title = title,
                        .advice = advice,
                        .again = v.state == BOX_STARTING || v.state == BOX_PAUSED || v.asleep,
                    });
}

void preview_no_answer(struct tn_http_exchange *x, int port, const struct tn_error *err)
{
    bool late = err->code == TN_E_TIMEOUT;
    tn_autofree char *title =
        tn_asprintf(late ? "Port %d has not answered in time" : "Nothing answers on port %d", port);
    tn_autofree char *advice =
        tn_asprintf("Start a server on port %d inside the sandbox, on 127.0.0.1, ::1 or all "
                    "addresses; for example: python3 -m http.server %d\n(%s)",
                    port, port, err->text);

    preview_page(x, &(struct page){
                        .status = late ? 504 : 502,
                        .code = tn_code_row(late ? TN_E_TIMEOUT : TN_E_PEER)->name,
                        .title = title,
                        .advice = advice,
                        .again = !late,
                    });
}

void preview_unknown_caller(struct tn_http_exchange *x)
{
    note_denied(x, "no valid ticket, cookie or key for a preview");
    tn_http_set_header(x, "WWW-Authenticate", "Bearer");
    preview_page(x, &(struct page){
                        .status = 401,
                        .code = "unauthorized",
                        .title = "This link is not, or no longer, valid",
                        .advice = "Open the port anew from the dashboard, or make a link with "
                                  "POST /v1/sandboxes/ID/ports/PORT; programs send an API key as "
                                  "X-API-Key.",
                    });
}

void preview_no_box(struct tn_http_exchange *x)
{
    preview_page(x, &(struct page){
                        .status = 404,
                        .code = tn_code_row(TN_E_NOT_FOUND)->name,
                        .title = "There is no such sandbox",
                        .advice = "It may have been deleted.",
                    });
}
