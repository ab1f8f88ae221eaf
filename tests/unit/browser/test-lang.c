/* The action language: what is read as a call, and what Python would say to it. */
#include "hand/browser/lang.h"

#include "unit.h"

/* The program as text: name(repr of each argument as JSON), or name!error, one to a line. */
static char *read_program(const char *text, size_t n)
{
    tn_autoprogram struct tn_browser_program program = {0};
    struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_error err = {0};

    if (tn_browser_parse(text, n, &program, &err) < 0) {
        tn_buf_puts(&out, err.text);
        return tn_buf_take(&out);
    }
    for (size_t i = 0; i < program.count; i++) {
        const struct tn_browser_call *call = &program.calls[i];
        const struct tn_browser_signature *s = &tn_browser_signatures[call->function];
        tn_buf_printf(&out, "%s%s", i ? "\n" : "", s->name);
        if (call->error) {
            tn_buf_printf(&out, "!%s", call->error);
            continue;
        }
        struct tn_jw w = tn_jw(&out);
        for (size_t k = 0; s->parameters[k].name; k++) {
            tn_buf_putc(&out, ' ');
            w.comma = false;
            tn_jw_tree(&w, call->arguments[k]);
        }
    }
    return tn_buf_take(&out);
}

static void check(const char *text, const char *expected)
{
    tn_autofree char *found = read_program(text, strlen(text));
    if (strcmp(found, expected) != 0)
        fail_msg("%s\n  gives    %s\n  expected %s", text, found, expected);
}

static void test_calls(void **state)
{
    check("noop()", "noop 1000");
    check("noop(500)", "noop 500");
    check("noop(wait_ms = 2.5)", "noop 2.5");
    check("click('12')", "click \"12\" \"left\" []");
    check("click(\"a12\", button=\"right\", modifiers=['Shift', 'Alt'],)",
          "click \"a12\" \"right\" [\"Shift\",\"Alt\"]");
    check("click(modifiers=(\"Meta\",), bid='b')", "click \"b\" \"left\" [\"Meta\"]");
    check("fill('1', 'a\nb')", "fill \"1\" \"a\\nb\"");
    check("fill('1', '''a 'b' ''' \"c\")", "fill \"1\" \"a 'b' c\"");
    check("fill('1', r'\\d')", "fill \"1\" \"\\\\d\"");
    check("select_option('1', ['x', \"y\"])", "select_option \"1\" [\"x\",\"y\"]");
    check("upload_file('1', 'p')", "upload_file \"1\" \"p\"");
    check("scroll(0, -1.5e2)", "scroll 0 -150.0");
    check("tab_focus(-1)", "tab_focus -1");
    check("goto('http://x/?a=1#b') # not this: goto('y')", "goto \"http://x/?a=1#b\"");
}

static void test_sequences(void **state)
{
    check("go_back() go_forward()", "go_back\ngo_forward");
    check("go_back();go_forward()\n\tnew_tab  (  )", "go_back\ngo_forward\nnew_tab");
    check("I will do this: ```go_back()``` and then `noop(1)`.", "go_back\nnoop 1");
    check("# go_back()\nnoop(1) # go_back()\n", "noop 1");
    check("click(  # which\n '1', # and how\n 'left')", "click \"1\" \"left\" []");
    check("x.go_back()", "go_back");
    check("click(oops) noop(2)", "noop 2");
    check("click('1' '2', go_back())", "go_back");
    check("click(bid='1', 'left') noop(3)", "noop 3");
    check("click('1' noop(4)", "noop 4");
    check("click('open noop(4)", "noop 4");
    check("noop(1,,) noop(5)", "noop 5");
    check("noop(-) noop(6)", "noop 6");
    check("noop(x==1) noop(7)", "noop 7");
}

static void test_refused_programs(void **state)
{
    check("", "ValueError: Received an empty action.");
    check("just talk, no (calls)", "ValueError: Received an empty action.");
    check("noop", "ValueError: Received an empty action.");
    check("talk (1)", "NameError: Invalid action type 'talk'.");
    check("noop() mouse_click(1, 2)", "NameError: Invalid action type 'mouse_click'.");
    check("noop() \xc3\xa9t\xc3\xa9()", "NameError: Invalid action type '\xc3\xa9t\xc3\xa9'.");
}

