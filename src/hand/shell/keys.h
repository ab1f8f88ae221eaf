/* Keys an agent may send to a running program by name: "C-c", "Up", "Enter", ... */
#ifndef TN_HAND_SHELL_KEYS_H
#define TN_HAND_SHELL_KEYS_H

#include <stdbool.h>
#include <stddef.h>

/* The bytes a terminal sends for the key, or NULL when text names none. */
const char *tn_key_bytes(const char *text, size_t len, size_t *bytes_len);
/* "C-x" of length 3: a control key, reported as CTRL+X. */
bool tn_key_is_control(const char *text, size_t len);

#endif
