/* What a client of Modal may send, cut into frames: every message that a call takes; then as the
 * lines of a Dockerfile, and as the id of an image. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "service/modal/modal.h"

enum { FRAME_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_all_kinds(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    static const struct modal_method *const tables[] = {
        modal_account, modal_sandboxes, modal_images, modal_commands, modal_file_io, modal_router};

    if (n > FRAME_MAX)
        abort();
    for (size_t t = 0; t < TN_COUNT(tables); t++)
        for (const struct modal_method *m = tables[t]; m->name; m++) {
            if (!m->request)
                continue;
            tn_autogrpc ProtobufCMessage *message =
                tn_grpc_read(m->request, kind, bytes, n, NULL, NULL);
            tn_autobuf struct tn_buf again = TN_BUF_INIT(64 * FRAME_MAX);
            if (message && (kind != 0 || tn_grpc_add(&again, message) < 0))
                abort();
        }
    return 0;
}

static void check_frames(const uint8_t *data, size_t size)
{
    struct tn_frame_reader r;
    size_t first = size / 3;

    tn_frame_reader_init(&r, FRAME_MAX);
    if (tn_frame_read(&r, data, first, read_all_kinds, NULL, NULL) == 0)
        tn_frame_read(&r, data + first, size - first, read_all_kinds, NULL, NULL);
    tn_frame_reader_done(&r);
}

static void check_recipe(const char *text)
{
    tn_autofree char *workdir = NULL, *env = modal_recipe_env(text, &workdir);
    tn_autojson struct tn_json *tree = NULL;

    if (*env && tn_json_parse(env, strlen(env), &tree, NULL) == 0 && tree &&
        tn_json_type(tree) != TN_JSON_OBJECT)
        abort();
}

static void check_image(const char *id)
{
    automodalimage struct modal_image image = {0};

    if (strncmp(id, "im-0", 4) == 0 && strlen(id) != 13 && /* which is that of a box */
        modal_find_image(NULL, NULL, id, &image, NULL) == 0 &&
        (!image.from || !image.recipe || strchr(image.from, '\n')))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofree char *text = tn_strndup((const char *)data, size);
    char message[256];

    check_frames(data, size);
    check_recipe(text);
    check_image(text);
    tn_autofree char *plain = modal_text(data, size);
    if (!tn_utf8_valid(plain, strlen(plain)))
        abort();
    snprintf(message, sizeof message, "%s", text);
    tn_grpc_plain_text(message);
    return 0;
}
