#!/usr/bin/python3
"""token_server.py PORT KEY CERTIFICATE: gives tokens for a registry to user "me" with password "secret", and for the
refresh token "lasting"; prints each request's way and scope; ends with its parent."""

import base64
import ctypes
import http.server
import json
import signal
import subprocess
import sys
import time
import urllib.parse

PR_SET_PDEATHSIG = 1
PASSWORD = "Basic " + base64.b64encode(b"me:secret").decode()


def encode(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(scope):
    """A signed statement that its owner may do this; the registry knows the certificate."""
    kind, name, actions = scope.split(":")
    with open(sys.argv[3], encoding="ascii") as f:
        certificate = "".join(line for line in f.read().splitlines() if "-" not in line)
    now = int(time.time())
    claims = {"iss": "tests", "aud": "registry", "sub": "me", "jti": "1", "iat": now, "nbf": now - 60, "exp": now + 600,
              "access": [{"type": kind, "name": name, "actions": actions.split(",")}]}
    text = encode({"typ": "JWT", "alg": "RS256", "x5c": [certificate]}) + "." + encode(claims)
    sign = ["openssl", "dgst", "-sha256", "-sign", sys.argv[2]]
    return text + "." + encode(subprocess.run(sign, input=text.encode(), capture_output=True, check=True).stdout)


class Server(http.server.BaseHTTPRequestHandler):
    def give(self, way, pairs, allowed):
        print(way, pairs["scope"], flush=True)
        body = {"token": token(pairs["scope"])} if allowed else {"errors": [{"message": "wrong password"}]}
        if way == "POST" and allowed:
            body = {"access_token": body["token"]}
        body = json.dumps(body).encode()
        self.send_response(200 if allowed and pairs["service"] == "registry" else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        pairs = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        self.give("GET", pairs, self.headers["Authorization"] == PASSWORD)

    def do_POST(self):
        pairs = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.give("POST", pairs, pairs.get("refresh_token") == "lasting")

    def log_message(self, *_):
        pass


ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server)
print("ready", flush=True)
server.serve_forever()
