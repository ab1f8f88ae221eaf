"""IPython cells: what they show, what they share with the shell, how long they take."""

import base64
import json
import os
import pathlib
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Factory, alive, memory_limit, wait_until
from kernels import NO_OUTPUT, PYTHON, Kernel, footer, missing_parts, timed_out, without_haste

pytestmark = pytest.mark.skipif(bool(missing_parts()), reason=str(missing_parts()))

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n not really").decode()


@pytest.fixture(scope="module")
def hand():
    factory = Factory()
    hand = factory(args=["--plugins", "jupyter"], env={"STARTED_WITH": "it"})
    yield hand
    factory.finish()


@pytest.fixture
def kernel(hand):
    """The default kernel of a shared hand; bash is in the workspace."""
    hand.client.ok(f"cd {hand.workspace}")
    return Kernel(hand)


# --- what a cell shows ----------------------------------------------------------------------------


def test_simple(kernel, hand):
    obs = kernel.cell("print(1)", include_extra=True)
    assert obs.content == f"1\n{footer(hand.workspace)}"
    assert obs.extras == {"code": "print(1)", "image_urls": None}


def test_shell_cell_and_files_together(hand, kernel):
    run = hand.client.run("ls -l")
    assert (run.exit, run.content.split("\n")[0]) == (0, "total 0")
    obs = kernel.cell("print('Hello, `World`!\\n')", include_extra=True)
    assert obs.content == f"Hello, `World`!\n{footer(hand.workspace)}"
    missing = hand.client.read("hello.sh")
    assert missing.content == (
        f"File not found: {hand.workspace}/hello.sh. "
        f"Your current working directory is {hand.workspace}."
    )
    assert hand.client.write("hello.sh", "x = 1").content == ""
    assert hand.client.read("hello.sh").content == "x = 1\n"
    assert kernel.text("open('hello.sh').read()") == "'x = 1\\n'"
    hand.client.ok("rm hello.sh")


@pytest.mark.parametrize(
    "code, shown",
    [
        ("x = 5", NO_OUTPUT),
        ("", NO_OUTPUT),
        ("6 * 7", "42"),
        ("print('a'); 3", "a\n3"),
        ("print('a\\n\\n  ')", "a"),
        ("import sys; print('err', file=sys.stderr)", "err"),
        ("display('x'); display('y')", "'x''y'"),
        ("display({'application/json': {'a': 1}}, raw=True)", '{"a": 1}'),
        ("display({'text/html': '<b>'}, raw=True)", "<b>"),
        ("display({'text/html': '<b>', 'text/plain': 'p'}, raw=True)", "p"),
        ("display({}, raw=True)", NO_OUTPUT),
        ("print('\\x1b[1;38;5;9mred\\x1b[0m \\x1b]0;title\\x07and\\x1b[2K \\x1b(Bmore\\x1b')",
         "red and more"),
        ("print('\\u20ac \\U0001f600 \\x00')", "\u20ac \U0001f600 \x00"),
        ("import os; print(os.environ['USER'] != '', os.environ['STARTED_WITH'])", "True it"),
        ("!echo from a shell", "from a shell"),
        ("%env STARTED_WITH", "'it'"),
        ("%%bash\necho $((1 + 1))", "2"),
    ],
)  # fmt: skip
def test_text(kernel, code, shown):
    assert kernel.text(code) == shown


def test_state_is_kept(kernel):
    kernel.text("import math\nkept = [1]")
    assert kernel.text("kept.append(math.floor(2.5)); kept") == "[1, 2]"


def test_help_is_shown(kernel):
    assert "Prints the values to a stream" in kernel.text("print?")


