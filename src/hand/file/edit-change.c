#include "hand/file/edit-impl.h"
#include "hand/file/replace.h"

/* Line numbers told when old_str is not unique; a list longer than that helps nobody. */
#define MAX_LINES_TOLD 1000

int edit_create(struct edit *x)
{
    tn_autodocument struct document before, after;

    document_init(&before);
    document_init(&after);
    if (!x->q->file_text.s)
        return edit_fail_missing(x, "file_text");
    tn_buf_add(&after.decoded, x->q->file_text.s, x->q->file_text.n);
    struct tn_error err = {0};
    if (document_compose(&after, &before, &err))
        return edit_fail_io(x, &err, "write to");
    if (edit_save(x, &before, &after))
        return -1;
    tn_buf_printf(&x->r->content, "File created successfully at: %s", x->path);
    return 0;
}

/* --- str_replace --------------------------------------------------------------------------- */

/* Where old is next found at or after `from`, or SIZE_MAX.  An empty one is found everywhere. */
static size_t find(struct tn_slice in, struct tn_slice old, size_t from)
{
    if (old.n == 0)
        return from <= in.n ? from : SIZE_MAX;
    const char *at = from < in.n ? memmem(in.s + from, in.n - from, old.s, old.n) : NULL;
    return at ? (size_t)(at - in.s) : SIZE_MAX;
}

/* The character after an empty match is stepped over whole. */
static size_t after_match(struct tn_slice in, struct tn_slice old, size_t at)
{
    if (old.n > 0)
        return at + old.n;
    do
        at++;
    while (at < in.n && ((unsigned char)in.s[at] & 0xc0) == 0x80);
    return at;
}

static int fail_not_unique(struct edit *x, struct tn_slice in, struct tn_slice old)
{
    struct tn_buf *out = &x->r->content;
    size_t line = 1, told = 0, last = 0, counted = 0;

    edit_fail(x, "No replacement was performed. Multiple occurrences of old_str `");
    tn_buf_add(out, old.s, old.n);
    tn_buf_puts(out, "` in lines [");
    for (size_t at = find(in, old, 0); at != SIZE_MAX;
         at = find(in, old, after_match(in, old, at))) {
        line += text_count_lf(tn_slicen(in.s + counted, at - counted));
        counted = at;
        if (line == last)
            continue;
        last = line;
        if (told++ == MAX_LINES_TOLD) {
            tn_buf_puts(out, ", ...");
            break;
        }
        tn_buf_printf(out, "%s%zu", told > 1 ? ", " : "", line);
    }
    tn_buf_puts(out, "]. Please ensure it is unique.");
    return -1;
}

static void put_snippet(struct edit *x, struct tn_slice lf, const char *what, size_t first,
                        size_t last)
{
    tn_buf_printf(&x->r->content, "The file %s has been edited. ", x->path);
    edit_view_numbered(&x->r->content, text_range_lf(lf, first, last), what, first);
}

int edit_str_replace(struct edit *x)
{
    struct tn_slice old = x->q->old_str, new = x->q->new_str;
    tn_autodocument struct document before, after;

    document_init(&before);
    document_init(&after);
    if (!old.s)
        return edit_fail_missing(x, "old_str");
    if (new.s && text_equal(old, new))
        return edit_fail_invalid(x, "new_str", new,
                                 "No replacement was performed. `new_str` and `old_str` must be "
                                 "different.");
    if (edit_load(x, &before))
        return -1;

    /* The client has never seen a CR of this file. */
    tn_autobuf struct tn_buf room = TN_BUF_INIT(old.n);
    if (text_has_cr(old) && text_add_lf(&room, old) == 0)
        old = tn_slice_of(&room);
    size_t at = find(before.lf, old, 0);
    if (at == SIZE_MAX) {
        old = text_strip(old);
        new = text_strip(new);
        at = find(before.lf, old, 0);
    }
    if (at == SIZE_MAX) {
        edit_fail(x, "No replacement was performed, old_str `");
        tn_buf_add(&x->r->content, old.s, old.n);
        tn_buf_printf(&x->r->content, "` did not appear verbatim in %s.", x->path);
        return -1;
    }
    if (find(before.lf, old, after_match(before.lf, old, at)) != SIZE_MAX)
        return fail_not_unique(x, before.lf, old);

    size_t from = text_offset_before_lf(before.text, at);
    size_t to = text_offset_before_lf(before.text, at + old.n);
    tn_buf_add(&after.decoded, before.text.s, from);
    text_add_eol(&after.decoded, new, before.eol);
    tn_buf_add(&after.decoded, before.text.s + to, before.text.n - to);
    struct tn_error err = {0};
    if (document_compose(&after, &before, &err))
        return edit_fail_io(x, &err, "write to");
    if (edit_save(x, &before, &after))
        return -1;

    size_t line = text_count_lf(tn_slicen(before.lf.s, at)) + 1;
    size_t first = line > EDIT_CONTEXT ? line - EDIT_CONTEXT + 1 : 1;
    tn_autofree char *what = tn_asprintf("a snippet of %s", x->path);
    put_snippet(x, after.lf, what, first, line + EDIT_CONTEXT + text_count_lf(new));
    tn_buf_puts(&x->r->content, "Review the changes and make sure they are as expected. Edit the "
                                "file again if necessary.");
    return 0;
}

