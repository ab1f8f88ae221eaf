#include "security/policy/glob.h"

#include <string.h>

/* Matches one byte against the sign at *pattern and moves on; false leaves *pattern alone. */
static bool match_one(const char **pattern, const char *end, char byte)
{
    const char *p = *pattern;

    if (*p == '[') {
        bool not = p + 1 < end && (p[1] == '!' || p[1] == '^'), found = false;
        const char *at = p + 1 + not, *first = at;
        for (; at < end && (*at != ']' || at == first); at++) {
            if (at + 2 < end && at[1] == '-' && at[2] != ']') {
                found |= *at <= byte && byte <= at[2];
                at += 2;
            } else {
                found |= *at == byte;
            }
        }
        if (at < end) { /* else the bracket is one like any other byte */
            *pattern = at + 1;
            return found != not ;
        }
    }
    if (*p == '\\' && p + 1 < end)
        p++;
    else if (*p == '?')
        byte = '?';
    if (*p != byte)
        return false;
    *pattern = p + 1;
    return true;
}

/* Only the last star is ever tried again: where the text between two stars fits first is as good
 * as anywhere else. */
static bool match_span(const char *p, const char *end, const char *s, size_t n, bool part)
{
    const char *stop = s + n, *star = NULL, *again = NULL;

    if (part) {
        star = p;
        again = s;
    }
    for (;;) {
        const char *at = p;
        if (p < end && *p == '*') {
            star = ++p;
            again = s;
        } else if (p == end && (s == stop || part)) {
            return true;
        } else if (s < stop && p < end && match_one(&at, end, *s)) {
            p = at;
            s++;
        } else if (star && again < stop) {
            s = ++again;
            p = star;
            if (p < end && !strchr("*?[\\", *p)) {
                s = memchr(s, *p, (size_t)(stop - s));
                if (!s)
                    return false;
                again = s;
            }
        } else {
            return false;
        }
    }
}

/* Most patterns are ruled out by their first byte. */
static bool may_begin(char sign, char byte)
{
    return sign == byte || sign == '*' || sign == '?' || sign == '[' || sign == '\\';
}

bool glob_match(const char *pattern, const char *text, size_t n)
{
    return may_begin(*pattern, n ? *text : '\0') &&
           match_span(pattern, pattern + strlen(pattern), text, n, false);
}

bool glob_find(const char *pattern, const char *text, size_t n)
{
    return match_span(pattern, pattern + strlen(pattern), text, n, true);
}

bool glob_special(const char *pattern)
{
    return strpbrk(pattern, "*?[\\") != NULL;
}

/* --- paths ------------------------------------------------------------------------------------ */

static const char *part_end(const char *at)
{
    return at + strcspn(at, "/");
}

static const char *part_next(const char *at)
{
    at = part_end(at);
    return *at ? at + 1 : at;
}

/* The same walk with whole parts in the place of bytes. */
static bool match_parts(const char *p, const char *s)
{
    const char *star = NULL, *again = NULL;

    for (;;) {
        const char *end = part_end(p);
        if (end - p == 2 && p[0] == '*' && p[1] == '*') {
            if (!*end)
                return true;
            star = p = end + 1;
            again = s;
        } else if (!*p && !*s) {
            return true;
        } else if (*s && *p && match_span(p, end, s, (size_t)(part_end(s) - s), false)) {
            p = part_next(p);
            s = part_next(s);
        } else if (star && *again) {
            s = again = part_next(again);
            p = star;
        } else {
            return false;
        }
    }
}

bool glob_path(const char *pattern, const char *path)
{
    static const char *const homes[] = {"~/", "/root/", "/home/"};

    if (pattern[0] == '/')
        return path[0] == '/' && may_begin(pattern[1], path[1]) &&
               match_parts(pattern + 1, path + 1);
    if (pattern[0] == '~' && pattern[1] == '/') {
        if (path[0] != '~' && path[0] != '/')
            return false;
        for (size_t i = 0; i < 3; i++) {
            size_t n = strlen(homes[i]);
            if (strncmp(path, homes[i], n) == 0)
                return match_parts(pattern + 2, i == 2 ? part_next(path + n) : path + n);
        }
        return false;
    }
    if (strncmp(pattern, "**/", 3) == 0) /* it begins anywhere by itself */
        return match_parts(pattern, path[0] == '/' ? path + 1 : path);
    for (const char *s = path[0] == '/' ? path + 1 : path; *s; s = part_next(s)) {
        if (may_begin(*pattern, *s) && match_parts(pattern, s))
            return true;
    }
    return false;
}
