/* Images: what a Dockerfile says, as far as it can be done here.
 *
 * A recipe of FROM, ENV and WORKDIR needs nothing built: its id spells it out.  One with RUN is a
 * box in which the commands run as one process and which is then put to rest, of which sandboxes
 * are forked; so is a snapshot of a sandbox.  Nobody waits for a build: whoever asks how far it
 * is looks at the process, and the first who sees its end notes it. */
#include "base/hex.h"
#include "base/sha256.h"
#include "service/blobs.h"
#include "service/modal/plan.h"
#include "service/openhands.h"
#include "service/preview-host.h"

enum { ID_LENGTH = 10, TRIES_MAX = 3 };
#define BUILD_TAG "tendon:image"
#define BUILD_SECONDS 3600.0

static int await_build(struct modal_call *c, struct box *b, double seconds, bool tell,
                       struct tn_error *err);

void modal_image_done(struct modal_image *i)
{
    free(i->from);
    free(i->recipe);
    box_release(i->box);
}

/* --- ids ------------------------------------------------------------------------------------- */

/* "im-" and the id of a box, or the recipe in hexadecimal digits: of a name, or of "#" and the id
 * of a box to which ENV and WORKDIR add something. */
static char *spell(const char *from, const struct box *box, const char *recipe)
{
    tn_autofree char *text =
        tn_asprintf("FROM %s%s\n%s", box ? "#" : "", box ? box_id(box) : from, recipe);
    tn_autobuf struct tn_buf id = TN_BUF_INIT(2 * MODAL_RECIPE_MAX + 64);

    tn_buf_puts(&id, "im-0");
    for (const char *c = text; *c; c++)
        tn_buf_printf(&id, "%02x", (unsigned char)*c);
    return tn_buf_take(&id);
}

static int unspell(const char *hex, struct modal_image *out)
{
    static const char from[] = "FROM ";
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MODAL_RECIPE_MAX);

    for (; *hex; hex += 2) {
        int high = tn_hex_digit(hex[0]), low = high < 0 ? -1 : tn_hex_digit(hex[1]);
        if (low < 0 || tn_buf_putc(&text, (char)(high << 4 | low)))
            return -1;
    }
    const char *at = tn_buf_str(&text), *end = strchr(at, '\n');
    if (strncmp(at, from, sizeof from - 1) != 0 || !end || strlen(at) != text.len)
        return -1;
    out->from = tn_strndup(at + sizeof from - 1, (size_t)(end - at) - (sizeof from - 1));
    out->recipe = tn_strdup(end + 1);
    out->spelt = true;
    return 0;
}

bool modal_is_layer(const struct box_view *v)
{
    return strcmp(tn_json_get_str(modal_record(v), "kind", ""), "image") == 0;
}

int modal_find_image(struct tn_service *s, const struct caller *who, const char *id,
                     struct modal_image *out, struct tn_error *err)
{
    const char *box = id && strncmp(id, "im-", 3) == 0 ? id + 3 : "";
    autoview struct box_view v = {0};

    *out = (struct modal_image){0};
    if (*box == '0' && unspell(box + 1, out) == 0) {
        if (*out->from != '#')
            return 0;
        box = out->from + 1;
    }
    if (preview_is_id(box, strlen(box)))
        out->box = box_find(s, who->tenant, box, NULL);
    if (out->box)
        box_look(out->box, &v);
    if (out->box && v.goal != BOX_GONE && modal_is_layer(&v)) {
        free(TN_TAKE_PTR(out->from));
        if (!out->spelt)
            out->recipe = tn_strdup(tn_json_get_str(modal_record(&v), "recipe", ""));
        return 0;
    }
    modal_image_done(out);
    *out = (struct modal_image){0};
    return tn_fail(err, TN_E_NOT_FOUND, "there is no image %.40s", id ? id : "");
}

int modal_use_image(struct modal_call *c, const char *id, struct modal_image *out,
                    struct tn_error *err)
{
    int built = 1;

    if (modal_find_image(c->s, c->who, id, out, err))
        return -1;
    if (out->box)
        built = await_build(c, out->box, MODAL_POLL_SECONDS, false, err);
    if (built == 0)
        tn_fail(err, TN_E_BUSY, "the image %.40s is still being built", id);
    return built > 0 ? 0 : -1;
}

/* --- builds ---------------------------------------------------------------------------------- */

