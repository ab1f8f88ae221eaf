#include "net/http-route.h"

#include <assert.h>
#include <stdint.h>

#include "net/url.h"

enum { MAX_METHODS = 32, MAX_SEGMENT = 256 };

struct row {
    struct row *next;
    const struct tn_route *route;
    unsigned method;
};

struct node {
    const char *text; /* of a literal segment, into the pattern */
    size_t len;
    struct node **literals; /* sorted by length, then text */
    size_t literal_count;
    struct node *any;  /* {name} */
    struct row *rows;  /* a pattern ends here */
    struct row *rests; /* a pattern goes on with {name...} */
};

struct http_routes {
    struct node root;
    const char *methods[MAX_METHODS]; /* a method's index is its bit */
    unsigned method_count;
};

static const char *const standard_methods[] = {"GET",    "HEAD",  "POST",    "PUT",
                                               "DELETE", "PATCH", "OPTIONS", "TRACE"};

enum { GET_BIT = 1 << 0, HEAD_BIT = 1 << 1 };

/* --- building ------------------------------------------------------------------------------ */

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    if (a_len != b_len)
        return a_len < b_len ? -1 : 1;
    return memcmp(a, b, a_len);
}

/* The place of a literal among the node's sorted children; *found tells whether it is there. */
static size_t literal_place(const struct node *n, const char *text, size_t len, bool *found)
{
    size_t low = 0, high = n->literal_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(n->literals[middle]->text, n->literals[middle]->len, text, len);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = false;
    return low;
}

static struct node *literal_child(struct node *n, const char *text, size_t len)
{
    bool found;
    size_t place = literal_place(n, text, len, &found);

    if (found)
        return n->literals[place];
    assert(len < MAX_SEGMENT);
    struct node *child = tn_calloc(1, sizeof *child);
    child->text = text;
    child->len = len;
    n->literals = tn_realloc(n->literals, (n->literal_count + 1) * sizeof(struct node *));
    memmove(n->literals + place + 1, n->literals + place,
            (n->literal_count - place) * sizeof(struct node *));
    n->literals[place] = child;
    n->literal_count++;
    return child;
}

static struct node *any_child(struct node *n)
{
    if (!n->any)
        n->any = tn_calloc(1, sizeof *n->any);
    return n->any;
}

static int method_index(const struct http_routes *r, const char *method)
{
    for (unsigned i = 0; i < r->method_count; i++)
        if (strcmp(r->methods[i], method) == 0)
            return (int)i;
    return -1;
}

static unsigned add_method(struct http_routes *r, const char *method)
{
    int index = method_index(r, method);

    if (index < 0) {
        assert(r->method_count < MAX_METHODS);
        index = (int)r->method_count++;
        r->methods[index] = method;
    }
    return (unsigned)index;
}

/* Appends, so that of two equal patterns the earlier row answers. */
static void add_row(struct http_routes *r, struct row **list, const struct tn_route *route)
{
    struct row *row = tn_calloc(1, sizeof *row);

    row->route = route;
    row->method = add_method(r, route->method);
    while (*list)
        list = &(*list)->next;
    *list = row;
}

static bool ends_with_dots(const char *segment, size_t len)
{
    return len > 5 && memcmp(segment + len - 4, "...}", 4) == 0;
}

static void add_route(struct http_routes *r, const struct tn_route *route)
{
    struct node *n = &r->root;
    const char *at = route->pattern;
    int params = 0;

    assert(*at == '/');
    while (at) {
        const char *segment = ++at;
        size_t len = strcspn(segment, "/");
        at = segment[len] ? segment + len : NULL;
        if (*segment != '{') {
            n = literal_child(n, segment, len);
            continue;
        }
        params++;
        assert(segment[len - 1] == '}' && params <= HTTP_MAX_PARAMS);
        if (ends_with_dots(segment, len)) {
            assert(!at);
            add_row(r, &n->rests, route);
            return;
        }
        n = any_child(n);
    }
    add_row(r, &n->rows, route);
}

struct http_routes *http_routes_new(const struct tn_route *const *tables)
{
    struct http_routes *r = tn_calloc(1, sizeof *r);

    for (size_t i = 0; i < TN_COUNT(standard_methods); i++)
        add_method(r, standard_methods[i]);
    for (; tables && *tables; tables++)
        for (const struct tn_route *route = *tables; route->pattern; route++)
            add_route(r, route);
    return r;
}

