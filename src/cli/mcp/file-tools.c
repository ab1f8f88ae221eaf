/* Tools for the files of a sandbox. */
#include "base/clock.h"
#include "base/utf8.h"
#include "cli/mcp/mcp.h"
#include "runtime/hand-files.h"

#define PATH_HELP "absolute, or relative to the directory the main shell is in"

struct read_arguments {
    char *sandbox;
    char *path;
    struct tn_opt_int offset, limit;
};

static const struct tn_field read_rows[] = {
    TOOL_SANDBOX(struct read_arguments),
    TN_STRING("path", struct read_arguments, path, .flags = TN_FIELD_REQUIRED, .help = PATH_HELP),
    TN_OPT_INT("offset", struct read_arguments, offset, .min = 1, .max = 1e9,
               .help = "first line to read, counted from 1; default: 1"),
    TN_OPT_INT("limit", struct read_arguments, limit, .min = 1, .max = 1e9,
               .help = "how many lines at most; default: as many as fit"),
};
static const struct tn_fields read_fields = TN_FIELDS(read_rows);

/* A run of lines of a text; counted from 1, last is in it. */
struct lines {
    size_t first, last, total;
    const char *at;
    size_t len;
};

static size_t line_length(const char *text, size_t n)
{
    const char *lf = memchr(text, '\n', n);

    return lf ? (size_t)(lf - text) + 1 : n;
}

/* From line `offset` on at most `limit` lines, and no more than a model gets to see; one line that
 * is longer than that comes alone. */
static struct lines choose_lines(const struct tn_buf *text, size_t offset, size_t limit)
{
    const char *s = tn_buf_str(text);
    struct lines l = {.first = offset, .last = offset - 1, .at = s};
    size_t chars = 0;
    bool full = false;

    for (size_t i = 0, n; i < text->len; i += n) {
        n = line_length(s + i, text->len - i);
        if (++l.total < offset || full)
            continue;
        chars += tn_utf8_length(s + i, n);
        full = l.len && (chars > TN_CONTENT_LIMIT || l.last - l.first + 1 >= limit);
        if (full)
            continue;
        if (!l.len)
            l.at = s + i;
        l.len += n;
        l.last++;
    }
    return l;
}

static int put_lines(struct tool_call *c, const struct read_arguments *a, const struct tn_buf *text,
                     struct tn_error *err)
{
    size_t offset = a->offset.set ? (size_t)a->offset.value : 1;
    size_t limit = a->limit.set ? (size_t)a->limit.value : SIZE_MAX;
    struct lines l = choose_lines(text, offset, limit);

    if (l.total < offset && offset > 1)
        return tn_fail(err, TN_E_INVALID, "%s has only %zu lines", a->path, l.total);
    put_output(c, l.at, l.len);
    if (l.first == 1 && l.last == l.total)
        return 0;
    tn_autobuf struct tn_buf note = TN_BUF_INIT(256);
    tn_buf_printf(&note, "[Lines %zu to %zu of %zu.", l.first, l.last, l.total);
    if (l.last < l.total)
        tn_buf_printf(&note, " Go on with offset %zu.", l.last + 1);
    tn_buf_putc(&note, ']');
    put_text(c, tn_buf_str(&note), note.len);
    return 0;
}

/* What a client can show, by its first bytes. */
static const char *picture_type(const struct tn_buf *bytes)
{
    static const struct {
        const char *magic;
        size_t n;
        const char *type;
    } kinds[] = {
        {"\x89PNG\r\n", 6, "image/png"},
        {"\xff\xd8\xff", 3, "image/jpeg"},
        {"GIF8", 4, "image/gif"},
    };

    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        if (bytes->len > kinds[i].n && memcmp(bytes->data, kinds[i].magic, kinds[i].n) == 0)
            return kinds[i].type;
    }
    return NULL;
}

/* A file or a directory that is read as an action: what was found, or why not. */
struct reading {
    struct tn_sandbox *sb;
    struct tn_buf bytes;
    int failed;
    struct tn_error err;
};

