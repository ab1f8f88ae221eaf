"""Ways out of a sandbox: each is shown to work where nothing is in its way, and to fail behind the gate."""

import re

import outside
import pytest
from gate_world import MACHINE, MACHINE_PRIVATE

# Says what it got, or "no" and why.
CLIENT = """
import socket, ssl, struct, sys, os
socket.setdefaulttimeout(8)
def tcp(address, port, text=None, read=True):
    s = socket.create_connection((address, port))
    if text: s.sendall(text)
    data = s.recv(4096) if read else b""
    if not data: raise OSError("closed")
    return data
def http(address, host, path="/", method="GET", port=80):
    data = tcp(address, port, f"{method} {path} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
    if not data.startswith(b"HTTP/1.1 200"): raise OSError(data)
    return data
def both(address, first, second):
    s, data = socket.create_connection((address, 80)), b""
    for host in (first, second):
        s.sendall(f"GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
        data, rest = b"", 1
        while rest > 0:
            more = s.recv(4096)
            if not more: raise OSError("closed")
            data += more
            head, _, body = data.partition(b"\\r\\n\\r\\n")
            size = head.lower().partition(b"content-length:")[2].split()
            rest = int(size[0]) - len(body) if size and b"\\r\\n\\r\\n" in data else 1
    if not data.startswith(b"HTTP/1.1 200"): raise OSError(data)
    return data
def tls(address, name, **options):
    context = ssl._create_unverified_context()
    for key, value in options.items(): setattr(context, key, value)
    with context.wrap_socket(socket.create_connection((address, 443)), server_hostname=name) as s:
        s.sendall(b"x")
        data = s.recv(100)
    if not data: raise OSError("closed")
    return data
def ech(address, name):
    sent, context = ssl.MemoryBIO(), ssl._create_unverified_context()
    try: context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError: pass
    hello = sent.read()
    at = 5 + 4 + 2 + 32  # behind the record, the message, the version and the random bytes
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 1 + hello[at]
    body = struct.pack(">BHHBH32sH144s", 0, 1, 1, 7, 32, os.urandom(32), 144, os.urandom(144))
    more = hello[at + 2 :] + struct.pack(">HH", 0xFE0D, len(body)) + body
    message = hello[9:at] + struct.pack(">H", len(more)) + more
    message = hello[5:6] + len(message).to_bytes(3, "big") + message
    data = tcp(address, 443, hello[:3] + struct.pack(">H", len(message)) + message)
    if data[0] != 22: raise OSError(data)
    return data
def udp(address, port, text=b"abc"):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(3)
    s.connect((address, port))
    s.send(text)
    return s.recv(65536)
def name(host, family=0):
    return socket.getaddrinfo(host, 80, family)[0][4][0]
"""


def attempt(box, code):
    """What the expression gives inside; None when it fails."""
    body = f"{CLIENT}\ntry: print('yes', repr({code}))\nexcept (OSError, ValueError) as e: print('no', repr(e))"
    text = box.python(body)
    assert text.startswith(("yes", "no")), text
    return text[4:] if text.startswith("yes") else None


# What goes out, and what it shows on an open network.
WAYS = {
    "a name without a rule": "http(name('evil.test'), 'evil.test')",
    "an address": f"http('{outside.EVIL}', 'good.test')",
    "an address of IPv6": f"http('{outside.EVIL6}', 'good.test')",
    "an address of IPv4 written as IPv6": f"http('::ffff:{outside.EVIL}', 'good.test')",
    "another name on the server of an allowed one": "http(name('one.cdn.test'), 'two.cdn.test')",
    "TLS for another name on that server": "tls(name('one.cdn.test'), 'two.cdn.test')",
    "TLS without a name": "tls(name('good.test'), None, check_hostname=False)",
    "TLS with an encrypted hello": "ech(name('good.test'), 'good.test')",
    "an allowed name for another address": f"tls('{outside.EVIL}', 'good.test')",
    "a second request for another host": "both(name('one.cdn.test'), 'one.cdn.test', 'two.cdn.test')",
    "CONNECT": "http(name('good.test'), 'good.test', 'evil.test:443', 'CONNECT')",
    "a request for a proxy": "http(name('good.test'), 'good.test', 'http://evil.test/')",
    "a path without a rule": "http(name('www.good.test'), 'www.good.test', '/secret')",
    "a path around a rule": "http(name('www.good.test'), 'www.good.test', '/ok/../secret')",
    "a method without a rule": "http(name('www.good.test'), 'www.good.test', '/ok/x', 'POST')",
    "a port without a rule": "http(name('good.test'), 'good.test:8080', port=8080)",
    "neither TLS nor HTTP on port 80": "http(name('good.test'), 'good.test\\r\\nx', method='get')",
    "a datagram": f"udp('{outside.EVIL}', 9)",
    "a datagram of IPv6": f"udp('{outside.EVIL6}', 9)",
    "a datagram to another port of an allowed host": "udp(name('good.test'), 53)",
    "somebody else's nameserver": (
        f"udp('{outside.NAMES}', 53, bytes.fromhex('000101000001000000000000046576696c04746573740000010001'))"
        f".index(socket.inet_aton('{outside.EVIL}'))"
    ),
}
NOT_OPEN = {"a datagram to another port of an allowed host", "neither TLS nor HTTP on port 80"}


