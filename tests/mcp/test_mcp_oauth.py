"""Logins of `tendon tools` at MCP servers that want them (OAuth): what the conformance suite does not ask."""

import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

from logins import Guarded, Issuer

BROWSER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def issuer():
    server = Issuer()
    yield server
    server.close()


@pytest.fixture
def guarded(issuer):
    server = Guarded(issuer)
    yield server
    server.close()


class Tools:
    """`tendon tools --url URL words`"""

    def __init__(self, program, base, url):
        self.program, self.state, self.url = program, base / "state", url
        self.env = {
            **{k: v for k, v in os.environ.items()
               if not k.startswith(("TENDON_", "MCP_")) and not k.lower().endswith("_proxy")},
            "HOME": str(base), "TENDON_CONFIG": "/dev/null", "TENDON_STATE": str(self.state), "SECRET": "s3cret-value",
        }

    def start(self, *words):
        return subprocess.Popen([self.program, "tools", "--url", self.url, *words], env=self.env,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __call__(self, *words, stdin=""):
        child = self.start(*words)
        out, err = child.communicate(stdin, timeout=100)
        return child.returncode, out, err

    def login(self, *words, visit=lambda address: BROWSER.open(address, timeout=60).read()):
        """The login with somebody who opens the address: (status, what it printed, errors)."""
        child = self.start("login", *words)
        said, threads = [], []
        for line in child.stderr:
            said.append(line)
            if re.match(r"https?://\S+$", line):
                threads.append(threading.Thread(target=visit, args=[line.strip()]))
                threads[-1].start()
        out = child.stdout.read()
        for thread in threads:
            thread.join(60)
        child.stdin.close()
        return child.wait(100), out, "".join(said)

    def kept(self):
        """The file with the login, and what is in it."""
        (path,) = (self.state / "mcp").glob("*.json")
        return path, json.loads(path.read_text())

    def change(self, **members):
        path, kept = self.kept()
        path.write_text(json.dumps({**kept, **members}))


@pytest.fixture
def tools(tendon_program, tmp_path, guarded):
    return Tools(tendon_program, tmp_path, guarded.url + "/mcp")


def test_a_login_is_kept(tools, guarded):
    status, _, said = tools("call", "t")
    assert status != 0 and f"it wants a login: tendon tools --url {tools.url} login" in said
    status, listed, said = tools.login()
    assert (status, listed.splitlines()[1].split()[0]) == (0, "t"), said
    path, kept = tools.kept()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert kept["access"] == "access-1" and kept["issuer"] == guarded.issuer.url
    assert "access-1" not in said and "refresh-1" not in said
    assert tools("call", "t")[:2] == (0, "called\n")
    assert tools("logout") == (0, "", "")
    assert not list(path.parent.glob("*.json"))
    assert tools("call", "t")[0] != 0


def test_a_refresh_token_is_spent_once(tools, issuer):
    """Also when many want to renew at once, and when the answer to it is lost."""
    assert tools.login()[0] == 0
    tools.change(expires=1)
    children = [tools.start("call", "t") for _ in range(4)]
    for child in children:
        out, err = child.communicate(timeout=100)
        assert (child.returncode, out) == (0, "called\n"), err
    assert issuer.refreshes == {"refresh-1": 1}
    # It is out of the file before it is sent.
    issuer.valid.clear()
    answer = issuer.answer
    kept = []

    def lose(method, path, query, headers, body):
        if path == "/token":
            kept.append(tools.kept()[1].get("refresh"))
            return 502, {}
        return answer(method, path, query, headers, body)

    issuer.answer = lose
    assert tools("call", "t")[0] != 0 and tools("call", "t")[0] != 0
    assert kept == [None]


def test_a_revoked_token_is_renewed(tools, issuer):
    assert tools.login()[0] == 0
    issuer.valid.clear()
    assert tools("call", "t")[:2] == (0, "called\n")
    assert issuer.refreshes == {"refresh-1": 1} and tools.kept()[1]["refresh"] == "refresh-2"


def test_a_secret_goes_to_its_issuer_only(tools, guarded, issuer):
    status, _, said = tools.login("--client-id", "known", "--client-secret-from", "SECRET")
    assert status == 0, said
    sent = [headers["Authorization"] for _, path, headers, _ in issuer.seen if path == "/token"]
    assert sent and all(s.startswith("Basic ") for s in sent)
    other = Issuer()
    try:
        guarded.named = other.url
        issuer.valid.clear()
        tools.change(refresh=None)
        status, _, said = tools("--login", "call", "t")
        assert status != 0 and "the client's secret is for " + issuer.url in said
        assert {path for _, path, _, _ in other.seen} == {"/.well-known/oauth-authorization-server"}
    finally:
        other.close()


def test_the_answer_must_be_the_one_that_is_waited_for(tools):
    """A stranger who guesses the address of the callback is refused, and the login goes on."""
    refused = []

    def visit(address):
        back = re.search(r"redirect_uri=([^&]+)", address)[1]
        try:
            BROWSER.open(urllib.parse.unquote(back) + "?code=theirs&state=guessed", timeout=60)
        except urllib.error.HTTPError as problem:
            refused.append(problem.code)
        BROWSER.open(address, timeout=60).read()

    status, _, said = tools.login(visit=visit)
    assert status == 0 and refused == [400], said


def test_a_browser_elsewhere(tools, issuer):
    """--paste: the address at which the browser ended is typed in."""
    child = tools.start("login", "--paste")
    address = next(line for line in child.stderr if line.startswith("http"))

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args):
            return None

    with pytest.raises(urllib.error.HTTPError) as sent:
        urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay).open(address.strip(), timeout=60)
    out, err = child.communicate(sent.value.headers["Location"] + "\n", timeout=100)
    assert child.returncode == 0 and out.splitlines()[1].split()[0] == "t", err


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"named": "http://10.0.0.1/issuer"}, "expected https, found 'http://10.0.0.1'"),
        ({"named": "http://auth.example"}, "expected https"),
        ({"named": "file:///etc/passwd"}, "expected an http or https URL"),
        ({"resource": "http://127.0.0.1:1/mcp"}, "not about it"),
        ({"resource": "nonsense"}, "expected an http or https URL"),
    ],
)
def test_metadata_that_lead_astray(tools, guarded, change, complaint):
    vars(guarded).update(change)
    status, _, said = tools.login()
    assert status != 0 and complaint in said, said


