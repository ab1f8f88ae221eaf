/* Image references: whatever is accepted reads back as itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofree char *text = tn_strndup((const char *)data, size);
    tn_autoreference struct tn_reference r = {0};
    tn_autobuf struct tn_buf again = TN_BUF_INIT(1 << 20);

    if (tn_reference_parse(text, &r, NULL))
        return 0;
    tn_reference_put(&r, &again);
    if (strcmp(tn_buf_str(&again), text) != 0)
        abort();
    tn_buf_reset(&again);
    tn_reference_put_full(&r, &again);
    return 0;
}