/* What the journal has of it: text as it is, of other bytes their number. */
static void make_reading(const struct reading *r, const struct tn_action *action,
                         struct tn_observation *o)
{
    if (r->failed) {
        tn_observation_init_error(o, action, "%s", r->err.text);
        return;
    }
    tn_observation_init(o, TN_OBSERVATION_READ);
    o->read.path = tn_strdup(action->read.path);
    tn_autofree char *size = tn_asprintf("[%zu bytes that are no text]", r->bytes.len);
    tn_observation_set_content(o, mcp_is_text(&r->bytes) ? tn_buf_str(&r->bytes) : size);
}

static void read_bytes(void *ctx, const struct tn_action *action, struct tn_observation *o)
{
    struct reading *r = ctx;

    r->failed = mcp_fetch(r->sb, action->read.path, &r->bytes, &r->err);
    make_reading(r, action, o);
}

/* Reads it with fn, as the action that it is: 0 with its bytes, 1 when the call is answered (it was
 * not read, and the observation says why), -1. */
static int read_as_action(struct tool_call *c, const char *sandbox, const char *path,
                          tn_perform_fn fn, struct reading *r, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = mcp_sandbox(c->client, sandbox, err);
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;

    tn_action_init(&action, TN_ACTION_READ);
    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (!sb || !(action.read.path = mcp_absolute(sb, path, err)))
        return -1;
    r->sb = sb;
    int result = mcp_perform(c, sandbox, &action, fn, r, &o, err);
    r->sb = NULL;
    if (result < 0)
        return -1;
    if (r->failed) {
        *err = r->err;
        return -1;
    }
    if (o.type == TN_OBSERVATION_READ)
        return 0;
    c->failed = true;
    put_output(c, o.content.data ? o.content.data : "", o.content.len);
    return 1;
}

static int put_file(struct tool_call *c, const struct read_arguments *a, const struct tn_buf *bytes,
                    struct tn_error *err)
{
    const char *picture = picture_type(bytes);

    if (picture)
        put_image_bytes(c, picture, bytes);
    else if (mcp_is_text(bytes))
        return put_lines(c, a, bytes, err);
    else
        return tn_fail(err, TN_E_INVALID, "%s is neither text nor a picture: use the shell",
                       a->path);
    return 0;
}

static int call_read(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct read_arguments *a = given;
    struct reading r = {.bytes = TN_BUF_INIT(MCP_FILE_MAX + 1)};

    int result = read_as_action(c, a->sandbox, a->path, read_bytes, &r, err);
    if (result == 0)
        result = put_file(c, a, &r.bytes, err);
    tn_buf_done(&r.bytes);
    return result < 0 ? -1 : 0;
}

struct write_arguments {
    char *sandbox;
    char *path;
    struct tn_text content;
};

static const struct tn_field write_rows[] = {
    TOOL_SANDBOX(struct write_arguments),
    TN_STRING("path", struct write_arguments, path, .flags = TN_FIELD_REQUIRED, .help = PATH_HELP),
    TN_TEXT("content", struct write_arguments, content, .flags = TN_FIELD_REQUIRED,
            .help = "all of the new file"),
};
static const struct tn_fields write_fields = TN_FIELDS(write_rows);

struct writing {
    struct tn_sandbox *sb;
    int failed;
    struct tn_error err;
};

static void write_bytes(void *ctx, const struct tn_action *action, struct tn_observation *o)
{
    struct writing *w = ctx;
    const struct tn_text *content = &action->write.content;

    w->failed = mcp_store(w->sb, action->write.path, content->data, content->len, &w->err);
    if (w->failed) {
        tn_observation_init_error(o, action, "%s", w->err.text);
        return;
    }
    tn_observation_init(o, TN_OBSERVATION_WRITE);
    o->write.path = tn_strdup(action->write.path);
}

static int call_write(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct write_arguments *a = given;
    tn_autosandbox struct tn_sandbox *sb = mcp_sandbox(c->client, a->sandbox, err);
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;
    struct writing w = {.sb = sb};

    tn_action_init(&action, TN_ACTION_WRITE);
    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (!sb || !(action.write.path = mcp_absolute(sb, a->path, err)))
        return -1;
    action.write.content =
        (struct tn_text){.data = tn_strndup(a->content.data ? a->content.data : "", a->content.len),
                         .len = a->content.len};
    if (mcp_perform(c, a->sandbox, &action, write_bytes, &w, &o, err) < 0)
        return -1;
    if (w.failed) {
        *err = w.err;
        return -1;
    }
    if (o.type != TN_OBSERVATION_WRITE) {
        c->failed = true;
        put_output(c, o.content.data ? o.content.data : "", o.content.len);
        return 0;
    }
    tn_autofree char *text = tn_asprintf("wrote %zu bytes to %s", a->content.len, a->path);
    put_text(c, text, strlen(text));
    return 0;
}

