/* The JSON reader and writer: what was read and written reads again, and is written the same. */
#include "base/json.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    tn_autobuf struct tn_buf first = TN_BUF_INIT(1 << 22), second = TN_BUF_INIT(1 << 22);
    struct tn_jw one = tn_jw(&first), two = tn_jw(&second);
    struct tn_json *tree, *tree_again;

    /* Any bytes at all make a string that reads back, with what is not UTF-8 replaced. */
    tn_jw_strn(&one, text, size);
    if (tn_buf_ok(&first)) {
        size_t n;
        must(tn_json_parse(first.data, first.len, &tree, NULL) == 0);
        const char *back = tn_json_str(tree, &n);
        must(tn_utf8_valid(back, n));
        if (tn_utf8_valid(text, size))
            must(n == size && memcmp(back, text, n) == 0);
        tn_json_free(tree);
    }
    tn_buf_reset(&first);
    one = tn_jw(&first);
    if (tn_json_parse(text, size, &tree, NULL) < 0)
        return 0;
    tn_jw_tree(&one, tree);
    tn_json_free(tree);
    if (!tn_buf_ok(&first))
        return 0;
    must(tn_json_parse(first.data, first.len, &tree_again, NULL) == 0);
    tn_jw_tree(&two, tree_again);
    tn_json_free(tree_again);
    must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    return 0;
}
