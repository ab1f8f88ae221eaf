/* What is asked when, whoever the vendor is. */
#include <sys/eventfd.h>

#include "base/again.h"
#include "base/proc.h"
#include "runtime/cloud/cloud.h"
#include "runtime/owner.h"

#define CALL_SECONDS 90.0 /* a create may have to wait for its turn */

void cloud_free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void cloud_view_done(struct cloud_view *v)
{
    cloud_free_secret(v->token);
    cloud_free_secret(v->entry);
    free(v->id);
    free(v->own);
    free(v->session);
    free(v->reason);
    free(v->domain);
    free(v->agent_url);
    free(v->task);
    tn_web_free(v->agent);
    *v = (struct cloud_view){0};
}

/* --- engines ---------------------------------------------------------------------------------- */

const char *cloud_first(const char *a, const char *b, const char *c)
{
    return a && *a ? a : b && *b ? b : c && *c ? c : NULL;
}

int cloud_fail(struct tn_error *err, const struct tn_error *why)
{
    if (err)
        *err = *why;
    return -1;
}

int cloud_no_key(const struct cloud *c, struct tn_error *err)
{
    return tn_fail(err, TN_E_DENIED, "there is no key for %s: %s", c->line.who, c->line.key_advice);
}

int cloud_bearer(struct tn_web *web, const char *key, struct tn_error *err)
{
    char *bearer = tn_asprintf("Bearer %s", key);
    int failed = web ? tn_web_header(web, "Authorization", bearer, err) : -1;

    cloud_free_secret(bearer);
    return failed;
}

int cloud_open(const struct cloud_vendor *vendor, const struct tn_host *host, void **engine,
               struct tn_error *err)
{
    struct cloud *c = tn_calloc(1, vendor->size);

