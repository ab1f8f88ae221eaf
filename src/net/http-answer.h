/* Reading an HTTP/1.1 answer from a socket: the head, then the body as a stream. */
#ifndef TN_NET_HTTP_ANSWER_H
#define TN_NET_HTTP_ANSWER_H

#include "base/buf.h"
#include "net/http-parse.h"

enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_COUNTED, HTTP_BODY_CHUNKED, HTTP_BODY_TO_CLOSE };

struct http_answer {
    struct tn_buf in;  /* the head, kept for http_answer_field; behind it bytes not consumed yet */
    size_t head_bytes; /* 0: no answer */
    size_t at;         /* consumed up to here */
    struct tn_http_head head;
    enum http_body_kind kind;
    int64_t left;
    struct tn_http_chunked chunks;
    bool done;  /* the body was read to its end */
    bool keep;  /* the connection may carry another request once done */
    int cancel; /* as in struct net_wait; the user of the answer sets it */
};

void http_answer_init(struct http_answer *a);
void http_answer_done(struct http_answer *a);

/* Reads the head of the next answer, skipping 1xx but 101.  Returns its status, or -1 with err;
 * err->sys is ECONNRESET when the connection ended before the first byte. */
int http_answer_head(struct http_answer *a, int fd, bool to_head_request, int64_t deadline,
                     struct tn_error *err);
const char *http_answer_field(const struct http_answer *a, const char *name);
/* Next bytes of the body: count, 0 at its end, -1 with err. */
ssize_t http_answer_read(struct http_answer *a, int fd, void *to, size_t n, int64_t deadline,
                         struct tn_error *err);

#endif
