#include "hand/browser/view-text.h"

#include "hand/browser/view-text-writer.h"

enum { ELEMENT_NODE = 1, TEXT_NODE = 3 };

enum kind {
    BLOCK,   /* on lines of its own */
    BREAK,   /* a line break */
    CELL,    /* of a table */
    DETAIL,  /* of a term */
    HEADING, /* with its level as `text` */
    IMAGE,
    ITEM, /* of a list */
    LINK,
    LIST,
    MARK, /* `text` before and behind */
    PRE,
    QUOTE,
    ROW,
    RULE,
    SKIP,  /* not for readers */
    SPACE, /* apart from what is beside it */
    TABLE,
};

/* Elements that are not simply part of the text; sorted by name. */
static const struct element {
    const char *name;
    enum kind kind;
    const char *text;
} elements[] = {
    {"A", LINK, NULL},         {"ADDRESS", BLOCK, "2"},    {"ARTICLE", BLOCK, "2"},
    {"ASIDE", BLOCK, "2"},     {"B", MARK, "**"},          {"BLOCKQUOTE", QUOTE, NULL},
    {"BODY", BLOCK, "2"},      {"BR", BREAK, NULL},        {"BUTTON", SPACE, NULL},
    {"CAPTION", BLOCK, "2"},   {"CODE", MARK, "`"},        {"DD", DETAIL, NULL},
    {"DEL", MARK, "~~"},       {"DETAILS", BLOCK, "2"},    {"DIV", BLOCK, "2"},
    {"DL", BLOCK, "2"},        {"DT", BLOCK, "1"},         {"EM", MARK, "_"},
    {"FIELDSET", BLOCK, "2"},  {"FIGCAPTION", BLOCK, "2"}, {"FIGURE", BLOCK, "2"},
    {"FOOTER", BLOCK, "2"},    {"FORM", BLOCK, "2"},       {"H1", HEADING, "# "},
    {"H2", HEADING, "## "},    {"H3", HEADING, "### "},    {"H4", HEADING, "#### "},
    {"H5", HEADING, "##### "}, {"H6", HEADING, "###### "}, {"HEAD", SKIP, NULL},
    {"HEADER", BLOCK, "2"},    {"HR", RULE, NULL},         {"I", MARK, "_"},
    {"IFRAME", BLOCK, "2"},    {"IMG", IMAGE, NULL},       {"INPUT", SPACE, NULL},
    {"KBD", MARK, "`"},        {"LEGEND", BLOCK, "1"},     {"LI", ITEM, NULL},
    {"MAIN", BLOCK, "2"},      {"MENU", LIST, NULL},       {"NAV", BLOCK, "2"},
    {"NOSCRIPT", SKIP, NULL},  {"OL", LIST, "1"},          {"OPTGROUP", SPACE, NULL},
    {"OPTION", SPACE, NULL},   {"P", BLOCK, "2"},          {"PRE", PRE, NULL},
    {"Q", MARK, "\""},         {"S", MARK, "~~"},          {"SCRIPT", SKIP, NULL},
    {"SECTION", BLOCK, "2"},   {"SELECT", SPACE, NULL},    {"STRIKE", MARK, "~~"},
    {"STRONG", MARK, "**"},    {"STYLE", SKIP, NULL},      {"SUMMARY", BLOCK, "2"},
    {"TABLE", TABLE, NULL},    {"TD", CELL, NULL},         {"TEMPLATE", SKIP, NULL},
    {"TEXTAREA", SPACE, NULL}, {"TH", CELL, NULL},         {"TR", ROW, NULL},
    {"TT", MARK, "`"},         {"U", MARK, "_"},           {"UL", LIST, NULL},
};

struct list {
    bool ordered;
    long number;
};

struct table {
    size_t cells; /* in this row */
    size_t rows;
};

/* Where the walk is; one for each document it is in. */
struct place {
    size_t source;
    const struct tn_dom_document *doc;
    size_t node;
};

struct walk {
    const struct tn_text_source *sources;
    size_t count;
    struct place *places;
    size_t depth;
    size_t level; /* of nesting, over all documents */
    struct tn_text_writer w;
    struct list *lists;
    size_t list_count;
    struct table *tables;
    size_t table_count;
};

static int by_name(const void *key, const void *row)
{
    return strcasecmp(key, ((const struct element *)row)->name);
}

static const struct element *element_at(const struct walk *k, const struct place *p)
{
    const char *name = tn_dom_string(k->sources[p->source].dom, p->doc->name.data[p->node], NULL);

    if (!name || p->doc->type.data[p->node] != ELEMENT_NODE)
        return NULL;
    return bsearch(name, elements, TN_COUNT(elements), sizeof elements[0], by_name);
}