    *c = (struct cloud){
        .host = host,
        .vendor = vendor,
        .line = {.who = vendor->who, .key_advice = vendor->advice, .seconds = CALL_SECONDS},
        .stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    tn_state_mark(host->state, c->mark);
    c->keep = cloud_keep_new(c);
    *engine = c;
    if (vendor->open(c, err) == 0)
        return 0;
    cloud_close(c);
    *engine = NULL;
    return -1;
}

void cloud_close(void *engine)
{
    struct cloud *c = engine;

    if (!c)
        return;
    cloud_keep_free(c->keep);
    tn_close(c->stop);
    tn_web_free(c->line.web);
    c->vendor->close(c);
    free(c->line.url);
    free(c);
}

/* --- piles ------------------------------------------------------------------------------------ */

void cloud_pile_done(struct cloud_pile *p)
{
    for (size_t i = 0; i < p->count; i++)
        cloud_view_done(&p->all[i]);
    free(p->all);
}

void cloud_pile_add(struct cloud_pile *p, struct cloud_view *v, const char *id)
{
    if (!v->own || (id && strcmp(v->own, id) != 0))
        return;
    if (!(p->count & (p->count - 1))) /* it has room up to the next power of two */
        p->all = tn_realloc(p->all, (p->count ? p->count * 2 : 1) * sizeof *p->all);
    p->all[p->count++] = *v;
    *v = (struct cloud_view){0};
}

int cloud_pile_tell(const struct cloud_pile *p, bool last_first, cloud_found_fn fn, void *ctx)
{
    int stop = 0;

    for (size_t i = 0; !stop && i < p->count; i++)
        stop = fn(&p->all[last_first ? p->count - 1 - i : i], ctx);
    return stop;
}

/* --- marks ------------------------------------------------------------------------------------ */

static int put_label(const char *name, struct tn_json *value, void *ctx)
{
    const char *text = tn_json_str(value, NULL);

    if (text && strncmp(name, "tendon.", 7) != 0)
        tn_jw_kstr(ctx, name, text);
    return 0;
}

void cloud_put_marks(const struct cloud *c, const struct tn_subject *s, const char *name,
                     struct tn_jw *w)
{
    if (name)
        tn_jw_key(w, name);
    tn_jw_object(w);
    tn_json_each(s->spec->labels, put_label, w);
    tn_jw_kstr(w, CLOUD_MARK_STATE, c->mark);
    tn_jw_kstr(w, CLOUD_MARK_ID, s->id);
    tn_jw_kstr(w, CLOUD_MARK_SESSION, s->spec->name ? s->spec->name : s->id);
    tn_jw_object_end(w);
}

void cloud_take_marks(const struct cloud *c, const char *state, const char *id, const char *session,
                      struct cloud_view *out)
{
    if (strcmp(state, c->mark) != 0 || strlen(id) != 10 || !cloud_is_id(id))
        return;
    out->own = tn_strdup(id);
    out->session = tn_strdup(session);
}

void cloud_read_marks(const struct cloud *c, const struct tn_json *marks, struct cloud_view *out)
{
    cloud_take_marks(c, tn_json_get_str(marks, CLOUD_MARK_STATE, ""),
                     tn_json_get_str(marks, CLOUD_MARK_ID, ""),
                     tn_json_get_str(marks, CLOUD_MARK_SESSION, ""), out);
}

/* --- what cannot be kept ---------------------------------------------------------------------- */

#define SIZE "sizes are those of the template"
static const struct tn_spec_bar barred[] = {
    {"volumes", "directories of this machine are not there, and the vendor has no volumes"},
    {"devices", "it has none of this machine"},
    {"gpus", "it has none of this machine"},
    {"isolation", "the vendor decides about it"},
    {"allow", "no rules are sent to the vendor"},
    {"ask", "the vendor asks nobody"},
    {"secrets", "nobody there puts them in"},
    {"memory", SIZE},
    {"cpus", SIZE},
    {"disk", SIZE},
    {"pids", "the vendor has no such limit"},
    {"file_size", "the vendor has no such limit"},
    {"open_files", "the vendor has no such limit"},
    {"wall_time", "the vendor has no such limit"},
};

int cloud_check(const struct cloud_vendor *vendor, const struct tn_spec *spec, struct tn_error *err)
{
    tn_autojson struct tn_json *wish = NULL;
    autocloudextras struct cloud_extras extras = {0};

    if (tn_spec_tree(spec, &wish, err) < 0 ||
        tn_spec_refuse(wish, "a sandbox in a cloud", barred, TN_COUNT(barred), vendor->keeps, err) <
            0)
        return -1;
    if (spec->network == TN_NETWORK_HOST || spec->network == TN_NETWORK_BRIDGE ||
        (spec->network == TN_NETWORK_ALLOW && !vendor->fences))
        return tn_fail(err, TN_E_UNSUPPORTED, "network %s: %s is asked for %s alone",
                       tn_networks[spec->network], vendor->who,
                       vendor->fences ? "none, open or allow" : "none or open");
    if (cloud_extras_read(vendor, spec, &extras, err) < 0)
        return -1;
    return vendor->check ? vendor->check(spec, err) : 0;
}

/* --- finding ---------------------------------------------------------------------------------- */

struct search {
    const char *own;
    char id[CLOUD_ID_MAX + 1];
};

static int is_it(const struct cloud_view *v, void *ctx)
{
    struct search *search = ctx;

    if (!v->own || strcmp(v->own, search->own) != 0)
        return 0;
    snprintf(search->id, sizeof search->id, "%s", v->id);
    return 1;
}

/* The oldest with its marks. */
static int find_marked(const struct cloud *c, const char *own, struct cloud_view *out,
                       int64_t deadline, struct tn_error *err)
{
    struct search search = {.own = own};

    *out = (struct cloud_view){0};
    if (c->vendor->each(c, own, is_it, &search, deadline, err) < 0)
        return -1;
    return *search.id ? c->vendor->look(c, search.id, out, deadline, err) : 0;
}

/* What the ref says; -1 when it belongs to somebody else than is configured. */
static int read_ref(const struct cloud *c, const struct tn_subject *s, char **id, bool *stopped,
                    struct tn_error *err)
{
    tn_autojson struct tn_json *ref = NULL;

