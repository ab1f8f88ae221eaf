/* Computer use, by the accessibility tree: that of the page in front, by actions of the browser.
 * The page says what is in it, so nothing is believed of ids, depth and number of its nodes. */
#include "service/daytona/daytona.h"

enum { NODES_MAX = 20000, LEVELS_MAX = 200, STATES_MAX = 32, FOUND_USUAL = 500, FOUND_MAX = 5000 };

/* --- the tree -------------------------------------------------------------------------------- */

struct node {
    const char *id; /* the browser's */
    const struct tn_json *json;
    bool seen;
};

struct tree {
    struct tn_json *told;             /* the observation */
    const struct tn_json *properties; /* of elements, by bid */
    struct node *nodes;               /* by id */
    size_t count;
    const char *root;
};

static void tree_done(struct tree *t)
{
    free(t->nodes);
    tn_json_free(t->told);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct node *)a)->id, ((const struct node *)b)->id);
}

/* Does that, and with nodes looks at what is there then.  -1: answered. */
static int browse(struct daytona_call *c, const char *calls, bool nodes, struct tn_json **told)
{
    struct tn_error err = {0};

    if (daytona_needs_desktop(c))
        return -1;
    if (daytona_browse(c, calls, nodes, told, &err))
        return reply_error(c->x, &err), -1;
    const struct tn_json *extras = tn_json_get(*told, "extras");
    const char *why = tn_json_get_str(extras, "last_browser_action_error", "");
    if (strcmp(tn_json_get_str(*told, "observation", ""), "browse") != 0)
        why = tn_json_get_str(*told, "content", "it was refused");
    else if (!tn_json_bool(tn_json_get(extras, "error"), false))
        return 0;
    return daytona_fail(c->x, strstr(why, "Could not find element") ? 404 : 400, NULL, "%.500s",
                        why);
}

static int look(struct daytona_call *c, struct tree *t)
{
    if (browse(c, "noop(1)", true, &t->told))
        return -1;
    const struct tn_json *extras = tn_json_get(t->told, "extras");
    const struct tn_json *all = tn_json_get(tn_json_get(extras, "axtree_object"), "nodes");
    size_t n = tn_json_count(all);
    t->properties = tn_json_get(extras, "extra_element_properties");
    t->nodes = tn_calloc(n + 1, sizeof *t->nodes);
    for (size_t i = 0; i < n; i++) {
        const struct tn_json *json = tn_json_at(all, i);
        const char *id = tn_json_get_str(json, "nodeId", NULL);
        if (id)
            t->nodes[t->count++] = (struct node){.id = id, .json = json};
    }
    if (!t->count)
        return daytona_fail(c->x, 404, "NOT_FOUND", "no accessible root for focused window");
    t->root = t->nodes[0].id;
    qsort(t->nodes, t->count, sizeof *t->nodes, by_id);
    return 0;
}

/* --- a node, in the words of AT-SPI ---------------------------------------------------------- */

static const char *text_of(const struct node *n, const char *part)
{
    return tn_json_get_str(tn_json_get(n->json, part), "value", "");
}

static const char *role_of(const struct node *n)
{
    static const char *const other[][2] = {{"RootWebArea", "document web"},
                                           {"StaticText", "static"},
                                           {"textbox", "entry"},
                                           {"searchbox", "entry"},
                                           {"checkbox", "check box"},
                                           {"radio", "radio button"},
                                           {"combobox", "combo box"},
                                           {"listbox", "list box"},
                                           {"listitem", "list item"},
                                           {"menuitem", "menu item"},
                                           {"menubar", "menu bar"},
                                           {"tab", "page tab"},
                                           {"tablist", "page tab list"},
                                           {"progressbar", "progress bar"},
                                           {"row", "table row"},
                                           {"cell", "table cell"},
                                           {"img", "image"},
                                           {"dialog", "dialog"},
                                           {"generic", "section"},
                                           {"none", "section"}};
    const char *role = text_of(n, "role");

    for (size_t i = 0; i < TN_COUNT(other); i++)
        if (strcmp(role, other[i][0]) == 0)
            return other[i][1];
    return role;
}

/* What is known of its element; NULL: it has none. */
static const struct tn_json *element_of(const struct tree *t, const struct node *n)
{
    const char *bid = tn_json_get_str(n->json, "browsergym_id", NULL);

    return bid ? tn_json_get(t->properties, bid) : NULL;
}

/* A yes, a word that is none, or neither. */
static const char *setting(const struct tn_json *value)
{
    const char *word = tn_json_str(value, NULL);

    return word ? word : tn_json_bool(value, false) ? "true" : "false";
}

