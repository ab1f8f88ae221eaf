"""pod_wall.py ROOT: what leaves a network like a pod's for which ROOT/tendon-gate has laid its rules; in an empty network namespace, as
root. Prints one line of JSON: {"before", "after": [[what, how often it left]], "answers": [...]}."""

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys

WORLD, POD = ("10.9.0.1", "2001:db8::1"), ("10.9.0.2", "2001:db8::2")
SANDBOX = 1000
FREEBIND = {socket.AF_INET: (socket.SOL_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}
SYN_ACK = 0x12


def run(*words):
    subprocess.run(words, check=True, timeout=30)


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def bound(kind, address, port, free=False):
    """A socket there; free: whoever has the address."""
    s = socket.socket(family_of(address), kind)
    s.settimeout(5)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection of before may still be ending
    if free:
        s.setsockopt(*FREEBIND[s.family], 1)
    s.bind((address, port))
    return s


def plain(world, pod):
    bound(socket.SOCK_DGRAM, pod, 7000).sendto(b"plain", (world, 5300))


def turned(world, pod):
    """A datagram over lo that says it came from outside, and the answer to it."""
    with contextlib.suppress(OSError):  # IPv4 does not send such a thing
        bound(socket.SOCK_DGRAM, world, 5301, free=True).sendto(b"x", (pod, 7001))
    bound(socket.SOCK_DGRAM, pod, 7001).sendto(b"turned", (world, 5301))


def called(world, pod):
    """The same with a connection, to a server inside."""
    server = bound(socket.SOCK_STREAM, pod, 7002)
    server.listen()
    client = bound(socket.SOCK_STREAM, world, 4443, free=True)
    client.setblocking(False)
    with contextlib.suppress(OSError):
        client.connect((pod, 7002))


def by_lo(to, pod):
    """A datagram of a socket that knows lo alone, as the gate's answers are sent."""
    with bound(socket.SOCK_DGRAM, pod, 7004) as receiver, socket.socket(family_of(to), socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        with contextlib.suppress(OSError):
            sender.sendto(b"by lo", (to, 7004))
        receiver.settimeout(5 if to == pod else 0.2)
        with contextlib.suppress(TimeoutError):
            return receiver.recv(16)


def as_sandbox(work):
    """In the pod, as the sandbox's user."""
    child = os.fork()
    if child == 0:
        try:
            enter_pod()
            os.setresgid(SANDBOX, SANDBOX, SANDBOX)
            os.setresuid(SANDBOX, SANDBOX, SANDBOX)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def enter_pod():
    assert ctypes.CDLL(None).setns(os.open(f"/proc/{pod_holder.pid}/ns/net", os.O_RDONLY), 0) == 0


def left(wire):
    """What came along the wire from the pod since the last look: (protocol, its words or flags)."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            packet, about = wire.recvfrom(65536, socket.MSG_DONTWAIT)
            if about[2] == socket.PACKET_OUTGOING or packet[0] >> 4 not in (4, 6):
                continue
            start = (packet[0] & 15) * 4 if packet[0] >> 4 == 4 else 40
            protocol = packet[9] if packet[0] >> 4 == 4 else packet[6]
            if protocol == socket.IPPROTO_UDP:
                found.append(packet[start + 8 :].decode(errors="replace"))
            elif protocol == socket.IPPROTO_TCP and packet[start + 13] & SYN_ACK == SYN_ACK:
                found.append("syn+ack")
    return found


def attempts(wire):
    result = []
    for world, pod in zip(WORLD, POD):
        for way in (plain, turned, called, by_lo):
            as_sandbox(lambda: way(world, pod))
            result.append([way.__name__, pod, len(left(wire))])
    return result


def answers(wire):
    """To who comes in: a server of the sandbox is reached."""
    result = []
    for pod in POD:
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                enter_pod()
                server = bound(socket.SOCK_STREAM, pod, 7003)
                server.listen()
                os.write(tell, b"x")
                server.accept()[0].sendall(b"served")
            finally:
                os._exit(0)
        os.close(tell)
        assert os.read(ready, 1)
        with socket.create_connection((pod, 7003), timeout=10) as s:
            result.append(s.recv(16).decode())
        os.waitpid(child, 0)
    left(wire)
    return result


pod_holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
pod_holder.stdout.readline()
run("ip", "link", "add", "w0", "type", "veth", "peer", "name", "eth0", "netns", str(pod_holder.pid))
inside = ["nsenter", "-t", str(pod_holder.pid), "-n"]
for where, link, addresses in (([], "w0", WORLD), (inside, "eth0", POD)):
    for name in (link, "lo"):
        run(*where, "ip", "link", "set", name, "up")
    run(*where, "ip", "address", "add", f"{addresses[0]}/24", "dev", link)
    run(*where, "ip", "address", "add", f"{addresses[1]}/64", "dev", link, "nodad")
wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
wire.bind(("w0", 3))
answers(wire)  # neighbours know each other now
report = {"before": attempts(wire)}
wall = subprocess.run([*inside, "chroot", sys.argv[1], "/tendon-gate", "--pod-wall", "/tendon-gate", "--pod-ready"], capture_output=True, text=True)
assert wall.stderr == "the gate: /state: No such file or directory\n", wall.stderr  # of what runs after it: there is no keeper
report |= {"after": attempts(wire), "answers": answers(wire)}


def check_lo():
    for pod in POD:
        assert by_lo(pod, pod) == b"by lo", pod


as_sandbox(check_lo)
print(json.dumps(report))
pod_holder.communicate(b"")
