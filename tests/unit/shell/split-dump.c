/* Splits the text on standard input and prints what was found as one line of JSON:
 *
 *   {"state": "complete", "beyond": false, "commands": [[start, length], ...]}
 *
 * With -0 the input is any number of texts, each ended by a NUL, and every one gets its line. */
#include <stdio.h>
#include <string.h>

#include "hand/shell/split.h"

static const char *const state_names[] = {
    [TN_SPLIT_COMPLETE] = "complete",
    [TN_SPLIT_INCOMPLETE] = "incomplete",
    [TN_SPLIT_UNSURE] = "unsure",
};

static int dump(const char *text, size_t len)
{
    struct tn_split split;
    if (tn_split(text, len, &split) < 0)
        return -1;
    printf("{\"state\": \"%s\", \"beyond\": %s, \"commands\": [", state_names[split.state],
           split.beyond ? "true" : "false");
    for (size_t i = 0; i < split.count; i++)
        printf("%s[%zu, %zu]", i ? ", " : "", split.commands[i].start, split.commands[i].len);
    printf("]}\n");
    tn_split_done(&split);
    return 0;
}

static int dump_all(const char *text, size_t len)
{
    const char *end;
    for (; (end = memchr(text, 0, len)); text = end + 1) {
        if (dump(text, (size_t)(end - text)) < 0)
            return -1;
        len -= (size_t)(end - text) + 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 20);
    size_t n;
    do {
        char *room = tn_buf_reserve(&text, 1 << 16);
        if (!room)
            return 1;
        n = fread(room, 1, 1 << 16, stdin);
        tn_buf_grew(&text, n);
    } while (n > 0);
    bool many = argc > 1 && strcmp(argv[1], "-0") == 0;
    return (many ? dump_all : dump)(tn_buf_str(&text), text.len) < 0;
}
