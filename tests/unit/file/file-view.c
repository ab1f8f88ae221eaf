/* file-view PATH: what the editor's view command says about PATH. */
#include <stdio.h>

#include "base/clock.h"
#include "hand/file/edit.h"

int main(int argc, char **argv)
{
    tn_autofree char *history = tn_asprintf("/tmp/file-view-%d", (int)getpid());
    struct tn_editor_options options = {.history_dir = history};
    struct tn_file_user user = {.uid = getuid(), .gid = getgid()};
    struct tn_edit_result result;
    struct tn_error err;
    struct tn_editor *editor = argc == 2 ? tn_editor_new(&options, &err) : NULL;

    if (!editor)
        return 2;
    struct tn_edit_request request = {
        .command = tn_slice("view"), .path = tn_slice(argv[1]), .deadline = tn_deadline_in(10)};
    tn_edit_result_init(&result);
    tn_edit(editor, &user, &request, &result);
    fwrite(tn_buf_str(&result.content), 1, result.content.len, stdout);
    int failed = result.failed;
    tn_edit_result_done(&result);
    tn_editor_free(editor);
    return failed;
}