const char *modal_template(const struct tn_service *s, const char *from)
{
    return from && tn_config_template(tn_runtime_host(s->rt)->config, from) ? from : NULL;
}

static char *quoted(const char *text)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4 * MODAL_RECIPE_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_jw_str(&w, text);
    return tn_buf_take(&json);
}

/* digest: of what it is built of; "" for a snapshot. */
static struct tn_json *image_metadata(const char *recipe, const char *digest, const char *build,
                                      struct tn_error *err)
{
    tn_autofree char *lines = quoted(recipe);
    tn_autofree char *json = tn_asprintf(
        "{\"kind\":\"image\",\"recipe\":%s,\"digest\":\"%s\",\"build\":%s}", lines, digest, build);
    tn_autojson struct tn_json *record = NULL;

    return tn_json_parse(json, strlen(json), &record, err)
               ? NULL
               : surface_metadata(NULL, MODAL_RECORD, record, NULL, NULL, err);
}

/* What it is built of: base, script, files. */
static int take_digest(struct modal_call *c, const struct modal_plan *p,
                       char digest[2 * TN_SHA256_BYTES + 1], struct tn_error *err)
{
    autoblob struct blob context = {0};
    struct tn_sha256 h;

    if (p->context && modal_find_mount(c, p->context, &context, err))
        return -1;
    tn_sha256_init(&h);
    tn_sha256_add(&h, p->base.from ? p->base.from : box_id(p->base.box),
                  p->base.from ? strlen(p->base.from) + 1 : ID_LENGTH);
    tn_sha256_add(&h, tn_buf_str(&p->recipe), p->recipe.len + 1);
    tn_sha256_add(&h, tn_buf_str(&p->script), p->script.len);
    tn_sha256_add(&h, context.name, strlen(context.name));
    for (size_t i = 0; i < p->file_count; i++) {
        const Modal__ImageContextFile *f = p->files[i];
        const uint64_t size = f->data.len;
        tn_sha256_add(&h, f->filename, strlen(f->filename) + 1);
        tn_sha256_add(&h, &size, sizeof size);
        tn_sha256_add(&h, f->data.data, f->data.len);
    }
    tn_sha256_end_hex(&h, digest);
    return 0;
}

/* Whether that box is an image, or may still become one. */
static bool is_usable(struct box *b)
{
    autoview struct box_view v = {0};

    box_look(b, &v);
    const char *build = tn_json_get_str(modal_record(&v), "build", "");
    if (v.goal == BOX_GONE || v.state == BOX_MISSING || !modal_is_layer(&v))
        return false;
    return strcmp(build, "good") == 0 ? v.state != BOX_ERROR : !*build && v.goal == BOX_RUNNING;
}

struct match {
    const char *digest;
    char id[ID_LENGTH + 1];
};

static int try_digest(struct box *b, void *ctx)
{
    struct match *m = ctx;
    autoview struct box_view v = {0};

    box_look(b, &v);
    if (strcmp(tn_json_get_str(modal_record(&v), "digest", ""), m->digest) != 0 || !is_usable(b))
        return 0;
    memcpy(m->id, v.id, sizeof m->id);
    return 1;
}

/* The newest image of the tenant that is built of that, or is being built; NULL: there is none. */
static struct box *find_built(const struct modal_call *c, const char *digest)
{
    const struct box_filter f = {.tenant = c->who->tenant, .newest_first = true};
    struct match m = {.digest = digest};

    return box_each(c->s, &f, try_digest, &m, NULL) > 0 ? box_find(c->s, c->who->tenant, m.id, NULL)
                                                        : NULL;
}

static struct box *make_box(struct modal_call *c, const struct modal_plan *p, struct box_wish *wish,
                            struct tn_error *err)
{
    struct box *b = NULL;

    if (p->base.box) {
        tn_spec_init(&wish->spec);
        b = box_fork(p->base.box, c->who, NULL, wish, err);
        tn_spec_done(&wish->spec);
    } else if (modal_spec(c, p->base.from, NULL, NULL, &wish->spec, err) == 0) {
        b = box_create(c->s, c->who, wish, NULL, err);
        tn_spec_done(&wish->spec);
    }
    return b;
}

/* The box of the plan's image: one that is there, unless it is to be made anew.  The record of an
 * image says what it is built of as long as there is the image.  The idempotency key is for two who
 * ask at once, and is forgotten with a box of which nothing can become any more. */
