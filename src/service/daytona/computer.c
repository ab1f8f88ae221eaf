/* Computer use: the desktop is the window of the sandbox's browser, without anything around the
 * page.  A new one shows a field for an address, since there is no other place to type one. */
#include "base/base64.h"
#include "runtime/hand-answer.h"
#include "service/daytona/daytona.h"
#include "service/proxy.h"

#define NOT_AVAILABLE "Computer-use functionality is not available"
#define INPUT "/v1/browser/input"
enum { PICTURE_MAX = 32 << 20, WHEEL = 100, CLICKS_MAX = 10, CHORD_MAX = 8 };

#define ADDRESS                                                                                    \
    "goto(\"data:text/html,<title>New tab</title><body style='font:20px sans-serif;margin:80px'>"  \
    "<form onsubmit='location=/^[a-z]+:/.test(u.value)?u.value:`http://${u.value}`;return false'>" \
    "Address: <input id=u size=70 autofocus style='font:inherit'></form>\")"

/* --- the browser ----------------------------------------------------------------------------- */

/* One question to the hand; body: JSON, or NULL.  -1: answered, as from a sandbox without a desktop
 * where no browser runs. */
static int ask(struct daytona_call *c, const char *method, const char *target, struct tn_buf *body,
               struct tn_buf *answer)
{
    tn_autofree char *address = NULL, *key = NULL;
    int64_t deadline = tn_deadline_in(DAYTONA_SECONDS);
    const struct tn_buf empty = {0};
    struct tn_error err = {0};

    if (box_hand(c->b, &address, &key, deadline, &err) == 0) {
        const struct tn_hand_address at = {address, key};
        if (tn_hand_ask(&at, method, target, body ? body : &empty, answer, deadline, &err) == 0)
            return 0;
        if (err.code == TN_E_CONFLICT || err.code == TN_E_UNSUPPORTED || err.code == TN_E_NOT_FOUND)
            return daytona_fail(c->x, 503, NULL, NOT_AVAILABLE ": %s", err.text);
    }
    return reply_error(c->x, &err), -1;
}

static int ask_json(struct daytona_call *c, const char *method, const char *target,
                    struct tn_buf *body, struct tn_json **out)
{
    tn_autobuf struct tn_buf answer = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    struct tn_error err = {0};

    if (ask(c, method, target, body, &answer))
        return -1;
    return hold_json(c->x, &answer, out, &err) ? (reply_error(c->x, &err), -1) : 0;
}

static int pages(struct daytona_call *c, struct tn_json **out, bool *running)
{
    if (ask_json(c, "GET", "/v1/browser/pages", NULL, out))
        return -1;
    *running = tn_json_bool(tn_json_get(*out, "running"), false);
    return 0;
}

static void reply_processes(struct daytona_call *c, bool running)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);

    tn_buf_printf(
        &json,
        "{\"message\":\"Computer use processes %s successfully\",\"status\":{\"chromium\":"
        "{\"running\":%s,\"priority\":100,\"autoRestart\":true}}}",
        running ? "started" : "stopped", running ? "true" : "false");
    tn_http_reply_json(c->x, 200, &json);
}

int daytona_browse(struct daytona_call *c, const char *calls, bool nodes, struct tn_json **told,
                   struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(DAYTONA_BODY_MAX * 12);
    tn_autobuf struct tn_buf answer = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    const struct act_how how = {.request = request_id(c->x), .watch = tn_http_fd(c->x)};
    struct act_news news = {0};
    struct tn_jw w = tn_jw(&body);

    tn_buf_puts(&body, "{\"action\":{\"action\":\"browse_interactive\",\"timeout\":30,\"args\":"
                       "{\"browser_actions\":");
    tn_jw_str(&w, calls);
    tn_buf_printf(&body, ",\"return_axtree\":%s}}}", nodes ? "true" : "false");
    int status = act(c->b, caller_of(c->x), tn_buf_str(&body), body.len, &how, &news, &answer, err);
    if (status < 0)
        return -1;
    if (status == 200)
        return told ? hold_json(c->x, &answer, told, err) : 0;
    return tn_fail(err, TN_E_CONFLICT, "this waits for somebody's confirmation");
}

