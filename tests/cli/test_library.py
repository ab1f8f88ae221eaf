"""libtendon as others see it: installed, found by pkg-config, nothing else exported."""

import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest

import trees
from tendons import eventually, jail_problem
from trees import BUILD, RELEASE, ROOT

PREFIX = "/usr/local"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The tree under test, installed below a directory of its own."""
    root = tmp_path_factory.mktemp("installed")
    subprocess.run(
        ["meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet"],
        env={**os.environ, "DESTDIR": str(root)},
        check=True,
        capture_output=True,
    )
    return root


def pkg_config(installed, *args):
    (found,) = installed.rglob("tendon.pc")
    env = {**os.environ, "PKG_CONFIG_LIBDIR": str(found.parent), "PKG_CONFIG_SYSROOT_DIR": str(installed)}
    system = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"], capture_output=True, text=True)
    env["PKG_CONFIG_LIBDIR"] += ":" + system.stdout.strip()
    result = subprocess.run(["pkg-config", *args, "tendon"], env=env, capture_output=True, text=True, check=True)
    return result.stdout.split()


def sanitizers():
    options = json.loads((BUILD / "meson-info/intro-buildoptions.json").read_text())
    (chosen,) = [o["value"] for o in options if o["name"] == "b_sanitize"]
    return [] if chosen == "none" else [f"-fsanitize={chosen}"]


def build(installed, tmp_path, source, *more):
    program = tmp_path / "program"
    flags = [flag for flag in pkg_config(installed, "--cflags", "--libs")]
    subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", *sanitizers(), str(source), "-o", str(program), *flags, *more], check=True
    )
    return program


@pytest.fixture
def run(installed, make_tendon):
    """Runs a program with a state directory of its own and what is installed in PATH."""
    tendon = make_tendon("jail")
    (library,) = {path.parent for path in installed.rglob("libtendon.so")}
    tendon.env["PATH"] = f"{installed}{PREFIX}/bin:{os.environ['PATH']}"
    tendon.env["LD_LIBRARY_PATH"] = str(library)

    def start(program, *args, runtime="jail"):
        env = {**tendon.env, "TENDON_RUNTIME": runtime}
        return subprocess.run([program, *args], env=env, capture_output=True, text=True, timeout=60)

    start.tendon = tendon
    return start


def needs_jail(run):
    if problem := jail_problem(run.tendon):
        pytest.skip(f"the jail does not work here: {problem}")


@pytest.mark.parametrize("runtime", ["local", "jail"])
def test_hello(installed, run, tmp_path, runtime):
    source = ROOT / "examples/hello.c"
    assert len(source.read_text().splitlines()) < 60
    program = build(installed, tmp_path, source)
    result = run(program, runtime=runtime)
    if runtime == "jail" and "jail" in result.stderr and result.returncode:
        pytest.skip(f"the jail does not work here: {result.stderr}")
    assert (result.stderr, result.returncode) == ("", 0)
    assert result.stdout.startswith("hello from ")
    assert run(program, "exit 7", runtime=runtime).returncode == 7
    assert run.tendon.leftovers() == []


def test_an_error_is_told(installed, run, tmp_path):
    program = build(installed, tmp_path, ROOT / "examples/hello.c")
    result = run(program, runtime="nonsense")
    assert result.returncode == 1
    assert result.stderr.startswith("hello: create: ") and "nonsense" in result.stderr


def test_only_our_names_are_exported(installed):
    (library,) = {path.resolve() for path in installed.rglob("libtendon.so")}
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    header = (ROOT / "include/tendon/tendon.h").read_text()
    assert names == set(re.findall(r"\b(tendon_\w+)\(", header))


def test_the_header_stands_alone_and_in_cplusplus(installed, tmp_path):
    flags = pkg_config(installed, "--cflags")
    for compiler, name in (("cc", "x.c"), ("c++", "x.cc")):
        source = tmp_path / name
        source.write_text("#include <tendon/tendon.h>\n")
        subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *flags, str(source)], check=True)


EVERYTHING = r"""
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tendon/tendon.h>

