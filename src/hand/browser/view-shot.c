/* Frames are marked from the outside in, because a frame's bids start with the bid of its <iframe>:
 * one round trip for each level of frames but the last.  All the rest goes out in one batch: the
 * browser carries out the commands of a session in their order.  Frames of other sites have
 * processes, and batches, of their own. */
#include "hand/browser/view-shot.h"

#include "base/clock.h"
#include "hand/browser/mark.h"

enum { FRAMES_MAX = 1000, PARAMS_MAX = 1 << 20, PREFIX_MAX = 200 };
/* Frames of other sites get so long from when the page itself has answered, or twice as long as
 * that took: one that is busy must not hold up the rest. */
#define OTHERS_SECONDS 2.0
/* New frames are asked for what is not known of them yet; they may be busy, too. */
#define LIST_SECONDS 3.0

enum purpose { MARK, OWNER, LOOK, TREE, SNAPSHOT, PICTURE, UNMARK };

struct part {
    struct tn_cdp_command *commands;
    struct about {
        enum purpose purpose;
        size_t session, index; /* index: of the frame or session */
        char *params;
    } * about;
    size_t count, cap;
};

struct batch {
    struct part page, others; /* to the page's own session, and to others */
};

struct taking {
    struct tn_cdp *cdp;
    struct tn_shot *shot;
    size_t *level; /* of each frame */
    size_t deepest;
    int64_t deadline;
    double patience; /* for the picture */
    char *mark_function;
    struct tn_error *err;
};

/* --- batches -------------------------------------------------------------------------------- */

/* params is the batch's from now on. */
static void add(struct taking *t, struct batch *b, enum purpose purpose, size_t session,
                size_t index, const char *method, char *params)
{
    struct part *p = session == 0 ? &b->page : &b->others;
    const struct tn_shot_session *s = &t->shot->sessions[session];

    if (s->silent) {
        free(params);
        return;
    }
    if (p->count == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 8;
        p->commands = tn_realloc(p->commands, p->cap * sizeof p->commands[0]);
        p->about = tn_realloc(p->about, p->cap * sizeof p->about[0]);
    }
    p->commands[p->count] = (struct tn_cdp_command){
        .session = t->shot->list.frames[s->root].session,
        .method = method,
        .params_json = params,
        .grace = purpose == PICTURE ? t->patience : 0,
        .raw = purpose == TREE || purpose == SNAPSHOT || purpose == PICTURE,
    };
    p->about[p->count++] = (struct about){purpose, session, index, params};
}

static void part_done(struct part *p)
{
    tn_cdp_commands_done(p->commands, p->count);
    for (size_t i = 0; i < p->count; i++)
        free(p->about[i].params);
    free(p->commands);
    free(p->about);
}

static void batch_done(struct batch *b)
{
    part_done(&b->page);
    part_done(&b->others);
}

static void add_function(struct taking *t, struct batch *b, enum purpose purpose, size_t frame,
                         const char *function, const char *arguments)
{
    struct tn_buf params = TN_BUF_INIT(PARAMS_MAX);

    tn_cdp_put_function(&params, t->shot->list.frames[frame].context, function, arguments);
    add(t, b, purpose, t->shot->frames[frame].session, frame, "Runtime.callFunctionOn",
        tn_buf_take(&params));
}

static void add_mark(struct taking *t, struct batch *b, size_t frame)
{
    tn_autofree char *arguments = tn_asprintf("[\"%s\"]", t->shot->frames[frame].prefix);
    add_function(t, b, MARK, frame, t->mark_function, arguments);
}

/* --- marking -------------------------------------------------------------------------------- */

static bool can_be_marked(const struct tn_frame_info *info)
{
    return info->context && info->scripts;
}

/* Asks for the attributes of the <iframe>s in frames of this level. */
static void add_owners(struct taking *t, struct batch *b, size_t level)
{
    const struct tn_frame_list *list = &t->shot->list;

    for (size_t i = 1; i < list->count; i++) {
        const struct tn_frame_info *info = &list->frames[i];
        if (t->level[i] == level + 1 && t->shot->frames[info->parent].prefix &&
            info->owner_backend_node && can_be_marked(info))
            add(t, b, OWNER, t->shot->frames[info->parent].session, i, "DOM.describeNode",
                tn_asprintf("{\"backendNodeId\":%lld}", (long long)info->owner_backend_node));
    }
}

