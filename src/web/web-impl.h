/* What web.c, call.c and dial.c share. */
#ifndef TN_WEB_WEB_IMPL_H
#define TN_WEB_WEB_IMPL_H

#include <pthread.h>

#include "web/curl.h"
#include "web/web.h"

/* A handle with the connections it keeps alive; one call at a time. */
struct web_line {
    CURLM *multi;
    CURL *easy;
    struct web_line *next;
};

struct tn_web {
    const struct web_curl *curl;
    char *base, *socket, *proxy;
    char *place;                   /* base as libcurl is told: with the name of the certificate, */
    struct curl_slist *connect_to; /* which is then not where to connect to */
    char *ca_file, *cert_file;
    char *ca, *cert, *key;
    bool insecure, http2;
    double connect_timeout;
    enum tn_web_reach reach;

    pthread_mutex_t lock;  /* of what follows */
    struct web_line *idle; /* lines that no call uses */
    size_t idle_count;
    char **headers; /* "Name: value"; a NULL follows */
    size_t header_count;
};

/* One use of a line. */
struct web_transfer {
    const struct tn_web_call *call;
    struct tn_web_answer *answer;
    CURL *easy;
    const struct web_curl *curl;
    int64_t moved; /* when something last moved */
    bool overflow; /* the answer does not fit */
    bool source_failed;
    bool guarded, checked; /* addresses are judged; were judged before the transfer */
    bool barred;           /* an address was too near */
    enum tn_web_reach reach;
    struct tn_error source_error;
    struct curl_slist *pinned; /* the addresses that a connection without a proxy may have */
    char detail[CURL_ERROR_SIZE];
};
/* Where to, and how to know that it is the right one there. */
void web_set_place(const struct tn_web *web, struct web_transfer *t, const char *url);
/* Until the transfer is over: 1 with its result, or -1 when it was given up. */
int web_carry_out(struct web_line *line, struct web_transfer *t, CURLcode *result,
                  struct tn_error *err);
/* Lets the transfer connect to nothing nearer than web->reach; *pinned is for the caller to free
 * after it.  -1 with err for a host that is too near. */
int web_guard(const struct tn_web *web, struct web_transfer *t, struct curl_slist **pinned,
              struct tn_error *err);
void web_set_guard(const struct tn_web *web, struct web_transfer *t);
/* Whether there is a proxy that such a transfer may use. */
bool web_proxy_named(const struct tn_web *web);
/* "host" (v6 in brackets) and "port" of the base, on the heap. */
void web_split_base(const char *base, char **host, char **port);
/* Makes an error of a result; returns -1. */
int web_failed(const struct tn_web *web, struct web_transfer *t, CURLcode code,
               struct tn_error *err);

struct web_line *web_line_new(const struct web_curl *curl);
void web_line_free(const struct web_curl *curl, struct web_line *line);
/* A line nobody else uses, without options; NULL when memory is gone. */
struct web_line *web_line_take(struct tn_web *web);
/* Back to the idle ones; reusable false: its connections are closed. */
void web_line_give(struct tn_web *web, struct web_line *line, bool reusable);

/* True for "Name: value" that can be sent as it is. */
bool web_header_valid(const char *line);
/* The standing headers and those of the call as libcurl wants them; -1 with err for one that cannot
 * be sent. */
int web_headers(struct tn_web *web, const struct tn_web_call *call, struct curl_slist **out,
                struct tn_error *err);

#endif
