/* The rows of boxes. */
#include "base/log.h"
#include "service/box-internal.h"

#define MAX_JSON (1u << 20)

/* So many changes may be told of before the row has to be written again. */
#define VERSIONS_AHEAD (UINT64_C(1) << 20)

static char *spec_text(const struct tn_spec *spec)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MAX_JSON);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_spec_to_json(spec, &w);
    tn_jw_object_end(&w);
    return tn_buf_ok(&text) ? tn_buf_take(&text) : NULL;
}

char *row_json(const struct tn_json *json)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MAX_JSON);
    struct tn_jw w = tn_jw(&text);

    tn_jw_tree(&w, json);
    return tn_buf_ok(&text) ? tn_buf_take(&text) : NULL;
}

int row_spec(struct box *b, const struct tn_spec *spec, struct tn_error *err)
{
    tn_autofree char *text = spec_text(spec);

    if (!text)
        return tn_fail(err, TN_E_TOO_LARGE, "the spec is larger than %u MiB", MAX_JSON >> 20);
    return tn_db_run(b->s->db, err, "UPDATE box SET spec = ? WHERE id = ?", "tt", text,
                     b->names.id) < 0
               ? -1
               : 0;
}

int box_insert(struct tn_db *db, struct box *b, struct tn_error *err)
{
    tn_autofree char *spec = spec_text(&b->spec);
    tn_autofree char *metadata = b->metadata ? row_json(b->metadata) : NULL;

    if (!spec || (b->metadata && !metadata))
        return tn_fail(err, TN_E_TOO_LARGE, "the %s is larger than %u MiB",
                       spec ? "metadata" : "spec", MAX_JSON >> 20);
    /* One that was warm runs, as far as anybody knows: after a restart it is looked at. */
    enum box_state state = b->claimed ? BOX_RUNNING : b->state;
    b->ceiling = b->version + VERSIONS_AHEAD;
    return tn_db_run(db, err,
                     "INSERT INTO box (id, tenant, key_id, session, name, template, runtime,"
                     " parent, snapshot, secret, spec, metadata, state, goal, made, cause, created,"
                     " started, used, expires, idle_pause, idle_stop, resource_factor, restarts,"
                     " last_action, version, timeout, timeout_how)"
                     " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                     "ttttttttttttiiiidddddddiiidi", b->names.id, b->tenant, b->key_id, b->session,
                     b->name, b->template, b->runtime, b->parent, b->snapshot, b->secret, spec,
                     metadata, (int64_t)state, (int64_t)b->goal, (int64_t)b->made,
                     (int64_t)b->cause, b->created, b->claimed ? b->created : b->started, b->used,
                     b->expires, b->idle_pause, b->idle_stop, b->resource_factor,
                     (int64_t)b->restarts, b->last_action, (int64_t)b->ceiling, b->timeout,
                     (int64_t)b->timeout_how) < 0
               ? -1
               : 0;
}

void box_save(struct box *b)
{
    pthread_mutex_lock(&b->row);
    pthread_mutex_lock(&b->lock);
    bool needed = b->dirty && !b->gone;
    if (!needed) {
        pthread_mutex_unlock(&b->lock);
        pthread_mutex_unlock(&b->row);
        return;
    }
    tn_autofree char *reason = tn_strdup_or_null(b->reason);
    tn_autofree char *secret = tn_strdup(b->secret);
    tn_autofree char *text = tn_strdup_or_null(b->last_action_text);
    int64_t state = b->state, goal = b->goal, made = b->made, cause = b->cause;
    int64_t restarts = b->restarts, last = b->last_action;
    uint64_t ceiling = b->version + VERSIONS_AHEAD;
    double started = b->started, used = b->used, stopped = b->stopped, timeout = b->timeout;
    int64_t asleep = b->asleep;
    b->dirty = false;
    pthread_mutex_unlock(&b->lock);

    struct tn_error why = {0};
    int failed =
        tn_db_run(b->s->db, &why,
                  "UPDATE box SET state = ?2, goal = ?3, made = ?4, cause = ?5,"
                  " reason = ?6, secret = ?7, started = ?8, used = ?9,"
                  " restarts = ?10, last_action = ?11, last_action_text = ?12,"
                  " version = ?13, timeout = ?14, asleep = ?15, stopped = ?16 WHERE id = ?1",
                  "tiiiittddiitidid", b->names.id, state, goal, made, cause, reason, secret,
                  started, used, restarts, last, text, (int64_t)ceiling, timeout, asleep,
                  stopped) < 0;

    pthread_mutex_lock(&b->lock);
    if (failed)
        b->dirty = true;
    else
        b->ceiling = ceiling;
    pthread_mutex_unlock(&b->lock);
    pthread_mutex_unlock(&b->row);
    explicit_bzero(secret, strlen(secret));
    /* What really is can be asked again after a restart; the next change is another try. */
    if (failed)
        tn_log(TN_LOG_ERROR, "no row for a change", tn_log_str("sandbox", b->names.id),
               tn_log_str("error", why.text));
}

