/* The splitter's front: runs the reader and says what it found. */
#include "hand/shell/split.h"

#include <stdlib.h>
#include <string.h>

#include "hand/shell/split-parse.h"

static void run(struct parser *p)
{
    split_push(p, IN_TOP);
    while (p->running)
        split_step(p);
    split_close_command(p);
}

/* One command: this part of the text. */
static int whole(struct tn_split *out, size_t start, size_t end, enum tn_split_state state)
{
    struct tn_span *span = malloc(sizeof(*span));
    if (!span)
        return -1;
    *span = (struct tn_span){.start = start, .len = end - start};
    out->commands = span;
    out->count = 1;
    out->state = state;
    return 0;
}

/* Moves what the reader found to the caller. */
static int take(struct parser *p, struct tn_split *out)
{
    if (p->no_memory)
        return -1;
    out->beyond = p->beyond;
    if (p->state != TN_SPLIT_COMPLETE)
        return whole(out, 0, p->len, p->state);
    if (p->command_count == 0)
        return whole(out, p->first, p->last_end, p->state);
    size_t end = p->commands[0].start + p->commands[0].len;
    p->commands[0] = (struct tn_span){.start = p->first, .len = end - p->first};
    out->commands = TN_TAKE_PTR(p->commands);
    out->count = p->command_count;
    out->state = p->state;
    return 0;
}

int split_run(struct parser *p, struct tn_split *out)
{
    *out = (struct tn_split){0};
    p->running = true;
    tn_buf_init(&p->delimiters, p->len + 1);
    p->stack = malloc(SPLIT_MAX_DEPTH * sizeof(*p->stack));
    int result = -1;
    if (p->stack) {
        run(p);
        result = take(p, out);
    }
    free(p->stack);
    free(p->heredocs);
    free(p->commands);
    tn_buf_done(&p->delimiters);
    return result;
}

int tn_split(const char *text, size_t len, struct tn_split *out)
{
    size_t budget = SPLIT_MAX_REREADS * len;
    struct parser p = {.text = text, .len = len, .budget = &budget};
    return split_run(&p, out);
}

void tn_split_done(struct tn_split *split)
{
    if (!split)
        return;
    free(split->commands);
    *split = (struct tn_split){0};
}

void tn_split_format_error(const char *text, const struct tn_split *split, struct tn_buf *out)
{
    tn_buf_puts(out, "ERROR: Cannot execute multiple commands at once.\n"
                     "Please run each command separately OR chain them into a single command via "
                     "&& or ;\nProvided commands:");
    for (size_t i = 0; i < split->count; i++) {
        tn_buf_printf(out, "\n(%zu) ", i + 1);
        tn_buf_add(out, text + split->commands[i].start, split->commands[i].len);
    }
}
