/* Order and words of the complaints are Python's. */
#include "hand/browser/lang-bind.h"

#include <math.h>

#include "base/py-literal.h"
#include "hand/browser/repr.h"

enum { ERROR_MAX = 4096 };

static int raise(struct tn_browser_call *call, const char *fmt, ...) TN_PRINTF(2, 3);

static int raise(struct tn_browser_call *call, const char *fmt, ...)
{
    struct tn_buf text = TN_BUF_INIT(ERROR_MAX);
    va_list ap;

    va_start(ap, fmt);
    tn_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    call->error = tn_buf_take(&text);
    return -1;
}

static size_t parameter_count(const struct tn_browser_signature *s)
{
    size_t n = 0;
    while (s->parameters[n].name)
        n++;
    return n;
}

/* --- which argument belongs to which parameter ---------------------------------------------- */

static int bind_named(struct tn_browser_call *call, const struct tn_browser_signature *s,
                      struct tn_lang_argument *argument, bool given[])
{
    for (size_t i = 0; s->parameters[i].name; i++) {
        if (strcmp(s->parameters[i].name, argument->name) != 0)
            continue;
        if (given[i])
            return raise(call, "TypeError: %s() got multiple values for argument '%s'", s->name,
                         argument->name);
        given[i] = true;
        call->arguments[i] = TN_TAKE_PTR(argument->value);
        return 0;
    }
    return raise(call, "TypeError: %s() got an unexpected keyword argument '%.200s'", s->name,
                 argument->name);
}

static int check_repeated(struct tn_browser_call *call, const struct tn_lang_argument *arguments,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; arguments[i].name && k < i; k++) {
            if (arguments[k].name && strcmp(arguments[i].name, arguments[k].name) == 0)
                return raise(call, "SyntaxError: keyword argument repeated: %.200s",
                             arguments[i].name);
        }
    }
    return 0;
}

static int complain_too_many(struct tn_browser_call *call, const struct tn_browser_signature *s,
                             size_t given)
{
    size_t most = parameter_count(s), least = 0;
    char from[32] = "";

    while (least < most && !s->parameters[least].fallback)
        least++;
    if (least < most)
        snprintf(from, sizeof from, "from %zu to ", least);
    return raise(call, "TypeError: %s() takes %s%zu positional argument%s but %zu %s given",
                 s->name, from, most, most == 1 && least == most ? "" : "s", given,
                 given == 1 ? "was" : "were");
}

static int check_missing(struct tn_browser_call *call, const struct tn_browser_signature *s,
                         const bool given[])
{
    tn_autobuf struct tn_buf names = TN_BUF_INIT(ERROR_MAX);
    size_t missing = 0, named = 0;

    for (size_t i = 0; s->parameters[i].name; i++)
        missing += !given[i] && !s->parameters[i].fallback;
    if (!missing)
        return 0;
    for (size_t i = 0; s->parameters[i].name; i++) {
        if (given[i] || s->parameters[i].fallback)
            continue;
        if (named)
            tn_buf_puts(&names, missing == 2 ? " and " : named + 1 < missing ? ", " : ", and ");
        tn_buf_printf(&names, "'%s'", s->parameters[i].name);
        named++;
    }
    return raise(call, "TypeError: %s() missing %zu required positional argument%s: %s", s->name,
                 missing, missing == 1 ? "" : "s", tn_buf_str(&names));
}

/* --- values --------------------------------------------------------------------------------- */

static const char *const buttons[] = {"left", "right", "middle", NULL};
static const char *const modifiers[] = {"Alt", "Control", "ControlOrMeta", "Meta", "Shift", NULL};

static bool is_one_of(const struct tn_json *v, const char *const *words)
{
    const char *s = tn_json_str(v, NULL);
    for (; s && *words; words++)
        if (strcmp(s, *words) == 0)
            return true;
    return false;
}

/* What the browser's own checks call a value's type. */
static const char *type_word(const struct tn_json *v)
{
    static const char *const words[] = {
        [TN_JSON_NULL] = "null",     [TN_JSON_BOOL] = "boolean",  [TN_JSON_INT] = "number",
        [TN_JSON_DOUBLE] = "number", [TN_JSON_STRING] = "string", [TN_JSON_ARRAY] = "array",
        [TN_JSON_OBJECT] = "object",
    };
    return words[tn_json_type(v)];
}

static int refuse(struct tn_browser_call *call, const struct tn_browser_parameter *p,
                  const char *expected, const struct tn_json *v)
{
    return raise(call, "Error: %s: %s: expected %s, got %s",
                 tn_browser_signatures[call->function].operation, p->name, expected, type_word(v));
}