/* --- uses ---------------------------------------------------------------------------------- */

struct use {
    struct box *box;
    double used;
    int64_t action;
    char *text;
};

/* Off the list: a use from now on puts it there again. */
static struct use take_use(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    struct use use = {.box = b,
                      .used = b->used,
                      .action = b->last_action,
                      .text = tn_strdup_or_null(b->last_action_text)};
    b->next_used = NULL;
    b->use_unsaved = false;
    pthread_mutex_unlock(&b->lock);
    return use;
}

/* A row that has a newer use already stays. */
static int save_uses(struct tn_db *db, void *ctx, struct tn_error *err)
{
    for (const struct use *u = ctx; u->box; u++)
        if (tn_db_run(db, err,
                      "UPDATE box SET used = ?2, last_action = ?3, last_action_text = ?4"
                      " WHERE id = ?1 AND used <= ?2 AND last_action <= ?3",
                      "tdit", u->box->names.id, u->used, u->action, u->text) < 0)
            return -1;
    return 0;
}

void boxes_save_uses(struct boxes *all)
{
    struct tn_error why = {0};
    size_t count = 0;

    pthread_mutex_lock(&all->used_lock);
    struct box *first = TN_TAKE_PTR(all->used);
    pthread_mutex_unlock(&all->used_lock);
    if (!first)
        return;
    for (const struct box *b = first; b; b = b->next_used)
        count++;
    struct use *uses = tn_calloc(count + 1, sizeof *uses);
    for (size_t i = 0; i < count; i++) {
        struct box *next = first->next_used;
        uses[i] = take_use(first);
        first = next;
    }
    bool failed = tn_db_atomically(all->s->db, save_uses, uses, &why) != 0;
    if (failed)
        tn_log(TN_LOG_ERROR, "no rows for uses", tn_log_str("error", why.text));
    for (size_t i = 0; i < count; i++) {
        if (failed) { /* the next use, or the end of the service, is another try */
            pthread_mutex_lock(&uses[i].box->lock);
            uses[i].box->dirty = true;
            pthread_mutex_unlock(&uses[i].box->lock);
        }
        box_release(uses[i].box);
        free(uses[i].text);
    }
    free(uses);
}

