#include "hand/file-actions.h"

#include "base/clock.h"
#include "hand/file/confine.h"
#include "hand/file/edit.h"
#include "hand/file/read.h"
#include "hand/file/write.h"

enum { ANSWER_MAX = 32 << 20 };
#define LIST_SECONDS 10.0

static struct tn_slice slice_of(const struct tn_text *t)
{
    return (struct tn_slice){.s = t->data, .n = t->len};
}

struct tn_file_user tn_hand_file_user(const struct tn_hand *hand)
{
    const struct tn_agent_user *user = &hand->user;
    return (struct tn_file_user){
        .uid = user->account.uid,
        .gid = user->account.gid,
        .groups = user->groups,
        .group_count = user->group_count,
        .journal = tn_state_journal(hand->state),
    };
}

static double action_seconds(const struct tn_action *a)
{
    return a->timeout.set && a->timeout.value > 0 ? a->timeout.value : LIST_SECONDS;
}

/* The answer of read and write: an error observation, or one of the given type. */
static void observe(const struct tn_action *a, enum tn_observation_type type,
                    struct tn_file_answer *answer, struct tn_observation *o)
{
    if (answer->failed) {
        tn_observation_init_error(o, a, "%s", tn_buf_str(&answer->text));
        return;
    }
    tn_observation_init(o, type);
    char **path = type == TN_OBSERVATION_READ ? &o->read.path : &o->write.path;
    free(*path);
    *path = TN_TAKE_PTR(answer->path);
    tn_observation_take_content(o, &answer->text);
}

static void do_read(struct tn_hand *hand, const char *cwd, const struct tn_action *a,
                    struct tn_observation *o)
{
    tn_autofileanswer struct tn_file_answer answer = TN_FILE_ANSWER_INIT(ANSWER_MAX);
    struct tn_file_user user = tn_hand_file_user(hand);
    struct tn_read_request request = {
        .path = tn_slice(a->read.path),
        .cwd = cwd,
        .start = a->read.start,
        .end = a->read.end,
    };

    tn_file_read(&user, &request, &answer);
    observe(a, TN_OBSERVATION_READ, &answer, o);
}

static void do_write(struct tn_hand *hand, const char *cwd, const struct tn_action *a,
                     struct tn_observation *o)
{
    tn_autofileanswer struct tn_file_answer answer = TN_FILE_ANSWER_INIT(1 << 20);
    struct tn_file_user user = tn_hand_file_user(hand);
    struct tn_write_request request = {
        .path = tn_slice(a->write.path),
        .cwd = cwd,
        .content = slice_of(&a->write.content),
        .start = a->write.start,
        .end = a->write.end,
    };

    tn_file_write(&user, &request, &answer);
    observe(a, TN_OBSERVATION_WRITE, &answer, o);
}

/* --- the editor ----------------------------------------------------------------------------- */

/* An integer, or a string that is one; anything else is shown in the error. */
static void set_insert_line(struct tn_edit_request *request, const struct tn_json *value,
                            struct tn_buf *shown)
{
    const char *text = tn_json_str(value, NULL);
    char *end = NULL;

    if (!value)
        return;
    if (tn_json_type(value) == TN_JSON_INT) {
        request->insert_line = tn_json_int(value, 0);
        request->has_insert_line = true;
        return;
    }
    if (text && *text) {
        errno = 0;
        request->insert_line = strtoll(text, &end, 10);
        request->has_insert_line = !*end && !errno;
    }
    if (request->has_insert_line)
        return;
    if (text) {
        tn_buf_puts(shown, text);
    } else {
        struct tn_jw w = tn_jw(shown);
        tn_jw_tree(&w, value);
    }
    request->bad_insert_line = tn_slice(tn_buf_str(shown));
}

/* A value as Python shows it, as far as a list of plain values goes. */
static void put_python(struct tn_buf *out, const struct tn_json *value)
{
    struct tn_jw w = tn_jw(out);

    if (tn_json_type(value) != TN_JSON_ARRAY) {
        const char *text = tn_json_str(value, NULL);
        text ? (void)tn_buf_printf(out, "'%s'", text) : tn_jw_tree(&w, value);
        return;
    }
    tn_buf_putc(out, '[');
    for (size_t i = 0; i < tn_json_count(value); i++) {
        if (i)
            tn_buf_puts(out, ", ");
        put_python(out, tn_json_at(value, i));
    }
    tn_buf_putc(out, ']');
}

