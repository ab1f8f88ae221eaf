/* HTTP/1.x message heads and chunked framing: pure parsers over bytes in memory.
 *
 * Strict on purpose, because two parsers that disagree are a request smuggling bug: lines end with
 * CRLF and nothing else, no folding, no space before a colon, no message with two ideas of its
 * length. */
#ifndef TN_NET_HTTP_PARSE_H
#define TN_NET_HTTP_PARSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { TN_HTTP_MAX_FIELDS = 100 };

/* A piece of the head, as an offset: the head may move in memory after it was parsed. */
struct tn_http_slice {
    uint32_t at;
    uint32_t len;
};

struct tn_http_field {
    struct tn_http_slice name;
    struct tn_http_slice value; /* without surrounding white space */
};

struct tn_http_head {
    struct tn_http_slice method; /* requests */
    struct tn_http_slice target;
    int status;     /* responses */
    int minor;      /* HTTP/1.minor: 0 or 1 */
    int64_t length; /* Content-Length, or -1 when there is none */
    bool chunked;
    bool close;      /* Connection: close */
    bool keep_alive; /* Connection: keep-alive */
    bool upgrade;    /* Connection: upgrade */
    bool host;
    bool expect_continue;
    bool expect_other; /* an expectation nobody knows */
    unsigned field_count;
    struct tn_http_field fields[TN_HTTP_MAX_FIELDS];
};

struct tn_http_limits {
    size_t target;
    size_t fields; /* all header lines together */
};

/* Where the search for the end of a head stands; start with {0}. */
struct tn_http_scan {
    size_t line;  /* start of the line under inspection */
    size_t at;    /* bytes before this hold no unseen line end */
    size_t first; /* length of the first line with its CRLF, once seen */
};

/* Finds the end of the head in n bytes, of which the earlier ones may have been scanned before.
 * Returns the length of the head, 0 when more bytes are needed, -1 with err when they cannot help
 * any more. */
ssize_t tn_http_scan(struct tn_http_scan *scan, const char *bytes, size_t n,
                     const struct tn_http_limits *limits, struct tn_error *err);

/* Parse a whole head as found by tn_http_scan.  0, or -1 with err; err's code is the status to
 * answer. */
int tn_http_parse_request(const char *bytes, size_t n, const struct tn_http_limits *limits,
                          struct tn_http_head *head, struct tn_error *err);
int tn_http_parse_response(const char *bytes, size_t n, struct tn_http_head *head,
                           struct tn_error *err);

/* The value of the first such field, or NULL. */
const struct tn_http_slice *tn_http_find(const struct tn_http_head *head, const char *bytes,
                                         const char *name);
/* The path part of a request target in origin or absolute form; "*" is a path of its own. */
struct tn_http_slice tn_http_target_path(const char *target, size_t n);

/* --- chunked framing ----------------------------------------------------------------------- */

enum tn_http_chunk_state {
    TN_CHUNK_SIZE, /* start here */
    TN_CHUNK_EXTENSION,
    TN_CHUNK_SIZE_LF,
    TN_CHUNK_DATA, /* `left` bytes of data come next: take them and lower left */
    TN_CHUNK_DATA_LF,
    TN_CHUNK_TRAILER_START,
    TN_CHUNK_TRAILER,
    TN_CHUNK_TRAILER_LF,
    TN_CHUNK_LAST_LF,
    TN_CHUNK_END,
};

struct tn_http_chunked {
    enum tn_http_chunk_state state;
    int64_t left;
    unsigned digits;         /* of the size so far */
    unsigned extra;          /* bytes of extensions of this chunk, or of trailers */
    struct tn_buf *trailers; /* gets their lines; NULL: nobody wants them */
};

/* Consumes framing and stops at data, at the end or when the bytes are used up.  Returns how many
 * bytes it consumed, or -1 when they are no chunked framing. */
ssize_t tn_http_unchunk(struct tn_http_chunked *c, const char *bytes, size_t n);

/* --- characters ---------------------------------------------------------------------------- */

bool tn_http_is_token(const char *s, size_t n);
/* No control bytes but tabs: may be sent as a header value. */
bool tn_http_is_value(const char *s, size_t n);
/* Well-formed header lines, each with its CRLF ("Name: value\r\n..."); none is fine. */
bool tn_http_is_lines(const char *lines);
/* Whether such lines hold a field of that name. */
bool tn_http_lines_have(const char *lines, const char *name);
/* s (n bytes) equals the string word, ignoring ASCII case. */
bool tn_http_same(const char *s, size_t n, const char *word);
/* True when a comma-separated list holds the word, ignoring ASCII case. */
bool tn_http_list_has(const char *s, size_t n, const char *word);

#endif
