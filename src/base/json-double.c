/* Doubles as Python's repr prints them: the shortest digits that read back as the same value. */
#include <float.h>
#include <locale.h>
#include <math.h>

#include "base/json-scan.h"
#include "base/json.h"

#define DIGITS_MAX 17

/* 0.d1d2d3... times ten to the power `point`. */
struct decimal {
    char digits[DIGITS_MAX + 1];
    int count;
    int point;
};

double tn_strtod(const char *text)
{
    /* glibc keeps the C locale as a constant: this allocates nothing. */
    return strtod_l(text, NULL, newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

/* v > 0 rounded to `count` digits.  printf may put a locale's decimal point: only digits are kept.
 */
static struct decimal round_to(double v, int count)
{
    struct decimal d = {.count = 0};
    char text[40];

    snprintf(text, sizeof text, "%.*e", count - 1, v);
    const char *exponent = strchr(text, 'e');
    for (const char *p = text; p < exponent; p++)
        if (*p >= '0' && *p <= '9')
            d.digits[d.count++] = *p;
    d.point = (int)strtol(exponent + 1, NULL, 10) + 1;
    return d;
}

static bool reads_back(const struct decimal *d, double v)
{
    char text[40];
    snprintf(text, sizeof text, "%.*se%d", d->count, d->digits, d->point - d->count);
    return tn_strtod(text) == v;
}

static bool bump_last_digit(struct decimal *d)
{
    if (d->digits[d->count - 1] == '9')
        return false;
    d->digits[d->count - 1]++;
    return true;
}

static struct decimal shortest(double v)
{
    /* Every decimal of 15 digits survives a trip through a normal double, so one try finds all
     * shorter ones as well.  Subnormals have less precision and need the search from one digit. */
    for (int count = v < DBL_MIN ? 1 : DBL_DIG; count < DIGITS_MAX; count++) {
        struct decimal d = round_to(v, count);
        if (reads_back(&d, v))
            return d;
        /* Below a power of two the doubles lie closer than above it: there the nearest decimal may
         * miss while the next larger one reads back. */
        int exponent;
        if (frexp(v, &exponent) == 0.5 && bump_last_digit(&d) && reads_back(&d, v))
            return d;
    }
    return round_to(v, DIGITS_MAX);
}

void tn_format_double(char out[32], double v)
{
    const char *sign = signbit(v) ? "-" : "";
    if (isnan(v)) {
        snprintf(out, 32, "nan");
        return;
    }
    if (isinf(v)) {
        snprintf(out, 32, "%sinf", sign);
        return;
    }
    if (v == 0) {
        snprintf(out, 32, "%s0.0", sign);
        return;
    }
    struct decimal d = shortest(fabs(v));
    while (d.count > 1 && d.digits[d.count - 1] == '0')
        d.count--;
    if (d.point > 16 || d.point < -3)
        snprintf(out, 32, "%s%c%s%.*se%c%02d", sign, d.digits[0], d.count > 1 ? "." : "",
                 d.count - 1, d.digits + 1, d.point > 0 ? '+' : '-', abs(d.point - 1));
    else if (d.point <= 0)
        snprintf(out, 32, "%s0.%.*s%.*s", sign, -d.point, "000", d.count, d.digits);
    else if (d.count <= d.point)
        snprintf(out, 32, "%s%.*s%.*s.0", sign, d.count, d.digits, d.point - d.count,
                 "0000000000000000");
    else
        snprintf(out, 32, "%s%.*s.%.*s", sign, d.point, d.digits, d.count - d.point,
                 d.digits + d.point);
}
