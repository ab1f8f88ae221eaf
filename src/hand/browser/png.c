#include "hand/browser/png.h"

#include <zlib.h>

enum { SIDE_MAX = 1 << 15, PIXELS_MAX = 1 << 25, SIGNATURE = 8, CHUNK_HEAD = 8, CHUNK_TAIL = 4 };

static const uint8_t signature[SIGNATURE] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* --- reading -------------------------------------------------------------------------------- */

struct decoder {
    struct tn_image *image;
    size_t depth;  /* bytes per pixel in the file */
    uint8_t *rows; /* each after its filter's number */
    z_stream z;
};

static int read_header(struct decoder *d, const uint8_t *data, size_t n, struct tn_error *err)
{
    if (n != 13 || d->rows)
        return tn_fail(err, TN_E_INVALID, "PNG: a broken header");
    uint32_t width = get_u32(data), height = get_u32(data + 4);
    if (!width || !height || width > SIDE_MAX || height > SIDE_MAX ||
        (uint64_t)width * height > PIXELS_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "PNG: %u x %u pixels", width, height);
    if (data[8] != 8 || (data[9] != 2 && data[9] != 6) || data[10] || data[11] || data[12])
        return tn_fail(err, TN_E_UNSUPPORTED, "PNG: expected 8 bits, RGB or RGBA, not interlaced");
    d->depth = data[9] == 6 ? 4 : 3;
    d->image->width = width;
    d->image->height = height;
    size_t size = ((size_t)width * d->depth + 1) * height;
    d->rows = malloc(size);
    d->image->rgb = malloc((size_t)width * height * 3);
    if (!d->rows || !d->image->rgb)
        return tn_fail(err, TN_E_TOO_LARGE, "PNG: out of memory");
    d->z.next_out = d->rows;
    d->z.avail_out = (uInt)size;
    return 0;
}

static int read_data(struct decoder *d, const uint8_t *data, size_t n, struct tn_error *err)
{
    if (!d->rows)
        return tn_fail(err, TN_E_INVALID, "PNG: data before the header");
    d->z.next_in = (Bytef *)(uintptr_t)data;
    d->z.avail_in = (uInt)n;
    int r = inflate(&d->z, Z_NO_FLUSH);
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
        return tn_fail(err, TN_E_INVALID, "PNG: broken data");
    return 0;
}