static const char *attribute(const struct walk *k, const struct place *p, const char *name)
{
    return tn_dom_attribute(k->sources[p->source].dom, p->doc, p->node, name);
}

/* --- elements ------------------------------------------------------------------------------- */

static void open_link(struct walk *k, const struct place *p)
{
    const char *href = attribute(k, p, "href"), *title = attribute(k, p, "title");

    if (!href || !*href || *href == '#' || k->w.link)
        return;
    tn_autofree char *close =
        title && *title ? tn_asprintf("](%s \"%s\")", href, title) : tn_asprintf("](%s)", href);
    tn_text_open(&k->w, k->level, "[", close);
    k->w.link = k->level;
}

static void close_link(struct walk *k)
{
    if (k->w.link != k->level)
        return;
    k->w.link = 0;
    tn_text_close(&k->w, k->level);
}

static void open_item(struct walk *k)
{
    struct list *list = k->list_count ? &k->lists[k->list_count - 1] : NULL;
    size_t depth = k->list_count ? k->list_count : 1;
    char mark[96];

    if (k->w.link)
        return;
    k->w.fresh = false;
    tn_text_break(&k->w, 1);
    depth = depth < 20 ? depth : 20;
    if (list && list->ordered)
        snprintf(mark, sizeof mark, "%*s%ld. ", (int)depth * 2, "", list->number++);
    else
        snprintf(mark, sizeof mark, "%*s* ", (int)depth * 2, "");
    tn_text_lead(&k->w, mark);
}

static void open_list(struct walk *k, const struct place *p, bool ordered)
{
    const char *start = attribute(k, p, "start");

    tn_text_break(&k->w, k->list_count ? 1 : 2);
    k->lists = tn_realloc(k->lists, (k->list_count + 1) * sizeof k->lists[0]);
    k->lists[k->list_count++] = (struct list){ordered, start ? strtol(start, NULL, 10) : 1};
}

static void open_table(struct walk *k)
{
    tn_text_break(&k->w, 2);
    k->tables = tn_realloc(k->tables, (k->table_count + 1) * sizeof k->tables[0]);
    k->tables[k->table_count++] = (struct table){0};
}

static struct table *table(struct walk *k)
{
    return k->table_count ? &k->tables[k->table_count - 1] : NULL;
}

static void open_cell(struct walk *k)
{
    struct table *t = table(k);

    if (t && t->cells++ && !k->w.link) {
        k->w.space = false;
        tn_text_lead(&k->w, "| ");
    }
}

/* Under the first row goes a line. */
static void close_row(struct walk *k)
{
    struct table *t = table(k);

    if (!t)
        return;
    k->w.fresh = false;
    if (t->rows++ == 0 && t->cells && !k->w.link && k->w.out->len <= k->w.max) {
        tn_text_break(&k->w, 1);
        for (size_t i = 0; i < t->cells; i++)
            tn_text_lead(&k->w, i ? "|---" : "---");
        k->w.fresh = false;
    }
    tn_text_break(&k->w, 1);
    t->cells = 0;
}

static void put_image(struct walk *k, const struct place *p)
{
    const char *alt = attribute(k, p, "alt");
    if (alt)
        tn_text_add(&k->w, alt, strlen(alt));
}

/* false: nothing inside is for the reader. */
static bool enter(struct walk *k, const struct place *p, const struct element *e)
{
    switch (e->kind) {
    case SKIP:
        return false;
    case BLOCK:
        tn_text_break(&k->w, e->text[0] - '0');
        break;
    case BREAK:
        tn_text_newline(&k->w);
        break;
    case CELL:
        open_cell(k);
        break;
    case DETAIL:
        tn_text_break(&k->w, 1);
        k->w.indent += 4;
        break;
    case HEADING:
        tn_text_break(&k->w, 2);
        if (!k->w.link)
            tn_text_open(&k->w, k->level, e->text, "");
        break;
    case IMAGE:
        put_image(k, p);
        break;
    case ITEM:
        open_item(k);
        break;
    case LINK:
        open_link(k, p);
        break;
    case LIST:
        open_list(k, p, e->text != NULL);
        break;
    case MARK:
        if (!k->w.pre && !tn_text_is_open(&k->w, e->text))
            tn_text_open(&k->w, k->level, e->text, e->text);
        break;
    case PRE:
        tn_text_break(&k->w, 2);
        k->w.pre++;
        break;
    case QUOTE:
        tn_text_break(&k->w, 2);
        k->w.quotes++;
        break;
    case ROW:
        tn_text_break(&k->w, 1);
        break;
    case RULE:
        tn_text_break(&k->w, 2);
        tn_text_add(&k->w, "* * *", 5);
        tn_text_break(&k->w, 2);
        break;
    case SPACE:
        k->w.space = true;
        break;
    case TABLE:
        open_table(k);
        break;
    }
    return true;
}

