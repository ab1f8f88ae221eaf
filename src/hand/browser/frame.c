/* Snapshots of a page's frames. */
#include "hand/browser/chrome.h"

enum { SCRIPT_MAX = 1 << 20, PARAMS_MAX = 64 << 10 };

void tn_frame_list_done(struct tn_frame_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct tn_frame_info *f = &list->frames[i];
        free(f->id);
        free(f->parent_id);
        free(f->session);
        free(f->url);
    }
    free(list->frames);
    *list = (struct tn_frame_list){0};
}

static size_t index_of(const struct tn_frame_list *list, const char *id, size_t fallback)
{
    for (size_t i = 0; id && i < list->count; i++) {
        if (strcmp(list->frames[i].id, id) == 0)
            return i;
    }
    return fallback;
}

static int copy_frames(struct tn_page *page, struct tn_frame_list *out, struct tn_error *err)
{
    *out = (struct tn_frame_list){0};
    chrome_lock(page->chrome);
    bool gone = page->closed || page->crashed;
    out->frames = tn_calloc(page->frame_count, sizeof *out->frames);
    for (size_t i = 0; i < page->frame_count; i++) {
        const struct chrome_frame *f = page->frames[i];
        size_t parent = index_of(out, f->parent, out->count);
        if (f->parent && parent == out->count)
            continue; /* its parent is gone, and so will it be */
        out->frames[out->count] = (struct tn_frame_info){
            .id = tn_strdup(f->id),
            .parent_id = tn_strdup_or_null(f->parent),
            .parent = parent,
            .session = tn_strdup(f->session),
            .root = !f->parent || strcmp(out->frames[parent].session, f->session) != 0,
            .context = f->context,
            .url = tn_strdup(f->url),
            .owner_backend_node = f->owner,
            .scripts = !f->still,
        };
        out->count++;
    }
    bool crashed = page->crashed;
    chrome_unlock(page->chrome);
    if (!gone && out->count)
        return 0;
    tn_frame_list_done(out);
    return tn_fail(err, TN_E_GONE, "%s", crashed ? "Page crashed" : "Target closed");
}

/* --- what is not known yet ------------------------------------------------------------------ */

enum question { OWNER, WORLD };

static const char *const methods[] = {
    [OWNER] = "DOM.getFrameOwner",
    [WORLD] = "Page.createIsolatedWorld",
};
static const char *const answers[] = {
    [OWNER] = "backendNodeId",
    [WORLD] = "executionContextId",
};

static bool is_open(const struct tn_frame_info *f, enum question question)
{
    return question == OWNER ? f->parent_id && !f->owner_backend_node : !f->context;
}

static void put_question(struct tn_buf *out, const char *id, enum question question)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "frameId", id);
    if (question == WORLD)
        tn_jw_kstr(&w, "worldName", CHROME_WORLD);
    tn_jw_object_end(&w);
}

static void remember_owner(struct tn_page *page, const struct tn_frame_info *f)
{
    chrome_lock(page->chrome);
    struct chrome_frame *known = frame_find(page, f->id);
    if (known)
        known->owner = f->owner_backend_node;
    chrome_unlock(page->chrome);
}

/* A world made just now has not run our script: the others did at the start of their document. */
static void run_script(struct tn_page *page, struct tn_frame_info *f, int64_t deadline)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(SCRIPT_MAX);
    tn_autofree char *script = page_script();
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "expression", script);
    tn_jw_kint(&w, "contextId", f->context);
    tn_jw_object_end(&w);
    if (tn_cdp_call(page->chrome->cdp, f->session, "Runtime.evaluate", tn_buf_str(&params),
                    deadline, NULL, NULL) < 0)
        f->context = 0;
}

/* Asks about all frames at once; a frame that does not answer has gone meanwhile. */
static void ask(struct tn_page *page, struct tn_frame_list *list, enum question question,
                int64_t deadline)
{
    tn_autofree struct tn_cdp_command *commands = tn_calloc(list->count, sizeof *commands);
    tn_autofree struct tn_buf *params = tn_calloc(list->count, sizeof *params);
    tn_autofree size_t *which = tn_calloc(list->count, sizeof *which);
    size_t n = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct tn_frame_info *f = &list->frames[i];
        if (!is_open(f, question))
            continue;
        tn_buf_init(&params[n], PARAMS_MAX);
        put_question(&params[n], f->id, question);
        commands[n] = (struct tn_cdp_command){
            .session = question == OWNER ? list->frames[f->parent].session : f->session,
            .method = methods[question],
            .params_json = tn_buf_str(&params[n]),
        };
        which[n++] = i;
    }
    if (n)
        tn_cdp_call_all(page->chrome->cdp, commands, n, deadline, NULL);
    for (size_t k = 0; k < n; k++) {
        struct tn_frame_info *f = &list->frames[which[k]];
        int64_t number = tn_json_int(tn_json_get(commands[k].result, answers[question]), 0);
        if (question == OWNER) {
            f->owner_backend_node = number;
            remember_owner(page, f);
        } else if ((f->context = number) != 0) {
            run_script(page, f, deadline);
        }
        tn_buf_done(&params[k]);
    }
    tn_cdp_commands_done(commands, n);
}

int tn_page_frames(struct tn_page *page, int64_t deadline, struct tn_frame_list *out,
                   struct tn_error *err)
{
    if (copy_frames(page, out, err) < 0)
        return -1;
    ask(page, out, OWNER, deadline);
    ask(page, out, WORLD, deadline);
    return 0;
}
