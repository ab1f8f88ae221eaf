/* Reads TOML on standard input and prints it as JSON in which every value carries its type:
 * {"type":"integer","value":"1"}.  What is not TOML is explained on standard error, exit 1. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/toml.h"

static void dump(struct tn_jw *w, const struct tn_toml *v);

static const char *tag(enum tn_toml_type type)
{
    switch (type) {
    case TN_TOML_STRING:
        return "string";
    case TN_TOML_INT:
        return "integer";
    case TN_TOML_FLOAT:
        return "float";
    case TN_TOML_BOOL:
        return "bool";
    case TN_TOML_DATETIME:
        return "datetime";
    case TN_TOML_DATETIME_LOCAL:
        return "datetime-local";
    case TN_TOML_DATE_LOCAL:
        return "date-local";
    case TN_TOML_TIME_LOCAL:
        return "time-local";
    case TN_TOML_TABLE:
    case TN_TOML_ARRAY:
        break;
    }
    abort();
}

static void dump_scalar(struct tn_jw *w, const struct tn_toml *v)
{
    char number[32];
    size_t len;
    const char *text = tn_toml_str(v, &len);

    if (!text) {
        enum tn_toml_type type = tn_toml_type(v);
        if (type == TN_TOML_INT)
            snprintf(number, sizeof number, "%" PRId64, tn_toml_int(v, 0));
        else if (type == TN_TOML_FLOAT)
            tn_format_double(number, tn_toml_double(v, 0));
        else
            snprintf(number, sizeof number, "%s", tn_toml_bool(v, false) ? "true" : "false");
        text = number;
        len = strlen(number);
    }
    tn_jw_object(w);
    tn_jw_kstr(w, "type", tag(tn_toml_type(v)));
    tn_jw_key(w, "value");
    tn_jw_strn(w, text, len);
    tn_jw_object_end(w);
}

static void dump_table(struct tn_jw *w, const struct tn_toml *v)
{
    tn_jw_object(w);
    for (size_t i = 0; i < tn_toml_count(v); i++) {
        size_t len;
        const char *key = tn_toml_key_at(v, i, &len);
        /* tn_jw_key takes a C string, but a key may hold a NUL. */
        tn_jw_strn(w, key, len);
        tn_buf_putc(w->out, ':');
        w->comma = false;
        dump(w, tn_toml_at(v, i));
    }
    tn_jw_object_end(w);
}

static void dump(struct tn_jw *w, const struct tn_toml *v)
{
    if (tn_toml_type(v) == TN_TOML_TABLE) {
        dump_table(w, v);
    } else if (tn_toml_type(v) == TN_TOML_ARRAY) {
        tn_jw_array(w);
        for (size_t i = 0; i < tn_toml_count(v); i++)
            dump(w, tn_toml_at(v, i));
        tn_jw_array_end(w);
    } else {
        dump_scalar(w, v);
    }
}

int main(void)
{
    tn_autobuf struct tn_buf in = TN_BUF_INIT(4 << 20), out = TN_BUF_INIT(256 << 20);
    struct tn_error err;
    char *room;

    while ((room = tn_buf_reserve(&in, 65536))) {
        ssize_t n = read(STDIN_FILENO, room, 65536);
        if (n <= 0)
            break;
        tn_buf_grew(&in, (size_t)n);
    }
    tn_autotoml struct tn_toml *root = tn_toml_parse(tn_buf_str(&in), in.len, &err);
    if (!root) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    struct tn_jw w = tn_jw(&out);
    dump(&w, root);
    tn_buf_putc(&out, '\n');
    if (!tn_buf_ok(&out))
        return 2;
    return fwrite(out.data, 1, out.len, stdout) == out.len ? 0 : 2;
}
