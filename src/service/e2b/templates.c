/* Templates: those of the configuration, and those that clients have built (build.c), with their
 * tags. */
#include <ctype.h>

#include "service/clock.h"
#include "service/e2b/e2b.h"
#include "service/openhands.h"

enum { MOST_TAGS = 32, MOST_TAGS_NAME = 256 };

/* --- names ----------------------------------------------------------------------------------- */

static bool is_name(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && !(i && strchr("-_./", text[i])))
            return false;
    return n > 0 && n < 129;
}

int e2b_read_name(const char *text, struct e2b_name *out, struct tn_error *err)
{
    size_t n = text ? strcspn(text, ":") : 0;
    const char *tag = text && text[n] ? text + n + 1 : "";

    if (!is_name(text, n) || (text[n] && !is_name(tag, strlen(tag))))
        return tn_fail(err, TN_E_INVALID, "name: expected letters, digits, - and _, and a tag");
    snprintf(out->name, sizeof out->name, "%.*s", (int)n, text);
    snprintf(out->tag, sizeof out->tag, "%s", tag);
    return 0;
}

struct found {
    char *build, *name, *template, *box, *built;
};

static void found_done(struct found *f)
{
    free(f->build);
    free(f->name);
    free(f->template);
    free(f->box);
    free(f->built);
}
#define autofound TN_CLEANUP(found_done)

static int take_found(const struct tn_db_row *row, void *ctx)
{
    struct found *f = ctx;

    *f = (struct found){.build = tn_strdup(tn_db_text(row, 0)),
                        .name = tn_strdup(tn_db_text(row, 1)),
                        .template = tn_strdup(tn_db_text(row, 2)),
                        .box = tn_strdup_or_null(tn_db_text(row, 3)),
                        .built = tn_strdup_or_null(tn_db_text(row, 4))};
    return 1;
}

/* The build of that name or id of a template, by its tag (any: whatever it has): 1, 0 or -1. */
static int find(struct tn_service *s, const char *tenant, const char *id, bool any,
                struct found *out, struct tn_error *err)
{
    struct e2b_name n;

    if (e2b_read_name(id, &n, NULL))
        return 0;
    return tn_db_each(s->db, take_found, out, err,
                      "SELECT r.id, r.name, r.template, r.box, r.built FROM recipe_tag t"
                      " JOIN recipe r ON r.id = t.recipe WHERE t.tenant = ? AND (t.tag = ? OR ?)"
                      " AND (t.name = ? OR r.template = ?) AND r.status = 'ready'",
                      "ttitt", tenant, *n.tag ? n.tag : "default", (int64_t)any, n.name, n.name);
}

int e2b_find_built(struct tn_service *s, const struct caller *who, const char *id,
                   struct e2b_origin *out, struct tn_error *err)
{
    autofound struct found f = {0};
    int there = find(s, who->tenant, id, false, &f, err);

    if (there <= 0)
        return there;
    out->parent = box_find(s, who->tenant, f.box ? f.box : "", NULL);
    if (!out->parent)
        return 0;
    return tn_json_parse(f.built, strlen(f.built), &out->built, err) ? -1 : 1;
}

/* --- lists ----------------------------------------------------------------------------------- */

/* Within an object that the caller has opened. */
static void put_members(struct tn_jw *w, const char *id, const char *name, const char *build,
                        const char *status, double created)
{
    static const char *const zeros[] = {"cpuCount", "memoryMB", "diskSizeMB", "buildCount",
                                        "spawnCount"};
    static const char *const lists[] = {"aliases", "names"};

    tn_jw_kstr(w, "templateID", id);
    tn_jw_kstr(w, "buildID", build);
    for (size_t i = 0; i < TN_COUNT(zeros); i++)
        tn_jw_kint(w, zeros[i], 0);
    for (size_t i = 0; i < TN_COUNT(lists); i++) {
        tn_jw_key(w, lists[i]);
        tn_jw_array(w);
        tn_jw_str(w, name);
        tn_jw_array_end(w);
    }
    tn_jw_kbool(w, "public", false);
    openhands_put_time(w, "createdAt", created);
    openhands_put_time(w, "updatedAt", created);
    tn_jw_knull(w, "createdBy");
    tn_jw_knull(w, "lastSpawnedAt");
    tn_jw_kstr(w, "envdVersion", E2B_ENVD_VERSION);
    tn_jw_kstr(w, "buildStatus", status);
}

