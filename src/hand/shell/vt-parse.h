/* Cuts a byte stream from a terminal's child into text, controls and escape sequences.
 *
 * A pull parser: each call consumes some bytes and yields at most one event, so plain text costs
 * one call per run, not per character.  Sequences may be cut anywhere between two calls.  Nothing
 * is allocated.  Text is UTF-8; bytes that are not become U+FFFD.  The strings of OSC, DCS, APC,
 * PM, SOS and of tmux's `ESC k` are swallowed up to BEL, ST or VT_STRING_MAX bytes, whichever comes
 * first. */
#ifndef TN_HAND_SHELL_VT_PARSE_H
#define TN_HAND_SHELL_VT_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VT_PARAMS = 16,          /* further parameters are ignored */
    VT_PARAM_LIMIT = 99999,  /* larger values are this */
    VT_STRING_MAX = 1 << 20, /* a longer string is taken for one whose end was forgotten */
};

enum vt_kind {
    VT_MORE,    /* all bytes consumed, nothing to do */
    VT_TEXT,    /* text, len: printable ASCII, part of the bytes given */
    VT_CHAR,    /* code: one code point beyond ASCII (no C1 control) */
    VT_CONTROL, /* code: a C0 control other than ESC, CAN and SUB */
    VT_ESCAPE,  /* ESC [inter] code; C1 controls in UTF-8 come as these too */
    VT_CSI,     /* CSI [prefix] params [inter] code */
};

struct vt_event {
    enum vt_kind kind;
    uint32_t code;
    const char *text;
    size_t len;
};

enum vt_state { VT_GROUND, VT_IN_ESCAPE, VT_IN_CSI, VT_IN_CSI_IGNORE, VT_IN_STRING };

struct vt_parser {
    enum vt_state state;
    /* of the sequence under way, and of the last one until the next begins */
    char prefix; /* one of <=>? or 0 */
    char inter;  /* the intermediate byte, 0 for none, -1 for several */
    int count;
    int param[VT_PARAMS]; /* -1: left out */
    size_t string_len;
    bool string_c2; /* the string's last byte may begin a C1 control */
    /* a UTF-8 sequence under way */
    uint8_t want;      /* bytes still to come */
    uint8_t low, high; /* range of the next one */
    uint32_t code;
};

/* Back to plain text; a sequence cut short is forgotten. */
void vt_parser_reset(struct vt_parser *p);

/* Returns the number of bytes consumed (it may be 0 with an event; never 0 with VT_MORE for n > 0).
 */
size_t vt_parse(struct vt_parser *p, const char *s, size_t n, struct vt_event *ev);

/* Parameter i, or fallback when it was left out; at least min. */
int vt_param(const struct vt_parser *p, int i, int min, int fallback);

#endif
