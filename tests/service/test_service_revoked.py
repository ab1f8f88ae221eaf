"""A key that ends, by `tendon key revoke` or by its time, ends what it has open: terminals, streams of events, previews, those of the
other surfaces. The streams of another key go on."""

import json
import socket

import daytona_wire
import e2b_wire
from native import Events, at, upgrade
from previews import PORT, serving
from services import PATIENCE, eventually


class Open:
    """Something of each kind that one key has open: {kind: socket}."""

    def __init__(self, service, name):
        self.key = service.make_key(name, "--tenant", name)
        self.client = service.client(self.key["key"])
        self.box = serving(self.client)
        self.held = []
        session = [f"X-Session-API-Key: {self.box['session_key']}"]
        sandbox = daytona_wire.create(self.client)
        pty = f"/api/toolbox/{sandbox['id']}/process/pty/create-connect?id=p&cols=80&rows=24"
        envd = e2b_wire.Envd(service, e2b_wire.create(self.client))
        process = {"process": {"cmd": "/bin/sleep", "args": ["1000000"]}, "stdin": False}
        self.preview = self.keep(upgrade(self.client, f"/preview/{self.box['id']}/{PORT}/ws", suppress_origin=True))
        assert json.loads(self.preview.recv())["upgrade"] == "websocket"
        self.sockets = {
            "terminal": self.keep(upgrade(self.client, at(self.box, "/hand/v1/sessions/main/terminal"))).sock,
            "session key": self.keep(
                upgrade(self.client, f"/{self.box['id']}/v1/sessions/main/terminal", key=False, header=session)
            ).sock,
            "events": self.keep(Events(self.client, at(self.box, "/events", follow=1))).connection.sock,
            "watch": self.keep(Events(self.client, "/v1/watch")).connection.sock,
            "preview": self.preview.sock,
            "e2b": self.keep(envd.stream("process.Process/Start", process)).connection.sock,
            "daytona": self.keep(upgrade(self.client, pty)).sock,
        }

    def keep(self, thing):
        self.held.append(thing)
        return thing

    def ended(self):
        """The kinds that are over."""
        return {kind for kind, sock in self.sockets.items() if is_over(sock)}

    def close(self):
        for sock in self.sockets.values():
            sock.close()


def is_over(sock):
    """Whether nothing comes any more; what has come so far is read."""
    sock.setblocking(False)
    try:
        while sock.recv(1 << 16):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_revoked_key_has_nothing_open(service):
    gone, stays = Open(service, "gone"), Open(service, "stays")
    assert not gone.ended() and not stays.ended()
    assert service.tendon("key", "revoke", "gone").returncode == 0
    eventually(lambda: gone.ended() == set(gone.sockets), "the end of every stream")
    assert not stays.ended()
    stays.preview.sock.settimeout(PATIENCE)
    stays.preview.send("still")
    assert stays.preview.recv() == "still"
    for one in (gone, stays):
        one.close()


def watch(service, key):
    """A socket with a stream of events that has begun."""
    sock = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
    sock.sendall(f"GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n".encode())
    assert sock.recv(12) == b"HTTP/1.1 200"
    return sock


def test_so_has_one_whose_time_is_over(service):
    with watch(service, service.make_key("short", "--expires", "10s")["key"]) as short:
        eventually(lambda: is_over(short), "the end of the stream")


def test_who_revokes_the_own_key_hears_of_it(service):
    key = service.make_key("own", "--scope", "read,use,manage,admin")
    with watch(service, key["key"]) as stream:
        service.client(key["key"]).delete(f"/v1/keys/{key['id']}").ok(204)
        eventually(lambda: is_over(stream), "the end of the stream")
