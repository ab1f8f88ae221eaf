"""What the conformance suite expects, as a server on stdio that speaks 2026-07-28 and nothing else: it refuses the
handshake, asks by its results, logs where that is wanted, and tells of changes to those who listen."""

import base64
import hashlib
import hmac
import json
import sys
import threading

import fixture
from fixture import text

VERSION, META = "2026-07-28", "io.modelcontextprotocol/"
KEY = b"nobody else knows this"
now = threading.local()  # params of the request under way, and what was answered so far
listens = {}  # id of a subscriptions/listen -> its filter
told = []  # methods of all requests that came


def meta(key):
    return now.params.get("_meta", {}).get(META + key)


LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
plain_send = fixture.send


def send(**message):
    """Nothing is logged for a request that does not want it."""
    if message.get("method") == "notifications/message":
        wanted = meta("logLevel")
        if not wanted or LEVELS.index(message["params"]["level"]) < LEVELS.index(wanted):
            return
    plain_send(**message)


fixture.send = send


class Needs(Exception):
    """{key: request} that is to be answered first."""


def sign(data):
    return hmac.new(KEY, data, hashlib.sha256).hexdigest()


def pack(answers):
    data = base64.b64encode(json.dumps(answers).encode())
    return f"{data.decode()}.{sign(data)}"


def unpack(state):
    data, _, signature = state.partition(".")
    if not hmac.compare_digest(signature, sign(data.encode())):
        raise LookupError(-32602, "requestState: not ours", None)
    return json.loads(base64.b64decode(data))


def need(**questions):
    """The answers to {key: (method, params)}, or an end to this round."""
    missing = {k: {"method": m, "params": p} for k, (m, p) in questions.items() if type(now.answers.get(k)) is not dict}
    if missing:
        raise Needs(missing)
    return [now.answers[k] for k in questions]


def ask(method, **params):
    """As older servers ask, in the middle: one question more each round."""
    now.asked += 1
    return need(**{f"q{now.asked}": (method, params)})[0]


fixture.ask = ask


