/* The toolbox of a sandbox: which call is meant, and small things. */
#include "service/daytona/daytona.h"

struct tn_hand_files *daytona_files(struct daytona_call *c)
{
    struct tn_error err = {0};
    struct tn_hand_files *f = surface_files(c->x, c->b, &err);

    if (!f)
        reply_error(c->x, &err);
    return f;
}

char *daytona_query_path(struct daytona_call *c, const char *name)
{
    const char *given = tn_http_query(c->x, name);

    if (given && *given)
        return surface_path(c->home, given);
    daytona_fail(c->x, 400, NULL, "%s: expected a path", name);
    return NULL;
}

/* --- small things ---------------------------------------------------------------------------- */

static void get_dir(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "dir", c->home);
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

static void get_version(struct daytona_call *c)
{
    tn_http_reply(c->x, 200, "application/json", "{\"version\":\"0.0.0-tendon\"}", 26);
}

static const struct daytona_row small_rows[] = {
    {"GET", "project-dir", get_dir, NULL},
    {"GET", "user-home-dir", get_dir, NULL},
    {"GET", "work-dir", get_dir, NULL},
    {"GET", "version", get_version, NULL},
    {0},
};

/* --- which call ------------------------------------------------------------------------------ */

static const struct daytona_row *const tables[] = {small_rows,
                                                   daytona_files_rows,
                                                   daytona_process_rows,
                                                   daytona_session_rows,
                                                   daytona_pty_rows,
                                                   daytona_git_rows,
                                                   daytona_interpreter_rows,
                                                   daytona_lsp_rows,
                                                   daytona_computer_rows,
                                                   daytona_accessibility_rows};

static bool dispatch(struct daytona_call *c, const char *path)
{
    for (size_t i = 0; i < TN_COUNT(tables); i++)
        for (const struct daytona_row *row = tables[i]; row->method; row++)
            if (strcmp(row->method, tn_http_method(c->x)) == 0 &&
                surface_fits(row->path, path, c->words)) {
                box_enter_use(c->b);
                c->row = row;
                row->call(c);
                box_leave_use(c->b);
                return true;
            }
    return false;
}

/* What the vendor's own daemon says where a sandbox has no desktop. */
static void refuse_absent(struct tn_http_exchange *x, const char *path)
{
    if (strncmp(path, "computeruse/", 12) == 0)
        daytona_fail(x, 503, NULL, "Computer-use functionality is not available");
    else
        daytona_fail(x, 404, "NOT_FOUND", "%s /%.100s is not served here", tn_http_method(x), path);
}

/* Older clients say /toolbox/ID/toolbox/..., newer ones leave the second out. */
void daytona_toolbox(struct tn_http_exchange *x, void *ctx)
{
    static const char older[] = "toolbox/";
    const char *path = tn_http_param(x, "rest");
    autobox struct box *b = daytona_enter(x, ctx, path) ? daytona_box(x, ctx, SCOPE_USE) : NULL;
    struct daytona_call c = {.s = ctx, .x = x, .b = b};
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    const char *home = tn_json_get_str(v.spec.env, "HOME", v.spec.workspace);
    c.home = tn_strdup(home && *home == '/' ? home : "/workspace");
    if (strncmp(path, older, sizeof older - 1) == 0)
        path += sizeof older - 1;
    if (!dispatch(&c, path))
        refuse_absent(x, path);
    free(c.words[0]);
    free(c.words[1]);
    free(c.home);
}
