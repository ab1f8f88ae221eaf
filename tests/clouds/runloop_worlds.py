"""Devboxes of a service's Runloop, for the conformance suite and for the program."""

from conformance import World
from tendons import Tendon


def settings(url, key):
    return {"RUNLOOP_BASE_URL": url, "RUNLOOP_API_KEY": key}


def devboxes(client):
    return client.get("/v1/devboxes?limit=1000").ok().json["devboxes"]


class RunloopWorld(World):
    """As a tenant of its own."""

    def __init__(self, service):
        super().__init__("runloop")
        self.client = service.tenant(self.mark)
        self.env.update(settings(service.url, self.client.key))

    def living_driver(self):
        """One for all tests, but for those that kill it."""
        if not self.drivers or self.drivers[0].process.poll() is not None:
            self.drivers.insert(0, self.open())
            self.drivers.pop()
        return self.drivers[0]

    def left_over(self):
        return {}  # processes are the service's, whose own census is taken at its end

    def finish(self):
        super().finish()
        assert devboxes(self.client) == []


class RunloopTendon(Tendon):
    """The program."""

    def __init__(self, program, base, service, **env):
        base.mkdir()
        super().__init__(program, base, "runloop")
        self.client = service.tenant(base.name)
        self.env.update(settings(service.url, self.client.key), **env)

    def boxes(self):
        """What the service has for this tenant."""
        return devboxes(self.client)

    def finish(self):
        assert self("rm", "--all", "--quiet").returncode == 0
        assert self("gc").returncode == 0
        assert self.boxes() == []
        assert self.leftovers() == []