static void put_template(struct tn_jw *w, const char *id, const char *name, const char *build,
                         double created)
{
    tn_jw_object(w);
    put_members(w, id, name, build, "ready", created);
    tn_jw_object_end(w);
}

static int list_built(const struct tn_db_row *row, void *w)
{
    put_template(w, tn_db_text(row, 0), tn_db_text(row, 1), tn_db_text(row, 2),
                 tn_db_double(row, 3));
    return 0;
}

static void get_templates(struct tn_http_exchange *x, void *ctx)
{
    static const char nobody[] = "00000000-0000-0000-0000-000000000000";
    struct tn_service *s = ctx;
    const struct tn_config *config = tn_runtime_host(s->rt)->config;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    const char *name;

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_array(&w);
    if (!tn_config_template(config, E2B_TEMPLATE))
        put_template(&w, E2B_TEMPLATE, E2B_TEMPLATE, nobody, 0);
    for (size_t i = 0; (name = tn_config_template_name(config, i)); i++)
        put_template(&w, name, name, nobody, 0);
    tn_db_each(s->db, list_built, &w, NULL,
               "SELECT template, name, id, max(created) FROM recipe"
               " WHERE tenant = ? AND status = 'ready' AND source IS NULL GROUP BY name",
               "t", caller_of(x)->tenant);
    tn_jw_array_end(&w);
    tn_http_reply_json(x, 200, &json);
}

static int put_build(const struct tn_db_row *row, void *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "buildID", tn_db_text(row, 0));
    tn_jw_kstr(w, "status", tn_db_text(row, 1));
    openhands_put_time(w, "createdAt", tn_db_double(row, 2));
    openhands_put_time(w, "updatedAt", tn_db_double(row, 2));
    tn_jw_kint(w, "cpuCount", 0);
    tn_jw_kint(w, "memoryMB", 0);
    tn_jw_object_end(w);
    return 0;
}

/* As its best build has it. */
static int put_first(const struct tn_db_row *row, void *w)
{
    put_members(w, tn_db_text(row, 0), tn_db_text(row, 1), tn_db_text(row, 2), tn_db_text(row, 3),
                tn_db_double(row, 4));
    return 1;
}