/* What keys of a page do not do, as an action. */
static int perform(struct daytona_call *c, const char *calls, struct tn_error *err)
{
    return daytona_browse(c, calls, false, NULL, err);
}

int daytona_needs_desktop(struct daytona_call *c)
{
    tn_autojson struct tn_json *place = NULL;

    return ask_json(c, "POST", INPUT, NULL, &place);
}

/* A page that nobody has used yet is the one with the field; where no action may open that, it is
 * empty. */
static int start(struct daytona_call *c)
{
    tn_autobuf struct tn_buf answer = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    tn_autojson struct tn_json *list = NULL;
    bool running;

    if (ask(c, "POST", "/v1/plugins/browser/start", NULL, &answer) || pages(c, &list, &running))
        return -1;
    const struct tn_json *first = tn_json_at(tn_json_get(list, "pages"), 0);
    if (!first || strcmp(tn_json_get_str(first, "url", ""), "about:blank") == 0)
        perform(c, ADDRESS, NULL);
    return 0;
}

static int stop(struct daytona_call *c)
{
    tn_autobuf struct tn_buf answer = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);

    return ask(c, "POST", "/v1/plugins/browser/stop", NULL, &answer);
}

static void post_start(struct daytona_call *c)
{
    if (start(c) == 0)
        reply_processes(c, true);
}

static void post_stop(struct daytona_call *c)
{
    if (stop(c) == 0)
        reply_processes(c, false);
}

static void get_status(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *list = NULL;
    bool running;

    if (pages(c, &list, &running))
        return;
    tn_buf_printf(&json, "{\"status\":\"%s\"}", running ? "active" : "inactive");
    tn_http_reply_json(c->x, 200, &json);
}

