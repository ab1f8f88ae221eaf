"""Usage: help, options, errors; what every verb has in common."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from tendons import Screen
from trees import ROOT

VERBS = """run exec shell cp port open replay new pause resume stop rm snapshot rollback fork ls ps logs events
    inspect build images config doctor gc bench completion version help""".split()


def test_version(tendon):
    out = tendon.ok("version")
    assert out.startswith("tendon 0.")
    for option in ("--version", "-V"):
        assert tendon.ok(option) == out == tendon.ok("--state", "/nowhere", option)
    assert tendon.json("version") == {"version": out.split()[1]}


@pytest.mark.parametrize("args", [[], ["help"], ["--help"], ["-h"], ["--json", "--help"]])
def test_help_lists_every_verb(tendon, args):
    out = tendon.ok(*args)
    for verb in VERBS:
        assert f"\n  {verb} " in out
    assert "--config FILE" in out
    assert not tendon.state.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(tendon, verb):
    out = tendon.ok("help", verb)
    assert tendon.ok(verb, "--help") == out
    assert out.startswith(f"Usage: tendon {verb} [OPTIONS]")
    assert "--[no-]json" in out
    assert not tendon.state.exists()


def test_help_of_run_names_what_a_sandbox_can_be(tendon):
    out = tendon.ok("help", "run")
    for option in ("--runtime", "--workspace", "--timeout", "--memory", "--network", "--keep", "COMMAND"):
        assert option in out


def test_unknown_verb_names_the_nearest(tendon):
    assert tendon.fails(2, "rum") == "there is no verb 'rum': did you mean 'run'? (see: tendon run --help)"
    assert "there is no verb 'snapshto': did you mean 'snapshot'?" in tendon.fails(2, "help", "snapshto")


@pytest.mark.parametrize(
    "line, here",
    [
        ("pull debian", "an image is fetched at its first use: tendon run --runtime docker --image IMAGE COMMAND"),
        ("rmi debian", "tendon images --prune"),
        ("restart web", "tendon stop SANDBOX, then tendon resume SANDBOX"),
        ("help attach", "tendon shell SANDBOX"),
        ("run -it debian bash", "tendon shell --new, for a terminal"),
        ("run --name web --detach sleep 9", "tendon new --name NAME, then tendon exec --session main NAME 'COMMAND &'"),
        ("new -p 8080:80", "tendon new -p PORT, then tendon port NAME LOCAL:PORT"),
        ("exec -it web bash", "tendon shell SANDBOX, for a terminal"),
        ("build .", "docker build -t NAME DIR, then tendon build NAME"),
        ("exec -w /tmp web ls", "tendon exec --directory DIR SANDBOX COMMAND"),
    ],
)
def test_what_docker_calls_otherwise_is_told(tendon, line, here):
    complaint = tendon.fails(2, *line.split())
    assert "\n" not in complaint and f" as in docker; here: {here}" in complaint
    assert not tendon.state.exists()


def test_words_of_docker_that_mean_the_same(tendon):
    assert tendon.ok("help", "start") == tendon.ok("help", "unpause") == tendon.ok("help", "resume")
    assert tendon.ok("help", "top") == tendon.ok("help", "ps")
    assert tendon.ok("--version") == tendon.ok("-v") == tendon.ok("version")
    assert tendon.ok("run", "--rm", "echo here").strip() == "here"
    assert tendon.fails(2, "run", "--rm", "--keep", "true") == "--rm and --keep: it cannot be both"
    tendon.ok("new", "--name", "web")
    tendon.ok("stop", "web")
    assert "web" in tendon.ok("ps", "-a")
    assert tendon("start", "web").stdout == "web\n"
    assert tendon.ok("exec", "web", "echo up").strip() == "up"
    tendon.ok("rm", "web")


@pytest.mark.parametrize("words", [["debian:12", "true"], ["ubuntu"], ["registry.example/a", "b"]])
def test_an_image_in_place_of_the_command_is_noticed(tendon, words):
    done = tendon("run", *words)
    assert done.returncode == 127
    assert f"for a command in an image: tendon run --runtime docker --image {words[0]} COMMAND\n" in done.stderr


@pytest.mark.parametrize("words", [["no-such-command"], ["./here", "x"], ["exit 127"]])
def test_what_is_no_image_is_not_called_one(tendon, words):
    assert "in an image" not in tendon("run", *words).stderr


@pytest.mark.parametrize(
    "line, where",
    [
        ("frobnicate", "tendon COMMAND --help"),
        ("--frobnicate ls", "tendon COMMAND --help"),
        ("ls --frobnicate", "tendon ls --help"),
        ("exec", "tendon exec --help"),
        ("run --timeout", "tendon run --help"),
        ("rm --all=perhaps", "tendon rm --help"),
        ("version 1", "tendon version --help"),
    ],
)
def test_wrong_usage_is_one_line_that_says_where_the_right_one_is_told(tendon, line, where):
    complaint = tendon.fails(2, *line.split())
    assert "\n" not in complaint and f"{where})" in complaint


def test_unknown_option_names_the_nearest(tendon):
    assert "--workspace" in tendon.fails(2, "run", "--wrokspace", "x")
    assert "--json" in tendon.fails(2, "--jsno", "ls")
    assert not tendon.state.exists()


@pytest.mark.parametrize("value", ["0", "-1", "soon"])
def test_bad_timeout_is_refused(tendon, value):
    assert "timeout" in tendon.fails(2, "run", f"--timeout={value}", "true")


@pytest.mark.parametrize("args", [["--json", "exec", "nobody", "true"], ["exec", "--json", "nobody", "true"]])
def test_errors_as_json(tendon, args):
    result = tendon(*args)
    assert (result.returncode, result.stdout) == (66, "")
    assert json.loads(result.stderr) == {
        "error": {"code": "not_found", "message": "no sandbox nobody: there is no sandbox; make one with: tendon new"}
    }


def test_wrong_usage_as_json(tendon):
    result = tendon("--json", "run", "--nonsense")
    assert (result.returncode, json.loads(result.stderr)["error"]["code"]) == (2, "invalid")


def test_options_before_and_behind_the_verb(tendon, tmp_path):
    other = tmp_path / "other"
    assert tendon.ok("--state", str(other), "ls", "--json") == "[]\n"
    assert other.is_dir() and not tendon.state.exists()
    third = tmp_path / "third"
    assert tendon.ok("--state", str(other), "--json", "ls", "--state", str(third)) == "[]\n"
    assert third.is_dir()


def test_a_state_directory_that_others_could_replace(tendon, tmp_path):
    """Whoever may write to a directory above it renames it, and puts another one into its place."""
    for mode, refused in ((0o777, True), (0o1777, False), (0o755, False)):
        above = tmp_path / f"above-{mode:o}"
        (above / "between").mkdir(parents=True)
        above.chmod(mode)
        link = tmp_path / f"link-{mode:o}"
        link.symlink_to(above)
        for path in (above / "between/state", link / "between/state"):
            if refused:
                assert f"others can replace it, because {above} is" in tendon.fails(77, "--state", str(path), "ls")
            else:
                assert tendon.ok("--state", str(path), "ls", "--json") == "[]\n"
    (tmp_path / "above-777/link").symlink_to(tmp_path / "above-755")
    assert "others can replace it" in tendon.fails(77, "--state", str(tmp_path / "above-777/link/state"), "ls")



def test_set_before_and_behind_add_up(tendon):
    out = tendon.json("--set", "jail.memory=1g", "config", "--set", "jail.pids=77", "--changed")
    text = json.dumps(out)
    assert "1g" in text and "77" in text


def test_a_key_that_does_not_exist(tendon):
    result = tendon("--set", "jail.memroy=1g", "ls")
    assert result.returncode != 0 and "memory" in result.stderr
    assert "section.key=value" in tendon.fails(2, "--set", "jail.memory", "ls")


def test_an_unknown_runtime_lists_the_known_ones(tendon):
    result = tendon("run", "--runtime", "jial", "true")
    assert result.returncode != 0
    assert "jail" in result.stderr and "docker" in result.stderr


def test_a_reader_that_goes_away(tendon):
    process = tendon.start("config")
    process.stdout.close()
    _, complaint = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGPIPE) and complaint == ""  # it may all have fitted into the pipe
    with open("/dev/full", "w") as full:
        result = subprocess.run([tendon.program, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 74 and "standard output" in result.stderr


# --- shells -------------------------------------------------------------------------------------


def bash_offers(tendon, line):
    """What bash offers behind the line."""
    words = line.split(" ")
    script = f"""
        source <({tendon.program} completion bash)
        COMP_WORDS=({' '.join(f"'{word}'" for word in words)})
        COMP_CWORD={len(words) - 1}
        _tendon
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = {**tendon.env, "PATH": f"{os.path.dirname(tendon.program)}:{tendon.env['PATH']}"}
    result = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.split()