@pytest.mark.parametrize(
    "code, part",
    [
        ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("1/0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError"),
        ("input('name? ')", "StdinNotImplementedError: raw_input was called"),
        ("import getpass; getpass.getpass()", "StdinNotImplementedError: getpass was called"),
        ("%no_such_magic", "no_such_magic"),
    ],
)
def test_errors(kernel, code, part):
    seen = kernel.cell(f"print('before')\n{code}" if code[0] != "d" else code)
    assert part in seen.content and "\x1b" not in seen.content
    assert seen.raw["success"] is False
    seen = kernel.cell("'next'")
    assert seen.content == "'next'" and seen.raw["success"] is True


def test_an_error_of_many_bytes_is_one_too(kernel):
    assert kernel.cell("raise ValueError('x' * 40_000_000)").raw["success"] is False


def test_images(kernel):
    svg = "<svg xmlns='http://www.w3.org/2000/svg'/>"
    obs = kernel.cell(
        f"""
        display({{'image/png': {PNG!r}, 'text/plain': 'a picture '}}, raw=True)
        display({{'image/jpeg': {PNG + chr(10)!r}}}, raw=True)
        display({{'image/svg+xml': "{svg}", 'text/html': 'no'}}, raw=True)
        display({{'image/svg+xml': "{svg}", 'image/png': {PNG!r}}}, raw=True)
        """
    )
    encoded = base64.b64encode(svg.encode()).decode()
    assert obs.content == "a picture"
    assert obs.extras["image_urls"] == [
        f"data:image/png;base64,{PNG}",
        f"data:image/jpeg;base64,{PNG}",
        f"data:image/svg+xml;base64,{encoded}",
        f"data:image/png;base64,{PNG}",
    ]


def test_pictures_of_ipython(kernel):
    """The objects people use, shown and as the result of a cell."""
    svg = "<svg xmlns='http://www.w3.org/2000/svg'/>"
    obs = kernel.cell(
        f"""
        import base64
        from IPython.display import Image, SVG
        display(Image(data=base64.b64decode({PNG!r}), format="png"), SVG("{svg}"))
        Image(data=b"\\xff\\xd8\\xff\\xe0", format="jpeg")
        """
    )
    kinds = [url.split(",")[0] for url in obs.extras["image_urls"]]
    assert kinds == [f"data:image/{kind};base64" for kind in ("png", "svg+xml", "jpeg")]
    assert obs.extras["image_urls"][0].endswith(PNG)
    assert b"<svg" in base64.b64decode(obs.extras["image_urls"][1].split(",")[1])
    assert obs.extras["image_urls"][2].endswith(",/9j/4A==")
    shown = "<IPython.core.display.%s object>"
    assert obs.content == shown % "Image" + shown % "SVG" + shown % "Image"


def test_image_alone_has_no_text(kernel):
    obs = kernel.cell(f"display({{'image/png': {PNG!r}}}, raw=True)")
    assert (obs.content, len(obs.extras["image_urls"])) == (NO_OUTPUT, 1)


SHOW = "from IPython.display import clear_output, display, update_display\n"
TEXT = "{'text/plain': %r}, raw=True, display_id=%r"
CLEARED = {
    "print(1); clear_output(); print(2)": "2",
    "print(1); clear_output()": NO_OUTPUT,
    "print(1); clear_output(wait=True)": "1",
    "print(1); clear_output(wait=True); print(2); print(3)": "2\n3",
    "for i in range(50):\n clear_output(wait=True); print(i)": "49",
    f"display({TEXT % ('a', 'x')}); clear_output(); update_display({TEXT % ('b', 'x')})": "b",
    f"display({TEXT % ('a', 'x')}); print('-'); update_display({TEXT % ('b', 'x')}); print('+')": (
        "b-\n+"
    ),
    f"display({TEXT % ('a', 'x')}); display({TEXT % ('b', 'y')})\n"
    f"for i in range(9): update_display({TEXT % ('c', 'x')})": "cb",
    f"update_display({TEXT % ('new', 'nobody has shown it')})": "new",
    f"display({TEXT % ('a', 'x')}); display({TEXT % ('b', 'x')}); update_display({TEXT % ('c', 'x')})": (
        "ac"
    ),
    "for i in range(100): display({'text/plain': f'{i} '}, raw=True, display_id=f'd{i}')\n"
    f"update_display({TEXT % ('!', 'd99')})": " ".join(map(str, range(99))) + " !",
}