@pytest.mark.parametrize("way", WAYS)
def test_out(boxes, way):
    if way not in NOT_OPEN:
        assert attempt(boxes["host"], WAYS[way]) is not None
        assert attempt(boxes["default"], WAYS[way]) is not None
        assert attempt(boxes["open"], WAYS[way]) is not None
    assert attempt(boxes["allow"], WAYS[way]) is None


# The host and its neighbours: reached by a sandbox that has the host's network, and by no other.
NEAR = {
    "the host's public address": f"http('{MACHINE}', 'x', port=8000)",
    "its private address": f"http('{MACHINE_PRIVATE}', 'x', port=8000)",
    "its loopback": "http('127.0.0.1', 'x', port=8000)",
    "a private network": f"http('{outside.PRIVATE}', 'x')",
    "a private network, by name": "http(name('private.test'), 'private.test')",
    "a private network, by an alias": "http(name('alias.test'), 'alias.test')",
    "a private network, wrapped in IPv6": "http(name('mapped.test'), 'mapped.test')",
    "the metadata of a cloud": f"http('{outside.METADATA}', 'x')",
    "the metadata of a cloud, by name": "http(name('metadata.test'), 'metadata.test')",
    "a carrier's network": f"http('{outside.CARRIER}', 'x')",
    "a datagram to a private network": f"udp('{outside.PRIVATE}', 9)",
}


@pytest.mark.parametrize("way", NEAR)
def test_near(boxes, way):
    assert attempt(boxes["host"], NEAR[way]) is not None
    assert attempt(boxes["default"], NEAR[way]) is None
    assert attempt(boxes["open"], NEAR[way]) is None
    assert attempt(boxes["allow"], NEAR[way]) is None


ALLOWED = {
    "HTTP": "http(name('good.test'), 'good.test', '/any')",
    "TLS": "tls(name('good.test'), 'good.test')",
    "IPv6": "http(name('six.test'), 'six.test')",
    "TLS over IPv6": "tls(name('six.test'), 'six.test')",
    "one name of two on a server": "tls(name('one.cdn.test'), 'one.cdn.test')",
    "a server that speaks first": "tcp(name('good.test'), 7)",
    "an allowed path": "http(name('www.good.test'), 'www.good.test', '/ok/x')",
    "a name that leads to another": "http(name('chain.test'), 'chain.test')",
    "what is public of a mixed answer": f"'{outside.GOOD}' if name('mixed.test') == '{outside.GOOD}' else tcp('127.0.0.1', 1)",
    "datagrams that a rule names": "udp(name('good.test', socket.AF_INET), 9, b'abc' * 10000)[:6].index(b'ABC')",
}


@pytest.mark.parametrize("way", ALLOWED)
def test_allowed(boxes, way):
    assert attempt(boxes["open"], ALLOWED[way]) is not None
    assert attempt(boxes["allow"], ALLOWED[way]) is not None


def test_a_name_that_changes(boxes, user):
    """The first answer is public, the next private: the address that is connected to is what counts."""
    free = f"rebind-of-host-{user}.test"
    assert attempt(boxes["host"], f"name('{free}')") == repr(outside.GOOD)
    assert attempt(boxes["host"], f"http(name('{free}'), '{free}')") is not None  # a private server answered
    name = f"rebind-{user}.test"
    assert attempt(boxes["allow"], f"name('{name}')") == repr(outside.GOOD)
    assert attempt(boxes["allow"], f"name('{name}')") is None
    assert attempt(boxes["allow"], f"http('{outside.PRIVATE}', '{name}')") is None
    assert attempt(boxes["allow"], f"http('{outside.GOOD}', '{name}')") is not None


def test_a_name_of_its_own_hosts_file(boxes):
    change = f"printf '{outside.EVIL} good.test\\n{outside.PRIVATE} one.cdn.test\\n' >> /etc/hosts"
    for kind in ("host", "open", "allow"):
        boxes[kind].sh(f"cp /etc/hosts /tmp/hosts && {change}", check=True)
    try:
        assert attempt(boxes["host"], "http(name('good.test', socket.AF_INET), 'good.test')") is not None
        assert attempt(boxes["allow"], "http(name('good.test', socket.AF_INET), 'good.test')") is None
        assert attempt(boxes["allow"], "tls(name('good.test', socket.AF_INET), 'good.test')") is None
        assert attempt(boxes["open"], "http(name('one.cdn.test', socket.AF_INET), 'one.cdn.test')") is None
    finally:
        for kind in ("host", "open", "allow"):
            boxes[kind].sh("cat /tmp/hosts > /etc/hosts", check=True)


