/* Mouse and keyboard of the active page as messages: {"type": "mouse", ...}, from whoever watches
 * the live view, or several at once by POST /v1/browser/input. */
#include "base/utf8.h"
#include "hand/browser/act.h"
#include "hand/browser/browser.h"
#include "hand/v1/v1.h"

enum { INPUTS_MAX = 256, TYPED_MAX = 64 << 10 };
#define INPUT_SECONDS 2.0 /* for one */
#define TYPE_SECONDS 20.0 /* for a whole text */
#define ALL_SECONDS 30.0  /* for all of a request */
#define TURN_SECONDS 30.0 /* for an action that is at work */

/* One message, where it goes, and what was held before; -1 with err. */
struct input {
    struct tn_page *page;
    const struct tn_json *m;
    struct browser_held *held;
    struct tn_error *err;
};

static double number(const struct input *in, const char *key)
{
    return tn_json_double(tn_json_get(in->m, key), 0);
}

static struct input_point place(const struct input *in)
{
    return (struct input_point){number(in, "x"), number(in, "y")};
}

static int modifiers_of(const struct input *in)
{
    return ((int)tn_json_int(tn_json_get(in->m, "modifiers"), 0) & 15) | in->held->modifiers;
}

static int do_mouse(const struct input *in)
{
    const char *event = tn_json_get_str(in->m, "event", "move");
    enum input_button button = input_button_from(tn_json_get_str(in->m, "button", "none"));
    int clicks = (int)tn_json_int(tn_json_get(in->m, "clicks"), 1);
    int64_t until = tn_deadline_in(INPUT_SECONDS);
    bool down = strcmp(event, "down") == 0;

    if (!down && strcmp(event, "up") != 0)
        return input_move(in->page, place(in), button ? button : in->held->button, modifiers_of(in),
                          until, in->err);
    in->held->button = down ? button : INPUT_NONE;
    return (down ? input_press_button : input_release_button)(in->page, place(in), button, clicks,
                                                              modifiers_of(in), until, in->err);
}

static int do_wheel(const struct input *in)
{
    int64_t until = tn_deadline_in(INPUT_SECONDS);

    if (input_move(in->page, place(in), INPUT_NONE, modifiers_of(in), until, in->err) < 0)
        return -1;
    return input_wheel(in->page, number(in, "dx"), number(in, "dy"), until, in->err);
}

static int do_key(const struct input *in)
{
    const char *name = tn_json_get_str(in->m, "key", "");
    bool down = strcmp(tn_json_get_str(in->m, "event", "down"), "up") != 0;
    struct input_key key;

    if (!input_key_find(name, modifiers_of(in) & INPUT_SHIFT, &key))
        return tn_fail(in->err, TN_E_UNPROCESSABLE, "unknown key \"%.40s\": send it as text", name);
    if (down)
        in->held->modifiers |= input_modifier(name);
    else
        in->held->modifiers &= ~input_modifier(name);
    return input_key(in->page, down, &key, modifiers_of(in), tn_deadline_in(INPUT_SECONDS),
                     in->err);
}

static int do_text(const struct input *in)
{
    size_t len = 0;
    const char *text = tn_json_str(tn_json_get(in->m, "text"), &len);
    return input_text(in->page, text ? text : "", len, tn_deadline_in(INPUT_SECONDS), in->err);
}