#define UNDO "undo"
static const char *const edit_commands[] = {"view", "create", "str_replace", "insert", UNDO, NULL};

struct edit_arguments {
    char *sandbox;
    char *command, *path;
    struct tn_text file_text, old_str, new_str;
    struct tn_opt_int insert_line;
    struct tn_int_list view_range;
};

static const struct tn_field edit_rows[] = {
    TOOL_SANDBOX(struct edit_arguments),
    TN_STRING("command", struct edit_arguments, command, .flags = TN_FIELD_REQUIRED,
              .words = edit_commands,
              .help =
                  "view: show with line numbers; create: a new file; str_replace: replace text; "
                  "insert: add lines; undo: undo the last edit of this file"),
    TN_STRING("path", struct edit_arguments, path, .flags = TN_FIELD_REQUIRED,
              .help = "a file, or a directory to view; " PATH_HELP),
    TN_TEXT("file_text", struct edit_arguments, file_text, .flags = TN_FIELD_NULLABLE,
            .help = "create: all of the new file"),
    TN_TEXT("old_str", struct edit_arguments, old_str, .flags = TN_FIELD_NULLABLE,
            .help = "str_replace: text of the file that occurs exactly once"),
    TN_TEXT("new_str", struct edit_arguments, new_str, .flags = TN_FIELD_NULLABLE,
            .help = "str_replace: the text to put in its place; insert: the lines to add"),
    TN_OPT_INT("insert_line", struct edit_arguments, insert_line, .flags = TN_FIELD_NULLABLE,
               .help = "insert: after this line; 0: before the first"),
    TN_INTS("view_range", struct edit_arguments, view_range, .flags = TN_FIELD_NULLABLE,
            .help = "view: first and last line, counted from 1; last -1: to the end"),
};
static const struct tn_fields edit_fields = TN_FIELDS(edit_rows);

/* How the editor begins when it did not do it; what it shows of a file begins otherwise. */
#define EDITOR_FAILED "ERROR:"

/* Executes it and shows what it says. */
static int show(struct tool_call *c, const char *sandbox, const struct tn_action *action,
                struct tn_error *err)
{
    tn_autoobservation struct tn_observation o;

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (mcp_execute(c, sandbox, action, &o, err) < 0)
        return -1;
    const char *content = o.content.data ? o.content.data : "";
    c->failed = o.type == TN_OBSERVATION_ERROR ||
                strncmp(content, EDITOR_FAILED, strlen(EDITOR_FAILED)) == 0;
    put_output(c, content, o.content.len);
    return 0;
}

static void put_text_member(struct tn_jw *w, const char *key, const struct tn_text *text)
{
    tn_jw_key(w, key);
    text->data ? tn_jw_strn(w, text->data, text->len) : tn_jw_null(w);
}

/* A view is a read of the editor, everything else an edit; both have the same words. */
static void put_edit_action(const struct edit_arguments *a, const char *path, struct tn_jw *w)
{
    bool view = strcmp(a->command, "view") == 0;

    tn_jw_object(w);
    tn_jw_kstr(w, "action", view ? "read" : "edit");
    tn_jw_kdouble(w, "timeout", 60);
    tn_jw_key(w, "args");
    tn_jw_object(w);
    tn_jw_kstr(w, "path", path);
    tn_jw_kstr(w, "impl_source", "oh_aci");
    if (view && a->view_range.items) {
        tn_jw_key(w, "view_range");
        tn_jw_array(w);
        for (size_t i = 0; i < a->view_range.count; i++)
            tn_jw_int(w, a->view_range.items[i]);
        tn_jw_array_end(w);
    }
    if (!view) {
        tn_jw_kstr(w, "command", strcmp(a->command, UNDO) == 0 ? "undo_edit" : a->command);
        put_text_member(w, "file_text", &a->file_text);
        put_text_member(w, "old_str", &a->old_str);
        put_text_member(w, "new_str", &a->new_str);
        if (a->insert_line.set)
            tn_jw_kint(w, "insert_line", a->insert_line.value);
    }
    tn_jw_object_end(w);
    tn_jw_object_end(w);
}

