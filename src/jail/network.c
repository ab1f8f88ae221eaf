/* The network of a jail: a namespace with a loopback interface, and a wall around it or nothing. */
#include <fcntl.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "jail/gate.h"
#include "jail/sys.h"

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
    if (j->plan.network == TN_JAIL_NET_HOST)
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

int jail_prepare_loopback(struct tn_error *err)
{
    write_setting("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0");
    write_setting("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0");
    return raise_loopback(err);
}

int jail_become_owner(int namespace, struct tn_error *err)
{
    if (geteuid() == 0)
        return 0;
    tn_autofd int owner = ioctl(namespace, NS_GET_USERNS);
    if (owner < 0 || setns(owner, CLONE_NEWUSER) < 0)
        return tn_fail_errno(err, errno, "user namespace of the container (expected this user's)");
    return 0;
}

int jail_raise_wall(struct jail *j, struct tn_error *err)
{
    if (!jail_is_gated(j))
        return 0;
    tn_wall_done(&j->gate.wall);
    struct tn_error why = {0};
    if (tn_wall_raise(&j->gate.wall, &why) == 0)
        return 0;
    if (!j->plan.gate_optional || why.code != TN_E_UNSUPPORTED) {
        *err = why;
        return -1;
    }
    jail_gate_do_without(j);
    return jail_make_network(j, err); /* another one: half a wall makes every address its own */
}

/* --- for the child of root ----------------------------------------------------------------- */

bool jail_gets_network(const struct jail *j)
{
    return j->privileged && j->plan.network != TN_JAIL_NET_HOST;
}

int jail_enter_network(struct jail *j, struct tn_error *err)
{
    if (j->left_network >= 0)
        return 0;
    tn_autofd int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0 || (j->left_network = fcntl(own, F_DUPFD_CLOEXEC, JAIL_FD_HIGH)) < 0)
        return tn_fail_errno(err, errno, "/proc/self/ns/net");
    if (jail_make_network(j, err) == 0)
        return 0;
    jail_leave_network(j, NULL);
    return -1;
}

int jail_leave_network(struct jail *j, struct tn_error *err)
{
    tn_autofd int own = TN_TAKE_FD(j->left_network);

    if (own >= 0 && setns(own, CLONE_NEWNET) < 0)
        return tn_fail_errno(err, errno, "return to the network of the host");
    return 0;
}
