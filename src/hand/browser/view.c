#include "hand/browser/view.h"

#include "base/base64.h"
#include "base/clock.h"
#include "hand/browser/png.h"
#include "hand/browser/view-marks.h"
#include "hand/browser/view-shot.h"
#include "hand/browser/view-text.h"
#include "hand/browser/view-tree.h"

/* An observation has at most 64 MB: these leave room for all of them. */
enum {
    TREE_MAX = 8 << 20,
    TEXT_MAX = 8 << 20,
    OBJECT_MAX = 12 << 20,
    PICTURE_MAX = 8 << 20,
    SLACK = 64 << 10,
};
enum { TRIES = 5 };
/* A page that does not answer for so long is busy with itself. */
#define STEP_SECONDS 20.0
/* A document of which only the head has come, or that waits for a style sheet, is not drawn at all,
 * but its tree is there. */
#define PICTURE_SECONDS 1.0

struct looking {
    const struct tn_view_options *options;
    struct tn_shot shot;
    struct tn_dom *doms; /* one for each session */
    bool *has_dom;
    double (*origin)[2]; /* of each session in the page's viewport */
    struct tn_view *view;
};

/* --- snapshots ------------------------------------------------------------------------------ */

/* Where a session's first document is: in the box of its <iframe>. */
static void place_session(struct looking *l, size_t session)
{
    const struct tn_frame_list *list = &l->shot.list;
    const struct tn_frame_info *root = &list->frames[l->shot.sessions[session].root];
    size_t outer = l->shot.frames[root->parent].session;

    if (session == 0 || outer >= session || !l->has_dom[outer])
        return;
    const struct tn_dom *dom = &l->doms[outer];
    const struct tn_dom_entry *e = tn_dom_find(dom, root->owner_backend_node);
    if (!e)
        return;
    tn_dom_inside(&dom->documents[e->document], (size_t)e->node, l->origin[session]);
    l->origin[session][0] += l->origin[outer][0];
    l->origin[session][1] += l->origin[outer][1];
}

static const struct tn_json *look_of(const struct looking *l, const struct tn_dom *dom,
                                     const struct tn_dom_document *doc)
{
    const char *id = tn_dom_string(dom, doc->frame_id, NULL);

    for (size_t i = 0; id && i < l->shot.list.count; i++)
        if (strcmp(l->shot.list.frames[i].id, id) == 0)
            return l->shot.frames[i].look;
    return NULL;
}

/* Only what was marked, and has answered since, has bids of ours. */
static void drop_foreign_bids(struct looking *l, struct tn_dom *dom)
{
    for (size_t k = 0; k < dom->count; k++)
        if (!look_of(l, dom, &dom->documents[k]))
            tn_dom_drop_bids(&dom->documents[k]);
}

static void read_snapshots(struct looking *l)
{
    size_t count = l->shot.session_count;

    l->doms = tn_calloc(count, sizeof l->doms[0]);
    l->has_dom = tn_calloc(count, sizeof l->has_dom[0]);
    l->origin = tn_calloc(count, sizeof l->origin[0]);
    for (size_t i = 0; i < count; i++) {
        const struct tn_shot_session *s = &l->shot.sessions[i];
        l->has_dom[i] =
            s->snapshot && tn_dom_read(&l->doms[i], s->snapshot, s->snapshot_len, NULL) == 0;
        if (!l->has_dom[i])
            continue;
        place_session(l, i);
        drop_foreign_bids(l, &l->doms[i]);
    }
}

/* --- tree and text -------------------------------------------------------------------------- */

static char *explain(const struct tn_error *err)
{
    if (err->code == TN_E_TIMEOUT)
        return tn_strdup("the page does not answer; one of its scripts may keep it busy");
    return tn_strdup(err->text);
}

static void put_tree(struct looking *l, struct tn_error *err)
{
    const struct tn_frame_list *list = &l->shot.list;
    tn_autofree struct tn_tree_source *sources = tn_calloc(list->count, sizeof sources[0]);
    struct tn_buf text = TN_BUF_INIT(TREE_MAX + SLACK);
    tn_autobuf struct tn_buf object = TN_BUF_INIT(OBJECT_MAX);

    for (size_t i = 0; i < list->count; i++) {
        const struct tn_shot_frame *f = &l->shot.frames[i];
        sources[i] = (struct tn_tree_source){
            .json = f->tree,
            .n = f->tree_len,
            .dom = l->has_dom[f->session] ? &l->doms[f->session] : NULL,
            .session = f->session,
            .parent = list->frames[i].parent,
            .owner = list->frames[i].owner_backend_node,
        };
    }
    struct tn_tree *tree = tn_tree_read(sources, list->count, err->code == TN_OK ? err : NULL);
    if (!tree) {
        l->view->tree_error = explain(err);
        return;
    }
    tn_tree_put_text(tree, &text, TREE_MAX);
    free(l->view->tree);
    l->view->tree = tn_buf_take(&text);
    if (l->options->objects) {
        tn_tree_put_object(tree, &object);
        if (tn_buf_ok(&object))
            tn_json_parse(object.data, object.len, &l->view->axtree_object, NULL);
    }
    tn_tree_free(tree);
}

