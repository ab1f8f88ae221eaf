#include "hand/browser/input-keys.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/guard.h"

/* Keys that type the same with and without Shift, or nothing. */
static const struct {
    const char *name, *key, *text;
    int number, location;
} named[] = {
    {"Escape", "Escape", "", 27, 0},
    {"Backspace", "Backspace", "", 8, 0},
    {"Tab", "Tab", "", 9, 0},
    {"Enter", "Enter", "\r", 13, 0},
    {"NumpadEnter", "Enter", "\r", 13, 3},
    {"Space", " ", " ", 32, 0},
    {"Insert", "Insert", "", 45, 0},
    {"Delete", "Delete", "", 46, 0},
    {"Home", "Home", "", 36, 0},
    {"End", "End", "", 35, 0},
    {"PageUp", "PageUp", "", 33, 0},
    {"PageDown", "PageDown", "", 34, 0},
    {"ArrowLeft", "ArrowLeft", "", 37, 0},
    {"ArrowUp", "ArrowUp", "", 38, 0},
    {"ArrowRight", "ArrowRight", "", 39, 0},
    {"ArrowDown", "ArrowDown", "", 40, 0},
    {"Pause", "Pause", "", 19, 0},
    {"CapsLock", "CapsLock", "", 20, 0},
    {"NumLock", "NumLock", "", 144, 0},
    {"ScrollLock", "ScrollLock", "", 145, 0},
    {"PrintScreen", "PrintScreen", "", 44, 0},
    {"ContextMenu", "ContextMenu", "", 93, 0},
    {"ShiftLeft", "Shift", "", 16, 1},
    {"ShiftRight", "Shift", "", 16, 2},
    {"ControlLeft", "Control", "", 17, 1},
    {"ControlRight", "Control", "", 17, 2},
    {"AltLeft", "Alt", "", 18, 1},
    {"AltRight", "Alt", "", 18, 2},
    {"MetaLeft", "Meta", "", 91, 1},
    {"MetaRight", "Meta", "", 92, 2},
    {"NumpadAdd", "+", "+", 107, 3},
    {"NumpadSubtract", "-", "-", 109, 3},
    {"NumpadMultiply", "*", "*", 106, 3},
    {"NumpadDivide", "/", "/", 111, 3},
    {"NumpadDecimal", ".", ".", 110, 3},
};

static const struct {
    const char *name, *code;
    int bit;
} modifiers[] = {
    {"Alt", "AltLeft", INPUT_ALT},
    {"Control", "ControlLeft", INPUT_CONTROL},
    {"ControlOrMeta", "ControlLeft", INPUT_CONTROL},
    {"Meta", "MetaLeft", INPUT_META},
    {"Shift", "ShiftLeft", INPUT_SHIFT},
};

/* Keys that type one thing or, with Shift, another. */
static const struct {
    const char *code;
    char plain, shifted;
    int number;
} signs[] = {
    {"Backquote", '`', '~', 192},   {"Minus", '-', '_', 189},        {"Equal", '=', '+', 187},
    {"BracketLeft", '[', '{', 219}, {"BracketRight", ']', '}', 221}, {"Backslash", '\\', '|', 220},
    {"Semicolon", ';', ':', 186},   {"Quote", '\'', '"', 222},       {"Comma", ',', '<', 188},
    {"Period", '.', '>', 190},      {"Slash", '/', '?', 191},
};
static const char digits_shifted[] = ")!@#$%^&*(";

static void fill(struct input_key *out, const char *key, const char *code, const char *text,
                 int number, int location)
{
    *out = (struct input_key){.number = number, .location = location};
    memcpy(out->key, key, strlen(key) + 1);
    memcpy(out->code, code, strlen(code) + 1);
    memcpy(out->text, text, strlen(text) + 1);
}

static void fill_char(struct input_key *out, char c, const char *code, int number)
{
    const char text[2] = {c, '\0'};
    fill(out, text, code, text, number, 0);
}

static bool find_sign(const char *name, bool shift, struct input_key *out)
{
    for (size_t i = 0; i < TN_COUNT(signs); i++) {
        bool is_shifted = name[0] == signs[i].shifted && !name[1];
        if (!is_shifted && strcmp(name, signs[i].code) != 0 &&
            !(name[0] == signs[i].plain && !name[1]))
            continue;
        fill_char(out, shift || is_shifted ? signs[i].shifted : signs[i].plain, signs[i].code,
                  signs[i].number);
        return true;
    }
    return false;
}

static bool find_letter(const char *name, bool shift, struct input_key *out)
{
    const char *letter = strncmp(name, "Key", 3) == 0 && strlen(name) == 4 ? name + 3 : name;
    char code[8] = "Key?";

    if (!isalpha((unsigned char)letter[0]) || letter[1] ||
        (letter != name && !isupper((unsigned char)letter[0])))
        return false;
    int upper = toupper((unsigned char)letter[0]), lower = tolower(upper);
    bool as_upper = shift || (letter == name && letter[0] == upper);
    code[3] = (char)upper;
    fill_char(out, (char)(as_upper ? upper : lower), code, upper);
    return true;
}

static bool find_digit(const char *name, bool shift, struct input_key *out)
{
    char code[8] = "Digit?";
    const char *digit = strncmp(name, "Digit", 5) == 0 && strlen(name) == 6 ? name + 5 : name;
    const char *sign = name[0] && !name[1] ? strchr(digits_shifted, name[0]) : NULL;
    int value = sign ? (int)(sign - digits_shifted) : digit[0] - '0';

    if (!sign && (!isdigit((unsigned char)digit[0]) || digit[1]))
        return false;
    code[5] = (char)('0' + value);
    fill_char(out, shift || sign ? digits_shifted[value] : code[5], code, '0' + value);
    return true;
}

/* F1 to F24, Numpad0 to Numpad9. */
static bool find_numbered(const char *name, struct input_key *out)
{
    const char *digit = strncmp(name, "Numpad", 6) == 0 ? name + 6 : NULL;
    char *end = NULL;

    if (digit && isdigit((unsigned char)digit[0]) && !digit[1]) {
        fill(out, digit, name, digit, 96 + digit[0] - '0', 3);
        return true;
    }
    long n = name[0] == 'F' && isdigit((unsigned char)name[1]) ? strtol(name + 1, &end, 10) : 0;
    if (n < 1 || n > 24 || *end || strlen(name) > 3)
        return false;
    fill(out, name, name, "", 111 + (int)n, 0);
    return true;
}

bool input_key_find(const char *name, bool shift, struct input_key *out)
{
    for (size_t i = 0; i < TN_COUNT(modifiers); i++) {
        if (strcmp(name, modifiers[i].name) == 0)
            name = modifiers[i].code;
    }
    for (size_t i = 0; i < TN_COUNT(named); i++) {
        if (strcmp(name, named[i].name) == 0 || (strcmp(name, " ") == 0 && named[i].number == 32)) {
            fill(out, named[i].key, named[i].name, named[i].text, named[i].number,
                 named[i].location);
            return true;
        }
    }
    return find_letter(name, shift, out) || find_digit(name, shift, out) ||
           find_sign(name, shift, out) || find_numbered(name, out);
}

int input_modifier(const char *name)
{
    for (size_t i = 0; i < TN_COUNT(modifiers); i++) {
        if (strcmp(name, modifiers[i].name) == 0)
            return modifiers[i].bit;
    }
    return 0;
}
