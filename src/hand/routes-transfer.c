/* File transfers as an OpenHands host knows them. */
#include <strings.h>

#include "base/clock.h"
#include "hand/file-actions.h"
#include "hand/file/download.h"
#include "hand/file/list.h"
#include "hand/file/upload.h"
#include "hand/routes.h"
#include "net/multipart.h"

#define LIST_SECONDS 10.0
#define PLAN_SECONDS 25.0 /* the host gives up after 30 */

/* Errors of these routes all come as 500, with the true status at the start of the text. */
static void reply_nested(struct tn_http_exchange *x, const struct tn_error *err)
{
    int status = tn_code_row(err->code)->http_status;
    tn_autofree char *detail =
        status < 500 ? tn_asprintf("%d: %s", status, err->text) : tn_strdup(err->text);
    tn_http_reply_detail(x, 500, detail);
}

/* --- upload --------------------------------------------------------------------------------- */

static ssize_t body_source(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_http_read(ctx, to, n, err);
}

static ssize_t part_source(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_multipart_read(ctx, to, n, err);
}

/* true, 1, yes, on and t, as the original's framework takes a boolean; -1 for nonsense. */
static int query_bool(struct tn_http_exchange *x, const char *name)
{
    static const char *const words[] = {"false", "0", "no",  "off", "f", "n",
                                        "true",  "1", "yes", "on",  "t", "y"};
    const char *text = tn_http_query(x, name);

    for (size_t i = 0; text && i < TN_COUNT(words); i++) {
        if (strcasecmp(text, words[i]) == 0)
            return i >= TN_COUNT(words) / 2;
    }
    return text ? -1 : 0;
}

static void reply_uploaded(struct tn_http_exchange *x, const struct tn_upload *upload)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "filename", upload->filename);
    tn_jw_kstr(&w, "destination", upload->destination);
    tn_jw_kbool(&w, "recursive", upload->recursive);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* Finds the part named "file" and stores it while it arrives. */
static void receive(struct tn_http_exchange *x, struct tn_multipart *form, struct tn_upload *upload)
{
    const struct tn_part *part;
    struct tn_error err;
    int found;

    while ((found = tn_multipart_next(form, &part, &err)) == 1) {
        if (strcmp(part->name, "file") != 0 || !part->filename)
            continue;
        tn_autofree char *filename = tn_strdup(part->filename);
        upload->filename = filename;
        if (tn_upload(upload, part_source, form, &err) < 0)
            reply_nested(x, &err);
        else
            reply_uploaded(x, upload);
        return;
    }
    if (found < 0)
        tn_http_reply_error(x, &err);
    else
        tn_reply_invalid(x, "'body', 'file'", "Field required");
}

static void post_upload_file(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    struct tn_file_user user = tn_hand_file_user(hand);
    const char *destination = tn_http_query(x, "destination"),
               *type = tn_http_header(x, "Content-Type");
    int recursive = query_bool(x, "recursive");
    struct tn_upload upload = {
        .destination = destination ? destination : "/",
        .recursive = recursive == 1,
        .user = &user,
    };
    struct tn_error err;

    if (recursive < 0 || !type) {
        recursive < 0
            ? tn_reply_invalid(x, "'query', 'recursive'", "Input should be a valid boolean")
            : tn_reply_invalid(x, "'body', 'file'", "Field required");
        return;
    }
    struct tn_multipart *form = tn_multipart_new(type, body_source, x, &err);
    if (!form) {
        tn_http_reply_error(x, &err);
        return;
    }
    receive(x, form, &upload);
    tn_multipart_free(form);
}

/* --- download ------------------------------------------------------------------------------- */

static int answer_sink(void *ctx, const void *bytes, size_t n, struct tn_error *err)
{
    return tn_http_write(ctx, bytes, n) < 0 ? tn_fail(err, TN_E_PEER, "the client is gone") : 0;
}

static void get_download_files(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autobuf struct tn_buf disposition = TN_BUF_INIT(16 << 10);
    const char *path = tn_http_query(x, "path");
    struct tn_error err;

    if (!path) {
        tn_reply_invalid(x, "'query', 'path'", "Field required");
        return;
    }
    struct tn_zip_plan *plan =
        tn_download(path, tn_state_outputs(hand->state), tn_deadline_in(PLAN_SECONDS), &err);
    if (!plan) {
        reply_nested(x, &err);
        return;
    }
    tn_download_disposition(path, &disposition);
    tn_http_set_header(x, "Content-Disposition", tn_buf_str(&disposition));
    if (tn_http_start(x, 200, "application/zip", (int64_t)tn_zip_plan_length(plan)) == 0 &&
        tn_zip_plan_send(plan, answer_sink, x, &err) == 0)
        tn_http_end(x);
    else
        tn_http_abort(x);
    tn_zip_plan_free(plan);
}

/* --- list
 * ------------------------------------------------------------------------------------------------
 */

static int add_name(const char *name, void *ctx)
{
    tn_jw_str(ctx, name);
    return 0;
}

static void post_list_files(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    tn_autobuf struct tn_buf body = TN_BUF_INIT(1 << 20), json = TN_BUF_INIT(64 << 20);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&json);
    struct tn_error err;

    if (tn_http_read_all(x, &body, &err) < 0) {
        tn_http_reply_error(x, &err);
        return;
    }
    if (tn_json_parse(tn_buf_str(&body), body.len, &tree, &err) < 0) {
        tn_http_reply_detail(x, 500, "An unexpected error occurred. Please try again later.");
        return;
    }
    tn_jw_array(&w);
    tn_file_list(tn_slice(tn_json_get_str(tree, "path", NULL)), hand->options.working_dir,
                 tn_deadline_in(LIST_SECONDS), add_name, &w, NULL);
    tn_jw_array_end(&w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route tn_routes_transfer[] = {
    {"POST", "/upload_file", post_upload_file, "stores a file, or unpacks an archive", 0},
    {"GET", "/download_files", get_download_files, "a directory as a zip archive", 0},
    {"POST", "/list_files", post_list_files, "names in a directory", 0},
    {0},
};