int box_erase_row(struct box *b, struct tn_error *err)
{
    pthread_mutex_lock(&b->row);
    int failed = tn_db_run(b->s->db, err, "DELETE FROM box WHERE id = ?", "t", b->names.id) < 0;
    pthread_mutex_unlock(&b->row);
    return failed ? -1 : 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct loading {
    struct boxes *all;
    struct tn_error *err;
};

static char *text_at(const struct tn_db_row *row, int column)
{
    return tn_strdup_or_null(tn_db_text(row, column));
}

static int parse(const char *text, struct tn_json **out, struct tn_error *err)
{
    return text ? tn_json_parse(text, strlen(text), out, err) : 0;
}

static void read_texts(const struct tn_db_row *row, struct box *b)
{
    snprintf(b->names.id, sizeof b->names.id, "%s", tn_db_text(row, 0));
    b->names.tenant = b->tenant = text_at(row, 1);
    b->key_id = text_at(row, 2);
    b->names.session = b->session = text_at(row, 3);
    b->name = text_at(row, 4);
    b->template = text_at(row, 5);
    b->runtime = text_at(row, 6);
    b->parent = text_at(row, 7);
    b->snapshot = text_at(row, 8);
    b->secret = text_at(row, 9);
    b->reason = text_at(row, 12);
    b->last_action_text = text_at(row, 13);
    b->address = text_at(row, 14);
    b->isolation = text_at(row, 15);
    b->directory = tn_asprintf("%s/sandbox/%s", tn_runtime_host(b->s->rt)->state, b->names.id);
}

static void read_numbers(const struct tn_db_row *row, struct box *b)
{
    b->state = (enum box_state)tn_db_int(row, 16);
    b->goal = (enum box_state)tn_db_int(row, 17);
    b->order = b->goal != b->state; /* one that was not carried out yet */
    b->made = tn_db_int(row, 18);
    b->cause = (enum box_cause)tn_db_int(row, 19);
    b->restarts = (int)tn_db_int(row, 20);
    b->last_action = tn_db_int(row, 21);
    b->version = b->ceiling = (uint64_t)tn_db_int(row, 22);
    b->created = tn_db_double(row, 23);
    b->started = tn_db_double(row, 24);
    b->used = tn_db_double(row, 25);
    b->expires = tn_db_double(row, 26);
    b->idle_pause = tn_db_double(row, 27);
    b->idle_stop = tn_db_double(row, 28);
    b->resource_factor = tn_db_double(row, 29);
    b->timeout = tn_db_double(row, 30);
    b->timeout_how = (unsigned)tn_db_int(row, 31);
    b->asleep = tn_db_int(row, 32);
    b->snapshots = tn_db_int(row, 33);
    b->stopped = tn_db_double(row, 34);
    if (b->state == BOX_STOPPED && b->stopped <= b->started) {
        b->stopped = wall_clock(); /* a service of before has stopped it and did not say when */
        b->dirty = true;
    }
}

static int read_row(const struct tn_db_row *row, void *ctx)
{
    struct loading *l = ctx;
    autobox struct box *b = box_new(l->all->s);
    tn_autojson struct tn_json *spec = NULL;

    b->all = l->all;
    read_texts(row, b);
    read_numbers(row, b);
    if (parse(tn_db_text(row, 10), &spec, l->err) || tn_spec_from_json(spec, &b->spec, l->err) ||
        parse(tn_db_text(row, 11), &b->metadata, l->err) || measure(b, l->err))
        return tn_error_context(l->err, "the store: box %s", b->names.id);
    /* One that is being made or removed is not looked at but worked on. */
    b->known = !b->made || b->state == BOX_STARTING || b->goal == BOX_GONE;
    atomic_fetch_add(&l->all->unknown, !b->known);
    boxes_add(l->all, b);
    return 0;
}

int boxes_load(struct boxes *all, struct tn_error *err)
{
    struct loading l = {.all = all, .err = err};

    return tn_db_each(all->s->db, read_row, &l, err,
                      "SELECT b.id, b.tenant, b.key_id, b.session, b.name, b.template, b.runtime,"
                      " b.parent, b.snapshot, b.secret, b.spec, b.metadata, b.reason,"
                      " b.last_action_text, s.address, s.isolation, b.state, b.goal, b.made,"
                      " b.cause, b.restarts, b.last_action, b.version, b.created, b.started,"
                      " b.used, b.expires, b.idle_pause, b.idle_stop, b.resource_factor,"
                      " b.timeout, b.timeout_how, b.asleep,"
                      " (SELECT count(*) FROM snapshot WHERE sandbox = b.id), b.stopped"
                      " FROM box b LEFT JOIN sandbox s ON s.id = b.id ORDER BY b.created, b.id",
                      "") < 0
               ? -1
               : 0;
}
