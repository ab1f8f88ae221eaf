/* The view command. */
#include "hand/file/binary.h"
#include "hand/file/edit-impl.h"
#include "hand/file/office.h"

static int fail_range(struct edit *x, const char *fmt, ...) TN_PRINTF(2, 3);

static int fail_range(struct edit *x, const char *fmt, ...)
{
    const struct tn_edit_request *q = x->q;
    tn_autobuf struct tn_buf why = TN_BUF_INIT(512);
    char shown[64];
    va_list ap;

    va_start(ap, fmt);
    tn_buf_vprintf(&why, fmt, ap);
    va_end(ap);
    snprintf(shown, sizeof shown, "[%lld, %lld]", (long long)q->first_line,
             (long long)q->last_line);
    return edit_fail_invalid(x, "view_range",
                             q->view == TN_VIEW_RANGE ? tn_slice(shown) : q->view_range_shown, "%s",
                             tn_buf_str(&why));
}

static int view_directory(struct edit *x)
{
    struct tn_error err = {0};
    tn_autoact struct tn_act_as as = {0};

    if (x->q->view != TN_VIEW_ALL)
        return fail_range(
            x, "The `view_range` parameter is not allowed when `path` points to a directory.");
    if (tn_file_act_as(&as, x->user, &err) ||
        edit_view_directory(&x->r->content, x->path, x->q->deadline, &err))
        return edit_fail_io(x, &err, "read");
    return 0;
}

static int view_range(struct edit *x, struct tn_slice lf)
{
    int64_t lines = (int64_t)text_lines_lf(lf);
    int64_t first = x->q->first_line, last = x->q->last_line;

    if (first < 1 || first > lines)
        return fail_range(x,
                          "Its first element `%lld` should be within the range of lines of the "
                          "file: [1, %lld].",
                          (long long)first, (long long)lines);
    if (last > lines)
        tn_buf_printf(&x->r->content,
                      "NOTE: We only show up to %lld since there're only %lld lines in this "
                      "file.\n",
                      (long long)lines, (long long)lines);
    if (last == -1 || last > lines)
        last = lines;
    if (last < first)
        return fail_range(x,
                          "Its second element `%lld` should be greater than or equal to the first "
                          "element `%lld`.",
                          (long long)last, (long long)first);
    struct tn_slice part = text_range_lf(lf, (size_t)first, (size_t)last);
    if (part.n > 0 && part.s[part.n - 1] == '\n')
        part.n--;
    edit_view_numbered(&x->r->content, part, x->path, (size_t)first);
    return 0;
}

static int view_document(struct edit *x, const struct document *d)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1u << 20);
    struct tn_error err = {0};

    if (office_text(binary_document(x->path), tn_slice_of(&d->on_disk), &text, &err))
        return edit_fail_io(x, &err, "read");
    edit_view_markdown(&x->r->content, tn_slice_of(&text), x->path);
    return 0;
}

int edit_view(struct edit *x)
{
    tn_autodocument struct document d;

    document_init(&d);
    x->r->prev_exist = true;
    if (S_ISDIR(x->st.st_mode))
        return view_directory(x);
    if (edit_load(x, &d))
        return -1;
    if (binary_document(x->path))
        return view_document(x, &d);
    if (x->q->view == TN_VIEW_BAD_RANGE)
        return fail_range(x, "It should be a list of two integers.");
    if (x->q->view == TN_VIEW_RANGE)
        return view_range(x, d.lf);
    edit_view_numbered(&x->r->content, d.lf, x->path, 1);
    return 0;
}
