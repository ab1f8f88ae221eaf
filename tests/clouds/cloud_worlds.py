"""Worlds of the cloud backends (tests/runtime/conformance.py), and the program with sandboxes of one."""

import pytest

from conformance import World
from services import Service
from tendons import Tendon, eventually


def start_service(folder, **kwargs):
    service = Service(folder, **kwargs)
    doctor = service.tendon("doctor", "--runtime", "jail")
    if doctor.returncode:
        service.ids.stop()
        pytest.skip(f"the jail does not work here: {doctor.stdout}{doctor.stderr}")
    return service.start()


class E2b:
    """What tests have to know of a vendor."""

    name, who = "e2b", "E2B"
    flags = ("--e2b",)  # of tendon key create
    key = "e2b_0123456789abcdef0123456789abcdef"
    variable, advice = "E2B_API_KEY", "https://e2b.dev"
    CREATE, LIST = ("POST", "/sandboxes"), ("GET", "/v2/sandboxes")
    one = "/sandboxes/"  # then the id
    id, marks = "sandboxID", "metadata"
    sandbox = {"sandboxID": "abc", "templateID": "base", "clientID": "x", "envdVersion": "0.6.1", "state": "running"}
    wish = {"templateID": "base", "timeout": 300}
    agent = "envd"  # in messages
    upload = "/files"  # how the path of one ends
    header = staticmethod(lambda key: ("x-api-key", key))
    create_key = "idempotency-key"

    def settings(self, url, key):
        return {"E2B_API_URL": url, "E2B_SANDBOX_URL": url, self.variable: key}

    def page(self, items, more=None):
        """A list: body and headers."""
        return items, {"X_Next_Token": more} if more else {}

    def secrets(self, client, sandbox):
        detail = client.get(f"/sandboxes/{sandbox}").ok().json
        return [detail["envdAccessToken"], detail["trafficAccessToken"]]


class Daytona:
    name, who = "daytona", "Daytona"
    flags = ()
    key = "dtn_0123456789abcdef0123456789abcdef"
    variable, advice = "DAYTONA_API_KEY", "https://app.daytona.io"
    CREATE, LIST = ("POST", "/api/sandbox"), ("GET", "/api/sandbox")
    one = "/api/sandbox/"
    id, marks = "id", "labels"
    sandbox = {"id": "abc", "state": "started", "labels": {}}
    wish = {}
    agent = "toolbox"
    upload = "/files/upload"
    sizes = ("memory", "cpus", "disk")
    header = staticmethod(lambda key: ("authorization", f"Bearer {key}"))
    create_key = None

    def settings(self, url, key):
        return {"DAYTONA_API_URL": f"{url}/api", self.variable: key}

    def page(self, items, more=None):
        return {"items": items, "nextCursor": more}, {}

    def secrets(self, client, sandbox):
        return [client.get(f"/api/sandbox/{sandbox}/ports/27174/preview-url").ok().json["token"]]


class Runloop:
    name, who = "runloop", "Runloop"
    flags = ()
    key = "ak_0123456789abcdef0123456789"
    variable, advice = "RUNLOOP_API_KEY", "https://platform.runloop.ai"
    CREATE, LIST = ("POST", "/v1/devboxes"), ("GET", "/v1/devboxes")
    one = "/v1/devboxes/"
    id, marks = "id", "metadata"
    tunnel = {"tunnel_key": "k1", "auth_mode": "authenticated", "auth_token": "tok"}
    sandbox = {"id": "abc", "status": "running", "metadata": {}, "tunnel": tunnel}
    wish = {}
    agent = "execution"
    upload = "/upload_file"
    header = staticmethod(lambda key: ("authorization", f"Bearer {key}"))
    create_key = "x-request-id"

    def settings(self, url, key):
        return {"RUNLOOP_BASE_URL": url, self.variable: key}

    def page(self, items, more=None):
        """A page that is not the last has one at least."""
        return {"devboxes": items or ([{"id": more}] if more else []), "has_more": more is not None}, {}

    def secrets(self, client, sandbox):
        return [client.get(self.one + sandbox).ok().json["tunnel"]["auth_token"]]


