/* What services say: a line that is an address, then an object that describes a sandbox.  An
 * address that is taken has nothing in it that could end a line of a request. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/hand-address.h"
#include "runtime/remote/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const char *text)
{
    struct tn_hand_place place;

    if (strncmp(text, "kube:", 5) != 0 && tn_hand_place(text, &place, NULL) == 0 && place.far &&
        (strpbrk(place.host, " \t\r\n/?#@") || strpbrk(place.base, " \t\r\n?#")))
        abort();
}

static void check_view(const struct remote_view *v)
{
    if (v->known && (!v->id || strpbrk(v->id, " \t\r\n")))
        abort();
    if (v->address)
        check_address(v->address);
    if (v->reason && strpbrk(v->reason, "\r\n"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct remote r = {.api = (char *)"http://localhost:8000", .mark = "0123456789abcdef"};
    const char *newline = memchr(data, '\n', size);
    size_t n = newline ? (size_t)(newline - (const char *)data) : size;
    tn_autofree char *address = tn_strndup((const char *)data, n);
    tn_autojson struct tn_json *tree = NULL;

    check_address(address);
    if (!newline || tn_json_parse(newline + 1, size - n - 1, &tree, NULL) < 0)
        return 0;
    autoremoteview struct remote_view native = {0};
    if (remote_read_native(&r, tree, &native, NULL) == 0)
        check_view(&native);
    autoremoteview struct remote_view openhands = {0};
    if (remote_read_openhands(&r, tree, &openhands, NULL) == 0)
        check_view(&openhands);
    remote_own_id(&r, tn_json_get_str(tree, "session_id", ""));
    return 0;
}
