#!/usr/bin/python3
"""The client that the conformance suite starts: `tendon tools`, with a person at its side who follows every login.

    conformance_client.py TENDON URL"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request

TENDON, URL = sys.argv[1:]
SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
DOCUMENT = "https://conformance-test.local/client-metadata.json"


def visit(address):
    """What a browser does: it goes where it is sent."""
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=60).read()
    except OSError as problem:
        print("browser:", problem, file=sys.stderr)


def tools(*words, env=None):
    """`tendon tools --url URL words`, and its status."""
    child = subprocess.Popen(
        [TENDON, "tools", "--login", "--accept", "--timeout", "60", "--url", URL, *words],
        env={**os.environ, "TENDON_STATE": STATE, **(env or {})}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    )
    browsers = []
    for line in child.stderr:
        sys.stderr.write(line)
        if re.match(r"https?://\S+$", line):
            browsers.append(threading.Thread(target=visit, args=[line.strip()]))
            browsers[-1].start()
    for browser in browsers:
        browser.join()
    return child.wait()


def login(*words, **options):
    return tools("login", *words, **options)


def call(tool, **arguments):
    return tools("call", tool, json.dumps(arguments))


def several(*calls):
    return max(call(tool, **arguments) for tool, arguments in calls)


def schema_echo():
    """The schema of one tool is given to the other, as it was listed."""
    command = [TENDON, "--json", "tools", "--login", "--url", URL]
    done = subprocess.run(command, env={**os.environ, "TENDON_STATE": STATE}, capture_output=True, check=True)
    schemas = {t["tool"]["name"]: t["tool"]["inputSchema"] for t in json.loads(done.stdout)["tools"]}
    return call("json_schema_echo", schema=schemas["json_schema_2020_12_tool"])


def custom_headers():
    """The calls that the suite wants, and one without a value for a header."""
    wanted = [(c["name"], c["arguments"]) for c in CONTEXT["toolCalls"]]
    return several(*wanted, ("test_custom_headers_null", {"region": "r", "priority": 1, "verbose": None, "query": "q"}))


def credentials(*words):
    secret = {"CLIENT_SECRET": CONTEXT["client_secret"]}
    return login("--client-id", CONTEXT["client_id"], "--client-secret-from", "CLIENT_SECRET", *words, env=secret)


def key_file():
    """The key that the suite gives, as a file that only we read."""
    path = os.path.join(STATE, "key.pem")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(CONTEXT["private_key_pem"])
    return path


def workload():
    """As the surroundings of a program give it: in a file."""
    path = os.path.join(STATE, "workload.jwt")
    with open(path, "w") as file:
        file.write(CONTEXT["valid_jwt"] + "\n")
    return login("--client-id", CONTEXT["client_id"], "--workload-token", path)


DEEDS = {
    "initialize": tools,
    "request-metadata": tools,
    "tools_call": lambda: call("add_numbers", a=5, b=3),
    "sse-retry": lambda: call("test_reconnection"),
    "elicitation-sep1034-client-defaults": lambda: call("test_client_elicitation_defaults"),
    "sep-2322-client-request-state": lambda: several(
        ("test_mrtr_echo_state", {}), ("test_mrtr_unrelated", {}), ("test_mrtr_no_state", {}),
        ("test_mrtr_no_result_type", {})),
    "http-standard-headers": lambda: call("test_headers"),
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": lambda: several(("valid_tool", {"region": "r"}), *[
        (tool, {}) for tool in ("invalid_empty_header", "invalid_object_header", "invalid_duplicate_same_case")]),
    "json-schema-ref-no-deref": tools,
    "json-schema-2020-12-preservation": schema_echo,
    "auth/basic-cimd": lambda: login("--client-metadata", DOCUMENT),
    "auth/pre-registration": lambda: credentials("--issuer", CONTEXT["issuer"]),
    "auth/client-credentials-basic": lambda: credentials("--client-credentials"),
    "auth/client-credentials-jwt": lambda: login(
        "--client-id", CONTEXT["client_id"], "--client-key", key_file(), "--client-credentials"),
    "auth/wif-jwt-bearer": workload,
}

with tempfile.TemporaryDirectory() as STATE:
    if SCENARIO in DEEDS:
        sys.exit(DEEDS[SCENARIO]())
    sys.exit(login() or call("test-tool"))