@pytest.mark.parametrize("code", CLEARED)
def test_cleared_and_updated(kernel, code):
    assert kernel.text(SHOW + code) == CLEARED[code]


def test_updated_images_are_there_once(kernel):
    one, two = (base64.b64encode(word).decode() for word in (b"one", b"two"))
    image = "{'image/png': %r}, raw=True, display_id='i'"
    obs = kernel.cell(SHOW + f"display({image % one}); update_display({image % two}); print('x')")
    assert obs.extras["image_urls"] == [f"data:image/png;base64,{two}"]
    obs = kernel.cell(SHOW + f"display({image % one}); clear_output()")
    assert obs.extras["image_urls"] is None
    large = "display({'image/png': 'A' * 9_000_000}, raw=True, display_id='l')\n"
    obs = kernel.cell(SHOW + large + large.replace("display(", "update_display("))
    assert len(obs.extras["image_urls"]) == 1


def test_a_cell_is_followed_while_it_runs(hand, tmp_path):
    gate, id = tmp_path / "go", uuid.uuid4().hex
    code = f"import os, time\nprint('first', flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\nprint('last')"
    action = {"action": "run_ipython", "args": {"code": code, "include_extra": False}, "timeout": 60}
    seen = ""

    def ask(wait=20):
        nonlocal seen
        reply = hand.client.get(f"/v1/cells/{id}/output?offset={len(seen)}&wait={wait}", timeout=40)
        assert reply.status == 200, reply
        seen += reply.body.decode()
        return reply.headers["x-output-finished"] == "true"

    assert not ask(wait=0), "nothing yet"
    with ThreadPoolExecutor() as pool:
        run = pool.submit(hand.client.post, "/execute_action", {"action": action}, {"X-Request-Id": id}, timeout=70)
        while "first\n" not in seen:
            assert not ask()
        assert not run.done() and "last" not in seen
        gate.touch()
        while not ask():
            pass
        assert seen == "first\nlast\n" and run.result().json["content"] == "first\nlast"
    assert hand.client.get(f"/v1/cells/{'x' * 65}/output").status == 422


def test_of_a_cell_that_nobody_follows_nothing_is_kept(hand):
    id = uuid.uuid4().hex
    action = {"action": "run_ipython", "args": {"code": "print(1)"}, "timeout": 60}
    hand.client.post("/execute_action", {"action": action}, {"X-Request-Id": id}, timeout=70)
    reply = hand.client.get(f"/v1/cells/{id}/output")
    assert reply.body == b"" and reply.headers["x-output-finished"] == "false"


def test_no_late_output_is_lost(kernel):
    """The reply overtakes what was published before it; the cell has ended when both are here."""
    for i in range(20):
        text = kernel.text(f"for n in range(300): print({i}, n)\nprint('end {i}')")
        assert text.split("\n") == [f"{i} {n}" for n in range(300)] + [f"end {i}"]


def test_output_of_programs(kernel):
    text = kernel.text("import subprocess\n_ = subprocess.run(['echo', 'hi'])\nprint('there')")
    assert sorted(text.replace("there", " there ").split()) == ["hi", "there"]


def test_huge_output_is_cut_in_the_middle(hand, kernel):
    kernel.text("1")
    before = hand.status("VmRSS")
    code = "for i in range(200000): print('%07d' % i, 'y' * 42)"
    text = kernel.text(code, timeout=100)
    assert text.startswith("0000000 yyy") and text.endswith("0199999 " + "y" * 42)
    assert "\n[... 9200000 characters of output are left out ...]\n" in text
    assert len(text) < 1_000_100
    assert hand.status("VmHWM") - before < memory_limit(24 << 10)
    assert kernel.text("len('a' * 10)") == "10"