static void do_edit(struct tn_hand *hand, const char *cwd, const struct tn_action *a,
                    struct tn_observation *o)
{
    const struct tn_edit_action *edit = &a->edit;
    tn_autobuf struct tn_buf shown = TN_BUF_INIT(1 << 20);
    struct tn_file_user user = tn_hand_file_user(hand);
    struct tn_edit_result result;
    struct tn_edit_request request = {
        .command = tn_slice(edit->command),
        .path = tn_slice(edit->path),
        .file_text = slice_of(&edit->file_text),
        .old_str = slice_of(&edit->old_str),
        .new_str = slice_of(&edit->new_str),
        .deadline = tn_deadline_in(action_seconds(a)),
    };

    set_insert_line(&request, edit->insert_line, &shown);
    tn_edit_result_init(&result);
    tn_edit(hand->editor, &user, &request, &result);
    tn_observation_init(o, TN_OBSERVATION_EDIT);
    free(o->edit.path);
    o->edit.path = tn_strdup(edit->path);
    if (edit->old_str.data)
        o->edit.old_content = (struct tn_text){tn_strdup(edit->old_str.data), edit->old_str.len};
    if (edit->new_str.data)
        o->edit.new_content = (struct tn_text){tn_strdup(edit->new_str.data), edit->new_str.len};
    free(o->edit.diff);
    o->edit.diff = tn_buf_take(&result.diff);
    tn_observation_take_content(o, &result.content);
    tn_edit_result_done(&result);
}

/* `read` through the editor: its view, also its errors, as a read observation. */
static void do_view(struct tn_hand *hand, const char *cwd, const struct tn_action *a,
                    struct tn_observation *o)
{
    tn_autobuf struct tn_buf shown = TN_BUF_INIT(1 << 20);
    struct tn_file_user user = tn_hand_file_user(hand);
    struct tn_edit_result result;
    struct tn_edit_request request = {
        .command = tn_slice("view"),
        .path = tn_slice(a->read.path),
        .deadline = tn_deadline_in(action_seconds(a)),
    };

    switch (tn_view_range(a->read.view_range, &request.first_line, &request.last_line)) {
    case 1:
        request.view = TN_VIEW_RANGE;
        break;
    case 0:
        request.view = TN_VIEW_ALL;
        break;
    default:
        put_python(&shown, a->read.view_range);
        request.view = TN_VIEW_BAD_RANGE;
        request.view_range_shown = tn_slice(tn_buf_str(&shown));
    }
    tn_edit_result_init(&result);
    tn_edit(hand->editor, &user, &request, &result);
    tn_observation_init(o, TN_OBSERVATION_READ);
    free(o->read.path);
    o->read.path = tn_strdup(a->read.path);
    o->read.impl_source = TN_READ_EDITOR;
    tn_observation_take_content(o, &result.content);
    tn_edit_result_done(&result);
}

/* The member of the action that names the file. */
static char **path_of(struct tn_action *a)
{
    return a->type == TN_ACTION_WRITE  ? &a->write.path
           : a->type == TN_ACTION_EDIT ? &a->edit.path
                                       : &a->read.path;
}

static void execute(struct tn_hand *hand, const char *cwd, const struct tn_action *a,
                    struct tn_observation *o)
{
    if (a->type == TN_ACTION_WRITE)
        do_write(hand, cwd, a, o);
    else if (a->type == TN_ACTION_EDIT)
        do_edit(hand, cwd, a, o);
    else if (a->read.impl_source == TN_READ_EDITOR)
        do_view(hand, cwd, a, o);
    else
        do_read(hand, cwd, a, o);
}

void tn_file_execute(struct tn_hand *hand, const char *cwd, const struct tn_action *a,
                     struct tn_observation *o)
{
    struct tn_action inside = *a; /* borrows everything but its path */
    struct tn_error err = {0};

    if (!tn_confined()) {
        execute(hand, cwd, a, o);
        return;
    }
    tn_autofree char *path = tn_confined_path(*path_of(&inside), &err);
    if (!path) {
        tn_observation_init_error(o, a, "%s", err.text);
        return;
    }
    *path_of(&inside) = path;
    execute(hand, cwd, &inside, o);
}
