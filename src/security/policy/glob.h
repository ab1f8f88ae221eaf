/* Patterns of shells, matched in time that grows with the length of pattern times text and no
 * further: no pattern can make a verdict hang.
 *
 * `*` any bytes, `?` one byte, `[a-z]` and `[!a-z]` one of a set, `\` takes the next as it is. */
#ifndef TN_SECURITY_POLICY_GLOB_H
#define TN_SECURITY_POLICY_GLOB_H

#include <stdbool.h>
#include <stddef.h>

enum { GLOB_MAX = 512 }; /* bytes of a pattern; who reads rules refuses longer ones */

/* Whether the whole text matches. */
bool glob_match(const char *pattern, const char *text, size_t n);
/* Whether a part of it does. */
bool glob_find(const char *pattern, const char *text, size_t n);
/* Has any of the signs above. */
bool glob_special(const char *pattern);

/* The same for paths, part by part: `*` stays within one, a part `**` stands for any number of
 * them.  A pattern without a slash at its start fits at any depth (".env", ".git/hooks/" + "**");
 * one with `~/` at its start fits below the home of any user. */
bool glob_path(const char *pattern, const char *path);

#endif
