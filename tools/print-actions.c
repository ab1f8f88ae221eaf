/* Prints docs/actions.md: `build/src/event/print-actions > docs/actions.md`. */
#include <stdio.h>

#include "event/event.h"

int main(void)
{
    tn_autobuf struct tn_buf page = TN_BUF_INIT(1 << 20);

    tn_event_describe(&page);
    if (!tn_buf_ok(&page))
        return 1;
    return fwrite(page.data, 1, page.len, stdout) == page.len && fflush(stdout) == 0 ? 0 : 1;
}
