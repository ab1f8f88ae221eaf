/* What the tests of the browser's parts share.
 *
 * page.snapshot.json and page.tree.json are what Chromium says of page.html, once it is marked. */
#ifndef TN_UNIT_BROWSER_H
#define TN_UNIT_BROWSER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

/* The file beside the tests; the caller frees it. */
static inline char *unit_file(const char *directory, const char *name, size_t *n)
{
    struct tn_buf path = TN_BUF_INIT(4096), text = TN_BUF_INIT(1 << 20);
    tn_buf_printf(&path, "%s/%s", directory, name);
    tn_autofile FILE *f = fopen(tn_buf_str(&path), "r");
    if (!f)
        fail_msg("%s: cannot be read", tn_buf_str(&path));
    char *to = tn_buf_reserve(&text, 1 << 19);
    tn_buf_grew(&text, fread(to, 1, 1 << 19, f));
    tn_buf_done(&path);
    *n = text.len;
    return tn_buf_take(&text);
}

#endif
