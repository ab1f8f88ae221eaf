"""Worlds of the cloud backends (tests/runtime/conformance.py), and the program with sandboxes of one."""

from conformance import World
from tendons import Tendon

KEY = "e2b_0123456789abcdef0123456789abcdef"


def settings(service, key):
    return {"E2B_API_URL": service.url, "E2B_SANDBOX_URL": service.url, "E2B_API_KEY": key}


class ServiceWorld(World):
    """Sandboxes of a service's E2B, as a tenant of its own."""

    def __init__(self, service):
        super().__init__("e2b")
        self.client = service.tenant(self.mark, "--e2b")
        self.env.update(settings(service, self.client.key))

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
        assert self.client.get("/sandboxes").ok().json == []


class VendorWorld(World):
    """Sandboxes that a Vendor promises."""

    def __init__(self, vendor):
        super().__init__("e2b")
        self.env.update(E2B_API_URL=vendor.url, E2B_SANDBOX_URL=vendor.url, E2B_API_KEY=KEY)

    def left_over(self):
        return {}


class CloudTendon(Tendon):
    """The program, with sandboxes of a service's E2B."""

    def __init__(self, program, base, service, **env):
        base.mkdir()
        super().__init__(program, base, "e2b")
        self.client = service.tenant(base.name, "--e2b")
        self.env.update(settings(service, self.client.key), **env)

    def boxes(self):
        """What the service has for this tenant."""
        return self.client.get("/sandboxes").ok().json

    def finish(self):
        assert self("rm", "--all", "--quiet").returncode == 0
        assert self("gc").returncode == 0
        assert self.boxes() == []
        assert self.leftovers() == []
