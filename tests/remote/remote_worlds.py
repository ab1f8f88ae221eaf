"""Worlds of the remote backend (tests/runtime/conformance.py), and the program with sandboxes of a service."""

from conformance import World
from runtime_api import KEY
from tendons import Tendon


class ApiWorld(World):
    """Sandboxes of a RuntimeApi."""

    def __init__(self, api):
        super().__init__("remote")
        self.api = api
        self.env.update(SANDBOX_API_KEY=KEY, SANDBOX_REMOTE_RUNTIME_API_URL=api.url)

    def left_over(self):
        return {}  # hands are the service's


class ServiceWorld(World):
    """Sandboxes of a service."""

    def __init__(self, service, dialect="auto"):
        super().__init__("remote")
        self.env.update(
            SANDBOX_API_KEY=service.admin,
            SANDBOX_REMOTE_RUNTIME_API_URL=service.url,
            TENDON_REMOTE_DIALECT=dialect,
        )

    def living_driver(self):
        """One for all tests, but for those that kill it."""
        if not self.drivers or self.drivers[0].process.poll() is not None:
            self.drivers.insert(0, self.open())
            self.drivers.pop()
        return self.drivers[0]

    def left_over(self):
        return {}  # processes are the service's, whose own census is taken at its end


class RemoteTendon(Tendon):
    """The program, with sandboxes of a service."""

    def __init__(self, program, base, url, key, **env):
        base.mkdir()
        super().__init__(program, base, "remote")
        self.env.update(SANDBOX_REMOTE_RUNTIME_API_URL=url, SANDBOX_API_KEY=key, **env)

    def finish(self):
        assert self("rm", "--all", "--quiet").returncode == 0
        assert self.leftovers() == []