/* Of theirs none runs; ours is the browser. */
static void process(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    bool ours = strcmp(c->words[0], "chromium") == 0, running = false;
    bool restart = strcmp(c->row->words, "restart") == 0;
    tn_autojson struct tn_json *list = NULL;
    struct tn_jw w = tn_jw(&json);

    if (restart && !ours) {
        daytona_fail(c->x, 404, "NOT_FOUND", "process %.100s not found", c->words[0]);
        return;
    }
    if (restart ? stop(c) || start(c) : pages(c, &list, &running))
        return;
    tn_jw_object(&w);
    tn_jw_kstr(&w, "processName", c->words[0]);
    if (restart)
        tn_jw_kstr(&w, "message", "Process chromium restarted successfully");
    else
        tn_jw_kbool(&w, "running", ours && running);
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

/* --- the display ----------------------------------------------------------------------------- */

#define WHOLE_MAX 1e6 /* more is no place on a screen, nor a size */

static int64_t whole(const struct tn_json *o, const char *name, int64_t fallback)
{
    double value = tn_json_double(tn_json_get(o, name), (double)fallback);

    return value >= -WHOLE_MAX && value <= WHOLE_MAX ? (int64_t)value : fallback;
}

static void put_place(struct tn_jw *w, const struct tn_json *from)
{
    tn_jw_kint(w, "x", whole(from, "x", 0));
    tn_jw_kint(w, "y", whole(from, "y", 0));
}

static void put_window(struct tn_jw *w, const struct tn_json *size, size_t id, bool active,
                       const char *title)
{
    tn_jw_object(w);
    tn_jw_kint(w, "id", (int64_t)id);
    put_place(w, NULL);
    tn_jw_kint(w, "width", whole(size, "width", 0));
    tn_jw_kint(w, "height", whole(size, "height", 0));
    tn_jw_kbool(w, "isActive", active);
    if (title)
        tn_jw_kstr(w, "title", title);
    tn_jw_object_end(w);
}

/* Displays, of which there is one, or windows: the tabs. */
static void get_display(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    tn_autojson struct tn_json *size = NULL, *list = NULL;
    struct tn_jw w = tn_jw(&json);
    bool running;

    if (ask_json(c, "POST", INPUT, NULL, &size) || pages(c, &list, &running))
        return;
    const struct tn_json *tabs = tn_json_get(list, "pages");
    tn_jw_object(&w);
    tn_jw_key(&w, c->row->words);
    tn_jw_array(&w);
    if (strcmp(c->row->words, "displays") == 0)
        put_window(&w, size, 0, true, NULL);
    else
        for (size_t i = 0; i < tn_json_count(tabs); i++) {
            const struct tn_json *tab = tn_json_at(tabs, i);
            put_window(&w, size, i, tn_json_bool(tn_json_get(tab, "active"), false),
                       tn_json_get_str(tab, "title", ""));
        }
    tn_jw_array_end(&w);
    tn_jw_kint(&w, "count", (int64_t)tn_json_count(tabs)); /* for clients of before 0.100 */
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

static const char *query(const struct daytona_call *c, const char *name, const char *fallback)
{
    const char *given = tn_http_query(c->x, name);

    return given && *given ? given : fallback;
}

/* The hand refuses what does not lie in the window. */
static void picture_target(const struct daytona_call *c, struct tn_buf *out)
{
    static const char *const numbers[] = {"x", "y", "width", "height", "quality"};
    double scale = strtod(query(c, "scale", "1"), NULL);
    const char *format = query(c, "format", "png");

    tn_buf_printf(out, "/v1/browser/screenshot?percent=%d&format=%s",
                  scale > 0 && scale < 1 ? (int)(scale * 100 + 0.5) : 100,
                  strcmp(format, "jpeg") == 0 || strcmp(format, "jpg") == 0 ? "jpeg"
                  : strcmp(format, "webp") == 0                             ? "webp"
                                                                            : "png");
    for (size_t i = 0; i < TN_COUNT(numbers); i++) {
        const char *n = query(c, numbers[i], NULL);
        if (n)
            tn_buf_printf(out, "&%s=%lld", numbers[i], strtoll(n, NULL, 10));
    }
}

static void get_screenshot(struct daytona_call *c)
{
    tn_autobuf struct tn_buf picture = ANSWER_BUF(c->x, PICTURE_MAX),
                             json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX),
                             target = TN_BUF_INIT(4096),
                             text = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    bool cursor = strcmp(query(c, "showCursor", query(c, "show_cursor", "")), "true") == 0;
    tn_autojson struct tn_json *place = NULL;
    struct tn_jw w = tn_jw(&json);

    picture_target(c, &target);
    if (ask(c, "GET", tn_buf_str(&target), NULL, &picture) ||
        (cursor && ask_json(c, "POST", INPUT, NULL, &place)))
        return;
    tn_base64_encode(&text, picture.data, picture.len);
    if (!tn_buf_ok(&text)) {
        tn_http_reply_json(c->x, 200, &text); /* which says that it does not fit */
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "screenshot", tn_buf_str(&text));
    tn_jw_kint(&w, "sizeBytes", (int64_t)picture.len);
    if (cursor) {
        tn_jw_key(&w, "cursorPosition");
        tn_jw_object(&w);
        put_place(&w, place);
        tn_jw_object_end(&w);
    }
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

/* --- input ----------------------------------------------------------------------------------- */

/* Messages for the hand, and where they come from. */
struct inputs {
    struct daytona_call *c;
    struct tn_json *body;
    struct tn_buf text;
    struct tn_jw w;
    int modifiers;
};

static void inputs_done(struct inputs *in)
{
    tn_json_free(in->body);
    tn_buf_done(&in->text);
}
#define autoinputs TN_CLEANUP(inputs_done)

/* What Daytona's clients call keys, then what a browser does; then those where only the size of the
 * letters differs.  The hand knows letters and signs by themselves. */
static const char *const aliases[] = {
    "ctrl",      "Control",   "option",         "Alt",       "cmd",
    "Meta",      "command",   "Meta",           "super",     "Meta",
    "win",       "Meta",      "return",         "Enter",     "esc",
    "Escape",    "del",       "Delete",         "page_up",   "PageUp",
    "up",        "ArrowUp",   "down",           "ArrowDown", "left",
    "ArrowLeft", "right",     "ArrowRight",     "menu",      "ContextMenu",
    "plus",      "+",         "page_down",      "PageDown",  "num_plus",
    "NumpadAdd", "num_minus", "NumpadSubtract",
};
static const char *const names[] = {
    "Alt",       "Control", "Meta",   "Shift", "Enter", "Escape", "Tab",      "Space",
    "Backspace", "Delete",  "Insert", "Home",  "End",   "PageUp", "PageDown", "CapsLock",
};
static const int bits[] = {1, 2, 4, 8}; /* of the first four */

static const char *key_name(char *given, int *bit)
{
    const char *name = given;

    *bit = 0;
    for (size_t i = 0; i < TN_COUNT(aliases); i += 2)
        if (strcasecmp(given, aliases[i]) == 0)
            name = aliases[i + 1];
    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (strcasecmp(name, names[i]) == 0) {
            *bit = i < TN_COUNT(bits) ? bits[i] : 0;
            return names[i];
        }
    if (given[0] == 'f' && given[1])
        given[0] = 'F'; /* F1 */
    return name;
}

static void put_key(struct inputs *in, const char *name, bool down)
{
    tn_jw_object(&in->w);
    tn_jw_kstr(&in->w, "type", "key");
    tn_jw_kstr(&in->w, "event", down ? "down" : "up");
    tn_jw_kstr(&in->w, "key", name);
    tn_jw_kint(&in->w, "modifiers", in->modifiers);
    tn_jw_object_end(&in->w);
}

static void put_mouse(struct inputs *in, const char *event, int64_t x, int64_t y, int64_t clicks)
{
    const char *button = tn_json_get_str(in->body, "button", "left");
    tn_autofree char *text = tn_asprintf(
        "{\"type\":\"mouse\",\"event\":\"%s\",\"x\":%d,\"y\":%d,\"clicks\":%d,\"modifiers\":%d,"
        "\"button\":\"%s\"}",
        event, (int)x, (int)y, (int)clicks, in->modifiers,
        strcmp(event, "move") == 0 ? "none"
        : *button == 'r'           ? "right"
        : *button == 'm'           ? "middle"
                                   : "left");

    tn_jw_raw(&in->w, text, strlen(text));
}

static int begin(struct daytona_call *c, struct inputs *in)
{
    *in = (struct inputs){.c = c, .text = TN_BUF_INIT(DAYTONA_BODY_MAX * 2)};
    in->w = tn_jw(&in->text);
    if (surface_body(c->x, DAYTONA_BODY_MAX, &in->body))
        return -1;
    const struct tn_json *list = tn_json_get(in->body, "modifiers");
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *text = tn_json_str(tn_json_at(list, i), NULL);
        tn_autofree char *name = tn_strdup(text ? text : "");
        int bit;
        key_name(name, &bit);
        in->modifiers |= bit;
    }
    tn_jw_object(&in->w);
    tn_jw_key(&in->w, "inputs");
    tn_jw_array(&in->w);
    return 0;
}

/* Sends them; a mouse answers with its place, a keyboard and a wheel with success. */
static void finish(struct inputs *in)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *place = NULL;
    struct tn_jw w = tn_jw(&json);

    tn_jw_array_end(&in->w);
    tn_jw_object_end(&in->w);
    if (ask_json(in->c, "POST", INPUT, &in->text, &place))
        return;
    tn_jw_object(&w);
    if (in->c->row->words)
        put_place(&w, place);
    else
        tn_jw_kbool(&w, "success", true);
    tn_jw_object_end(&w);
    tn_http_reply_json(in->c->x, 200, &json);
}

