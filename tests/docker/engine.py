"""Container engines of the tests' own, dockerd and Podman's service, and containers in them whose first process is
tendon-hand.

An engine lives in private mount and network namespaces, where its data, /run and the like are in memory: it neither
meets another one of this machine nor leaves mounts, sockets, keys, rules or images behind.  What it publishes is
reached from inside its network namespace (see nsenter)."""

import contextlib
import ctypes
import glob
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

import pytest
from client import Client, Shell
from harness import wait_until
from rooms import room

# Run with the directories that are to be private, "--", and the command of the daemon.
PRIVATE = """
while [ "$1" != -- ]; do
    [ ! -d "$1" ] || mount -t tmpfs -o mode=1755 tmpfs "$1" || exit
    shift
done
shift
ip link set lo up
exec "$@"
"""
CLONE_NEWNET = 0x40000000
REGISTRY = "127.0.0.1:5000"

# Podman raises limits beyond what root may have on some machines.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
tmp_dir = "{base}/tmp"
[network]
network_config_dir = "{base}/net"
"""
REGISTRIES_CONF = """
unqualified-search-registries = ["docker.io"]
[[registry]]
location = "%s"
insecure = true
""" % REGISTRY
STORAGE_CONF = """
[storage]
driver = "overlay"
graphroot = "{base}/data"
runroot = "{base}/run"
"""


def proc(pid, name):
    """A file of /proc/PID, empty when the process is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


