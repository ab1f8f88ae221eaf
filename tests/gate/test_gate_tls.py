"""TLS that the gate ends: secrets go where they may and come back as stars, and rules about paths hold inside it.

The vault is made by the test, and the jail by its launcher: what `tendon` does before that has tests of its own."""

import base64
import json
import os
import socket
import subprocess

import pytest
from gate_world import NOBODY
from launcher import HOST_PATHS, Jail
from trees import BUILD, program

VALUE = "sk-live-0123456789abcdefghijklmnop"
HOLDER = "tnsecret_api_key_" + "5" * 32
HEADERS = ["authorization", "x-api-key"]
RULES = ["api.test", "sub.api.test", "other.test", "GET https://path.test/v1/*", "expired.test", "wrong.test", "self.test"]
BAD = ["expired.test", "wrong.test", "self.test"]

CLIENT = f"""
import base64, json, os, socket, ssl, sys, time
HOLDER = {HOLDER!r}
def tls(name, alpn=None, host=None):
    context = ssl.create_default_context()
    if alpn: context.set_alpn_protocols(alpn)
    return context.wrap_socket(socket.create_connection((host or name, 443), timeout=30), server_hostname=name)
def head(name, path="/", method="GET", *lines):
    return "\\r\\n".join([f"{{method}} {{path}} HTTP/1.1", f"Host: {{name}}", *lines, "", ""]).encode()
class Answer:
    def __init__(self, s):
        self.s, self.bytes = s, b""
    def more(self):
        part = self.s.recv(65536)
        if not part: raise OSError("closed")
        self.bytes += part
    def line(self, end=b"\\r\\n"):
        while end not in self.bytes: self.more()
        text, _, self.bytes = self.bytes.partition(end)
        return text.decode("latin1")
    def take(self, n):
        while len(self.bytes) < n: self.more()
        text, self.bytes = self.bytes[:n], self.bytes[n:]
        return text
    def read(self, bodiless=False):
        text = self.line(b"\\r\\n\\r\\n")
        status = int(text.split(" ")[1])
        if status < 200: return self.read(bodiless)
        fields = dict(line.lower().split(": ", 1) for line in text.split("\\r\\n")[1:])
        self.head, body = text, b""
        if bodiless: pass
        elif fields.get("transfer-encoding") == "chunked":
            while size := int(self.line(), 16):
                body += self.take(size)
                self.line()
            while line := self.line(): body += line.encode()
        elif "content-length" in fields: body = self.take(int(fields["content-length"]))
        else:
            try:
                while True: self.more()
            except OSError: body = self.bytes
        return status, body.decode("latin1")
def ask(name, path="/", method="GET", *lines, body=b""):
    with tls(name) as s:
        s.sendall(head(name, path, method, *lines) + body)
        return Answer(s).read(method == "HEAD")
BEARER = f"Authorization: Bearer {{HOLDER}}"
"""


@pytest.fixture(scope="module")
def authority(world):
    folder = world.base / "authority"
    folder.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
         "-keyout", folder / "key", "-out", folder / "certificate", "-subj", "/CN=Tendon sandbox test",
         "-addext", "keyUsage=critical,keyCertSign"],
        check=True, stderr=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    return {"certificate": (folder / "certificate").read_text(), "key": (folder / "key").read_text()}


class Ended:
    """Sandboxes with that authority; lines() are the requests that arrived outside since the last call."""

    def __init__(self, world, authority):
        self.world, self.authority, self.jails, self.seen = world, authority, [], 0

    def jail(self, code, user=0, network="allow", allow=RULES, secrets=None, **plan):
        secret = {"name": "API_KEY", "placeholder": HOLDER, "value": VALUE, "hosts": ["api.test", *BAD], "headers": HEADERS}
        roots = (self.world.internet.certificates / "root.pem").read_text()
        vault = {"authority": self.authority, "roots": roots, "secrets": [secret] if secrets is None else secrets}
        fd = os.memfd_create("vault")
        os.write(fd, json.dumps(vault).encode())
        jail = Jail(
            argv=["python3", "-c", CLIENT + code], user=user or None, fds=[fd], wrap=self.world.machine.words(),
            network=network, allow=list(allow), gate=str(program(BUILD, "tendon-gate")), vault_fd=fd,
            authority=self.authority["certificate"], host_paths=HOST_PATHS,
        )  # fmt: skip
        jail.plan |= {"fds": [], "hand": "/usr/bin/python3", **plan}
        jail.plan = {key: value for key, value in jail.plan.items() if value is not None}
        self.jails.append(jail)
        if user:  # nsenter is root's: the user is taken after it
            jail.wrap += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            jail.user = None
        jail.must_start()
        os.close(fd)
        return jail

    def run(self, code, **options):
        """What the code prints last, as JSON."""
        jail = self.jail(code, **options)
        end, text = jail.end(240), jail.log()
        assert end["status"] == 0, text
        return json.loads(text.splitlines()[-1])

    def arrived(self):
        lines = self.world.internet.lines()
        new, self.seen = lines[self.seen :], len(lines)
        return [json.loads(line[4:]) for line in new if line.startswith("api ")]


