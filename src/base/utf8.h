/* UTF-8: decoding that never reads past the end and never accepts what is not UTF-8. */
#ifndef TN_BASE_UTF8_H
#define TN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one code point from s (n > 0 bytes).  Returns its length (1 to 4) and sets *cp; returns 0
 * when the bytes are not valid UTF-8 (overlong, surrogate, out of range, cut short). */
size_t tn_utf8_decode(const char *s, size_t n, uint32_t *cp);
/* Writes cp as UTF-8 to out (4 bytes); returns the length. */
size_t tn_utf8_encode(uint32_t cp, char out[4]);
bool tn_utf8_valid(const char *s, size_t n);
/* Number of code points; an invalid byte counts as one. */
size_t tn_utf8_length(const char *s, size_t n);
/* Byte offset of code point number `chars` (or n when there are fewer). */
size_t tn_utf8_offset(const char *s, size_t n, size_t chars);
/* How many bytes at the end are the beginning of a character. */
size_t tn_utf8_unfinished(const char *bytes, size_t n);
/* Columns a terminal gives the code point: 0 (combining, zero width), 1 or 2 (wide). */
int tn_utf8_width(uint32_t cp);

#endif
