/* Prints docs/man/tendon.1: `build/src/cli/print-manual > docs/man/tendon.1`. */
#include <stdio.h>

#include "cli/manual.h"

int main(void)
{
    tn_autobuf struct tn_buf page = TN_BUF_INIT(1 << 20);

    put_manual(&page);
    if (!tn_buf_ok(&page))
        return 1;
    return fwrite(page.data, 1, page.len, stdout) == page.len && fflush(stdout) == 0 ? 0 : 1;
}
