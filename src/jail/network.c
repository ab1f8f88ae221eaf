/* The network of a jail that has none: a namespace with a loopback interface. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "jail/jail.h"
#include "jail/message.h"
#include "jail/sys.h"

#define MAKE_SECONDS 30.0
enum { ONLY_FD = 3 }; /* that the maker keeps */

static int raise_loopback(struct tn_error *err)
{
    struct ifreq request = {.ifr_name = "lo"};
    tn_autofd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
        return tn_fail_errno(err, errno, "loopback interface");
    request.ifr_flags |= IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return tn_fail_errno(err, errno, "loopback interface: up");
    return 0;
}

static void write_setting(const char *path, const char *text)
{
    tn_autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        return; /* a comfort that an old kernel does not have */
}

int jail_make_network(const struct jail *j, struct tn_error *err)
{
    if (j->plan.network != TN_JAIL_NET_NONE)
        return 0;
    if (unshare(CLONE_NEWNET) < 0)
        return tn_fail_errno(err, errno, "network namespace");
    /* A network that root made is not that of root inside, who could not even listen on port 80. */
    if (j->privileged) {
        write_setting("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
        write_setting("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
    }
    return raise_loopback(err);
}

/* --- one made in advance ---------------------------------------------------------------------
 */

bool jail_gets_network(const struct jail *j)
{
    return j->privileged && j->plan.network == TN_JAIL_NET_NONE;
}

/* In a process of its own, which ends with it. */
static _Noreturn void make_and_pass_on(const struct jail *j, int socket)
{
    struct jail_message message = {.kind = JAIL_NETWORK};
    int fd = -1;

    /* Above all not the socket of the parcel: who waits at its other end would not hear of our
     * parent's end. */
    if (dup2(socket, ONLY_FD) < 0 || close_range(ONLY_FD + 1, ~0U, 0) < 0)
        _exit(1);
    if (jail_make_network(j, &message.error) == 0 &&
        (fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) < 0)
        tn_fail_errno(&message.error, errno, "/proc/self/ns/net");
    if (fd < 0)
        message.kind = JAIL_FAILED;
    _exit(jail_send(ONLY_FD, &message, fd, NULL) < 0);
}

int jail_begin_network(struct jail *j, struct tn_error *err)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    int pair[2];

    if (j->network >= 0 || j->network_maker >= 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return tn_fail_errno(err, errno, "socket pair");
    pid_t pid = sys_clone3(&args);
    if (pid == 0)
        make_and_pass_on(j, pair[1]);
    int maker = pid < 0 ? -1 : fcntl(pair[0], F_DUPFD_CLOEXEC, JAIL_FD_HIGH);
    int sys = errno;
    close(pair[1]);
    close(pair[0]);
    if (pid > 0)
        jail_bury_later(pid);
    j->network_maker = maker; /* -1: the next one who asks begins anew */
    return maker < 0 ? tn_fail_errno(err, sys, "network namespace") : 0;
}

int jail_take_network(struct jail *j, struct tn_error *err)
{
    struct jail_message message;
    int fd;

    if (j->network >= 0)
        return 0;
    tn_autofd int maker = TN_TAKE_FD(j->network_maker);
    int r = jail_receive(maker, &message, &fd, tn_deadline_in(MAKE_SECONDS), err);
    if (r < 0)
        return -1;
    if (r == 0)
        return tn_fail(err, TN_E_INTERNAL, "who makes the network namespace ended without a word");
    j->network = fd;
    if (message.kind == JAIL_NETWORK)
        return fd < 0 ? tn_fail(err, TN_E_INTERNAL, "the network namespace did not come along") : 0;
    if (err)
        *err = message.error;
    return -1;
}
