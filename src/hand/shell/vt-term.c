#include "hand/shell/vt-term.h"

#include "base/guard.h"
#include "base/utf8.h"

enum { TAB_WIDTH = 8 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int clamp(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

/* --- the cursor ----------------------------------------------------------------------------- */

void vt_term_move(struct vt_term *t, int x, int y)
{
    t->x = clamp(x, 0, t->columns - 1);
    t->y = clamp(y, 0, t->rows - 1);
}

static void save_to(struct vt_term *t, struct vt_cursor *c)
{
    *c = (struct vt_cursor){.saved = true, .x = t->x, .y = t->y, .modes = t->modes};
}

/* Wrapping and inserting are not part of what is saved. */
static void restore_from(struct vt_term *t, const struct vt_cursor *c)
{
    bool no_wrap = t->modes.no_wrap, insert = t->modes.insert;
    t->modes = c->modes;
    t->modes.no_wrap = no_wrap;
    t->modes.insert = insert;
    vt_term_move(t, c->x, c->y);
}

void vt_term_save(struct vt_term *t)
{
    save_to(t, &t->saved);
}

void vt_term_restore(struct vt_term *t)
{
    restore_from(t, &t->saved);
}

static void line_feed(struct vt_term *t)
{
    if (t->y == t->bottom)
        vt_screen_scroll_up(t->screen, t->top, t->bottom, 1, true);
    else if (t->y < t->rows - 1)
        t->y++;
}

static void reverse_index(struct vt_term *t)
{
    if (t->y == t->top)
        vt_screen_scroll_down(t->screen, t->top, t->bottom, 1);
    else if (t->y > 0)
        t->y--;
}

/* From the first column it goes back to the row that was wrapped into this one. */
static void backspace(struct vt_term *t)
{
    if (t->x > 0) {
        t->x--;
    } else if (t->y > 0 && vt_screen_wrapped(t->screen, t->y - 1)) {
        t->y--;
        t->x = t->columns - 1;
    }
}

/* --- tab stops ------------------------------------------------------------------------------ */

static bool is_tab_stop(const struct vt_term *t, int x)
{
    return t->tabs ? t->tabs[x / 8] >> x % 8 & 1 : x % TAB_WIDTH == 0;
}

/* The bitmap exists only when somebody changed the stops. */
static void make_tab_stops(struct vt_term *t)
{
    if (t->tabs)
        return;
    uint8_t *tabs = tn_calloc((size_t)t->columns / 8 + 1, 1);
    for (int x = 0; x < t->columns; x += TAB_WIDTH)
        tabs[x / 8] |= (uint8_t)(1 << x % 8);
    t->tabs = tabs;
}

static void forget_tab_stops(struct vt_term *t)
{
    free(TN_TAKE_PTR(t->tabs));
}

static void set_tab_stop(struct vt_term *t)
{
    make_tab_stops(t);
    int x = least(t->x, t->columns - 1);
    t->tabs[x / 8] |= (uint8_t)(1 << x % 8);
}

void vt_term_clear_tab(struct vt_term *t, int n)
{
    make_tab_stops(t);
    int x = least(t->x, t->columns - 1);
    if (n == 0)
        t->tabs[x / 8] &= (uint8_t) ~(1 << x % 8);
    else if (n == 3)
        memset(t->tabs, 0, (size_t)t->columns / 8 + 1);
}

void vt_term_tab(struct vt_term *t, int n)
{
    for (; n > 0 && t->x < t->columns - 1; n--) {
        do {
            t->x++;
        } while (t->x < t->columns - 1 && !is_tab_stop(t, t->x));
    }
    for (; n < 0 && t->x > 0; n++) {
        do {
            t->x--;
        } while (t->x > 0 && !is_tab_stop(t, t->x));
    }
}

/* --- text ----------------------------------------------------------------------------------- */

static void wrap_line(struct vt_term *t)
{
    vt_screen_wrap(t->screen, t->y);
    line_feed(t);
    t->x = 0;
}

static void put(struct vt_term *t, const char *text, size_t n, int width)
{
    if (t->modes.insert)
        vt_screen_insert(t->screen, t->x, t->y, text, n, width);
    else
        vt_screen_write(t->screen, t->x, t->y, text, n, width);
    t->x = least(t->x + width, t->modes.no_wrap ? t->columns - 1 : t->columns);
}

static void put_ascii(struct vt_term *t, const char *text, size_t n)
{
    t->last = (unsigned char)text[n - 1];
    while (n > 0) {
        if (t->x >= t->columns)
            wrap_line(t);
        size_t room = (size_t)(t->columns - t->x);
        size_t fits = n < room ? n : room;
        put(t, text, fits, (int)fits);
        text += fits;
        n -= fits;
        if (n > 0 && t->modes.no_wrap) { /* of the rest, each replaces the one before it */
            text += n - 1;
            n = 1;
        }
    }
}

static void put_char(struct vt_term *t, uint32_t code)
{
    char text[4];
    size_t n = tn_utf8_encode(code, text);
    int width = tn_utf8_width(code);

    if (width == 0) {
        if (t->x > 0)
            vt_screen_combine(t->screen, t->x - 1, t->y, text, n);
        return;
    }
    if (width > t->columns)
        return;
    if (t->x + width > t->columns) {
        if (t->modes.no_wrap)
            return;
        wrap_line(t);
    }
    t->last = code;
    put(t, text, n, width);
}

/* What the bytes 0x60 to 0x7e mean in the DEC special graphics set. */
static const uint16_t drawing[] = {
    0x25c6, 0x2592, 0x2409, 0x240c, 0x240d, 0x240a, 0x00b0, 0x00b1, 0x2424, 0x240b, 0x2518,
    0x2510, 0x250c, 0x2514, 0x253c, 0x23ba, 0x23bb, 0x2500, 0x23bc, 0x23bd, 0x251c, 0x2524,
    0x2534, 0x252c, 0x2502, 0x2264, 0x2265, 0x03c0, 0x2260, 0x00a3, 0x00b7,
};

static void put_text(struct vt_term *t, const char *text, size_t n)
{
    if (!t->modes.drawing[t->modes.shift]) {
        put_ascii(t, text, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] >= 0x60)
            put_char(t, drawing[text[i] - 0x60]);
        else
            put_ascii(t, text[i] == 0x5f ? " " : text + i, 1);
    }
}

void vt_term_repeat(struct vt_term *t, int n)
{
    uint32_t code = t->last;
    if (code == 0)
        return;
    for (n = least(n, t->columns - t->x); n > 0; n--) {
        if (code < 0x80)
            put_ascii(t, &(char){(char)code}, 1);
        else
            put_char(t, code);
    }
}

/* --- modes and screens ---------------------------------------------------------------------- */

static void enter_alternate(struct vt_term *t, bool with_cursor)
{
    if (t->screen == &t->alternate)
        return;
    if (with_cursor)
        save_to(t, &t->saved_by_mode);
    vt_screen_settle(t->screen);
    t->screen = &t->alternate;
    t->screen->changes++;
}

static void leave_alternate(struct vt_term *t, bool with_cursor)
{
    if (t->screen == &t->alternate) {
        vt_screen_reset(&t->alternate);
        t->screen = &t->main;
        t->screen->changes++;
    }
    if (with_cursor && t->saved_by_mode.saved)
        restore_from(t, &t->saved_by_mode);
    vt_term_move(t, t->x, t->y);
}

static void set_private_mode(struct vt_term *t, int mode, bool on)
{
    switch (mode) {
    case 6:
        t->modes.origin = on;
        vt_term_move(t, 0, on ? t->top : 0);
        break;
    case 7:
        t->modes.no_wrap = !on;
        if (!on)
            t->x = least(t->x, t->columns - 1);
        break;
    case 47:
    case 1047:
    case 1049:
        if (on)
            enter_alternate(t, mode == 1049);
        else
            leave_alternate(t, mode == 1049);
        break;
    case 1048:
        if (on)
            vt_term_save(t);
        else
            vt_term_restore(t);
        break;
    default:
        break;
    }
}

void vt_term_modes(struct vt_term *t, bool on)
{
    for (int i = 0; i < t->parser.count; i++) {
        if (t->parser.prefix == '?')
            set_private_mode(t, t->parser.param[i], on);
        else if (t->parser.param[i] == 4)
            t->modes.insert = on;
    }
}

void vt_term_soft_reset(struct vt_term *t)
{
    t->modes = (struct vt_modes){0};
    t->saved = (struct vt_cursor){0};
    t->top = 0;
    t->bottom = t->rows - 1;
}

static void hard_reset(struct vt_term *t)
{
    leave_alternate(t, false);
    vt_term_soft_reset(t);
    forget_tab_stops(t);
    vt_screen_erase_rows(t->screen, 0, t->rows);
    vt_term_move(t, 0, 0);
}

/* --- dispatch ------------------------------------------------------------------------------- */

static void control(struct vt_term *t, uint32_t code)
{
    switch (code) {
    case '\b':
        backspace(t);
        break;
    case '\t':
        vt_term_tab(t, 1);
        break;
    case '\n':
    case '\v':
    case '\f':
        line_feed(t);
        break;
    case '\r':
        t->x = 0;
        break;
    case 0x0e:
    case 0x0f:
        t->modes.shift = code == 0x0e;
        break;
    default:
        break;
    }
}

static void escape(struct vt_term *t, uint32_t code)
{
    char inter = t->parser.inter;

    if (inter == '(' || inter == ')')
        t->modes.drawing[inter == ')'] = code == '0';
    if (inter != 0)
        return;
    switch (code) {
    case '7':
        vt_term_save(t);
        break;
    case '8':
        vt_term_restore(t);
        break;
    case 'D':
        line_feed(t);
        break;
    case 'E':
        t->x = 0;
        line_feed(t);
        break;
    case 'H':
        set_tab_stop(t);
        break;
    case 'M':
        reverse_index(t);
        break;
    case 'c':
        hard_reset(t);
        break;
    default:
        break;
    }
}

void vt_term_feed(struct vt_term *t, const char *bytes, size_t n)
{
    struct vt_event ev;

    while (n > 0) {
        size_t used = vt_parse(&t->parser, bytes, n, &ev);
        bytes += used;
        n -= used;
        switch (ev.kind) {
        case VT_MORE:
            break;
        case VT_TEXT:
            put_text(t, ev.text, ev.len);
            break;
        case VT_CHAR:
            put_char(t, ev.code);
            break;
        case VT_CONTROL:
            control(t, ev.code);
            t->last = 0;
            break;
        case VT_ESCAPE:
            escape(t, ev.code);
            t->last = 0;
            break;
        case VT_CSI:
            vt_term_csi(t, ev.code);
            t->last = 0;
            break;
        }
    }
    vt_screen_settle(t->screen);
}

/* --- life ----------------------------------------------------------------------------------- */

void vt_term_init(struct vt_term *t, int columns, int rows, size_t max_rows, size_t max_bytes)
{
    columns = clamp(columns, 1, VT_SIZE_MAX);
    rows = clamp(rows, 1, VT_SIZE_MAX);
    *t = (struct vt_term){.columns = columns, .rows = rows, .bottom = rows - 1, .screen = &t->main};
    vt_screen_init(&t->main, columns, rows, true, max_rows, max_bytes);
    vt_screen_init(&t->alternate, columns, rows, false, max_rows, max_bytes);
}

void vt_term_reset(struct vt_term *t)
{
    vt_screen_reset(&t->main);
    vt_screen_reset(&t->alternate);
    forget_tab_stops(t);
    vt_parser_reset(&t->parser);
    t->screen = &t->main;
    t->saved_by_mode = (struct vt_cursor){0};
    t->last = 0;
    t->x = t->y = 0;
    vt_term_soft_reset(t);
}

void vt_term_resize(struct vt_term *t, int columns, int rows)
{
    columns = clamp(columns, 1, VT_SIZE_MAX);
    rows = clamp(rows, 1, VT_SIZE_MAX);
    int up_main = vt_screen_resize(&t->main, columns, rows);
    int up_alternate = vt_screen_resize(&t->alternate, columns, rows);
    if (columns != t->columns)
        forget_tab_stops(t);
    t->columns = columns;
    t->rows = rows;
    t->top = 0;
    t->bottom = rows - 1;
    vt_term_move(t, t->x, t->y - (t->screen == &t->main ? up_main : up_alternate));
}
