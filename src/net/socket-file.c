#include "net/socket-file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/guard.h"

/* One part of a path, never through a link: openat2 could do no more. */
static int open_last(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    tn_autofree char *above = slash ? tn_strndup(path, (size_t)(slash - path) + 1) : tn_strdup(".");
    tn_autofd int dir = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return dir < 0 ? -1 : openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

int net_socket_file(const char *path, struct tn_error *err)
{
    tn_autofd int file = open_last(path);
    struct stat st;

    if (file < 0 || fstat(file, &st) < 0)
        return tn_fail_errno(err, errno, "connect to unix:%s", path);
    if (!S_ISSOCK(st.st_mode))
        return tn_fail(err, TN_E_DENIED, "connect to unix:%s: expected a socket, found %s", path,
                       tn_fs_kind(st.st_mode));
    return TN_TAKE_FD(file);
}

struct sockaddr_un net_socket_file_address(int file)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d", file);
    return a;
}
