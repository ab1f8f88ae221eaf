"""What the vendors' SDKs and the service say to each other: recorded once (record.py), and played back where there is no SDK.

A recording is a list of exchanges in the order in which they began. Playing sends the same requests, each when those have ended
that had ended before, with the ids, tokens and addresses of today in place of those of the recording; an answer must have the
recorded status, type and shape (the same members with values of the same kinds; to who asks how something
is, also the same state)."""

import base64
import concurrent.futures
import http.client
import http.server
import json
import re
import struct
import threading
import time
import zlib

from services import PATIENCE

HOP = ("connection", "content-length", "host", "keep-alive", "te", "transfer-encoding", "upgrade")
# What SDKs say of themselves and of their machine is nobody's business.
QUIET = ("accept", "accept-encoding", "date", "traceparent", "user-agent", "x-request-id")
BEGINNING = 4096  # of an answer that is no JSON: its first message is in it


# --- recording -------------------------------------------------------------------------------------------------------


class Recorder(http.server.ThreadingHTTPServer):
    """Stands before the service and writes down what passes."""

    daemon_threads = True

    def __init__(self, service, key):
        super().__init__(("127.0.0.1", 0), Handler)
        self.service, self.key, self.lock = service, key, threading.Lock()
        self.exchanges = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def connect(self, timeout):
        return http.client.HTTPConnection(*self.server_address, timeout=timeout)

    def begin(self, exchange):
        with self.lock:
            exchange["after"] = [i for i, one in enumerate(self.exchanges) if one["over"]]
            exchange["while"] = [i for i, one in enumerate(self.exchanges) if "status" in one and not one["over"]]
            exchange["over"] = False
            self.exchanges.append(exchange)

    def saved(self):
        """As text, without what this key and this machine are called, and without links, which only their maker can sign."""
        said = [i for i, one in enumerate(self.exchanges)
                if "status" in one and not re.search("signature=|/preview/", one["request"])]
        # Of somebody who asks again and again how something is the last time counts.
        said = [i for i, after in zip(said, [*said[1:], None])
                if after is None or not one_again(self.exchanges[i], self.exchanges[after])]
        kept = [self.exchanges[i] for i in said]
        for one in kept:
            one.pop("over")
            for name in ("after", "while"):
                one[name] = [said.index(i) for i in one[name] if i in said]
        for one in reversed(kept):  # those after which the others had ended anyway need not be named
            one["after"] = sorted(set(one["after"]) - {i for j in one["after"] for i in kept[j]["after"]})
        text = json.dumps(kept, indent=1).replace(self.key, "KEY")
        return text.replace(f"127.0.0.1:{self.server_address[1]}", "SERVICE") + "\n"


def one_again(one, other):
    return one["request"].startswith("GET ") and one["request"] == other["request"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def handle_any(self):
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() not in HOP}
        exchange = {
            "request": f"{self.command} {self.path}",
            "headers": {name: value for name, value in sorted(headers.items())
                        if name not in QUIET and not name.startswith(("x-stainless", "x-daytona-s"))},
        }
        self.server.begin(exchange)
        body = self.read_body()
        exchange |= as_text("body", body)
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.service.port, timeout=100)
        upstream.request(self.command, self.path, body, {**headers, "Host": self.headers["Host"]})
        answer = upstream.getresponse()
        exchange["status"] = answer.status
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP:
                self.send_header(name, value)
        length = answer.getheader("Content-Length")
        pieces = length is None and answer.status != 204 and self.command != "HEAD"
        if length or pieces:
            self.send_header(*(("Transfer-Encoding", "chunked") if pieces else ("Content-Length", length)))
        self.end_headers()
        whole = b""
        try:
            while piece := answer.read1(65536):
                whole += piece
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if pieces else piece)
            if pieces:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # it has heard enough
        upstream.close()
        kind = kind_of(answer)
        kept = shortened(whole) if kind == "application/json" else whole[:BEGINNING]
        exchange |= {"type": kind} | as_text("answer", kept)
        exchange["over"] = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_any


def as_text(name, body):
    """A member for JSON: as text where it is one."""
    try:
        return {name: body.decode()} if body else {}
    except UnicodeDecodeError:
        return {name + "64": base64.b64encode(zlib.compress(body)).decode()}


def shortened(body):
    """JSON whose texts are short: it is their place that counts."""

    def cut(value):
        if isinstance(value, dict):
            return {name: cut(one) for name, one in value.items()}
        return [cut(one) for one in value] if isinstance(value, list) else value[:BEGINNING] if isinstance(value, str) else value

    return json.dumps(cut(json.loads(body))).encode() if body else b""


def kind_of(answer):
    return (answer.getheader("Content-Type") or "").split(";")[0]


# --- playing ---------------------------------------------------------------------------------------------------------


def bytes_of(exchange, name):
    if name + "64" in exchange:
        return zlib.decompress(base64.b64decode(exchange[name + "64"]))
    return exchange.get(name, "").encode()


