/* Which way this machine would take: its own addresses are no way out. */
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "gate/gate.h"
#include "gate/netlink.h"

enum route route_of(int socket, const struct tn_address *a)
{
    tn_autonetlink struct tn_netlink n;
    size_t size = a->family == AF_INET ? 4 : 16;
    const struct rtmsg ask = {.rtm_family = (uint8_t)a->family, .rtm_dst_len = (uint8_t)(8 * size)};
    _Alignas(struct nlmsghdr) char answer[TN_NETLINK_ANSWER];

    tn_netlink_init(&n);
    tn_netlink_begin(&n, RTM_GETROUTE, 0, &ask, sizeof ask);
    tn_netlink_add(&n, RTA_DST, a->bytes, size);
    tn_netlink_end(&n);
    const struct rtmsg *route = tn_netlink_ask(socket, &n, RTM_NEWROUTE, sizeof *route, answer);
    return !route                           ? ROUTE_NONE
           : route->rtm_type == RTN_UNICAST ? ROUTE_OUT
           : route->rtm_type == RTN_LOCAL   ? ROUTE_HERE
                                            : ROUTE_NONE;
}
