/* URL pieces: percent-encoding and query strings. */
#ifndef TN_NET_URL_H
#define TN_NET_URL_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

/* True when every '%' in text starts a well-formed escape of a byte other than NUL. */
bool tn_url_valid(const char *text, size_t n);

/* Decodes n bytes into out, which has room for n + 1 (NUL-terminated; it may be text itself).
 * `form` also turns '+' into a space.  Returns the length, or -1 when text is not valid. */
ssize_t tn_url_decode(const char *text, size_t n, char *out, bool form);

/* Whether a path (up to its query) has a segment "." or "..", escaped or not, with either slash:
 * whoever resolves those would end elsewhere than the path says. */
bool tn_url_climbs(const char *path);

/* Whether it may be shown and given to a browser: http:// or https://, and no blank, control byte
 * or quote in it. */
bool tn_url_is_page(const char *url);

/* Appends text to out with everything escaped but letters, digits, "-._~" and the bytes in keep. */
int tn_url_encode(struct tn_buf *out, const char *text, const char *keep);

/* Decodes a query ("a=1&b&c=x+y") into "a\0" "1\0" "b\0" "\0" "c\0" "x y\0" and returns the length
 * of all.  out has room for TN_URL_PAIRS_MAX(n) bytes.  Empty pairs are skipped, and pairs that are
 * not valid as above. */
size_t tn_url_pairs(const char *query, size_t n, char *out);
#define TN_URL_PAIRS_MAX(n) \
    (2 * (n) + 2) /* a name without '=' grows by a byte, and may be one byte long */

#endif
