/* Names of keys on a US keyboard, as Playwright spells them. */
#ifndef TN_HAND_BROWSER_INPUT_KEYS_H
#define TN_HAND_BROWSER_INPUT_KEYS_H

#include <stdbool.h>

enum {
    INPUT_ALT = 1,
    INPUT_CONTROL = 2,
    INPUT_META = 4,
    INPUT_SHIFT = 8,
};

struct input_key {
    char key[24];  /* what a page sees: "a", "Enter" */
    char code[16]; /* the place on the keyboard: "KeyA" */
    char text[8];  /* what it types, or "" */
    int number;    /* its virtual key code */
    int location;  /* 1 left, 2 right, 3 keypad */
};

/* The key of that name ("a", "A", "KeyA", "$", "Enter", "ArrowLeft"), with Shift held or not.
 * False for an unknown one. */
bool input_key_find(const char *name, bool shift, struct input_key *out);

/* The bit of "Alt", "Control", "ControlOrMeta", "Meta" or "Shift", or 0. */
int input_modifier(const char *name);

#endif
