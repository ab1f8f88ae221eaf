/* Client hellos: more bytes never turn a whole one into another. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gate/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tn_hello whole, part;
    enum tn_hello_state state = tn_hello_read(data, size, &whole);

    for (size_t n = size > 64 ? size - 64 : 1; n < size; n++) {
        enum tn_hello_state before = tn_hello_read(data, n, &part);
        if (before == TN_HELLO_WHOLE &&
            (state != TN_HELLO_WHOLE || strcmp(whole.name, part.name) != 0))
            abort();
        if (before == TN_HELLO_NOT && state != TN_HELLO_NOT)
            abort();
    }
    return 0;
}