static int check_choice(struct tn_browser_call *call, const char *where, const struct tn_json *v,
                        const char *const *words)
{
    tn_autobuf struct tn_buf list = TN_BUF_INIT(256);

    if (is_one_of(v, words))
        return 0;
    for (size_t i = 0; words[i]; i++)
        tn_buf_printf(&list, "%s%s", i ? "|" : "", words[i]);
    return raise(call, "Error: %s: %s: expected one of (%s)",
                 tn_browser_signatures[call->function].operation, where, tn_buf_str(&list));
}

static int check_modifiers(struct tn_browser_call *call, const struct tn_browser_parameter *p,
                           const struct tn_json *v)
{
    if (tn_json_type(v) != TN_JSON_ARRAY)
        return refuse(call, p, "array", v);
    for (size_t i = 0; i < tn_json_count(v); i++) {
        char where[64];
        snprintf(where, sizeof where, "%s[%zu]", p->name, i);
        if (check_choice(call, where, tn_json_at(v, i), modifiers) < 0)
            return -1;
    }
    return 0;
}

static int check_bid(struct tn_browser_call *call, const struct tn_json *v)
{
    tn_autobuf struct tn_buf repr = TN_BUF_INIT(1024);

    if (tn_json_type(v) == TN_JSON_STRING)
        return 0;
    tn_put_repr_json(&repr, v);
    return raise(call, "ValueError: expected a string, got %s", tn_buf_str(&repr));
}

static int check_texts(struct tn_browser_call *call, const struct tn_browser_parameter *p,
                       const struct tn_json *v)
{
    if (tn_json_type(v) != TN_JSON_ARRAY)
        return tn_json_type(v) == TN_JSON_STRING ? 0 : refuse(call, p, "string", v);
    for (size_t i = 0; i < tn_json_count(v); i++)
        if (tn_json_type(tn_json_at(v, i)) != TN_JSON_STRING)
            return refuse(call, p, "string", tn_json_at(v, i));
    return 0;
}

static int check_value(struct tn_browser_call *call, const struct tn_browser_parameter *p,
                       const struct tn_json *v)
{
    enum tn_json_type type = tn_json_type(v);
    double number = tn_json_double(v, NAN);

    switch (p->kind) {
    case TN_TAKES_TEXT:
        return type == TN_JSON_STRING ? 0 : refuse(call, p, "string", v);
    case TN_TAKES_BID:
        return check_bid(call, v);
    case TN_TAKES_NUMBER:
        if ((type == TN_JSON_INT || type == TN_JSON_DOUBLE) && isfinite(number))
            return 0;
        return refuse(call, p, "number", v);
    case TN_TAKES_INT:
        return type == TN_JSON_INT ? 0 : refuse(call, p, "integer", v);
    case TN_TAKES_TEXTS:
        return check_texts(call, p, v);
    case TN_TAKES_BUTTON:
        return check_choice(call, p->name, v, buttons);
    case TN_TAKES_MODIFIERS:
        return check_modifiers(call, p, v);
    }
    return 0;
}

static int bind(struct tn_browser_call *call, struct tn_lang_argument *arguments, size_t count)
{
    const struct tn_browser_signature *s = &tn_browser_signatures[call->function];
    bool given[TN_BROWSER_PARAMETERS_MAX] = {false};
    size_t parameters = parameter_count(s), positional = 0;

    if (check_repeated(call, arguments, count) < 0)
        return -1;
    for (; positional < count && !arguments[positional].name; positional++) {
        if (positional >= parameters)
            continue;
        given[positional] = true;
        call->arguments[positional] = TN_TAKE_PTR(arguments[positional].value);
    }
    for (size_t i = positional; i < count; i++)
        if (bind_named(call, s, &arguments[i], given) < 0)
            return -1;
    if (positional > parameters)
        return complain_too_many(call, s, positional);
    if (check_missing(call, s, given) < 0)
        return -1;
    for (size_t i = 0; i < parameters; i++) {
        const struct tn_browser_parameter *p = &s->parameters[i];
        if (!given[i])
            tn_py_literal(p->fallback, strlen(p->fallback), &call->arguments[i], NULL);
        if (check_value(call, p, call->arguments[i]) < 0)
            return -1;
    }
    return 0;
}

void tn_lang_bind(struct tn_browser_call *call, struct tn_lang_argument *arguments, size_t count)
{
    bind(call, arguments, count);
}