static struct tendon_error err;

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "%s: %s\n", err.code, err.text);
        exit(1);
    }
    return p;
}

int main(void)
{
    struct tendon *t = must(tendon_open(NULL, "{\"tendon.start_timeout\": 30}", &err));
    char *text, *bytes;
    size_t n = 0;

    assert(!tendon_open(NULL, "{\"tendon.nonsense\": 1}", &err) && strstr(err.text, "nonsense"));
    assert(!tendon_create(t, "{\"nonsense\": 1}", 10, &err) && strstr(err.text, "nonsense"));
    assert(!tendon_create(t, "{", 10, &err) && strcmp(err.code, "invalid") == 0);
    assert(!tendon_attach(t, "nobody", &err) && strcmp(err.code, "not_found") == 0);

    struct tendon_sandbox *sb = must(tendon_create(t, "{\"name\": \"one\"}", 30, &err));
    text = must(tendon_list(t, &err));
    assert(strstr(text, tendon_id(sb)) && strstr(text, "\"one\""));
    free(text);

    text = must(tendon_execute(sb, "{\"action\": \"run\", \"args\": {\"command\": \"echo hi\"}}", &err));
    assert(strstr(text, "\"observation\":\"run\"") && strstr(text, "\"content\":\"hi\""));
    free(text);
    assert(!tendon_execute(sb, "{\"action\": \"fly\"}", &err));
    text = must(tendon_execute(sb, "{\"action\": \"run\", \"args\": {\"command\": \"touch /tmp/no\","
                                   " \"confirmation_state\": \"rejected\"}}", &err));
    assert(strstr(text, "\"observation\":\"user_rejected\""));
    free(text);
    assert(tendon_run(sb, "test -e /tmp/no", 30, NULL, &err) == 1);

    struct tendon_events *events = must(tendon_events_open(sb, 0, &err));
    text = must(tendon_events_next(events, 30, &err));
    assert(strstr(text, "\"id\":0") && strstr(text, "\"action\":\"run\"") && strstr(text, "echo hi"));
    free(text);
    text = must(tendon_events_next(events, 30, &err));
    assert(strstr(text, "\"id\":1") && strstr(text, "\"cause\":0") && strstr(text, "\"observation\":\"run\""));
    free(text);
    tendon_events_close(events);
    struct tendon_events *news = must(tendon_events_open(sb, -1, &err));
    assert(!tendon_events_next(news, 0.1, &err) && strcmp(err.code, "timeout") == 0);
    assert(tendon_run(sb, "cd /tmp; x=kept", 30, NULL, &err) == 0);
    text = must(tendon_events_next(news, 30, &err));
    assert(strstr(text, "x=kept"));
    free(text);
    assert(tendon_run(sb, "cat", 30, NULL, &err) == 0); /* nobody can type */
    assert(tendon_run(sb, "echo $x; exit_is() { return $1; }; exit_is 9", 30, &text, &err) == 9);
    assert(strcmp(text, "kept") == 0);
    free(text);
    assert(tendon_run(sb, "sleep 100", 0.3, NULL, &err) == -1 && strcmp(err.code, "timeout") == 0);

    assert(tendon_write_file(sb, "/tmp/tendon-test/file", "a\0b", 3, 0640, 30, &err) == 0);
    bytes = must(tendon_read_file(sb, "/tmp/tendon-test/file", 100, &n, 30, &err));
    assert(n == 3 && memcmp(bytes, "a\0b", 4) == 0);
    free(bytes);
    assert(!tendon_read_file(sb, "/tmp/tendon-test/file", 2, &n, 30, &err));
    assert(strcmp(err.code, "too_large") == 0);
    assert(tendon_write_file(sb, "/tmp/tendon-test/none", "", 0, -1, 30, &err) == 0);
    bytes = must(tendon_read_file(sb, "/tmp/tendon-test/none", 100, &n, 30, &err));
    assert(n == 0);
    free(bytes);
    assert(!tendon_read_file(sb, "/tmp/tendon-test/other", 2, &n, 30, &err));
    assert(tendon_dial(sb, 1, 5, &err) == -1);

    assert(tendon_drive(sb, "nowhere", 30, &err) == -1);
    assert(tendon_drive(sb, "paused", 30, &err) == 0);
    text = must(tendon_inspect(sb, 30, &err));
    assert(strstr(text, "\"status\":\"paused\""));
    free(text);
    assert(tendon_drive(sb, "running", 30, &err) == 0);
    text = must(tendon_network(sb, NULL, 30, &err));
    int gated = strstr(text, "\"gated\":true") != NULL; /* as a jail is where the kernel can */
    assert(strstr(text, "\"refusals\":[]") && (!gated || getenv("LAYERS")));
    free(text);
    text = tendon_network(sb, "{\"allow\":[\"x.test\"]}", 30, &err);
    assert(gated ? text && strstr(text, "x.test") : !text);
    free(text);

    struct tendon_sandbox *again = must(tendon_attach(t, "one", &err));
    assert(strcmp(tendon_id(again), tendon_id(sb)) == 0);
    tendon_detach(again);
    tendon_detach(NULL);
    if (getenv("LAYERS")) {
        assert(tendon_snapshot(sb, "first", 30, &err) == 0);
        assert(tendon_write_file(sb, "/tmp/later", "x", 1, -1, 30, &err) == 0);
        struct tendon_sandbox *child = must(tendon_fork(sb, "first", "{\"name\": \"two\"}", 30, &err));
        assert(!tendon_read_file(child, "/tmp/later", 10, NULL, 30, &err));
        assert(tendon_remove(child, 30, &err) == 0);
        assert(tendon_rollback(sb, "first", 30, &err) == 0);
        assert(!tendon_read_file(sb, "/tmp/later", 10, NULL, 30, &err));
    }
    assert(tendon_remove(sb, 30, &err) == 0);
    do
        free(text = tendon_events_next(news, 30, &err));
    while (text);
    assert(strcmp(err.code, "gone") == 0);
    tendon_events_close(news);
    tendon_events_close(NULL);
    assert(tendon_gc(t, 30, &err) == 0);
    tendon_close(t);
    tendon_close(NULL);
    puts(tendon_version());
    return 0;
}
"""


@pytest.mark.parametrize("runtime", ["local", "jail"])
def test_every_function(installed, run, tmp_path, runtime):
    source = tmp_path / "everything.c"
    source.write_text(EVERYTHING)
    program = build(installed, tmp_path, source)
    if runtime == "jail":
        needs_jail(run)
        run.tendon.env["LAYERS"] = "1"
    result = run(program, runtime=runtime)
    assert (result.stderr, result.returncode) == ("", 0)
    assert result.stdout.startswith("0.")
    assert run.tendon.leftovers() == []


SESSION = r"""
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tendon/tendon.h>