def test_bash_completion(tendon):
    assert set(VERBS) <= set(bash_offers(tendon, "tendon "))
    assert bash_offers(tendon, "tendon snap") == ["snapshot"]
    assert bash_offers(tendon, "tendon --state /x sna") == ["snapshot"]
    assert bash_offers(tendon, "tendon run --netw") == ["--network"]
    assert bash_offers(tendon, "tendon run --network h") == ["host"]
    assert bash_offers(tendon, "tendon completion f") == ["fish"]
    assert "--quiet" in bash_offers(tendon, "tendon ls -")
    tendon.ok("new", "--name", "web")
    assert bash_offers(tendon, "tendon exec w") == ["web"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_scripts(tendon, shell):
    program = shutil.which(shell)
    if not program:
        pytest.skip(f"{shell} is not installed")
    script = tendon.ok("completion", shell)
    for verb in VERBS:
        assert verb in script
    result = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


def test_zsh_completion(tendon):
    zsh = shutil.which("zsh")
    if not zsh:
        pytest.skip("zsh is not installed")
    script = f"""
        autoload -U compinit && compinit -u -d {tendon.tmp}/dump
        source <({tendon.program} completion zsh)
        print -- $_comps[tendon]
    """
    result = subprocess.run([zsh, "-fc", script], env=tendon.env, capture_output=True, text=True, timeout=60)
    (tendon.tmp / "dump").unlink(missing_ok=True)
    assert (result.stdout, result.stderr) == ("_tendon\n", "")


def test_fish_completion(tendon):
    fish = shutil.which("fish")
    if not fish:
        pytest.skip("fish is not installed")
    script = f"{tendon.program} completion fish | source; complete -C 'tendon snap'; complete -C 'tendon run --netw'"
    result = subprocess.run([fish, "--no-config", "-c", script], env=tendon.env, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == ["snapshot", "--network"]


def test_completions_and_manual_know_every_verb_and_flag(tendon):
    """As each verb tells them itself."""
    bash, zsh, fish = (tendon.ok("completion", shell) for shell in ("bash", "zsh", "fish"))
    manual = (ROOT / "docs/man/tendon.1").read_text().replace("\\-", "-")
    listed = re.findall(r"^  (\w+)  ", tendon.ok("help"), re.MULTILINE)
    assert set(VERBS) <= set(listed)
    for verb in listed:
        flags = re.findall(r"^ +(?:-\w, )?--(?:\[no-\])?([a-z0-9-]+)", tendon.ok("help", verb), re.MULTILINE)
        for flag in flags:
            assert f"--{flag}" in bash and f"--{flag}" in zsh and f"-l {flag}" in fish, (verb, flag)
            assert re.search(rf"Fl.*-{flag}\b", manual), (verb, flag)


def test_unknown_shell(tendon):
    assert "fish" in tendon.fails(2, "completion", "csh")


WAITS_FOR_THE_ENGINE = (
    (["doctor", "--runtime", "docker"], "examining what sandboxes need", 1),
    (["images"], "asking the container engine", 124),
    (["build", "debian"], "building", 124),
    (["run", "--runtime", "docker", "true"], "starting a sandbox", 124),
    (["gc"], "collecting what nobody owns", 0),
)


def test_an_engine_that_does_not_answer_is_waited_for_with_a_word(make_tendon, screen, tmp_path):
    """On a terminal; and not for long. Each waits for itself, all at the same time."""
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "engine"))
        engine.listen(100)
        env = {"DOCKER_HOST": f"unix://{tmp_path}/engine"}
        waiting = [screen(make_tendon("local"), *words, env=env) for words, _, _ in WAITS_FOR_THE_ENGINE]
        for one, (_, doing, _) in zip(waiting, WAITS_FOR_THE_ENGINE):
            one.wait_for(doing + r" \(\d+ s\)")
        for one, (words, _, status) in zip(waiting, WAITS_FOR_THE_ENGINE):
            assert one.wait(60) == status, words
            assert "no answer in time" in one.text or status == 0, words


def test_errors_cannot_speak_to_the_terminal(tendon, tmp_path):
    error = {"code": 1, "message": "no\x1b]0;title\x07 \x9bway"}
    server = tmp_path / "server"
    server.write_text(f"read line\ncat <<'.'\n{json.dumps({'jsonrpc': '2.0', 'id': 1, 'error': error})}\n.\n")
    screen = Screen(tendon, "tools", "--stdio", f"sh {server}", env={"NO_COLOR": "1"})
    assert screen.wait() != 0
    assert b"no?]0;title? ?way" in screen.raw and b"\x1b]" not in screen.raw
    screen.close()