static void mouse(struct daytona_call *c)
{
    const char *event = c->row->words;
    autoinputs struct inputs in;

    if (begin(c, &in))
        return;
    int64_t x = whole(in.body, "x", 0), y = whole(in.body, "y", 0);
    bool twice = tn_json_bool(tn_json_get(in.body, "double"), false);
    int64_t clicks = whole(in.body, "clicks", twice ? 2 : 1);
    if (clicks < 1 || clicks > CLICKS_MAX) {
        daytona_fail(c->x, 400, NULL, "clicks: expected 1 to %d", CLICKS_MAX);
        return;
    }
    if (strcmp(event, "place") != 0)
        put_mouse(&in, "move", x, y, 1);
    if (strcmp(event, "down") == 0 || strcmp(event, "up") == 0)
        put_mouse(&in, event, x, y, 1);
    for (int64_t i = 1; strcmp(event, "click") == 0 && i <= clicks; i++) {
        put_mouse(&in, "down", x, y, i);
        put_mouse(&in, "up", x, y, i);
    }
    finish(&in);
}

static void drag(struct daytona_call *c)
{
    autoinputs struct inputs in;

    if (begin(c, &in))
        return;
    int64_t x = whole(in.body, "startX", 0), y = whole(in.body, "startY", 0);
    int64_t to_x = whole(in.body, "endX", 0), to_y = whole(in.body, "endY", 0);
    put_mouse(&in, "move", x, y, 1);
    put_mouse(&in, "down", x, y, 1);
    put_mouse(&in, "move", (x + to_x) / 2, (y + to_y) / 2, 1);
    put_mouse(&in, "move", to_x, to_y, 1);
    put_mouse(&in, "up", to_x, to_y, 1);
    finish(&in);
}