    *id = NULL;
    *stopped = false;
    if (!s->ref || tn_json_parse(s->ref, strlen(s->ref), &ref, NULL) < 0)
        return 0;
    const char *api = tn_json_get_str(ref, "api", c->line.url);
    if (strcmp(api, c->line.url) != 0)
        return tn_fail(err, TN_E_CONFLICT, "it lives at %s, but the configuration says %s", api,
                       c->line.url);
    *id = tn_strdup_or_null(tn_json_get_str(ref, "id", NULL));
    *stopped = tn_json_bool(tn_json_get(ref, "stopped"), false);
    return 0;
}

int cloud_find(const struct cloud *c, const struct tn_subject *s, struct cloud_view *out,
               int64_t deadline, struct tn_error *err)
{
    tn_autofree char *id = NULL;
    bool stopped;

    *out = (struct cloud_view){0};
    if (read_ref(c, s, &id, &stopped, err) < 0)
        return -1;
    if ((id ? c->vendor->look(c, id, out, deadline, err)
            : find_marked(c, s->id, out, deadline, err)) < 0)
        return -1;
    /* One that is not ours is none, whatever the ref says. */
    if (out->known && !c->unmarked && !(out->own && strcmp(out->own, s->id) == 0))
        cloud_view_done(out);
    if (out->known && stopped && out->status == TN_STATUS_PAUSED)
        out->status = TN_STATUS_STOPPED;
    return 0;
}

int cloud_must_run(const struct cloud *c, const struct tn_subject *s, struct cloud_view *out,
                   int64_t deadline, struct tn_error *err)
{
    if (cloud_find(c, s, out, deadline, err) < 0)
        return -1;
    if (!out->known)
        return tn_fail(err, TN_E_NOT_FOUND, "%s has no sandbox %s", c->line.who, s->id);
    if (out->status != TN_STATUS_RUNNING)
        return tn_fail(err, TN_E_CONFLICT, "it is %s", tn_status_words[out->status]);
    return 0;
}

/* --- the place -------------------------------------------------------------------------------- */

static char *ref_of(const struct cloud *c, const char *id, bool stopped)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(8192);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "api", c->line.url);
    tn_jw_kstr(&w, "id", id);
    if (stopped)
        tn_jw_kbool(&w, "stopped", true);
    tn_jw_object_end(&w);
    return tn_buf_take(&out);
}

static void fill_place(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                       char *address, struct tn_place *place)
{
    int network = s->spec->network;

    *place = (struct tn_place){.status = v->known ? v->status : TN_STATUS_MISSING};
    if (!v->known)
        return;
    place->ref = ref_of(c, v->id, v->status == TN_STATUS_STOPPED);
    place->reason = TN_TAKE_PTR(v->reason);
    place->isolation = network != TN_NETWORK_NONE && network != TN_NETWORK_ALLOW
                           ? tn_asprintf("{\"cloud\": \"%s\"}", c->vendor->name)
                           : tn_asprintf("{\"cloud\": \"%s\", \"network\": \"%s, kept by %s\"}",
                                         c->vendor->name, tn_networks[network], c->vendor->who);
    place->address = address;
}

bool cloud_is_own(const struct tn_subject *s)
{
    struct tn_owner me = tn_owner_self();

    return s->owner.pid == me.pid && s->owner.start == me.start;
}

/* One whose processes have ended rests as well as one that is paused. */
static bool is_so(const struct cloud_view *v, enum tn_status status)
{
    return v->known &&
           (v->status == status || (status == TN_STATUS_PAUSED && v->status == TN_STATUS_STOPPED));
}

int cloud_reach(const struct cloud *c, const char *id, enum tn_status status, struct cloud_view *v,
                int cancel, int64_t deadline, struct tn_error *err)
{
    for (int ms = 0; !is_so(v, status);) {
        if (v->known && v->status == TN_STATUS_ERROR)
            return tn_fail(err, TN_E_PEER, "it failed%s%s", v->reason ? ": " : "",
                           v->reason ? v->reason : "");
        if (v->id && tn_back_off(&ms, 0, cancel, deadline, err) < 0)
            return tn_error_context(err, "it is %s, not yet %s", tn_status_words[v->status],
                                    tn_status_words[status]);
        cloud_view_done(v);
        if (c->vendor->look(c, id, v, deadline, err) < 0)
            return -1;
        if (!v->known)
            return tn_fail(err, TN_E_PEER, "%s has no such sandbox any more", c->line.who);
    }
    return 0;
}

