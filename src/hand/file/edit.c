#include "hand/file/edit.h"

#include "base/clock.h"
#include "base/thread.h"
#include "hand/file/binary.h"
#include "hand/file/confine.h"
#include "hand/file/diff.h"
#include "hand/file/edit-impl.h"
#include "hand/file/replace.h"

/* Larger than the largest file, because an edit may echo the request. */
#define MAX_ANSWER (64u << 20)

static const struct {
    const char *name;
    edit_command_fn run;
    bool writes;
} commands[] = {
    {.name = "view", .run = edit_view},
    {.name = "create", .run = edit_create, .writes = true},
    {.name = "str_replace", .run = edit_str_replace, .writes = true},
    {.name = "insert", .run = edit_insert, .writes = true},
    {.name = "undo_edit", .run = edit_undo, .writes = true},
};

struct tn_editor *tn_editor_new(const struct tn_editor_options *options, struct tn_error *err)
{
    struct edit_history *history = edit_history_new(options->history_dir, err);
    if (!history)
        return NULL;
    struct tn_editor *e = tn_calloc(1, sizeof *e);
    tn_cond_init(&e->free);
    pthread_mutex_init(&e->lock, NULL);
    e->history = history;
    e->workspace_root = tn_strdup_or_null(options->workspace_root);
    return e;
}

void tn_editor_free(struct tn_editor *e)
{
    if (!e)
        return;
    edit_history_free(e->history);
    pthread_cond_destroy(&e->free);
    pthread_mutex_destroy(&e->lock);
    free(e->workspace_root);
    free(e);
}

void tn_edit_result_init(struct tn_edit_result *r)
{
    *r = (struct tn_edit_result){.content = TN_BUF_INIT(MAX_ANSWER),
                                 .diff = TN_BUF_INIT(MAX_ANSWER),
                                 .before = TN_BUF_INIT(MAX_ANSWER),
                                 .after = TN_BUF_INIT(MAX_ANSWER)};
}

void tn_edit_result_done(struct tn_edit_result *r)
{
    tn_buf_done(&r->content);
    tn_buf_done(&r->diff);
    tn_buf_done(&r->before);
    tn_buf_done(&r->after);
}

/* --- failures ------------------------------------------------------------------------------ */

static void start_failure(struct edit *x)
{
    x->r->failed = true;
    tn_buf_reset(&x->r->content);
    tn_buf_reset(&x->r->diff);
    tn_buf_reset(&x->r->before);
    tn_buf_reset(&x->r->after);
    tn_buf_puts(&x->r->content, "ERROR:\n");
}

int edit_fail(struct edit *x, const char *fmt, ...)
{
    va_list ap;

    start_failure(x);
    va_start(ap, fmt);
    tn_buf_vprintf(&x->r->content, fmt, ap);
    va_end(ap);
    return -1;
}

int edit_fail_invalid(struct edit *x, const char *param, struct tn_slice value, const char *fmt,
                      ...)
{
    struct tn_buf *out = &x->r->content;
    va_list ap;

    start_failure(x);
    tn_buf_printf(out, "Invalid `%s` parameter: ", param);
    tn_buf_add(out, value.s, value.n);
    tn_buf_puts(out, ". ");
    va_start(ap, fmt);
    tn_buf_vprintf(out, fmt, ap);
    va_end(ap);
    return -1;
}

int edit_fail_missing(struct edit *x, const char *param)
{
    return edit_fail(x, "Parameter `%s` is required for command: %.*s.", param,
                     (int)x->q->command.n, x->q->command.s);
}

int edit_fail_io(struct edit *x, const struct tn_error *err, const char *doing)
{
    tn_autofree char *python = err->sys ? tn_file_os_error(err->sys, x->path) : NULL;
    return edit_fail(x, "Ran into %s while trying to %s %s", python ? python : err->text, doing,
                     x->path);
}

/* --- files --------------------------------------------------------------------------------- */

int edit_load(struct edit *x, struct document *d)
{
    const size_t max = (size_t)EDIT_MAX_MB << 20;
    tn_autoact struct tn_act_as as = {0};
    struct tn_error err = {0};
    struct stat st;

    tn_autofd int fd = -1;
    if (tn_file_act_as(&as, x->user, &err) == 0)
        fd = tn_file_open(x->path, &st, &err);
    if (fd < 0)
        return edit_fail_io(x, &err, "read");
    if (!S_ISREG(st.st_mode)) {
        tn_fail(&err, TN_E_INVALID, "something that is not a regular file");
        return edit_fail_io(x, &err, "read");
    }
    if ((uint64_t)st.st_size > max)
        return edit_fail(x,
                         "File validation failed for %s: File is too large (%.1fMB). Maximum "
                         "allowed size is %dMB.",
                         x->path, (double)st.st_size / 1024 / 1024, EDIT_MAX_MB);
    if (tn_fs_read_fd(fd, &d->on_disk, &err))
        return edit_fail_io(x, &err, "read");
    if (binary_file(x->path, tn_slice_of(&d->on_disk)) && !binary_document(x->path))
        return edit_fail(x,
                         "File validation failed for %s: File appears to be binary and this file "
                         "type cannot be read or edited by this tool.",
                         x->path);
    if (!binary_document(x->path) && document_parse(d, &err))
        return edit_fail_io(x, &err, "read");
    return 0;
}

int edit_write(struct edit *x, const struct document *d)
{
    struct tn_error err = {0};

    if (file_replace(x->user, x->path, d->bytes, 0644, &err))
        return edit_fail_io(x, &err, "write to");
    return 0;
}

