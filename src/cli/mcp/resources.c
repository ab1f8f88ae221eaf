/* Files of a sandbox as resources: tendon://ID/absolute/path. */
#include "base/base64.h"
#include "base/clock.h"
#include "cli/mcp/mcp.h"
#include "net/url.h"
#include "runtime/hand-files.h"
#include "runtime/hand-sessions.h"

#define SCHEME "tendon://"
enum { LISTED_MAX = 1000, ENCODED_MAX = 2 * MCP_FILE_MAX };

static int refuse(struct tn_mcp_request *request, const struct tn_error *err)
{
    return tn_mcp_refuse(request,
                         err->code == TN_E_NOT_FOUND ? TN_RPC_NOT_FOUND : TN_RPC_INTERNAL_ERROR,
                         "%s", err->text);
}

/* --- the list: what lies where the main shell is -------------------------------------------- */

struct listing {
    const char *id, *directory;
    struct tn_jw w;
    size_t count;
};

static void put_uri(struct tn_buf *out, const char *id, const char *directory, const char *name)
{
    tn_buf_printf(out, SCHEME "%s", id);
    tn_url_encode(out, directory, "/");
    if (strcmp(directory, "/") != 0)
        tn_buf_putc(out, '/');
    tn_url_encode(out, name, "");
}

static int put_entry(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    struct listing *l = ctx;
    tn_autobuf struct tn_buf uri = TN_BUF_INIT(16 << 10);

    if (e->type != TN_ENTRY_FILE)
        return 0;
    put_uri(&uri, l->id, l->directory, e->name);
    tn_jw_object(&l->w);
    tn_jw_kstr(&l->w, "uri", tn_buf_str(&uri));
    tn_jw_kstr(&l->w, "name", e->name);
    tn_jw_kint(&l->w, "size", e->size);
    tn_jw_object_end(&l->w);
    return ++l->count == LISTED_MAX;
}

static int list_files(struct tn_sandbox *sb, struct listing *l, struct tn_error *err)
{
    tn_autojson struct tn_json *session = NULL;
    struct tn_hand_address at;

    if (tn_sandbox_address(sb, &at.address, &at.key, tn_deadline_in(30), err) < 0 ||
        tn_hand_session_get(&at, "main", &session, tn_deadline_in(30), err) < 0)
        return -1;
    tn_autofiles struct tn_hand_files *files = tn_hand_files_new(at.address, at.key, err);
    if (!files)
        return -1;
    l->id = tn_sandbox_record(sb)->id;
    l->directory = tn_json_get_str(session, "cwd", "/");
    return tn_hand_files_list(files, l->directory, put_entry, l, tn_deadline_in(60), err);
}

int resources_list(struct mcp_client *c, struct tn_mcp_request *request, struct tn_buf *result)
{
    struct tn_error err = {0};
    tn_autosandbox struct tn_sandbox *sb = mcp_own_sandbox(c, &err);
    struct listing l = {.w = tn_jw(result)};

    if (!sb && err.code)
        return refuse(request, &err);
    tn_jw_object(&l.w);
    tn_jw_key(&l.w, "resources");
    tn_jw_array(&l.w);
    if (sb && list_files(sb, &l, &err) < 0)
        return refuse(request, &err);
    tn_jw_array_end(&l.w);
    tn_jw_object_end(&l.w);
    return 0;
}

int resources_templates(struct tn_mcp_request *request, struct tn_buf *result)
{
    struct tn_jw w = tn_jw(result);

    tn_jw_object(&w);
    tn_jw_key(&w, "resourceTemplates");
    tn_jw_array(&w);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "uriTemplate", SCHEME "{sandbox}{+path}");
    tn_jw_kstr(&w, "name", "file");
    tn_jw_kstr(&w, "title", "A file of a sandbox");
    tn_jw_kstr(&w, "description", "sandbox: an id, or \"own\"; path: absolute");
    tn_jw_object_end(&w);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    return 0;
}

/* --- one file ------------------------------------------------------------------------------- */

/* Splits tendon://ID/path; *path is decoded and, as *id, the caller's.  -1: it is none. */
static int parse_uri(const char *uri, char **id, char **path)
{
    size_t scheme = strlen(SCHEME);
    const char *slash = strncmp(uri, SCHEME, scheme) == 0 ? strchr(uri + scheme, '/') : NULL;

    if (!slash || slash == uri + scheme)
        return -1;
    *id = tn_strndup(uri + scheme, (size_t)(slash - uri) - scheme);
    *path = tn_malloc(strlen(slash) + 1);
    return tn_url_decode(slash, strlen(slash), *path, false) < 0 ? -1 : 0;
}

static void put_contents(const char *uri, const struct tn_buf *bytes, struct tn_jw *w)
{
    bool text = mcp_is_text(bytes);

    tn_jw_object(w);
    tn_jw_key(w, "contents");
    tn_jw_array(w);
    tn_jw_object(w);
    tn_jw_kstr(w, "uri", uri);
    tn_jw_kstr(w, "mimeType", text ? "text/plain" : "application/octet-stream");
    tn_jw_key(w, text ? "text" : "blob");
    if (text) {
        tn_jw_strn(w, tn_buf_str(bytes), bytes->len);
    } else {
        tn_autobuf struct tn_buf encoded = TN_BUF_INIT(ENCODED_MAX);
        tn_base64_encode(&encoded, tn_buf_str(bytes), bytes->len);
        tn_jw_strn(w, tn_buf_str(&encoded), encoded.len);
    }
    tn_jw_object_end(w);
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

int resources_read(struct mcp_client *c, struct tn_mcp_request *request, struct tn_buf *result)
{
    const char *uri = tn_json_get_str(tn_mcp_request_message(request)->params, "uri", "");
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(MCP_FILE_MAX + 1);
    tn_autofree char *id = NULL, *path = NULL;
    struct tn_error err = {0};

    if (parse_uri(uri, &id, &path) < 0)
        return tn_mcp_refuse(request, TN_RPC_INVALID_PARAMS, "'%s' is no " SCHEME "SANDBOX/PATH",
                             uri);
    tn_autosandbox struct tn_sandbox *sb = mcp_sandbox(c, strcmp(id, "own") == 0 ? NULL : id, &err);
    if (!sb || mcp_fetch(sb, path, &bytes, &err) < 0)
        return refuse(request, &err);
    struct tn_jw w = tn_jw(result);
    put_contents(uri, &bytes, &w);
    return 0;
}
