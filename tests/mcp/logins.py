"""An MCP server that wants a login, and the authorization server that gives it."""

import base64
import hashlib
import http.server
import json
import threading
import urllib.parse
from collections import Counter




class Site(http.server.ThreadingHTTPServer):
    """One HTTP server; a subclass answers with (status, object[, headers])."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.seen = []  # (method, path, headers, body)
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def answer(self, method):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.seen.append((method, self.path, dict(self.headers), body))
        path, _, query = self.path.partition("?")
        status, value, *more = self.server.answer(method, path, query, self.headers, body)
        data = json.dumps(value).encode() if value is not None else b""
        self.send_response(status)
        for name, text in (more[0] if more else {}).items():
            self.send_header(name, text)
        if data:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer("GET")

    def do_POST(self):
        self.answer("POST")

    def do_DELETE(self):
        self.answer("DELETE")


class Issuer(Site):
    """Gives tokens; each refresh token once."""

    def __init__(self):
        super().__init__()
        self.metadata = {
            "issuer": self.url,
            "authorization_endpoint": self.url + "/authorize",
            "token_endpoint": self.url + "/token",
            "registration_endpoint": self.url + "/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        }
        self.lifetime = 3600
        self.kind = "Bearer"  # of tokens
        self.challenges = {}
        self.valid = set()
        self.refreshes = Counter()
        self.made = 0

    def tokens(self):
        with self.lock:
            self.made += 1
            self.valid.add(f"access-{self.made}")
            return 200, {"access_token": f"access-{self.made}", "refresh_token": f"refresh-{self.made}",
                         "token_type": self.kind, "expires_in": self.lifetime}

    def answer(self, method, path, query, headers, body):
        asked = dict(urllib.parse.parse_qsl(query or body))
        if path == "/.well-known/oauth-authorization-server":
            return 200, self.metadata
        if path == "/register":
            return 201, {"client_id": "registered", "redirect_uris": json.loads(body)["redirect_uris"]}
        if path == "/authorize":
            self.challenges["code-1"] = asked["code_challenge"]
            back = urllib.parse.urlencode({"code": "code-1", "state": asked["state"]})
            return 302, None, {"Location": f"{asked['redirect_uri']}?{back}"}
        if path == "/token" and asked["grant_type"] == "authorization_code":
            digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
            proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if proof != self.challenges.pop(asked["code"], None):
                return 400, {"error": "invalid_grant"}
            return self.tokens()
        if path == "/token" and "refresh_token" not in asked:
            return self.tokens()  # to a machine
        if path == "/token":
            self.refreshes[asked["refresh_token"]] += 1
            return self.tokens()
        return 404, {}


class Guarded(Site):
    """An MCP server of one tool, for whoever has a token of the issuer."""

    def __init__(self, issuer):
        super().__init__()
        self.issuer = issuer
        self.named = issuer.url  # as the authorization server
        self.resource = self.url + "/mcp"
        self.scheme = "Bearer"

    def answer(self, method, path, query, headers, body):
        if path == "/.well-known/oauth-protected-resource/mcp":
            return 200, {"resource": self.resource, "authorization_servers": [self.named]}
        if path != "/mcp" or method != "POST":
            return 404 if path != "/mcp" else 405, {}
        if headers.get("Authorization", "").removeprefix(self.scheme + " ") not in self.issuer.valid:
            where = f"{self.url}/.well-known/oauth-protected-resource/mcp"
            return 401, {}, {"WWW-Authenticate": f'Basic realm="x, y", {self.scheme} resource_metadata="{where}"'}
        message = json.loads(body)
        results = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "x", "version": "1"}},
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "called"}]},
        }
        if "id" not in message:
            return 202, None
        if message["method"] not in results:
            return 400, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
