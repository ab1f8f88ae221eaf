/* Numbers, truth values, dates and times. */
#include <math.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/json-scan.h"
#include "base/toml-tree.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_literal(const char *word, size_t n, struct tn_toml *v)
{
    static const struct {
        const char *word;
        enum tn_toml_type type;
        bool truth;
        double real;
    } rows[] = {
        {"true", TN_TOML_BOOL, true, 0},       {"false", TN_TOML_BOOL, false, 0},
        {"inf", TN_TOML_FLOAT, 0, INFINITY},   {"+inf", TN_TOML_FLOAT, 0, INFINITY},
        {"-inf", TN_TOML_FLOAT, 0, -INFINITY}, {"nan", TN_TOML_FLOAT, 0, NAN},
        {"+nan", TN_TOML_FLOAT, 0, NAN},       {"-nan", TN_TOML_FLOAT, 0, -NAN},
    };
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        if (strlen(rows[i].word) != n || memcmp(rows[i].word, word, n) != 0)
            continue;
        v->type = rows[i].type;
        if (v->type == TN_TOML_BOOL)
            v->truth = rows[i].truth;
        else
            v->real = rows[i].real;
        return true;
    }
    return false;
}

/* --- dates and times ----------------------------------------------------------------------- */

/* Takes `width` digits worth least..most from the front of the word. */
static bool take_number(const char **p, const char *end, int width, int least, int most, int *out)
{
    int value = 0;

    if (end - *p < width)
        return false;
    for (int i = 0; i < width; i++) {
        if (!is_digit((*p)[i]))
            return false;
        value = value * 10 + ((*p)[i] - '0');
    }
    *p += width;
    *out = value;
    return value >= least && value <= most;
}

static bool take(const char **p, const char *end, const char *any_of)
{
    if (*p == end || !strchr(any_of, **p))
        return false;
    (*p)++;
    return true;
}

static int days_in(int year, int month)
{
    static const int days[] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month] + (month == 2 && leap);
}

static bool take_date(const char **p, const char *end)
{
    int year, month, day;
    return take_number(p, end, 4, 0, 9999, &year) && take(p, end, "-") &&
           take_number(p, end, 2, 1, 12, &month) && take(p, end, "-") &&
           take_number(p, end, 2, 1, days_in(year, month), &day);
}

static bool take_time(const char **p, const char *end)
{
    int hour, minute, second;

    if (!take_number(p, end, 2, 0, 23, &hour) || !take(p, end, ":") ||
        !take_number(p, end, 2, 0, 59, &minute) || !take(p, end, ":") ||
        !take_number(p, end, 2, 0, 60, &second)) /* 60: leap seconds exist */
        return false;
    if (!take(p, end, "."))
        return true;
    const char *fraction = *p;
    while (*p < end && is_digit(**p))
        (*p)++;
    return *p > fraction;
}

static bool take_offset(const char **p, const char *end)
{
    int hour, minute;
    if (take(p, end, "Zz"))
        return true;
    return take(p, end, "+-") && take_number(p, end, 2, 0, 23, &hour) && take(p, end, ":") &&
           take_number(p, end, 2, 0, 59, &minute);
}

static const char *read_moment(const char *word, size_t n, bool date_first, struct tn_toml *v)
{
    const char *p = word, *end = word + n;
    enum tn_toml_type type = TN_TOML_TIME_LOCAL;

    if (!date_first && !take_time(&p, end))
        return "not a valid time";
    if (date_first) {
        if (!take_date(&p, end))
            return "not a valid date";
        type = TN_TOML_DATE_LOCAL;
        if (take(&p, end, "Tt ")) {
            if (!take_time(&p, end))
                return "not a valid time in a date-time";
            type = TN_TOML_DATETIME_LOCAL;
            if (p < end) {
                if (!take_offset(&p, end))
                    return "not a valid time offset";
                type = TN_TOML_DATETIME;
            }
        }
    }
    if (p < end)
        return "not a valid date or time";
    v->type = type;
    v->text.bytes = tn_strndup(word, n);
    v->text.len = n;
    return NULL;
}

/* --- numbers ------------------------------------------------------------------------------- */

static int digit_of(char c, int base)
{
    int value = tn_hex_digit(c);

    return value < base ? value : -1;
}

/* Moves digits to out; an underscore may stand between two of them.  Returns how many digits. */
static size_t take_digits(const char **p, const char *end, int base, struct tn_buf *out)
{
    size_t count = 0;

    while (*p < end) {
        const char *digit = *p + (**p == '_' && count > 0);
        if (digit == end || digit_of(*digit, base) < 0)
            break;
        tn_buf_putc(out, *digit);
        *p = digit + 1;
        count++;
    }
    return count;
}

static const char *make_integer(const char *digits, int base, bool negative, struct tn_toml *v)
{
    int64_t value = 0;

    for (; *digits; digits++) {
        int digit = digit_of(*digits, base);
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return "an integer beyond 64 bits";
    }
    v->type = TN_TOML_INT;
    v->integer = value;
    return NULL;
}

static const char *read_prefixed(const char *word, size_t n, int base, struct tn_toml *v)
{
    const char *p = word + 2, *end = word + n;
    tn_autobuf struct tn_buf digits = TN_BUF_INIT(n);

    if (take_digits(&p, end, base, &digits) == 0 || p < end)
        return "not a valid integer";
    return make_integer(tn_buf_str(&digits), base, false, v);
}

static const char *read_decimal(const char *word, size_t n, struct tn_toml *v)
{
    const char *p = word, *end = word + n;
    tn_autobuf struct tn_buf clean = TN_BUF_INIT(n);
    bool real = false, negative = *p == '-';

    if (take(&p, end, "+-") && negative)
        tn_buf_putc(&clean, '-');
    const char *first = p;
    size_t whole = take_digits(&p, end, 10, &clean);
    if (whole == 0)
        return "not a value TOML knows";
    if (whole > 1 && *first == '0')
        return "a number with a leading zero";
    if (take(&p, end, ".")) {
        real = true;
        tn_buf_putc(&clean, '.');
        if (take_digits(&p, end, 10, &clean) == 0)
            return "a decimal point without digits after it";
    }
    if (take(&p, end, "eE")) {
        real = true;
        tn_buf_putc(&clean, 'e');
        const char *sign = p;
        if (take(&p, end, "+-"))
            tn_buf_putc(&clean, *sign);
        if (take_digits(&p, end, 10, &clean) == 0)
            return "an exponent without digits";
    }
    if (p < end)
        return "not a valid number";
    if (!real)
        return make_integer(tn_buf_str(&clean) + negative, 10, negative, v);
    v->type = TN_TOML_FLOAT;
    v->real = tn_strtod(tn_buf_str(&clean));
    return NULL;
}

static bool starts_with_digits(const char *word, size_t n, size_t count, char then)
{
    if (n <= count || word[count] != then)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!is_digit(word[i]))
            return false;
    return true;
}

const char *toml_scalar(const char *word, size_t n, struct tn_toml *v)
{
    static const struct {
        char letter;
        int base;
    } prefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};

    if (is_literal(word, n, v))
        return NULL;
    bool date = starts_with_digits(word, n, 4, '-');
    if (date || starts_with_digits(word, n, 2, ':'))
        return read_moment(word, n, date, v);
    for (size_t i = 0; i < TN_COUNT(prefixes); i++)
        if (n > 2 && word[0] == '0' && word[1] == prefixes[i].letter)
            return read_prefixed(word, n, prefixes[i].base, v);
    return read_decimal(word, n, v);
}
