/* The client of other people's HTTP servers: engines, clusters, clouds (libcurl underneath).
 *
 * A tn_web is where to talk to and how: base address, TLS, headers for every request.  It keeps
 * connections alive and serves any number of threads at once; each call is synchronous, ends by its
 * deadline, and can be cancelled through a descriptor.  libcurl is loaded when the first tn_web is
 * made: a program that never makes one does not pay for it.
 *
 * An answer of any status is a success here; tn_web_refused makes an error of one.  Failures to get
 * an answer are told apart by code and errno:
 *
 *     TN_E_NOT_FOUND, ENOENT          no such unix socket
 *     TN_E_DENIED, EACCES             the unix socket is not ours to use
 *     TN_E_PEER, ECONNREFUSED         nobody listens
 *     TN_E_PEER, ...                  no such host, no route, connection broken, not HTTP
 *     TN_E_DENIED, EPROTO             TLS: certificate not trusted, or our own refused
 *     TN_E_DENIED, EHOSTUNREACH       it is nearer than `reach` allows
 *     TN_E_TIMEOUT                    the deadline passed, or nothing moved for `idle`
 *     TN_E_GONE, ECANCELED            cancelled
 *     TN_E_TOO_LARGE                  the answer does not fit
 *     TN_E_UNSUPPORTED                no libcurl on this machine
 *
 * Messages name the method, the host and the path; never a query, a header or a body. */
#ifndef TN_WEB_WEB_H
#define TN_WEB_WEB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

struct tn_web;

/* Files, or the same as PEM text, as a key always is; all optional.  Copied.  Without ca_file and
 * ca it is the file that $SSL_CERT_FILE names, or the system's; with ca nothing else is trusted. */
struct tn_web_tls {
    const char *ca_file, *cert_file;
    const char *ca, *cert, *key;
    const char *server_name; /* the certificate must be for this name instead of base's host */
    bool insecure;           /* whoever answers is trusted */
};

/* How near an address is; later ones are nearer.  Link-local addresses, those of nobody and those
 * of many are nearer than all of these. */
enum tn_web_reach { TN_WEB_ANYWHERE, TN_WEB_PUBLIC, TN_WEB_PRIVATE, TN_WEB_LOOPBACK };

/* That of a host as a URL has it: an address (v6 in brackets), or localhost; of any other name it
 * is TN_WEB_PUBLIC. */
enum tn_web_reach tn_web_reach_of(const char *host);

struct tn_web_options {
    const char *base;       /* "http://HOST[:PORT][/PATH]" or https; no trailing slash */
    const char *socket;     /* connect to this unix socket instead of the host of base */
    const char *proxy;      /* a URL (http, https, socks5h); NULL: what the environment names */
    struct tn_web_tls tls;  /* for https */
    double connect_timeout; /* seconds; 0: ten */
    /* Nothing nearer than this is connected to, whatever names say it is and also through a proxy:
     * for addresses that come from somebody else.  TN_WEB_ANYWHERE: no limit. */
    enum tn_web_reach reach;
    bool http2; /* no other: by prior knowledge, or with TLS as it is agreed */
};

/* Copies the options; connects to nothing yet.  NULL with err. */
struct tn_web *tn_web_new(const struct tn_web_options *options, struct tn_error *err);
/* No call may be under way. */
void tn_web_free(struct tn_web *web);
static inline void tn_guard_web(struct tn_web **web)
{
    tn_web_free(*web);
}
#define tn_autoweb TN_CLEANUP(tn_guard_web)

/* A header for every request from now on (a key, a user agent); replaces one of the same name.
 * -1 when it cannot be sent as a header.  May be called while others use the web. */
int tn_web_header(struct tn_web *web, const char *name, const char *value, struct tn_error *err);

/* Gives the next bytes of a body: how many, 0 at the end, -1 with err to give up. */
typedef ssize_t (*tn_web_source_fn)(void *to, size_t n, void *ctx, struct tn_error *err);
/* Takes the next bytes of an answer; non-zero: that is enough. */
typedef int (*tn_web_sink_fn)(const void *bytes, size_t n, void *ctx);

