/* The plan of a jail: whatever is accepted is written again as the same plan. */
#include "jail/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_plan(const char *text, size_t n, struct tn_jail_plan *plan)
{
    tn_autojson struct tn_json *json = NULL;

    tn_jail_plan_init(plan);
    if (tn_json_parse(text, n, &json, NULL) < 0)
        return -1;
    return tn_jail_plan_from_json(json, plan, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autoplan struct tn_jail_plan plan, again;
    tn_autobuf struct tn_buf first = TN_BUF_INIT(16 << 20), second = TN_BUF_INIT(16 << 20);

    tn_jail_plan_init(&again);
    if (read_plan((const char *)data, size, &plan) < 0)
        return 0;
    struct tn_jw w = tn_jw(&first);
    tn_jail_plan_to_json(&plan, &w);
    if (read_plan(tn_buf_str(&first), first.len, &again) < 0)
        abort();
    w = tn_jw(&second);
    tn_jail_plan_to_json(&again, &w);
    if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0)
        abort();
    return 0;
}
