/* What E2B says: an object that describes a sandbox, then (after a newline) the stream of a
 * process.  An id that is taken can go into a path and a header, an address can be dialled, and
 * words for people are one line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cloud/e2b/e2b.h"
#include "runtime/hand-address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(const void *bytes, size_t n, void *ctx)
{
    size_t *left = ctx;

    if (n == 0)
        abort();
    *left -= n < *left ? n : *left;
    return *left == 0;
}

static void check_view(const struct cloud *c, struct cloud_view *v)
{
    struct tn_hand_place place;

    if (!v->known || !cloud_is_id(v->id) || (v->own && strlen(v->own) != 10))
        abort();
    tn_autofree char *address = e2b_address(c, v, 0, NULL);
    if (address && strlen(v->id) < 60 && (!v->domain || strlen(v->domain) < 100) &&
        (tn_hand_place(address, &place, NULL) < 0 || strpbrk(place.host, " \t\r\n/?#@")))
        abort();
}

static void check_object(const char *text, size_t n)
{
    struct e2b e = {
        .cloud = {.mark = "0123456789abcdef", .line = {.url = (char *)"https://api.e2b.app"}},
        .domain = (char *)"e2b.app"};
    autocloudview struct cloud_view v = {0};
    tn_autojson struct tn_json *tree = NULL;

    if (tn_json_parse(text, n, &tree, NULL) == 0 && e2b_read(&e.cloud, tree, &v, NULL) == 0)
        check_view(&e.cloud, &v);
}

static void check_stream(const uint8_t *bytes, size_t n)
{
    size_t left = 4096;
    struct e2b_events events;

    e2b_events_init(&events, take, &left);
    for (size_t at = 0, step = 1; at < n; at += step, step = step * 2 + 1) {
        size_t part = n - at < step ? n - at : step;
        if (e2b_events_feed(bytes + at, part, &events))
            break;
    }
    if (events.problem && strpbrk(events.problem, "\r\n\x1b"))
        abort();
    if (events.exited && (events.status < 0 || events.status > 255))
        abort();
    e2b_events_done(&events);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = memchr(data, '\n', size);
    size_t n = newline ? (size_t)(newline - data) : size;

    check_object((const char *)data, n);
    if (newline)
        check_stream(newline + 1, size - n - 1);
    return 0;
}