/* One that a client has built, or has under way. */
static void get_template(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *id = tn_http_param(x, "template"), *tenant = caller_of(x)->tenant;
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_object(&w);
    if (tn_db_each(s->db, put_first, &w, NULL,
                   "SELECT template, name, id, status, created FROM recipe"
                   " WHERE tenant = ? AND (name = ? OR template = ?) AND source IS NULL"
                   " ORDER BY status = 'ready' DESC, created DESC LIMIT 1",
                   "ttt", tenant, id, id) <= 0) {
        native_refuse(x, TN_E_NOT_FOUND, "template '%.100s' not found", id);
        return;
    }
    tn_jw_key(&w, "builds");
    tn_jw_array(&w);
    tn_db_each(s->db, put_build, &w, NULL,
               "SELECT id, status, created FROM recipe WHERE tenant = ?"
               " AND (name = ? OR template = ?) AND source IS NULL ORDER BY created DESC LIMIT 100",
               "ttt", tenant, id, id);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* A name is there as soon as a build of it was declared. */
static void get_alias(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *name = tn_http_param(x, "alias");
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    autofound struct found f = {0};

    if (!caller_may(x, SCOPE_READ))
        return;
    if (!e2b_is_usual(s, name) && find(s, caller_of(x)->tenant, name, true, &f, NULL) <= 0 &&
        tn_db_each(s->db, take_found, &f, NULL,
                   "SELECT id, name, template, box, built FROM recipe WHERE tenant = ?"
                   " AND name = ? AND source IS NULL AND status IN ('waiting', 'building') LIMIT 1",
                   "tt", caller_of(x)->tenant, name) <= 0) {
        native_refuse(x, TN_E_NOT_FOUND, "template '%.100s' not found", name);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "templateID", f.template ? f.template : name);
    tn_jw_kbool(&w, "public", false);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- the end --------------------------------------------------------------------------------- */

static int add_box(const struct tn_db_row *row, void *ctx)
{
    surface_add_arg(ctx, tn_db_text(row, 0));
    return 0;
}

/* Frees the list; their rows go with them. */
static void delete_boxes(struct tn_service *s, const struct caller *who, struct tn_str_list *boxes)
{
    for (size_t i = 0; i < boxes->count; i++) {
        autobox struct box *b = box_find(s, who->tenant, boxes->items[i], NULL);
        if (b)
            box_order(b, who, ORDER_DELETE, tn_deadline_in(E2B_SECONDS), NULL);
        free(boxes->items[i]);
    }
    free(boxes->items);
}

void e2b_drop_untagged(struct tn_service *s, const struct caller *who, const char *name)
{
    struct tn_str_list boxes = {0};

    tn_db_each(s->db, add_box, &boxes, NULL,
               "SELECT box FROM recipe WHERE tenant = ? AND name = ? AND status = 'ready'"
               " AND NOT EXISTS (SELECT 1 FROM recipe_tag t WHERE t.recipe = recipe.id)",
               "tt", who->tenant, name);
    delete_boxes(s, who, &boxes);
}

/* The tag that the id has, and what has no other: how many rows, or -1. */
static int delete_tag(struct tn_service *s, const struct caller *who, const char *id,
                      const char *tag, struct tn_error *err)
{
    autofound struct found f = {0};
    int rows = find(s, who->tenant, id, false, &f, err);

    if (rows <= 0)
        return rows;
    rows = tn_db_run(s->db, err, "DELETE FROM recipe_tag WHERE tenant = ? AND name = ? AND tag = ?",
                     "ttt", who->tenant, f.name, tag);
    e2b_drop_untagged(s, who, f.name);
    return rows;
}

/* What was built, or a snapshot, which is a template there: all of it, or one tag of it. */
static void delete_template(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *id = tn_http_param(x, "template");
    struct tn_str_list boxes = {0};
    struct tn_error err = {0};
    struct e2b_name n;

    if (!caller_may(x, SCOPE_MANAGE))
        return;
    const struct caller *who = caller_of(x);
    int rows = 0;
    if (e2b_read_name(id, &n, NULL) == 0)
        rows = *n.tag ? delete_tag(s, who, id, n.tag, &err)
                      : tn_db_each(s->db, add_box, &boxes, &err,
                                   "SELECT box FROM recipe WHERE tenant = ? AND status = 'ready'"
                                   " AND (name = ? OR template = ?)",
                                   "ttt", who->tenant, n.name, n.name);
    if (rows == 0 && e2b_is_usual(s, id))
        tn_fail(&err, TN_E_DENIED, "templates are the operator's here");
    else if (rows == 0)
        tn_fail(&err, TN_E_NOT_FOUND, "template '%.100s' not found", id);
    delete_boxes(s, who, &boxes);
    if (native_audit_of(x, s, "template.delete", id, err.code ? &err : NULL))
        return;
    if (err.code)
        reply_error(x, &err);
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

/* --- tags ------------------------------------------------------------------------------------ */

int e2b_give_tag(struct tn_service *s, const char *tenant, const char *name, const char *tag,
                 const char *build, struct tn_error *err)
{
    int rows = tn_db_run(s->db, err,
                         "INSERT OR REPLACE INTO recipe_tag (tenant, name, tag, recipe, created)"
                         " SELECT ?, ?, ?, ?, ? WHERE (SELECT count(*) FROM recipe_tag"
                         " WHERE tenant = ? AND name = ? AND tag <> ?) < ?",
                         "ttttdttti", tenant, name, tag, build, service_time(), tenant, name, tag,
                         (int64_t)MOST_TAGS_NAME);

    if (rows == 0)
        return tn_fail(err, TN_E_QUOTA, "a template has at most %d tags", MOST_TAGS_NAME);
    return rows < 0 ? -1 : 0;
}

/* Whether `tags` of a body are names, and some. */
static bool are_tags(const struct tn_json *tags)
{
    bool good = tn_json_count(tags) > 0 && tn_json_count(tags) <= MOST_TAGS;

    for (size_t i = 0; good && i < tn_json_count(tags); i++) {
        const char *tag = tn_json_str(tn_json_at(tags, i), NULL);
        good = tag && is_name(tag, strlen(tag));
    }
    return good;
}

/* The body, and the build that its member names; -1: answered. */
static int read_tags(struct tn_http_exchange *x, struct tn_service *s, const char *member, bool any,
                     struct tn_json **body, struct found *f)
{
    if (!caller_may(x, SCOPE_MANAGE) || surface_body(x, E2B_BODY_MAX, body))
        return -1;
    const char *id = tn_json_get_str(*body, member, "");
    if (!are_tags(tn_json_get(*body, "tags")))
        return native_refuse(x, TN_E_INVALID, "tags: expected 1 to %d names", MOST_TAGS);
    if (find(s, caller_of(x)->tenant, id, any, f, NULL) > 0)
        return 0;
    return native_refuse(x, TN_E_NOT_FOUND, "template '%.100s' not found", id);
}

static void post_tags(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);
    autofound struct found f = {0};
    struct tn_error err = {0};
    int failed = 0;

    if (read_tags(x, s, "target", false, &body, &f))
        return;
    const struct tn_json *tags = tn_json_get(body, "tags");
    for (size_t i = 0; !failed && i < tn_json_count(tags); i++)
        failed = e2b_give_tag(s, caller_of(x)->tenant, f.name,
                              tn_json_str(tn_json_at(tags, i), NULL), f.build, &err);
    if (native_audit_of(x, s, "template.tag", f.name, failed ? &err : NULL))
        return;
    if (failed) {
        reply_error(x, &err);
        return;
    }
    e2b_drop_untagged(s, caller_of(x), f.name);
    tn_jw_object(&w);
    tn_jw_key(&w, "tags");
    tn_jw_tree(&w, tags);
    tn_jw_kstr(&w, "buildID", f.build);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 201, &json);
}

static void delete_tags(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autojson struct tn_json *body = NULL;
    autofound struct found f = {0};
    struct tn_error err = {0};
    int failed = 0;

    if (read_tags(x, s, "name", true, &body, &f))
        return;
    const struct tn_json *tags = tn_json_get(body, "tags");
    for (size_t i = 0; !failed && i < tn_json_count(tags); i++)
        failed =
            tn_db_run(s->db, &err,
                      "DELETE FROM recipe_tag WHERE tenant = ? AND name = ? AND tag = ?", "ttt",
                      caller_of(x)->tenant, f.name, tn_json_str(tn_json_at(tags, i), NULL)) < 0;
    if (native_audit_of(x, s, "template.untag", f.name, failed ? &err : NULL))
        return;
    if (failed) {
        reply_error(x, &err);
        return;
    }
    e2b_drop_untagged(s, caller_of(x), f.name);
    tn_http_reply(x, 204, NULL, NULL, 0);
}

static int list_tag(const struct tn_db_row *row, void *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "tag", tn_db_text(row, 0));
    tn_jw_kstr(w, "buildID", tn_db_text(row, 1));
    openhands_put_time(w, "createdAt", tn_db_double(row, 2));
    tn_jw_object_end(w);
    return 0;
}

