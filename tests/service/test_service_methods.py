"""The pages of the clouds (docs/clouds) against the published SDKs, which sdk_methods.py and .mjs ask: every method is in a table of its
page, no table has a name that the SDK has not, and what is not said of a parameter is said here."""

import fnmatch
import functools
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from peers import module, sdk
from trees import ROOT

HERE = pathlib.Path(__file__).parent
VENDORS = ("e2b", "daytona", "modal", "runloop", "swe-rex")
# The parts that a name may belong to when no name before it in its row says which.
HOMES = {
    "e2b": ("", "Template"),
    "daytona": ("", "Daytona"),
    "modal": ("", "process", "Image"),
    "runloop": ("devboxes", "object", "net", "devboxes.logs", "devboxes.executions"),
    "swe-rex": ("", "deployment"),
}
# Methods of which a page says nothing, since nobody is asked for them.
INSIDE = {
    "daytona": {"snapshot.process_image_context", "get_user_root_dir"},
    "modal": {"*hydrate", "*get_dashboard_url", "Image.imports", "Image.pipe"},
    "swe-rex": {"from_config", "deployment.from_config", "deployment.add_hook", "deployment.start", "deployment.stop"},
}
# Names of the tables that are not those of the newest Python SDK.
ELSEWHERE = {
    "e2b": {"resume"},  # REST
    "daytona": {"Image"},  # no part of the client
    "modal": {
        "images.delete", "_experimental_set_name",  # JavaScript, and what begins with a line
        "open", "ls", "mkdir", "rm", "delete_bytes", "replace_bytes", "copy",  # 1.1, and a parameter
    },
    "runloop": {"create_tunnel", "status", "shell", "benchmark_runs", "benchmark_jobs", "agents", "benchmarks", "scenarios"},  # 0.50, REST, JavaScript
}
# A name of JavaScript.
SCRIPT = re.compile(r"\b[a-z]+[A-Z]\w*$")