@pytest.mark.parametrize(
    "metadata, complaint",
    [
        ({"issuer": "https://elsewhere.example"}, "says that it is https://elsewhere.example"),
        ({"token_endpoint": "http://169.254.169.254/token"}, "token_endpoint: expected https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint: expected an http"),
        ({"token_endpoint": None}, "names no token_endpoint"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"registration_endpoint": None}, "registers no clients by itself"),
    ],
)
def test_issuers_that_are_not_to_be_trusted(tools, issuer, metadata, complaint):
    issuer.metadata = {k: v for k, v in {**issuer.metadata, **metadata}.items() if v}
    status, _, said = tools.login()
    assert status != 0 and complaint in said, said


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["--client-secret-from", "SECRET"], "expected the id of the client as well"),
        (["--client-id", "x", "--client-credentials"], "needs a secret"),
        (["--client-metadata", "http://x/y"], "expected an https URL"),
        (["--client-id", "x", "--client-secret-from", "NO_SUCH"], "the variable NO_SUCH is not set"),
    ],
)
def test_wrong_usage(tools, words, complaint):
    status, out, said = tools("login", *words)
    assert (status, out) == (2, "") and complaint in said


def test_a_file_that_was_spoiled(tools):
    assert tools.login()[0] == 0
    pathlib.Path(tools.kept()[0]).write_text("{")
    status, _, said = tools("call", "t")
    assert status != 0 and ".json" in said
    assert tools("logout")[0] == 0


def test_a_login_that_was_kept_in_part(tools):
    assert tools.login()[0] == 0
    tools.change(token_url=None, expires=1)
    assert tools("call", "t")[:2] == (0, "called\n")
    assert tools.kept()[1]["refresh"] == "refresh-1"


