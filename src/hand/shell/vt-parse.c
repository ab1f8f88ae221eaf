#include "hand/shell/vt-parse.h"

#include <string.h>

enum { BEL = 0x07, CAN = 0x18, SUB = 0x1a, ESC = 0x1b, DEL = 0x7f };

void vt_parser_reset(struct vt_parser *p)
{
    *p = (struct vt_parser){.state = VT_GROUND};
}

int vt_param(const struct vt_parser *p, int i, int min, int fallback)
{
    int v = i < p->count && p->param[i] >= 0 ? p->param[i] : fallback;
    return v < min ? min : v;
}

static bool printable(unsigned char c)
{
    return c >= 0x20 && c < DEL;
}

/* Eight bytes at a time: is any below 0x20, DEL, or beyond ASCII?  The additions cannot carry from
 * one byte into the next because the top bits are masked off first. */
static bool word_is_printable(uint64_t w)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t high = ones << 7;
    uint64_t low7 = w & ~high;
    uint64_t at_least_space = low7 + ones * (0x80 - 0x20);
    uint64_t at_least_del = low7 + ones;
    return ((at_least_space & ~at_least_del & ~w) & high) == high;
}

static size_t printable_run(const char *s, size_t n)
{
    size_t i = 0;
    uint64_t w;

    for (; n - i >= sizeof w; i += sizeof w) {
        memcpy(&w, s + i, sizeof w);
        if (!word_is_printable(w))
            break;
    }
    while (i < n && printable((unsigned char)s[i]))
        i++;
    return i;
}

static void begin_sequence(struct vt_parser *p, enum vt_state state)
{
    p->state = state;
    p->prefix = 0;
    p->inter = 0;
    p->count = 0;
    p->string_len = 0;
    p->string_c2 = false;
}

/* What follows ESC (or is a C1 control): another state, or a complete sequence. */
static void escape_final(struct vt_parser *p, unsigned char c, struct vt_event *ev)
{
    if (p->inter == 0) {
        switch (c) {
        case '[':
            begin_sequence(p, VT_IN_CSI);
            return;
        case ']': /* OSC */
        case 'P': /* DCS */
        case 'X': /* SOS */
        case '^': /* PM */
        case '_': /* APC */
        case 'k': /* tmux: window title */
            begin_sequence(p, VT_IN_STRING);
            return;
        default:
            break;
        }
    }
    p->state = VT_GROUND;
    ev->kind = VT_ESCAPE;
    ev->code = c;
}

static void add_intermediate(struct vt_parser *p, unsigned char c)
{
    p->inter = p->inter == 0 ? (char)c : (char)-1;
}

static void in_escape(struct vt_parser *p, unsigned char c, struct vt_event *ev)
{
    if (c >= DEL)
        return;
    if (c < 0x30)
        add_intermediate(p, c);
    else
        escape_final(p, c, ev);
}

static void add_digit(struct vt_parser *p, int digit)
{
    if (p->count == 0)
        p->param[p->count++] = -1;
    if (p->count > VT_PARAMS)
        return;
    int *v = &p->param[p->count - 1];
    *v = (*v < 0 ? 0 : *v) * 10 + digit;
    if (*v > VT_PARAM_LIMIT)
        *v = VT_PARAM_LIMIT;
}

static void add_separator(struct vt_parser *p)
{
    if (p->count == 0)
        p->param[p->count++] = -1;
    if (p->count < VT_PARAMS)
        p->param[p->count] = -1;
    if (p->count <= VT_PARAMS)
        p->count++;
}

static void csi_final(struct vt_parser *p, unsigned char c, struct vt_event *ev)
{
    bool ignored = p->state == VT_IN_CSI_IGNORE;
    p->state = VT_GROUND;
    if (p->count > VT_PARAMS)
        p->count = VT_PARAMS;
    if (ignored)
        return;
    ev->kind = VT_CSI;
    ev->code = c;
}