static void put_text(struct looking *l, const struct tn_error *err)
{
    const struct tn_shot *shot = &l->shot;
    tn_autofree struct tn_text_source *sources = tn_calloc(shot->session_count, sizeof sources[0]);
    struct tn_buf text = TN_BUF_INIT(TEXT_MAX + (4 << 20));

    for (size_t i = 0; i < shot->session_count; i++) {
        const struct tn_frame_info *root = &shot->list.frames[shot->sessions[i].root];
        sources[i] = (struct tn_text_source){
            .dom = l->has_dom[i] ? &l->doms[i] : NULL,
            .parent = shot->frames[root->parent].session,
            .owner = root->owner_backend_node,
        };
    }
    if (!l->has_dom[0] && !l->view->tree_error)
        l->view->tree_error = explain(err);
    tn_text_put(sources, shot->session_count, &text, TEXT_MAX);
    free(l->view->text);
    l->view->text = tn_buf_take(&text);
}

/* From frame to frame, as long as it is a frame that has the focus. */
static void find_focus(struct looking *l)
{
    const struct tn_shot *shot = &l->shot;
    const char *bid = tn_json_get_str(shot->frames[0].look, "focused", "");

    for (size_t i = 1; i < shot->list.count; i++) {
        const struct tn_shot_frame *f = &shot->frames[i];
        if (f->prefix && f->look && strcmp(f->prefix, bid) == 0)
            bid = tn_json_get_str(f->look, "focused", "");
    }
    free(l->view->focused);
    l->view->focused = tn_strdup(bid);
}

/* --- elements ------------------------------------------------------------------------------- */

/* An element that has a bid. */
struct element {
    const char *bid;
    const struct tn_json *look; /* of its frame, or NULL */
    const double *box;          /* in its document; NULL: it is not rendered */
    double x, y;                /* in the viewport */
    bool clickable;
};

typedef void (*element_fn)(const struct element *e, void *ctx);

static void each_in_document(const struct looking *l, size_t session,
                             const struct tn_dom_document *doc, element_fn fn, void *ctx)
{
    const struct tn_dom *dom = &l->doms[session];
    struct element e = {.look = look_of(l, dom, doc)};

    for (size_t i = 0; i < doc->count; i++) {
        int32_t box = doc->box_of[i];
        e.bid = tn_dom_string(dom, doc->bid[i], NULL);
        if (!e.bid)
            continue;
        e.box = box >= 0 && doc->box_shown.data[box] ? doc->box.data[box] : NULL;
        e.x = e.box ? e.box[0] + doc->x + l->origin[session][0] : 0;
        e.y = e.box ? e.box[1] + doc->y + l->origin[session][1] : 0;
        e.clickable = doc->is_clickable[i];
        fn(&e, ctx);
    }
}

static void each_element(const struct looking *l, element_fn fn, void *ctx)
{
    for (size_t s = 0; s < l->shot.session_count; s++)
        for (size_t k = 0; l->has_dom[s] && k < l->doms[s].count; k++)
            each_in_document(l, s, &l->doms[s].documents[k], fn, ctx);
}

static bool is_marked(const struct element *e)
{
    return tn_json_bool(tn_json_get(tn_json_get(e->look, "marks"), e->bid), false);
}

static void put_properties(const struct element *e, void *ctx)
{
    struct tn_jw *w = ctx;

    tn_jw_key(w, e->bid);
    tn_jw_object(w);
    if (e->look)
        tn_jw_kdouble(w, "visibility",
                      tn_json_double(tn_json_get(tn_json_get(e->look, "visible"), e->bid), 0));
    else
        tn_jw_knull(w, "visibility");
    tn_jw_key(w, "bbox");
    if (e->box) {
        tn_jw_array(w);
        tn_jw_double(w, e->x);
        tn_jw_double(w, e->y);
        tn_jw_double(w, e->box[2]);
        tn_jw_double(w, e->box[3]);
        tn_jw_array_end(w);
    } else {
        tn_jw_null(w);
    }
    tn_jw_kbool(w, "clickable", e->clickable);
    tn_jw_kbool(w, "set_of_marks", is_marked(e));
    tn_jw_object_end(w);
}

