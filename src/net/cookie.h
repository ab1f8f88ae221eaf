/* Cookies, as far as a proxy must know them. */
#ifndef TN_NET_COOKIE_H
#define TN_NET_COOKIE_H

#include "net/http-server.h"

/* Whether a cookie of that name is in the request whose value fits.  All of them are tried: a page
 * can add further ones of the same name. */
typedef bool (*tn_cookie_value_fn)(const char *value, void *ctx);
bool tn_cookie_any(const struct tn_http_exchange *x, const char *name, tn_cookie_value_fn fits,
                   void *ctx);

/* Appends the cookies of a Cookie header ("a=1; b=2") but those whose name is hidden. */
typedef bool (*tn_cookie_name_fn)(const char *name, size_t n, void *ctx);
void tn_cookies_without(const char *cookies, tn_cookie_name_fn hidden, void *ctx,
                        struct tn_buf *out);
/* Appends those whose name starts with the prefix, without it. */
void tn_cookies_below(const char *cookies, const char *prefix, struct tn_buf *out);

/* A Set-Cookie header taken apart: "name=value" and the attributes that follow. */
struct tn_set_cookie {
    const char *name, *value, *path; /* into the text; path NULL: none */
    size_t name_len, value_len, path_len;
    const char *rest; /* from the first attribute on; "" */
};
/* False: browsers would ignore it (it has no name). */
bool tn_set_cookie_parse(const char *text, struct tn_set_cookie *out);
/* Appends the attributes ("; HttpOnly; Max-Age=5") but those named in `without`, which ends with
 * NULL. */
void tn_set_cookie_rest(const struct tn_set_cookie *c, const char *const *without,
                        struct tn_buf *out);

#endif
