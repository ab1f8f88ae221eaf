/* Users and groups, read from the files themselves (a static program has no name service), and
 * acting as one of them.
 *
 * `root` is a directory that has etc/passwd and etc/group - an image, say - or TN_FS_ANYWHERE for
 * this system.  Lines that make no sense are skipped, as everybody does; of two with one name the
 * first counts. */
#ifndef TN_BASE_ACCOUNT_H
#define TN_BASE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/fs.h"

struct tn_user {
    char *name;
    uid_t uid;
    gid_t gid;
    char *home;  /* "/" when the file names none */
    char *shell; /* "/bin/sh" when the file names none */
};

/* All return 0 or -1, TN_E_NOT_FOUND when there is no such entry.  tn_user_done frees a filled
 * user. */
int tn_user_by_name(int root, const char *name, struct tn_user *out, struct tn_error *err);
int tn_user_by_uid(int root, uid_t uid, struct tn_user *out, struct tn_error *err);
void tn_user_done(struct tn_user *user);
#define tn_autouser TN_CLEANUP(tn_user_done)

int tn_group_by_name(int root, const char *name, gid_t *gid, struct tn_error *err);
/* The caller frees *name. */
int tn_group_by_gid(int root, gid_t gid, char **name, struct tn_error *err);
/* The primary group and every group that lists the user, each once.  The caller frees *groups. */
int tn_user_groups(int root, const struct tn_user *user, gid_t **groups, size_t *count,
                   struct tn_error *err);

/* Makes file operations of the calling thread, and of no other, happen as somebody else:
 * permissions are checked for that user and new files belong to it.  Does nothing when this process
 * is not root, or that user is root.  Begin and end in the same thread; they do not nest. */
struct tn_act_as {
    bool active;
    gid_t gid; /* what to return to */
    gid_t *groups;
    size_t group_count;
};
int tn_act_as_begin(struct tn_act_as *guard, uid_t uid, gid_t gid, const gid_t *groups,
                    size_t count, struct tn_error *err);
/* Does nothing after a begin that did nothing or failed.  Aborts when it cannot return: the thread
 * must not go on as the wrong user. */
void tn_act_as_end(struct tn_act_as *guard);
#define tn_autoact TN_CLEANUP(tn_act_as_end)

#endif
