#include "hand/shell/vt-queries.h"

#include <string.h>

#include "base/buf.h"

/* No question is longer; what is, is passed on. */
enum { LONGEST = 4096 };
/* The end of the sequence is missing. */
#define CUT_OFF ((size_t)-1)

enum {
    ENQ = 0x05,
    BEL = 0x07,
    CAN = 0x18,
    SUB = 0x1a,
    ESC = 0x1b,
};

/* --- CSI ----------------------------------------------------------------------------------- */

struct csi {
    char prefix; /* one of <=>? or 0 */
    char inter;  /* the intermediate byte, 0 for none */
    int first;   /* the first parameter, 0 when left out */
    char final;
};

/* clang-format off */
static const struct csi questions[] = { /* first: -1 for any */
    {0,   0,    -1, 'c'}, {'>', 0,   -1, 'c'}, {'=', 0,   -1, 'c'}, /* attributes of the device */
    {0,   0,    -1, 'n'}, {'?', 0,   -1, 'n'},                      /* its status, the cursor */
    {0,   '$',  -1, 'p'}, {'?', '$', -1, 'p'},                      /* modes */
    {0,   '$',  -1, 'w'}, {0,   '$', -1, 'u'}, {0,   '&', -1, 'u'}, /* tab stops, colour table, sets */
    {0,   '*',  -1, 'y'}, {0,   '"', -1, 'v'}, {0,  '\'', -1, '|'}, /* checksum, extent, locator */
    {0,   0,    -1, 'x'},                                           /* parameters of the line */
    {'>', 0,    -1, 'q'},                                           /* its name and version */
    {'?', 0,    -1, 'u'}, {'?', 0,   -1, 'm'}, {'?', 0,   -1, 'S'}, /* keyboard, keys, graphics */
    {0,   0,    11, 't'}, {0,   0,   13, 't'}, {0,   0,   14, 't'}, /* the window */
    {0,   0,    15, 't'}, {0,   0,   16, 't'}, {0,   0,   18, 't'},
    {0,   0,    19, 't'}, {0,   0,   20, 't'}, {0,   0,   21, 't'},
};
/* clang-format on */

static bool csi_asks(const struct csi *c)
{
    for (size_t i = 0; i < TN_COUNT(questions); i++) {
        const struct csi *q = &questions[i];
        if (q->final == c->final && q->prefix == c->prefix && q->inter == c->inter &&
            (q->first < 0 || q->first == c->first))
            return true;
    }
    return false;
}

/* What follows the introducer: its length with *asks, or CUT_OFF. */
static size_t scan_csi(const char *s, size_t n, bool *asks)
{
    struct csi c = {0};
    bool counting = true;

    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)s[i];
        if (b == ESC || b == CAN || b == SUB)
            return i; /* cut short by another */
        if (b < 0x20)
            continue;
        if (b >= '<' && b <= '?')
            c.prefix = i == 0 ? (char)b : c.prefix;
        else if (b >= 0x30 && b < 0x40) {
            counting = counting && b <= '9';
            if (counting && c.first < 1000)
                c.first = c.first * 10 + (b - '0');
        } else if (b >= 0x20 && b < 0x30)
            c.inter = (char)b;
        else {
            c.final = (char)b;
            *asks = csi_asks(&c);
            return i + 1;
        }
    }
    return CUT_OFF;
}

/* --- strings ------------------------------------------------------------------------------- */

static bool begins(const char *s, size_t n, const char *with)
{
    size_t length = strlen(with);

    return n >= length && memcmp(s, with, length) == 0;
}

/* A value of "?" asks for the present one: colours, the clipboard, ... */
static bool osc_asks(const char *s, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (s[i] == '?' && (s[i - 1] == ';' || s[i - 1] == '='))
            return true;
    return false;
}

/* Settings, capabilities; what is passed through to the terminal around another one. */
static bool dcs_asks(const char *s, size_t n)
{
    return begins(s, n, "$q") || begins(s, n, "+q") || begins(s, n, "tmux;");
}

/* kitty answers to every picture. */
static bool apc_asks(const char *s, size_t n)
{
    return begins(s, n, "G");
}

/* What follows the introducer, up to and with what ends it, or CUT_OFF. */
static size_t scan_string(const char *s, size_t n, size_t *length)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)s[i];
        *length = i;
        if (b == BEL || b == CAN || b == SUB)
            return i + 1;
        if (b == ESC && i + 1 < n)
            return s[i + 1] == '\\' ? i + 2 : i;
        if (b == 0xc2 && i + 1 < n && (unsigned char)s[i + 1] == 0x9c)
            return i + 2;
    }
    return CUT_OFF;
}

/* --- sequences ----------------------------------------------------------------------------- */

static const struct string {
    char letter; /* behind ESC; as a C1 control it is 0x40 more */
    bool (*asks)(const char *s, size_t n);
} strings[] = {{']', osc_asks}, {'P', dcs_asks}, {'_', apc_asks}};

/* The sequence that the bytes begin with: its length with *asks, or CUT_OFF. */
static size_t scan(const char *s, size_t n, bool *asks)
{
    bool c1 = (unsigned char)s[0] == 0xc2;
    char letter = n < 2 ? 0 : c1 ? (char)((unsigned char)s[1] - 0x40) : s[1];
    size_t length = 0, got = 0;

    *asks = false;
    if (n < 2)
        return CUT_OFF;
    if (letter == '[')
        got = scan_csi(s + 2, n - 2, asks);
    for (size_t i = 0; i < TN_COUNT(strings); i++) {
        if (strings[i].letter != letter)
            continue;
        got = scan_string(s + 2, n - 2, &length);
        *asks = got != CUT_OFF && strings[i].asks(s + 2, length);
    }
    if (letter == 'Z') /* who are you? */
        *asks = true;
    if (got == CUT_OFF)
        return n > LONGEST ? 2 : CUT_OFF;
    return got + 2;
}

static bool may_begin(const char *s, size_t n)
{
    unsigned char next = n > 1 ? (unsigned char)s[1] : 0x80;

    return s[0] == ESC || ((unsigned char)s[0] == 0xc2 && next >= 0x80 && next < 0xa0);
}

size_t vt_mute_queries(char *bytes, size_t n, bool whole)
{
    for (size_t i = 0; i < n;) {
        bool asks = bytes[i] == ENQ;
        size_t length = 1;

        if (may_begin(bytes + i, n - i))
            length = scan(bytes + i, n - i, &asks);
        if (length == CUT_OFF && !whole)
            return i;
        if (length == CUT_OFF)
            length = 1;
        if (asks)
            memset(bytes + i, 0, length);
        i += length;
    }
    return n;
}
