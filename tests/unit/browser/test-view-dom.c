/* Snapshots: what nodes are joined with, where frames are, and what is refused. */
#include "hand/browser/view-dom.h"

#include "unit.h"

/* A page with a frame at 10,20 with a border of 2, scrolled by 5, and in it a box at 1,1. */
static const char framed[] =
    "{\"documents\":["
    "{\"frameId\":0,\"scrollOffsetX\":0,\"scrollOffsetY\":5,"
    "\"nodes\":{\"parentIndex\":[-1,0],\"nodeType\":[9,1],\"nodeName\":[1,2],\"nodeValue\":[-1,-1],"
    "\"backendNodeId\":[1,7],\"attributes\":[[],[3,4]],"
    "\"isClickable\":{\"index\":[1]},\"contentDocumentIndex\":{\"index\":[1],\"value\":[1]}},"
    "\"layout\":{\"nodeIndex\":[1],\"bounds\":[[10,20,100,50]],\"clientRects\":[[2,2,96,46]]}},"
    "{\"frameId\":5,\"scrollOffsetX\":0,\"scrollOffsetY\":0,"
    "\"nodes\":{\"parentIndex\":[-1,0],\"nodeType\":[9,1],\"nodeName\":[1,2],\"nodeValue\":[-1,-1],"
    "\"backendNodeId\":[3,9],\"attributes\":[[],[3,6]]},"
    "\"layout\":{\"nodeIndex\":[1],\"bounds\":[[1,1,4,4]],\"clientRects\":[[]]}}],"
    "\"strings\":[\"F\",\"#document\",\"IFRAME\",\"bid\",\"a\",\"G\",\"a0\"]}";

static void test_joins(void **state)
{
    struct tn_dom d;
    struct tn_error err;

    assert_int_equal(tn_dom_read(&d, framed, sizeof framed - 1, &err), 0);
    assert_int_equal(d.count, 2);
    assert_string_equal(tn_dom_bid(&d, 7), "a");
    assert_string_equal(tn_dom_bid(&d, 9), "a0");
    assert_null(tn_dom_bid(&d, 1));
    assert_null(tn_dom_bid(&d, 2));
    assert_null(tn_dom_bid(&d, -7));
    assert_true(tn_dom_clickable(&d, 7));
    assert_false(tn_dom_clickable(&d, 9));
    assert_string_equal(tn_dom_attribute(&d, &d.documents[1], 1, "bid"), "a0");
    assert_null(tn_dom_attribute(&d, &d.documents[1], 1, "x"));
    assert_null(tn_dom_string(&d, 7, NULL));
    assert_true(d.documents[1].x == 12 && d.documents[1].y == 17);
    assert_int_equal(d.documents[0].inner[1], 1);
    assert_int_equal(d.documents[1].box_shown.data[0], 0);
    tn_dom_done(&d);
}

static void test_forged_bids(void **state)
{
    static const char *const attributes[] = {"", "1 2", "1]\\n[2", "\\u00e9"};
    static const char *const roots[][2] = {{"open", "12"}, {"closed", NULL}, {"user-agent", NULL}};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 14);
    struct tn_dom d;

    for (size_t i = 0; i < TN_COUNT(attributes) + TN_COUNT(roots); i++) {
        const bool shadow = i >= TN_COUNT(attributes);
        const char *const *root = shadow ? roots[i - TN_COUNT(attributes)] : roots[0];
        tn_buf_reset(&text);
        tn_buf_printf(&text,
                      "{\"documents\":[{\"nodes\":{\"parentIndex\":[-1,0,1],\"nodeType\":[9,11,1],"
                      "\"nodeName\":[0,0,0],\"nodeValue\":[-1,-1,-1],\"backendNodeId\":[1,2,3],"
                      "\"shadowRootType\":{\"index\":[1],\"value\":[0]},"
                      "\"attributes\":[[],[],[1,2]]},\"layout\":{}}],"
                      "\"strings\":[\"%s\",\"bid\",\"%s\"]}",
                      root[0], shadow ? "12" : attributes[i]);
        assert_int_equal(tn_dom_read(&d, text.data, text.len, NULL), 0);
        const char *bid = tn_dom_bid(&d, 3);
        if (shadow && root[1])
            assert_string_equal(bid, root[1]);
        else
            assert_null(bid);
        tn_dom_drop_bids(&d.documents[0]);
        assert_null(tn_dom_bid(&d, 3));
        tn_dom_done(&d);
    }
}

/* Each is the good one with one part replaced. */
static void test_refuses_nonsense(void **state)
{
    static const char *const changes[][2] = {
        {"\"parentIndex\":[-1,0]", "\"parentIndex\":[-1,1]"},
        {"\"parentIndex\":[-1,0]", "\"parentIndex\":[-1,-1]"},
        {"\"parentIndex\":[-1,0]", "\"parentIndex\":[0,0]"},
        {"\"parentIndex\":[-1,0]", "\"parentIndex\":[]"},
        {"\"nodeType\":[9,1]", "\"nodeType\":[9]"},
        {"\"attributes\":[[],[3,4]]", "\"attributes\":[[]]"},
        {"\"bounds\":[[10,20,100,50]]", "\"bounds\":[]"},
        {"\"clientRects\":[[2,2,96,46]]", "\"clientRects\":[]"},
        {"\"index\":[1],\"value\":[1]", "\"index\":[1],\"value\":[]"},
        {"\"documents\":[", "\"documents\":[3,"},
        {"\"strings\":", "\"strings\":0,\"x\":"},
    };
    for (size_t i = 0; i < TN_COUNT(changes); i++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 14);
        const char *at = strstr(framed, changes[i][0]);
        struct tn_error err = {0};
        struct tn_dom d;
        assert_non_null(at);
        tn_buf_add(&text, framed, (size_t)(at - framed));
        tn_buf_puts(&text, changes[i][1]);
        tn_buf_puts(&text, at + strlen(changes[i][0]));
        if (tn_dom_read(&d, text.data, text.len, &err) == 0)
            fail_msg("accepted: %s", changes[i][1]);
        assert_int_equal(err.code, TN_E_PEER);
        tn_dom_done(&d);
    }
}

/* Numbers that lead nowhere are as good as none. */
static void test_survives_wrong_numbers(void **state)
{
    static const char *const changes[][2] = {
        {"[3,4]]", "[3,400]]"},
        {"[3,4]]", "[3]]"},
        {"\"isClickable\":{\"index\":[1]}", "\"isClickable\":{\"index\":[-4,99]}"},
        {"\"value\":[1]", "\"value\":[0]"},
        {"\"value\":[1]", "\"value\":[77]"},
        {"\"nodeIndex\":[1]", "\"nodeIndex\":[50]"},
        {"\"nodeName\":[1,2]", "\"nodeName\":[-9,2000000000000]"},
    };
    for (size_t i = 0; i < TN_COUNT(changes); i++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 14);
        const char *at = strstr(framed, changes[i][0]);
        struct tn_dom d;
        assert_non_null(at);
        tn_buf_add(&text, framed, (size_t)(at - framed));
        tn_buf_puts(&text, changes[i][1]);
        tn_buf_puts(&text, at + strlen(changes[i][0]));
        assert_int_equal(tn_dom_read(&d, text.data, text.len, NULL), 0);
        assert_string_equal(tn_dom_bid(&d, 9), "a0");
        tn_dom_done(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_forged_bids),
        cmocka_unit_test(test_refuses_nonsense),
        cmocka_unit_test(test_survives_wrong_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