static void scroll(struct daytona_call *c)
{
    autoinputs struct inputs in;

    if (begin(c, &in))
        return;
    const char *way = tn_json_get_str(in.body, "direction", "down");
    int64_t by = whole(in.body, "amount", 1) * WHEEL;
    tn_jw_object(&in.w);
    tn_jw_kstr(&in.w, "type", "wheel");
    put_place(&in.w, in.body);
    tn_jw_kint(&in.w, *way == 'l' || *way == 'r' ? "dx" : "dy",
               *way == 'l' || *way == 'u' ? -by : by);
    tn_jw_kint(&in.w, "modifiers", in.modifiers);
    tn_jw_object_end(&in.w);
    finish(&in);
}

static void type_text(struct daytona_call *c)
{
    autoinputs struct inputs in;

    if (begin(c, &in))
        return;
    tn_jw_object(&in.w);
    tn_jw_kstr(&in.w, "type", "type");
    tn_jw_kstr(&in.w, "text", tn_json_get_str(in.body, "text", ""));
    tn_jw_object_end(&in.w);
    finish(&in);
}

/* The next key of "ctrl + shift+t"; NULL: there is none. */
static char *next_key(char **at)
{
    char *key = *at + strspn(*at, " ");
    size_t n = *key == '+' ? 1 : strcspn(key, "+ ");
    char *end = key + n + strspn(key + n, " ");

    *at = end + (*end == '+');
    key[n] = '\0';
    return n ? key : NULL;
}