/* --- insert -------------------------------------------------------------------------------- */

int edit_insert(struct edit *x)
{
    struct tn_slice new = x->q->new_str;
    tn_autodocument struct document before, after;

    document_init(&before);
    document_init(&after);
    if (!x->q->has_insert_line)
        return edit_fail_missing(x, "insert_line");
    if (!new.s)
        return edit_fail_missing(x, "new_str");
    if (edit_load(x, &before))
        return -1;
    size_t lines = text_lines_lf(before.lf);
    if (x->q->insert_line < 0 || (uint64_t)x->q->insert_line > lines) {
        tn_autofree char *shown = tn_asprintf("%lld", (long long)x->q->insert_line);
        return edit_fail_invalid(x, "insert_line", tn_slice(shown),
                                 "It should be within the range of allowed values: [0, %zu]",
                                 lines);
    }

    size_t after_line = (size_t)x->q->insert_line;
    struct tn_slice head = text_range_lf(before.lf, 1, after_line);
    size_t at = text_offset_before_lf(before.text, head.n);
    const char *eol = text_eol_str(before.eol);
    tn_buf_add(&after.decoded, before.text.s, at);
    if (head.n > 0 && head.s[head.n - 1] != '\n')
        tn_buf_puts(&after.decoded, eol);
    text_add_eol(&after.decoded, new, before.eol);
    tn_buf_puts(&after.decoded, eol);
    tn_buf_add(&after.decoded, before.text.s + at, before.text.n - at);
    struct tn_error err = {0};
    if (document_compose(&after, &before, &err))
        return edit_fail_io(x, &err, "write to");
    if (edit_save(x, &before, &after))
        return -1;

    size_t pieces = text_count_lf(new) + 1;
    size_t first = after_line > EDIT_CONTEXT ? after_line - EDIT_CONTEXT + 1 : 1;
    size_t last = after_line + EDIT_CONTEXT + pieces;
    put_snippet(x, after.lf, "a snippet of the edited file", first,
                last < lines + pieces ? last : lines + pieces);
    tn_buf_puts(&x->r->content,
                "Review the changes and make sure they are as expected (correct indentation, no "
                "duplicate lines, etc). Edit the file again if necessary.");
    return 0;
}

/* --- undo_edit ----------------------------------------------------------------------------- */

static int undo_create(struct edit *x)
{
    struct tn_error err = {0};

    if (file_remove(x->user, x->path, &err))
        return edit_fail_io(x, &err, "write to");
    tn_buf_printf(&x->r->content,
                  "Last edit to %s undone successfully. The file had been created by that edit and "
                  "has been removed.",
                  x->path);
    return 0;
}

int edit_undo(struct edit *x)
{
    struct edit_history *history = x->editor->history;
    tn_autodocument struct document before, after;
    struct tn_error err = {0};
    bool created = false;

    document_init(&before);
    document_init(&after);
    if (edit_load(x, &before))
        return -1;
    int found = edit_history_last(history, x->path, &created, &after.on_disk, &err);
    if (found < 0)
        return edit_fail_io(x, &err, "write to");
    if (found == 0)
        return edit_fail(x, "No edit history found for %s.", x->path);
    if (document_parse(&after, &err))
        return edit_fail_io(x, &err, "write to");

    bool remove = created && text_equal(before.bytes, after.bytes);
    if (remove) {
        document_done(&after);
        document_init(&after);
    }
    if (remove ? undo_create(x) : edit_write(x, &after))
        return -1;
    if (remove || !created)
        edit_history_drop_last(history, x->path);
    edit_tell_change(x, &before, &after);
    if (!remove) {
        tn_buf_printf(&x->r->content, "Last edit to %s undone successfully. ", x->path);
        edit_view_numbered(&x->r->content, after.lf, x->path, 1);
    }
    return 0;
}
