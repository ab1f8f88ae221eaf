/* Build contexts of clients, without their gzip (zlib reads also what is not packed): a Dockerfile,
 * or an error that says why not; what goes to the engine is a tar of whole blocks. */
#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "image/upload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofd int fd = memfd_create("context", MFD_CLOEXEC);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
    struct tn_error err = {0};
    size_t total = 0;
    char bytes[700];
    ssize_t n;

    assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    if (tn_upload_dockerfile(fd, &text, TN_NEVER, &err)) {
        assert((err.code == TN_E_INVALID || err.code == TN_E_TOO_LARGE) && *err.text);
        return 0;
    }
    struct tn_upload *u = tn_upload_new(fd, tn_buf_str(&text), &err);
    while ((n = tn_upload_read(bytes, sizeof bytes, u, &err)) > 0)
        total += (size_t)n;
    assert(n == 0 && total % 512 == 0);
    tn_upload_free(u);
    return 0;
}
