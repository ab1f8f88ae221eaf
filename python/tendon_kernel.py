"""Drives one IPython kernel for the hand, with JSON lines: requests on descriptor 3, answers on 4.

Run as: python3 tendon_kernel.py PREFIX [MODULE...].  The kernel listens on sockets PREFIX-1 to
PREFIX-5 (no port is opened) and PREFIX.json is its connection file, for whoever attaches with
Jupyter's tools.  Once it is ready it imports the modules in a thread of its own.

First line out: {"interpreter", "kernel": pid, "file"} once the kernel process exists, or
{"missing": [modules]}.  Second: {"ready": true}.  Then for every request

    {"id": 1, "code": "...", "timeout": 10.0, "cwd": "/", "env": {"A": "1", "B": null},
     "init": [{"name": "...", "code": "..."}]}

one answer {"id": 1, "end": "done" | "timeout" | "died", "text", "images", "warnings", "stopped"}.
With "live": true in a request, {"id": 1, "live": "..."} before it for all that the cell prints.
When a cell has not stopped yet although it was interrupted, {"id": 1, "stopped": true} follows;
after one that makes the kernel exit, nothing does but the end.
SIGURG interrupts the request's cell as soon as it has begun; a request that is still being set up
is then not run.  SIGWINCH gives it up: the same, once, and a cell that goes on costs the kernel.
The kernel ends with this program, and this program with the kernel, of which its last line tells:
{"died": "ended with exit code 1"}.
"""

import base64
import collections
import ctypes
import hmac
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid

IN, OUT = 3, 4
BRIDGE = os.getpid()
LIBC = ctypes.CDLL(None)
PATH_MAX = 100  # of a socket's name; the system takes 107
TEXT_MAX = 1000000  # characters of a cell's output; the middle of more is left out
DISPLAY_MAX = 100000  # of one display that may be updated
PARTS_MAX = 20  # of a cell's output
ENDS_MAX = TEXT_MAX // 2  # bytes of each end of a message that is too large
MESSAGE_MAX = 1 << 24  # bytes; of a larger message only both ends are looked at
IMAGES_MAX = 12000000  # bytes of all images of a cell as data URLs
WORDS_MAX = 2000  # bytes of what a kernel that died said last
STOP_SECONDS = 0.6  # between an interrupt and the answer
GRACE_SECONDS = 3.0  # between an interrupt and the end of a kernel that ignores it
IDLE_SECONDS = 5.0  # between the reply and the notice that all output is out
REPLY_SECONDS = 2.0  # between that notice and a reply that is late

ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC, DCS and other strings
    r"|[ -/]*[0-~])?"
)
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")
SHOWN = ("execute_result", "display_data", "update_display_data")
NO_OUTPUT = "[Code executed successfully with no output]"
STUBBORN = "did not stop when its cell was interrupted, and was killed"
TEXTS = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")


# Defines no name that a cell could see.  At the normal priority: threads that a module starts, those
# of OpenBLAS for one, keep the priority of the thread that imported it.
PRELOAD = """
import contextlib, importlib, threading

def load():
    for module in modules:
        with contextlib.suppress(Exception):  # a cell that wants it will be told
            importlib.import_module(module)

threading.Thread(target=load, daemon=True).start()
"""


class Died(Exception):
    """The kernel has ended."""


class Closed(Exception):
    """The hand wants nothing more."""


class Text:
    """A text of any length of which both ends are kept."""

    def __init__(self, limit=TEXT_MAX):
        self.half = limit // 2
        self.head, self.room = [], self.half
        self.tail, self.kept, self.length = collections.deque(), 0, 0

    def add(self, text):
        self.length += len(text)
        if self.room:
            self.head.append(text[: self.room])
            text = text[self.room :]
            self.room -= len(self.head[-1])
        if not text:
            return
        self.tail.append(text[-self.half :])
        self.kept += len(self.tail[-1])
        while self.kept - len(self.tail[0]) >= self.half:
            self.kept -= len(self.tail.popleft())

    def __str__(self):
        head, tail = "".join(self.head), "".join(self.tail)[-self.half :]
        missing = self.length - len(head) - len(tail)
        note = "\n[... %d characters of output are left out ...]\n" % missing if missing else ""
        return ESCAPES.sub("", head + note + tail)


