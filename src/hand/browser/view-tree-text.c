/* The tree as text: a line for each node, indented by its depth. */
#include "base/json.h"
#include "base/utf8.h"
#include "hand/browser/repr.h"
#include "hand/browser/view-tree-nodes.h"

static const char *const dropped[] = {
    "editable", "readonly", "level", "settable", "multiline", "invalid", "focusable",
};
static const char *const flags[] = {"required", "focused", "atomic"};

static bool is_one_of(struct tn_slice s, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tn_slice_is(s, words[i]))
            return true;
    return false;
}

/* What str.strip() takes off. */
static bool is_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 || cp == 0xa0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

static struct tn_slice strip(struct tn_slice s)
{
    uint32_t cp;
    size_t n, start;

    while (s.n && (n = tn_utf8_decode(s.s, s.n, &cp)) && is_space(cp)) {
        s.s += n;
        s.n -= n;
    }
    for (;;) {
        for (start = s.n; start > 0 && s.n - start < 4;) {
            start--;
            if (((unsigned char)s.s[start] & 0xc0) != 0x80)
                break;
        }
        n = s.n ? tn_utf8_decode(s.s + start, s.n - start, &cp) : 0;
        if (n == 0 || n != s.n - start || !is_space(cp))
            return s;
        s.n = start;
    }
}

/* A JSON value as Python shows it. */
static void put_value(struct tn_buf *out, struct tn_slice json)
{
    tn_autojson struct tn_json *tree = NULL;

    if (tn_slice_is(json, "true") || tn_slice_is(json, "false")) {
        tn_buf_puts(out, json.s[0] == 't' ? "True" : "False");
        return;
    }
    tn_json_parse(json.s, json.n, &tree, NULL);
    tn_put_repr_json(out, tree);
}

static void put_properties(struct tn_buf *out, struct tn_slice properties)
{
    struct tn_scan c = tn_scan(properties.s, properties.n);

    if (!properties.n)
        return;
    tn_scan_enter(&c);
    while (tn_scan_element(&c)) {
        struct tn_slice property = tn_scan_skip(&c);
        struct tn_slice name = tn_slice_unquoted(tn_slice_get(property, "name"));
        struct tn_slice value = tn_slice_get(tn_slice_get(property, "value"), "value");
        bool flag = is_one_of(name, flags, TN_COUNT(flags));
        if (!value.n || is_one_of(name, dropped, TN_COUNT(dropped)) ||
            (flag && !tn_slice_is(value, "true")))
            continue;
        tn_buf_puts(out, ", ");
        tn_buf_add(out, name.s, name.n);
        if (!flag) {
            tn_buf_putc(out, '=');
            put_value(out, value);
        }
    }
}

static void put_line(const struct tn_tree *t, const struct tn_tree_node *n, struct tn_buf *out)
{
    const struct tn_dom *dom = t->sources[n->frame].dom;
    const char *bid = tn_tree_bid(t, n);
    struct tn_slice name = strip(n->name), value = tn_slice_get(n->value, "value");

    if (bid)
        tn_buf_printf(out, "[%s] ", bid);
    tn_buf_add(out, n->role.s, n->role.n);
    if (n->name.n || !tn_slice_is(n->role, "generic")) {
        tn_buf_putc(out, ' ');
        tn_put_repr(out, name.s, name.n);
    }
    if (value.n) {
        tn_buf_puts(out, " value=");
        put_value(out, value);
    }
    if (bid && tn_dom_clickable(dom, n->backend))
        tn_buf_puts(out, ", clickable");
    put_properties(out, n->properties);
}

/* --- order ---------------------------------------------------------------------------------- */

struct step {
    size_t node, depth;
    struct tn_slice parent_name;
};

struct walk {
    const struct tn_tree *t;
    struct step *stack;
    size_t count, cap;
    bool *seen;
};

static void push(struct walk *w, size_t node, size_t depth, struct tn_slice parent_name)
{
    if (node == SIZE_MAX || w->seen[node])
        return;
    if (w->count == w->cap) {
        w->cap = w->cap ? w->cap * 2 : 64;
        w->stack = tn_realloc(w->stack, w->cap * sizeof w->stack[0]);
    }
    w->stack[w->count++] = (struct step){node, depth, parent_name};
}

/* The first comes last, to be taken first. */
static void push_children(struct walk *w, const struct tn_tree_node *n, size_t depth,
                          struct tn_slice name)
{
    push(w, tn_tree_inner(w->t, n), depth, name);
    for (size_t i = n->child_count; i > 0; i--)
        push(w, tn_tree_find(w->t, n->frame, w->t->child_ids[n->first_child + i - 1]), depth, name);
}

static bool is_shown(const struct tn_tree_node *n, struct tn_slice parent_name)
{
    if (!n->has_name || tn_slice_is(n->role, "LineBreak"))
        return false;
    return !tn_slice_is(n->role, "StaticText") ||
           (n->name.n && !memmem(parent_name.s, parent_name.n, n->name.s, n->name.n));
}

/* Appends a line to out; false when it would pass max. */
static bool append(struct tn_buf *out, const struct tn_buf *line, size_t depth, size_t max)
{
    bool newline = out->len > 0;

    if (!tn_buf_ok(line) || out->len + newline + depth + line->len > max)
        return false;
    if (newline)
        tn_buf_putc(out, '\n');
    char *tabs = tn_buf_reserve(out, depth);
    if (!tabs)
        return false;
    memset(tabs, '\t', depth);
    tn_buf_grew(out, depth);
    return tn_buf_add(out, line->data, line->len) == 0;
}

void tn_tree_put_text(const struct tn_tree *t, struct tn_buf *out, size_t max)
{
    tn_autofree bool *seen = tn_calloc(t->count, sizeof seen[0]);
    tn_autobuf struct tn_buf line = TN_BUF_INIT(max);
    struct walk w = {.t = t, .seen = seen};
    bool fits = true;

    push(&w, t->frames[0].first, 0, (struct tn_slice){"", 0});
    while (w.count && fits) {
        struct step s = w.stack[--w.count];
        const struct tn_tree_node *n = &t->nodes[s.node];
        if (seen[s.node])
            continue;
        seen[s.node] = true;
        bool shown = is_shown(n, s.parent_name);
        struct tn_slice name = {"", 0};
        if (n->has_name && !tn_slice_is(n->role, "LineBreak"))
            name = n->name;
        push_children(&w, n, s.depth + shown, name);
        if (!shown)
            continue;
        tn_buf_reset(&line);
        put_line(t, n, &line);
        fits = append(out, &line, s.depth, max);
    }
    if (!fits)
        tn_buf_printf(out, "\n[... the tree has more than %zu kB: the rest is left out ...]",
                      max >> 10);
    free(w.stack);
}
