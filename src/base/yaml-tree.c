#include "base/yaml-tree.h"

#include <strings.h>
#include <yaml.h>

#include "base/library.h"
#include "base/py-literal.h"

#define DEPTH_MAX 32
#define BYTES_MAX (16u << 20)

/* --- the library -------------------------------------------------------------------------- */

#define FUNCTIONS(_)            \
    _(yaml_parser_initialize)   \
    _(yaml_parser_delete)       \
    _(yaml_parser_set_encoding) \
    _(yaml_parser_parse)        \
    _(yaml_event_delete)        \
    _(yaml_parser_set_input_string)

#define MEMBER(name) __typeof__(name) *name;
static struct {
    FUNCTIONS(MEMBER)
} lib;

static const struct tn_library_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(__typeof__(lib), name)},
    FUNCTIONS(SYMBOL)};

static struct tn_library library = {
    .user = "YAML",
    .name = "libyaml",
    .file = "libyaml-0.so.2",
    .package = "libyaml-0-2",
    .symbols = symbols,
    .symbol_count = TN_COUNT(symbols),
    .functions = &lib,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

/* --- scalars ------------------------------------------------------------------------------ */

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static bool is_number(const char *text)
{
    const char *at = text + (*text == '-' || *text == '+');
    size_t digits = strspn(at, "0123456789");

    if (digits == 0 && *at != '.')
        return false;
    /* 007 is no number that JSON could write; 1.2.3 and 1:30 are none at all. */
    if (digits > 1 && at[0] == '0')
        return false;
    return at[strspn(at, "0123456789.eE+-")] == '\0';
}

static void write_scalar(struct tn_jw *w, const yaml_event_t *e)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", NULL};
    static const char *const no[] = {"false", "False", "FALSE", NULL};
    const char *text = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    tn_autojson struct tn_json *number = NULL;

    if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || strlen(text) != n)
        tn_jw_strn(w, text, n);
    else if (is_one_of(text, nulls))
        tn_jw_null(w);
    else if (is_one_of(text, yes) || is_one_of(text, no))
        tn_jw_bool(w, is_one_of(text, yes));
    else if (is_number(text) && tn_py_literal(text, n, &number, NULL) == 0)
        tn_jw_tree(w, number);
    else
        tn_jw_strn(w, text, n);
}

/* --- the document ------------------------------------------------------------------------- */

struct reader {
    yaml_parser_t parser;
    struct tn_jw w;
    struct {
        bool mapping, value; /* the next thing is the value of a key */
    } stack[DEPTH_MAX];
    int depth;
    int values, most, documents;
    struct tn_error *err;
};

static int refuse(const struct reader *r, const yaml_event_t *e, const char *why)
{
    return tn_fail(r->err, TN_E_UNPROCESSABLE, "YAML, line %zu: %s", e->start_mark.line + 1, why);
}

/* Whatever comes next is a key; only scalars can be. */
static bool expects_key(const struct reader *r)
{
    return r->depth > 0 && r->stack[r->depth - 1].mapping && !r->stack[r->depth - 1].value;
}

static void value_is_done(struct reader *r)
{
    if (r->depth > 0)
        r->stack[r->depth - 1].value = false;
}

static int open_level(struct reader *r, const yaml_event_t *e, bool mapping)
{
    if (expects_key(r))
        return refuse(r, e, "a key must be plain text");
    if (r->depth == DEPTH_MAX)
        return refuse(r, e, "too deep");
    r->stack[r->depth].mapping = mapping;
    r->stack[r->depth++].value = false;
    if (mapping)
        tn_jw_object(&r->w);
    else
        tn_jw_array(&r->w);
    return 0;
}

static void close_level(struct reader *r, bool mapping)
{
    r->depth--;
    if (mapping)
        tn_jw_object_end(&r->w);
    else
        tn_jw_array_end(&r->w);
    value_is_done(r);
}

static int take_scalar(struct reader *r, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;

    if (!expects_key(r)) {
        write_scalar(&r->w, e);
        value_is_done(r);
        return 0;
    }
    if (strlen(text) != e->data.scalar.length)
        return refuse(r, e, "a key with a NUL byte");
    tn_jw_key(&r->w, text);
    r->stack[r->depth - 1].value = true;
    return 0;
}

/* 1 at the end of everything. */
static int take_event(struct reader *r, const yaml_event_t *e)
{
    if (++r->values > r->most)
        return refuse(r, e, "too many values");
    switch (e->type) {
    case YAML_STREAM_END_EVENT:
        return 1;
    case YAML_DOCUMENT_START_EVENT:
        return r->documents++ ? refuse(r, e, "more than one document") : 0;
    case YAML_ALIAS_EVENT:
        return refuse(r, e, "aliases are not supported");
    case YAML_SCALAR_EVENT:
        return take_scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(r, e, false);
    case YAML_MAPPING_START_EVENT:
        return open_level(r, e, true);
    case YAML_SEQUENCE_END_EVENT:
        close_level(r, false);
        return 0;
    case YAML_MAPPING_END_EVENT:
        close_level(r, true);
        return 0;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    return 0;
}

static int read_all(struct reader *r)
{
    int result = 0;

    while (result == 0) {
        yaml_event_t e;
        if (!lib.yaml_parser_parse(&r->parser, &e))
            return tn_fail(r->err, TN_E_UNPROCESSABLE, "YAML, line %zu: %s",
                           r->parser.problem_mark.line + 1,
                           r->parser.problem ? r->parser.problem : "not YAML");
        result = take_event(r, &e);
        lib.yaml_event_delete(&e);
        if (!tn_buf_ok(r->w.out))
            return tn_fail(r->err, TN_E_TOO_LARGE, "YAML: too large");
    }
    return result < 0 ? -1 : 0;
}

int tn_yaml_parse(const char *text, size_t len, int most, struct tn_json **tree,
                  struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(BYTES_MAX);
    struct reader r = {.w = tn_jw(&json), .most = most, .err = err};

    if (tn_library_load(&library, err) < 0)
        return -1;
    if (len > BYTES_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "YAML: too large");
    if (!lib.yaml_parser_initialize(&r.parser))
        return tn_fail(err, TN_E_INTERNAL, "YAML: out of memory");
    lib.yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    lib.yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    int result = read_all(&r);
    lib.yaml_parser_delete(&r.parser);
    *tree = NULL;
    if (result < 0)
        return -1;
    return json.len ? tn_json_parse(json.data, json.len, tree, err) : 0;
}
