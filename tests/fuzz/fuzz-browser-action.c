/* The action language: any text is refused or gives calls whose arguments are of their kind. */
#include "hand/browser/lang.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth)
        abort();
}

static void check_argument(const struct tn_browser_parameter *p, const struct tn_json *v)
{
    enum tn_json_type type = tn_json_type(v);

    switch (p->kind) {
    case TN_TAKES_TEXT:
    case TN_TAKES_BID:
    case TN_TAKES_BUTTON:
        must(type == TN_JSON_STRING);
        break;
    case TN_TAKES_INT:
        must(type == TN_JSON_INT);
        break;
    case TN_TAKES_NUMBER:
        must(type == TN_JSON_INT || type == TN_JSON_DOUBLE);
        break;
    case TN_TAKES_TEXTS:
        must(type == TN_JSON_STRING || type == TN_JSON_ARRAY);
        break;
    case TN_TAKES_MODIFIERS:
        must(type == TN_JSON_ARRAY);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tn_browser_program program;
    struct tn_error err = {0};

    if (tn_browser_parse((const char *)data, size, &program, &err) < 0) {
        must(strstr(err.text, "Error: ") != NULL && program.count == 0);
        return 0;
    }
    must(program.count > 0);
    for (size_t i = 0; i < program.count; i++) {
        const struct tn_browser_call *call = &program.calls[i];
        const struct tn_browser_signature *s = &tn_browser_signatures[call->function];
        for (size_t k = 0; s->parameters[k].name && !call->error; k++)
            check_argument(&s->parameters[k], call->arguments[k]);
    }
    tn_browser_program_done(&program);
    return 0;
}