class Part:
    """A piece of output: what was printed and shown in a row, or one display that may be updated."""

    def __init__(self):
        self.text, self.images = Text(), []


class Output:
    """What a cell shows: what was cleared is gone, what was updated is there once."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.parts, self.displays, self.size = [], {}, 0
        self.stale = False  # to be cleared by what comes next

    def part(self):
        """Where plain output goes."""
        if not self.parts or self.parts[-1] in self.displays.values():
            self.add_part()
        return self.parts[-1]

    def add_part(self):
        if len(self.parts) == PARTS_MAX:
            self.settle()
        self.parts.append(Part())
        return self.parts[-1]

    def settle(self):
        """Makes one part of all: nothing of it can be updated any more."""
        if self.parts[0] in self.displays.values():
            self.parts.insert(0, Part())
        whole = self.parts[0]
        for part in self.parts[1:]:
            whole.text.add(str(part.text))
            whole.images += part.images
        self.parts, self.displays = [whole], {}

    def display(self, name, update):
        """An empty part for a display: that of its last content, if this cell has shown any."""
        part = self.displays.get(name) if update else None
        if part is None:
            part = self.displays[name] = self.add_part()
        self.size -= sum(map(len, part.images))
        part.text, part.images = Text(DISPLAY_MAX), []
        return part

    def show(self, data, part):
        """One result in the forms a notebook could choose from: a text and a picture of it."""
        picture = next((kind for kind in IMAGES if kind in data), None)
        text = next((kind for kind in TEXTS if kind in data), None)
        if text and (text == TEXTS[0] or not picture):
            part.text.add(as_text(data[text]))
        if picture:
            self.add_image(picture, as_text(data[picture]), part)

    def add_image(self, kind, content, part):
        if kind == "image/svg+xml":
            content = base64.b64encode(content.encode("utf-8", "replace")).decode()
        url = "data:%s;base64,%s" % (kind, "".join(content.split()))
        self.size += len(url)
        if self.size > IMAGES_MAX:
            self.size -= len(url)
            part.text.add("\n[An image of %d bytes is too large and left out.]\n" % len(url))
        else:
            part.images.append(url)

    def take(self, message):
        kind, content = message["msg_type"], message["content"]
        if kind == "clear_output":
            self.stale = True
            if not content.get("wait"):
                self.clear()
            return
        if kind not in ("stream", "error") + SHOWN:
            return
        if self.stale:
            self.clear()
        if kind == "stream":
            self.part().text.add(content["text"])
        elif kind == "error":
            self.part().text.add("\n".join(content["traceback"]))
        else:
            name = content.get("transient", {}).get("display_id")
            update = kind == "update_display_data"
            self.show(content["data"], self.display(name, update) if name else self.part())

    def take_reply(self, content):
        """The reply repeats an error, but holds what `name?` and %page show."""
        for payload in content.get("payload") or []:
            if payload.get("source") == "page":
                self.show(payload.get("data", {}), self.part())

    def note(self, text):
        self.part().text.add(text)

    @property
    def text(self):
        if len(self.parts) == 1:
            return str(self.parts[0].text)
        whole = Text()
        for part in self.parts:
            whole.add(str(part.text))
        return str(whole)

    @property
    def images(self):
        return [image for part in self.parts for image in part.images]


OPENING = re.compile(
    rb'\s*{\s*(?:"name"\s*:\s*"\w*"\s*,\s*"text"|"data"\s*:\s*{\s*"text/plain")\s*:\s*"'
)
CLOSING = re.compile(rb'"\s*}(?:\s*,\s*"(?:metadata|transient|execution_count)"\s*:[^"\\]*)*\s*$')


FAILED = re.compile(rb'"status"\s*:\s*"error"')  # a key: quotes inside of texts are escaped


def ends_of(content):
    """The text that a large message holds, without its middle; content is JSON."""
    begin = OPENING.match(content[:200])
    end = CLOSING.search(content[-500:])
    if not begin or not end:
        return "\n[An output of %d bytes is too large and left out.]\n" % len(content)
    first, last = begin.end(), len(content) - min(500, len(content)) + end.start()
    missing = last - first - 2 * ENDS_MAX
    head = unquote(bytes(content[first : first + ENDS_MAX]))
    tail = unquote(bytes(content[last - ENDS_MAX : last]))
    return "%s\n[... about %d characters of output are left out ...]\n%s" % (head, missing, tail)


def unquote(text):
    """A piece of a JSON string: what is cut in two at its ends is dropped."""
    text = text.decode("utf-8", "ignore")
    for begin in range(7):
        for end in range(13):
            try:
                piece = json.loads('"%s"' % text[begin : len(text) - end], strict=False)
            except ValueError:
                continue
            return piece.encode("utf-8", "ignore").decode()
    return ""


def as_text(value):
    if isinstance(value, list):  # lines, as notebooks keep them
        value = "".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def send(message):
    line = memoryview(json.dumps(message).encode() + b"\n")
    while line:
        line = line[os.write(OUT, line) :]


def remove_files(paths):
    """What a kernel of the same name left."""
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def prepare_kernel():
    """In the kernel's process, before it becomes one: a group of its own, and it dies with us."""
    os.setpgid(0, 0)
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != BRIDGE:
        os._exit(1)


