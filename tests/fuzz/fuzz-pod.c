/* What a cluster says of a pod: its status, its events.  Sandboxes and registries write parts of
 * it; whatever they say becomes one printable line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/kubernetes/pods.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const char *line)
{
    for (; line && *line; line++)
        if ((unsigned char)*line < ' ' || *line == 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autojson struct tn_json *tree = NULL;
    autopodcause struct pod_cause cause = {0};

    if (tn_json_parse((const char *)data, size, &tree, NULL) < 0)
        return 0;
    pod_cause(tree, &cause);
    check_line(cause.reason);
    if ((cause.status == TN_STATUS_ERROR) != (cause.reason && cause.code) ||
        cause.status == TN_STATUS_MISSING)
        abort();
    tn_autofree char *words = pod_last_warning(tree);
    check_line(words);
    return 0;
}
