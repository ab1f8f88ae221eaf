/* Prints docs/config.md: `build/src/runtime/print-config > docs/config.md`. */
#include <stdio.h>

#include "runtime/config.h"

int main(void)
{
    tn_autobuf struct tn_buf page = TN_BUF_INIT(1 << 20);

    tn_config_describe(&page);
    if (!tn_buf_ok(&page))
        return 1;
    return fwrite(page.data, 1, page.len, stdout) == page.len && fflush(stdout) == 0 ? 0 : 1;
}