class Engine:
    """One running engine; what differs is in the classes below."""

    private = []  # directories besides its own data
    stragglers = []  # programs that may outlive it for a while
    env = {}

    def __init__(self):
        self.base = room("d")
        self.cgroup = f"tendon-test-{uuid.uuid4().hex[:12]}"
        self.address = f"unix://{self.base}/sock"
        self.log = self.base / "log"
        self.namespace = None
        data = self.base / "data"
        data.mkdir()
        command = self.command()
        private = ["unshare", "--mount", "--net", "sh", "-c", PRIVATE, "sh", *self.private, data, "--"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *private, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.base,
                env={**os.environ, **self.env},
            )
        try:
            wait_until(self.answers, 30, "the engine answers")
            self.namespace = os.readlink(f"/proc/{self.process.pid}/ns/mnt")
        except BaseException:
            self.stop()
            raise

    def nsenter(self):
        """Words before a command that is to run in the engine's network namespace."""
        return ["nsenter", f"--net=/proc/{self.process.pid}/ns/net"]

    @contextlib.contextmanager
    def registry(self, layer):
        """The process of registry.py in the engine's network, at REGISTRY."""
        script = [sys.executable, str(pathlib.Path(__file__).with_name("registry.py")), REGISTRY.rpartition(":")[2]]
        process = subprocess.Popen([*self.nsenter(), *script, layer], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.wait()

    # --- talking --------------------------------------------------------------------------------

    def answers(self):
        code = self.process.poll()
        assert code is None, f"the engine ended with {code}:\n{self.log_end()}"
        return self.try_docker("version").returncode == 0

    def log_end(self):
        return self.log.read_text(errors="replace")[-4000:]

    def try_docker(self, *args, stdin=subprocess.DEVNULL, timeout=30):
        env = {**os.environ, "DOCKER_HOST": self.address, "DOCKER_CONFIG": str(self.base)}
        return subprocess.run(
            ["docker", *map(str, args)],
            stdin=stdin,
            capture_output=True,
            text=True,
            env=env,
            timeout=timeout,
        )

    def docker(self, *args, **kw):
        """What the command printed; it must not fail."""
        result = self.try_docker(*args, **kw)
        assert result.returncode == 0, f"docker {args}: {result.stderr}"
        return result.stdout.strip()

    def load(self, name, tar, *changes):
        """Makes an image of a tar file."""
        options = [word for change in changes for word in ("--change", change)]
        with open(tar, "rb") as f:
            self.docker("import", *options, "-", name, stdin=f, timeout=120)
        return name

    # --- what there is of it on this machine ------------------------------------------------------

    def processes(self, container=""):
        """{pid: command} of the daemon and whatever it started, or of one container's processes."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                ours = not container and os.readlink(f"/proc/{pid}/ns/mnt") == self.namespace
            except OSError:
                ours = False
            # One that has ended may wait for a burial: whoever inherits it may not bury.
            if (ours or f"/{self.cgroup}/{container}" in proc(pid, "cgroup")) and "State:\tZ" not in proc(pid, "status"):
                found[int(pid)] = proc(pid, "cmdline").replace("\0", " ")
        return found

    def cgroups(self):
        """Those of its containers, the innermost first."""
        found = []
        for parent in ("", "*/"):
            found += glob.glob(f"/sys/fs/cgroup/{parent}{self.cgroup}/**/", recursive=True)
        return sorted(found, key=len, reverse=True)

    def mounts(self):
        return set(proc(self.process.pid, "mounts").splitlines())

    # --- the end --------------------------------------------------------------------------------

    def end_daemon(self):
        problems = []
        if self.process.poll() is not None:
            problems.append(f"it had ended with {self.process.returncode}:\n{self.log_end()}")
        else:
            try:
                containers = self.try_docker("ps", "--all", "--quiet").stdout.split()
                if containers:
                    self.try_docker("rm", "--force", *containers)
                self.process.terminate()
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                problems.append(f"the engine did not end:\n{self.log_end()}")
                self.process.kill()
                self.process.wait(10)
        try:
            wait_until(lambda: not self.processes(), 5, "processes of the engine ended")
        except AssertionError:
            for pid, command in self.processes().items():
                if not any(name in command for name in self.stragglers):
                    problems.append(f"process {pid} left: {command}")
                os.kill(pid, signal.SIGKILL)
        return problems

    def remove_cgroups(self):
        problems = []
        for path in self.cgroups():
            if path.rstrip("/").rsplit("/", 1)[1] != self.cgroup:
                problems.append(f"control group left: {path}")
            try:
                os.rmdir(path)
            except OSError as error:
                problems.append(f"control group cannot be removed: {error}")
        return problems

    def stop(self):
        """Ends it with all its containers; fails when anything of them is left on this machine."""
        problems = self.end_daemon() + self.remove_cgroups()
        problems += [
            f"mount left: {line}"
            for line in proc("self", "mounts").splitlines()
            if str(self.base) in line
        ]
        shutil.rmtree(self.base)
        assert not problems, "\n".join(problems)


class Dockerd(Engine):
    """Also at tls, for clients with the certificates in certs."""

    name = "docker"
    private = ["/run", "/etc/docker"]
    tls = "tcp://127.0.0.1:2376"

    def command(self):
        self.certs = self.base / "certs"
        make_certificates(self.certs)
        return [
            "dockerd",
            f"--data-root={self.base}/data",
            f"--exec-root={self.base}/exec",
            f"--host={self.address}",
            f"--host={self.tls}",
            "--tlsverify",
            f"--tlscacert={self.certs}/ca.pem",
            f"--tlscert={self.certs}/server.pem",
            f"--tlskey={self.certs}/server.key",
            f"--pidfile={self.base}/pid",
            f"--cgroup-parent=/{self.cgroup}",
            "--exec-opt=native.cgroupdriver=cgroupfs",
        ]


class Podman(Engine):
    name = "podman"
    stragglers = ["/conmon "]  # wait five minutes for somebody to ask how a command of `exec` ended
    private = ["/run", "/dev/shm", "/var/lib", "/var/tmp"]

    def command(self):
        texts = {"containers": CONTAINERS_CONF, "storage": STORAGE_CONF, "registries": REGISTRIES_CONF}
        for name, text in texts.items():
            (self.base / f"{name}.conf").write_text(text.format(base=self.base))
        (self.base / "net").mkdir()
        self.env = {
            "CONTAINERS_CONF": str(self.base / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.base / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.base / "registries.conf"),
        }
        self.before = set(self.libpod_groups())
        return ["podman", "system", "service", "--time", "0", self.address]

    @contextlib.contextmanager
    def over_tcp(self):
        """The same engine at an address without encryption, which is given."""
        address = "tcp://127.0.0.1:2375"
        service = ["podman", "system", "service", "--time", "0", address.replace("tcp://", "tcp:")]
        into = ["nsenter", f"--target={self.process.pid}", "--mount", "--net"]
        with open(self.log, "ab") as log:
            process = subprocess.Popen([*into, *service], stdout=log, stderr=log, cwd=self.base, env={**os.environ, **self.env})
        try:
            yield address
        finally:
            process.terminate()
            process.wait(20)

    @staticmethod
    def libpod_groups():
        """Where Podman puts containers; it cannot be told another place."""
        found = []
        for parent in ("", "*/"):
            found += glob.glob(f"/sys/fs/cgroup/{parent}libpod_parent/**/", recursive=True)
        return sorted(found, key=len, reverse=True)

    def remove_cgroups(self):
        def gone():
            left = [path for path in self.libpod_groups() if path not in self.before]
            for path in left:
                with contextlib.suppress(OSError):  # of a conmon that is just ending
                    os.rmdir(path)
            return not left

        wait_until(gone, 30, "Podman's control groups are removed")
        return []


class RootlessPodman(Podman):
    """Podman of an ordinary user, with other users by /etc/subuid; without control groups where nobody has given it any."""

    user = 65534
    private = ["/run", "/dev/shm", "/var/tmp"]

    def command(self):
        words = super().command()
        for name in ("home", "runtime", "run", "tmp"):
            (self.base / name).mkdir()
        for path in (self.base, *self.base.iterdir()):
            os.chown(path, self.user, self.user)
        (self.base / "subids").write_text(f"{self.user}:200000:65536\n")
        self.env.update(HOME=str(self.base / "home"), XDG_RUNTIME_DIR=str(self.base / "runtime"))
        become = f"exec setpriv --reuid={self.user} --regid={self.user} --clear-groups"
        binds = " && ".join(f"mount --bind {self.base}/subids /etc/{name}" for name in ("subuid", "subgid"))
        script = f'chmod 1777 /dev/shm /var/tmp && chown {self.user} {self.base}/data && {binds} && {become} "$@"'
        return ["sh", "-c", script, "sh", *words]

    def inner(self):
        """What lives in the namespaces that Podman made for its user: a process that holds them, and monitors of containers."""
        (file,) = self.base.glob("**/pause.pid")
        there = os.readlink(f"/proc/{file.read_text()}/ns/mnt")
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/mnt") == there:
                    found.append(int(pid))
        return found

    def end_daemon(self):
        inner = [(pid, os.pidfd_open(pid)) for pid in self.inner()]
        problems = super().end_daemon()
        for _, pidfd in inner:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        return problems


def make_certificates(directory):
    """A CA, a server certificate for 127.0.0.1, and a client's, as DOCKER_CERT_PATH wants them."""
    directory.mkdir()
    days = ["-days", "2"]
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-x509", *days]
    alone = ["-addext", "basicConstraints=critical,CA:FALSE"]
    for words in (
        [*new, "-x509", *days, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem"],
        [*new, *signed, *alone, "-subj", "/CN=engine", "-addext", "subjectAltName=IP:127.0.0.1"]
        + ["-keyout", "server.key", "-out", "server.pem"],
        [*new, *signed, *alone, "-subj", "/CN=client", "-addext", "extendedKeyUsage=clientAuth"]
        + ["-keyout", "key.pem", "-out", "cert.pem"],
    ):
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True, timeout=30)


def namespace_socket(pid):
    """A TCP socket of the network namespace of a process."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(descriptor):
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    with open("/proc/thread-self/ns/net") as home, open(f"/proc/{pid}/ns/net") as there:
        enter(there.fileno())
        try:
            return socket.socket()  # stays where it was born
        finally:
            enter(home.fileno())


class NamespaceConnection(http.client.HTTPConnection):
    """TCP to a port of the network namespace of a process."""

    def __init__(self, pid, port, timeout):
        super().__init__("127.0.0.1", port, timeout=timeout)
        self.pid = pid

    def connect(self):
        self.sock = namespace_socket(self.pid)
        self.sock.settimeout(self.timeout)
        self.sock.connect((self.host, self.port))


class NamespaceClient(Client):
    """Address is a (pid, port) pair."""

    def connection(self, timeout=30):
        return NamespaceConnection(*self.address, timeout)


class NamespaceShell(Shell, NamespaceClient):
    pass


class Container:
    """tendon-hand as the first process of a container.

    port: listen there, as a host starts it, else on a unix socket in a shared directory.
    copy: the hand becomes a file of the container, else it is mounted.
    options go to docker, args to the hand."""

    def __init__(self, engine, hand, image, args=(), options=(), port=None, copy=False, key=None):
        self.engine = engine
        self.port = port
        self.headers = {"X-Session-API-Key": key} if key else {}
        self.shared = pathlib.Path(tempfile.mkdtemp(dir=engine.base))
        self.shared.chmod(0o777)
        listen = [port] if port else ["--listen", "unix:/shared/sock"]
        carry = [] if copy else ["--volume", f"{hand}:/tendon-hand:ro"]
        env = ["--env", f"SESSION_API_KEY={key}"] if key else []
        self.id = engine.docker(
            "create",
            "--network=none",
            f"--volume={self.shared}:/shared",
            *carry,
            *env,
            *options,
            image,
            "/tendon-hand",
            *listen,
            *args,
        )
        if copy:
            engine.docker("cp", hand, f"{self.id}:/tendon-hand")

    # --- life -----------------------------------------------------------------------------------

    def state(self):
        return json.loads(self.engine.docker("inspect", "--format", "{{json .State}}", self.id))

    def logs(self):
        result = self.engine.try_docker("logs", self.id)
        return result.stdout + result.stderr

    def start(self, ready=True):
        self.engine.docker("start", self.id)
        if self.port:
            self.client = NamespaceClient((self.state()["Pid"], self.port), self.headers)
        else:
            self.client = Client(str(self.shared / "sock"), self.headers)
        if ready:
            wait_until(self.is_ready, 20, "GET /alive 200")
        return self

    def is_ready(self):
        try:
            return self.client.get("/alive", timeout=5).status == 200
        except OSError:
            state = self.state()
            assert state["Running"], f"ended with {state['ExitCode']}:\n{self.logs()}"
            return False

    def shell(self, program, directory="/workspace"):
        """A fresh session."""
        kind = NamespaceShell if self.port else Shell
        return kind(self.client, f"s{uuid.uuid4().hex[:8]}", directory, program)

    def wait(self):
        """Exit code of a container that ends by itself."""
        return int(self.engine.docker("wait", self.id))

    def stop(self):
        """Returns how many seconds it took; after ten it would be killed."""
        began = time.monotonic()
        self.engine.docker("stop", self.id)
        return time.monotonic() - began

    def kill(self):
        self.engine.docker("kill", self.id)

    def exec(self, *command, user="root"):
        """What a command in the container printed; docker runs it, not the hand."""
        return self.engine.docker("exec", "--user", user, self.id, *command)

    def diff(self):
        """Paths that differ from the image."""
        return [line[2:] for line in self.engine.docker("diff", self.id).splitlines()]

    def remove(self):
        self.engine.docker("rm", "--force", "--volumes", self.id)
        wait_until(lambda: not self.engine.processes(self.id), 5, "its processes ended")
        shutil.rmtree(self.shared)


def start_engine(kind, *programs):
    """One of the kind; skips the test where there can be none."""
    if os.getuid() != 0:
        pytest.skip("needs root: starts a container engine")
    for program in (*programs, "docker", "ip", "nsenter", "openssl", "setpriv", "unshare"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    probe = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"no private namespaces here: {probe.stderr}")
    return kind()