static size_t states_of(const struct tree *t, const struct node *n, const char *out[STATES_MAX])
{
    /* A property; the state that it means, that which its presence means, and that of a no. */
    static const char *const rows[][4] = {
        {"focusable", "focusable"},
        {"focused", "focused"},
        {"editable", "editable"},
        {"multiline", "multi_line"},
        {"readonly", "read_only"},
        {"required", "required"},
        {"modal", "modal"},
        {"busy", "busy"},
        {"selected", "selected", "selectable"},
        {"checked", "checked", "checkable"},
        {"pressed", "pressed"},
        {"expanded", "expanded", "expandable", "collapsed"},
        {"hasPopup", "has_popup"},
        {"invalid", "invalid_entry"},
    };
    const struct tn_json *list = tn_json_get(n->json, "properties"), *element = element_of(t, n);
    bool enabled = true;
    size_t count = 0;

    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *one = tn_json_at(list, i);
        const char *name = tn_json_get_str(one, "name", "");
        const char *is = setting(tn_json_get(tn_json_get(one, "value"), "value"));
        bool no = strcmp(is, "false") == 0 || !*is, mixed = strcmp(is, "mixed") == 0;
        enabled = enabled && (no || strcmp(name, "disabled") != 0);
        for (size_t r = 0; r < TN_COUNT(rows) && count + 6 < STATES_MAX; r++) {
            if (strcmp(name, rows[r][0]) != 0)
                continue;
            const char *state = mixed ? "indeterminate" : no ? rows[r][3] : rows[r][1];
            if (state)
                out[count++] = state;
            if (rows[r][2])
                out[count++] = rows[r][2];
        }
    }
    if (enabled) {
        out[count++] = "enabled";
        out[count++] = "sensitive";
    }
    if (!element || tn_json_double(tn_json_get(element, "visibility"), 0) >= 0.5) {
        out[count++] = "visible";
        out[count++] = "showing";
    }
    return count;
}

static void put_words(struct tn_jw *w, const char *key, const char *const *words, size_t n)
{
    tn_jw_key(w, key);
    tn_jw_array(w);
    for (size_t i = 0; i < n; i++)
        tn_jw_str(w, words[i]);
    tn_jw_array_end(w);
}

/* But for its end. */
static void put_node(struct tn_jw *w, const struct tree *t, const struct node *n)
{
    static const char *const edges[] = {"x", "y", "width", "height"}, *const click[] = {"click"};
    const struct tn_json *element = element_of(t, n), *box = tn_json_get(element, "bbox");
    const char *states[STATES_MAX];
    size_t count = states_of(t, n, states);
    tn_autofree char *own = tn_asprintf("node:%.40s", n->id);

    tn_jw_object(w);
    tn_jw_kstr(w, "id", tn_json_get_str(n->json, "browsergym_id", own));
    tn_jw_kstr(w, "role", role_of(n));
    tn_jw_kstr(w, "name", text_of(n, "name"));
    tn_jw_kstr(w, "description", text_of(n, "description"));
    put_words(w, "states", states, count);
    put_words(w, "actions", click,
              tn_json_bool(tn_json_get(element, "clickable"), false) ||
                  (count && strcmp(states[0], "focusable") == 0));
    tn_jw_key(w, "bounds");
    tn_jw_object(w);
    for (size_t i = 0; i < TN_COUNT(edges); i++) {
        double at = tn_json_double(tn_json_at(box, i), 0);
        tn_jw_kint(w, edges[i], at > -1e6 && at < 1e6 ? (int64_t)at : 0);
    }
    tn_jw_object_end(w);
}

/* --- all, or some ---------------------------------------------------------------------------- */

struct walk {
    struct tree tree;
    struct tn_json *wish; /* of a search, or NULL */
    struct tn_jw w;
    size_t seen, found, most; /* 0 for the tree itself */
    bool truncated;
};

static void walk_done(struct walk *k)
{
    tree_done(&k->tree);
    tn_json_free(k->wish);
}
#define autowalk TN_CLEANUP(walk_done)

static bool matches(const struct walk *k, const struct node *n)
{
    const char *role = tn_json_get_str(k->wish, "role", ""), *name = text_of(n, "name");
    const char *wanted = tn_json_get_str(k->wish, "name", "");
    bool exact = strcmp(tn_json_get_str(k->wish, "nameMatch", ""), "exact") == 0 && *wanted;
    const struct tn_json *list = tn_json_get(k->wish, "states");
    const char *states[STATES_MAX];
    size_t count = states_of(&k->tree, n, states), have = 0;

    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *state = tn_json_str(tn_json_at(list, i), NULL);
        size_t s = 0;
        while (s < count && (!state || strcmp(states[s], state) != 0))
            s++;
        have += s < count;
    }
    return (!*role || strcasecmp(role, role_of(n)) == 0) && have == tn_json_count(list) &&
           (exact ? strcmp(name, wanted) == 0 : strstr(name, wanted) != NULL);
}

static void visit(struct walk *k, const char *id, int level, int64_t depth);

static void visit_children(struct walk *k, const struct node *n, int level, int64_t depth)
{
    const struct tn_json *list = tn_json_get(n->json, "childIds");

    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *id = tn_json_str(tn_json_at(list, i), NULL);
        if (id)
            visit(k, id, level + 1, depth);
    }
}

