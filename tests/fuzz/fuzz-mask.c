/* The first line is a secret, the rest an event: what comes out is JSON and does not hold it. */
#include "base/json.h"
#include "event/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth)
        abort();
}

static const char *secret;

/* Is [at, end) touched by the word that hides secrets?  With it, a secret may come about anew. */
static bool touches_mark(const char *text, size_t n, const char *at, const char *end)
{
    size_t mark = strlen(TN_SECRET_HIDDEN);

    for (const char *m = text; (m = memmem(m, n - (size_t)(m - text), TN_SECRET_HIDDEN, mark)); m++)
        if (m < end && m + mark > at)
            return true;
    return false;
}

static void check(const char *text, size_t n)
{
    size_t len = strlen(secret);

    for (const char *at = text; (at = memmem(at, n - (size_t)(at - text), secret, len)); at++)
        must(touches_mark(text, n, at, at + len));
}

static int check_tree(const char *key, struct tn_json *value, void *depth)
{
    int *level = depth;
    size_t n;
    const char *text = tn_json_str(value, &n);

    /* of the first levels only texts that are not the protocol's */
    if (text && *level > 1)
        check(text, n);
    (*level)++;
    tn_json_each(value, check_tree, depth);
    for (size_t i = 0; tn_json_type(value) == TN_JSON_ARRAY && i < tn_json_count(value); i++)
        check_tree("", tn_json_at(value, i), depth);
    (*level)--;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 24);
    tn_autojson struct tn_json *before = NULL, *after = NULL;
    const char *text = (const char *)data, *lf = size ? memchr(text, '\n', size) : NULL;
    struct tn_mask *m = tn_mask_new();
    int level = 0;

    if (lf) {
        tn_autofree char *value = tn_strndup(text, (size_t)(lf - text));
        struct tn_secret one = {.name = "S", .value = value};
        size_t n = size - (size_t)(lf + 1 - text);
        must(tn_mask_set(m, &one, 1, NULL) == 0 || strlen(value) > TN_SECRET_BYTES);
        int failed = tn_mask_event(m, lf + 1, n, &out, NULL);
        if (tn_json_parse(lf + 1, n, &before, NULL) == 0 &&
            tn_json_type(before) == TN_JSON_OBJECT && tn_buf_ok(&out)) {
            must(!failed);
            must(tn_json_parse(tn_buf_str(&out), out.len, &after, NULL) == 0);
            secret = value;
            bool spaced = strspn(value, " \t\r\v\f") || strpbrk(value, " \t\r\v\f");
            if (!tn_mask_empty(m) && !spaced)
                check_tree("", after, &level);
        }
    }
    tn_mask_free(m);
    return 0;
}