def first_message(body, kind):
    """What an answer, or the beginning of one, says in JSON; None: nothing yet."""
    try:
        if kind.startswith("application/connect"):
            size = struct.unpack(">I", body[1:5])[0]
            return json.loads(body[5:5 + size])
        if kind == "text/event-stream":
            return json.loads(re.search(rb"^data: ?(.*)\n", body, re.M)[1])
        return json.loads(body) if kind.endswith("json") else None
    except (ValueError, TypeError, struct.error):
        return None


def same_shape(recorded, actual, states, where=""):
    """Why not; None: they have. states: they must be the same, too."""
    if recorded is None or actual is None:
        return None
    numbers = (int, float)
    if type(recorded) is not type(actual) and not (type(recorded) in numbers and type(actual) in numbers):
        return f"{where or 'the answer'}: {type(recorded).__name__} is {type(actual).__name__} now"
    if isinstance(recorded, dict):
        if recorded.keys() != actual.keys():
            return f"{where or 'the answer'} has {sorted(recorded)}, now {sorted(actual)}"
        for name in ("state", "status") if states else ():
            if isinstance(recorded.get(name), str) and recorded[name] != actual[name]:
                return f"{where}.{name} was {recorded[name]}, and is {actual[name]}"
        problems = (same_shape(recorded[name], actual[name], states, f"{where}.{name}") for name in recorded)
        return next(filter(None, problems), None)
    if isinstance(recorded, list) and recorded:
        return same_shape(recorded[0], actual[0], states, f"{where}[0]") if actual else f"{where or 'the answer'} is empty now"
    return None


class Play:
    """One recording, with that key."""

    def __init__(self, service, key, exchanges):
        self.service, self.exchanges = service, exchanges
        self.words = {"KEY": key, "SERVICE": f"127.0.0.1:{service.port}"}
        self.numbers = {}
        self.heard, self.done = ([threading.Event() for _ in exchanges] for _ in range(2))
        self.deadline = time.monotonic() + PATIENCE

    def learn(self, recorded, actual):
        """That what is at the same place in both means the same."""
        if isinstance(recorded, dict) and isinstance(actual, dict):
            for name in recorded.keys() & actual.keys():
                if name == "pid":
                    self.numbers[recorded[name]] = actual[name]
                self.learn(recorded[name], actual[name])
        elif isinstance(recorded, list) and isinstance(actual, list):
            for one, other in zip(recorded, actual):
                self.learn(one, other)
        elif isinstance(recorded, str) and isinstance(actual, str) and recorded != actual and len(recorded) > 5:
            self.words.setdefault(recorded.strip(), actual.strip())  # a list may have another order

    def today(self, text):
        for word in sorted(self.words, key=len, reverse=True):
            text = text.replace(word, self.words[word])
        return re.sub(r'("pid": ?)(\d+)', lambda m: m[1] + str(self.numbers.get(int(m[2]), m[2])), text)

    def body(self, exchange):
        recorded = bytes_of(exchange, "body")
        kind = exchange["headers"].get("content-type", "")
        if kind.startswith("application/connect"):
            message = self.today(recorded[5:].decode()).encode()
            return struct.pack(">BI", recorded[0], len(message)) + message
        return self.today(recorded.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def ask(self, exchange, heard, patient):
        """Why the answer is another one; None: it is not."""
        method, path = exchange["request"].split(" ", 1)
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=PATIENCE)
        headers = {name: self.today(value) for name, value in exchange["headers"].items()}
        connection.request(method, self.today(path), self.body(exchange), headers)
        answer = connection.getresponse()
        whole, recorded = b"", first_message(bytes_of(exchange, "answer"), exchange["type"])
        told = None
        while piece := answer.read1(65536):
            whole += piece
            if told is None and (told := first_message(whole, kind_of(answer))) is not None:
                self.learn(recorded, told)
                heard.set()
        connection.close()
        if (answer.status, kind_of(answer)) != (exchange["status"], exchange["type"]):
            return f"{answer.status} {kind_of(answer)}: {whole[:500]!r}, recorded {exchange['status']} {exchange['type']}"
        return same_shape(recorded, told, patient)

    def run(self, number):
        exchange = self.exchanges[number]
        for events, those in ((self.done, exchange["after"]), (self.heard, exchange["while"])):
            for i in those:
                assert events[i].wait(max(0, self.deadline - time.monotonic())), f"{i}: {self.exchanges[i]['request']} goes on"
        patient = re.match("GET |.*/wait_for_status|.*(Wait|Poll)$", exchange["request"])
        problem = self.ask(exchange, self.heard[number], patient)
        while problem and patient and time.monotonic() < self.deadline:
            time.sleep(0.1)  # who asks how something is asks again
            problem = self.ask(exchange, self.heard[number], patient)
        assert not problem, f"{number}: {exchange['request']}: {problem}"
        self.heard[number].set()
        self.done[number].set()

    def play(self):
        with concurrent.futures.ThreadPoolExecutor(len(self.exchanges)) as threads:
            all_of_it = [threads.submit(self.run, i) for i in range(len(self.exchanges))]
        problems = [str(one.exception()) for one in all_of_it if one.exception()]
        assert not problems, min(problems, key=lambda text: text.endswith("goes on"))  # it is the others that it kept waiting
