/* Rules: what is accepted covers itself, is judged without a fault, and is one line of a list. */
#include <stdint.h>
#include <stdlib.h>

#include "gate/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_one(const uint8_t *data, size_t size)
{
    tn_autofree char *text = tn_strndup((const char *)data, size);
    tn_autofree char *list = tn_asprintf("allow\n%s\n", text);
    tn_autorules struct tn_rules one = {0}, again = {0};

    if (tn_rules_add(&one, text, NULL) == 0 &&
        (tn_rules_parse(list, strlen(list), &again, NULL) < 0 || again.count != one.count))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autorules struct tn_rules r;
    struct tn_address a;

    add_one(data, size);
    if (tn_rules_parse((const char *)data, size, &r, NULL) < 0 || !tn_address_parse("10.0.0.1", &a))
        return 0;
    for (size_t i = 0; i < r.count; i++)
        if (!tn_rules_cover(&r, &r.items[i]))
            abort();
    const struct tn_wish wish = {.address = &a, .port = 443};
    tn_rules_allow_address(&r, &wish);
    tn_rules_allow_name(&r, "a.good.test", &wish);
    const struct tn_rule_request request = {.name = "a.good.test",
                                            .port = 443,
                                            .tls = size & 1,
                                            .method = "GET",
                                            .method_size = 3,
                                            .target = "/a/b?c",
                                            .target_size = 6};
    if (tn_rules_end_tls(&r, request.name, request.port) && !tn_rules_look_inside(&r))
        abort();
    tn_rules_allow_request(&r, &request);
    return 0;
}
