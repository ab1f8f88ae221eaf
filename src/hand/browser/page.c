#include "hand/browser/chrome.h"

/* --- growing lists -------------------------------------------------------------------------- */

static void append_pointer(void ***list, size_t *count, void *item)
{
    *list = tn_realloc(*list, (*count + 1) * sizeof **list);
    (*list)[(*count)++] = item;
}

static void replace_text(char **to, const char *text)
{
    char *copy = tn_strdup_or_null(text);
    free(*to);
    *to = copy;
}

/* --- frames --------------------------------------------------------------------------------- */

static void frame_free(struct chrome_frame *f)
{
    free(f->id);
    free(f->parent);
    free(f->session);
    free(f->url);
    free(f->loader);
    free(f);
}

struct chrome_frame *frame_find(const struct tn_page *page, const char *id)
{
    for (size_t i = 0; id && i < page->frame_count; i++) {
        if (strcmp(page->frames[i]->id, id) == 0)
            return page->frames[i];
    }
    return NULL;
}

struct chrome_frame *frame_main(const struct tn_page *page)
{
    for (size_t i = 0; i < page->frame_count; i++) {
        if (!page->frames[i]->parent)
            return page->frames[i];
    }
    return NULL;
}

struct chrome_frame *frame_add(struct tn_page *page, const char *id, const char *parent,
                               const char *session)
{
    struct chrome_frame *f = frame_find(page, id);

    if (f) {
        frame_set_session(f, session);
        return f;
    }
    f = tn_calloc(1, sizeof *f);
    f->id = tn_strdup(id);
    f->parent = tn_strdup_or_null(parent);
    f->session = tn_strdup(session);
    f->url = tn_strdup("about:blank");
    f->loader = tn_strdup("");
    append_pointer((void ***)&page->frames, &page->frame_count, f);
    return f;
}

void frame_set_session(struct chrome_frame *f, const char *session)
{
    if (strcmp(f->session, session) == 0)
        return;
    replace_text(&f->session, session);
    f->context = 0;
}

void frame_remove_children(struct tn_page *page, const char *id)
{
    for (size_t i = 0; i < page->frame_count;) {
        struct chrome_frame *f = page->frames[i];
        if (f->parent && strcmp(f->parent, id) == 0) {
            frame_remove(page, f->id);
            i = 0;
        } else {
            i++;
        }
    }
}

void frame_remove(struct tn_page *page, const char *id)
{
    struct chrome_frame *f = frame_find(page, id);

    if (!f)
        return;
    frame_remove_children(page, f->id);
    for (size_t i = 0; i < page->frame_count; i++) {
        if (page->frames[i] == f) {
            page->frame_count--;
            memmove(page->frames + i, page->frames + i + 1,
                    (page->frame_count - i) * sizeof *page->frames);
            break;
        }
    }
    request_remove_of(page, NULL, f->id, NULL);
    frame_free(f);
}

/* --- requests ------------------------------------------------------------------------------- */

static void request_done(struct chrome_request *r)
{
    free(r->id);
    free(r->session);
    free(r->frame);
    free(r->loader);
}

static void remove_at(struct tn_page *page, size_t i)
{
    request_done(&page->requests[i]);
    page->requests[i] = page->requests[--page->request_count];
}

void request_add(struct tn_page *page, const struct chrome_request *request)
{
    page->requests = tn_realloc(page->requests, (page->request_count + 1) * sizeof *page->requests);
    page->requests[page->request_count++] = (struct chrome_request){
        .id = tn_strdup(request->id),
        .session = tn_strdup(request->session),
        .frame = tn_strdup(request->frame),
        .loader = tn_strdup(request->loader),
        .number = request->number,
    };
}

struct chrome_request *request_find(const struct tn_page *page, const char *id)
{
    for (size_t i = 0; i < page->request_count; i++) {
        if (strcmp(page->requests[i].id, id) == 0)
            return &page->requests[i];
    }
    return NULL;
}

void request_remove(struct tn_page *page, const char *id)
{
    const struct chrome_request *r = request_find(page, id);

    if (r)
        remove_at(page, (size_t)(r - page->requests));
}

void request_remove_of(struct tn_page *page, const char *session, const char *frame,
                       const char *but_loader)
{
    for (size_t i = 0; i < page->request_count;) {
        const struct chrome_request *r = &page->requests[i];
        if ((!session || strcmp(r->session, session) == 0) &&
            (!frame || strcmp(r->frame, frame) == 0) &&
            (!but_loader || strcmp(r->loader, but_loader) != 0))
            remove_at(page, i);
        else
            i++;
    }
}