def form(message, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return "elicitation/create", {"message": message, "requestedSchema": schema}


def sample(words):
    return "sampling/createMessage", {"messages": [{"role": "user", "content": text(words)}], "maxTokens": 100}


ROOTS = ("roots/list", {})
STRING, BOOLEAN = {"type": "string"}, {"type": "boolean"}


def hello(a, m):
    answer = need(user_name=form("What is your name?", name=STRING))[0]
    return [text(f"Hello, {answer['content']['name'] if answer['action'] == 'accept' else 'whoever you are'}!")]


def capital(a, m):
    return [text(need(capital_question=sample("What is the capital of France?"))[0]["content"]["text"])]


def roots(a, m):
    return [text(json.dumps(need(client_roots=ROOTS)[0]["roots"]))]


def state(a, m):
    need(confirm=form("Go on?", ok=BOOLEAN))
    return [text("state-ok" if "requestState" in now.params else "no state")]


def several(a, m):
    answers = need(user_name=form("What is your name?", name=STRING), greeting=sample("Generate a greeting"),
                   client_roots=ROOTS)
    return [text(json.dumps(answers))]


def rounds(a, m):
    name = need(step1=form("Step 1: What is your name?", name=STRING))[0]["content"]["name"]
    color = need(step2=form("Step 2: What is your favorite color?", color=STRING))[0]["content"]["color"]
    return [text(f"{name} likes {color}")]


def capable(a, m):
    wanted = {"sampling": {"greeting": sample("Hi")}, "elicitation": {"user_name": form("Name?", name=STRING)}}
    need(**{k: v for c, one in wanted.items() if c in meta("clientCapabilities") for k, v in one.items()})
    return [text("done")]


def missing(a, m):
    if "sampling" not in meta("clientCapabilities"):
        raise LookupError(-32021, "Missing required client capability", {"requiredCapabilities": {"sampling": {}}})
    return [text("done")]


def insatiable(a, m):
    raise Needs({f"more{len(now.answers)}": dict(zip(("method", "params"), ROOTS))})


def log(a, m):
    for level in ("debug", "warning"):
        send(method="notifications/message", params={"level": level, "data": f"a {level}"})
    return [text("logged")]


def tell(wish, method, **params):
    for number, wishes in list(listens.items()):
        if wishes.get(wish) is True or params.get("uri") in (wishes.get(wish) or []):
            send(method=method, params={**params, "_meta": {META + "subscriptionId": number}})
    return [text(json.dumps(list(listens.values())))]


def hang_up(a, m):
    """Ends what it tells by, as a server may."""
    for number in list(listens):
        listens.pop(number)
        plain_send(id=number, result={"resultType": "complete"})
    return [text("hung up")]


SUITE = "test_input_required_result_"
TOOLS = {
    SUITE + "elicitation": hello,
    SUITE + "sampling": capital,
    SUITE + "list_roots": roots,
    SUITE + "request_state": state,
    SUITE + "tampered_state": state,
    SUITE + "multiple_inputs": several,
    SUITE + "multi_round": rounds,
    SUITE + "capabilities": capable,
    "test_streaming_elicitation": hello,
    "test_missing_capability": missing,
    "test_logging_tool": log,
    "test_trigger_tool_change": lambda a, m: tell("toolsListChanged", "notifications/tools/list_changed"),
    "test_trigger_prompt_change": lambda a, m: tell("promptsListChanged", "notifications/prompts/list_changed"),
    "touch": lambda a, m: tell("resourceSubscriptions", "notifications/resources/updated", uri=a["uri"]),
    "in_header": lambda a, m: [text(json.dumps(a))],
    "insatiable": insatiable,
    "hang_up": hang_up,
    "meta": lambda a, m: [text(json.dumps(m))],
    "told": lambda a, m: [text(json.dumps(told))],
}
fixture.TOOLS.update(TOOLS)
PROMPT = SUITE + "prompt"
fixture.PROMPTS[PROMPT] = ((), lambda a: [text(need(
    user_context=form("What context should the prompt use?", context=STRING))[0]["content"]["context"])])


def list_tools(params):
    listed = fixture.list_tools(params)
    for tool in listed["tools"]:
        if tool["name"] == "in_header":
            region = {"type": "string", "x-mcp-header": "Region"}
            count = {"type": "integer", "x-mcp-header": "Count"}
            tool["inputSchema"] = {"type": "object", "properties": {"region": region, "count": count}}
    return listed


def read_resource(params):
    try:
        return fixture.read_resource(params)
    except LookupError as error:
        raise LookupError(-32602, *error.args[1:]) from None


def discover(params):
    capabilities = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        "completions": {},
    }
    return {"supportedVersions": [VERSION], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
            "_meta": {META + "serverInfo": {"name": "modern", "version": "1"}}}


METHODS = {k: v for k, v in fixture.METHODS.items()
           if k not in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")}
METHODS |= {"server/discover": discover, "tools/list": list_tools, "resources/read": read_resource}


def answer(method, params):
    """The result of a request."""
    told.append(method)
    now.params, now.asked = params, 0
    if method == "initialize":
        raise LookupError(-32022, "Unsupported protocol version", {"supported": [VERSION]})
    if method not in METHODS:
        raise LookupError(-32601, "Method not found", None)
    if meta("protocolVersion") != VERSION or type(meta("clientCapabilities")) is not dict:
        raise LookupError(-32602, "_meta: incomplete", None)
    given = params.get("inputResponses")
    now.answers = {**(unpack(params["requestState"]) if "requestState" in params else {}),
                   **(given if type(given) is dict else {})}
    try:
        return {"resultType": "complete", "ttlMs": 0, **METHODS[method](params)}
    except Needs as needs:
        return {"resultType": "input_required", "inputRequests": needs.args[0], "requestState": pack(now.answers)}


def serve(message):
    try:
        send(id=message["id"], result=answer(message["method"], message.get("params") or {}))
    except LookupError as error:
        code, words, data = error.args
        send(id=message["id"], error={"code": code, "message": words, "data": data})


for line in sys.stdin:
    message = json.loads(line)
    number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method == "subscriptions/listen":
        told.append(method)
        listens[number] = params["notifications"]
        acknowledged = {"_meta": {META + "subscriptionId": number}, "notifications": params["notifications"]}
        plain_send(method="notifications/subscriptions/acknowledged", params=acknowledged)
    elif method == "notifications/cancelled":
        listens.pop(params["requestId"], None)
    elif number is not None:
        threading.Thread(target=serve, args=(message,), daemon=True).start()