@functools.cache
def offered(vendor):
    """{method: its parameters}, and what is no method with None."""
    done = subprocess.run([sdk(vendor), HERE / "sdk_methods.py", vendor], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def page(vendor):
    """The page without what it says of the runtime, and of that the table of methods."""
    text = (ROOT / "docs/clouds" / f"{vendor}.md").read_text().split("\n## As a runtime")[0]
    return text, text.partition("\n## Method by method\n")[2].partition("\n## ")[0] or text


def rows(text):
    """The names of the first cells: `git.clone`, `push` is git.push as well, `upload_file(s)` two, `..._logs` any with that end."""
    for cell in re.findall(r"^\| (.+?) \|", text, re.MULTILINE):
        names = [re.sub(r"^[Ss]andbox\.", "", re.sub(r"^\.\.\.", "*", one)) for one in re.findall(r"`([^`]+)`", cell)]
        yield [re.sub(r"\(.*\)$", "", one.replace("(s)", "*")) for one in names]


def meanings(vendor, text):
    """(name, the methods that it stands for) of all rows; a name alone may be a part, or a method of several parts."""
    known = offered(vendor)
    for names in rows(text):
        parts = []
        for name in names:
            whole = fnmatch.filter(known, f"{name}.*") + fnmatch.filter(known, f"*.{name}.*")
            part = name if whole else name.rpartition(".")[0]
            hits = fnmatch.filter(known, name) + fnmatch.filter(known, f"*.{name}") if "." in name else []
            if part == name:
                hits += whole
            if "." not in name:
                own = [hit for one in parts for hit in fnmatch.filter(known, f"{one}.{name}")]
                hits += own or [hit for one in HOMES[vendor] for hit in fnmatch.filter(known, f"{one}.{name}".lstrip("."))]
            parts += [part] if part else []
            yield name, hits


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_method_is_named(vendor):
    told = {one for _, hits in meanings(vendor, page(vendor)[0]) for one in hits}
    left = {name for name, parameters in offered(vendor).items() if parameters is not None} - told
    left = {name for name in left if not any(fnmatch.fnmatch(name, one) for one in INSIDE.get(vendor, ()))}
    assert not left, f"{vendor}.md does not name {' '.join(sorted(left))}"


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_name_is_there(vendor):
    parameters = {one for all_of_one in offered(vendor).values() for one in all_of_one or ()}
    unknown = {name for name, hits in meanings(vendor, page(vendor)[1]) if not hits and not SCRIPT.search(name)} - parameters - ELSEWHERE.get(vendor, set())
    assert not unknown, f"{vendor}.md names what is not there: {' '.join(sorted(unknown))}"


# The methods whose parameters are told one by one.
PARAMETERS = {
    "e2b": ("create", "fork", "pause", "commands.run", "files.read", "files.write", "files.watch_dir", "Template.build", "run_code"),
    "daytona": ("Daytona.create", "Daytona.list", "process.exec", "process.code_run", "process.execute_session_command", "snapshot.create"),
    "modal": ("create", "exec", "terminate"),
    "runloop": ("devboxes.create", "devboxes.execute", "devboxes.execute_async", "devboxes.executions.kill", "blueprints.create"),
    "swe-rex": ("create_session", "run_in_session", "execute", "read_file", "upload"),
}
# What an SDK does with a parameter by itself, without the service.
BY_ITSELF = set(
    "opts request_timeout client logger on_build_logs on_stdout on_stderr on_result on_error extra_headers extra_query extra_body"
    " polling_config environment_name idempotency_key stream_idle_timeout use_octet_stream retain_output format bufsize args"
    " additional_properties check error_msg session_type action_type pty_info _pty_info cidr_allowlist".split()
)
# What means here what it means there, so that a page has nothing to say of it; other words than the SDK's (those of the wire)
# tell the rest of these.
AS_THERE = {
    "e2b": "keep_memory mode strict min_free_disk_mb alias path cmd cwd background stdin timeout lifecycle recursive allow_network_mounts count language",
    "daytona": "auto_archive_interval auto_delete_interval auto_pause_interval auto_stop_interval ttl_minutes domain_allow_list"
    " network_allow_list network_block_all env_vars env resources limit states argv cwd timeout run_async var_async"
    " suppress_input_echo gpu gpu_type kvm linked_sandbox outbound_proxy_url",
    "modal": "outbound_cidr_allowlist outbound_domain_allowlist _experimental_outbound_policy _experimental_enable_snapshot"
    " _experimental_persistent readiness_probe",
    "runloop": "base_blueprint_id base_blueprint_name blueprint_id blueprint_name snapshot_id launch_parameters environment_variables"
    " services command_id id devbox_id execution_id last_n optimistic_timeout timeout",
    "swe-rex": "session startup_source startup_timeout cwd merge_output_streams timeout encoding errors path is_interactive_command"
    " is_interactive_quit n_retry source_path target_path",
}
# Filters of Daytona.list, of which the page says that there are no others than it names.
FILTERS = re.compile(r"(min|max)_\w+|\w+_(before|after)|is_\w+|sort|order|targets")


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_parameter_is_told(vendor):
    known, told = offered(vendor), set(re.findall(r"\w+", page(vendor)[0])) | BY_ITSELF | set(AS_THERE[vendor].split())
    left = {f"{method}: {one}" for method in PARAMETERS[vendor] for one in known[method] if one not in told}
    left = {one for one in left if not (one.startswith("Daytona.list: ") and FILTERS.fullmatch(one.split(": ")[1]))}
    assert not left, f"{vendor}.md does not tell {', '.join(sorted(left))}"


@pytest.mark.parametrize("vendor", VENDORS)
def test_no_excuse_is_out_of_date(vendor):
    """What is listed above is still there to be listed."""
    known = offered(vendor)
    assert not [one for one in INSIDE.get(vendor, ()) if not fnmatch.filter(known, one)]
    assert set(AS_THERE[vendor].split()) <= {one for method in PARAMETERS[vendor] for one in known[method]}
    assert not ELSEWHERE.get(vendor, set()) & set(known)
    assert ELSEWHERE.get(vendor, set()) <= {name for name, _ in meanings(vendor, page(vendor)[1])}


# --- JavaScript ------------------------------------------------------------------------------------

# The file that declares all, and the classes of each part.
SCRIPTS = {
    "e2b": ("@e2b/code-interpreter/dist/index.d.ts", {
        "": "Sandbox", "commands": "Commands", "CommandHandle": "CommandHandle", "WatchHandle": "WatchHandle", "pty": "Pty",
        "files": "Filesystem", "git": "Git", "Template": "TemplateBase", "Volume": "Volume", "Secret": "Secret",
    }),
    "daytona": ("@daytonaio/sdk/esm/index.d.ts", {
        "": "Sandbox", "Daytona": "Daytona", "process": "Process", "fs": "FileSystem", "git": "Git", "computer_use": "ComputerUse",
        "mouse": "Mouse", "keyboard": "Keyboard", "screenshot": "Screenshot", "display": "Display", "computer_use.recording": "RecordingService",
        "computer_use.accessibility": "Accessibility", "code_interpreter": "CodeInterpreter", "LspServer": "LspServer",
        "snapshot": "SnapshotService", "volume": "VolumeService", "secret": "SecretService", "pty": "PtyHandle",
    }),
    "modal": ("modal/dist/index.d.ts", {
        "": "Sandbox SandboxService", "Image": "Image ImageService", "App": "App AppService", "Secret": "Secret SecretService",
        "Volume": "Volume VolumeService", "process": "ContainerProcess", "filesystem": "SandboxFilesystem",
    }),
    "runloop": ("@runloop/api-client/sdk.d.ts", {
        "devbox": "DevboxOps", "object": "Devbox", "cmd": "DevboxCmdOps", "file": "DevboxFileOps", "net": "DevboxNetOps",
        "execution": "Execution", "storage_object": "StorageObject", "storage_object.of": "StorageObjectOps", "client": "Runloop*",
    }),
}  # fmt: skip


def scripted(vendor):
    """The methods of the newest JavaScript SDK, in its own spelling."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    file, classes = SCRIPTS[vendor]
    compiler, declared = module("lsp", "typescript/lib/typescript.js"), module(vendor, file)
    done = subprocess.run(["node", HERE / "sdk_methods.mjs", compiler, declared, json.dumps(classes)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def pythonic(name):
    """computerUse.takeFullScreen, and fromAWSRegistry, as Python spells them."""
    return re.sub(r"([A-Z]+)(?=[A-Z][a-z])", r"\1_", re.sub(r"([a-z0-9])(?=[A-Z])", r"\1_", name)).lower()


@pytest.mark.parametrize("vendor", SCRIPTS)
def test_every_method_of_javascript_is_named(vendor):
    """As Python has it, or on the page: itself, or what it belongs to."""
    text = page(vendor)[0]
    told = set(re.findall(r"`([\w.]+)`", text)) | {"createAxiosInstance"}  # which nobody is asked for
    parts = {re.sub(r"[.*]+$", "", name) for names in rows(text) for name in names}
    known = {name.lower() for name in offered(vendor)}

    def is_told(name):
        part, _, last = name.rpartition(".")
        spelled = pythonic(name)
        return spelled in known or bool({last, name, part} & told or {part, part.split(".")[0], pythonic(part)} & parts)

    methods = scripted(vendor)
    left = [name for name in methods if not is_told(name)]
    assert not left, f"{vendor}.md does not name {' '.join(left)}"
    ends = {name.rpartition(".")[2] for name in methods}
    unknown = {name for names in rows(page(vendor)[1]) for name in names if SCRIPT.search(name) and name.rpartition(".")[2] not in ends}
    assert not unknown, f"{vendor}.md names what is not there: {' '.join(sorted(unknown))}"