HUGE = {
    "print('é\\n\\\\' * N)": ("é\n\\", "é\n\\"),
    "'<' + 'x' * 4 * N + '>'": ("'<xxx", "xxx>'"),
    "display({'text/plain': '<' + 'y' * 4 * N + '>'}, raw=True)": ("<yyy", "yyy>"),
}


@pytest.mark.parametrize("code", HUGE)
def test_a_single_huge_output_is_once_in_memory(kernel, code):
    """It comes in one message, of which the bridge looks at the ends only."""

    def most():
        with open(f"/proc/{kernel.plugin()['pids'][0]}/status") as f:
            return int(next(line for line in f if line.startswith("VmHWM")).split()[1])

    kernel.text("N = 20_000_000")
    before = most()
    obs = kernel.cell(code, timeout=100)
    start, end = HUGE[code]
    assert obs.content.startswith(start) and obs.content.endswith(end.rstrip())
    assert "characters of output are left out ...]" in obs.content
    assert len(obs.content) < 1_100_000
    assert most() - before < (190 << 10)  # of 80 MB and more, not three times that
    assert kernel.text("1") == "1"


def test_huge_images_are_left_out(kernel):
    text = kernel.text("display({'image/png': 'A' * 30_000_000}, raw=True)\nprint('on')")
    assert text.strip().startswith("[An output of 300000")
    assert text.endswith("is too large and left out.]\non")


def test_images_are_limited(kernel):
    code = "for _ in range(3): display({'image/png': 'A' * 5_000_000}, raw=True)"
    obs = kernel.cell(code)
    assert len(obs.extras["image_urls"]) == 2
    assert "[An image of 5000022 bytes is too large and left out.]" in obs.content


def test_pip_magic_installs(kernel, hand, tmp_path):
    """%pip with a wheel that needs no network."""
    pip = [PYTHON, "-m", "pip", "--version"]
    if subprocess.run(pip, capture_output=True).returncode:
        pytest.skip(f"pip is not installed for {PYTHON}")
    name = f"tiny{uuid.uuid4().hex[:8]}"
    wheel = make_wheel(tmp_path, name)
    assert f"No module named '{name}'" in kernel.text(f"import {name}")
    target = hand.workspace / "site"
    shown = kernel.text(f"%pip install --no-index --target {target} {wheel}", timeout=60)
    assert f"Successfully installed {name}-1.0" in shown
    assert kernel.text(f"import sys; sys.path.append({str(target)!r})\nimport {name}") == NO_OUTPUT
    assert kernel.text(f"{name}.value") == "42"
    subprocess.run(["rm", "-rf", target], check=True)


def make_wheel(directory, name):
    import zipfile

    info = f"{name}-1.0.dist-info"
    path = directory / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "value = 42\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


# --- what it shares with the shell ----------------------------------------------------------------


def test_directory_follows_the_shell(hand, kernel):
    (hand.workspace / "it's").mkdir()
    hand.client.ok('cd "it\'s"')
    there = f"{hand.workspace}/it's"
    obs = kernel.cell("os.getcwd()", include_extra=True)
    assert obs.content == f'"{there}"\n{footer(there)}'
    # A chdir in Python does not move the shell, and stays until the shell moves.
    obs = kernel.cell("import os; os.chdir('/tmp'); print(os.getcwd())", include_extra=True)
    assert obs.content == f"/tmp\n{footer(there)}"
    assert kernel.text("os.getcwd()") == "'/tmp'"
    assert hand.client.ok("pwd") == there
    assert kernel.text("os.getcwd()") == "'/tmp'"
    hand.client.ok("cd /")
    assert kernel.text("os.getcwd()") == "'/'"
    hand.client.ok(f"cd {hand.workspace}; rmdir \"it's\"")


def test_directory_that_is_gone(hand, kernel):
    hand.client.ok("mkdir gone && cd gone && rmdir ../gone")
    assert kernel.text("1 + 1") == "2"