def test_nobody_logs_in_to_say_goodbye(tools, guarded, issuer):
    """A server that refuses the end of the session is left all the same."""
    answer, tokens = guarded.answer, issuer.tokens

    def refuse_goodbye(method, path, query, headers, body):
        if method == "DELETE":
            return 401, {}
        reply = answer(method, path, query, headers, body)
        return (*reply, {"Mcp-Session-Id": "s"}) if '"initialize"' in body and reply[0] == 200 else reply

    guarded.answer = refuse_goodbye
    issuer.tokens = lambda: (200, {k: v for k, v in tokens()[1].items() if k != "refresh_token"})
    status, _, said = tools.login()
    assert status == 0 and said.count("To log in") == 1, said
    assert "DELETE" in [method for method, _, _, _ in guarded.seen]


# --- keys ---------------------------------------------------------------------------------------

KINDS = {"ES256": ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"], "RS256": ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]}


def make_key(path, kind):
    subprocess.run(["openssl", "genpkey", "-algorithm", *KINDS[kind], "-out", path], check=True, capture_output=True,
                   timeout=60)
    path.chmod(0o600)
    return path


def posted(site, path="/token"):
    """The forms that were posted there."""
    return [dict(urllib.parse.parse_qsl(body)) for _, at, _, body in site.seen if at == path]


def unpack(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_signs(tools, issuer, tmp_path, kind):
    key = make_key(tmp_path / "key.pem", kind)
    issuer.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
    status, listed, said = tools("login", "--client-id", "robot", "--client-key", key, "--client-credentials")
    assert (status, listed.splitlines()[1].split()[0]) == (0, "t"), said
    (form,) = posted(issuer)
    assert form["grant_type"] == "client_credentials" and form["client_id"] == "robot"
    assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    header, payload, signature = form["client_assertion"].split(".")
    assert json.loads(unpack(header)) == {"alg": kind, "typ": "JWT"}
    claims = json.loads(unpack(payload))
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("robot", "robot", issuer.url)
    assert 0 < claims["exp"] - claims["iat"] <= 300 and len(claims["jti"]) >= 16
    if kind == "RS256":  # the suite looks at the other
        (tmp_path / "signature").write_bytes(unpack(signature))
        public = subprocess.run(["openssl", "pkey", "-in", key, "-pubout"], check=True, capture_output=True).stdout
        (tmp_path / "public.pem").write_bytes(public)
        subprocess.run(["openssl", "dgst", "-sha256", "-verify", tmp_path / "public.pem", "-signature",
                        tmp_path / "signature"], input=f"{header}.{payload}".encode(), check=True, capture_output=True)
    kept = tools.kept()[0].read_text()
    assert str(key) in kept and "PRIVATE" not in kept


def test_a_key_that_others_may_read(tools, issuer, tmp_path):
    key = make_key(tmp_path / "key.pem", "ES256")
    key.chmod(0o640)
    words = ["login", "--client-id", "robot", "--client-key", key, "--client-credentials"]
    status, _, said = tools(*words)
    assert status != 0 and f"(mode 0640); say: chmod 600 {key}" in said and not issuer.seen
    key.chmod(0o600)
    status, _, said = tools(*words)  # and one for whom only secrets count
    assert status != 0 and "takes no proofs signed with such a key (ES256)" in said and not posted(issuer)


@pytest.mark.parametrize("text, complaint", [("nonsense", "expected a private key as PEM text"), (None, "No such file")])
def test_what_is_no_key(tools, tmp_path, text, complaint):
    key = tmp_path / "key.pem"
    if text:
        key.write_text(text)
        key.chmod(0o600)
    status, _, said = tools("login", "--client-id", "robot", "--client-key", key, "--client-credentials")
    assert status != 0 and complaint in said, said


def test_a_workload(tools, issuer, tmp_path):
    """Its token is read each time: whoever gives it replaces it, as Kubernetes does, by where a link leads."""
    def give(text):
        made = pathlib.Path(tempfile.mkdtemp(dir=tmp_path))
        (made / "token").write_text(text)
        (tmp_path / "new").symlink_to(made.name)
        before = latest.resolve() if latest.is_symlink() else None
        (tmp_path / "new").rename(latest)
        if before:
            shutil.rmtree(before)

    latest, token = tmp_path / "..data", tmp_path / "token"
    token.symlink_to("..data/token")
    status, _, said = tools("login", "--client-id", "pod", "--workload-token", token)
    assert status != 0 and "No such file" in said and not issuer.seen
    give("first.of.three\n")
    status, _, said = tools("login", "--client-id", "pod", "--workload-token", token)
    assert status == 0, said
    issuer.valid.clear()
    tools.change(refresh=None)
    give("second.of.three")
    assert tools("call", "t")[:2] == (0, "called\n")
    assert [(f["grant_type"], f["assertion"], f["client_id"]) for f in posted(issuer)] == [
        ("urn:ietf:params:oauth:grant-type:jwt-bearer", f"{n}.of.three", "pod") for n in ("first", "second")]
    assert "of.three" not in tools.kept()[0].read_text()
    issuer.valid.clear()
    tools.change(refresh=None)
    issuer.tokens = lambda: (400, {"error": "invalid_grant", "error_description": "expired"})
    status, _, said = tools("call", "t")
    assert status != 0 and "invalid_grant: expired" in said and len(posted(issuer)) == 3
    give("two words")
    status, _, said = tools("call", "t")
    assert status != 0 and "expected one word, a token" in said and len(posted(issuer)) == 3


def test_no_proof_is_sent_twice(tools, guarded, issuer, tmp_path):
    """Nor when the server wants the request again, with something that it says."""
    def wants_nonce():
        issuer.tokens = tokens
        return 400, {"error": "use_dpop_nonce"}, {"DPoP-Nonce": "n-1"}

    guarded.scheme = issuer.kind = "DPoP"
    issuer.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
    tokens, issuer.tokens = issuer.tokens, wants_nonce
    key = make_key(tmp_path / "key.pem", "ES256")
    status, _, said = tools("login", "--client-id", "robot", "--client-key", key, "--client-credentials")
    assert status == 0, said
    forms = posted(issuer)
    proofs = [headers["DPoP"] for _, path, headers, _ in issuer.seen if path == "/token"]
    first, second = (json.loads(unpack(proof.split(".")[1])) for proof in proofs)
    assert "nonce" not in first and second["nonce"] == "n-1" and first["jti"] != second["jti"]
    first, second = (json.loads(unpack(form.pop("client_assertion").split(".")[1])) for form in forms)
    assert first["jti"] != second["jti"] and forms[0] == forms[1]


def test_tokens_that_are_bound_to_a_key(tools, guarded, issuer):
    guarded.scheme = issuer.kind = "DPoP"
    status, _, said = tools.login()
    assert status == 0, said
    proofs = [headers["DPoP"] for _, path, headers, _ in guarded.seen + issuer.seen if "DPoP" in headers]
    claims = [json.loads(unpack(proof.split(".")[1])) for proof in proofs]
    keys = {json.dumps(json.loads(unpack(proof.split(".")[0]))["jwk"], sort_keys=True) for proof in proofs}
    assert len({c["jti"] for c in claims}) == len(claims) >= 3 and len(keys) == 1 and '"d"' not in keys.pop()
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"access-1").digest()).decode().rstrip("=")
    assert {(c["htu"], c.get("ath")) for c in claims} == {(issuer.url + "/token", None), (tools.url, digest)}
    assert "PRIVATE KEY" in tools.kept()[1]["bound"]
    issuer.valid.clear()
    assert tools("call", "t")[:2] == (0, "called\n")  # renewed, for the same key
    issuer.kind = "Bearer"
    issuer.valid.clear()
    tools.change(refresh=None)
    status, _, said = tools.login()
    assert status != 0 and "expected a token of type DPoP, found one of type 'Bearer'" in said
