/* What the git of a sandbox says: whatever it is, an answer is one value of JSON. */
#include <assert.h>
#include <stdint.h>

#include "service/daytona/daytona.h"

typedef void (*put_fn)(const struct daytona_done *done, struct tn_jw *w);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const put_fn puts[] = {daytona_git_status, daytona_git_branches, daytona_git_history,
                                  daytona_git_remotes};
    struct daytona_done done = {.out = TN_BUF_INIT(1 << 20)};

    tn_buf_add(&done.out, data, size < 1 << 16 ? size : 1 << 16);
    for (size_t i = 0; i < TN_COUNT(puts); i++) {
        tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 20);
        tn_autojson struct tn_json *tree = NULL;
        struct tn_jw w = tn_jw(&json);
        puts[i](&done, &w);
        assert(tn_json_parse(tn_buf_str(&json), json.len, &tree, NULL) == 0);
    }
    daytona_done_end(&done);
    return 0;
}