static void put_all_properties(struct looking *l)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(OBJECT_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    each_element(l, put_properties, &w);
    tn_jw_object_end(&w);
    if (tn_buf_ok(&json))
        tn_json_parse(json.data, json.len, &l->view->extra_element_properties, NULL);
}

/* --- pictures ------------------------------------------------------------------------------- */

static char *data_url(const struct tn_buf *png)
{
    struct tn_buf url = TN_BUF_INIT(PICTURE_MAX * 3 / 2);

    tn_buf_puts(&url, "data:image/png;base64,");
    tn_base64_encode(&url, png->data, png->len);
    if (!tn_buf_ok(&url))
        tn_buf_reset(&url);
    return tn_buf_take(&url);
}

static void draw_mark(const struct element *e, void *ctx)
{
    if (e->box && is_marked(e))
        tn_marks_draw(ctx, e->bid, e->x, e->y, e->box[2], e->box[3]);
}

static void put_pictures(struct looking *l)
{
    struct tn_slice data =
        tn_slice_get((struct tn_slice){l->shot.picture, l->shot.picture_len}, "data");
    struct tn_view *v = l->view;
    tn_autobuf struct tn_buf marked = TN_BUF_INIT(PICTURE_MAX);
    struct tn_image image;

    data = tn_slice_unquoted(data);
    if (!data.n || tn_base64_decode(&v->png, data.s, data.n, NULL) < 0)
        return;
    free(v->screenshot);
    v->screenshot = data_url(&v->png);
    if (tn_png_decode(v->png.data, v->png.len, &image, NULL) == 0) {
        each_element(l, draw_mark, &image);
        if (tn_png_encode(&image, &marked, NULL) == 0) {
            free(v->set_of_marks);
            v->set_of_marks = data_url(&marked);
        }
    }
    tn_image_done(&image);
}

/* --- the whole ------------------------------------------------------------------------------ */

static void assemble(struct looking *l, struct tn_error *err)
{
    const struct tn_view_options *o = l->options;

    read_snapshots(l);
    find_focus(l);
    if (o->tree || o->objects)
        put_tree(l, err);
    if (o->text)
        put_text(l, err);
    if (o->objects)
        put_all_properties(l);
    if (o->pictures)
        put_pictures(l);
}

static void looking_done(struct looking *l)
{
    for (size_t i = 0; i < l->shot.session_count && l->doms; i++)
        tn_dom_done(&l->doms[i]);
    free(l->doms);
    free(l->has_dom);
    free(l->origin);
    tn_shot_done(&l->shot);
}

int tn_view_take(struct tn_cdp *cdp, struct tn_page *page, const struct tn_view_options *options,
                 int64_t deadline, struct tn_view *out, struct tn_error *err)
{
    const struct tn_page_progress progress = tn_page_progress(page);
    struct tn_shot_wishes wishes = {.trees = options->tree || options->objects,
                                    .snapshots = true,
                                    .picture = options->pictures,
                                    .patience = progress.loaded ? 0 : PICTURE_SECONDS};
    struct looking l = {.options = options, .view = out};
    int64_t step = tn_deadline_in(STEP_SECONDS);
    int r = -1;

    *out = (struct tn_view){.png = TN_BUF_INIT(PICTURE_MAX)};
    out->tree = tn_strdup("");
    out->text = tn_strdup("");
    out->focused = tn_strdup("");
    out->screenshot = tn_strdup("");
    out->set_of_marks = tn_strdup("");
    for (int i = 0; i < TRIES && r < 0; i++) {
        tn_shot_done(&l.shot);
        r = tn_shot_take(cdp, page, &wishes, step < deadline ? step : deadline, &l.shot, err);
        if (r < 0 && err->code != TN_E_GONE)
            break;
    }
    bool gone = r < 0 && (err->code == TN_E_PEER || l.shot.list.count == 0);
    if (r == 0)
        assemble(&l, err);
    else
        out->tree_error = explain(err);
    out->loading = !progress.ready || (!progress.loaded && options->pictures && !out->png.len);
    looking_done(&l);
    return gone ? -1 : 0;
}

void tn_view_done(struct tn_view *v)
{
    free(v->tree);
    free(v->tree_error);
    free(v->text);
    free(v->focused);
    tn_buf_done(&v->png);
    free(v->screenshot);
    free(v->set_of_marks);
    tn_json_free(v->axtree_object);
    tn_json_free(v->extra_element_properties);
    *v = (struct tn_view){0};
}