@pytest.fixture
def ended(world, authority):
    ended = Ended(world, authority)
    ended.arrived()
    yield ended
    for jail in ended.jails:
        jail.close()


def show(expression):
    return f"\nprint(json.dumps({expression}))"


@pytest.fixture(params=[0, NOBODY], ids=["root", "user"])
def anybody(request):
    return request.param


def test_value_is_sent_and_comes_back_as_stars(ended, anybody):
    status, body = ended.run(show("ask('api.test', '/echo', 'GET', BEARER, f'X-Other: {HOLDER}', 'Accept-Encoding: gzip')"), user=anybody)
    (request,) = ended.arrived()
    assert status == 200 and VALUE not in body and "*" * len(VALUE) in body
    assert json.loads(body)["size"] == 0
    assert f"Authorization: Bearer {VALUE}" in request["lines"]
    assert f"X-Other: {HOLDER}" in request["lines"]
    assert [line for line in request["lines"] if line.startswith("Accept-")] == ["Accept-Encoding: identity"]


def test_placeholder_elsewhere_stays_one(ended):
    """At a host that the secret does not name, and in a header that it does not."""
    code = show("[ask('path.test', '/v1/x', 'GET', BEARER)[0], ask('api.test', '/x/' + HOLDER, 'GET', f'Cookie: {HOLDER}')[0]]")
    assert ended.run(code) == [200, 200]
    first, second = ended.arrived()
    assert f"Authorization: Bearer {HOLDER}" in first["lines"]
    assert f"Cookie: {HOLDER}" in second["lines"] and second["path"] == f"/x/{HOLDER}"


def test_other_hosts_are_not_ended(ended):
    """The client sees the certificate of the server, which no root inside vouches for."""
    code = """
context = ssl._create_unverified_context()
def issuer(name):
    with context.wrap_socket(socket.create_connection((name, 443)), server_hostname=name) as s:
        return s.getpeercert(True).hex()
print(json.dumps([issuer("other.test"), issuer("api.test")]))
"""
    other, api = ended.run(code)
    folder = ended.world.internet.certificates

    def der(name):
        return subprocess.run(["openssl", "x509", "-in", folder / f"{name}.pem", "-outform", "DER"],
                              check=True, capture_output=True, timeout=60).stdout.hex()  # fmt: skip

    assert other == der("other.test")
    assert api != der("api.test")


def test_open_network_ends_hosts_of_secrets_alone(ended):
    code = """
def plain(name):
    context = ssl._create_unverified_context()
    with context.wrap_socket(socket.create_connection((name, 443)), server_hostname=name) as s:
        s.sendall(head(name, "/echo", "GET", BEARER))
        return Answer(s).read()[0]
"""
    out = ended.run(code + show("[ask('api.test', '/echo', 'GET', BEARER)[0], plain('other.test')]"), network="open", allow=[])
    first, second = ended.arrived()
    assert out == [200, 200]
    assert f"Authorization: Bearer {VALUE}" in first["lines"]
    assert f"Authorization: Bearer {HOLDER}" in second["lines"]


def test_basic_credentials(ended):
    code = "\nbasic = 'Authorization: Basic ' + base64.b64encode(f'me:{HOLDER}'.encode()).decode()"
    status, body = ended.run(code + show("ask('api.test', '/echo', 'GET', basic)"))
    (request,) = ended.arrived()
    encoded = base64.b64encode(f"me:{VALUE}".encode()).decode()
    assert f"Authorization: Basic {encoded}" in request["lines"]
    assert encoded not in body and "*" * len(encoded) in body