static void test_arguments_that_do_not_fit(void **state)
{
    check("click()", "click!TypeError: click() missing 1 required positional argument: 'bid'");
    check("fill()",
          "fill!TypeError: fill() missing 2 required positional arguments: 'bid' and 'value'");
    check("fill(value='x')",
          "fill!TypeError: fill() missing 1 required positional argument: 'bid'");
    check("go_back(1)",
          "go_back!TypeError: go_back() takes 0 positional arguments but 1 was given");
    check("hover('1', '2')",
          "hover!TypeError: hover() takes 1 positional argument but 2 were given");
    check("fill('1', '2', '3')",
          "fill!TypeError: fill() takes 2 positional arguments but 3 were given");
    check("noop(1, 2)",
          "noop!TypeError: noop() takes from 0 to 1 positional arguments but 2 were given");
    check("click('1', x=1)", "click!TypeError: click() got an unexpected keyword argument 'x'");
    check("click('1', bid='2')", "click!TypeError: click() got multiple values for argument 'bid'");
    check("click(bid='1', bid='2')", "click!SyntaxError: keyword argument repeated: bid");
    check("noop(1) click() noop(2)",
          "noop 1\nclick!TypeError: click() missing 1 required positional argument: 'bid'\nnoop 2");
}

static void test_values_of_another_kind(void **state)
{
    check("click(12)", "click!ValueError: expected a string, got 12");
    check("click(None)", "click!ValueError: expected a string, got None");
    check("click(['a', {'b': True}])",
          "click!ValueError: expected a string, got ['a', {'b': True}]");
    check("fill('1', 2)", "fill!Error: Locator.fill: value: expected string, got number");
    check("goto(None)", "goto!Error: Page.goto: url: expected string, got null");
    check("scroll('a', 1)", "scroll!Error: Mouse.wheel: delta_x: expected number, got string");
    check("scroll(True, 1)", "scroll!Error: Mouse.wheel: delta_x: expected number, got boolean");
    check("tab_focus(1.5)", "tab_focus!Error: tab_focus: index: expected integer, got number");
    check("click('1', 'top')",
          "click!Error: Locator.click: button: expected one of (left|right|middle)");
    check("dblclick('1', modifiers='Alt')",
          "dblclick!Error: Locator.dblclick: modifiers: expected array, got string");
    check("click('1', 'left', ['Alt', 'Fn'])",
          "click!Error: Locator.click: modifiers[1]: expected one of "
          "(Alt|Control|ControlOrMeta|Meta|Shift)");
    check("select_option('1', ['a', 1])",
          "select_option!Error: Locator.select_option: options: expected string, got number");
}

static void test_limits(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 << 20);

    for (int i = 0; i < 201; i++)
        tn_buf_puts(&text, "noop()\n");
    check(tn_buf_str(&text), "ValueError: Received more than 200 actions.");
    tn_buf_reset(&text);
    tn_buf_puts(&text, "click(");
    for (int i = 0; i < 17; i++)
        tn_buf_puts(&text, "1,");
    tn_buf_puts(&text, ") noop(8)");
    check(tn_buf_str(&text), "noop 8");
    tn_buf_reset(&text);
    while (text.len <= 4 << 20)
        tn_buf_puts(&text, "0123456789abcdef");
    check(tn_buf_str(&text), "ValueError: Received an action of more than 4 MB.");
}

static void test_bids(void **state)
{
    assert_int_equal(tn_bid_frame_end("aAb12", 0), 2);
    assert_int_equal(tn_bid_frame_end("aAb12", 2), 3);
    assert_int_equal(tn_bid_frame_end("aAb12", 3), 3);
    assert_int_equal(tn_bid_frame_end("", 0), 0);
    assert_int_equal(tn_bid_frame_end("A", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_refused_programs),
        cmocka_unit_test(test_arguments_that_do_not_fit),
        cmocka_unit_test(test_values_of_another_kind),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_bids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
