/* Page text of a real snapshot, and its limits. */
#include "hand/browser/view-text.h"

#include "unit.h"

static const char *directory;

static void test_real_page(void **state)
{
    size_t n;
    tn_autofree char *snapshot = unit_file(directory, "page.snapshot.json", &n);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_dom dom;
    struct tn_error err;

    if (tn_dom_read(&dom, snapshot, n, &err) < 0)
        fail_msg("%s", err.text);
    const struct tn_text_source source = {.dom = &dom};
    tn_text_put(&source, 1, &text, 1 << 19);
    tn_autofree char *expected = unit_file(directory, "page.text.txt", &n);
    assert_string_equal(tn_buf_str(&text), expected);

    for (size_t max = 0; max < n; max += 7) { /* cut anywhere */
        tn_buf_reset(&text);
        tn_text_put(&source, 1, &text, max);
        assert_memory_equal(text.data, expected, max);
        assert_non_null(strstr(tn_buf_str(&text), "the rest is left out"));
        assert_true(text.len < max + 200);
    }
    tn_dom_done(&dom);
}

/* <html><body>before IFRAME after, or in the frame: inside. */
static void read_document(struct tn_dom *dom, const char *iframe, const char *text)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_buf_printf(&json,
                  "{\"documents\":[{\"frameId\":0,\"nodes\":{\"parentIndex\":[-1,0,1,1,1],"
                  "\"nodeType\":[9,1,3,1,3],\"nodeName\":[0,1,2,3,2],\"nodeValue\":[-1,-1,4,-1,5],"
                  "\"backendNodeId\":[1,2,3,4,5],\"attributes\":[[],[],[],[],[]]},"
                  "\"layout\":{}}],\"strings\":[\"#document\",\"BODY\",\"#text\",\"%s\",\"%s\","
                  "\"after\"]}",
                  iframe, text);
    assert_int_equal(tn_dom_read(dom, json.data, json.len, NULL), 0);
}

static void test_frame_of_another_process(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
    struct tn_dom outer, inner;

    read_document(&outer, "IFRAME", "before");
    read_document(&inner, "B", "inside");
    struct tn_text_source sources[] = {{.dom = &outer}, {.dom = &inner, .parent = 0, .owner = 4}};
    tn_text_put(sources, 2, &text, 1000);
    assert_string_equal(tn_buf_str(&text), "before\n\ninsideafter\n\nafter\n");

    tn_buf_reset(&text);
    sources[1].dom = NULL; /* it did not answer */
    tn_text_put(sources, 2, &text, 1000);
    assert_string_equal(tn_buf_str(&text), "before\n\nafter\n");

    tn_buf_reset(&text);
    sources[0].dom = NULL;
    tn_text_put(sources, 2, &text, 1000);
    assert_string_equal(tn_buf_str(&text), "");
    tn_dom_done(&outer);
    tn_dom_done(&inner);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_page),
        cmocka_unit_test(test_frame_of_another_process),
    };
    directory = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
