/* Microagents from a repository nobody vouches for: whatever the file says, the result is text that
 * can be written and read again. */
#include "base/utf8.h"
#include "runtime/setup/microagent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_automicroagents struct tn_microagents list = {0};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64u << 20);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&out);
    struct tn_error err = {0};

    if (tn_microagents_add(&list, "name", "source", (const char *)data, size, &err) < 0) {
        must(strncmp(err.text, "source: ", 8) == 0 && list.count == 0);
        return 0;
    }
    const struct tn_microagent *m = &list.items[0];
    must(list.count == 1 && m->content.len <= size && strcmp(m->name, "name") == 0);
    must((m->type == TN_MICROAGENT_REPO) == (m->triggers.count == 0));
    tn_jw_object(&w);
    tn_fields_to_json(&tn_microagent_fields, m, &w);
    tn_jw_object_end(&w);
    must(tn_buf_ok(&out));
    must(tn_json_parse(tn_buf_str(&out), out.len, &tree, &err) == 0);
    return 0;
}
