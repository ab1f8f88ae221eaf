#include "hand/browser/view-marks.h"

#include <math.h>

#include "hand/browser/view-marks-font.h"

enum { DASH = 4, GAP = 8, LINE = 2, MARGIN = 3, AREA_MIN = 20, LABEL_MAX = 16 };

enum colour { BLACK = 0, WHITE = 255 };

static void dot(struct tn_image *image, int64_t x, int64_t y, enum colour colour)
{
    if (x >= 0 && y >= 0 && x < image->width && y < image->height)
        memset(image->rgb + ((size_t)y * image->width + (size_t)x) * 3, (int)colour, 3);
}

static void rectangle(struct tn_image *image, int64_t x, int64_t y, int64_t width, int64_t height,
                      enum colour colour)
{
    for (int64_t dy = 0; dy < height; dy++)
        for (int64_t dx = 0; dx < width; dx++)
            dot(image, x + dx, y + dy, colour);
}

/* Dashes start at the line's own start, wherever the picture's edge cuts it. */
static void dashed(struct tn_image *image, int64_t x, int64_t y, int64_t length, bool down)
{
    int64_t start = down ? y : x, side = down ? image->height : image->width;
    int64_t first = start < 0 ? -start / (DASH + GAP) * (DASH + GAP) : 0;

    for (int64_t at = first; at < length && start + at < side; at += DASH + GAP) {
        int64_t dash = length - at < DASH ? length - at : DASH;
        if (down)
            rectangle(image, x, y + at, LINE, dash, BLACK);
        else
            rectangle(image, x + at, y, dash, LINE, BLACK);
    }
}

static void label(struct tn_image *image, const char *bid, int64_t x, int64_t y)
{
    size_t n = strlen(bid) < LABEL_MAX ? strlen(bid) : LABEL_MAX;
    int64_t width = (int64_t)n * (GLYPH_WIDTH + 1) - 1 + 2 * MARGIN;
    int64_t height = GLYPH_HEIGHT + 2 * MARGIN;

    rectangle(image, x, y, width, height, WHITE);
    rectangle(image, x + 1, y + 1, width - 2, height - 2, BLACK);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *rows = glyphs[(unsigned char)bid[i] & 0x7f];
        for (int dy = 0; dy < GLYPH_HEIGHT; dy++)
            for (int dx = 0; dx < GLYPH_WIDTH; dx++)
                if (rows[dy] >> (GLYPH_WIDTH - 1 - dx) & 1)
                    dot(image, x + MARGIN + (int64_t)i * (GLYPH_WIDTH + 1) + dx, y + MARGIN + dy,
                        WHITE);
    }
}

static bool is_sane(double v)
{
    return isfinite(v) && v > -1e7 && v < 1e7;
}

static int64_t rounded(double v)
{
    return (int64_t)(v < 0 ? v - 0.5 : v + 0.5);
}

void tn_marks_draw(struct tn_image *image, const char *bid, double x, double y, double width,
                   double height)
{
    if (!is_sane(x) || !is_sane(y) || !is_sane(width) || !is_sane(height) ||
        width * height < AREA_MIN)
        return;
    int64_t x0 = rounded(x), y0 = rounded(y), x1 = rounded(x + width), y1 = rounded(y + height);
    if (x1 < 0 || y1 < 0 || x0 >= image->width || y0 >= image->height)
        return;
    dashed(image, x0, y0, x1 - x0, false);
    dashed(image, x0, y1, x1 - x0, false);
    dashed(image, x0, y0, y1 - y0, true);
    dashed(image, x1, y0, y1 - y0, true);
    label(image, bid, x0, y0 - (GLYPH_HEIGHT + 2 * MARGIN) / 2 + 4);
}
