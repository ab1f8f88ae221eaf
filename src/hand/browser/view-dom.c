#include "hand/browser/view-dom.h"

#include <ctype.h>
#include <stddef.h>

/* --- growing arrays ------------------------------------------------------------------------- */

static void add_int(struct tn_ints *a, int64_t value)
{
    if (a->count == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 256;
        a->data = tn_realloc(a->data, a->cap * sizeof a->data[0]);
    }
    a->data[a->count++] = value < INT32_MIN || value > INT32_MAX ? -1 : (int32_t)value;
}

static void add_rect(struct tn_rects *a, const double rect[4])
{
    if (a->count == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 256;
        a->data = tn_realloc(a->data, a->cap * sizeof a->data[0]);
    }
    memcpy(a->data[a->count++], rect, sizeof a->data[0]);
}

static void read_ints(struct tn_scan *c, struct tn_ints *out)
{
    tn_scan_enter(c);
    while (tn_scan_element(c))
        add_int(out, tn_scan_int(c));
}

/* {"index": [...], "value": [...]}, the shape of what few nodes have. */
static void read_rare(struct tn_scan *c, struct tn_ints *index, struct tn_ints *value)
{
    struct tn_slice key;

    tn_scan_enter(c);
    while (tn_scan_member(c, &key)) {
        if (tn_slice_is(key, "index"))
            read_ints(c, index);
        else if (value && tn_slice_is(key, "value"))
            read_ints(c, value);
        else
            tn_scan_skip(c);
    }
}

/* --- reading -------------------------------------------------------------------------------- */

static void read_attributes(struct tn_scan *c, struct tn_dom_document *doc)
{
    tn_scan_enter(c);
    while (tn_scan_element(c)) {
        add_int(&doc->first_attribute, (int64_t)doc->attributes.count);
        read_ints(c, &doc->attributes);
        if (doc->attributes.count % 2)
            add_int(&doc->attributes, -1);
    }
    add_int(&doc->first_attribute, (int64_t)doc->attributes.count);
}

static void read_nodes(struct tn_scan *c, struct tn_dom_document *doc)
{
    static const struct {
        const char *name;
        size_t offset;
    } columns[] = {
        {"parentIndex", offsetof(struct tn_dom_document, parent)},
        {"nodeType", offsetof(struct tn_dom_document, type)},
        {"nodeName", offsetof(struct tn_dom_document, name)},
        {"nodeValue", offsetof(struct tn_dom_document, value)},
        {"backendNodeId", offsetof(struct tn_dom_document, backend)},
    };
    struct tn_slice key;

    tn_scan_enter(c);
    while (tn_scan_member(c, &key)) {
        size_t i = 0;
        while (i < TN_COUNT(columns) && !tn_slice_is(key, columns[i].name))
            i++;
        if (i < TN_COUNT(columns))
            read_ints(c, (struct tn_ints *)(void *)((char *)doc + columns[i].offset));
        else if (tn_slice_is(key, "attributes"))
            read_attributes(c, doc);
        else if (tn_slice_is(key, "isClickable"))
            read_rare(c, &doc->clickable, NULL);
        else if (tn_slice_is(key, "shadowRootType"))
            read_rare(c, &doc->shadow_node, &doc->shadow_type);
        else if (tn_slice_is(key, "contentDocumentIndex"))
            read_rare(c, &doc->content_node, &doc->content_document);
        else
            tn_scan_skip(c);
    }
}

/* shown (may be NULL) gets 1 for each that is not empty. */
static void read_rects(struct tn_scan *c, struct tn_rects *out, struct tn_ints *shown)
{
    tn_scan_enter(c);
    while (tn_scan_element(c)) {
        double rect[4] = {0};
        size_t i = 0;
        tn_scan_enter(c);
        while (tn_scan_element(c)) {
            double v = tn_scan_double(c);
            if (i < 4)
                rect[i++] = v;
        }
        add_rect(out, rect);
        if (shown)
            add_int(shown, i > 0);
    }
}