static struct tendon_error err;
static char statuses[4096], notes[4096];

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "%s: %s\n", err.code, err.text);
        exit(1);
    }
    return p;
}

static void status(const char *level, const char *word, const char *message, void *ctx)
{
    assert(strcmp(level, "info") == 0 && message && strcmp(ctx, "mine") == 0);
    strcat(strcat(statuses, word), " ");
}

static void note(const char *text, void *ctx)
{
    assert(strcmp(ctx, "mine") == 0);
    strcat(strcat(notes, text), "\n");
}

static void say(char *text)
{
    puts(must(text));
    free(text);
}

/* SPEC OPTIONS REPOSITORY */
int main(int argc, char **argv)
{
    struct tendon *t = must(tendon_open(NULL, NULL, &err));
    struct tendon_sandbox *sb = must(tendon_create(t, argv[1], 60, &err));
    const struct tendon_session_watch watch = {.status = status, .note = note, .ctx = (char[]){"mine"}};

    assert(argc == 4);
    assert(!tendon_session_open(sb, "{\"tokens\": [{\"provider\": \"nobody\", \"token\": \"x\"}]}", NULL, &err));
    assert(!tendon_session_open(sb, "{\"workspce\": \"/\"}", NULL, &err) && strstr(err.text, "workspace"));
    assert(!tendon_session_open(sb, "[]", NULL, &err));
    assert(!tendon_session_open(sb, "{\"tokens\": [{\"provider\": \"github\", \"token\": \"x\", \"hots\": \"h\"}]}", NULL, &err));
    assert(strstr(err.text, "host") && !tendon_session_open(sb, "{\"tokens\": [{\"provider\": \"github\"}]}", NULL, &err));
    struct tendon_session *s = must(tendon_session_open(sb, argv[2], &watch, &err));
    if (tendon_session_setup(s, &err) < 0 || tendon_session_add_env(s, "{\"later\": \"$(id) `id`\"}", &err) < 0)
        must(NULL);
    assert(tendon_session_add_env(s, "{", &err) < 0 && tendon_session_add_env(s, "[\"A=1\"]", &err) < 0);
    assert(!tendon_session_prepare(s, "{\"name\": \"/nowhere/at/all\"}", &err) && err.text[0]);
    say(tendon_session_prepare(s, argv[3], &err));
    say(tendon_session_branch(s, "thing", &err));
    say(tendon_session_act(s, "{\"action\": \"run\", \"args\": {\"command\": \"echo $FIRST $LATER $FROM_SETUP; echo new >a.txt; pwd\"}}", &err));
    say(tendon_session_changes(s, "thing", &err));
    say(tendon_session_diff(s, "a.txt", "thing", &err));
    say(tendon_session_act(s, "{\"action\": \"run\", \"args\": {\"command\": \"touch ran\", \"confirmation_state\": \"awaiting_confirmation\"}}", &err));
    say(tendon_session_act(s, "{\"action\": \"run\", \"args\": {\"command\": \"touch ran\", \"confirmation_state\": \"rejected\"}}", &err));
    say(tendon_session_act(s, "{\"action\": \"task_tracking\", \"args\": {\"command\": \"plan\", \"task_list\": [{\"title\": \"T\", \"status\": \"todo\"}]}}", &err));
    assert(tendon_run(sb, "test ! -e ran", 30, NULL, &err) == 0);
    assert(!tendon_session_act(s, "{\"action\": \"fly\"}", &err));
    tendon_session_close(s);
    tendon_session_close(NULL);
    puts(statuses);
    assert(tendon_remove(sb, 30, &err) == 0);
    tendon_close(t);
    fputs(notes, stderr);
    return 0;
}
"""


@pytest.fixture
def repository(tmp_path):
    """One to clone, with everything that a session looks for."""
    path = tmp_path / "upstream" / "thing"
    for name, text in {
        "a.txt": "old\n",
        ".openhands/setup.sh": "export FROM_SETUP=yes\n",
        ".openhands/pre-commit.sh": "exit 0\n",
        ".openhands/microagents/style.md": "---\ntriggers: [style]\n---\nBe brief.\n",
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
        (path / name).chmod(0o755 if name.endswith(".sh") else 0o644)
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"], ["branch", "feature"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, "-C", str(path), *words], check=True, capture_output=True)
    return path


@pytest.mark.parametrize("runtime", ["local", "jail"])
def test_a_session(installed, run, tmp_path, repository, runtime):
    """Environment, clone, set-up script, hooks, microagents, confirmation and tasks, for programs that are not ours."""
    source = tmp_path / "session.c"
    source.write_text(SESSION)
    program = build(installed, tmp_path, source)
    if runtime == "jail":
        needs_jail(run)
    place = str(repository) if runtime == "local" else "/upstream/thing"
    spec = {"volumes": [f"{repository.parent}:/upstream:ro"]} if runtime == "jail" else {}
    options = {"directory": str(tmp_path / "record"), "env": {"first": "a $HOME"}}
    words = [json.dumps(part) for part in (spec, options, {"name": place, "branch": "feature"})]
    run.tendon.env["GIT_CONFIG_COUNT"] = "1"  # the repository is not that of who clones it
    run.tendon.env |= {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    result = run(program, *words, runtime=runtime)
    assert result.returncode == 0, result
    prepared, branch, acted, changes, diff, waiting, rejected, tasks, statuses = result.stdout.splitlines()
    prepared = json.loads(prepared)
    assert prepared["directory"] == "thing" and branch == "feature"
    assert [(m["name"], m["triggers"], m["content"].strip()) for m in prepared["microagents"]] == [
        ("style", ["style"], "Be brief.")
    ]
    assert json.loads(acted)["content"].startswith("a $HOME $(id) `id` yes\n/")
    assert json.loads(changes) == [{"status": "M", "path": "a.txt"}]
    assert json.loads(diff) == {"original": "old\n", "modified": "new\n"}
    assert json.loads(waiting)["observation"] == "null"
    assert json.loads(rejected)["observation"] == "user_rejected"
    assert "TASKS.md" in json.loads(tasks)["content"]
    events = [json.loads(path.read_text()) for path in (tmp_path / "record/events").glob("*.json")]
    (mine,) = [e for e in events if "$FROM_SETUP" in e.get("args", {}).get("command", "")]
    assert [e["content"] for e in events if e.get("cause") == mine["id"]] == [json.loads(acted)["content"]]
    assert (tmp_path / "record/TASKS.md").read_text().startswith("# Task List")
    assert statuses.split()[:2] == ["STATUS$RUNTIME_STARTED", "STATUS$READY"]
    assert {"STATUS$SETTING_UP_WORKSPACE", "STATUS$SETTING_UP_GIT_HOOKS"} <= set(statuses.split())
    assert run.tendon.leftovers() == []


CLOSING = r"""
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <tendon/tendon.h>