def test_value_is_masked_wherever_it_is_cut(ended):
    code = f"""
texts = []
with tls("api.test") as s:
    answer = Answer(s)
    for at in range({len("<<Bearer " + VALUE) + 3}):
        s.sendall(head("api.test", f"/split/{{at}}", "GET", BEARER))
        texts.append(answer.read()[1])
    for size in range(1, 12):
        s.sendall(head("api.test", f"/chunks/{{size}}", "GET", BEARER))
        texts.append(answer.read()[1])
texts.append(ask("api.test", "/close", "GET", BEARER)[1])
with tls("api.test") as s:
    s.sendall(head("api.test", "/echo", "HEAD", BEARER))
    answer = Answer(s)
    answer.read(True)
    texts.append(answer.head.partition("X-Echo: ")[2].partition("\\r")[0])
"""
    texts = ended.run(code + show("texts"))
    stars = "*" * len(VALUE)
    count = len("<<Bearer " + VALUE) + 3
    assert texts[:count] == [f"<<Bearer {stars}>>"] * count
    assert texts[count : count + 11] == [f"<<Bearer {stars}>>X-Last: Bearer {stars}"] * 11
    assert texts[-2:] == [f"Bearer {stars}"] * 2


def test_what_only_begins_like_a_value_arrives(ended):
    code = """
with tls("api.test") as s:
    s.sendall(head("api.test", "/pause", "GET", BEARER))
    answer = Answer(s)
    answer.line(b"\\r\\n\\r\\n")
    first = answer.take(10).decode()
    ask("api.test", "/release")
    rest = answer.take(10).decode()
"""
    assert ended.run(code + show("[first, rest]")) == [f"event:{VALUE[:4]}", "0123456789"]


def test_requests_one_after_another_and_at_once(ended):
    code = """
with tls("api.test", ["h2", "http/1.1"]) as s:
    answer, seen = Answer(s), [s.selected_alpn_protocol(), s.version()]
    s.sendall(head("api.test", "/echo/1", "GET", BEARER) * 3 + head("api.test", "/echo/2", "HEAD", BEARER) + head("api.test", "/echo/3"))
    seen += [answer.read()[0] for i in range(3)] + [answer.read(True)[0], answer.read()[0]]
    s.sendall(head("api.test", "/up", "POST", "Transfer-Encoding: chunked", BEARER))
    for part in (b"3;x=y\\r\\nabc\\r\\n", b"A\\r\\n01234", b"56789\\r\\n0\\r\\nT: x\\r\\n\\r\\n"):
        s.sendall(part)
    seen.append(json.loads(answer.read()[1])["size"])
    s.sendall(head("api.test", "/up", "POST", "Content-Length: 5", "Expect: 100-continue", BEARER))
    assert answer.line(b"\\r\\n\\r\\n").startswith("HTTP/1.1 100")
    s.sendall(b"hello" + head("api.test", "/echo/4"))
    seen += [json.loads(answer.read()[1])["size"], answer.read()[0]]
"""
    seen = ended.run(code + show("seen"))
    assert seen == ["http/1.1", "TLSv1.3", 200, 200, 200, 200, 200, 13, 5, 200]
    requests = ended.arrived()
    assert [r["path"] for r in requests] == ["/echo/1"] * 3 + ["/echo/2", "/echo/3", "/up", "/up", "/echo/4"]
    assert all(any(VALUE in line for line in r["lines"]) for r in requests[:4])


