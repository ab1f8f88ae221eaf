/* The sandbox user: who the shell runs as and files belong to. */
#ifndef TN_HAND_USER_H
#define TN_HAND_USER_H

#include "base/account.h"
#include "hand/options.h"

struct tn_agent_user {
    struct tn_user account;
    gid_t *groups;
    size_t group_count;
    bool switch_user; /* we are root and it is somebody else */
    bool as_started;  /* we are that user already: nothing is set up for it, HOME stays */
};

/* Finds the user or, as root, creates it; then makes the working directory and gives it to the
 * user.  As an ordinary user: that user, whatever the options say. */
int tn_agent_user_set_up(const struct tn_hand_options *options, struct tn_agent_user *user,
                         struct tn_error *err);

void tn_agent_user_done(struct tn_agent_user *user);

/* Whether PATH has that program. */
bool tn_agent_has(const char *program);
/* The shell to use: sh where bash is wanted and there is none.  Borrowed. */
const char *tn_agent_shell(const char *wanted);

/* Environment of the user's processes: ours without secrets, with HOME, USER, SHELL, LOGNAME and
 * TERM set, and TENDON_HAND=id, by which a later start finds what a killed server left behind.
 * NULL-terminated; the caller frees it with tn_agent_env_free. */
char **tn_agent_env(const struct tn_agent_user *user, const char *shell, const char *id);
void tn_agent_env_free(char **env);

#endif