static void get_tags(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    const char *id = tn_http_param(x, "template");
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, E2B_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    if (!caller_may(x, SCOPE_READ))
        return;
    tn_jw_array(&w);
    int count = tn_db_each(s->db, list_tag, &w, NULL,
                           "SELECT t.tag, t.recipe, t.created FROM recipe_tag t"
                           " JOIN recipe r ON r.id = t.recipe"
                           " WHERE t.tenant = ? AND (t.name = ? OR r.template = ?) ORDER BY t.tag",
                           "ttt", caller_of(x)->tenant, id, id);
    tn_jw_array_end(&w);
    if (count > 0)
        tn_http_reply_json(x, 200, &json);
    else
        native_refuse(x, TN_E_NOT_FOUND, "template '%.100s' not found", id);
}

const struct tn_route routes_e2b_templates[] = {
    {"GET", "/templates", get_templates, "E2B: templates", 0},
    {"GET", "/v2/templates", get_templates, "E2B: templates", 0},
    {"GET", "/templates/aliases/{alias}", get_alias, "E2B: the template of that name", 0},
    {"GET", "/templates/{template}", get_template, "E2B: what was built, and is", 0},
    {"DELETE", "/templates/{template}", delete_template,
     "E2B: removes what was built, or a snapshot", 0},
    {"GET", "/templates/{template}/tags", get_tags, "E2B: tags of its builds", 0},
    {"POST", "/templates/tags", post_tags, "E2B: more tags for a build", 0},
    {"DELETE", "/templates/tags", delete_tags, "E2B: takes tags away", 0},
    {0},
};