static void read_layout(struct tn_scan *c, struct tn_dom_document *doc)
{
    struct tn_slice key;

    tn_scan_enter(c);
    while (tn_scan_member(c, &key)) {
        if (tn_slice_is(key, "nodeIndex"))
            read_ints(c, &doc->box_node);
        else if (tn_slice_is(key, "bounds"))
            read_rects(c, &doc->box, NULL);
        else if (tn_slice_is(key, "clientRects"))
            read_rects(c, &doc->client, &doc->box_shown);
        else
            tn_scan_skip(c);
    }
}

static void read_document(struct tn_scan *c, struct tn_dom_document *doc)
{
    struct tn_slice key;

    doc->frame_id = -1;
    tn_scan_enter(c);
    while (tn_scan_member(c, &key)) {
        if (tn_slice_is(key, "nodes"))
            read_nodes(c, doc);
        else if (tn_slice_is(key, "layout"))
            read_layout(c, doc);
        else if (tn_slice_is(key, "frameId"))
            doc->frame_id = (int32_t)tn_scan_int(c);
        else if (tn_slice_is(key, "scrollOffsetX"))
            doc->scroll_x = tn_scan_double(c);
        else if (tn_slice_is(key, "scrollOffsetY"))
            doc->scroll_y = tn_scan_double(c);
        else
            tn_scan_skip(c);
    }
}

static void read_documents(struct tn_scan *c, struct tn_dom *d)
{
    tn_scan_enter(c);
    while (tn_scan_element(c)) {
        d->documents = tn_realloc(d->documents, (d->count + 1) * sizeof d->documents[0]);
        d->documents[d->count] = (struct tn_dom_document){0};
        read_document(c, &d->documents[d->count++]);
    }
}

static void read_strings(struct tn_scan *c, struct tn_dom *d)
{
    tn_scan_enter(c);
    while (tn_scan_element(c)) {
        add_int(&d->strings, (int64_t)d->text.len);
        tn_scan_string(c, &d->text);
        tn_buf_putc(&d->text, '\0');
    }
    add_int(&d->strings, (int64_t)d->text.len);
}

/* --- what follows from it ------------------------------------------------------------------- */

/* Columns of the same length, and no number that leads outside. */
static bool is_consistent(struct tn_dom_document *doc)
{
    doc->count = doc->parent.count;
    if (!doc->count || doc->type.count != doc->count || doc->name.count != doc->count ||
        doc->value.count != doc->count || doc->backend.count != doc->count ||
        doc->first_attribute.count != doc->count + 1)
        return false;
    for (size_t i = 0; i < doc->count; i++) {
        int32_t parent = doc->parent.data[i];
        if (parent < -1 || parent >= (int32_t)i || (parent < 0) != (i == 0))
            return false;
    }
    return doc->box.count == doc->box_node.count && doc->box_shown.count == doc->box.count &&
           doc->content_node.count == doc->content_document.count &&
           doc->shadow_node.count == doc->shadow_type.count;
}

static int32_t *all_none(size_t n)
{
    int32_t *a = tn_malloc(n * sizeof *a);
    for (size_t i = 0; i < n; i++)
        a[i] = -1;
    return a;
}

static void link_nodes(struct tn_dom_document *doc)
{
    doc->first_child = all_none(doc->count);
    doc->next = all_none(doc->count);
    for (size_t i = doc->count - 1; i > 0; i--) { /* from the back: each goes before the others */
        int32_t *first = &doc->first_child[doc->parent.data[i]];
        doc->next[i] = *first;
        *first = (int32_t)i;
    }
}

static bool is_node(const struct tn_dom_document *doc, int32_t node)
{
    return node >= 0 && (size_t)node < doc->count;
}

static int32_t string_number(const struct tn_dom *d, const char *word)
{
    size_t n, length = strlen(word);

    for (size_t i = 0; i + 1 < d->strings.count; i++) {
        const char *s = tn_dom_string(d, (int32_t)i, &n);
        if (n == length && memcmp(s, word, n) == 0)
            return (int32_t)i;
    }
    return -1;
}

/* Letters and digits; a page that forges one must not get its text into the tree. */
static bool is_bid(const struct tn_dom *d, int32_t number)
{
    size_t n = 0;
    const char *s = tn_dom_string(d, number, &n);

    if (!s || !n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]))
            return false;
    return true;
}