enum { COUNT = 4 };
static struct tendon_session *sessions[COUNT];
static int told;

/* Whoever is told first closes all others, and at last itself. */
static void status(const char *level, const char *word, const char *message, void *ctx)
{
    assert(level && word && message && ctx == sessions);
    told++;
    for (int i = 0; i < COUNT; i++) {
        tendon_session_close(sessions[i]);
        sessions[i] = NULL;
    }
}

int main(void)
{
    const struct tendon_session_watch watch = {.status = status, .ctx = sessions};
    struct tendon_error err;
    struct tendon *t = tendon_open(NULL, NULL, &err);
    struct tendon_sandbox *sb = t ? tendon_create(t, NULL, 60, &err) : NULL;

    assert(sb);
    for (int i = 0; i < COUNT; i++)
        assert((sessions[i] = tendon_session_open(sb, "{\"attached\": true}", &watch, &err)));
    assert(tendon_drive(sb, "stopped", 60, &err) == 0);
    assert(told == 1 && tendon_remove(sb, 30, &err) == 0);
    tendon_close(t);
    return 0;
}
"""


def test_who_is_told_closes_other_sessions(installed, run, tmp_path):
    source = tmp_path / "closing.c"
    source.write_text(CLOSING)
    program = build(installed, tmp_path, source)
    needs_jail(run)
    result = run(program)
    assert (result.stderr, result.returncode) == ("", 0)


STATUSES = r"""
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tendon/tendon.h>

