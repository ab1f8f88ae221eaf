/* What the browser says of a page: a snapshot, a line feed, and an accessibility tree.  Whatever it
 * says, text comes out within its limit. */
#include "hand/browser/view-text.h"
#include "hand/browser/view-tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 4096, SLACK = 1 << 20 };

static void must(bool truth)
{
    if (!truth)
        abort();
}

static void look(const struct tn_dom *dom, const char *json, size_t n)
{
    const struct tn_tree_source sources[] = {
        {.json = json, .n = n, .dom = dom},
        {.json = json, .n = n, .dom = dom, .session = 1, .parent = 0, .owner = 4},
    };
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TEXT_MAX + SLACK), object = TN_BUF_INIT(1 << 24);
    struct tn_tree *t = tn_tree_read(sources, 2, NULL);

    if (!t)
        return;
    tn_tree_put_text(t, &text, TEXT_MAX);
    must(tn_buf_ok(&text) && text.len < TEXT_MAX + 200);
    tn_tree_put_object(t, &object);
    tn_tree_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *line = size ? memchr(text, '\n', size) : NULL;
    size_t n = line ? (size_t)(line - text) : size;
    tn_autobuf struct tn_buf out = TN_BUF_INIT(TEXT_MAX + SLACK);
    struct tn_dom dom;

    bool read = tn_dom_read(&dom, text, n, NULL) == 0;
    if (read) {
        const struct tn_text_source sources[] = {{.dom = &dom},
                                                 {.dom = &dom, .parent = 0, .owner = 4}};
        tn_text_put(sources, 2, &out, TEXT_MAX);
        must(out.len < TEXT_MAX + SLACK);
    }
    if (line)
        look(read ? &dom : NULL, line + 1, size - n - 1);
    tn_dom_done(&dom);
    return 0;
}