/* What is in a closed shadow root is out of our script's reach: a bid there is forged. */
static void find_bids(struct tn_dom *d, struct tn_dom_document *doc, int32_t bid_name)
{
    tn_autofree bool *closed = tn_calloc(doc->count, sizeof closed[0]);

    for (size_t i = 0; i < doc->shadow_node.count; i++) {
        const char *type = tn_dom_string(d, doc->shadow_type.data[i], NULL);
        if (is_node(doc, doc->shadow_node.data[i]) && (!type || strcmp(type, "open") != 0))
            closed[doc->shadow_node.data[i]] = true;
    }
    for (size_t i = 1; i < doc->count; i++) {
        closed[i] |= closed[doc->parent.data[i]];
        for (int32_t a = doc->first_attribute.data[i];
             a < doc->first_attribute.data[i + 1] && !closed[i]; a += 2) {
            if (doc->attributes.data[a] == bid_name && is_bid(d, doc->attributes.data[a + 1]))
                doc->bid[i] = doc->attributes.data[a + 1];
        }
    }
}

static void join_columns(struct tn_dom *d, struct tn_dom_document *doc, int32_t bid_name)
{
    doc->bid = all_none(doc->count);
    doc->box_of = all_none(doc->count);
    doc->inner = all_none(doc->count);
    doc->is_clickable = tn_calloc(doc->count, sizeof doc->is_clickable[0]);
    if (bid_name >= 0)
        find_bids(d, doc, bid_name);
    for (size_t i = 0; i < doc->box.count; i++) {
        if (is_node(doc, doc->box_node.data[i]) && doc->box_of[doc->box_node.data[i]] < 0)
            doc->box_of[doc->box_node.data[i]] = (int32_t)i;
    }
    for (size_t i = 0; i < doc->clickable.count; i++)
        if (is_node(doc, doc->clickable.data[i]))
            doc->is_clickable[doc->clickable.data[i]] = true;
    for (size_t i = 0; i < doc->content_node.count; i++)
        if (is_node(doc, doc->content_node.data[i]))
            doc->inner[doc->content_node.data[i]] = doc->content_document.data[i];
}

/* A document is inside at most one node, of a document before it. */
static void place_documents(struct tn_dom *d)
{
    tn_autofree bool *placed = tn_calloc(d->count, sizeof placed[0]);

    for (size_t k = 0; k < d->count; k++) {
        struct tn_dom_document *doc = &d->documents[k];
        doc->x -= doc->scroll_x;
        doc->y -= doc->scroll_y;
        for (size_t i = 0; i < doc->count; i++) {
            int32_t inner = doc->inner[i];
            double at[2];
            if (inner < 0)
                continue;
            if (inner <= (int32_t)k || (size_t)inner >= d->count || placed[inner]) {
                doc->inner[i] = -1;
                continue;
            }
            placed[inner] = true;
            tn_dom_inside(doc, i, at);
            d->documents[inner].x = at[0];
            d->documents[inner].y = at[1];
        }
    }
}

static int by_backend(const void *a, const void *b)
{
    const struct tn_dom_entry *one = a, *two = b;
    return (one->backend > two->backend) - (one->backend < two->backend);
}

static void index_backends(struct tn_dom *d)
{
    size_t total = 0, n = 0;

    for (size_t k = 0; k < d->count; k++)
        total += d->documents[k].count;
    d->by_backend = tn_malloc(total * sizeof d->by_backend[0]);
    for (size_t k = 0; k < d->count; k++)
        for (size_t i = 0; i < d->documents[k].count; i++)
            d->by_backend[n++] =
                (struct tn_dom_entry){d->documents[k].backend.data[i], (int32_t)k, (int32_t)i};
    d->backend_count = n;
    qsort(d->by_backend, n, sizeof d->by_backend[0], by_backend);
}