static struct box *image_box(struct modal_call *c, const struct modal_plan *p, bool anew,
                             struct tn_error *err)
{
    struct box_wish wish = {.idle_pause = -1, .idle_stop = -1, .ttl = -1, .timeout = BUILD_SECONDS};
    char digest[2 * TN_SHA256_BYTES + 1], key[48];

    if (take_digest(c, p, digest, err))
        return NULL;
    struct box *b = anew ? NULL : find_built(c, digest);
    if (b)
        return b;
    tn_autojson struct tn_json *metadata =
        image_metadata(tn_buf_str(&p->recipe), digest, "null", err);
    if (!metadata)
        return NULL;
    snprintf(key, sizeof key, "modal-image-%.32s", digest);
    wish.metadata = metadata;
    wish.idempotency = anew ? NULL : key;
    wish.digest = digest;
    wish.template = modal_template(c->s, p->base.from);
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        struct tn_error why = {0};
        b = make_box(c, p, &wish, &why);
        if (b && (anew || is_usable(b)))
            return b;
        bool old = b || why.code == TN_E_GONE;
        bool again = old && box_forget_key(c->s, c->who->tenant, key, b ? box_id(b) : "", err) == 0;
        box_release(b);
        if (!old)
            *err = why;
        if (!again)
            return NULL;
    }
    tn_fail(err, TN_E_BUSY, "the image is made and deleted all the time; try again");
    return NULL;
}

/* What it copies is there before it begins. */
static int write_context(struct modal_call *c, struct box *b, const struct modal_plan *p,
                         struct tn_error *err)
{
    tn_autostatus struct tn_process_status status = {0};

    if (!modal_has_files(p) ||
        process_look(b, "tag:" BUILD_TAG, &status, tn_deadline_in(MODAL_SECONDS), NULL) == 0)
        return 0;
    if (p->context && modal_write_mount(c, b, p->context, MODAL_CONTEXT, err))
        return -1;
    tn_autofiles struct tn_hand_files *f = surface_files(c->x, b, err);
    const int64_t deadline = tn_deadline_in(SURFACE_WRITE_SECONDS);
    for (size_t i = 0; f && i < p->file_count; i++) {
        const ProtobufCBinaryData *data = &p->files[i]->data;
        tn_autofree char *path = tn_asprintf(MODAL_CONTEXT "/%s", p->files[i]->filename);
        if (tn_hand_files_put(f, path, data->data, data->len, deadline, err))
            return -1;
    }
    return f ? 0 : -1;
}

/* Starts the build; once more is the same as once. */
static struct box *build(struct modal_call *c, const struct modal_plan *p, bool anew,
                         struct tn_error *err)
{
    tn_autoprocess struct tn_process_spec spec = {.cwd = tn_strdup("/")};
    struct process_started started;
    autoview struct box_view v = {0};
    autobox struct box *b = image_box(c, p, anew, err);

    if (native_audit(c->x, c->s, "sandbox.create", b ? box_id(b) : NULL, b ? NULL : err) || !b)
        return NULL;
    box_look(b, &v);
    if (tn_json_get_str(modal_record(&v), "build", NULL))
        return TN_TAKE_PTR(b);
    surface_add_arg(&spec.args, "/bin/sh");
    surface_add_arg(&spec.args, "-c");
    surface_add_arg(&spec.args, tn_buf_str(&p->script));
    if (surface_await(b, c->s->options->start_seconds + MODAL_START_MORE, err) == 0 &&
        write_context(c, b, p, err) == 0 &&
        modal_start(c, b, &spec, NULL, BUILD_TAG, &started, err) == 0)
        return TN_TAKE_PTR(b);
    /* Others may wait for the same one, whoever gave up.  One that is left begins with the next who
     * asks for it, or ends by its time-out. */
    autoview struct box_view after = {0};
    box_look(b, &after);
    if (after.state == BOX_ERROR)
        box_order(b, c->who, ORDER_DELETE, tn_now(), NULL);
    return NULL;
}

/* Notes what came of it, and puts the box to rest: as the service itself, since who asks may be a
 * key that only reads. */
static void note_build(struct box *b, bool good)
{
    const double never = 0;
    struct box_change change = {.timeout = &never};

    if (modal_note(b, "build", good ? "\"good\"" : "\"bad\"", NULL) == 0 &&
        box_change(b, NULL, &change, NULL) == 0 && (good || modal_forget(b, NULL) == 0))
        box_order(b, NULL, ORDER_STOP, tn_deadline_in(MODAL_POLL_SECONDS), NULL);
}