@pytest.mark.parametrize(
    "value",
    ["plain", "", "two words", "it's \"quoted\" $HOME `x` \\n !", "a\nb\tc\x1b\x01", "\u20ac $'"],
)
def test_exported_variables_reach_the_kernel(hand, kernel, value):
    quoted = "'" + value.replace("'", "'\\''") + "'"
    hand.client.run(f"export FROM_BASH={quoted}", script=True)
    assert kernel.text("print(repr(os.environ['FROM_BASH']))") == repr(value)
    hand.client.ok("unset FROM_BASH")
    assert kernel.text("'FROM_BASH' in os.environ") == "False"


# Bodies of functions, and what they print; the last ones look like what ends a list of functions.
FUNCTIONS = {
    "plain": ("echo hello", "hello"),
    "quotes": ("""echo "it's $1" '"$HOME" {' \\\\ $'a\\tb'""", 'it\'s x "$HOME" { \\ a\tb'),
    "lines": ("if true; then\n  for i in 1 2; do echo $i; done\nfi", "1\n2"),
    "braces": ("{ echo '}'; { echo \"{\"; }; }", "}\n{"),
    "string": ("echo 'one\n}\ndeclare -fx f\n'", "one\n}\ndeclare -fx f"),
    "document": ("cat <<END\n}\ndeclare -fx f\nEND", "}\ndeclare -fx f"),
}


@pytest.mark.parametrize("body", FUNCTIONS)
def test_exported_functions_reach_the_kernel(hand, kernel, body):
    """As they reach the programs that the shell starts: bash has them, also when they are changed, until they are unset."""
    code, printed = FUNCTIONS[body]
    show = "import subprocess; print(subprocess.run(['bash', '-c', 'f x'], capture_output=True, text=True).stdout)"
    definitions = "bash -c 'declare -fx' | base64 -w 0"
    hand.client.run(f"f() {{ {code}\n}}; g-h() {{ echo other; }}; export -f f g-h", script=True)
    assert kernel.text(show).strip() == printed
    assert kernel.text("!bash -c g-h") == "other"
    assert kernel.text(f"!{definitions}") == hand.client.ok(definitions)
    hand.client.ok("f() { echo changed; }")
    assert kernel.text(show).strip() == "changed"
    hand.client.ok("unset -f f; export -fn g-h")
    assert kernel.text("[name for name in os.environ if name.startswith('BASH_FUNC')]") == "[]"
    hand.client.ok("unset -f g-h")


def test_new_kernel_has_the_functions_of_the_shell(hand):
    hand.client.ok("early() { echo \"early $1\"; }; export -f early; own() { :; }")
    kernel = Kernel(hand, "with-functions")
    assert kernel.text("!bash -c 'early bird; type -t own || echo none'").split() == ["early", "bird", "none"]
    hand.client.ok("unset -f early own")
    assert kernel.text("!bash -c 'early bird' 2>/dev/null || echo gone") == "gone"


def test_what_a_function_holds_is_never_run(hand, kernel):
    """Text that would end a definition if it was read as one, and more after it."""
    mark = hand.workspace / "was-run"
    hand.client.run(
        f"trick() {{ cat <<'END'\n}}; touch {mark}\n}}\ndeclare -fx trick\n$(touch {mark})\nEND\n}}; export -f trick",
        script=True,
    )
    assert "declare -fx trick" in kernel.text("!bash -c trick")
    assert not mark.exists()
    hand.client.ok("unset -f trick")


def test_variables_of_the_kernel_are_its_own(hand, kernel):
    kernel.text('import os\nos.environ["MINE"] = "abc\\"def"\n')  # as a host sets them
    hand.client.ok("export OTHER=1")
    assert kernel.text("print(os.environ['MINE'], os.environ['OTHER'])") == 'abc"def 1'
    assert hand.client.ok("echo ${MINE-unset}") == "unset"
    assert kernel.text("!echo $MINE") == 'abc"def'