void edit_tell_change(struct edit *x, const struct document *before, const struct document *after)
{
    struct tn_edit_result *r = x->r;
    tn_autofree char *given = tn_strndup(x->q->path.s, x->q->path.n);

    r->prev_exist = x->exists;
    tn_buf_add(&r->before, before->lf.s, before->lf.n);
    tn_buf_add(&r->after, after->lf.s, after->lf.n);
    if (diff_unified(&r->diff, given, before->lf, after->lf))
        tn_buf_reset(&r->diff);
}

int edit_save(struct edit *x, const struct document *before, const struct document *after)
{
    if (edit_write(x, after))
        return -1;
    /* A failure to remember is no failure to edit; the history then has no entry for the file. */
    edit_history_push(x->editor->history, x->path, !x->exists,
                      x->exists ? before->bytes : after->bytes, NULL);
    edit_tell_change(x, before, after);
    return 0;
}

/* --- checks before any command ------------------------------------------------------------- */

/* What is at the path, with the user's rights: 0, or the errno value. */
static int look_at(const struct tn_file_user *user, const char *path, struct stat *st)
{
    tn_autoact struct tn_act_as as = {0};
    struct tn_error err = {0};

    if (tn_file_act_as(&as, user, NULL))
        return EPERM;
    if (tn_where_stat(path, st, &err) == 0)
        return 0;
    return err.sys ? err.sys : EACCES;
}

static int fail_relative(struct edit *x)
{
    const char *root = x->editor->workspace_root;
    tn_autofree char *meant = root ? tn_path_resolve(x->q->path, root, NULL) : NULL;
    struct stat st;

    if (!meant || look_at(x->user, meant, &st))
        return edit_fail_invalid(x, "path", tn_slice(x->path),
                                 "The path should be an absolute path, starting with `/`.");
    return edit_fail_invalid(x, "path", tn_slice(x->path),
                             "The path should be an absolute path, starting with `/`. Maybe you "
                             "meant %s?",
                             meant);
}

static int check_path(struct edit *x)
{
    struct tn_slice path = tn_slice(x->path);
    bool create = text_equal(x->q->command, tn_slice("create"));
    bool view = text_equal(x->q->command, tn_slice("view"));

    if (x->path[0] != '/')
        return fail_relative(x);
    int sys = look_at(x->user, x->path, &x->st);
    if (sys && sys != ENOENT && sys != ENOTDIR && sys != ELOOP) {
        struct tn_error err;
        tn_fail_errno(&err, sys, "%s", x->path);
        return edit_fail_io(x, &err, "read");
    }
    x->exists = sys == 0;
    if (create && x->exists)
        return edit_fail_invalid(x, "path", path,
                                 "File already exists at: %s. Cannot overwrite files using command "
                                 "`create`.",
                                 x->path);
    if (!create && !x->exists)
        return edit_fail_invalid(
            x, "path", path, "The path %s does not exist. Please provide a valid path.", x->path);
    if (!view && x->exists && S_ISDIR(x->st.st_mode))
        return edit_fail_invalid(x, "path", path,
                                 "The path %s is a directory and only the `view` command can be "
                                 "used on directories.",
                                 x->path);
    const char *extension = binary_document(x->path);
    if (!view && extension)
        return edit_fail_invalid(x, "path", path,
                                 "The path %s points to a binary file (%s) and only the `view` "
                                 "command can be used on supported binary files.",
                                 x->path, extension);
    return 0;
}

static int unknown_command(struct edit *x)
{
    struct tn_buf *out = &x->r->content;

    start_failure(x);
    tn_buf_puts(out, "Unrecognized command ");
    tn_buf_add(out, x->q->command.s, x->q->command.n);
    tn_buf_puts(out, ". The allowed commands for the oh_editor tool are: ");
    for (size_t i = 0; i < TN_COUNT(commands); i++)
        tn_buf_printf(out, "%s%s", i ? ", " : "", commands[i].name);
    return -1;
}

static bool take_turn(struct tn_editor *e, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    int r = 0;

    pthread_mutex_lock(&e->lock);
    while (e->busy && r == 0)
        r = pthread_cond_timedwait(&e->free, &e->lock, &until);
    bool mine = !e->busy;
    e->busy = true;
    pthread_mutex_unlock(&e->lock);
    return mine;
}

static void end_turn(struct tn_editor *e)
{
    pthread_mutex_lock(&e->lock);
    e->busy = false;
    pthread_cond_signal(&e->free);
    pthread_mutex_unlock(&e->lock);
}

static int run(struct edit *x)
{
    struct tn_slice bad = x->q->bad_insert_line;
    size_t i = 0;

    if (bad.s)
        return edit_fail(x, "Invalid insert_line value: '%.*s'. Expected an integer.", (int)bad.n,
                         bad.s);
    while (i < TN_COUNT(commands) && !text_equal(x->q->command, tn_slice(commands[i].name)))
        i++;
    if (i == TN_COUNT(commands))
        return check_path(x) ? -1 : unknown_command(x);
    if (!commands[i].writes)
        return check_path(x) ? -1 : commands[i].run(x);
    if (!take_turn(x->editor, x->q->deadline))
        return edit_fail(x, "Another edit is still under way. Try again.");
    int r = check_path(x) ? -1 : commands[i].run(x);
    end_turn(x->editor);
    return r;
}

void tn_edit(struct tn_editor *e, const struct tn_file_user *user,
             const struct tn_edit_request *request, struct tn_edit_result *result)
{
    struct tn_error err = {0};
    struct edit x = {.editor = e, .user = user, .q = request, .r = result};
    tn_autofree char *path = tn_path_normal(request->path, &err);

    x.path = path;
    if (!path)
        edit_fail(&x, "%s", err.text);
    else
        run(&x);
    if (!tn_buf_ok(&result->content))
        edit_fail(&x, "The answer is too large.");
}
