/* The further ids that an administrator gave an ordinary user: /etc/subuid and /etc/subgid, put in
 * place by the set-uid programs newuidmap and newgidmap. */
#include <sys/wait.h>

#include "base/account.h"
#include "base/child.h"
#include "base/fs.h"
#include "jail/jail.h"

enum { SUBIDS_MAX = 1 << 20 };

struct range {
    unsigned first, count;
};

/* The first line NAME:FIRST:COUNT (or UID:...) of the user. */
static int find_range(const char *file, const char *name, uid_t uid, struct range *out,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SUBIDS_MAX);
    char number[16];

    snprintf(number, sizeof number, "%u", uid);
    if (tn_fs_read(TN_FS_ANYWHERE, file, &text, err) < 0)
        return -1;
    for (const char *line = tn_buf_str(&text); *line;) {
        size_t n = strcspn(line, ":\n");
        if (((name && strlen(name) == n && strncmp(line, name, n) == 0) ||
             (strlen(number) == n && strncmp(line, number, n) == 0)) &&
            sscanf(line + n, ":%u:%u", &out->first, &out->count) == 2 && out->count > 0)
            return 0;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return tn_fail(err, TN_E_NOT_FOUND, "%s has no range for user %s", file, name ? name : number);
}

/* Root inside is the caller, the rest follows from 1 on. */
static int run(const char *program, pid_t child, unsigned own, const struct range *range,
               struct tn_error *err)
{
    char pid[16], self[16], first[16], count[16];
    const char *const argv[] = {program, pid, "0", self, "1", "1", first, count, NULL};
    struct tn_exit result;

    snprintf(pid, sizeof pid, "%d", (int)child);
    snprintf(self, sizeof self, "%u", own);
    snprintf(first, sizeof first, "%u", range->first);
    snprintf(count, sizeof count, "%u",
             range->count < JAIL_IDS - 1 ? range->count : (unsigned)JAIL_IDS - 1);
    struct tn_child_spec spec = {.argv = argv};
    tn_autochild struct tn_child *handle = tn_child_start(&spec, err);
    if (!handle || tn_child_wait(handle, tn_deadline_in(10), &result, err) < 0)
        return -1;
    if (tn_exit_code(&result) != 0)
        return tn_fail(err, TN_E_DENIED, "%s refused the range %s+%s (exit code %d)", program,
                       first, count, tn_exit_code(&result));
    return 0;
}

int jail_map_subids(struct jail *j, pid_t child, struct tn_error *err)
{
    tn_autouser struct tn_user user = {0};
    struct range uids, gids;

    tn_user_by_uid(TN_FS_ANYWHERE, j->caller_uid, &user, NULL);
    if (find_range("/etc/subuid", user.name, j->caller_uid, &uids, err) < 0 ||
        find_range("/etc/subgid", user.name, j->caller_uid, &gids, err) < 0 ||
        run("newuidmap", child, j->caller_uid, &uids, err) < 0 ||
        run("newgidmap", child, j->caller_gid, &gids, err) < 0)
        return tn_error_context(err, "mapping 'subids'");
    return 0;
}
