/* Comparing secrets. */
#ifndef TN_BASE_SECRET_H
#define TN_BASE_SECRET_H

#include <stdbool.h>
#include <string.h>

/* Whether they are the same; takes the same time wherever the first difference is. */
static inline bool tn_same_secret(const char *given, const char *secret)
{
    size_t n = strlen(given), m = strlen(secret);
    unsigned char difference = n != m;

    for (size_t i = 0; i < m; i++)
        difference |= (unsigned char)(secret[i] ^ given[n ? i % n : 0]);
    return difference == 0;
}

#endif
