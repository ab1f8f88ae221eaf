/* Hexadecimal digits. */
#ifndef TN_BASE_HEX_H
#define TN_BASE_HEX_H

/* What the digit stands for, of either case; -1 for anything else. */
static inline int tn_hex_digit(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
