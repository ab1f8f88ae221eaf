/* PNG pictures as the browser writes them: eight bits, RGB or RGBA, not interlaced. */
#ifndef TN_HAND_BROWSER_PNG_H
#define TN_HAND_BROWSER_PNG_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_image {
    uint32_t width, height;
    uint8_t *rgb; /* three bytes a pixel, row by row */
};

/* 0, or -1 with err; transparency is dropped.  Free it with tn_image_done in either case. */
int tn_png_decode(const void *bytes, size_t n, struct tn_image *image, struct tn_error *err);
void tn_image_done(struct tn_image *image);
/* Appends the file: fast rather than small. */
int tn_png_encode(const struct tn_image *image, struct tn_buf *out, struct tn_error *err);

#endif
