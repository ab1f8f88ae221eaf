/* Any text is taken for a shell's list of variables: what comes out are assignments to names. */
#include <ctype.h>

#include "hand/python/exports.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofree char *listing = tn_strndup((const char *)data, size);
    tn_autobuf struct tn_buf changes = TN_BUF_INIT(64 << 20);
    struct tn_jw w = tn_jw(&changes);
    char **exports = exports_parse(listing);
    char *none[] = {NULL};

    for (size_t i = 0; exports[i]; i++) {
        size_t name = strcspn(exports[i], "=");
        if (name == 0 || exports[i][name] != '=' || isdigit((unsigned char)exports[i][0]))
            abort();
    }
    tn_jw_object(&w);
    exports_put_changes(exports, exports, &w);
    tn_jw_object_end(&w);
    if (strcmp(tn_buf_str(&changes), "{}") != 0 && exports[0] && !exports[1])
        abort();
    exports_put_changes(none, exports, &w);
    exports_free(exports);
    return 0;
}