static void free_rows(struct row *row)
{
    while (row) {
        struct row *next = row->next;
        free(row);
        row = next;
    }
}

static void free_node(struct node *n)
{
    for (size_t i = 0; i < n->literal_count; i++) {
        free_node(n->literals[i]);
        free(n->literals[i]);
    }
    free(n->literals);
    if (n->any)
        free_node(n->any);
    free(n->any);
    free_rows(n->rows);
    free_rows(n->rests);
}

void http_routes_free(struct http_routes *r)
{
    if (!r)
        return;
    free_node(&r->root);
    free(r);
}

/* --- matching ------------------------------------------------------------------------------ */

struct search {
    int method; /* index, or -1 for one no row has */
    struct http_match *match;
    const char *pieces[HTTP_MAX_PARAMS]; /* what the {..} on the way here caught */
    size_t lengths[HTTP_MAX_PARAMS];
    int count;
};

/* Names the captured pieces after the {..} of the pattern that matched. */
static void name_captures(const struct search *s, const char *pattern)
{
    struct http_match *m = s->match;

    m->count = s->count;
    for (int i = 0; i < s->count; i++) {
        const char *open = strchr(pattern, '{') + 1;
        size_t len = strcspn(open, ".}");
        m->captures[i] = (struct http_capture){
            .name = open, .name_len = len, .text = s->pieces[i], .len = s->lengths[i]};
        pattern = open + len;
    }
}

/* Takes the row of the wanted method if the list has it; otherwise notes what it has. */
static bool take_row(const struct row *row, struct search *s)
{
    const struct row *get = NULL;

    for (; row; row = row->next) {
        if ((int)row->method == s->method) {
            s->match->route = row->route;
            name_captures(s, row->route->pattern);
            return true;
        }
        s->match->allowed |= 1u << row->method;
        if (1u << row->method == GET_BIT && !get)
            get = row;
    }
    if (!get)
        return false;
    s->match->allowed |= HEAD_BIT;
    if (s->method < 0 || 1u << s->method != HEAD_BIT)
        return false;
    s->match->route = get->route;
    name_captures(s, get->route->pattern);
    return true;
}

/* The literal child that the segment spells, escapes or not. */
static struct node *find_literal(const struct node *n, const char *segment, size_t len)
{
    char plain[3 * MAX_SEGMENT + 1];
    bool found;

    if (len >= sizeof plain)
        return NULL;
    if (memchr(segment, '%', len)) {
        ssize_t plain_len = tn_url_decode(segment, len, plain, false);
        if (plain_len < 0)
            return NULL;
        segment = plain;
        len = (size_t)plain_len;
    }
    size_t place = literal_place(n, segment, len, &found);
    return found ? n->literals[place] : NULL;
}

/* at is the start of a segment (after its slash), or NULL when the path ended at this node. */
static bool walk(const struct node *n, const char *at, const char *end, struct search *s)
{
    if (!at)
        return n->rows && take_row(n->rows, s);

    const char *slash = memchr(at, '/', (size_t)(end - at));
    size_t len = (size_t)((slash ? slash : end) - at);
    const char *next = slash ? slash + 1 : NULL;
    const struct node *literal = n->literal_count ? find_literal(n, at, len) : NULL;
    if (literal && walk(literal, next, end, s))
        return true;
    if (!n->any && !n->rests)
        return false;

    s->pieces[s->count] = at;
    s->lengths[s->count++] = len;
    if (n->any && len > 0 && walk(n->any, next, end, s))
        return true;
    s->lengths[s->count - 1] = (size_t)(end - at);
    if (n->rests && take_row(n->rests, s))
        return true;
    s->count--;
    return false;
}

void http_routes_match(const struct http_routes *r, const char *method, const char *path, size_t n,
                       struct http_match *match)
{
    struct search s = {.method = method_index(r, method), .match = match};

    match->route = NULL;
    match->allowed = 0;
    match->count = 0;
    if (n > 0 && *path == '/')
        walk(&r->root, path + 1, path + n, &s);
}

bool http_routes_known_method(const struct http_routes *r, const char *method)
{
    return method_index(r, method) >= 0;
}

void http_routes_allow(const struct http_routes *r, unsigned allowed, struct tn_buf *out)
{
    for (unsigned i = 0; i < r->method_count; i++) {
        if (!(allowed >> i & 1))
            continue;
        if (out->len)
            tn_buf_puts(out, ", ");
        tn_buf_puts(out, r->methods[i]);
    }
}
