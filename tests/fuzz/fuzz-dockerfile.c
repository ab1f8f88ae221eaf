/* Dockerfiles of clients: each is a script, or an error that says why not. */
#include <assert.h>
#include <stdint.h>

#include "base/buf.h"
#include "service/dockerfile.h"

static int note_image(const char *image, void *ctx, struct tn_error *err)
{
    ++*(int *)ctx;
    assert(*image && !strpbrk(image, "$ \t\n\"'\\"));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofree char *text = tn_strndup((const char *)data, size < 1 << 17 ? size : 1 << 17);
    autodockerfile struct dockerfile d = {0};
    struct tn_error err = {0}, why = {0};
    int count = 0;

    if (dockerfile_images(text, note_image, &count, &why))
        assert(why.code == TN_E_INVALID && *why.text);
    if (dockerfile_read(text, NULL, "/context", &d, &err)) {
        assert(err.code == TN_E_INVALID && *err.text && !d.image && !d.script);
        return 0;
    }
    assert(tn_json_type(d.env) == TN_JSON_OBJECT && (!d.workdir || *d.workdir == '/'));
    assert(*d.image && strncmp(d.script, "set -e\n", 7) == 0);
    return 0;
}
