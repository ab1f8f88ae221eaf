/* What a language server in a sandbox says: messages with a head each, or anything. */
#include <assert.h>
#include <stdint.h>

#include "service/daytona/daytona.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t begin, length;

    while (daytona_lsp_frame(text, size, &begin, &length)) {
        assert(begin > 0 && begin <= size && length <= size - begin);
        text += begin + length;
        size -= begin + length;
    }
    assert(begin <= size);
    return 0;
}