/* From a sandbox that was told to run to one with a hand. */
static int settle(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                  const struct cloud_cache *cache, struct tn_place *place, int64_t deadline,
                  struct tn_error *err)
{
    tn_autofree char *id = tn_strdup(v->id), *address = NULL;

    if (cloud_reach(c, id, TN_STATUS_RUNNING, v, s->cancel, deadline, err) < 0 ||
        cloud_start_hand(c, s, v, cache, &address, deadline, err) < 0)
        return -1;
    /* Whoever makes or wakes it wants it, for as long as that process lives. */
    cloud_keep_add(c->keep, s->id, v->id, false);
    fill_place(c, s, v, TN_TAKE_PTR(address), place);
    return 0;
}

/* --- create ----------------------------------------------------------------------------------- */

bool cloud_is_lost(const struct tn_error *why)
{
    return why->code == TN_E_PEER || why->code == TN_E_TIMEOUT;
}

struct reap {
    const struct cloud *c;
    const char *own, *except;
    int64_t deadline;
    struct tn_error *err;
    bool ended; /* one at least */
};

/* What another try has made that was thought lost. */
static int kill_other(const struct cloud_view *v, void *ctx)
{
    struct reap *r = ctx;

    if (!v->own || strcmp(v->own, r->own) != 0 || (r->except && strcmp(v->id, r->except) == 0))
        return 0;
    r->ended = r->c->vendor->order(r->c, v->id, TN_GOAL_GONE, r->deadline, r->err) == 0;
    return r->ended ? 0 : -1;
}

/* Among those that are there; why becomes that nobody wants it any more. */
static bool seek(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                 int64_t deadline, struct tn_error *why)
{
    struct tn_error over = {0};

    for (int i = 0, ms = 0;
         i < CLOUD_LOST_LOOKS && tn_back_off(&ms, 0, s->cancel, deadline, &over) == 0; i++)
        if (find_marked(c, s->id, v, deadline, NULL) == 0 && v->known)
            return true;
    if (over.code == TN_E_GONE)
        *why = over;
    return false;
}

/* One whose answer was lost is looked for, and only then asked for once more. */
static int make(const struct cloud *c, const struct tn_subject *s, const struct cloud_extras *e,
                struct cloud_view *v, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};

    if (find_marked(c, s->id, v, deadline, err) < 0)
        return -1;
    if (v->known || c->vendor->make(c, s, e, v, deadline, &why) == 0)
        return 0;
    if (!cloud_is_lost(&why))
        return cloud_fail(err, &why);
    if (seek(c, s, v, deadline, &why))
        return 0;
    if (why.code != TN_E_GONE && tn_now() < deadline &&
        c->vendor->make(c, s, e, v, deadline, &why) == 0) {
        struct reap reap = {.c = c, .own = s->id, .except = v->id, .deadline = deadline};
        c->vendor->each(c, s->id, kill_other, &reap, deadline, NULL);
        return 0;
    }
    /* By its key the vendor knows that the first one is still being made. */
    return why.code == TN_E_CONFLICT && seek(c, s, v, deadline, &why) ? 0 : cloud_fail(err, &why);
}

/* From what has the hand, as long as the vendor knows that; else from an image that may have to be
 * built. */
static int make_of(const struct cloud *c, const struct tn_subject *s, const struct cloud_extras *e,
                   struct cloud_cache *cache, struct cloud_view *v, int64_t deadline,
                   struct tn_error *err)
{
    struct tn_spec spec = *s->spec;
    struct tn_subject other = *s;
    char built[CLOUD_CACHE_NAME];

    other.spec = &spec;
    if (*cache->image) {
        spec.image = cache->image;
        if (make(c, &other, e, v, deadline, err) == 0)
            return 0;
        if (err->code != TN_E_NOT_FOUND && err->code != TN_E_INVALID && err->code != TN_E_DENIED)
            return -1;
        cloud_cache_forget(c, cache);
    }
    if (cloud_have_image(c, s, built, deadline, err) < 0)
        return -1;
    spec.image = *built ? built : s->spec->image;
    return make(c, &other, e, v, deadline, err);
}

