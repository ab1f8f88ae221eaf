/* Which sandboxes there are: names, tags, lists. */
#include "service/modal/modal.h"

enum { WORDS_MAX = 256 << 10, PAGE = 100, TAGS_MAX = 64 };

/* --- names ----------------------------------------------------------------------------------- */

static int try_name(struct box *b, void *ctx)
{
    struct modal_search *s = ctx;
    Modal__Result ended = MODAL__RESULT__INIT;
    autoview struct box_view v = {0};

    box_look(b, &v);
    if (!modal_is_sandbox(&v) ||
        strcmp(tn_json_get_str(modal_record(&v), "app", ""), s->app) != 0 ||
        modal_result(&v, &ended))
        return 0;
    memcpy(s->id, v.id, sizeof s->id);
    return 1;
}

bool modal_find_name(const struct modal_call *c, struct modal_search *s)
{
    const struct box_filter f = {.tenant = c->who->tenant, .name = s->name, .newest_first = true};

    return box_each(c->s, &f, try_name, s, NULL) != 0;
}

/* --- tags ----------------------------------------------------------------------------------- */

static void put_tags(struct tn_jw *w, Modal__Tag *const *tags, size_t n)
{
    tn_jw_object(w);
    for (size_t i = 0; i < n; i++)
        if (tags[i]->tag_name)
            tn_jw_kstr(w, tags[i]->tag_name, tags[i]->tag_value ? tags[i]->tag_value : "");
    tn_jw_object_end(w);
}

struct tn_json *modal_tag_words(Modal__Tag *const *tags, size_t n, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(WORDS_MAX);
    struct tn_json *words = NULL;
    struct tn_jw w = tn_jw(&text);

    put_tags(&w, tags, n);
    if (n > TAGS_MAX || !tn_buf_ok(&text))
        tn_fail(err, TN_E_INVALID, "tags: at most %d", TAGS_MAX);
    else
        tn_json_parse(tn_buf_str(&text), text.len, &words, err);
    return words;
}

struct tags {
    Modal__Tag rows[TAGS_MAX], *all[TAGS_MAX];
    size_t count;
};

static int add_tag(const char *key, struct tn_json *value, void *ctx)
{
    struct tags *t = ctx;
    const char *text = tn_json_str(value, NULL);

    if (text && t->count < TAGS_MAX) {
        Modal__Tag *tag = t->all[t->count] = &t->rows[t->count];
        modal__tag__init(tag);
        tag->tag_name = (char *)(uintptr_t)key;
        tag->tag_value = (char *)(uintptr_t)text;
        t->count++;
    }
    return 0;
}

static int tags_set(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxTagsSetRequest *in = request;
    autoview struct box_view v = {0};
    autobox struct box *b = modal_box(c, in->sandbox_id, err);

    if (!b)
        return -1;
    box_look(b, &v);
    tn_autojson struct tn_json *words = modal_tag_words(in->tags, in->n_tags, err),
                               *metadata = NULL;
    if (!words ||
        !(metadata = surface_metadata(words, MODAL_RECORD, modal_record(&v), NULL, NULL, err)))
        return -1;
    return box_change(b, c->who, &(struct box_change){.metadata = metadata}, err);
}

static int tags_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    Modal__SandboxTagsGetResponse out = MODAL__SANDBOX_TAGS_GET_RESPONSE__INIT;
    autoview struct box_view v = {0};
    struct tags tags = {.count = 0};
    autobox struct box *b = modal_box(c, in->id, err);

    if (!b)
        return -1;
    box_look(b, &v);
    tn_json_each(v.metadata, add_tag, &tags);
    out.n_tags = tags.count;
    out.tags = tags.all;
    return modal_send(c, &out, err);
}

static int set_name(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxSetNameRequest *in = request;
    autoview struct box_view v = {0};
    autobox struct box *b = modal_box(c, in->sandbox_id, err);

    if (!b || native_check_names(in->name, NULL, NULL, err))
        return -1;
    box_look(b, &v);
    struct modal_search taken = {.app = tn_json_get_str(modal_record(&v), "app", ""),
                                 .name = in->name};
    if (in->name && *in->name && modal_find_name(c, &taken) && strcmp(taken.id, v.id) != 0)
        return modal_exists(c, "a sandbox of the name", in->name);
    return box_change(b, c->who, &(struct box_change){.name = in->name ? in->name : ""}, err);
}

