"""The end of the server with every kind of stream open: quick, clean, and heard by the clients."""

import socket
import time

import pytest

from harness import wait_until
from streams import Events, Terminal
from test_v1_tunnel import Server, echo, tunnel

pytestmark = pytest.mark.concurrent


def test_stop_with_open_streams(start):
    hand = start()
    client = hand.client
    ident = client.run("printf started; sleep 600", session="busy").meta["command_id"]
    with Server(echo) as server:
        follower = Events(client, f"/v1/commands/{ident}/output", follow=1)
        follower.until("output")
        watcher = Events(client, "/v1/files/watch", path=hand.workspace, recursive=1)
        watcher.until("watching")
        prompt, spectator = Terminal(client), Terminal(client, "busy")
        prompt.prompt()
        spectator.hello()
        through = tunnel(client, server.port)
        through.sendall(b"x")
        assert through.recv(1) == b"x"

        began = time.monotonic()
        hand.stop()
        assert time.monotonic() - began < 6

        assert [e.kind for e in follower.rest()] == ["end"]
        for terminal in (prompt, spectator):
            try:
                terminal.wait_closed()
            except Exception:
                pass  # cut off is an end too, as long as it is one
        through.settimeout(5)
        try:
            assert through.recv(1) == b""
        except ConnectionError:
            pass
        through.close()
        watcher.connection.sock.settimeout(5)
        try:
            watcher.rest()
        except (OSError, ValueError) as error:
            assert not isinstance(error, socket.timeout)


def test_nothing_is_left_of_streams_that_ended(start):
    hand = start()
    client = hand.client
    client.ok("true")

    def once():
        ident = client.run("echo x").meta["command_id"]
        with Events(client, f"/v1/commands/{ident}/output", follow=1) as events:
            events.rest()
        with Events(client, "/v1/files/watch", path=hand.workspace) as events:
            events.until("watching")
        with Terminal(client) as terminal:
            terminal.prompt()
        with Server(echo) as server:
            tunnel(client, server.port).close()

    once()
    wait_until(lambda: client.get("/v1/sessions/main").json["terminals"] == 0, what="detached")
    before = hand.descriptors()
    for _ in range(10):
        once()
    wait_until(lambda: hand.descriptors() <= before, 10, "descriptors closed")