int cloud_create(void *engine, const struct tn_subject *s, struct tn_place *place, int64_t deadline,
                 struct tn_error *err)
{
    const struct cloud *c = engine;
    autocloudextras struct cloud_extras extras = {0};
    autocloudview struct cloud_view view = {0};
    struct cloud_cache cache;
    struct tn_error why = {0};

    if (cloud_check(c->vendor, s->spec, err) < 0 ||
        cloud_extras_find(c, s, &extras, deadline, err) < 0)
        return -1;
    cloud_cache_find(c, s->spec, &cache);
    if (make_of(c, s, &extras, &cache, &view, deadline, &why) < 0) {
        place->blame = why.code == TN_E_NOT_FOUND ? TN_BLAME_IMAGE : TN_BLAME_NONE;
        return cloud_fail(err, &why);
    }
    if (extras.fenced && c->vendor->tells_fence && !view.fenced) {
        c->vendor->order(c, view.id, TN_GOAL_GONE, deadline, NULL);
        return tn_fail(err, TN_E_UNSUPPORTED, "allow: this %s does not say that it keeps rules",
                       c->line.who);
    }
    if (is_so(&view, TN_STATUS_PAUSED) &&
        c->vendor->order(c, view.id, TN_GOAL_RUNNING, deadline, err) < 0)
        return -1;
    return settle(c, s, &view, &cache, place, deadline, err);
}

/* --- inspect ---------------------------------------------------------------------------------- */

int cloud_inspect(void *engine, const struct tn_subject *s, struct tn_place *place,
                  int64_t deadline, struct tn_error *err)
{
    const struct cloud *c = engine;
    autocloudview struct cloud_view view = {0};
    struct tn_error why = {0};

    *place = (struct tn_place){.status = TN_STATUS_MISSING};
    if (cloud_find(c, s, &view, deadline, err) < 0)
        return tn_error_context(err, "%s: sandbox %s", c->vendor->name, s->id);
    /* The vendor does not know its owner: the first of ours that looks ends what it left. */
    if (view.known && s->owner.pid && !tn_proc_state(s->owner.pid, s->owner.start))
        return cloud_drive(engine, s, TN_GOAL_GONE, place, deadline, err);
    if (view.known && view.status == TN_STATUS_RUNNING && cloud_is_own(s))
        cloud_keep_add(c->keep, s->id, view.id, true);
    char *address = view.known && view.status == TN_STATUS_RUNNING
                        ? c->vendor->address(c, &view, deadline, &why)
                        : NULL;
    if (why.code && !view.reason)
        view.reason = tn_strdup(why.text);
    fill_place(c, s, &view, address, place);
    return 0;
}

/* --- drive ------------------------------------------------------------------------------------ */

static int order(const struct cloud *c, enum tn_goal goal, struct cloud_view *v, int64_t deadline,
                 struct tn_error *err)
{
    tn_autofree char *id = tn_strdup(v->id);

    if (c->vendor->order(c, id, goal, deadline, err) < 0)
        return -1;
    /* What a vendor has stopped may be paused in its words. */
    v->status = TN_STATUS_STARTING;
    if (cloud_reach(c, id, goal == TN_GOAL_RUNNING ? TN_STATUS_RUNNING : TN_STATUS_PAUSED, v, 0,
                    deadline, err) < 0)
        return -1;
    if (goal == TN_GOAL_STOPPED)
        v->status = TN_STATUS_STOPPED;
    return 0;
}

/* All that have its marks, and the one of the ref. */
static int remove_all(const struct cloud *c, const struct tn_subject *s, int64_t deadline,
                      struct tn_error *err)
{
    struct reap reap = {.c = c, .own = s->id, .deadline = deadline, .err = err};
    autocloudview struct cloud_view view = {0};
    struct tn_error why = {0};

    cloud_keep_drop(c->keep, s->id, true);
    /* A vendor that does not tell of one may still list it. */
    int blind = cloud_find(c, s, &view, deadline, &why);
    if (view.known && c->vendor->order(c, view.id, TN_GOAL_GONE, deadline, err) < 0)
        return -1;
    reap.except = view.id;
    if (c->vendor->each(c, s->id, kill_other, &reap, deadline, err) < 0)
        return -1;
    return blind && !reap.ended ? cloud_fail(err, &why) : 0;
}

