#include "event/mask-search.h"

#include <stdint.h>

/* A node stands for a prefix of a word.  The root is node 0; its children are in a table because
 * nearly every byte of a text starts there. */
struct node {
    uint32_t child, sibling; /* 0: none */
    uint32_t fail;           /* the longest proper suffix that is a prefix too */
    uint32_t depth;
    uint32_t word; /* length of the longest word that ends here, or 0 */
    unsigned char byte;
};

struct mask_search {
    struct node *nodes;
    uint32_t count, room;
    uint32_t first[256];
};

struct mask_search *mask_search_new(void)
{
    struct mask_search *s = tn_calloc(1, sizeof *s);

    s->room = 64;
    s->nodes = tn_calloc(s->room, sizeof *s->nodes);
    s->count = 1;
    return s;
}

void mask_search_free(struct mask_search *s)
{
    if (!s)
        return;
    free(s->nodes);
    free(s);
}

static uint32_t child_of(const struct mask_search *s, uint32_t node, unsigned char byte)
{
    uint32_t child = s->first[byte];

    if (node == 0)
        return child;
    for (child = s->nodes[node].child; child; child = s->nodes[child].sibling)
        if (s->nodes[child].byte == byte)
            return child;
    return 0;
}

static uint32_t add_child(struct mask_search *s, uint32_t node, unsigned char byte)
{
    uint32_t made = s->count++;

    if (s->count > s->room) {
        s->room *= 2;
        s->nodes = tn_realloc(s->nodes, s->room * sizeof *s->nodes);
    }
    s->nodes[made] = (struct node){
        .byte = byte, .depth = s->nodes[node].depth + 1, .sibling = s->nodes[node].child};
    s->nodes[node].child = made;
    if (node == 0)
        s->first[byte] = made;
    return made;
}

void mask_search_add(struct mask_search *s, const char *word, size_t n)
{
    uint32_t node = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)word[i];
        uint32_t next = child_of(s, node, byte);
        node = next ? next : add_child(s, node, byte);
    }
    s->nodes[node].word = s->nodes[node].depth;
}

/* Where a text is after one more byte. */
static uint32_t step(const struct mask_search *s, uint32_t node, unsigned char byte)
{
    uint32_t next;

    while (!(next = child_of(s, node, byte)) && node)
        node = s->nodes[node].fail;
    return next;
}

/* Level by level, so that the shorter suffix is always ready. */
void mask_search_finish(struct mask_search *s)
{
    tn_autofree uint32_t *queue = tn_calloc(s->count, sizeof *queue);
    uint32_t head = 0, tail = 1;

    while (head < tail) {
        uint32_t parent = queue[head++];
        for (uint32_t c = s->nodes[parent].child; c; c = s->nodes[c].sibling) {
            struct node *node = &s->nodes[c];
            node->fail = parent ? step(s, s->nodes[parent].fail, node->byte) : 0;
            if (!node->word)
                node->word = s->nodes[node->fail].word;
            queue[tail++] = c;
        }
    }
}

/* Takes those spans off the end that the word from `start` on overlaps; returns where they began.
 */
static size_t merge(struct tn_buf *spans, size_t base, size_t start)
{
    while (spans->len > base) {
        size_t last = (spans->len - base) / sizeof(struct mask_span) - 1;
        struct mask_span span;
        memcpy(&span, spans->data + base + last * sizeof span, sizeof span);
        if (span.end <= start)
            break;
        if (span.start < start)
            start = span.start;
        tn_buf_cut(spans, base + last * sizeof span);
    }
    return start;
}

ssize_t mask_search_all(const struct mask_search *s, const char *text, size_t n,
                        struct tn_buf *spans)
{
    size_t base = spans->len;
    uint32_t node = 0;

    for (size_t i = 0; i < n; i++) {
        node = step(s, node, (unsigned char)text[i]);
        if (!s->nodes[node].word)
            continue;
        struct mask_span span = {.end = i + 1};
        span.start = merge(spans, base, span.end - s->nodes[node].word);
        if (tn_buf_add(spans, &span, sizeof span))
            return -1;
    }
    return (ssize_t)((spans->len - base) / sizeof(struct mask_span));
}
