/* Reads the trees.  Boxes of text lines (InlineTextBox) only repeat the text above them, and old
 * browsers did not tell of them: they are dropped here. */
#include "hand/browser/view-tree-nodes.h"

/* --- reading -------------------------------------------------------------------------------- */

/* Ids are numbers in quotes. */
static int64_t read_id(struct tn_scan *c)
{
    struct tn_slice digits = tn_slice_unquoted(tn_scan_skip(c));
    struct tn_scan inner = tn_scan(digits.s, digits.n);

    return digits.n ? tn_scan_int(&inner) : 0;
}

static void read_children(struct tn_scan *c, struct tn_tree *t, struct tn_tree_node *node)
{
    node->first_child = t->child_count;
    tn_scan_enter(c);
    while (tn_scan_element(c)) {
        if (t->child_count == t->child_cap) {
            t->child_cap = t->child_cap ? t->child_cap * 2 : 1024;
            t->child_ids = tn_realloc(t->child_ids, t->child_cap * sizeof t->child_ids[0]);
        }
        t->child_ids[t->child_count++] = read_id(c);
    }
    node->child_count = t->child_count - node->first_child;
}

/* Names move when the buffer grows: until all are read, s holds an offset. */
static void read_name(struct tn_tree *t, struct tn_tree_node *node, struct tn_slice object)
{
    struct tn_slice value = tn_slice_get(object, "value");
    struct tn_scan c = tn_scan(value.s, value.n);
    size_t from = t->names.len;

    node->has_name = value.n && tn_scan_string(&c, &t->names);
    node->name.s = NULL;
    node->name.n = t->names.len - from;
}

static void read_node(struct tn_scan *c, struct tn_tree *t, struct tn_tree_node *node)
{
    const struct {
        struct tn_slice name;
        struct tn_slice *to;
    } parts[] = {
        {TN_SLICE("ignored"), &node->ignored},         {TN_SLICE("role"), &node->role_object},
        {TN_SLICE("description"), &node->description}, {TN_SLICE("value"), &node->value},
        {TN_SLICE("properties"), &node->properties},   {TN_SLICE("frameId"), &node->frame_id},
        {TN_SLICE("parentId"), &node->parent_id},
    };
    struct tn_slice key;

    tn_scan_enter(c);
    while (tn_scan_member(c, &key)) {
        size_t i = 0;
        while (i < TN_COUNT(parts) && !tn_slice_equal(key, parts[i].name))
            i++;
        if (i < TN_COUNT(parts))
            *parts[i].to = tn_scan_skip(c);
        else if (tn_slice_is(key, "nodeId"))
            node->id = read_id(c);
        else if (tn_slice_is(key, "backendDOMNodeId"))
            node->backend = tn_scan_int(c);
        else if (tn_slice_is(key, "childIds"))
            read_children(c, t, node);
        else if (tn_slice_is(key, "name"))
            read_name(t, node, tn_scan_skip(c));
        else
            tn_scan_skip(c);
    }
    node->role = tn_slice_unquoted(tn_slice_get(node->role_object, "value"));
}

static struct tn_tree_node *add_node(struct tn_tree *t)
{
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 512;
        t->nodes = tn_realloc(t->nodes, t->cap * sizeof t->nodes[0]);
    }
    t->nodes[t->count] = (struct tn_tree_node){0};
    return &t->nodes[t->count++];
}

static void read_nodes(struct tn_scan *c, struct tn_tree *t, size_t frame)
{
    tn_scan_enter(c);
    while (tn_scan_element(c)) {
        size_t names = t->names.len, children = t->child_count;
        struct tn_tree_node *node = add_node(t);
        node->frame = frame;
        read_node(c, t, node);
        if (tn_slice_is(node->role, "InlineTextBox")) {
            t->count--;
            t->child_count = children;
            tn_buf_cut(&t->names, names);
        }
    }
}

static int by_id(const void *a, const void *b)
{
    const struct tn_tree_id *one = a, *two = b;
    return (one->id > two->id) - (one->id < two->id);
}

static void index_frame(struct tn_tree *t, struct tn_tree_frame *f)
{
    f->ids = tn_malloc(f->count * sizeof f->ids[0]);
    for (size_t i = 0; i < f->count; i++)
        f->ids[i] = (struct tn_tree_id){t->nodes[f->first + i].id, f->first + i};
    qsort(f->ids, f->count, sizeof f->ids[0], by_id);
}

static int read_frame(struct tn_tree *t, size_t number, struct tn_error *err)
{
    const struct tn_tree_source *source = &t->sources[number];
    struct tn_tree_frame *f = &t->frames[number];
    struct tn_scan c = tn_scan(source->json ? source->json : "", source->n);
    struct tn_slice key;

    f->first = t->count;
    if (source->json) {
        tn_scan_enter(&c);
        while (tn_scan_member(&c, &key)) {
            if (tn_slice_is(key, "nodes"))
                read_nodes(&c, t, number);
            else
                tn_scan_skip(&c);
        }
    }
    if (c.bad || t->count == f->first || !tn_buf_ok(&t->names)) {
        t->count = f->first;
        f->ids = NULL;
        return tn_fail(err, TN_E_PEER, "the browser's accessibility tree makes no sense");
    }
    f->count = t->count - f->first;
    index_frame(t, f);
    return 0;
}

struct tn_tree *tn_tree_read(const struct tn_tree_source *sources, size_t count,
                             struct tn_error *err)
{
    struct tn_tree *t = tn_calloc(1, sizeof *t);
    size_t names = 0;

    t->sources = sources;
    t->frames = tn_calloc(count, sizeof t->frames[0]);
    t->frame_count = count;
    tn_buf_init(&t->names, INT32_MAX);
    for (size_t i = 0; i < count; i++) {
        if (read_frame(t, i, i ? NULL : err) < 0 && i == 0) {
            tn_tree_free(t);
            return NULL;
        }
    }
    for (size_t i = 0; i < t->count; i++) {
        t->nodes[i].name.s = tn_buf_str(&t->names) + names;
        names += t->nodes[i].name.n;
    }
    return t;
}

void tn_tree_free(struct tn_tree *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->frame_count; i++)
        free(t->frames[i].ids);
    free(t->frames);
    free(t->nodes);
    free(t->child_ids);
    tn_buf_done(&t->names);
    free(t);
}

/* --- finding -------------------------------------------------------------------------------- */

size_t tn_tree_find(const struct tn_tree *t, size_t frame, int64_t id)
{
    const struct tn_tree_frame *f = &t->frames[frame];
    struct tn_tree_id key = {.id = id};
    const struct tn_tree_id *found =
        f->count ? bsearch(&key, f->ids, f->count, sizeof key, by_id) : NULL;

    return found ? found->node : SIZE_MAX;
}

size_t tn_tree_inner(const struct tn_tree *t, const struct tn_tree_node *n)
{
    if (!n->backend || !tn_slice_is(n->role, "Iframe"))
        return SIZE_MAX;
    for (size_t i = 1; i < t->frame_count; i++) {
        if (t->sources[i].parent == n->frame && t->sources[i].owner == n->backend &&
            t->frames[i].count)
            return t->frames[i].first;
    }
    return SIZE_MAX;
}

const char *tn_tree_bid(const struct tn_tree *t, const struct tn_tree_node *n)
{
    const struct tn_dom *dom = t->sources[n->frame].dom;
    return dom ? tn_dom_bid(dom, n->backend) : NULL;
}
