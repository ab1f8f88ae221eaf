#include "hand/browser/input.h"

enum { EVENT_MAX = 4096, TEXT_MAX = 16 << 20, KEYS_MAX = 8, CLICKS_MAX = 3 };

static const char *const button_names[] = {"none", "left", "middle", "right"};
static const int button_bits[] = {0, 1, 4, 2};

enum input_button input_button_from(const char *name)
{
    for (size_t i = 1; i < TN_COUNT(button_names); i++) {
        if (strcmp(name, button_names[i]) == 0)
            return (enum input_button)i;
    }
    return INPUT_NONE;
}

/* --- mouse ---------------------------------------------------------------------------------- */

struct mouse_event {
    const char *type;
    struct input_point at;
    enum input_button button;
    int held, clicks, modifiers;
    double dx, dy;
};

static void put_mouse(struct tn_buf *out, const struct mouse_event *e)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", e->type);
    tn_jw_kdouble(&w, "x", e->at.x);
    tn_jw_kdouble(&w, "y", e->at.y);
    tn_jw_kstr(&w, "button", button_names[e->button]);
    tn_jw_kint(&w, "buttons", e->held);
    tn_jw_kint(&w, "clickCount", e->clicks);
    tn_jw_kint(&w, "modifiers", e->modifiers);
    if (strcmp(e->type, "mouseWheel") == 0) {
        tn_jw_kdouble(&w, "deltaX", e->dx);
        tn_jw_kdouble(&w, "deltaY", e->dy);
    }
    tn_jw_object_end(&w);
}

/* All of them are sent at once: the browser keeps their order.  The last is at that place. */
static int send_to(struct tn_page *page, const struct input_place *place,
                   const struct mouse_event *events, size_t count, int64_t deadline,
                   struct tn_error *err)
{
    struct tn_cdp_command commands[1 + 2 * CLICKS_MAX] = {0};
    struct tn_buf params[1 + 2 * CLICKS_MAX];

    for (size_t i = 0; i < count; i++) {
        tn_buf_init(&params[i], EVENT_MAX);
        put_mouse(&params[i], &events[i]);
        commands[i].session = place->session;
        commands[i].method = "Input.dispatchMouseEvent";
        commands[i].params_json = tn_buf_str(&params[i]);
    }
    chrome_lock(page->chrome);
    page->mouse_x = place->page.x;
    page->mouse_y = place->page.y;
    chrome_unlock(page->chrome);
    int r = tn_cdp_call_all(page->chrome->cdp, commands, count, deadline, err);
    tn_cdp_commands_done(commands, count);
    for (size_t i = 0; i < count; i++)
        tn_buf_done(&params[i]);
    return r;
}

/* One event in the page's own window. */
static int send_mouse(struct tn_page *page, const struct mouse_event *event, int64_t deadline,
                      struct tn_error *err)
{
    const struct input_place place = {page->session, event->at, event->at};
    return send_to(page, &place, event, 1, deadline, err);
}

int input_move(struct tn_page *page, struct input_point at, enum input_button held, int modifiers,
               int64_t deadline, struct tn_error *err)
{
    const struct mouse_event event = {
        .type = "mouseMoved",
        .at = at,
        .button = held,
        .held = button_bits[held],
        .modifiers = modifiers,
    };
    return send_mouse(page, &event, deadline, err);
}

static struct mouse_event button_event(bool down, struct input_point at, enum input_button button,
                                       int clicks, int modifiers)
{
    return (struct mouse_event){
        .type = down ? "mousePressed" : "mouseReleased",
        .at = at,
        .button = button,
        .held = down ? button_bits[button] : 0,
        .clicks = clicks,
        .modifiers = modifiers,
    };
}

int input_press_button(struct tn_page *page, struct input_point at, enum input_button button,
                       int clicks, int modifiers, int64_t deadline, struct tn_error *err)
{
    const struct mouse_event event = button_event(true, at, button, clicks, modifiers);
    return send_mouse(page, &event, deadline, err);
}

int input_release_button(struct tn_page *page, struct input_point at, enum input_button button,
                         int clicks, int modifiers, int64_t deadline, struct tn_error *err)
{
    const struct mouse_event event = button_event(false, at, button, clicks, modifiers);
    return send_mouse(page, &event, deadline, err);
}