class Kernel:
    """The kernel's process, and our connections to it."""

    def __init__(self, prefix):
        self.file = prefix + ".json"
        self.connection = self.describe(prefix)
        self.deaths, wake = os.pipe()
        for end in (self.deaths, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ipykernel_launcher", "-f", self.file]
            + ["--InteractiveShell.colors=NoColor", "--HistoryManager.hist_file=:memory:"],
            env=self.environment(prefix),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=prepare_kernel,
        )
        self.stderr = self.process.stderr.fileno()
        os.set_blocking(self.stderr, False)
        self.words = b""
        self.how = ""  # why it was ended, when we did it
        self.obituary = ""
        self.requests = bytearray()

    def describe(self, prefix):
        """Makes the connection file."""
        ports = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
        connection = {port: number for number, port in enumerate(ports, 1)}
        connection.update(
            transport="ipc",
            ip=prefix,
            key=uuid.uuid4().hex,
            signature_scheme="hmac-sha256",
            kernel_name="python3",
        )
        if len(os.fsencode(prefix)) > PATH_MAX:
            from jupyter_client.connect import write_connection_file

            write_connection_file(self.file, ip="127.0.0.1", key=connection["key"].encode())
            with open(self.file) as file:
                return json.load(file)
        remove_files([self.file] + ["%s-%d" % (prefix, connection[port]) for port in ports])
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as file:
            json.dump(connection, file, indent=1)
        return connection

    @staticmethod
    def environment(prefix):
        """Ours; without a home to write to, IPython must not leave a directory behind in /tmp."""
        environment = dict(os.environ)
        place = environment.get("IPYTHONDIR") or os.path.expanduser("~/.ipython")
        while not os.path.exists(place) and place != "/":
            place = os.path.dirname(place)
        if not os.access(place, os.W_OK):
            environment["IPYTHONDIR"] = prefix + ".ipython"
        return environment

    def connect(self):
        """Opens the channels, while the kernel is still busy starting."""
        import zmq
        from jupyter_client.session import Session

        self.zmq = zmq
        self.session = Session(key=self.connection["key"].encode(), signature_scheme="hmac-sha256")
        context = zmq.Context()
        self.shell = self.channel(context, zmq.DEALER, "shell_port")
        self.iopub = self.channel(context, zmq.SUB, "iopub_port")
        self.poller = zmq.Poller()
        for source in (self.shell, self.iopub, self.stderr, self.deaths, IN):
            self.poller.register(source, zmq.POLLIN)

    def channel(self, context, kind, port):
        socket = context.socket(kind)
        socket.linger = 0
        socket.rcvhwm = 0  # the end of a cell must not be lost behind a flood of output
        socket.reconnect_ivl = 5  # milliseconds: it is not there yet
        if kind == self.zmq.SUB:
            socket.subscribe(b"")
        separator = "-" if self.connection["transport"] == "ipc" else ":"
        address = self.connection["ip"] + separator + str(self.connection[port])
        socket.connect("%s://%s" % (self.connection["transport"], address))
        return socket

    def wait(self, deadline):
        """The messages that are there by then, as (channel, message); (None, None): it is dead."""
        left = max(0, deadline - time.monotonic())
        ready = dict(self.poller.poll(left * 1000 + 1))
        if self.stderr in ready:
            self.hear()
        if IN in ready:
            self.listen()
        messages = []
        for channel in (self.iopub, self.shell):
            if channel in ready:
                messages += self.receive(channel)
        if self.deaths in ready:
            os.read(self.deaths, 4096)
            if self.process.poll() is not None:
                messages += self.receive(self.iopub) + self.receive(self.shell)
                messages.append((None, None))
        return messages

    def receive(self, channel):
        messages, room = [], MESSAGE_MAX
        while len(messages) < 100 and room > 0:
            try:
                frames = channel.recv_multipart(self.zmq.NOBLOCK, copy=False)
            except self.zmq.Again:
                break
            size = sum(len(frame.buffer) for frame in frames)
            room -= size
            try:
                message = (self.unpack if size <= MESSAGE_MAX else self.unpack_ends)(frames)
            except ValueError:  # a signature that is not ours, or not a message at all
                continue
            messages.append((channel, message))
        return messages

    def unpack(self, frames):
        _, frames = self.session.feed_identities(frames, copy=False)
        return self.session.deserialize(frames, copy=False)

    def unpack_ends(self, frames):
        """A message that is too large to be taken apart as a whole: once in memory is enough."""
        _, frames = self.session.feed_identities(frames, copy=False)
        signature, header, parent, metadata, content = frames[:5]
        digest = self.session.auth.copy()
        for frame in (header, parent, metadata, content):
            digest.update(frame.buffer)
        if not hmac.compare_digest(digest.hexdigest().encode(), signature.bytes):
            raise ValueError("signature")
        header = json.loads(header.bytes.decode())
        message = {"msg_type": header["msg_type"], "parent_header": json.loads(parent.bytes.decode())}
        if message["msg_type"] == "execute_reply":  # what %page shows, or an error once more
            status = "error" if FAILED.search(content.buffer) else "ok"
            return dict(message, content={"status": status})
        return dict(message, msg_type="stream", content={"text": ends_of(content.buffer)})

    def hear(self):
        """Keeps what it says on stderr: its last words, perhaps."""
        try:
            words = os.read(self.stderr, 65536)
        except BlockingIOError:
            return
        if not words and not self.obituary:
            self.poller.unregister(self.stderr)
        self.words = (self.words + words)[-WORDS_MAX:]

    def listen(self):
        more = os.read(IN, 65536)
        if not more:
            raise Closed
        self.requests += more

    def request(self, kind, content):
        return self.session.send(self.shell, kind, content)["header"]["msg_id"]

    def wait_ready(self):
        """Until it answers and we hear what it publishes."""
        asked = set()
        ask_at = 0
        while True:
            if time.monotonic() >= ask_at:
                asked.add(self.request("kernel_info_request", {}))
                ask_at = time.monotonic() + 0.1
            for channel, message in self.wait(ask_at):
                if message is None:
                    raise Died
                ours = message["parent_header"].get("msg_id") in asked
                if ours and channel is self.iopub:
                    self.words = b""  # nothing that matters any more
                    return

    def preload(self, modules):
        """The reply is not waited for: it is of no cell."""
        Cell(self, "exec(%r, {'modules': %r})" % (PRELOAD, modules), silent=True)

    def interrupt(self):
        if self.process.returncode is None:  # its number is still its own
            os.killpg(self.process.pid, signal.SIGINT)

    def end(self):
        """Kills what is left of it and says how it ended."""
        if self.obituary:
            return self.obituary
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = self.process.wait()
        self.obituary = self.how or describe_status(status)
        self.hear()
        words = ESCAPES.sub("", self.words.decode(errors="replace")).strip()
        if words and status:
            self.obituary += ": " + words
        return self.obituary


