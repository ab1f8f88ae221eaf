/* Snapshots: templates whose box is a fork of a sandbox, at rest, so that they outlive it.
 *
 * Each is a build (table recipe) of the template of its name, with the sandbox as its source; one
 * without a name has that of its build, and is called by the id of its template. */
#include "service/clock.h"
#include "service/e2b/e2b.h"

#define WAIT_MORE_SECONDS 5.0

struct snapshot {
    struct tn_service *s;
    const struct caller *who;
    const char *source; /* the box that it is of */
    struct e2b_name n;
    char id[E2B_BUILD_ID], template[E2B_TEMPLATE_ID];
};

/* What sandboxes of it are given besides its files: the directory and the user of its own. */
static char *make_built(const struct snapshot *snapshot, const struct box_view *v)
{
    static const char *const kept[] = {"cwd", "user"};
    const struct tn_json *record = tn_json_get(v->metadata, E2B_RECORD);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_jw_key(&w, "record");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "template", snapshot->template);
    tn_jw_kstr(&w, "alias", snapshot->n.name);
    for (size_t i = 0; i < TN_COUNT(kept); i++)
        tn_jw_kstr(&w, kept[i], tn_json_get_str(record, kept[i], NULL));
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    return tn_buf_take(&text);
}

/* A build that a killed service has left goes with its box (e2b_builds_begin). */
static int insert(const struct snapshot *snapshot, const struct box *made, const char *built,
                  struct tn_error *err)
{
    return tn_db_run(snapshot->s->db, err,
                     "INSERT INTO recipe (id, tenant, key, template, name, status, wish, box,"
                     " built, source, created) VALUES (?, ?, ?, ?, ?, 'building', '{}', ?, ?, ?,"
                     " ?)",
                     "ttttttttd", snapshot->id, snapshot->who->tenant, snapshot->who->key_id,
                     snapshot->template, snapshot->n.name, box_id(made), built, snapshot->source,
                     service_time()) < 0
               ? -1
               : 0;
}

static int commit(struct tn_db *db, void *ctx, struct tn_error *err)
{
    const struct snapshot *snapshot = ctx;
    const char *tag = *snapshot->n.tag ? snapshot->n.tag : "default";

    return e2b_give_tag(snapshot->s, snapshot->who->tenant, snapshot->n.name, tag, snapshot->id,
                        err) ||
                   tn_db_run(db, err, "UPDATE recipe SET status = 'ready' WHERE id = ?", "t",
                             snapshot->id) < 0
               ? -1
               : 0;
}

static int take(struct snapshot *snapshot, struct box *b, struct tn_error *err)
{
    double seconds = snapshot->s->options->start_seconds + WAIT_MORE_SECONDS;
    struct box_wish wish = {.name = snapshot->n.name,
                            .idle_pause = -1,
                            .idle_stop = -1,
                            .ttl = -1,
                            .timeout = SURFACE_REST_SECONDS + 2 * seconds};
    tn_autofree char *id = tn_asprintf("\"%s\"", snapshot->id);
    tn_autojson struct tn_json *metadata =
        surface_metadata(NULL, E2B_RECORD, NULL, "build", id, err);
    autoview struct box_view v = {0};

    if (!metadata)
        return -1;
    wish.metadata = metadata;
    box_look(b, &v);
    tn_autofree char *built = make_built(snapshot, &v);
    tn_spec_init(&wish.spec);
    autobox struct box *made = box_fork(b, snapshot->who, NULL, &wish, err);
    tn_spec_done(&wish.spec);
    if (!made)
        return -1;
    if (insert(snapshot, made, built, err) == 0 &&
        surface_settle(made, snapshot->who, NULL, seconds, err) == 0 &&
        tn_db_atomically(snapshot->s->db, commit, snapshot, err) == 0) {
        e2b_drop_untagged(snapshot->s, snapshot->who, snapshot->n.name);
        return 0;
    }
    box_order(made, snapshot->who, ORDER_DELETE, tn_now(), NULL);
    tn_db_run(snapshot->s->db, NULL, "DELETE FROM recipe WHERE id = ?", "t", snapshot->id);
    return -1;
}

static void put(struct tn_jw *w, const char *id, bool named)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "snapshotID", id);
    tn_jw_key(w, "names");
    tn_jw_array(w);
    if (named)
        tn_jw_str(w, id);
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

static int see_one(const struct tn_db_row *row, void *ctx)
{
    return 1;
}

/* The name of a template is not taken over: its tag would go to the snapshot, and it with that. */
static int check_name(const struct snapshot *snapshot, struct tn_error *err)
{
    if (e2b_is_usual(snapshot->s, snapshot->n.name))
        return tn_fail(err, TN_E_CONFLICT, "template '%s' is the operator's", snapshot->n.name);
    int found = tn_db_each(snapshot->s->db, see_one, NULL, err,
                           "SELECT 1 FROM recipe WHERE tenant = ? AND name = ?"
                           " AND status = 'ready' AND source IS NULL",
                           "tt", snapshot->who->tenant, snapshot->n.name);
    if (found > 0)
        return tn_fail(err, TN_E_CONFLICT, "template '%s' was built", snapshot->n.name);
    return found;
}

static void post_snapshots(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = e2b_box(x, ctx, SCOPE_MANAGE);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    tn_autojson struct tn_json *body = NULL;
    struct snapshot made = {.s = ctx, .who = caller_of(x), .source = b ? box_id(b) : NULL};
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!b || surface_body(x, E2B_BODY_MAX, &body))
        return;
    const char *given = tn_json_get_str(body, "name", NULL);
    int failed = e2b_make_id(made.id, &err) ||
                 e2b_read_name(given ? given : made.id, &made.n, &err) || check_name(&made, &err);
    e2b_template_id(ctx, made.who->tenant, made.n.name, made.template);
    failed = failed || take(&made, b, &err);
    if (native_audit(x, ctx, "snapshot.create", made.source, failed ? &err : NULL))
        return;
    if (failed) {
        reply_error(x, &err);
        return;
    }
    put(&w, given ? given : made.template, given);
    tn_http_reply_json(x, 201, &json);
}

static int list_one(const struct tn_db_row *row, void *w)
{
    put(w, tn_db_text(row, 0), tn_db_int(row, 1));
    return 0;
}

static void get_snapshots(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    const char *only = tn_http_query(x, "sandboxID");
    struct tn_jw w = tn_jw(&json);

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_array(&w);
    tn_db_each(s->db, list_one, &w, NULL,
               "SELECT CASE WHEN r.name = r.id THEN r.template WHEN t.tag = 'default' THEN r.name"
               " ELSE r.name || ':' || t.tag END, r.name <> r.id FROM recipe r"
               " JOIN recipe_tag t ON t.recipe = r.id WHERE r.tenant = ? AND r.status = 'ready'"
               " AND r.source IS NOT NULL AND (? = '' OR r.source = ?) ORDER BY r.created DESC",
               "ttt", caller_of(x)->tenant, only ? only : "", only ? only : "");
    tn_jw_array_end(&w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route routes_e2b_snapshots[] = {
    {"POST", "/sandboxes/{id}/snapshots", post_snapshots, "E2B: a snapshot of its files", 0},
    {"GET", "/snapshots", get_snapshots, "E2B: snapshots of the tenant", 0},
    {0},
};
