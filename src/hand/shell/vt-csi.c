#include "hand/shell/vt-term.h"

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int clamp(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

/* --- the cursor ----------------------------------------------------------------------------- */

/* Rows count from the top of the region in origin mode. */
static int row_from_param(const struct vt_term *t, int n)
{
    return t->modes.origin ? least(t->top + n - 1, t->bottom) : n - 1;
}

static void cursor_up(struct vt_term *t, int n)
{
    int limit = t->y < t->top ? 0 : t->top;
    vt_term_move(t, t->x, t->y - n < limit ? limit : t->y - n);
}

static void cursor_down(struct vt_term *t, int n)
{
    int limit = t->y > t->bottom ? t->rows - 1 : t->bottom;
    vt_term_move(t, t->x, least(t->y + n, limit));
}

static void cursor_right(struct vt_term *t, int n)
{
    vt_term_move(t, t->x + n, t->y);
}

static void cursor_left(struct vt_term *t, int n)
{
    vt_term_move(t, t->x - n, t->y);
}

static void next_line(struct vt_term *t, int n)
{
    t->x = 0;
    cursor_down(t, n);
}

static void previous_line(struct vt_term *t, int n)
{
    t->x = 0;
    cursor_up(t, n);
}

static void to_column(struct vt_term *t, int n)
{
    vt_term_move(t, n - 1, t->y);
}

static void to_row(struct vt_term *t, int n)
{
    vt_term_move(t, t->x, row_from_param(t, n));
}

static void to_row_and_column(struct vt_term *t, int n)
{
    vt_term_move(t, vt_param(&t->parser, 1, 1, 1) - 1, row_from_param(t, n));
}

static void save_cursor(struct vt_term *t, int n)
{
    vt_term_save(t);
}

static void restore_cursor(struct vt_term *t, int n)
{
    vt_term_restore(t);
}

/* --- lines ---------------------------------------------------------------------------------- */

static void scroll_up(struct vt_term *t, int n)
{
    vt_screen_scroll_up(t->screen, t->top, t->bottom, n, true);
}

static void scroll_down(struct vt_term *t, int n)
{
    vt_screen_scroll_down(t->screen, t->top, t->bottom, n);
}

/* A cursor outside the region works on the whole rest of the screen. */
static int last_line(const struct vt_term *t)
{
    return t->y < t->top || t->y > t->bottom ? t->rows - 1 : t->bottom;
}

static void insert_lines(struct vt_term *t, int n)
{
    vt_screen_scroll_down(t->screen, t->y, last_line(t), n);
}

static void delete_lines(struct vt_term *t, int n)
{
    vt_screen_scroll_up(t->screen, t->y, last_line(t), n, false);
}

static void set_region(struct vt_term *t, int n)
{
    int top = clamp(n - 1, 0, t->rows - 1);
    int bottom = clamp(vt_param(&t->parser, 1, 1, t->rows) - 1, 0, t->rows - 1);
    if (top >= bottom)
        return;
    t->top = top;
    t->bottom = bottom;
    vt_term_move(t, 0, 0);
}

/* --- erasing and shifting ------------------------------------------------------------------- */

static void erase_line(struct vt_term *t, int n)
{
    if (n == 0 && t->x < t->columns)
        vt_screen_erase(t->screen, t->y, t->x, t->columns);
    else if (n == 1)
        vt_screen_erase(t->screen, t->y, 0, least(t->x + 1, t->columns));
    else if (n == 2)
        vt_screen_erase(t->screen, t->y, 0, t->columns);
}

static void erase_display(struct vt_term *t, int n)
{
    switch (n) {
    case 0:
        if (t->x > 0)
            erase_line(t, 0);
        vt_screen_erase_rows(t->screen, t->x > 0 ? t->y + 1 : t->y, t->rows);
        break;
    case 1:
        vt_screen_erase_rows(t->screen, 0, t->y);
        erase_line(t, 1);
        break;
    case 2:
        vt_screen_erase_rows(t->screen, 0, t->rows);
        break;
    case 3:
        vt_screen_erase_history(t->screen);
        break;
    default:
        break;
    }
}

static void erase_characters(struct vt_term *t, int n)
{
    if (t->x < t->columns)
        vt_screen_erase(t->screen, t->y, t->x, least(t->x + n, t->columns));
}

static void insert_characters(struct vt_term *t, int n)
{
    vt_screen_insert_blanks(t->screen, t->x, t->y, least(n, t->columns - t->x));
}

static void delete_characters(struct vt_term *t, int n)
{
    vt_screen_delete(t->screen, t->x, t->y, least(n, t->columns - t->x));
}

/* --- others -------------------------------------------------------------------------------- */

static void set_modes(struct vt_term *t, int n)
{
    vt_term_modes(t, true);
}

static void reset_modes(struct vt_term *t, int n)
{
    vt_term_modes(t, false);
}

static void tab_back(struct vt_term *t, int n)
{
    vt_term_tab(t, -n);
}

/* --- the table ------------------------------------------------------------------------------ */

/* fn gets the first parameter: at least min, and fallback when it was left out. */
struct csi {
    void (*fn)(struct vt_term *t, int n);
    int min;
    int fallback;
};

static const struct csi plain[0x80] = {
    ['@'] = {insert_characters, 1, 1},
    ['A'] = {cursor_up, 1, 1},
    ['B'] = {cursor_down, 1, 1},
    ['C'] = {cursor_right, 1, 1},
    ['D'] = {cursor_left, 1, 1},
    ['E'] = {next_line, 1, 1},
    ['F'] = {previous_line, 1, 1},
    ['G'] = {to_column, 1, 1},
    ['H'] = {to_row_and_column, 1, 1},
    ['I'] = {vt_term_tab, 1, 1},
    ['J'] = {erase_display, 0, 0},
    ['K'] = {erase_line, 0, 0},
    ['L'] = {insert_lines, 1, 1},
    ['M'] = {delete_lines, 1, 1},
    ['P'] = {delete_characters, 1, 1},
    ['S'] = {scroll_up, 1, 1},
    ['T'] = {scroll_down, 1, 1},
    ['X'] = {erase_characters, 1, 1},
    ['Z'] = {tab_back, 1, 1},
    ['`'] = {to_column, 1, 1},
    ['a'] = {cursor_right, 1, 1},
    ['b'] = {vt_term_repeat, 1, 1},
    ['d'] = {to_row, 1, 1},
    ['e'] = {cursor_down, 1, 1},
    ['f'] = {to_row_and_column, 1, 1},
    ['g'] = {vt_term_clear_tab, 0, 0},
    ['h'] = {set_modes, 0, 0},
    ['l'] = {reset_modes, 0, 0},
    ['r'] = {set_region, 1, 1},
    ['s'] = {save_cursor, 0, 0},
    ['u'] = {restore_cursor, 0, 0},
};

void vt_term_csi(struct vt_term *t, uint32_t final)
{
    const struct vt_parser *p = &t->parser;
    const struct csi *row = &plain[final & 0x7f];

    if (p->inter == '!' && final == 'p' && p->prefix == 0)
        vt_term_soft_reset(t);
    else if (p->inter == 0 && p->prefix == '?' && (final == 'h' || final == 'l'))
        vt_term_modes(t, final == 'h');
    else if (p->inter == 0 && p->prefix == 0 && row->fn)
        row->fn(t, vt_param(p, 0, row->min, row->fallback));
}