def test_names_are_no_tunnel(world, boxes):
    """What is asked for a name without a rule never leaves the machine."""
    since = len(world.internet.lines())
    assert attempt(boxes["open"], "name('secret.evil.test')") is None
    assert attempt(boxes["allow"], "name('secret2.evil.test')") is None
    said = "\n".join(world.internet.lines()[since:])
    assert "secret.evil.test" in said and "secret2" not in said


def test_icmp(boxes, user):
    ping = """
import socket
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    s.settimeout(2)
    s.sendto(bytes.fromhex('0800f7ff00000000'), ('%s', 0)); s.recv(100); print('yes')
except OSError as e: print('no')
"""
    for kind in ("open", "allow"):
        assert boxes[kind].python(ping % outside.GOOD) == "no"
        if not user:  # an ordinary user's jail has no such sockets
            assert boxes[kind].python(ping % "127.0.0.1") == "yes"


def test_abstract_sockets_and_other_sandboxes(world, boxes, user):
    listen = "import signal,socket\ns=socket.socket(socket.AF_UNIX); s.bind('\\0tendon-gate-test'); s.listen()\n"
    other = world.box("open", user=user)
    other.python(
        "import os,sys\nif os.fork(): sys.exit()\nos.setsid()\n" + listen + "t=socket.socket(); t.bind(('0.0.0.0', 4444))\n"
        "t.listen()\nfor fd in (0, 1, 2): os.close(fd)\nsignal.pause()"
    )
    connect = "(lambda s: s.connect('\\0tendon-gate-test') or 1)(socket.socket(socket.AF_UNIX))"
    assert attempt(other, connect) is not None
    assert attempt(other, "(lambda s: 1)(socket.create_connection(('127.0.0.1', 4444)))") is not None
    for kind in ("default", "open", "allow"):
        assert attempt(boxes[kind], connect) is None
        assert attempt(boxes[kind], "tcp('127.0.0.1', 4444)") is None
        assert attempt(boxes[kind], "tcp('192.0.0.2', 4444)") is None
        assert attempt(boxes[kind], "tcp('192.0.0.1', 65535)") is None


def test_own_loopback(boxes):
    """What is between two processes of one sandbox passes no gate."""
    code = """
import socket
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET, '127.0.0.53'), (socket.AF_INET6, '::1')):
    s = socket.socket(family); s.bind((address, 0)); s.listen()
    c = socket.create_connection(s.getsockname()[:2]); a, _ = s.accept(); a.sendall(b'x'); assert c.recv(1) == b'x'
print('fine')
"""
    for kind in ("open", "allow"):
        assert boxes[kind].python(code) == "fine"


def test_rules_cannot_be_taken_away(boxes):
    """Whoever could would only be alone; but nobody can."""
    code = """
import socket, os
def tried(f):
    try: f(); return 'yes'
    except OSError as e: return 'no'
def transparent():
    s = socket.socket(); s.setsockopt(socket.SOL_IP, 19, 1)
def nft():
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
print(tried(nft), os.system('ip link set lo down 2>/dev/null') and 'no', os.system('ip route flush table local 2>/dev/null') and 'no')
"""
    for kind in ("open", "allow"):
        assert boxes[kind].python(code) == "no no no"


def test_refusals_are_told(boxes):
    box = boxes["allow"]
    attempt(box, "http(name('evil.test'), 'evil.test')")
    attempt(box, f"http('{outside.EVIL}', 'x')")
    attempt(box, "tls(name('good.test'), None, check_hostname=False)")
    attempt(box, "ech(name('good.test'), 'good.test')")
    told = box.network()
    assert told["network"] == "allow" and told["refused"] > 2
    said = {f"{r['what']}: {r['why']}" for r in told["refusals"]}
    assert "the name evil.test: no rule" in said
    assert f"{outside.EVIL}:80: no rule for this address, and no allowed name has it" in said
    assert any(re.match(r"[a-z0-9-]+\.test:443: TLS without a server name", s) for s in said), said
    assert any("TLS with an encrypted client hello (ECH)" in s for s in said), said



def test_refusals_are_in_the_observation(boxes):
    said = boxes["allow"].sh("curl -sS -m 5 http://evil.test/")
    assert said.returncode == 6
    assert "[The sandbox reports: " not in said.stdout  # where an observation has it depends on its kind
    said = boxes["allow"].world.tendon(
        "exec", "--json", boxes["allow"].id, "--", "curl -sS -m 5 http://refused-just-now.test/", user=boxes["allow"].user, check=False
    )
    assert "the network refused the name refused-just-now.test: no rule" in said.stdout
