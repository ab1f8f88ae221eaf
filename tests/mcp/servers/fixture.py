"""What the conformance suite expects to find on a server, as an MCP server on stdio."""

import json
import sys
import threading
import time

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
lock = threading.Lock()
answers = {}


def send(**message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method, **params):
    number = f"q{len(answers)}"
    answers[number] = [threading.Event(), None]
    send(id=number, method=method, params=params)
    answers[number][0].wait(30)
    return answers[number][1]


def text(value):
    return {"type": "text", "text": value}


def resource(uri, value, kind="text/plain"):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": value}}


IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def elicit(message, properties, required=()):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ask("elicitation/create", message=message, requestedSchema=schema)


def completed(answer):
    return [text(f"Elicitation completed: action={answer['action']}, content={json.dumps(answer.get('content'))}")]


def with_logging(arguments, meta):
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        send(method="notifications/message", params={"level": "info", "data": words})
        time.sleep(0.05)
    return [text("logged")]


def with_progress(arguments, meta):
    for done in (0, 50, 100):
        if "progressToken" in meta:
            params = {"progressToken": meta["progressToken"], "progress": done, "total": 100}
            send(method="notifications/progress", params=params)
        time.sleep(0.05)
    return [text("done")]


def sampling(arguments, meta):
    messages = [{"role": "user", "content": text(arguments["prompt"])}]
    answer = ask("sampling/createMessage", messages=messages, maxTokens=100)
    return [text(f"LLM response: {answer['content']['text']}")]


def elicitation(arguments, meta):
    properties = {"username": {"type": "string"}, "email": {"type": "string"}}
    return [text(f"User response: {json.dumps(elicit(arguments['message'], properties, properties))}")]


def defaults(arguments, meta):
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return completed(elicit("defaults", properties))


def enums(arguments, meta):
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{i}", "title": f"Title {i}"} for i in (1, 2, 3)]
    names = ["Option One", "Option Two", "Option Three"]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return completed(elicit("enums", properties))


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
    "if": {"required": ["name"]},
    "then": {"required": ["name"]},
    "else": {"required": ["address"]},
    "additionalProperties": False,
}

TOOLS = {
    "test_simple_text": lambda a, m: [text("This is a simple text response for testing.")],
    "test_image_content": lambda a, m: [IMAGE],
    "test_audio_content": lambda a, m: [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": lambda a, m: [resource("test://embedded-resource", "embedded")],
    "test_multiple_content_types": lambda a, m: [
        text("Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
    "test_tool_with_logging": with_logging,
    "test_tool_with_progress": with_progress,
    "test_error_handling": None,
    "test_sampling": sampling,
    "test_elicitation": elicitation,
    "test_elicitation_sep1034_defaults": defaults,
    "test_elicitation_sep1330_enums": enums,
    "json_schema_2020_12_tool": lambda a, m: [text(json.dumps(a))],
}


def call(params):
    tool = TOOLS.get(params["name"])
    if not tool:
        words = "This tool intentionally returns an error for testing"
        return {"isError": True, "content": [text(words)]}
    return {"content": tool(params.get("arguments") or {}, params.get("_meta") or {})}


def list_tools(params):
    plain = {"type": "object", "properties": {}}
    schemas = {"json_schema_2020_12_tool": SCHEMA}
    return {
        "tools": [
            {"name": name, "description": f"{name} of the suite", "inputSchema": schemas.get(name, plain)}
            for name in TOOLS
        ]
    }


RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://watched-resource": {"mimeType": "text/plain", "text": "watched"},
}


def list_resources(params):
    return {"resources": [{"uri": uri, "name": uri, "mimeType": r["mimeType"]} for uri, r in RESOURCES.items()]}


def read_resource(params):
    uri = params["uri"]
    parts = uri.split("/")
    if uri in RESOURCES:
        return {"contents": [{"uri": uri, **RESOURCES[uri]}]}
    if uri.startswith("test://template/") and len(parts) == 5:
        value = json.dumps({"id": parts[3], "templateTest": True, "data": f"Data for ID: {parts[3]}"})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": value}]}
    raise LookupError(-32002, "Resource not found", {"uri": uri})


PROMPTS = {
    "test_simple_prompt": ((), lambda a: [text("This is a simple prompt for testing.")]),
    "test_prompt_with_arguments": (
        ("arg1", "arg2"),
        lambda a: [text(f"Prompt with arguments: arg1='{a['arg1']}', arg2='{a['arg2']}'")],
    ),
    "test_prompt_with_embedded_resource": (
        ("resourceUri",),
        lambda a: [resource(a["resourceUri"], "Embedded resource content for testing."), text("Please process it.")],
    ),
    "test_prompt_with_image": ((), lambda a: [IMAGE, text("Please analyze the image above.")]),
}


def list_prompts(params):
    return {
        "prompts": [
            {
                "name": name,
                "description": name,
                "arguments": [{"name": a, "description": a, "required": True} for a in arguments],
            }
            for name, (arguments, _) in PROMPTS.items()
        ]
    }


def get_prompt(params):
    parts = PROMPTS[params["name"]][1](params.get("arguments") or {})
    return {"messages": [{"role": "user", "content": part} for part in parts]}


def hello(params):
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {
            "tools": {},
            "resources": {"subscribe": True},
            "prompts": {},
            "logging": {},
            "completions": {},
        },
        "serverInfo": {"name": "fixture", "version": "1"},
    }


METHODS = {
    "initialize": hello,
    "ping": lambda p: {},
    "tools/list": list_tools,
    "tools/call": call,
    "resources/list": list_resources,
    "resources/templates/list": lambda p: {
        "resourceTemplates": [{"uriTemplate": "test://template/{id}/data", "name": "data"}]
    },
    "resources/read": read_resource,
    "resources/subscribe": lambda p: {},
    "resources/unsubscribe": lambda p: {},
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "completion/complete": lambda p: {"completion": {"values": ["paris", "park"], "total": 2, "hasMore": False}},
    "logging/setLevel": lambda p: {},
}


def serve(message):
    try:
        send(id=message["id"], result=METHODS[message["method"]](message.get("params") or {}))
    except LookupError as error:
        code, words, data = error.args if len(error.args) == 3 else (-32601, "Method not found", None)
        send(id=message["id"], error={"code": code, "message": words, "data": data})


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            threading.Thread(target=serve, args=(message,), daemon=True).start()
        elif message.get("id") in answers:
            answers[message["id"]][1] = message.get("result")
            answers[message["id"]][0].set()


if __name__ == "__main__":
    main()