CLOUDS = {cloud.name: cloud for cloud in (E2b(), Daytona(), Runloop())}


class Modal:
    """Which is gRPC: what it has is asked of the service's own API."""

    name, who, flags = "modal", "Modal", ()
    variable = "MODAL_TOKEN_SECRET"
    CREATE, LIST, one = ("POST", "/v1/sandboxes"), ("GET", "/v1/sandboxes"), "/v1/sandboxes/"
    id, wish = "id", {}
    upload = "/TaskExecStdinWrite"
    sizes = ("memory", "cpus", "disk", "wall_time")

    def settings(self, url, key):
        return {"MODAL_SERVER_URL": url, "MODAL_TOKEN_ID": "ak-tests", self.variable: key}

    def secrets(self, client, sandbox):
        return []  # but for the key


class Account:
    """A tenant of a service that serves the vendor's API."""

    def __init__(self, cloud, service, name):
        self.cloud, self.name, self.strangers = cloud, name, []
        self.client = service.tenant(name, *cloud.flags)
        self.settings = cloud.settings(service.url, self.client.key)

    def boxes(self):
        """What the service has for it."""
        told = self.client.get(self.cloud.LIST[1]).ok().json
        if isinstance(told, dict) and "sandboxes" in told:  # Modal: what has ended is remembered for a while
            return [box for box in told["sandboxes"] if box["state"] != "stopped"]
        return told if isinstance(told, list) else told.get("items", told.get("devboxes"))

    def make(self):
        """One that is none of Tendon's."""
        answer = self.client.post(self.cloud.CREATE[1], self.cloud.wish)
        assert answer.status in (200, 201), answer.text
        return answer.json[self.cloud.id]

    def make_snapshot(self, name):
        """Of one that is none of Tendon's (strangers)."""
        self.strangers.append(self.make())
        take = {"e2b": "snapshots", "daytona": "snapshot", "runloop": "snapshot_disk"}[self.cloud.name]
        path, wish = f"{self.cloud.one}{self.strangers[-1]}/{take}", {"name": name}
        eventually(lambda: self.client.post(path, wish).status in (200, 201), "it was started, and is kept", 60)

    def remove(self, sandbox):
        one = self.cloud.one + sandbox
        gone = self.client.post(f"{one}/shutdown", {}) if self.cloud.name == "runloop" else self.client.delete(one)
        assert gone.status in (200, 204)


class ServiceWorld(World):
    """Sandboxes of a service, as a tenant of its own."""

    def __init__(self, cloud, service):
        super().__init__(cloud.name)
        self.sizes = getattr(cloud, "sizes", ())
        self.account = Account(cloud, service, self.mark)
        self.env.update(self.account.settings)

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
        assert self.account.boxes() == []


class VendorWorld(World):
    """Sandboxes that a Vendor promises."""

    def __init__(self, cloud, vendor):
        super().__init__(cloud.name)
        self.env.update(cloud.settings(vendor.url, cloud.key))

    def left_over(self):
        return {}


class CloudTendon(Tendon):
    """The program, with sandboxes of a service."""

    def __init__(self, program, base, cloud, service, **env):
        base.mkdir()
        super().__init__(program, base, cloud.name)
        self.cloud = cloud
        self.account = Account(cloud, service, f"{base.parent.name[-40:].strip('_')}-{base.name}")  # nobody else's
        self.client, self.boxes = self.account.client, self.account.boxes
        self.env.update(self.account.settings, **env)

    def finish(self):
        for words in (("rm", "--all", "--quiet"), ("gc",)):
            result = self(*words)
            assert result.returncode == 0, result
        assert self.boxes() == []
        assert self.leftovers() == []