/* Key by key, as far as the keyboard has them. */
static int do_type(const struct input *in)
{
    size_t len = 0, n;
    const char *text = tn_json_str(tn_json_get(in->m, "text"), &len);
    int64_t until = tn_deadline_in(TYPE_SECONDS);
    int failed = 0;

    if (len > TYPED_MAX)
        return tn_fail(in->err, TN_E_UNPROCESSABLE, "text: expected at most %d bytes", TYPED_MAX);
    for (size_t i = 0; !failed && i < len; i += n) {
        struct input_key key;
        for (n = 1; i + n < len && ((unsigned char)text[i + n] & 0xc0) == 0x80;)
            n++;
        tn_autofree char *letter = tn_strndup(text + i, n);
        const char *name = *letter == '\n' ? "Enter" : *letter == '\t' ? "Tab" : letter;
        failed = !input_key_find(name, false, &key)
                     ? input_text(in->page, letter, n, until, in->err)
                     : input_key(in->page, true, &key, in->held->modifiers, until, in->err) ||
                           input_key(in->page, false, &key, in->held->modifiers, until, in->err);
    }
    return failed ? -1 : 0;
}

static const struct {
    const char *type;
    int (*act)(const struct input *in);
} inputs[] = {{"mouse", do_mouse},
              {"wheel", do_wheel},
              {"key", do_key},
              {"text", do_text},
              {"type", do_type}};

int browser_input(struct tn_page *page, const struct tn_json *message, struct browser_held *held,
                  struct tn_error *err)
{
    const char *type = tn_json_get_str(message, "type", "");
    struct browser_held none = {0};
    const struct input in = {page, message, held ? held : &none, err};

    for (size_t i = 0; i < TN_COUNT(inputs); i++)
        if (strcmp(type, inputs[i].type) == 0)
            return page ? inputs[i].act(&in) : tn_fail(err, TN_E_CONFLICT, "no page is open");
    return tn_fail(err, TN_E_UNPROCESSABLE,
                   "a message must be of type mouse, wheel, key, text or type");
}

/* --- the route ------------------------------------------------------------------------------- */

static void reply_place(struct tn_http_exchange *x, const struct tn_page *page)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);

    chrome_lock(page->chrome);
    tn_jw_object(&w);
    tn_jw_kdouble(&w, "x", page->mouse_x);
    tn_jw_kdouble(&w, "y", page->mouse_y);
    tn_jw_kint(&w, "width", CHROME_WIDTH);
    tn_jw_kint(&w, "height", CHROME_HEIGHT);
    tn_jw_object_end(&w);
    chrome_unlock(page->chrome);
    tn_http_reply_json(x, 200, &json);
}

/* A click may have opened a page, which has the rest. */
static int do_all(struct browser *b, struct tn_chrome *c, const struct tn_json *all,
                  struct tn_http_exchange *x, struct tn_error *err)
{
    int64_t until = tn_deadline_in(ALL_SECONDS);

    for (size_t i = 0; i <= tn_json_count(all); i++) {
        if (i < tn_json_count(all) && tn_now() >= until)
            return tn_fail(err, TN_E_TIMEOUT, "only %zu of %zu inputs were done in %.0f seconds", i,
                           tn_json_count(all), ALL_SECONDS);
        tn_autopage struct tn_page *page = act_page(c, tn_deadline_in(INPUT_SECONDS), err);
        if (!page)
            return -1;
        if (i == tn_json_count(all))
            reply_place(x, page);
        else if (browser_input(page, tn_json_at(all, i), &b->held, err) < 0)
            return -1;
    }
    return 0;
}

void browser_post_input(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (tn_v1_body(x, &body))
        return;
    const struct tn_json *all = tn_json_get(body, "inputs");
    if (all && (tn_json_type(all) != TN_JSON_ARRAY || tn_json_count(all) > INPUTS_MAX)) {
        tn_http_reply_detail(x, 422, "inputs must be a list of at most 256 messages");
        return;
    }
    struct tn_chrome *c = browser_for_route(x, hand);
    if (!c)
        return;
    struct browser *b = tn_plugin_state(hand, &tn_plugin_browser);
    int failed = browser_begin(b, tn_deadline_in(TURN_SECONDS), &err);
    if (!failed) {
        failed = do_all(b, c, all, x, &err);
        browser_finish(b);
    }
    if (failed)
        tn_http_reply_error(x, &err);
    chrome_unref(c);
}
