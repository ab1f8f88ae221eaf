/* The command splitter: what it finds lies in the text, in order, with only blanks outside; and a
 * command that it finds is one command when split again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hand/shell/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth)
        abort();
}

static void must_be_blank(const char *text, size_t start, size_t end)
{
    must(start <= end);
    for (size_t i = start; i < end; i++)
        must(text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r') || text[i] == '\\');
}

static void must_be_one(const char *text, const struct tn_span *span)
{
    /* An exact copy, so that a read past the end is seen. */
    char *copy = malloc(span->len);
    must(copy || span->len == 0);
    memcpy(copy, text + span->start, span->len);
    struct tn_split again;
    must(tn_split(copy, span->len, &again) == 0);
    /* Reading twice is limited in proportion to the length, so a part may be refused. */
    must(again.state != TN_SPLIT_INCOMPLETE);
    must(again.count == 1 && again.commands[0].start == 0 && again.commands[0].len == span->len);
    tn_split_done(&again);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct tn_split split;
    must(tn_split(text, size, &split) == 0);
    must(split.count >= 1);
    if (split.state != TN_SPLIT_COMPLETE) {
        must(split.count == 1 && split.commands[0].start == 0 && split.commands[0].len == size);
    } else {
        size_t end = 0;
        for (size_t i = 0; i < split.count; i++) {
            const struct tn_span *span = &split.commands[i];
            must(span->len > 0 || split.count == 1);
            must_be_blank(text, end, span->start);
            end = span->start + span->len;
            must(end <= size);
            must_be_one(text, span);
        }
        must_be_blank(text, end, size);
    }
    tn_split_done(&split);
    return 0;
}