def test_new_kernel_has_the_environment_of_the_shell(hand):
    hand.client.ok("export BEFORE_START='x y'; arr=(1 2); export arr; declare -ix NUMBER=5")
    kernel = Kernel(hand, "late")
    assert kernel.text("import os; print(os.environ['BEFORE_START'], os.environ['NUMBER'])") == (
        "x y 5"
    )
    assert kernel.text("'arr' in os.environ, 'TENDON_HAND' in os.environ") == "(False, True)"


def test_environment_equals_that_of_the_shell(hand):
    """All of it, as the kernel was started; `_` is the shell's word for the program itself."""
    hand.client.run("export ODD=$'a  b\\n$HOME \\'x\\' '; export EMPTY=", script=True)
    kernel = Kernel(hand, "equal")
    kernel.text("1")
    theirs = base64.b64decode(hand.client.ok("env -0 | base64 -w 0"))
    ours = pathlib.Path(f"/proc/{kernel.status()['pid']}/environ").read_bytes()
    without = [b"_"]
    assert parsed(ours, without) == parsed(theirs, without)
    hand.client.ok("unset ODD EMPTY")


def parsed(block, without):
    entries = (entry.partition(b"=") for entry in block.split(b"\0") if entry)
    return {name: value for name, _, value in entries if name not in without}


def test_a_busy_shell_holds_up_no_cell(hand, kernel):
    """What it had set when it became busy is known."""
    kernel.text("import os")
    hand.client.ok("cd /usr; export BEFORE_WORK=1")
    hand.client.run("sleep 615", timeout=0.3)
    try:
        assert kernel.text("os.getcwd(), os.environ.get('BEFORE_WORK')") == "('/usr', '1')"
        assert Kernel(hand, "meanwhile").text("import os; os.environ.get('BEFORE_WORK')") == "'1'"
    finally:
        hand.client.input("C-c")
    hand.client.ok("unset BEFORE_WORK")


def test_a_removed_session_takes_its_kernel_along(hand, kernel):
    kernel.text("stays = 1")
    hand.client.post("/v1/sessions", {"name": "short"})
    short = Kernel(hand, "short")
    short.text("mine = 1")
    pid = short.status()["pid"]
    assert hand.client.request("DELETE", "/v1/sessions/short").status == 204
    assert short.status() is None
    wait_until(lambda: not alive(pid), 30, "the kernel has ended")
    assert kernel.text("stays") == "1"
    assert short.text("'mine' in globals()") == "False", "another one by that name"


@pytest.mark.concurrent
def test_a_session_removed_under_a_cell(hand):
    hand.client.post("/v1/sessions", {"name": "removed"})
    removed = Kernel(hand, "removed")
    removed.text("1")
    with removed.in_background("from time import sleep; sleep(60)") as cell:
        wait_until(lambda: removed.status()["busy"], 30, "the cell runs")
        assert hand.client.request("DELETE", "/v1/sessions/removed").status == 204
    assert cell.content.startswith("[The kernel was ended by SIGKILL. Its variables are lost")
    assert removed.status() is None


def test_named_kernels_are_apart(hand, kernel):
    hand.client.post("/v1/sessions", {"name": "two", "cwd": "/usr"})
    other = Kernel(hand, "two")
    kernel.text("apart = 1")
    obs = other.cell("'apart' in globals(), __import__('os').getcwd()", include_extra=True)
    assert obs.content == f"(False, '/usr')\n{footer('/usr')}"
    hand.client.ok("cd /tmp; export ONLY_TWO=1", session="two")
    assert other.text("os.getcwd(), os.environ['ONLY_TWO']") == "('/tmp', '1')"
    assert kernel.text("apart, 'ONLY_TWO' in os.environ") == "(1, False)"


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 41, "."])
def test_bad_names(hand, name):
    obs = hand.client.act("run_ipython", {"code": "1", "session": name})
    assert (obs.type, "a session name has" in obs.content) == ("error", True)


