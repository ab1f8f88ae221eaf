/* The editor behind the `edit` action: view, create, str_replace, insert, undo_edit.
 *
 * Texts are UTF-8 with LF in requests and answers whatever the file holds: its encoding, byte order
 * mark, line endings, mode and owner stay as they are.  Files are replaced in one step where the
 * user's rights allow it.  `create` makes missing parents.  Undoing a create removes the file; when
 * it has been changed since by others, the first undo only brings back what was created. */
#ifndef TN_HAND_FILE_EDIT_H
#define TN_HAND_FILE_EDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "hand/file/path.h"
#include "hand/file/text.h"

struct tn_editor;

struct tn_editor_options {
    const char *history_dir;    /* made, emptied and removed by the editor; its parent must exist */
    const char *workspace_root; /* for the hint about relative paths; may be NULL */
};

struct tn_editor *tn_editor_new(const struct tn_editor_options *options, struct tn_error *err);
void tn_editor_free(struct tn_editor *e);

enum tn_edit_range {
    TN_VIEW_ALL,
    TN_VIEW_RANGE,
    TN_VIEW_BAD_RANGE, /* given, but not two integers */
};

/* A member whose s is NULL was not given (null). */
struct tn_edit_request {
    struct tn_slice command;
    struct tn_slice path;
    struct tn_slice file_text;
    struct tn_slice old_str;
    struct tn_slice new_str;
    bool has_insert_line;
    int64_t insert_line;
    struct tn_slice bad_insert_line; /* given, but no integer: what it was */
    enum tn_edit_range view;
    int64_t first_line, last_line;    /* of TN_VIEW_RANGE */
    struct tn_slice view_range_shown; /* the value as Python writes it, of TN_VIEW_BAD_RANGE */
    int64_t deadline;                 /* for listings, and for waiting on other edits */
};

struct tn_edit_result {
    bool failed;
    struct tn_buf content; /* of the observation; "ERROR:\n..." when failed */
    struct tn_buf diff;    /* empty for views and failures */
    bool prev_exist;       /* there was a file before */
    struct tn_buf before;  /* its text, LF */
    struct tn_buf after;   /* and what it is now */
};

void tn_edit_result_init(struct tn_edit_result *r);
void tn_edit_result_done(struct tn_edit_result *r);

/* Runs one command with the rights of user.  Whatever happens is told in the result.  Edits of one
 * editor run one after the other; views do not wait. */
void tn_edit(struct tn_editor *e, const struct tn_file_user *user,
             const struct tn_edit_request *request, struct tn_edit_result *result);

#endif
