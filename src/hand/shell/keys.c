#include "hand/shell/keys.h"

#include <ctype.h>
#include <string.h>

static const struct {
    const char *name;
    const char *bytes;
} keys[] = {
    {"Enter", "\r"},       {"Tab", "\t"},           {"Escape", "\033"},    {"Space", " "},
    {"BSpace", "\177"},    {"Up", "\033[A"},        {"Down", "\033[B"},    {"Right", "\033[C"},
    {"Left", "\033[D"},    {"Home", "\033[H"},      {"End", "\033[F"},     {"PageUp", "\033[5~"},
    {"PgUp", "\033[5~"},   {"PageDown", "\033[6~"}, {"PgDn", "\033[6~"},   {"DC", "\033[3~"},
    {"Delete", "\033[3~"}, {"IC", "\033[2~"},       {"Insert", "\033[2~"}, {"F1", "\033OP"},
    {"F2", "\033OQ"},      {"F3", "\033OR"},        {"F4", "\033OS"},      {"F5", "\033[15~"},
    {"F6", "\033[17~"},    {"F7", "\033[18~"},      {"F8", "\033[19~"},    {"F9", "\033[20~"},
    {"F10", "\033[21~"},   {"F11", "\033[23~"},     {"F12", "\033[24~"},
};

/* One byte per control key, so that a pointer to it can be returned. */
static const char controls[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

bool tn_key_is_control(const char *text, size_t len)
{
    return len == 3 && text[0] == 'C' && text[1] == '-';
}

const char *tn_key_bytes(const char *text, size_t len, size_t *bytes_len)
{
    if (tn_key_is_control(text, len)) {
        int c = toupper((unsigned char)text[2]);
        if (c < '@' || c > '_')
            return NULL;
        *bytes_len = 1;
        return &controls[c & 31];
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strlen(keys[i].name) == len && memcmp(keys[i].name, text, len) == 0) {
            *bytes_len = strlen(keys[i].bytes);
            return keys[i].bytes;
        }
    }
    return NULL;
}
