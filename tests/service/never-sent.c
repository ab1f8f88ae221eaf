/* Preloaded: the process ends at the moment in which it would send a request with the idempotency
 * key "never-sent", once for each time that the file TN_TEST_NEVER_SENT is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    static const char key[] = "Idempotency-Key: never-sent";
    ssize_t (*next)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");
    const char *file = getenv("TN_TEST_NEVER_SENT");

    for (size_t i = 0; file && i < m->msg_iovlen; i++)
        if (memmem(m->msg_iov[i].iov_base, m->msg_iov[i].iov_len, key, sizeof key - 1) &&
            unlink(file) == 0)
            _exit(1);
    return next(fd, m, flags);
}