/* --- pages and sessions --------------------------------------------------------------------- */

struct tn_page *page_by_session(struct tn_chrome *c, const char *session)
{
    for (size_t i = 0; i < c->session_count; i++) {
        if (strcmp(c->sessions[i].id, session) == 0)
            return c->sessions[i].page;
    }
    return NULL;
}

struct tn_page *page_by_target(struct tn_chrome *c, const char *target)
{
    for (size_t i = 0; i < c->page_count; i++) {
        if (strcmp(c->pages[i]->target, target) == 0)
            return c->pages[i];
    }
    return NULL;
}

void chrome_add_session(struct tn_chrome *c, const char *session, struct tn_page *page)
{
    c->sessions = tn_realloc(c->sessions, (c->session_count + 1) * sizeof *c->sessions);
    c->sessions[c->session_count++] =
        (struct chrome_session){.id = tn_strdup(session), .page = page};
}

void chrome_drop_session(struct tn_chrome *c, const char *session)
{
    for (size_t i = 0; i < c->session_count; i++) {
        if (strcmp(c->sessions[i].id, session) == 0) {
            free(c->sessions[i].id);
            c->sessions[i] = c->sessions[--c->session_count];
            return;
        }
    }
}

struct tn_page *page_add(struct tn_chrome *c, const char *target, const char *session,
                         const char *url)
{
    struct tn_page *page = tn_calloc(1, sizeof *page);

    page->refs = 1; /* the list's */
    page->chrome = c;
    page->target = tn_strdup(target);
    page->session = tn_strdup(session);
    page->title = tn_strdup("");
    page->active = ++c->counter;
    struct chrome_frame *f = frame_add(page, target, NULL, session);
    replace_text(&f->url, url);
    append_pointer((void ***)&c->pages, &c->page_count, page);
    chrome_add_session(c, session, page);
    return page;
}

void page_close(struct tn_chrome *c, struct tn_page *page)
{
    for (size_t i = 0; i < c->session_count;) {
        if (c->sessions[i].page == page)
            chrome_drop_session(c, c->sessions[i].id);
        else
            i++;
    }
    for (size_t i = 0; i < c->page_count; i++) {
        if (c->pages[i] != page)
            continue;
        c->page_count--;
        memmove(c->pages + i, c->pages + i + 1, (c->page_count - i) * sizeof *c->pages);
        page->closed = true;
        tn_page_unref(page);
        return;
    }
}

struct tn_page *page_active(struct tn_chrome *c)
{
    struct tn_page *latest = NULL;

    for (size_t i = 0; i < c->page_count; i++) {
        if (!c->pages[i]->crashed && (!latest || c->pages[i]->active > latest->active))
            latest = c->pages[i];
    }
    return latest;
}

struct tn_page *tn_page_ref(struct tn_page *page)
{
    __atomic_add_fetch(&page->refs, 1, __ATOMIC_RELAXED);
    return page;
}

void tn_page_unref(struct tn_page *page)
{
    if (!page || __atomic_sub_fetch(&page->refs, 1, __ATOMIC_ACQ_REL))
        return;
    for (size_t i = 0; i < page->frame_count; i++)
        frame_free(page->frames[i]);
    for (size_t i = 0; i < page->request_count; i++)
        request_done(&page->requests[i]);
    free(page->frames);
    free(page->requests);
    free(page->target);
    free(page->session);
    free(page->title);
    free(page->chooser_session);
    tn_json_free(page->drag);
    free(page);
}

const char *tn_page_session(const struct tn_page *page)
{
    return page->session;
}

struct tn_page_progress tn_page_progress(struct tn_page *page)
{
    chrome_lock(page->chrome);
    const struct chrome_frame *f = frame_main(page);
    bool known = f && f->commits && f->loader[0]; /* else nobody has told */
    struct tn_page_progress progress = {
        .ready = !known || f->ready,
        .loaded = !known || f->loaded,
    };
    chrome_unlock(page->chrome);
    return progress;
}

char *tn_page_url(struct tn_page *page)
{
    chrome_lock(page->chrome);
    struct chrome_frame *f = frame_main(page);
    char *url = tn_strdup(f ? f->url : "");
    chrome_unlock(page->chrome);
    return url;
}

char *tn_page_title(struct tn_page *page)
{
    chrome_lock(page->chrome);
    char *title = tn_strdup(page->title);
    chrome_unlock(page->chrome);
    return title;
}