int input_approach(struct tn_page *page, const struct input_place *place, int64_t deadline,
                   struct tn_error *err)
{
    const struct mouse_event events[] = {
        {.type = "mouseMoved", .at = {place->at.x + 1, place->at.y}},
        {.type = "mouseMoved", .at = place->at},
    };
    return send_to(page, place, events, TN_COUNT(events), deadline, err);
}

int input_click(struct tn_page *page, const struct input_place *place, enum input_button button,
                int clicks, int modifiers, int64_t deadline, struct tn_error *err)
{
    struct mouse_event events[1 + 2 * CLICKS_MAX] = {
        {.type = "mouseMoved", .at = place->at, .modifiers = modifiers}};
    size_t n = 1;

    for (int i = 1; i <= clicks && i <= CLICKS_MAX; i++) {
        events[n++] = button_event(true, place->at, button, i, modifiers);
        events[n++] = button_event(false, place->at, button, i, modifiers);
    }
    return send_to(page, place, events, n, deadline, err);
}

int input_wheel(struct tn_page *page, double dx, double dy, int64_t deadline, struct tn_error *err)
{
    chrome_lock(page->chrome);
    struct mouse_event event = {
        .type = "mouseWheel", .at = {page->mouse_x, page->mouse_y}, .dx = dx, .dy = dy};
    chrome_unlock(page->chrome);
    return send_mouse(page, &event, deadline, err);
}

/* --- keyboard ------------------------------------------------------------------------------- */

int input_key(struct tn_page *page, bool down, const struct input_key *key, int modifiers,
              int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(EVENT_MAX);
    struct tn_jw w = tn_jw(&params);
    bool types = down && key->text[0] && !(modifiers & ~INPUT_SHIFT);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", !down ? "keyUp" : types ? "keyDown" : "rawKeyDown");
    tn_jw_kint(&w, "modifiers", modifiers);
    tn_jw_kint(&w, "windowsVirtualKeyCode", key->number);
    tn_jw_kstr(&w, "code", key->code);
    tn_jw_kstr(&w, "key", key->key);
    tn_jw_kint(&w, "location", key->location);
    tn_jw_kbool(&w, "isKeypad", key->location == 3);
    if (types) {
        tn_jw_kstr(&w, "text", key->text);
        tn_jw_kstr(&w, "unmodifiedText", key->text);
    }
    tn_jw_object_end(&w);
    return tn_cdp_call(page->chrome->cdp, page->session, "Input.dispatchKeyEvent",
                       tn_buf_str(&params), deadline, NULL, err);
}

int input_text(struct tn_page *page, const char *text, size_t len, int64_t deadline,
               struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(TEXT_MAX);
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_jw_key(&w, "text");
    tn_jw_strn(&w, text, len);
    tn_jw_object_end(&w);
    return tn_cdp_call(page->chrome->cdp, page->session, "Input.insertText", tn_buf_str(&params),
                       deadline, NULL, err);
}

/* "Control+Shift+T" into its keys, the last of them first to be typed; "+" itself is a key. */
static int split_keys(const char *combination, struct input_key *keys, int *bits,
                      struct tn_error *err)
{
    int count = 0, modifiers = 0;

    for (const char *at = combination; count < KEYS_MAX;) {
        size_t n = at[0] == '+' ? 1 : strcspn(at, "+");
        tn_autofree char *name = tn_strndup(at, n);
        if (!input_key_find(name, modifiers & INPUT_SHIFT, &keys[count]))
            return tn_fail(err, TN_E_UNPROCESSABLE, "Unknown key: \"%s\"", name);
        bits[count] = input_modifier(name);
        modifiers |= bits[count++];
        at += n;
        if (!*at)
            return count;
        at++; /* the plus sign between two keys */
    }
    return tn_fail(err, TN_E_UNPROCESSABLE, "Unknown key: \"%s\"", combination);
}

int input_keys(struct tn_page *page, const char *combination, int64_t deadline,
               struct tn_error *err)
{
    struct input_key keys[KEYS_MAX];
    int bits[KEYS_MAX], modifiers = 0;
    int count = split_keys(combination, keys, bits, err);

    if (count < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        modifiers |= bits[i];
        if (input_key(page, true, &keys[i], modifiers, deadline, err) < 0)
            return -1;
    }
    for (int i = count; i-- > 0;) {
        modifiers &= ~bits[i];
        if (input_key(page, false, &keys[i], modifiers, deadline, err) < 0)
            return -1;
    }
    return 0;
}