# --- time -----------------------------------------------------------------------------------------


def test_timeout_interrupts(hand, kernel):
    kernel.text("kept = 1")
    obs = kernel.cell("from time import sleep; sleep(60)", timeout=1, include_extra=True)
    assert without_haste(obs.content) == f"{timed_out(1)}\n{footer(hand.workspace)}"
    assert obs.extras["image_urls"] is None
    assert kernel.text("kept") == "1"


def test_timeout_has_no_images(kernel):
    code = f"display({{'image/png': {PNG!r}}}, raw=True)\nfrom time import sleep; sleep(60)"
    obs = kernel.cell(code, timeout=1.5)
    assert (without_haste(obs.content), obs.extras["image_urls"]) == (timed_out(1.5), None)


def test_timeout_shows_what_was_printed(kernel):
    text = kernel.text("print('so far')\nfrom time import sleep; sleep(60)", timeout=1.5)
    assert without_haste(text) == f"so far\n{timed_out(1.5)}"


def test_timeout_stops_programs(hand, kernel):
    for code in ("import os; os.system('sleep 61')", "!sleep 61"):
        assert kernel.text("1") == "1"  # it has started, and the cell before has stopped
        assert without_haste(kernel.text(code, timeout=1)) == timed_out(1)
    wait_until(lambda: not any("sleep 61" in c for c in hand.left().values()), 20, "no sleep")
    assert kernel.text("1") == "1"


@pytest.mark.concurrent
def test_cells_take_turns(kernel):
    answers = kernel.together(["from time import sleep; sleep(0.3); 'a'", "'b'", "'c'"])
    assert sorted(answers) == ["'a'", "'b'", "'c'"]


@pytest.mark.concurrent
def test_waiting_for_a_turn_ends(kernel, tmp_path):
    with kernel.in_background(kernel.until(tmp_path / "go") + "\n'first'") as first:
        wait_until(lambda: kernel.status()["busy"], 30, "the first cell runs")
        text = kernel.text("'second'", timeout=0.5)
        (tmp_path / "go").touch()
    assert text == f"{timed_out(0.5)}\n[The cell was not run: others are still running.]"
    assert first.content == "'first'"


# --- people ---------------------------------------------------------------------------------------


def test_attach_with_jupyter_tools(hand, kernel):
    """The connection file of /v1/plugins is enough for a person's own client."""
    kernel.text("shared = 'seen'")
    script = (
        "import sys\n"
        "from jupyter_client import BlockingKernelClient\n"
        "c = BlockingKernelClient(connection_file=sys.argv[1])\n"
        "c.load_connection_file(); c.start_channels(); c.wait_for_ready(timeout=60)\n"
        "c.execute_interactive('print(shared); added = 1', timeout=60, store_history=False)\n"
        "c.stop_channels()\n"
    )
    out = subprocess.run(
        [PYTHON, "-W", "ignore", "-c", script, kernel.status()["connection_file"]],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert out.stdout == "seen\n", out.stderr
    assert kernel.text("added") == "1"


def test_channels_are_no_ports(kernel):
    """(ipykernel itself opens one on loopback, with a secret, for the output of forks.)"""
    connection = json.loads(pathlib.Path(kernel.status()["connection_file"]).read_text())
    assert connection["transport"] == "ipc"
    assert pathlib.Path(f"{connection['ip']}-{connection['shell_port']}").is_socket()


def test_status(hand, kernel):
    kernel.text("1")
    plugin = kernel.plugin()
    assert plugin["running"] is True and plugin["memory"] > 10 << 20
    status = kernel.status()
    assert status["pid"] in plugin["pids"]
    assert status["interpreter"] == "/usr/bin/python3"
    mode = os.stat(status["connection_file"]).st_mode & 0o777
    assert mode == 0o600 and json.loads(pathlib.Path(status["connection_file"]).read_text())["key"]