static void in_csi(struct vt_parser *p, unsigned char c, struct vt_event *ev)
{
    if (c >= DEL)
        return;
    if (c >= 0x40)
        csi_final(p, c, ev);
    else if (c < 0x30)
        add_intermediate(p, c);
    else if (p->inter != 0 || c == ':')
        p->state = VT_IN_CSI_IGNORE; /* colons occur in colours only */
    else if (c <= '9')
        add_digit(p, c - '0');
    else if (c == ';')
        add_separator(p);
    else if (p->count == 0 && p->prefix == 0)
        p->prefix = (char)c;
    else
        p->state = VT_IN_CSI_IGNORE;
}

/* Controls act also in the middle of a sequence, as they do in a terminal. */
static void in_sequence(struct vt_parser *p, unsigned char c, struct vt_event *ev)
{
    if (c == CAN || c == SUB) {
        p->state = VT_GROUND;
    } else if (c == ESC) {
        begin_sequence(p, VT_IN_ESCAPE);
    } else if (c < 0x20) {
        ev->kind = VT_CONTROL;
        ev->code = c;
    } else if (p->state == VT_IN_ESCAPE) {
        in_escape(p, c, ev);
    } else {
        in_csi(p, c, ev);
    }
}

/* Swallows the string; an ESC ends it whatever follows (ESC \ then does nothing by itself). */
static size_t in_string(struct vt_parser *p, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == ESC) {
            begin_sequence(p, VT_IN_ESCAPE);
            return i + 1;
        }
        bool ends = c == BEL || c == CAN || c == SUB || (p->string_c2 && c == 0x9c);
        p->string_c2 = c == 0xc2;
        if (ends || ++p->string_len >= VT_STRING_MAX) {
            p->state = VT_GROUND;
            return i + 1;
        }
    }
    return n;
}

static size_t replacement(struct vt_parser *p, struct vt_event *ev, size_t consumed)
{
    p->want = 0;
    ev->kind = VT_CHAR;
    ev->code = 0xfffd;
    return consumed;
}

/* The first byte of a sequence decides its length and the range of the second byte, which excludes
 * overlong forms, surrogates and what lies beyond U+10FFFF. */
static size_t utf8_first(struct vt_parser *p, unsigned char c, struct vt_event *ev)
{
    if (c < 0xc2 || c > 0xf4)
        return replacement(p, ev, 1);
    p->want = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    p->code = c & (0x3fu >> p->want);
    p->low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    p->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    return 1;
}

/* A byte that cannot continue the sequence is not consumed: it begins something new. */
static size_t utf8_next(struct vt_parser *p, unsigned char c, struct vt_event *ev)
{
    if (c < p->low || c > p->high)
        return replacement(p, ev, 0);
    p->low = 0x80;
    p->high = 0xbf;
    p->code = p->code << 6 | (c & 0x3f);
    if (--p->want > 0)
        return 1;
    if (p->code < 0xa0) {
        begin_sequence(p, VT_IN_ESCAPE);
        escape_final(p, (unsigned char)(p->code - 0x40), ev);
    } else {
        ev->kind = VT_CHAR;
        ev->code = p->code;
    }
    return 1;
}

static size_t in_ground(struct vt_parser *p, const char *s, size_t n, struct vt_event *ev)
{
    unsigned char c = (unsigned char)s[0];

    if (p->want > 0)
        return utf8_next(p, c, ev);
    if (c >= 0x80)
        return utf8_first(p, c, ev);
    if (c == ESC) {
        begin_sequence(p, VT_IN_ESCAPE);
    } else if (c < 0x20 && c != CAN && c != SUB) {
        ev->kind = VT_CONTROL;
        ev->code = c;
    } else if (printable(c)) {
        ev->kind = VT_TEXT;
        ev->text = s;
        ev->len = printable_run(s, n);
        return ev->len;
    }
    return 1;
}

size_t vt_parse(struct vt_parser *p, const char *s, size_t n, struct vt_event *ev)
{
    size_t i = 0;

    ev->kind = VT_MORE;
    while (i < n && ev->kind == VT_MORE) {
        if (p->state == VT_GROUND) {
            i += in_ground(p, s + i, n - i, ev);
        } else if (p->state == VT_IN_STRING) {
            i += in_string(p, s + i, n - i);
        } else {
            in_sequence(p, (unsigned char)s[i], ev);
            i++;
        }
    }
    return i;
}