int tn_dom_read(struct tn_dom *d, const char *json, size_t n, struct tn_error *err)
{
    struct tn_scan c = tn_scan(json, n);
    struct tn_slice key;

    *d = (struct tn_dom){.text = TN_BUF_INIT(INT32_MAX)};
    tn_scan_enter(&c);
    while (tn_scan_member(&c, &key)) {
        if (tn_slice_is(key, "documents"))
            read_documents(&c, d);
        else if (tn_slice_is(key, "strings"))
            read_strings(&c, d);
        else
            tn_scan_skip(&c);
    }
    if (c.bad || !d->count || !tn_buf_ok(&d->text))
        return tn_fail(err, TN_E_PEER, "the browser's snapshot of the page makes no sense");
    int32_t bid_name = string_number(d, "bid");
    for (size_t k = 0; k < d->count; k++) {
        if (!is_consistent(&d->documents[k]))
            return tn_fail(err, TN_E_PEER, "document %zu of the browser's snapshot is broken", k);
        link_nodes(&d->documents[k]);
        join_columns(d, &d->documents[k], bid_name);
    }
    place_documents(d);
    index_backends(d);
    return 0;
}

void tn_dom_done(struct tn_dom *d)
{
    for (size_t k = 0; k < d->count; k++) {
        struct tn_dom_document *doc = &d->documents[k];
        struct tn_ints *const columns[] = {
            &doc->parent,       &doc->type,
            &doc->name,         &doc->value,
            &doc->backend,      &doc->first_attribute,
            &doc->attributes,   &doc->clickable,
            &doc->content_node, &doc->content_document,
            &doc->box_node,     &doc->box_shown,
            &doc->shadow_node,  &doc->shadow_type,
        };
        for (size_t i = 0; i < TN_COUNT(columns); i++)
            free(columns[i]->data);
        free(doc->box.data);
        free(doc->client.data);
        free(doc->bid);
        free(doc->box_of);
        free(doc->next);
        free(doc->first_child);
        free(doc->inner);
        free(doc->is_clickable);
    }
    free(d->documents);
    free(d->strings.data);
    free(d->by_backend);
    tn_buf_done(&d->text);
    *d = (struct tn_dom){0};
}

void tn_dom_drop_bids(struct tn_dom_document *doc)
{
    for (size_t i = 0; i < doc->count; i++)
        doc->bid[i] = -1;
}

const char *tn_dom_string(const struct tn_dom *d, int32_t number, size_t *n)
{
    if (number < 0 || (size_t)number + 1 >= d->strings.count)
        return NULL;
    int32_t from = d->strings.data[number];
    if (n)
        *n = (size_t)(d->strings.data[number + 1] - from) - 1;
    return d->text.data + from;
}

const char *tn_dom_attribute(const struct tn_dom *d, const struct tn_dom_document *doc, size_t node,
                             const char *name)
{
    for (int32_t a = doc->first_attribute.data[node]; a < doc->first_attribute.data[node + 1];
         a += 2) {
        const char *s = tn_dom_string(d, doc->attributes.data[a], NULL);
        if (s && strcmp(s, name) == 0) {
            const char *value = tn_dom_string(d, doc->attributes.data[a + 1], NULL);
            return value ? value : "";
        }
    }
    return NULL;
}

const struct tn_dom_entry *tn_dom_find(const struct tn_dom *d, int64_t backend)
{
    struct tn_dom_entry key = {.backend = (int32_t)backend};

    if (backend <= 0 || backend > INT32_MAX)
        return NULL;
    return bsearch(&key, d->by_backend, d->backend_count, sizeof key, by_backend);
}

const char *tn_dom_bid(const struct tn_dom *d, int64_t backend)
{
    const struct tn_dom_entry *e = tn_dom_find(d, backend);
    return e ? tn_dom_string(d, d->documents[e->document].bid[e->node], NULL) : NULL;
}

void tn_dom_inside(const struct tn_dom_document *doc, size_t node, double at[2])
{
    int32_t box = doc->box_of[node];

    at[0] = doc->x + (box < 0 ? 0 : doc->box.data[box][0] + doc->client.data[box][0]);
    at[1] = doc->y + (box < 0 ? 0 : doc->box.data[box][1] + doc->client.data[box][1]);
}

bool tn_dom_clickable(const struct tn_dom *d, int64_t backend)
{
    const struct tn_dom_entry *e = tn_dom_find(d, backend);
    return e && d->documents[e->document].is_clickable[e->node];
}