def test_large_bodies_with_a_slow_end(ended):
    size = 24 << 20
    code = f"""
import hashlib
with tls("api.test") as s:
    s.sendall(head("api.test", "/big/{size}", "GET", BEARER))
    answer = Answer(s)
    answer.line(b"\\r\\n\\r\\n")
    digest, got = hashlib.sha256(answer.bytes), len(answer.bytes)
    while got < {size}:
        part = s.recv(65536)
        got += len(part)
        digest.update(part)
        if got % 16 == 0: time.sleep(0.001)
with tls("api.test") as s:
    s.sendall(head("api.test", "/swallow", "POST", "Content-Length: 4000000"))
    for i in range(40): s.sendall(bytes(100000))
    swallowed = Answer(s).read()
"""
    got, swallowed = ended.run(code + show("[digest.hexdigest(), swallowed]"))
    import hashlib

    assert got == hashlib.sha256(bytes(range(256)) * (size // 256)).hexdigest()
    assert swallowed == [200, "4000000"]


def test_websocket_passes_and_is_masked(ended):
    lines = "'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Extensions: permessage-deflate', BEARER"
    code = f"""
with tls("api.test") as s:
    s.sendall(head("api.test", "/ws", "GET", {lines}))
    answer = Answer(s)
    seen = [answer.line(b"\\r\\n\\r\\n"), answer.line(b"\\n")]
    for i in range(3):
        s.sendall(b"GET /not-http HTTP/9.9 %d\\n" % i)
        seen.append(answer.line(b"\\n"))
refused = ask("api.test", "/echo", "GET", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c")
with tls("api.test") as s:
    s.sendall(head("api.test", "/refuse", "GET", {lines}) + head("api.test", "/echo", "GET"))
    answer = Answer(s)
    kept = [answer.read(), answer.read()[0]]
"""
    seen, refused, kept = ended.run(code + show("[seen, refused, kept]"))
    assert seen[0].startswith("HTTP/1.1 101") and "X-Extensions: None" in seen[0]
    assert seen[1] == "hello Bearer " + "*" * len(VALUE)
    assert seen[2:] == [f"<GET /not-http HTTP/9.9 {i}>" for i in range(3)]
    assert refused[0] == 403 and "HTTP/2" in refused[1]
    assert kept == [[200, "no switch"], 200]


@pytest.mark.parametrize("name, why", [("expired.test", "expired"), ("wrong.test", "mismatch"), ("self.test", "self-signed")])
def test_a_server_that_is_not_who_it_says_gets_nothing(ended, name, why):
    status, body = ended.run(show(f"ask({name!r}, '/echo', 'GET', BEARER)"))
    assert status == 502 and why in body and name in body
    assert ended.arrived() == []


def test_rules_about_paths(ended):
    paths = ["/v1/x", "/v1/x?a=/../", "/v2", "/v1/../v2", "/v1/%2e%2e/v2", "/V1/x", "/v1//x", "/v1/./x", "/v1/;/x", "//v1/x"]
    code = f"""
out = [ask("path.test", path)[0] for path in {paths!r}]
out += [ask("path.test", "/v1/x", "POST", "Content-Length: 0")[0], ask("path.test", "/v1/x", "get")[0]]
with tls("path.test") as s:
    answer = Answer(s)
    s.sendall(head("path.test", "/v1/a") + head("path.test", "/v2"))
    out += [answer.read()[0], answer.read()[0]]
"""
    out = ended.run(code + show("out"))
    assert out == [200, 200] + [403] * 8 + [403, 403] + [200, 403]
    assert [r["path"] for r in ended.arrived()] == ["/v1/x", "/v1/x?a=/../", "/v1/a"]


SMUGGLED = {
    "two lengths": b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: api.test\r\nHost: other.test\r\n\r\n",
    "another host": b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\nA: b\r\n\r\n",
    "another port": b"GET / HTTP/1.1\r\nHost: api.test:8443\r\n\r\n",
    "a folded line": b"GET / HTTP/1.1\r\nHost: api.test\r\nA: b\r\n c\r\n\r\n",
    "a bare LF": b"GET / HTTP/1.1\nHost: api.test\n\n\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost: api.test\r\nContent-Length : 3\r\n\r\nabc",
    "an odd coding": b"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "a proxy": b"GET https://other.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
    "CONNECT": b"CONNECT other.test:443 HTTP/1.1\r\nHost: api.test\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a head without end": b"GET / HTTP/1.1\r\nHost: api.test\r\nA: " + b"x" * 40000,
}


def test_what_two_could_read_differently_is_refused(ended):
    code = f"""
out = {{}}
for what, text in {SMUGGLED!r}.items():
    with tls("api.test") as s:
        s.sendall(text)
        out[what] = Answer(s).read()[0]
"""
    out = ended.run(code + show("out"))
    assert set(out) == set(SMUGGLED) and set(out.values()) <= {400, 403}, out
    assert ended.arrived() == []


def test_clients_and_servers_that_speak_nonsense(ended):
    code = """
out = []
def attempt(*steps, name="api.test"):
    s = socket.create_connection((name, 443), timeout=30)
    try:
        for step in steps: s.sendall(step)
        return s.recv(100).hex()
    except OSError as e: return type(e).__name__
hello = ssl.MemoryBIO()
record = ssl.MemoryBIO()
client = ssl.create_default_context().wrap_bio(hello, record, server_hostname="api.test")
try: client.do_handshake()
except ssl.SSLWantReadError: pass
hello = record.read()
out.append(attempt(hello[:50], hello[50:], b"\\x17\\x03\\x03\\x00\\x05nope!"))
try: tls("api.test", ["h2"])
except ssl.SSLError as e: out.append(str(e))
out.append(ask("api.test", "/nonsense")[0])
with tls("api.test") as s:
    s.sendall(head("api.test", "/unasked"))
    out.append(Answer(s).read()[1])
out.append(ask("api.test", "/echo")[0])
"""
    out = ended.run(code + show("out"))
    assert "no application protocol" in out[1].lower().replace("_", " ").replace("tlsv1 alert ", "")
    assert out[2:] == [502, "one", 200]


def test_programs_know_the_authority(ended):
    """Each by what it is told inside: nobody passes an option."""
    code = """
import shutil, subprocess
def run(*words):
    if not shutil.which(words[0]): return "not here"
    r = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if "No module named" in r.stderr: return "not here"
    return r.stdout.strip() if r.returncode == 0 else r.stderr
url = "https://api.test/echo"
fetch = f"fetch('{url}', {{headers: {{authorization: 'Bearer {HOLDER}'}}}}).then(r => console.log(r.status), e => console.log(e.cause))"
requests = f"import requests; print(requests.get('{url}', headers=dict(authorization='Bearer {HOLDER}')).status_code)"
urllib = f"import urllib.request as u; print(u.urlopen(u.Request('{url}', headers=dict(authorization='Bearer {HOLDER}'))).status)"
curl = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", BEARER, url)
clean = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME")}
out = {
    "curl": run(*curl),
    "curl without variables": subprocess.run(curl, env=clean, capture_output=True, text=True).stdout,
    "node": run("node", "-e", fetch),
    "requests": run("python3", "-c", requests),
    "urllib": run("python3", "-c", urllib),
    "git": run("git", "-c", f"http.extraHeader={BEARER}", "ls-remote", "https://api.test/git"),
}
bundle = open("/etc/ssl/certs/ca-certificates.crt").read()
out["read-only"] = []
for path in ("/.tendon/authority.pem", "/.tendon/roots.pem", "/etc/ssl/certs/ca-certificates.crt"):
    try: open(path, "a").write("x")
    except OSError as e: out["read-only"].append(e.errno)
out["key"] = "PRIVATE" in bundle + open("/.tendon/authority.pem").read() + open("/.tendon/roots.pem").read()
out["roots"] = bundle == open("/.tendon/roots.pem").read() and bundle.count("BEGIN CERT")
"""
    out = ended.run(code + show("out"))
    assert out["read-only"] == [30, 30, 30] and out["key"] is False and out["roots"] > 1
    assert out.pop("git") == ""  # no branches: it was answered, and by something that is no git
    programs = {name: text for name, text in out.items() if name not in ("read-only", "key", "roots")}
    assert set(programs.values()) <= {"200", "not here"} and programs["curl"] == "200", programs
    assert all(any(VALUE in line for line in r["lines"]) for r in ended.arrived())


def test_nothing_of_the_vault_is_inside(ended):
    code = """
import glob
texts = [open(f"/proc/{name}", "rb").read() for name in ("self/environ", "self/cmdline", "1/environ")]
links = [os.readlink(path) for path in glob.glob("/proc/self/fd/*") if os.path.exists(path)]
"""
    text, links = ended.run(code + show("[b''.join(texts).decode('latin1'), links]"))
    assert VALUE not in text and "PRIVATE KEY" not in text
    assert not [link for link in links if "memfd" in link]


def tell(jail, rules):
    (jail.directory / "network.rules").write_text(rules)
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(jail.directory / "keeper.sock"))
        s.sendall(b"rules\n")
        return s.makefile().readline().strip()


def test_rule_for_paths_needs_an_authority(ended):
    """New rules come while it runs, and an authority only when it starts."""
    jail = ended.jail("import threading; threading.Event().wait()", allow=["good.test"], vault_fd=None, authority=None)
    assert "authority" in tell(jail, "allow\nGET https://good.test/x\n")
    assert tell(jail, "allow\nGET http://good.test/x\n") == "ok"
    jail = ended.jail("import threading; threading.Event().wait()", allow=["good.test"])
    assert tell(jail, "allow\nGET https://good.test/x\n") == "ok"


def test_many_at_once(ended):
    code = """
import threading
def many(count):
    def one(results, i):
        results[i] = ask("api.test", "/big/200000", "GET", BEARER)[0]
    results = [0] * count
    threads = [threading.Thread(target=one, args=(results, i)) for i in range(count)]
    for t in threads: t.start()
    for t in threads: t.join()
    return results.count(200)
idle = [tls("api.test") for i in range(30)]
some = many(10)
for s in idle: s.close()
"""
    assert ended.run(code + show("[some, many(10)]")) == [10, 10]