static struct tendon_error err;

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return p;
}

static void of_a_sandbox(const char *id, const char *status, const char *message, void *ctx)
{
    assert(strlen(id) == 10 && strcmp(ctx, "mine") == 0);
    printf("%s %s\n", status, message);
}

static void of_a_session(const char *level, const char *status, const char *message, void *ctx)
{
    assert(strcmp(level, "info") == 0 && strcmp(ctx, "mine") == 0 && !*message);
    printf("session %s\n", status);
}

/* SPEC */
int main(int argc, char **argv)
{
    static char mine[] = "mine";
    struct tendon *t = must(tendon_open(NULL, NULL, &err));
    const struct tendon_session_watch watch = {.status = of_a_session, .ctx = mine};
    static const char *const goals[] = {"paused", "running", "stopped", "stopped", "running"};

    assert(argc == 2);
    tendon_watch(t, of_a_sandbox, mine);
    struct tendon_sandbox *sb = must(tendon_create(t, argv[1], 60, &err));
    struct tendon_session *s = must(tendon_session_open(sb, NULL, &watch, &err));
    for (size_t i = 0; i < sizeof goals / sizeof goals[0]; i++) {
        puts(goals[i]);
        if (tendon_drive(sb, goals[i], 30, &err) < 0)
            must(NULL);
    }
    tendon_session_close(s);
    puts("removed");
    if (tendon_remove(sb, 30, &err) < 0)
        must(NULL);
    puts("again");
    sb = must(tendon_create(t, argv[1], 60, &err));
    tendon_watch(t, NULL, NULL);
    if (tendon_remove(sb, 30, &err) < 0)
        must(NULL);
    tendon_close(t);
    return 0;
}
"""


def test_statuses_of_a_sandbox(installed, run, tmp_path):
    """From an image that is unpacked to the end, in OpenHands' words."""
    source = tmp_path / "statuses.c"
    source.write_text(STATUSES)
    program = build(installed, tmp_path, source)
    needs_jail(run)
    busybox = shutil.which("busybox")
    if not busybox:
        pytest.skip("busybox-static is not installed")
    image = tmp_path / "root.tar"
    with tarfile.open(image, "w") as tar:
        tar.add(busybox, "bin/busybox")
        link = tarfile.TarInfo("bin/sh")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        tar.addfile(link)
    run.tendon.env["TENDON_HAND_PROGRAM"] = str(trees.program(RELEASE, "tendon-hand"))  # there are no libraries inside
    result = run(program, json.dumps({"image": str(image)}))
    assert result.returncode == 0, result
    assert result.stdout.replace("STATUS$", "").splitlines() == [
        "STARTING_RUNTIME ",
        f"BUILDING_RUNTIME unpacking {image}",
        "STARTING_RUNTIME ",
        "RUNTIME_STARTED ",
        "paused",
        "running",
        "stopped",
        "STOPPED ",
        "session STOPPED",
        "stopped",
        "running",
        "STARTING_RUNTIME ",
        "RUNTIME_STARTED ",
        "session READY",
        "removed",
        "STOPPED ",
        "again",
        "STARTING_RUNTIME ",
        "RUNTIME_STARTED ",
    ]


