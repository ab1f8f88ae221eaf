/* PNG: pictures survive writing and reading, and what is no such picture is refused. */
#include "hand/browser/png.h"

#include <zlib.h>

#include "hand/browser/view-marks.h"
#include "unit.h"

static void fill(struct tn_image *image, uint32_t width, uint32_t height)
{
    uint32_t v = 1;

    *image = (struct tn_image){width, height, tn_malloc((size_t)width * height * 3)};
    for (size_t i = 0; i < (size_t)width * height * 3; i++) {
        v = v * 1103515245 + 12345;
        image->rgb[i] = i % 7 ? (uint8_t)(v >> 16) : 255;
    }
}

static void test_round_trip(void **state)
{
    static const uint32_t sizes[][2] = {{1, 1}, {3, 2}, {64, 1}, {1, 64}, {257, 33}};

    for (size_t i = 0; i < TN_COUNT(sizes); i++) {
        tn_autobuf struct tn_buf file = TN_BUF_INIT(1 << 20);
        struct tn_image image, again;
        fill(&image, sizes[i][0], sizes[i][1]);
        assert_int_equal(tn_png_encode(&image, &file, NULL), 0);
        assert_memory_equal(file.data + file.len - 8, "IEND\xae\x42\x60\x82", 8);
        assert_int_equal(tn_png_decode(file.data, file.len, &again, NULL), 0);
        assert_true(again.width == image.width && again.height == image.height);
        assert_memory_equal(again.rgb, image.rgb, (size_t)image.width * image.height * 3);
        tn_image_done(&image);
        tn_image_done(&again);
    }
}

static void put_chunk(struct tn_buf *out, const char *type, const void *data, size_t n)
{
    const uint8_t length[4] = {0, 0, (uint8_t)(n >> 8), (uint8_t)n};
    tn_buf_add(out, length, 4);
    tn_buf_add(out, type, 4);
    tn_buf_add(out, data, n);
    tn_buf_add(out, length, 4); /* nobody looks at the checksum: zlib has its own */
}

/* A file of 2 x 3 pixels with the given rows, each after its filter's number. */
static void put_file(struct tn_buf *out, uint8_t depth, uint8_t type, uint8_t interlaced,
                     const uint8_t *rows, size_t n, size_t pieces)
{
    const uint8_t header[13] = {0, 0, 0, 2, 0, 0, 0, 3, depth, type, 0, 0, interlaced};
    uint8_t packed[256];
    uLongf size = sizeof packed;

    assert_int_equal(compress(packed, &size, rows, n), Z_OK);
    tn_buf_add(out, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(out, "IHDR", header, sizeof header);
    put_chunk(out, "tEXt", "a\0b", 3);
    for (size_t i = 0; i < pieces; i++)
        put_chunk(out, "IDAT", packed + size * i / pieces,
                  size * (i + 1) / pieces - size * i / pieces);
    put_chunk(out, "IEND", NULL, 0);
}

static void test_filters(void **state)
{
    static const uint8_t rgb[] = {1, 10, 20, 30, 1, 2, 3, 2, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1};
    static const uint8_t rgb_values[] = {10, 20, 30, 11, 22, 33, 11, 21, 31,
                                         12, 23, 34, 6,  11, 16, 10, 18, 26};
    static const uint8_t rgba[] = {0, 5, 6, 7, 0, 8, 9, 10, 0, 4, 1, 1, 1, 9,
                                   1, 1, 1, 9, 0, 1, 2, 3,  4, 5, 6, 7, 8};
    static const uint8_t rgba_values[] = {5, 6, 7, 8, 9, 10, 6, 7, 8, 9, 10, 11, 1, 2, 3, 5, 6, 7};
    struct tn_image image;

    for (size_t pieces = 1; pieces < 4; pieces++) {
        tn_autobuf struct tn_buf file = TN_BUF_INIT(1 << 14);
        put_file(&file, 8, 2, 0, rgb, sizeof rgb, pieces);
        assert_int_equal(tn_png_decode(file.data, file.len, &image, NULL), 0);
        assert_memory_equal(image.rgb, rgb_values, sizeof rgb_values);
        tn_image_done(&image);
        tn_buf_reset(&file);
        put_file(&file, 8, 6, 0, rgba, sizeof rgba, pieces);
        assert_int_equal(tn_png_decode(file.data, file.len, &image, NULL), 0);
        assert_memory_equal(image.rgb, rgba_values, sizeof rgba_values);
        tn_image_done(&image);
    }
}

static void refuse(const struct tn_buf *file, enum tn_code code)
{
    struct tn_image image;
    struct tn_error err = {0};

    assert_int_equal(tn_png_decode(tn_buf_str(file), file->len, &image, &err), -1);
    assert_int_equal(err.code, code);
    tn_image_done(&image);
}

static void test_refused(void **state)
{
    static const uint8_t good[21] = {0}, unknown_filter[21] = {9}, few[14] = {0};
    tn_autobuf struct tn_buf file = TN_BUF_INIT(1 << 14);

    refuse(&file, TN_E_INVALID);
    put_file(&file, 16, 2, 0, good, sizeof good, 1);
    refuse(&file, TN_E_UNSUPPORTED);
    tn_buf_reset(&file);
    put_file(&file, 8, 3, 0, good, sizeof good, 1);
    refuse(&file, TN_E_UNSUPPORTED);
    tn_buf_reset(&file);
    put_file(&file, 8, 2, 1, good, sizeof good, 1);
    refuse(&file, TN_E_UNSUPPORTED);
    tn_buf_reset(&file);
    put_file(&file, 8, 2, 0, unknown_filter, sizeof unknown_filter, 1);
    refuse(&file, TN_E_INVALID);
    tn_buf_reset(&file);
    put_file(&file, 8, 2, 0, few, sizeof few, 1);
    refuse(&file, TN_E_INVALID);
    tn_buf_reset(&file);
    put_file(&file, 8, 2, 0, good, sizeof good, 1);
    memset(file.data + 16, 0x7f, 8); /* its size */
    refuse(&file, TN_E_TOO_LARGE);
    tn_buf_reset(&file);
    put_file(&file, 8, 2, 0, good, sizeof good, 1);
    size_t whole = file.len;
    for (size_t n = 0; n < whole; n++) {
        file.len = n;
        refuse(&file, TN_E_INVALID);
    }
}

static void test_marks_stay_inside(void **state)
{
    static const double boxes[][4] = {
        {2, 2, 20, 10},     {-5, -5, 500, 500}, {30, 20, 100, 100}, {-1e6, 3, 2e6, 5},
        {1e9, 1e9, 10, 10}, {0, 0, 1, 1},       {3, 3, 0.0 / 1, 7}, {-100, -100, 20, 20},
    };
    struct tn_image image = {40, 30, tn_calloc(40 * 30, 3)};
    size_t white = 0;

    memset(image.rgb, 128, (size_t)40 * 30 * 3);
    tn_marks_draw(&image, "aB12", boxes[0][0], boxes[0][1], boxes[0][2], boxes[0][3]);
    for (size_t i = 0; i < 40 * 30; i++)
        white += image.rgb[i * 3] == 255;
    assert_true(white > 50); /* a frame and four letters */
    for (size_t i = 0; i < TN_COUNT(boxes); i++)
        tn_marks_draw(&image, "a0\xff", boxes[i][0], boxes[i][1], boxes[i][2], boxes[i][3]);
    tn_image_done(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_marks_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
