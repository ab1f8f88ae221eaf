/* Any JSON as an action and as an observation: what is accepted survives a round trip unchanged. */
#include <assert.h>
#include <stdint.h>

#include "event/observation.h"

#define BYTES_MAX ((size_t)16 << 20)

static struct tn_json *parse(const struct tn_buf *text)
{
    struct tn_json *tree = NULL;
    if (!tn_buf_ok(text))
        return NULL;
    int result = tn_json_parse(text->data, text->len, &tree, NULL);
    assert(result == 0 && "what we write is JSON");
    return tree;
}

static bool write_action(const struct tn_json *json, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);
    struct tn_action a;
    struct tn_error err;

    if (tn_action_from_json(json, &a, &err) < 0)
        return false;
    tn_action_to_json(&a, &w);
    tn_action_done(&a);
    return tn_buf_ok(out);
}

static bool write_observation(const struct tn_json *json, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);
    struct tn_observation o;
    struct tn_error err;

    if (tn_observation_from_json(json, &o, &err) < 0)
        return false;
    tn_observation_to_json(&o, &w);
    tn_observation_done(&o);
    return tn_buf_ok(out);
}

static void round_trip(const struct tn_json *json,
                       bool (*rewrite)(const struct tn_json *json, struct tn_buf *out))
{
    tn_autobuf struct tn_buf first = TN_BUF_INIT(BYTES_MAX), second = TN_BUF_INIT(BYTES_MAX);

    if (!rewrite(json, &first))
        return;
    tn_autojson struct tn_json *again = parse(&first);
    bool accepted = rewrite(again, &second);
    assert(accepted && "what we write we accept");
    (void)accepted;
    assert(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autojson struct tn_json *json = NULL;
    struct tn_error err;

    if (tn_json_parse((const char *)data, size, &json, &err) < 0)
        return 0;
    round_trip(json, write_action);
    round_trip(json, write_observation);
    return 0;
}
