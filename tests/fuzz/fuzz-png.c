/* PNG: what can be read can be drawn upon and written, and reads back the same. */
#include "hand/browser/png.h"
#include "hand/browser/view-marks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autobuf struct tn_buf file = TN_BUF_INIT(1 << 26);
    struct tn_image image, again;

    if (tn_png_decode(data, size, &image, NULL) == 0 && image.width * image.height < 1 << 16) {
        tn_marks_draw(&image, "a1", (double)data[size / 2] - 50, data[size / 3], image.width, 40);
        must(tn_png_encode(&image, &file, NULL) == 0);
        must(tn_png_decode(file.data, file.len, &again, NULL) == 0);
        must(again.width == image.width && again.height == image.height);
        must(memcmp(again.rgb, image.rgb, (size_t)image.width * image.height * 3) == 0);
        tn_image_done(&again);
    }
    tn_image_done(&image);
    return 0;
}