static int drive(const struct cloud *c, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    autocloudview struct cloud_view view = {0};
    static const enum tn_status goals[] = {[TN_GOAL_RUNNING] = TN_STATUS_RUNNING,
                                           [TN_GOAL_PAUSED] = TN_STATUS_PAUSED,
                                           [TN_GOAL_STOPPED] = TN_STATUS_STOPPED};

    if (goal == TN_GOAL_SUSPENDED || (c->vendor->cannot && c->vendor->cannot[goal]))
        return tn_fail(err, TN_E_UNSUPPORTED, "%s: %s", tn_goal_words[goal],
                       goal == TN_GOAL_SUSPENDED ? "a pause is all that clouds have"
                                                 : c->vendor->cannot[goal]);
    if (goal == TN_GOAL_GONE) {
        *place = (struct tn_place){.status = TN_STATUS_MISSING};
        return remove_all(c, s, deadline, err);
    }
    if (cloud_find(c, s, &view, deadline, err) < 0)
        return -1;
    if (!view.known)
        return tn_fail(err, TN_E_NOT_FOUND, "%s has no such sandbox", c->line.who);
    /* Only what runs can be paused or stopped. */
    bool turn =
        goal != TN_GOAL_RUNNING && view.status != TN_STATUS_RUNNING && view.status != goals[goal];
    if ((turn || (goal == TN_GOAL_RUNNING && view.status != TN_STATUS_RUNNING)) &&
        order(c, TN_GOAL_RUNNING, &view, deadline, err) < 0)
        return -1;
    if (goal == TN_GOAL_RUNNING)
        return settle(c, s, &view, NULL, place, deadline, err);
    cloud_keep_drop(c->keep, s->id, false);
    if (view.status != goals[goal] && order(c, goal, &view, deadline, err) < 0)
        return -1;
    fill_place(c, s, &view, NULL, place);
    return 0;
}

int cloud_drive(void *engine, const struct tn_subject *s, enum tn_goal goal, struct tn_place *place,
                int64_t deadline, struct tn_error *err)
{
    const struct cloud *c = engine;

    *place = (struct tn_place){0};
    if (drive(c, s, goal, place, deadline, err) == 0)
        return 0;
    return tn_error_context(err, "%s: sandbox %s", c->vendor->name, s->id);
}

/* --- list ------------------------------------------------------------------------------------- */

struct listing {
    tn_found_fn found;
    void *ctx;
};

static int tell_own(const struct cloud_view *v, void *ctx)
{
    const struct listing *l = ctx;

    return v->own ? l->found(v->own, l->ctx) : 0;
}

int cloud_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err)
{
    const struct cloud *c = engine;
    struct listing l = {found, ctx};

    return c->vendor->each(c, NULL, tell_own, &l, deadline, err);
}

struct lost {
    const char *name;
    struct cloud_pile running, resting;
};

static int keep_lost(const struct cloud_view *v, void *ctx)
{
    struct lost *l = ctx;

    if (!v->own || strcmp(v->session, l->name) != 0 || v->status == TN_STATUS_ERROR)
        return 0;
    struct cloud_view copy = {.own = tn_strdup(v->own)};
    cloud_pile_add(v->status == TN_STATUS_RUNNING ? &l->running : &l->resting, &copy, NULL);
    return 0;
}

int cloud_lost(void *engine, const char *name, tn_found_fn found, void *ctx, int64_t deadline,
               struct tn_error *err)
{
    const struct cloud *c = engine;
    struct listing listing = {found, ctx};
    struct lost l = {.name = name};

    int r = c->vendor->each(c, NULL, keep_lost, &l, deadline, err);
    if (r == 0)
        r = cloud_pile_tell(&l.running, true, tell_own, &listing);
    if (r == 0)
        r = cloud_pile_tell(&l.resting, true, tell_own, &listing);
    cloud_pile_done(&l.running);
    cloud_pile_done(&l.resting);
    return r;
}
