/* The TOML reader: every key is found, every text is UTF-8, and what was read, written out again as
 * inline tables, reads the same. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/toml.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print(struct tn_buf *out, const struct tn_toml *v);

static void must(bool truth)
{
    if (!truth)
        abort();
}

static void print_text(struct tn_buf *out, const char *s, size_t n)
{
    must(tn_utf8_valid(s, n));
    tn_buf_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            tn_buf_printf(out, "\\u%04x", c);
        else
            tn_buf_putc(out, s[i]);
    }
    tn_buf_putc(out, '"');
}

static void print_scalar(struct tn_buf *out, const struct tn_toml *v)
{
    char number[32];
    size_t n;
    const char *text = tn_toml_str(v, &n);

    if (tn_toml_type(v) == TN_TOML_STRING) {
        print_text(out, text, n);
    } else if (text) {
        tn_buf_add(out, text, n);
    } else if (tn_toml_type(v) == TN_TOML_INT) {
        tn_buf_printf(out, "%" PRId64, tn_toml_int(v, 0));
    } else if (tn_toml_type(v) == TN_TOML_FLOAT) {
        tn_format_double(number, tn_toml_double(v, 0));
        tn_buf_puts(out, number);
    } else {
        tn_buf_puts(out, tn_toml_bool(v, false) ? "true" : "false");
    }
}

static void print_pairs(struct tn_buf *out, const struct tn_toml *table, const char *between)
{
    for (size_t i = 0; i < tn_toml_count(table); i++) {
        size_t n;
        const char *key = tn_toml_key_at(table, i, &n);
        if (strlen(key) == n)
            must(tn_toml_get(table, key) == tn_toml_at(table, i));
        tn_buf_puts(out, i ? between : "");
        print_text(out, key, n);
        tn_buf_putc(out, '=');
        print(out, tn_toml_at(table, i));
    }
}

static void print(struct tn_buf *out, const struct tn_toml *v)
{
    if (tn_toml_type(v) == TN_TOML_TABLE) {
        tn_buf_putc(out, '{');
        print_pairs(out, v, ",");
        tn_buf_putc(out, '}');
    } else if (tn_toml_type(v) == TN_TOML_ARRAY) {
        tn_buf_putc(out, '[');
        for (size_t i = 0; i < tn_toml_count(v); i++) {
            print(out, tn_toml_at(v, i));
            tn_buf_putc(out, ',');
        }
        tn_buf_putc(out, ']');
    } else {
        print_scalar(out, v);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autobuf struct tn_buf first = TN_BUF_INIT(TN_TOML_BYTES_MAX),
                             second = TN_BUF_INIT(TN_TOML_BYTES_MAX);
    struct tn_error err = {0};
    tn_autotoml struct tn_toml *root = tn_toml_parse((const char *)data, size, &err);

    if (!root) {
        must(strncmp(err.text, "TOML: ", 6) == 0);
        return 0;
    }
    print_pairs(&first, root, "\n");
    if (!tn_buf_ok(&first))
        return 0;
    tn_autotoml struct tn_toml *again = tn_toml_parse(tn_buf_str(&first), first.len, &err);
    must(again);
    print_pairs(&second, again, "\n");
    must(second.len == first.len &&
         memcmp(tn_buf_str(&first), tn_buf_str(&second), first.len) == 0);
    return 0;
}
