/* The tree as the object that axtree_object holds: one list of nodes. */
#include "base/json.h"
#include "hand/browser/view-tree-nodes.h"

/* Ids are unique in one process of the browser: those of other sessions get its number. */
static void put_id(struct tn_jw *w, const struct tn_tree *t, size_t frame, int64_t id)
{
    size_t session = t->sources[frame].session;
    char text[64];

    if (session)
        snprintf(text, sizeof text, "%zu:%lld", session, (long long)id);
    else
        snprintf(text, sizeof text, "%lld", (long long)id);
    tn_jw_str(w, text);
}

static void put_part(struct tn_jw *w, const char *key, struct tn_slice json)
{
    if (!json.n)
        return;
    tn_jw_key(w, key);
    tn_jw_raw(w, json.s, json.n);
}

static void put_name(struct tn_jw *w, const struct tn_tree_node *n)
{
    if (!n->has_name)
        return;
    tn_jw_key(w, "name");
    tn_jw_object(w);
    tn_jw_kstr(w, "type", "computedString");
    tn_jw_key(w, "value");
    tn_jw_strn(w, n->name.s, n->name.n);
    tn_jw_object_end(w);
}

static void put_parent(struct tn_jw *w, const struct tn_tree *t, const struct tn_tree_node *n)
{
    struct tn_slice id = tn_slice_unquoted(n->parent_id);
    struct tn_scan c = tn_scan(id.s, id.n);

    if (!id.n)
        return;
    tn_jw_key(w, "parentId");
    put_id(w, t, n->frame, tn_scan_int(&c));
}

static void put_node(struct tn_jw *w, const struct tn_tree *t, const struct tn_tree_node *n)
{
    const char *bid = tn_tree_bid(t, n);
    size_t inner = tn_tree_inner(t, n);

    tn_jw_object(w);
    tn_jw_key(w, "nodeId");
    put_id(w, t, n->frame, n->id);
    put_part(w, "ignored", n->ignored);
    put_part(w, "role", n->role_object);
    put_name(w, n);
    /* An empty one is that of our own temporary attribute. */
    if (tn_slice_unquoted(tn_slice_get(n->description, "value")).n)
        put_part(w, "description", n->description);
    put_part(w, "value", n->value);
    put_part(w, "properties", n->properties);
    put_parent(w, t, n);
    tn_jw_key(w, "childIds");
    tn_jw_array(w);
    for (size_t i = 0; i < n->child_count; i++)
        put_id(w, t, n->frame, t->child_ids[n->first_child + i]);
    if (inner != SIZE_MAX)
        put_id(w, t, t->nodes[inner].frame, t->nodes[inner].id);
    tn_jw_array_end(w);
    if (n->backend)
        tn_jw_kint(w, "backendDOMNodeId", n->backend);
    put_part(w, "frameId", n->frame_id);
    if (bid)
        tn_jw_kstr(w, "browsergym_id", bid);
    tn_jw_object_end(w);
}

void tn_tree_put_object(const struct tn_tree *t, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_key(&w, "nodes");
    tn_jw_array(&w);
    for (size_t i = 0; i < t->count && tn_buf_ok(out); i++)
        put_node(&w, t, &t->nodes[i]);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
}
