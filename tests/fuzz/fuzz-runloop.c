/* What Runloop says: an object that describes a devbox, then (after a newline) what a command has
 * printed.  An id that is taken can go into a path, an address can be dialled, and a file of output
 * has a path. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cloud/runloop/runloop.h"
#include "runtime/hand-address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_object(const char *text, size_t n, const char *tunnels)
{
    struct runloop r = {
        .cloud = {.mark = "0123456789abcdef", .line = {.url = (char *)"https://api.runloop.ai"}},
        .tunnels = (char *)(uintptr_t)tunnels,
        .tunnel_host = (char *)"tunnel.runloop.ai"};
    autocloudview struct cloud_view v = {0};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_hand_place place;

    if (tn_json_parse(text, n, &tree, NULL) < 0 || devbox_read(&r.cloud, tree, &v, NULL) < 0 ||
        !v.known)
        return;
    if (!cloud_is_id(v.id) || (v.own && strlen(v.own) != 10) ||
        (v.reason && strpbrk(v.reason, "\r\n\x1b")))
        abort();
    tn_autofree char *address = v.domain ? devbox_address(&r.cloud, &v, 0, NULL) : NULL;
    if (address && (tn_hand_place(address, &place, NULL) < 0 || strpbrk(place.host, " \t\r\n/?#@")))
        abort();
}

static void check_output(const char *text, size_t n)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(DEVBOX_OUTPUT_MAX);
    tn_autofree char *file = NULL;

    if (devbox_decode(text, n, &out, &file, NULL) == 0 &&
        (out.len > n || (file && (*file != '/' || strchr(file, '\n')))))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = memchr(data, '\n', size);
    size_t n = newline ? (size_t)(newline - data) : size;

    check_object((const char *)data, n, NULL);
    check_object((const char *)data, n, "http://127.0.0.1:7171");
    if (newline)
        check_output((const char *)newline, size - n);
    return 0;
}
