"""What the published classes of a vendor's SDK offer: sdk_methods.py VENDOR, by the interpreter that has the SDK, prints
{"part.method": [parameters], "part.property": null} as JSON. Nothing is called but what makes a client."""

import importlib
import inspect
import json
import sys

# The part of the page that a class is called by: "" is the sandbox itself.
CLASSES = {
    "e2b": {
        "": "e2b_code_interpreter:Sandbox", "commands": "e2b.sandbox_sync.commands.command:Commands",
        "CommandHandle": "e2b:CommandHandle", "WatchHandle": "e2b:WatchHandle", "pty": "e2b.sandbox_sync.commands.pty:Pty",
        "files": "e2b.sandbox_sync.filesystem.filesystem:Filesystem", "git": "e2b:Git", "Template": "e2b:Template e2b.template.main:TemplateBuilder",
        "Volume": "e2b:Volume", "Secret": "e2b:Secret",
    },
    "daytona": {
        "": "daytona:Sandbox", "Daytona": "daytona:Daytona", "process": "daytona._sync.process:Process",
        "fs": "daytona._sync.filesystem:FileSystem", "git": "daytona._sync.git:Git",
        "computer_use": "daytona._sync.computer_use:ComputerUse", "mouse": "daytona:AsyncMouse", "keyboard": "daytona:AsyncKeyboard",
        "screenshot": "daytona:AsyncScreenshot", "display": "daytona:AsyncDisplay",
        "computer_use.recording": "daytona._sync.computer_use:RecordingService",
        "computer_use.accessibility": "daytona._sync.computer_use:Accessibility",
        "code_interpreter": "daytona._sync.code_interpreter:CodeInterpreter", "LspServer": "daytona._sync.lsp_server:LspServer",
        "snapshot": "daytona._sync.snapshot:SnapshotService", "volume": "daytona._sync.volume:VolumeService",
        "secret": "daytona._sync.secret:SecretService", "warm_pool": "daytona._sync.warm_pool:WarmPoolService",
    },
    "modal": {
        "": "modal:Sandbox", "Image": "modal:Image", "App": "modal:App", "Secret": "modal:Secret", "Volume": "modal:Volume",
        "process": "modal.container_process:ContainerProcess", "filesystem": "modal.sandbox.sandbox:SandboxFilesystem",
        "Secret.objects": "modal.secret:SecretManager", "Volume.objects": "modal.volume:VolumeManager",
    },
    "runloop": {
        "devbox": "runloop_api_client.sdk:DevboxOps", "object": "runloop_api_client.sdk:Devbox",
        "cmd": "runloop_api_client.sdk.devbox:CommandInterface", "file": "runloop_api_client.sdk.devbox:FileInterface",
        "net": "runloop_api_client.sdk.devbox:NetworkInterface", "execution": "runloop_api_client.sdk:Execution",
        "storage_object": "runloop_api_client.sdk:StorageObject", "storage_object.of": "runloop_api_client.sdk:StorageObjectOps",
    },
    "swe-rex": {"": "swerex.runtime.remote:RemoteRuntime", "deployment": "swerex.deployment.remote:RemoteDeployment"},
}
# Models whose fields are what one method takes.
MODELS = {
    "daytona": {
        "Daytona.create": "daytona:CreateSandboxFromImageParams daytona:CreateSandboxFromSnapshotParams daytona:Resources",
        "process.code_run": "daytona:CodeRunParams", "process.execute_session_command": "daytona:SessionExecuteRequest",
        "snapshot.create": "daytona:CreateSnapshotParams", "Daytona.list": "daytona:ListSandboxesQuery",
    },
    "swe-rex": {
        "execute": "swerex.runtime.abstract:Command", "create_session": "swerex.runtime.abstract:CreateBashSessionRequest",
        "run_in_session": "swerex.runtime.abstract:BashAction swerex.runtime.abstract:BashInterruptAction",
        "read_file": "swerex.runtime.abstract:ReadFileRequest", "write_file": "swerex.runtime.abstract:WriteFileRequest",
        "upload": "swerex.runtime.abstract:UploadRequest",
    },
}


def named(words):
    for word in words.split():
        module, name = word.split(":")
        yield getattr(importlib.import_module(module), name)


def inherited(cls):
    """What every model of pydantic, and every one that was generated, has: no feature."""
    return {name for base in cls.__mro__[1:] if base.__module__.startswith(("pydantic", "daytona_api_client")) for name in dir(base)}


def methods(cls):
    """(name, parameters), and (name, None) of what is no method."""
    for name in sorted(set(dir(cls)) - inherited(cls)):
        value = getattr(cls, name)
        if name.startswith("_") or isinstance(inspect.getattr_static(cls, name), type):
            continue
        yield name, [one for one in inspect.signature(value).parameters if one not in ("self", "cls")] if callable(value) else None


def resources(client, path=""):
    """A generated client: resources that hold resources."""
    for name in dir(type(client)):
        if name.startswith(("_", "with_")):
            continue
        held = getattr(client, name)
        if ".resources." in type(held).__module__:
            for one, parameters in methods(type(held)):
                yield f"{path}{name}.{one}", parameters
            yield from resources(held, f"{path}{name}.")


def main(vendor):
    found = {}
    for part, words in CLASSES[vendor].items():
        for cls in named(words):
            found |= {f"{part}.{name}".lstrip("."): parameters for name, parameters in methods(cls)}
    if vendor == "runloop":
        (client,) = named("runloop_api_client:Runloop")
        found |= dict(resources(client(bearer_token="none")))
    for method, words in MODELS.get(vendor, {}).items():
        found[method] = sorted({name for cls in named(words) for name in getattr(cls, "model_fields", None) or cls.__annotations__})
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