def describe_status(status):
    if status >= 0:
        return "ended with exit code %d" % status
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "signal %d" % -status
    return "was ended by " + name + (" (out of memory?)" if name == "SIGKILL" else "")


class Cell:
    """One execution in the kernel: it has ended when the reply is here and all output before it.

    One that is interrupted before its code or after it, among the kernel's own, gets no reply."""

    def __init__(self, kernel, code, silent=False):
        self.output = Output()
        self.begun = self.replied = self.idle = False  # of a silent one we do not hear that it begins
        self.reply = {}
        self.end_by = None
        self.kernel = kernel
        self.live = None  # the request that wants to hear what it prints, as it does
        self.id = kernel.request(
            "execute_request",
            {
                "code": code,
                "silent": silent,
                "store_history": False,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": False,
            },
        )

    @property
    def ended(self):
        if self.replied and self.idle:
            return True
        return self.end_by is not None and time.monotonic() > self.end_by

    def wait(self, deadline, disturbed=lambda: False):
        """True when it has ended by the deadline and before it is disturbed."""
        while not self.ended and not disturbed() and time.monotonic() < deadline:
            until = deadline if self.end_by is None else min(deadline, self.end_by)
            for channel, message in self.kernel.wait(until):
                if message is None:
                    raise Died
                if message["parent_header"].get("msg_id") == self.id:
                    self.take(channel, message)
        return self.ended

    def take(self, channel, message):
        if message["msg_type"] == "status":
            self.idle = message["content"]["execution_state"] == "idle"
            if self.idle:
                self.end_by = time.monotonic() + REPLY_SECONDS
        elif message["msg_type"] == "execute_input":
            self.begun = True
        elif channel is self.kernel.iopub:
            if self.live and message["msg_type"] == "stream":
                send({"id": self.live, "live": message["content"]["text"]})
            self.output.take(message)
        elif message["msg_type"] == "execute_reply":
            self.replied = True
            self.end_by = time.monotonic() + IDLE_SECONDS
            self.reply = message["content"]
            self.output.take_reply(self.reply)
            if self.reply.get("status") == "aborted":
                self.output.note("[The kernel did not run this cell.]\n")

    @property
    def failed(self):
        """It raised something, was not run, or has not told."""
        return self.reply.get("status") != "ok"

    @property
    def exits(self):
        return any(p.get("source") == "ask_exit" for p in self.reply.get("payload") or [])