struct log {
    struct modal_call *c;
    struct tn_error *err;
};

static int send_log(const struct tn_process_piece *piece, void *ctx)
{
    struct log *log = ctx;
    Modal__ImageJoinStreamingResponse out = MODAL__IMAGE_JOIN_STREAMING_RESPONSE__INIT;
    Modal__TaskLogs one = MODAL__TASK_LOGS__INIT, *all[] = {&one};

    if (piece->kind != TN_PROCESS_OUT && piece->kind != TN_PROCESS_ERR)
        return 0;
    tn_autofree char *text = modal_text(piece->bytes, piece->n);
    one.data = text;
    out.n_task_logs = 1;
    out.task_logs = all;
    return modal_send(log->c, &out, log->err);
}

/* What is known of the build of that image: 1 good, 0 nothing yet, -1 with err. */
static int look_at_build(struct box *b, struct tn_error *err)
{
    autoview struct box_view v = {0};

    box_look(b, &v);
    const char *known = tn_json_get_str(modal_record(&v), "build", "");
    if (strcmp(known, "good") == 0)
        return 1;
    return strcmp(known, "bad") == 0 || v.goal != BOX_RUNNING
               ? tn_fail(err, TN_E_INVALID, "a command of the image has failed")
               : 0;
}

/* The same after waiting so long; who sees its end first is told what it said, if it wants that. */
static int await_build(struct modal_call *c, struct box *b, double seconds, bool tell,
                       struct tn_error *err)
{
    tn_autostatus struct tn_process_status status = {0};
    struct tn_process_follow f = {0}; /* what it said may come after its end */
    struct log log = {.c = c, .err = err};
    int known = look_at_build(b, err);

    if (known)
        return known;
    if (process_wait(b, "tag:" BUILD_TAG, &status, tn_http_fd(c->x), tn_deadline_in(seconds), err))
        return err->code == TN_E_TIMEOUT ? 0 : -1;
    if (tell)
        process_follow(b, "tag:" BUILD_TAG, &f, send_log, &log, tn_http_fd(c->x),
                       tn_deadline_in(MODAL_SECONDS), NULL);
    bool good = status.exit_code.set && status.exit_code.value == 0;
    note_build(b, good);
    return good ? 1
                : tn_fail(err, TN_E_INVALID, "a command of the image has failed: exit status %lld",
                          (long long)(status.exit_code.set ? status.exit_code.value
                                                           : 128 + status.signal.value));
}

/* --- calls ----------------------------------------------------------------------------------- */

/* The result of await_build; false: none yet. */
static bool put_result(Modal__Result *r, int built, struct tn_error *err)
{
    r->has_status = true;
    r->status = built > 0 ? 1 : 2;
    if (built < 0)
        r->exception = err->text;
    return built != 0;
}

static int image_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__ImageGetOrCreateRequest *in = request;
    Modal__ImageGetOrCreateResponse out = MODAL__IMAGE_GET_OR_CREATE_RESPONSE__INIT;
    Modal__Result result = MODAL__RESULT__INIT;
    automodalplan struct modal_plan plan = {0};
    struct tn_error why = {0};
    char id[MODAL_ID];
    int built = 1;

    if (!in->image || in->image->build_function_def)
        return tn_fail(err, TN_E_INVALID,
                       "an image is made of commands and files here: no functions");
    for (size_t i = 0; i < in->image->n_context_files; i++)
        if (!modal_is_filename(in->image->context_files[i]->filename))
            return tn_fail(err, TN_E_INVALID, "context_files: a path below the context is wanted");
    if (modal_make_plan(c, in->image, &plan, err))
        return -1;
    autobox struct box *b =
        plan.runs ? build(c, &plan, in->force_build || in->ignore_cache, err) : NULL;
    if (plan.runs && !b)
        return -1;
    /* Of a box that is built: it itself, unless ENV or WORKDIR have come since. */
    const struct modal_image *base = &plan.base;
    const char *recipe = tn_buf_str(&plan.recipe);
    bool same = base->box && !base->spelt && strcmp(base->recipe, recipe) == 0;
    tn_autofree char *spelt = b || same ? NULL : spell(base->from, base->box, recipe);
    out.image_id = spelt ? spelt : modal_id("im", b ? b : base->box, id);
    if (b)
        built = look_at_build(b, &why);
    if (put_result(&result, built, &why))
        out.result = &result;
    return modal_send(c, &out, err);
}