/* Keys that are a browser's own, which has none around its pages here.  False: none of these. */
static bool shortcut(struct inputs *in, const char *key)
{
    static const struct {
        int modifiers;
        const char *key, *calls;
    } rows[] = {{2, "t", "new_tab()\n" ADDRESS},
                {2, "w", "tab_close()"},
                {1, "ArrowLeft", "go_back()"},
                {1, "ArrowRight", "go_forward()"},
                {2, "l", ADDRESS}};
    struct tn_error err = {0};
    size_t i = 0;

    while (i < TN_COUNT(rows) &&
           (in->modifiers != rows[i].modifiers || strcasecmp(key, rows[i].key) != 0))
        i++;
    if (i == TN_COUNT(rows))
        return false;
    if (daytona_needs_desktop(in->c))
        return true;
    if (perform(in->c, rows[i].calls, &err))
        reply_error(in->c->x, &err);
    else
        tn_http_reply(in->c->x, 200, "application/json", "{}", 2);
    return true;
}

/* Keys one after the other, those before held meanwhile; or one with modifiers. */
static void press(struct daytona_call *c)
{
    autoinputs struct inputs in;

    if (begin(c, &in))
        return;
    const char *given = tn_json_get_str(in.body, "keys", tn_json_get_str(in.body, "key", ""));
    tn_autofree char *chord = tn_strdup(strcmp(given, " ") == 0 ? "space" : given);
    const char *held[CHORD_MAX];
    size_t n = 0;
    char *at = chord, *key;
    int bit;
    while ((key = next_key(&at))) {
        if (n == CHORD_MAX) {
            struct tn_error err = {0};
            tn_fail(&err, TN_E_INVALID, "keys: expected at most %d", CHORD_MAX);
            reply_error(c->x, &err);
            return;
        }
        held[n] = key_name(key, &bit);
        in.modifiers |= bit;
        put_key(&in, held[n++], true);
    }
    if (n && shortcut(&in, held[n - 1]))
        return;
    while (n-- > 0)
        put_key(&in, held[n], false);
    finish(&in);
}

static void hold(struct daytona_call *c)
{
    bool down = strcmp(strrchr(c->row->path, '/'), "/down") == 0;
    autoinputs struct inputs in;
    int bit;

    if (begin(c, &in))
        return;
    tn_autofree char *name = tn_strdup(tn_json_get_str(in.body, "key", ""));
    put_key(&in, key_name(name, &bit), down);
    finish(&in);
}

const struct daytona_row daytona_computer_rows[] = {
    {"POST", "computeruse/start", post_start, NULL},
    {"POST", "computeruse/stop", post_stop, NULL},
    {"GET", "computeruse/status", get_status, NULL},
    {"GET", "computeruse/process-status", get_status, NULL},
    {"GET", "computeruse/process/*/status", process, "status"},
    {"POST", "computeruse/process/*/restart", process, "restart"},
    {"GET", "computeruse/display/info", get_display, "displays"},
    {"GET", "computeruse/display/windows", get_display, "windows"},
    {"GET", "computeruse/screenshot", get_screenshot, NULL},
    {"GET", "computeruse/screenshot/region", get_screenshot, NULL},
    {"GET", "computeruse/screenshot/compressed", get_screenshot, NULL},
    {"GET", "computeruse/screenshot/region/compressed", get_screenshot, NULL},
    {"GET", "computeruse/mouse/position", mouse, "place"},
    {"POST", "computeruse/mouse/move", mouse, "move"},
    {"POST", "computeruse/mouse/click", mouse, "click"},
    {"POST", "computeruse/mouse/down", mouse, "down"},
    {"POST", "computeruse/mouse/up", mouse, "up"},
    {"POST", "computeruse/mouse/drag", drag, "drag"},
    {"POST", "computeruse/mouse/scroll", scroll, NULL},
    {"POST", "computeruse/keyboard/type", type_text, NULL},
    {"POST", "computeruse/keyboard/key", press, NULL},
    {"POST", "computeruse/keyboard/hotkey", press, NULL},
    {"POST", "computeruse/keyboard/down", hold, NULL},
    {"POST", "computeruse/keyboard/up", hold, NULL},
    {0},
};