static int from_name(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SandboxGetFromNameRequest *in = request;
    Modal__SandboxCreateResponse out = MODAL__SANDBOX_CREATE_RESPONSE__INIT;
    char app[MODAL_APP_ID], id[MODAL_ID];
    struct modal_search s = {.app = app, .name = in->sandbox_name ? in->sandbox_name : ""};

    modal_app_id(in->app_name ? in->app_name : "", app);
    if (!modal_find_name(c, &s))
        return tn_fail(err, TN_E_NOT_FOUND, "there is no sandbox '%.60s' in that app", s.name);
    snprintf(id, sizeof id, "sb-%s", s.id);
    out.sandbox_id = id;
    return modal_send(c, &out, err);
}

/* --- lists ----------------------------------------------------------------------------------- */

struct list {
    const Modal__SandboxListRequest *in;
    struct row {
        Modal__SandboxInfo info;
        Modal__TaskInfo task;
        Modal__Result result;
        struct tags tags;
        char id[MODAL_ID], task_id[MODAL_ID];
        struct box_view view;
    } rows[PAGE];
    Modal__SandboxInfo *all[PAGE];
    size_t count;
};

static bool has_tags(const struct box_view *v, const Modal__SandboxListRequest *in)
{
    for (size_t i = 0; i < in->n_tags; i++) {
        const char *name = in->tags[i]->tag_name ? in->tags[i]->tag_name : "",
                   *value = in->tags[i]->tag_value ? in->tags[i]->tag_value : "";
        if (strcmp(tn_json_get_str(v->metadata, name, "\n"), value) != 0)
            return false;
    }
    return true;
}

static int list_one(struct box *b, void *ctx)
{
    struct list *l = ctx;
    struct row *r = &l->rows[l->count];
    const Modal__SandboxListRequest *in = l->in;

    box_look(b, &r->view);
    const struct box_view *v = &r->view;
    modal__result__init(&r->result);
    bool ended = modal_is_sandbox(v) && modal_result(v, &r->result);
    const char *app = tn_json_get_str(modal_record(v), "app", "");
    if (!modal_is_sandbox(v) || (ended && !in->include_finished) || !has_tags(v, in) ||
        (in->app_id && *in->app_id && strcmp(in->app_id, app) != 0) ||
        (in->before_timestamp > 0 && v->created >= in->before_timestamp)) {
        box_view_done(&r->view);
        return 0;
    }
    modal__sandbox_info__init(&r->info);
    modal__task_info__init(&r->task);
    r->tags.count = 0;
    tn_json_each(v->metadata, add_tag, &r->tags);
    r->task.id = modal_id("ta", b, r->task_id);
    r->task.has_started_at = true;
    r->task.started_at = v->started;
    r->task.result = ended ? &r->result : NULL;
    r->info.id = modal_id("sb", b, r->id);
    r->info.has_created_at = true;
    r->info.created_at = v->created;
    r->info.task_info = &r->task;
    r->info.app_id = (char *)(uintptr_t)app;
    r->info.name = v->name;
    r->info.image_id = (char *)(uintptr_t)tn_json_get_str(modal_record(v), "image", NULL);
    r->info.n_tags = r->tags.count;
    r->info.tags = r->tags.all;
    l->all[l->count++] = &r->info;
    return l->count == PAGE;
}

static int sandbox_list(struct modal_call *c, const void *request, struct tn_error *err)
{
    Modal__SandboxListResponse out = MODAL__SANDBOX_LIST_RESPONSE__INIT;
    const struct box_filter f = {.tenant = c->who->tenant, .newest_first = true};
    tn_autofree struct list *l = tn_calloc(1, sizeof *l);

    l->in = request;
    box_each(c->s, &f, list_one, l, NULL);
    out.n_sandboxes = l->count;
    out.sandboxes = l->all;
    int result = modal_send(c, &out, err);
    for (size_t i = 0; i < l->count; i++)
        box_view_done(&l->rows[i].view);
    return result;
}

const struct modal_method modal_lists[] = {
    {"SandboxList", MODAL_MESSAGE(sandbox_list_request), sandbox_list, SCOPE_READ},
    {"SandboxGetFromName", MODAL_MESSAGE(sandbox_get_from_name_request), from_name, SCOPE_READ},
    {"SandboxTagsSet", MODAL_MESSAGE(sandbox_tags_set_request), tags_set, SCOPE_MANAGE},
    {"SandboxTagsGet", MODAL_MESSAGE(who), tags_get, SCOPE_READ},
    {"SandboxSetName", MODAL_MESSAGE(sandbox_set_name_request), set_name, SCOPE_MANAGE},
    {0},
};