static uint8_t paeth(int a, int b, int c)
{
    int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

/* Turns differences into values, in place; above is NULL in the first row. */
static int unfilter(uint8_t filter, uint8_t *row, const uint8_t *above, size_t n, size_t depth)
{
    if (filter > 4)
        return -1;
    for (size_t i = 0; i < n && filter; i++) {
        int a = i >= depth ? row[i - depth] : 0, b = above ? above[i] : 0;
        int c = above && i >= depth ? above[i - depth] : 0;
        uint8_t guess = filter == 1   ? (uint8_t)a
                        : filter == 2 ? (uint8_t)b
                        : filter == 3 ? (uint8_t)((a + b) / 2)
                                      : paeth(a, b, c);
        row[i] = (uint8_t)(row[i] + guess);
    }
    return 0;
}

static int finish(struct decoder *d, struct tn_error *err)
{
    size_t width = d->image->width, n = width * d->depth;
    uint8_t *above = NULL, *to = d->image->rgb;

    if (!d->rows || d->z.avail_out)
        return tn_fail(err, TN_E_INVALID, "PNG: rows are missing");
    for (size_t y = 0; y < d->image->height; y++) {
        uint8_t *row = d->rows + y * (n + 1) + 1;
        if (unfilter(row[-1], row, above, n, d->depth) < 0)
            return tn_fail(err, TN_E_INVALID, "PNG: unknown filter");
        for (size_t x = 0; x < width; x++, to += 3)
            memcpy(to, row + x * d->depth, 3);
        above = row;
    }
    return 0;
}

static int read_chunks(struct decoder *d, const uint8_t *bytes, size_t n, struct tn_error *err)
{
    size_t at = SIGNATURE;

    if (n < SIGNATURE || memcmp(bytes, signature, SIGNATURE) != 0)
        return tn_fail(err, TN_E_INVALID, "PNG: not a PNG file");
    while (n - at >= CHUNK_HEAD + CHUNK_TAIL) {
        const uint8_t *chunk = bytes + at;
        size_t length = get_u32(chunk);
        int r = 0;
        if (length > n - at - CHUNK_HEAD - CHUNK_TAIL)
            break;
        if (memcmp(chunk + 4, "IHDR", 4) == 0)
            r = read_header(d, chunk + CHUNK_HEAD, length, err);
        else if (memcmp(chunk + 4, "IDAT", 4) == 0)
            r = read_data(d, chunk + CHUNK_HEAD, length, err);
        else if (memcmp(chunk + 4, "IEND", 4) == 0)
            return finish(d, err);
        if (r < 0)
            return -1;
        at += CHUNK_HEAD + length + CHUNK_TAIL;
    }
    return tn_fail(err, TN_E_INVALID, "PNG: cut short");
}

int tn_png_decode(const void *bytes, size_t n, struct tn_image *image, struct tn_error *err)
{
    struct decoder d = {.image = image};

    *image = (struct tn_image){0};
    if (inflateInit(&d.z) != Z_OK)
        return tn_fail(err, TN_E_INTERNAL, "PNG: no memory for zlib");
    int r = read_chunks(&d, bytes, n, err);
    inflateEnd(&d.z);
    free(d.rows);
    return r;
}

void tn_image_done(struct tn_image *image)
{
    free(image->rgb);
    *image = (struct tn_image){0};
}

/* --- writing -------------------------------------------------------------------------------- */

static void put_chunk(struct tn_buf *out, const char *type, const uint8_t *data, size_t n)
{
    uint8_t word[4];
    uLong crc = crc32(crc32(0, (const Bytef *)type, 4), data, (uInt)n);

    put_u32(word, (uint32_t)n);
    tn_buf_add(out, word, 4);
    tn_buf_add(out, type, 4);
    tn_buf_add(out, data, n);
    put_u32(word, (uint32_t)crc);
    tn_buf_add(out, word, 4);
}

/* Each row as its difference to the one above: flat areas and vertical lines become zeros. */
static void filter_rows(const struct tn_image *image, uint8_t *to)
{
    size_t n = (size_t)image->width * 3;

    for (size_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->rgb + y * n, *above = y ? row - n : NULL;
        *to++ = above ? 2 : 0;
        for (size_t i = 0; i < n; i++)
            to[i] = above ? (uint8_t)(row[i] - above[i]) : row[i];
        to += n;
    }
}

/* The strategy for runs is several times faster than the default, and as good on such data. */
static int compress_rows(const uint8_t *rows, size_t n, struct tn_buf *to)
{
    z_stream z = {0};
    int r = deflateInit2(&z, 1, Z_DEFLATED, 15, 9, Z_RLE);

    if (r != Z_OK)
        return -1;
    uLong bound = deflateBound(&z, (uLong)n);
    z.next_in = (Bytef *)(uintptr_t)rows;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)tn_buf_reserve(to, bound);
    z.avail_out = (uInt)bound;
    r = z.next_out ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
    if (r == Z_STREAM_END)
        tn_buf_grew(to, z.total_out);
    deflateEnd(&z);
    return r == Z_STREAM_END ? 0 : -1;
}

int tn_png_encode(const struct tn_image *image, struct tn_buf *out, struct tn_error *err)
{
    static const uint8_t rgb[] = {8, 2, 0, 0, 0};
    size_t n = ((size_t)image->width * 3 + 1) * image->height;
    tn_autofree uint8_t *rows = malloc(n);
    tn_autobuf struct tn_buf data = TN_BUF_INIT(2 * n + 4096);
    uint8_t header[13];

    if (!rows)
        return tn_fail(err, TN_E_TOO_LARGE, "PNG: out of memory");
    filter_rows(image, rows);
    if (compress_rows(rows, n, &data) < 0)
        return tn_fail(err, TN_E_TOO_LARGE, "PNG: out of memory");
    put_u32(header, image->width);
    put_u32(header + 4, image->height);
    memcpy(header + 8, rgb, sizeof rgb);
    tn_buf_add(out, signature, SIGNATURE);
    put_chunk(out, "IHDR", header, sizeof header);
    put_chunk(out, "IDAT", (const uint8_t *)data.data, data.len);
    put_chunk(out, "IEND", signature, 0); /* zlib takes no NULL for the checksum of nothing */
    return tn_buf_ok(out) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "PNG: the file is too large");
}