struct tn_web_call {
    const char *method;         /* NULL: GET, or POST with a body */
    const char *target;         /* path and query, encoded; follows base */
    const char *const *headers; /* "Name: value", NULL at the end; or NULL */
    const char *type;           /* content type of the body */

    const void *body; /* from memory: body_len bytes; */
    size_t body_len;
    tn_web_source_fn source; /* or from a function, */
    void *source_ctx;
    int64_t source_len; /* of so many bytes in all; -1: unknown (chunked) */

    tn_web_sink_fn sink; /* the body of a 2xx goes here as it comes; NULL: into the answer */
    void *sink_ctx;
    void (*begun)(void *sink_ctx); /* a 2xx has come, its body follows; or NULL */

    bool once; /* never sent a second time: on a connection of its own */

    int64_t deadline; /* of everything together; 0 is forbidden: say TN_NEVER if you mean it */
    double idle;      /* seconds in which nothing moves in either direction; 0: no limit */
    int cancel;       /* 0: none; else a descriptor: readable means stop */
};

struct tn_web_answer {
    int status;
    struct tn_buf body;    /* its maximum is the caller's choice */
    struct tn_buf headers; /* "name: value\n" each, names in lower case; trailers too */
    bool stopped;          /* the sink had enough: the rest was not read */
    char peer[48];         /* the address it came from; "" when a proxy may have been between */
};

#define TN_WEB_HEADERS_MAX (64u << 10)
#define TN_WEB_ANSWER_INIT(most)                                              \
    {                                                                         \
        .body = TN_BUF_INIT(most), .headers = TN_BUF_INIT(TN_WEB_HEADERS_MAX) \
    }
void tn_web_answer_done(struct tn_web_answer *answer);
#define tn_autoanswer TN_CLEANUP(tn_web_answer_done)

/* Sends the request and receives the answer, which was initialised (and may be used again).  A
 * connection that was kept alive and proves dead is replaced without the caller noticing.  0 with
 * answer->status set, or -1. */
int tn_web_call(struct tn_web *web, const struct tn_web_call *call, struct tn_web_answer *answer,
                struct tn_error *err);

/* A connected stream (CLOEXEC, blocking) to the host of base, for what is more than one request: a
 * WebSocket, a tunnel.  Nothing was sent yet, and nothing of base's path or of the headers ever is.
 * Proxies are used.  With TLS the descriptor is one end of a pair of sockets,
 * and a thread encrypts until both sides have ended; that one side has ended its half (shutdown) is
 * then told to us, but not to the host.  -1 with err as above. */
int tn_web_dial(struct tn_web *web, int64_t deadline, struct tn_error *err);

/* Value of the first header of that name (lower case) on the heap, or NULL. */
char *tn_web_answer_header(const struct tn_web_answer *answer, const char *name);

/* Makes an error of an answer that is not 2xx: the code follows from the status, the text is
 * `text`, or, when NULL, the start of the body.  Returns -1. */
int tn_web_refused(const struct tn_web_answer *answer, const char *text, struct tn_error *err);

/* --- sending again (again.c) ------------------------------------------------------------------ */

/* Seconds that an answer wants to be left alone: one at least; 0: it does not say. */
double tn_web_retry_after(const struct tn_web_answer *answer);

/* What one call has behind it; zeroes at first. */
struct tn_web_again {
    int tries, ms;
    int64_t refused; /* nanoseconds that 429 has cost */
    double patience; /* seconds that it may cost */
};
/* The pause before a call is sent again that may be, after this answer (NULL: there was none).
 * -1: it is not: eight tries were all, the answer says X-Should-Retry: false, or the deadline would
 * pass.  Who says Retry-After is asked as often as it says so; but all pauses after 429 take no
 * longer than half a minute together, or than the first one asked for if that is more.  why stays,
 * unless cancel (0: none) became readable: TN_E_GONE with ECANCELED. */
int tn_web_again(struct tn_web_again *a, const struct tn_web_answer *answer, int cancel,
                 int64_t deadline, struct tn_error *why);

#endif
