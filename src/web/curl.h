/* libcurl, loaded when first needed.  Its headers are known to this folder alone. */
#ifndef TN_WEB_CURL_H
#define TN_WEB_CURL_H

#include <curl/curl.h>

#include "base/error.h"

#define WEB_CURL_FUNCTIONS(X) \
    X(easy_cleanup)           \
    X(easy_getinfo)           \
    X(easy_init)              \
    X(easy_recv)              \
    X(easy_reset)             \
    X(easy_send)              \
    X(easy_setopt)            \
    X(easy_strerror)          \
    X(global_init)            \
    X(multi_add_handle)       \
    X(multi_cleanup)          \
    X(multi_info_read)        \
    X(multi_init)             \
    X(multi_perform)          \
    X(multi_poll)             \
    X(multi_remove_handle)    \
    X(multi_strerror)         \
    X(slist_append)           \
    X(slist_free_all)

struct web_curl {
#define WEB_CURL_MEMBER(name) __typeof__(&curl_##name) name;
    WEB_CURL_FUNCTIONS(WEB_CURL_MEMBER)
#undef WEB_CURL_MEMBER
};

/* The functions; NULL with err (TN_E_UNSUPPORTED) when there is no libcurl here.  It stays loaded
 * until the process ends. */
const struct web_curl *web_curl(struct tn_error *err);

#endif