/* What it has said so far, once, and how it ended, if it has. */
static int image_join(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__ImageJoinStreamingRequest *in = request;
    Modal__ImageJoinStreamingResponse out = MODAL__IMAGE_JOIN_STREAMING_RESPONSE__INIT;
    Modal__Result result = MODAL__RESULT__INIT;
    automodalimage struct modal_image image = {0};
    struct tn_error why = {0};
    static char entry[] = "1-0";
    int built = 1;

    if (modal_find_image(c->s, c->who, in->image_id, &image, err))
        return -1;
    double seconds = in->timeout > 0 && in->timeout < MODAL_POLL_SECONDS ? (double)in->timeout
                                                                         : MODAL_POLL_SECONDS;
    if (image.box)
        built = await_build(c, image.box, seconds, true, &why);
    if (put_result(&result, built, &why)) {
        out.result = &result;
        out.has_eof = out.eof = true;
    }
    out.entry_id = entry;
    return modal_send(c, &out, err);
}

static int image_from_id(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__ImageId *in = request;
    automodalimage struct modal_image image = {0};

    return modal_find_image(c->s, c->who, in->image_id, &image, err) ? -1 : modal_send(c, in, err);
}

static int image_delete(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__ImageId *in = request;
    automodalimage struct modal_image image = {0};

    if (modal_find_image(c->s, c->who, in->image_id, &image, err))
        return -1;
    if (image.spelt)
        return 0;
    int failed = box_order(image.box, c->who, ORDER_DELETE, tn_deadline_in(MODAL_SECONDS), err);
    return native_audit(c->x, c->s, "sandbox.delete", box_id(image.box), failed ? err : NULL)
               ? MODAL_ANSWERED
               : failed;
}

/* --- snapshots ------------------------------------------------------------------------------- */

static struct box *snapshot(struct modal_call *c, const char *id, struct tn_error *err)
{
    struct box_wish wish = {0};
    autoview struct box_view v = {0};
    autobox struct box *b = modal_running(c, id, err);

    if (!b)
        return NULL;
    box_look(b, &v);
    /* Until it rests it is an image that cannot be used: so is one that a killed service leaves. */
    const char *recipe = tn_json_get_str(modal_record(&v), "recipe", "");
    tn_autojson struct tn_json *first = image_metadata(recipe, "", "\"bad\"", err);
    tn_autojson struct tn_json *then = first ? image_metadata(recipe, "", "\"good\"", err) : NULL;
    wish.metadata = first;
    struct box *made = then ? surface_rest(b, c->who, &wish, then,
                                           c->s->options->start_seconds + MODAL_START_MORE, err)
                            : NULL;
    if (native_audit(c->x, c->s, "snapshot.create", box_id(b), made ? NULL : err)) {
        box_release(made);
        tn_fail(err, TN_E_INTERNAL, "the audit log cannot be written");
        return NULL;
    }
    return made;
}

static int sandbox_snapshot(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    Modal__ImageGetOrCreateResponse out = MODAL__IMAGE_GET_OR_CREATE_RESPONSE__INIT;
    Modal__Result result = MODAL__RESULT__INIT;
    autobox struct box *made = snapshot(c, in->id, err);
    char id[MODAL_ID];

    if (!made)
        return -1;
    put_result(&result, 1, err);
    out.image_id = modal_id("im", made, id);
    out.result = &result;
    return modal_send(c, &out, err);
}

int modal_task_snapshot(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__TaskSnapshotFilesystemRequest *in = request;
    Modal__ImageId out = MODAL__IMAGE_ID__INIT;
    autobox struct box *made = snapshot(c, in->task_id, err);
    char id[MODAL_ID];

    out.image_id = made ? modal_id("im", made, id) : NULL;
    return made ? modal_send(c, &out, err) : -1;
}

const struct modal_method modal_images[] = {
    {"ImageGetOrCreate", MODAL_MESSAGE(image_get_or_create_request), image_get, SCOPE_MANAGE},
    {"ImageJoinStreaming", MODAL_MESSAGE(image_join_streaming_request), image_join, SCOPE_READ},
    {"ImageFromId", MODAL_MESSAGE(image_id), image_from_id, SCOPE_READ},
    {"ImageDelete", MODAL_MESSAGE(image_id), image_delete, SCOPE_MANAGE},
    {"SandboxSnapshotFs", MODAL_MESSAGE(who), sandbox_snapshot, SCOPE_MANAGE},
    {0},
};
