/* What was moved out of the way: removed while the jail runs already. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "base/fs.h"
#include "jail/criu.h"

static void remove_trash(int directory)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, TN_JAIL_TRASH, strlen(TN_JAIL_TRASH)) == 0)
            tn_fs_remove_tree(fd, e->d_name, 0, NULL);
}

static bool has_trash(int directory)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;

    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        found = strncmp(e->d_name, TN_JAIL_TRASH, strlen(TN_JAIL_TRASH)) == 0;
    if (dir)
        closedir(dir);
    return found;
}

/* By a grandchild, which nobody has to bury.  What is left of it when that is killed goes with the
 * next start, or with the sandbox. */
void jail_clear_trash(const struct jail *j)
{
    renameat(j->directory, TN_JAIL_SUSPENDING, j->directory, TN_JAIL_TRASH TN_JAIL_SUSPENDING);
    if (!has_trash(j->directory))
        return;
    pid_t pid = fork();
    if (pid == 0) {
        tn_close(j->listener); /* who asks a dead keeper must see that it is */
        if (fork() == 0)
            remove_trash(j->directory);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