static int call_edit(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct edit_arguments *a = given;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 20);
    tn_autojson struct tn_json *tree = NULL;
    tn_autoaction struct tn_action action;
    struct tn_jw w = tn_jw(&json);

    tn_action_init(&action, TN_ACTION_NULL);
    tn_autosandbox struct tn_sandbox *sb = mcp_sandbox(c->client, a->sandbox, err);
    tn_autofree char *path = sb ? mcp_absolute(sb, a->path, err) : NULL;
    if (!path)
        return -1;
    put_edit_action(a, path, &w);
    if (tn_json_parse(tn_buf_str(&json), json.len, &tree, err) < 0)
        return -1;
    tn_action_done(&action);
    if (tn_action_from_json(tree, &action, err) < 0) {
        tn_action_init(&action, TN_ACTION_NULL);
        return -1;
    }
    return show(c, a->sandbox, &action, err);
}

struct list_arguments {
    char *sandbox;
    char *path;
};

static const struct tn_field list_rows[] = {
    TOOL_SANDBOX(struct list_arguments),
    TN_STRING("path", struct list_arguments, path, .fallback = ".",
              .help = "a directory, " PATH_HELP "; default: that one"),
};
static const struct tn_fields list_fields = TN_FIELDS(list_rows);

static int put_entry(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    static const char *const marks[] = {[TN_ENTRY_FILE] = "",
                                        [TN_ENTRY_DIRECTORY] = "/",
                                        [TN_ENTRY_SYMLINK] = " -> ",
                                        [TN_ENTRY_OTHER] = " (special)"};

    if (tn_buf_printf(ctx, "%10lld  %s%s%s\n", (long long)e->size, e->name, marks[e->type],
                      e->type == TN_ENTRY_SYMLINK && e->target ? e->target : "") < 0)
        return tn_fail(err, TN_E_TOO_LARGE, "too many entries: use the shell");
    return 0;
}

static int list_into(struct tn_sandbox *sb, const char *path, struct tn_buf *out,
                     struct tn_error *err)
{
    const char *address, *key;

    if (tn_sandbox_address(sb, &address, &key, tn_deadline_in(30), err) < 0)
        return -1;
    tn_autofiles struct tn_hand_files *files = tn_hand_files_new(address, key, err);
    return files ? tn_hand_files_list(files, path, put_entry, out, tn_deadline_in(60), err) : -1;
}

static void read_entries(void *ctx, const struct tn_action *action, struct tn_observation *o)
{
    struct reading *r = ctx;

    r->failed = list_into(r->sb, action->read.path, &r->bytes, &r->err);
    make_reading(r, action, o);
}

static int call_list(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct list_arguments *a = given;
    struct reading r = {.bytes = TN_BUF_INIT(1 << 20)};

    int result = read_as_action(c, a->sandbox, a->path, read_entries, &r, err);
    if (result == 0)
        put_output(c, tn_buf_str(&r.bytes), r.bytes.len);
    tn_buf_done(&r.bytes);
    return result < 0 ? -1 : 0;
}

const struct tool file_tools[] = {
    {
        .name = "read_file",
        .title = "Read a file",
        .description = "Reads a text file in the sandbox, or shows a picture. A long file comes in "
                       "parts: the result says with which offset to go on.",
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .arguments = &read_fields,
        .size = sizeof(struct read_arguments),
        .call = call_read,
    },
    {
        .name = "write_file",
        .title = "Write a file",
        .description = "Writes a whole file in the sandbox; directories that are missing are made.",
        .hints = TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
        .arguments = &write_fields,
        .size = sizeof(struct write_arguments),
        .call = call_write,
    },
    {
        .name = "edit_file",
        .title = "Edit a file",
        .description = "Views a file with line numbers, creates it, replaces text in it, inserts "
                       "lines, or undoes the last edit.",
        .hints = TOOL_DESTRUCTIVE,
        .arguments = &edit_fields,
        .size = sizeof(struct edit_arguments),
        .call = call_edit,
    },
    {
        .name = "list_files",
        .title = "List a directory",
        .description = "Lists a directory of the sandbox: size in bytes and name of each entry.",
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .arguments = &list_fields,
        .size = sizeof(struct list_arguments),
        .call = call_list,
    },
    {0},
};