def test_static(installed, run, tmp_path):
    """The archive has everything of ours in it."""
    (archive,) = installed.rglob("libtendon.a")
    program = tmp_path / "hello"
    flags = [flag for flag in pkg_config(installed, "--cflags", "--libs", "--static") if flag != "-ltendon"]
    subprocess.run(
        ["cc", *sanitizers(), str(ROOT / "examples/hello.c"), str(archive), "-o", str(program), *flags], check=True
    )
    result = run(program, "echo static", runtime="local")
    assert (result.stdout, result.stderr, result.returncode) == ("static\n", "", 0)


def test_a_killed_program_leaves_nothing(installed, run, tmp_path):
    program = build(installed, tmp_path, ROOT / "examples/hello.c")
    tendon = run.tendon
    env = {**tendon.env, "TENDON_RUNTIME": "local"}
    process = subprocess.Popen([program, "sleep 1000"], env=env)
    eventually(lambda: "sleep 1000" in str(tendon("ps", (tendon.ok("ls", "-q").split() or ["none"])[0]).stdout), "it runs")
    process.kill()
    process.wait()
    eventually(lambda: tendon.ok("gc", "--quiet") == "" and tendon.leftovers() == [], "nothing is left")


def test_what_is_installed(installed):
    at = installed / PREFIX.lstrip("/")
    for path in (
        "bin/tendon",
        "bin/tendon-hand",
        "bin/tendon-jail",
        "include/tendon/tendon.h",
        "share/man/man1/tendon.1",
        "share/bash-completion/completions/tendon",
        "share/zsh/site-functions/_tendon",
        "share/fish/vendor_completions.d/tendon.fish",
    ):
        assert (at / path).exists(), path