class Bridge:
    """Requests, one after the other."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.cell = None
        self.interrupted = self.given_up = False  # the request at hand
        self.steps = []  # what requests rely on and time was up for, too
        signal.signal(signal.SIGURG, self.note_interrupt)
        signal.signal(signal.SIGWINCH, self.note_given_up)

    def note_interrupt(self, *_):
        self.interrupted = True

    def note_given_up(self, *_):
        """Further ones are of no effect: they would hit what the cell does to clean up."""
        if not self.given_up:
            self.given_up = self.interrupted = True

    def read(self):
        requests = self.kernel.requests
        while b"\n" not in requests:
            for _, message in self.kernel.wait(time.monotonic() + 3600):
                if message is None:
                    raise Died
        end = requests.index(b"\n")
        line = bytes(requests[:end])
        del requests[: end + 1]
        return json.loads(line.decode())

    def run(self, request):
        """Carries it out by its deadline; the answer."""
        self.interrupted = self.given_up = False
        deadline = time.monotonic() + request["timeout"]
        warnings = []
        done = self.set_up(request, deadline, warnings)
        if done and self.interrupted:
            return {
                "id": request["id"],
                "end": "done",
                "text": "[The cell was not run: it was interrupted.]",
                "failed": True,
                "warnings": warnings,
                "stopped": True,
            }
        done = done and self.run_code(request, deadline)
        output = self.cell.output
        if done and not self.cell.replied:
            output.note("[The cell was interrupted.]\n")
        text = output.text or (NO_OUTPUT if done else "")
        return {
            "id": request["id"],
            "end": "done" if done else "timeout",
            "text": text.rstrip(),
            "images": output.images if done else [],
            "failed": self.cell.failed,
            "warnings": warnings,
            "stopped": (done or self.stop()) and not self.cell.exits,
        }

    def run_code(self, request, deadline):
        """True when it has ended by the deadline.  It is not interrupted before it has begun: the
        kernel would not notice."""
        self.cell = Cell(self.kernel, request["code"])
        self.cell.live = request["id"] if request.get("live") else None
        while not self.cell.wait(deadline, lambda: self.interrupted and self.cell.begun):
            if time.monotonic() >= deadline:
                return False
            self.interrupted = False
            self.kernel.interrupt()
            if self.given_up:
                self.await_end()
        return True

    def set_up(self, request, deadline, warnings):
        """What the cell relies on: directory, variables, names.  False when time is up."""
        code = ""
        if "cwd" in request:
            code += "import os; os.chdir(%r)\n" % request["cwd"]
        for name, value in request.get("env", {}).items():
            if value is None:
                code += "__import__('os').environ.pop(%r, None)\n" % name
            else:
                code += "__import__('os').environ[%r] = %r\n" % (name, value)
        self.steps += [(None, code)] if code else []
        self.steps += [(step["name"], step["code"]) for step in request.get("init", [])]
        while self.steps:
            name, code = self.steps[0]
            self.cell = Cell(self.kernel, code, silent=True)
            if not self.cell.wait(deadline):
                return False
            del self.steps[0]
            if name and self.cell.reply.get("status") == "error":
                reply = self.cell.reply
                warnings.append("%s: %s: %s" % (name, reply.get("ename"), reply.get("evalue")))
        return True

    def await_end(self):
        """Of a cell that was interrupted for good."""
        if not self.cell.wait(time.monotonic() + GRACE_SECONDS):
            self.kernel.how = STUBBORN
            raise Died

    def stop(self):
        self.kernel.interrupt()
        return self.cell.wait(time.monotonic() + STOP_SECONDS)

    def answer(self, request):
        try:
            answer = self.run(request)
        except Died:
            output = self.cell.output
            send(
                {
                    "id": request["id"],
                    "end": "died",
                    "text": output.text.rstrip(),
                    "images": output.images,
                    "died": self.kernel.end(),
                }
            )
            raise
        send(answer)
        if self.cell.exits:
            self.leave()
        if not answer["stopped"]:
            self.await_end()
            send({"id": request["id"], "stopped": True})

    def leave(self):
        """The kernel is about to end by itself, because the cell said so."""
        self.kernel.how = "was told to exit"
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline:
            for _, message in self.kernel.wait(deadline):
                if message is None:
                    raise Died
        raise Died

    def serve(self):
        while True:
            self.answer(self.read())


def main():
    missing = [m for m in ("ipykernel", "jupyter_client") if importlib.util.find_spec(m) is None]
    if missing:
        send({"missing": missing})
        return
    kernel = Kernel(sys.argv[1])
    try:
        send({"interpreter": sys.executable, "kernel": kernel.process.pid, "file": kernel.file})
        kernel.connect()
        kernel.wait_ready()
        if sys.argv[2:]:
            kernel.preload(sys.argv[2:])
        send({"ready": True})
        Bridge(kernel).serve()
    except Died:
        send({"died": kernel.end()})
    except Closed:
        kernel.end()


if __name__ == "__main__":
    main()