static void leave(struct walk *k, const struct element *e)
{
    switch (e->kind) {
    case LINK:
        close_link(k);
        break;
    case MARK:
        tn_text_close(&k->w, k->level);
        break;
    case HEADING:
        tn_text_close(&k->w, k->level);
        tn_text_break(&k->w, 2);
        break;
    case BLOCK:
        tn_text_break(&k->w, e->text[0] - '0');
        break;
    case DETAIL:
        tn_text_break(&k->w, 1);
        k->w.indent -= 4;
        break;
    case ITEM:
        k->w.fresh = false;
        tn_text_break(&k->w, 1);
        break;
    case LIST:
        k->list_count--;
        tn_text_break(&k->w, k->list_count ? 1 : 2);
        break;
    case PRE:
        k->w.pre--;
        tn_text_break(&k->w, 2);
        break;
    case QUOTE:
        k->w.quotes--;
        tn_text_break(&k->w, 2);
        break;
    case ROW:
        close_row(k);
        break;
    case TABLE:
        k->table_count--;
        tn_text_break(&k->w, 2);
        break;
    case SPACE:
        k->w.space = true;
        break;
    case BREAK:
    case CELL:
    case IMAGE:
    case RULE:
    case SKIP:
        break;
    }
}

/* --- the walk ------------------------------------------------------------------------------- */

static void push_document(struct walk *k, size_t source, size_t document)
{
    k->places = tn_realloc(k->places, (k->depth + 1) * sizeof k->places[0]);
    k->places[k->depth++] =
        (struct place){.source = source, .doc = &k->sources[source].dom->documents[document]};
    k->level++;
}

/* Goes into the document that lies in this node, of this process or another. */
static bool enter_document(struct walk *k, const struct place *p)
{
    int32_t inner = p->doc->inner[p->node];
    size_t source = p->source;

    if (inner >= 0) {
        push_document(k, source, (size_t)inner);
        return true;
    }
    for (size_t i = 1; i < k->count; i++) {
        if (i > source && k->sources[i].parent == source && k->sources[i].dom &&
            k->sources[i].owner == p->doc->backend.data[p->node]) {
            push_document(k, i, 0);
            return true;
        }
    }
    return false;
}

/* Visits the node; true when the walk goes on inside it. */
static bool visit(struct walk *k)
{
    struct place *p = &k->places[k->depth - 1];
    const struct element *e = element_at(k, p);

    if (p->doc->type.data[p->node] == TEXT_NODE) {
        size_t n = 0;
        const char *s = tn_dom_string(k->sources[p->source].dom, p->doc->value.data[p->node], &n);
        if (s)
            tn_text_add(&k->w, s, n);
        return false;
    }
    if (e && !enter(k, p, e))
        return false;
    return true;
}

static void leave_node(struct walk *k)
{
    const struct element *e = element_at(k, &k->places[k->depth - 1]);
    if (e)
        leave(k, e);
}

/* To the next node behind this one and all in it; false at the end. */
static bool advance(struct walk *k)
{
    while (k->depth) {
        struct place *p = &k->places[k->depth - 1];
        if (p->node && p->doc->next[p->node] >= 0) {
            p->node = (size_t)p->doc->next[p->node];
            return true;
        }
        k->level--;
        if (p->node) {
            p->node = (size_t)p->doc->parent.data[p->node];
        } else if (--k->depth == 0) { /* out of this document: back in the iframe */
            return false;
        }
        leave_node(k);
    }
    return false;
}

static void walk(struct walk *k)
{
    bool more = true;

    push_document(k, 0, 0);
    while (more && k->w.out->len <= k->w.max) {
        bool inside = visit(k);
        const struct place *p = &k->places[k->depth - 1];
        if (inside && enter_document(k, p))
            continue;
        p = &k->places[k->depth - 1];
        if (inside && p->doc->first_child[p->node] >= 0) {
            k->places[k->depth - 1].node = (size_t)p->doc->first_child[p->node];
            k->level++;
            continue;
        }
        if (inside)
            leave_node(k);
        more = advance(k);
    }
}

void tn_text_put(const struct tn_text_source *sources, size_t count, struct tn_buf *out, size_t max)
{
    struct walk k = {.sources = sources, .count = count, .w = {.out = out, .max = max}};
    size_t start = out->len;

    if (count && sources[0].dom)
        walk(&k);
    bool long_text = out->len > max;
    if (long_text)
        tn_buf_cut(out, max);
    tn_text_writer_done(&k.w);
    if (long_text)
        tn_buf_printf(out,
                      "\n[... the page has more than %zu kB of text: the rest is left out ...]",
                      max >> 10);
    if (out->len > start)
        tn_buf_putc(out, '\n');
    free(k.places);
    free(k.lists);
    free(k.tables);
}
