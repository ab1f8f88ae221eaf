"""OpenAPI documents of the service's surfaces, and answers held against them."""

import re

import jsonschema
import yaml

from trees import ROOT

METHODS = {"get", "post", "put", "delete", "patch"}
# What the HTTP server itself answers on any route, as the descriptions say.
ANYWHERE = {400, 405, 408, 413, 414, 421, 431, 500, 501, 503, 505}


class Document:
    def __init__(self, name):
        self.path = ROOT / "docs" / "service" / name
        self.file = yaml.safe_load(self.path.read_text())

    def resolve(self, node):
        while isinstance(node, dict) and node.get("$ref", "").startswith("#/"):
            target = self.file
            for part in node["$ref"][2:].split("/"):
                target = target[part]
            node = target
        return node

    def operations(self):
        for path, item in self.file["paths"].items():
            for method in METHODS & set(item):
                yield method, path, item[method], item.get("parameters", [])

    def operation(self, method, target):
        """The one that answers a request, literal paths before patterns."""
        path, found = target.split("?")[0], []
        for m, pattern, operation, _ in self.operations():
            wanted = re.sub(r"{\w+}", "[^/]+", pattern.replace("{path}", "\0")).replace("\0", ".+")
            if m == method.lower() and re.fullmatch(wanted, path):
                found.append((pattern.count("{"), -len(pattern), operation))
        assert found, f"{method} {path} is in no path of {self.path.name}"
        return min(found, key=lambda f: f[:2])[2]

    def validate(self, schema, value):
        # The whole file is the root, so that references find their targets.
        jsonschema.Draft202012Validator({**self.file, **schema}).validate(value)

    def check(self, method, target, answer):
        """A real answer: status, type, headers and body are what the document says."""
        where = f"{method} {target}: {answer}"
        responses = self.operation(method, target)["responses"]
        assert answer.headers["X-Request-Id"], where
        if str(answer.status) not in responses and answer.status in ANYWHERE:
            self.validate({"$ref": "#/components/schemas/Error"}, answer.json)
            return answer
        assert str(answer.status) in responses, where
        response = self.resolve(responses[str(answer.status)])
        for name, header in response.get("headers", {}).items():
            value, schema = answer.headers.get(name), header["schema"]
            if value is not None:
                self.validate(schema, int(value) if schema.get("type") == "integer" else value)
        content = response.get("content")
        if not content:
            assert answer.body == b"", where
            return answer
        kind = answer.headers["Content-Type"].split(";")[0]
        assert kind in content, where
        if kind == "application/json":
            self.validate(content[kind]["schema"], answer.json)
        return answer

    def caller(self, usual, status=None):
        """send(method, target...) by that client: each answer is held against the document, and has that status."""

        def send(method, target, body=None, status=status, headers=None, client=usual):
            answer = self.check(method, target, client.request(method, target, body, headers))
            assert status is None or answer.status == status, f"{method} {target}: {answer}"
            return answer

        return send

    def check_itself(self):
        """References lead somewhere, every operation is told about whole, every component is used."""
        assert self.file["openapi"].startswith("3.1")
        text = self.path.read_text()
        for kind, members in self.file["components"].items():
            for name in members:
                used = f'"#/components/{kind}/{name}"' in text or kind == "securitySchemes"
                assert used, f"{kind}/{name} is used nowhere"
        for schema in self.file["components"]["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)
        seen = set()
        for method, path, operation, shared in self.operations():
            where = f"{method} {path}"
            assert operation["operationId"] not in seen, where
            seen.add(operation["operationId"])
            assert operation["summary"] and set(operation["tags"]) <= {t["name"] for t in self.file["tags"]}, where
            parameters = [self.resolve(p) for p in shared + operation.get("parameters", [])]
            in_path = {p["name"] for p in parameters if p["in"] == "path"}
            assert in_path == set(re.findall(r"{(\w+)}", path)), where
            assert all("schema" in p and (p["in"] != "path" or p["required"]) for p in parameters), where
            for response in operation["responses"].values():
                assert self.resolve(response)["description"], where
            assert "401" in operation["responses"], where


def routes_of(*files):
    """The rows of route tables in the sources: {(method, path)}."""
    rows = set()
    for name in files:
        text = (ROOT / "src" / "service" / name).read_text()
        macros = dict(re.findall(r'^#define (\w+) "([^"]*)"', text, re.MULTILINE))
        table = text[re.search(r"^(const struct tn_route|static const struct envd_route {$)", text, re.MULTILINE).start() :]
        for method, base, path in re.findall(r'{"([A-Z]+)",\s*(\w+ )?"([^"]*)"', table):
            rows.add((method.lower(), macros[base.strip()] + path if base else path))
    assert rows
    return rows