/* Depth as theirs: 0 is this one alone, negative is all.  What says nothing is passed over. */
static void visit(struct walk *k, const char *id, int level, int64_t depth)
{
    struct node *n = bsearch(&(struct node){.id = id}, k->tree.nodes, k->tree.count,
                             sizeof *k->tree.nodes, by_id);

    if (!n || n->seen)
        return;
    if (level > LEVELS_MAX || k->seen == NODES_MAX || (k->most && k->found == k->most)) {
        k->truncated = true;
        return;
    }
    n->seen = true;
    k->seen++;
    if (level && (tn_json_bool(tn_json_get(n->json, "ignored"), false) ||
                  strcmp(role_of(n), "InlineTextBox") == 0)) {
        visit_children(k, n, level, depth);
        return;
    }
    if (k->most) {
        if (matches(k, n)) {
            put_node(&k->w, &k->tree, n);
            tn_jw_object_end(&k->w);
            k->found++;
        }
        visit_children(k, n, level, -1);
        return;
    }
    put_node(&k->w, &k->tree, n);
    tn_jw_key(&k->w, "children");
    tn_jw_array(&k->w);
    if (depth)
        visit_children(k, n, level, depth - (depth > 0));
    tn_jw_array_end(&k->w);
    tn_jw_object_end(&k->w);
}

/* There is one window, and whose it is, is not told. */
static int check_scope(struct daytona_call *c, const char *scope)
{
    return !*scope || strcmp(scope, "focused") == 0 || strcmp(scope, "all") == 0
               ? 0
               : daytona_fail(c->x, 400, NULL, "scope: expected focused or all");
}

static void reply_walk(struct daytona_call *c, struct walk *k, int64_t depth)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);

    if (look(c, &k->tree))
        return;
    k->w = tn_jw(&json);
    tn_jw_object(&k->w);
    tn_jw_key(&k->w, k->most ? "matches" : "root");
    if (k->most)
        tn_jw_array(&k->w);
    visit(k, k->tree.root, 0, depth);
    if (k->most)
        tn_jw_array_end(&k->w);
    tn_jw_kbool(&k->w, "truncated", k->truncated);
    tn_jw_object_end(&k->w);
    tn_http_reply_json(c->x, 200, &json);
}

static void get_tree(struct daytona_call *c)
{
    const char *scope = tn_http_query(c->x, "scope"), *depth = tn_http_query(c->x, "maxDepth");
    autowalk struct walk k = {0};

    if (check_scope(c, scope ? scope : "") == 0)
        reply_walk(c, &k, depth ? strtoll(depth, NULL, 10) : -1);
}

static void post_find(struct daytona_call *c)
{
    autowalk struct walk k = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &k.wish))
        return;
    int64_t limit = tn_json_int(tn_json_get(k.wish, "limit"), 0);
    k.most = limit <= 0 ? FOUND_USUAL : limit < FOUND_MAX ? (size_t)limit : FOUND_MAX;
    const char *how = tn_json_get_str(k.wish, "nameMatch", "substring");
    if (strcmp(how, "substring") != 0 && strcmp(how, "exact") != 0)
        daytona_fail(c->x, 400, NULL, "nameMatch: expected exact or substring");
    else if (tn_json_count(tn_json_get(k.wish, "states")) > STATES_MAX)
        daytona_fail(c->x, 400, NULL, "states: expected at most %d", STATES_MAX);
    else if (check_scope(c, tn_json_get_str(k.wish, "scope", "")) == 0)
        reply_walk(c, &k, -1);
}

/* --- what is done to one --------------------------------------------------------------------- */

/* The words of the row are the call that does it. */
static void post_node(struct daytona_call *c)
{
    tn_autobuf struct tn_buf call = TN_BUF_INIT(DAYTONA_BODY_MAX * 6);
    tn_autojson struct tn_json *body = NULL, *told = NULL;
    struct tn_jw w = tn_jw(&call);

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body))
        return;
    const char *id = tn_json_get_str(body, "id", ""), *action = tn_json_get_str(body, "action", "");
    bool fills = strcmp(c->row->words, "fill") == 0;
    if (*action && strcmp(action, "click") != 0) {
        daytona_fail(c->x, 400, NULL, "action not supported by node: expected click");
        return;
    }
    tn_buf_printf(&call, "%s(", c->row->words);
    tn_jw_str(&w, id);
    if (fills)
        tn_jw_str(&w, tn_json_get_str(body, "value", ""));
    tn_buf_puts(&call, ")");
    if (strncmp(id, "node:", 5) == 0 || !*id)
        daytona_fail(c->x, *id ? 400 : 404, NULL, "the node cannot be used");
    else if (browse(c, tn_buf_str(&call), false, &told) == 0)
        tn_http_reply(c->x, 200, "application/json", "{}", 2);
}

const struct daytona_row daytona_accessibility_rows[] = {
    {"GET", "computeruse/a11y/tree", get_tree, NULL},
    {"POST", "computeruse/a11y/find", post_find, NULL},
    {"POST", "computeruse/a11y/node/focus", post_node, "focus"},
    {"POST", "computeruse/a11y/node/invoke", post_node, "click"},
    {"POST", "computeruse/a11y/node/value", post_node, "fill"},
    {0},
};
