/* The nodes of a tree, as read; for the files that write it. */
#ifndef TN_HAND_BROWSER_VIEW_TREE_NODES_H
#define TN_HAND_BROWSER_VIEW_TREE_NODES_H

#include "hand/browser/view-tree.h"

struct tn_tree_node {
    int64_t id, backend;
    size_t frame;
    struct tn_slice role; /* without quotes */
    struct tn_slice name; /* decoded */
    bool has_name;
    struct tn_slice ignored, role_object, description, value, properties, parent_id,
        frame_id;                    /* JSON text, empty when there is none */
    size_t first_child, child_count; /* in child_ids */
};

struct tn_tree_id {
    int64_t id;
    size_t node;
};

struct tn_tree_frame {
    size_t first, count;    /* its nodes; no node: it could not be had */
    struct tn_tree_id *ids; /* sorted; count entries */
};

struct tn_tree {
    const struct tn_tree_source *sources;
    struct tn_tree_frame *frames;
    size_t frame_count;
    struct tn_tree_node *nodes;
    size_t count, cap;
    int64_t *child_ids;
    size_t child_count, child_cap;
    struct tn_buf names;
};

/* The number of the frame's node with that id, or SIZE_MAX. */
size_t tn_tree_find(const struct tn_tree *t, size_t frame, int64_t id);
/* The first node of the frame that lies in this node, or SIZE_MAX. */
size_t tn_tree_inner(const struct tn_tree *t, const struct tn_tree_node *n);
/* The node's bid, or NULL. */
const char *tn_tree_bid(const struct tn_tree *t, const struct tn_tree_node *n);

#endif
