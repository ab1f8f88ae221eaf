/* What Daytona says, an answer a line: an object that describes a sandbox, what came of a command,
 * a preview link.  An id that is taken can go into a path, an address can be dialled, a status is
 * one of a shell. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cloud/daytona/daytona.h"
#include "runtime/hand-address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(const void *bytes, size_t n, void *ctx)
{
    if (n == 0)
        abort();
    return n > 4096;
}

static void check_sandbox(const struct cloud *c, const struct tn_json *tree)
{
    autocloudview struct cloud_view v = {0};
    struct tn_hand_place place;

    if (daytona_read(c, tree, &v, NULL) < 0 || !v.known)
        return;
    if (!cloud_is_id(v.id) || (v.own && strlen(v.own) != 10) ||
        (v.reason && strpbrk(v.reason, "\r\n\x1b")))
        abort();
    if (v.agent_url && daytona_is_near(c->line.url, v.agent_url) &&
        (strncmp(v.agent_url, "https:", 6) != 0 || tn_hand_place(v.agent_url, &place, NULL) < 0 ||
         !strstr(place.host, "daytona.io")))
        abort();
}

static void check_link(const struct cloud *c, const struct tn_json *tree)
{
    tn_autofree char *address = daytona_read_link(c, tree, NULL);

    if (address && (strncmp(address, "https:", 6) != 0 || strpbrk(address, " \t\r\n")))
        abort();
}

static void check_run(const struct tn_json *tree)
{
    const struct cloud_run run = {.out = take};
    int status = 0;

    if (daytona_read_run(tree, &run, &status, NULL) == 0 && (status < 0 || status > 255))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cloud c = {.mark = "0123456789abcdef",
                      .line = {.url = (char *)"https://app.daytona.io/api"}};

    for (int line = 0; line < 3 && size; line++) {
        const uint8_t *newline = memchr(data, '\n', size);
        size_t n = newline ? (size_t)(newline - data) : size;
        tn_autojson struct tn_json *tree = NULL;
        if (tn_json_parse((const char *)data, n, &tree, NULL) == 0) {
            if (line == 0)
                check_sandbox(&c, tree);
            else if (line == 1)
                check_run(tree);
            else
                check_link(&c, tree);
        }
        data += newline ? n + 1 : n;
        size -= newline ? n + 1 : n;
    }
    return 0;
}
