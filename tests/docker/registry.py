#!/usr/bin/python3
"""registry.py PORT LAYER_TAR: an image registry with one image, box:1, of one layer, and the same as stall:1,
whose layer never comes: it prints "asked" when somebody wants that; ends with its parent."""

import ctypes
import gzip
import hashlib
import http.server
import json
import os
import signal
import sys

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
IMAGES = ("box", "stall")
PR_SET_PDEATHSIG = 1


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def blob(kind, data):
    return {"mediaType": f"application/vnd.docker.{kind}", "size": len(data), "digest": digest(data)}


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    blobs = {}
    manifest, layer = b"", ""

    def answer(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Distribution-API-Version", "registry/2.0")
        self.send_header("Docker-Content-Digest", digest(body))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        parts = self.path.split("/")
        if self.path == "/v2/":
            self.answer(200, b"{}")
        elif parts[2:4] == ["stall", "blobs"] and parts[4] == self.layer:
            self.stall()
        elif parts[2] in IMAGES and parts[3] == "manifests" and parts[4] in ("1", digest(self.manifest)):
            self.answer(200, self.manifest, MANIFEST)
        elif parts[2] in IMAGES and parts[3] == "blobs" and parts[4] in self.blobs:
            self.answer(200, self.blobs[parts[4]], "application/octet-stream")
        else:
            error = {"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}
            self.answer(404, json.dumps({"errors": [error]}).encode())

    do_HEAD = do_GET

    def stall(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.blobs[self.layer])))
        self.end_headers()
        print("asked", flush=True)
        self.rfile.read(1)  # whoever asked leaves
        self.close_connection = True

    def log_message(self, *_):
        pass


def main():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with open(sys.argv[2], "rb") as f:
        plain = f.read()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}
    config = {
        "architecture": machine.get(os.uname().machine, "amd64"),
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [digest(plain)]},
    }
    config, layer = json.dumps(config).encode(), gzip.compress(plain)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob("container.image.v1+json", config),
        "layers": [blob("image.rootfs.diff.tar.gzip", layer)],
    }
    Registry.layer = digest(layer)
    Registry.manifest = json.dumps(manifest).encode()
    Registry.blobs = {digest(config): config, digest(layer): layer}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Registry)
    print("ready", flush=True)
    server.serve_forever()


main()
