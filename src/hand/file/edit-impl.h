/* What the files of the editor share. */
#ifndef TN_HAND_FILE_EDIT_IMPL_H
#define TN_HAND_FILE_EDIT_IMPL_H

#include <pthread.h>
#include <sys/stat.h>

#include "hand/file/document.h"
#include "hand/file/edit-history.h"
#include "hand/file/edit-view.h"
#include "hand/file/edit.h"

#define EDIT_MAX_MB 10
/* Lines shown around a change. */
#define EDIT_CONTEXT 4

struct tn_editor {
    pthread_mutex_t lock;
    pthread_cond_t free;
    bool busy; /* a command that writes is under way: one at a time, and only it uses history */
    struct edit_history *history;
    char *workspace_root;
};

/* One command under way.  Functions return 0, or -1 after edit_fail. */
struct edit {
    struct tn_editor *editor;
    const struct tn_file_user *user;
    const struct tn_edit_request *q;
    struct tn_edit_result *r;
    const char *path; /* normalised */
    struct stat st;   /* what is there, links followed */
    bool exists;
};

typedef int (*edit_command_fn)(struct edit *x);

int edit_view(struct edit *x);
int edit_create(struct edit *x);
int edit_str_replace(struct edit *x);
int edit_insert(struct edit *x);
int edit_undo(struct edit *x);

/* All return -1. */
int edit_fail(struct edit *x, const char *fmt, ...) TN_PRINTF(2, 3);
int edit_fail_invalid(struct edit *x, const char *param, struct tn_slice value, const char *fmt,
                      ...) TN_PRINTF(4, 5);
int edit_fail_missing(struct edit *x, const char *param);
int edit_fail_io(struct edit *x, const struct tn_error *err, const char *doing);

/* The file, checked for its size and for being text. */
int edit_load(struct edit *x, struct document *d);
/* Gives the file new contents. */
int edit_write(struct edit *x, const struct document *d);
/* Fills before, after and diff of the result. */
void edit_tell_change(struct edit *x, const struct document *before, const struct document *after);
/* All of that for an edit, whose old contents are remembered for undo. */
int edit_save(struct edit *x, const struct document *before, const struct document *after);

#endif