static bool is_frame_bid(const char *bid, const char *prefix)
{
    size_t n = strlen(prefix);

    if (strncmp(bid, prefix, n) != 0 || strlen(bid) > PREFIX_MAX)
        return false;
    return bid[n] >= 'a' && bid[n] <= 'z' &&
           bid[n + 1 + strspn(bid + n + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
}

/* A frame is marked when its owner has a bid; the one in an <embed>, such as a PDF, has none. */
static void take_owner(struct taking *t, size_t frame, const struct tn_json *result)
{
    const struct tn_json *list = tn_json_get(tn_json_get(result, "node"), "attributes");
    const char *parent = t->shot->frames[t->shot->list.frames[frame].parent].prefix;

    if (!parent)
        return;
    for (size_t i = 0; i + 1 < tn_json_count(list); i += 2) {
        const char *name = tn_json_str(tn_json_at(list, i), NULL);
        const char *value = tn_json_str(tn_json_at(list, i + 1), NULL);
        if (name && value && strcmp(name, "bid") == 0 && is_frame_bid(value, parent))
            t->shot->frames[frame].prefix = tn_strdup(value);
    }
}

static void take(struct taking *t, const struct about *about, struct tn_cdp_command *k)
{
    size_t index = about->index;

    switch (about->purpose) {
    case OWNER:
        take_owner(t, index, k->result);
        break;
    case LOOK:
        tn_cdp_function_value(k->result, &t->shot->frames[index].look, NULL);
        break;
    case TREE:
        t->shot->frames[index].tree = TN_TAKE_PTR(k->text);
        t->shot->frames[index].tree_len = k->text_len;
        break;
    case SNAPSHOT:
        t->shot->sessions[index].snapshot = TN_TAKE_PTR(k->text);
        t->shot->sessions[index].snapshot_len = k->text_len;
        break;
    case PICTURE:
        t->shot->picture = TN_TAKE_PTR(k->text);
        t->shot->picture_len = k->text_len;
        break;
    case MARK: /* a script that failed has marked nothing, or not all */
        if (tn_cdp_function_value(k->result, NULL, t->err->code ? NULL : t->err) < 0)
            free(TN_TAKE_PTR(t->shot->frames[index].prefix));
        break;
    case UNMARK:
        break;
    }
}

/* Sends the commands and takes what comes back.  A frame that has gone spoils the whole. */
static int run_part(struct taking *t, struct part *p, int64_t deadline)
{
    struct tn_error err;

    if (p->count && tn_cdp_call_all(t->cdp, p->commands, p->count, deadline, &err) < 0 &&
        t->err->code == TN_OK)
        *t->err = err;
    for (size_t i = 0; i < p->count; i++) {
        const struct tn_cdp_command *k = &p->commands[i];
        if (k->status == 0) {
            take(t, &p->about[i], &p->commands[i]);
        } else if (k->err.code == TN_E_GONE || k->err.code == TN_E_PEER) {
            *t->err = k->err;
            return -1;
        } else if (k->err.code == TN_E_TIMEOUT && !k->grace) {
            t->shot->sessions[p->about[i].session].silent = true;
        }
    }
    return 0;
}

static int run(struct taking *t, struct batch *b)
{
    int64_t began = tn_now(), others = (int64_t)(OTHERS_SECONDS * TN_SECOND);

    if (run_part(t, &b->page, t->deadline) < 0)
        return -1;
    int64_t now = tn_now();
    if (2 * (now - began) > others)
        others = 2 * (now - began);
    return run_part(t, &b->others, now + others < t->deadline ? now + others : t->deadline);
}

static void add_marks(struct taking *t, struct batch *b, size_t level)
{
    for (size_t i = 0; i < t->shot->list.count; i++)
        if (t->level[i] == level && t->shot->frames[i].prefix)
            add_mark(t, b, i);
}

static int mark_outer_frames(struct taking *t)
{
    for (size_t level = 0; level < t->deepest; level++) {
        struct batch b = {0};
        add_marks(t, &b, level);
        add_owners(t, &b, level);
        int r = run(t, &b);
        batch_done(&b);
        if (r < 0)
            return -1;
    }
    return 0;
}

/* --- everything else ------------------------------------------------------------------------ */

static void add_tree(struct taking *t, struct batch *b, size_t frame)
{
    const struct tn_frame_info *info = &t->shot->list.frames[frame];
    struct tn_buf params = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    if (!info->root)
        tn_jw_kstr(&w, "frameId", info->id);
    tn_jw_object_end(&w);
    add(t, b, TREE, t->shot->frames[frame].session, frame, "Accessibility.getFullAXTree",
        tn_buf_take(&params));
}

static int fetch(struct taking *t, const struct tn_shot_wishes *wishes)
{
    static const char snapshot[] = "{\"computedStyles\":[],\"includeDOMRects\":true}";
    static const char picture[] = "{\"format\":\"png\",\"optimizeForSpeed\":true}";
    const struct tn_frame_list *list = &t->shot->list;
    struct batch b = {0};

    add_marks(t, &b, t->deepest);
    for (size_t i = 0; i < list->count; i++)
        if (t->shot->frames[i].prefix)
            add_function(t, &b, LOOK, i, "() => tendon.look()", NULL);
    if (wishes->picture)
        add(t, &b, PICTURE, 0, 0, "Page.captureScreenshot", tn_strdup(picture));
    for (size_t i = 0; i < list->count && wishes->trees; i++)
        add_tree(t, &b, i);
    for (size_t i = 0; i < t->shot->session_count && wishes->snapshots; i++)
        add(t, &b, SNAPSHOT, i, i, "DOMSnapshot.captureSnapshot", tn_strdup(snapshot));
    for (size_t i = 0; i < list->count; i++)
        if (t->shot->frames[i].prefix)
            add_function(t, &b, UNMARK, i, "() => tendon.unmark()", NULL);
    int r = run(t, &b);
    batch_done(&b);
    return r;
}

/* Levels and sessions of the frames. */
static void sort_out(struct taking *t)
{
    struct tn_shot *shot = t->shot;
    const struct tn_frame_list *list = &shot->list;

    shot->frames = tn_calloc(list->count, sizeof shot->frames[0]);
    shot->sessions = tn_calloc(list->count, sizeof shot->sessions[0]);
    for (size_t i = 0; i < list->count; i++) {
        const struct tn_frame_info *info = &list->frames[i];
        if (i && info->parent < i)
            t->level[i] = t->level[info->parent] + 1;
        if (t->level[i] > t->deepest)
            t->deepest = t->level[i];
        if (i == 0 || info->root) {
            shot->frames[i].session = shot->session_count;
            shot->sessions[shot->session_count++].root = i;
        } else {
            shot->frames[i].session = shot->frames[info->parent].session;
        }
    }
    if (can_be_marked(&list->frames[0]))
        shot->frames[0].prefix = tn_strdup("");
}

int tn_shot_take(struct tn_cdp *cdp, struct tn_page *page, const struct tn_shot_wishes *wishes,
                 int64_t deadline, struct tn_shot *shot, struct tn_error *err)
{
    struct taking t = {
        .cdp = cdp, .shot = shot, .deadline = deadline, .patience = wishes->patience, .err = err};

    *shot = (struct tn_shot){0};
    *err = (struct tn_error){0};
    int64_t listed = tn_deadline_in(LIST_SECONDS);
    if (tn_page_frames(page, listed < deadline ? listed : deadline, &shot->list, err) < 0)
        return -1;
    if (!shot->list.count || shot->list.count > FRAMES_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "the page has %zu frames", shot->list.count);
    tn_autofree char *script = tn_mark_script();
    tn_autofree char *function = tn_asprintf("(prefix) => {\n%s\ntendon.mark(prefix);\n}", script);
    tn_autofree size_t *level = tn_calloc(shot->list.count, sizeof level[0]);
    t.mark_function = function;
    t.level = level;
    sort_out(&t);
    if (mark_outer_frames(&t) < 0)
        return -1;
    return fetch(&t, wishes);
}

void tn_shot_done(struct tn_shot *shot)
{
    for (size_t i = 0; i < shot->list.count && shot->frames; i++) {
        free(shot->frames[i].prefix);
        tn_json_free(shot->frames[i].look);
        free(shot->frames[i].tree);
    }
    for (size_t i = 0; i < shot->session_count; i++)
        free(shot->sessions[i].snapshot);
    free(shot->frames);
    free(shot->sessions);
    free(shot->picture);
    tn_frame_list_done(&shot->list);
    *shot = (struct tn_shot){0};
}
