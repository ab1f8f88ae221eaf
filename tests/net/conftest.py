"""Fixtures that run the echo server."""

import pytest

from echo_server import Server


def pytest_make_parametrize_id(config, val, argname):
    """Long requests make unreadable test names."""
    return None if not isinstance(val, bytes) or len(val) < 80 else repr(val[:60])[2:-1] + "..."


@pytest.fixture
def start():
    """Starts servers with options of their own; all must stop cleanly."""
    servers = []

    def run(*args):
        servers.append(Server(*args))
        return servers[-1]

    yield run
    for server in servers:
        out, err = server.stop()
        assert out == "stopped 0\n", (out, err)
        assert server.process.returncode == 0
        assert "Sanitizer" not in err and "runtime error" not in err, err


@pytest.fixture(scope="module")
def server():
    """A server with short waits, shared by the tests of a file."""
    s = Server("127.0.0.1:0", "header=1", "idle=20", "body=1", "write=1")
    yield s
    out, err = s.stop()
    assert out == "stopped 0\n", (out, err)
    assert "Sanitizer" not in err and "runtime error" not in err, err
