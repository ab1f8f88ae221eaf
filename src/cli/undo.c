#include "cli/undo.h"

#include <stdlib.h>
#include <string.h>

/* --- what can be changed ------------------------------------------------------------------- */

/* Modes of CSI ? N h and l, in the order in which they are taken back: the other screen last, since
 * leaving it puts the cursor where it was. */
static const struct mode {
    int number;
    bool usually; /* set */
} modes[] = {
    {1, false}, /* cursor keys for applications */
    {5, false}, /* black on white */
    {6, false}, /* the origin is that of the margins */
    {7, true},  /* lines wrap */
    {9, false}, /* mouse, in one way or another */
    {1000, false}, {1001, false}, {1002, false}, {1003, false}, {1005, false},
    {1006, false}, {1015, false}, {1016, false}, {1004, false}, /* focus */
    {2004, false},                                              /* bracketed paste */
    {2026, false},                                              /* nothing is shown meanwhile */
    {25, true},                                                 /* a cursor */
    {47, false},                                                /* another screen */
    {1047, false}, {1049, false},
};

/* And others. */
enum {
    KEYPAD = 24,
    INSERT,
    MARGINS,
    KEYS,     /* with modifiers */
    KEYBOARD, /* another protocol of it */
    SHAPE,    /* of the cursor */
};
_Static_assert(TN_COUNT(modes) <= KEYPAD, "a bit each");

static const struct {
    int bit;
    const char *undo;
} others[] = {
    {KEYPAD, "\033>"},
    {INSERT, "\033[4l"},
    {MARGINS, "\0337\033[r\0338"}, /* to set them moves the cursor */
    {KEYS, "\033[>4m"},
    {KEYBOARD, "\033[<u"},
    {SHAPE, "\033[0 q"},
};

static void note(struct undo *u, size_t bit, bool changed)
{
    u->changed = changed ? u->changed | UINT32_C(1) << bit : u->changed & ~(UINT32_C(1) << bit);
}

/* --- watching ------------------------------------------------------------------------------ */

static void note_modes(struct undo *u, const char *numbers, bool set)
{
    for (const char *at = numbers; at; at = strchr(at, ';')) {
        at += *at == ';';
        long number = strtol(at, NULL, 10);
        for (size_t i = 0; i < TN_COUNT(modes); i++)
            if (modes[i].number == number)
                note(u, i, set != modes[i].usually);
    }
}

static void csi_ended(struct undo *u)
{
    char final = u->sequence[--u->length];

    u->sequence[u->length] = '\0';
    const char *params = u->sequence;
    bool plain = *params == '\0' || strcmp(params, "0") == 0;
    if (*params == '?' && (final == 'h' || final == 'l'))
        note_modes(u, params + 1, final == 'h');
    else if (strcmp(params, "4") == 0 && (final == 'h' || final == 'l'))
        note(u, INSERT, final == 'h');
    else if (final == 'r' && *params != '?')
        note(u, MARGINS, !plain);
    else if (final == 'm' && strncmp(params, ">4", 2) == 0)
        note(u, KEYS, params[2] == ';' && params[3] != '0');
    else if (final == 'u' && (*params == '>' || *params == '<'))
        note(u, KEYBOARD, *params == '>');
    else if (final == 'q' && u->length && params[u->length - 1] == ' ')
        note(u, SHAPE, strcmp(params, " ") != 0 && strcmp(params, "0 ") != 0);
}

static void escape_ended(struct undo *u, char c)
{
    u->at = UNDO_TEXT;
    if (c == '[') {
        u->at = UNDO_CSI;
        u->length = 0;
    } else if (strchr("]P_^X", c)) {
        u->at = UNDO_STRING;
    } else if (c == '=' || c == '>') {
        note(u, KEYPAD, c == '=');
    } else if (c == 'c') { /* everything anew */
        u->changed = 0;
    }
}

static void in_csi(struct undo *u, char c)
{
    if (c == '\033') {
        u->at = UNDO_ESCAPE;
        return;
    }
    if ((unsigned char)c < 0x20)
        return;
    if (u->length < sizeof u->sequence - 1)
        u->sequence[u->length++] = c;
    if ((unsigned char)c < 0x40)
        return;
    u->at = UNDO_TEXT;
    if (u->sequence[u->length - 1] == c)
        csi_ended(u);
}

static void step(struct undo *u, char c)
{
    switch (u->at) {
    case UNDO_TEXT:
        u->at = c == '\033' ? UNDO_ESCAPE : UNDO_TEXT;
        break;
    case UNDO_ESCAPE:
        if (c && c != '\033')
            escape_ended(u, c);
        break;
    case UNDO_CSI:
        in_csi(u, c);
        break;
    case UNDO_STRING:
        u->at = c == '\007' ? UNDO_TEXT : c == '\033' ? UNDO_STRING_ESCAPE : UNDO_STRING;
        break;
    case UNDO_STRING_ESCAPE: /* the end, or another sequence that cuts it short */
        if (c == '\\')
            u->at = UNDO_TEXT;
        else
            escape_ended(u, c);
        break;
    }
}

void undo_watch(struct undo *u, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        step(u, bytes[i]);
}

/* --- taking back --------------------------------------------------------------------------- */

void undo_put(const struct undo *u, struct tn_buf *out)
{
    /* A string whose end is missing would swallow the rest. */
    if (u->at == UNDO_STRING || u->at == UNDO_STRING_ESCAPE)
        tn_buf_puts(out, "\033\\");
    for (size_t i = 0; i < TN_COUNT(others); i++)
        if (u->changed & UINT32_C(1) << others[i].bit)
            tn_buf_puts(out, others[i].undo);
    for (size_t i = 0; i < TN_COUNT(modes); i++)
        if (u->changed & UINT32_C(1) << i)
            tn_buf_printf(out, "\033[?%d%c", modes[i].number, modes[i].usually ? 'h' : 'l');
    tn_buf_puts(out, "\017\033(B\033[0m"); /* letters, no colour */
}
