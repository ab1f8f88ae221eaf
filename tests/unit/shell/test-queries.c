/* Questions to the terminal are muted, whatever else is left as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "hand/shell/vt-queries.h"

/* What is between < and > asks. */
static const char *const cases[] = {
    "plain <\033[c> text <\033[0c>",
    "<\033[>c><\033[=c><\033Z><\005>",
    "<\033[5n><\033[6n><\033[?6n>\033[>4n",
    "<\033[?25$p><\033[4$p>\033[!p",
    "<\033[18t><\033[21;2t>\033[8;24;80t\033[22;0t",
    "<\033[>q><\033[>0q>\033[2 q<\033[?u>\033[>1u\033[u",
    "<\033]10;?\007><\033]11;?\033\\><\033]4;1;?\007><\033]52;c;?\007>\033]0;who? me\007",
    "<\033P+q544e\033\\><\033P$qm\033\\>\033P0;1;0q#0;2;0;0;0#0!10~\033\\",
    "<\033_Ga=q,i=1;AAAA\033\\>",
    "<\xc2\x9b"
    "6n><\xc2\x9d"
    "10;?\xc2\x9c>\xc3\xa9",
    "\033[31m\033[2J\033[H\033[?25h\033[>4;2m\033(B",
    "\033[<\033[c>",
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autobuf struct tn_buf in = TN_BUF_INIT(4096), out = TN_BUF_INIT(4096);
        bool asks = false;

        for (const char *c = cases[i]; *c; c++) {
            if (*c == '<' || (*c == '>' && asks && c[-1] != '[')) {
                asks = *c == '<';
                continue;
            }
            tn_buf_putc(&in, *c);
            tn_buf_putc(&out, asks ? '\0' : *c);
        }
        assert_int_equal(vt_mute_queries(in.data, in.len, true), in.len);
        assert_memory_equal(in.data, out.data, in.len);
    }
}

/* Cut anywhere: what is settled is what it would be in one piece. */
static void test_pieces(void **state)
{
    static const char text[] = "ab\033[6ncd\033]10;?\033\\ef\033[1mgh\033P+q5\033\\";
    char whole[sizeof text], pieces[sizeof text];

    (void)state;
    memcpy(whole, text, sizeof text);
    vt_mute_queries(whole, sizeof text - 1, true);
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        memcpy(pieces, text, sizeof text);
        size_t settled = vt_mute_queries(pieces, cut, false);
        assert_true(settled <= cut);
        assert_int_equal(vt_mute_queries(pieces + settled, sizeof text - 1 - settled, true),
                         sizeof text - 1 - settled);
        assert_memory_equal(pieces, whole, sizeof text);
    }
}

/* A string whose end never comes does not hold up what follows it. */
static void test_no_end(void **state)
{
    static char text[8192];

    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text, "\033]", 2);
    assert_int_equal(vt_mute_queries(text, sizeof text, false), sizeof text);
    assert_int_equal(vt_mute_queries(text, 100, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_no_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
