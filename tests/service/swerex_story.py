"""What SWE-agent does with SWE-ReX, by its own client: swerex_story.py URL STORY. The token is in SWEREX_TOKEN. Every story
holds for SWE-ReX's own server as well."""

import asyncio
import os
import pathlib
import sys
import tempfile

from swerex.deployment.config import RemoteDeploymentConfig
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)

CHECK = {"timeout": 20}


async def raises(kind, call):
    try:
        await call
    except kind as error:
        return error
    raise AssertionError(f"nothing was raised, expected {kind}")


async def run(runtime, command, **more):
    return await runtime.run_in_session(BashAction(command=command, **{**CHECK, **more}))


async def sessions(runtime):
    assert await runtime.is_alive()
    await runtime.create_session(CreateBashSessionRequest())
    await raises(SessionExistsError, runtime.create_session(CreateBashSessionRequest()))
    await raises(SessionDoesNotExistError, run(runtime, "true", session="other"))
    await raises(SessionDoesNotExistError, runtime.close_session(CloseBashSessionRequest(session="other")))
    done = await run(runtime, "echo one; echo two >&2")
    assert (done.output.split(), done.exit_code) == (["one", "two"], 0), done
    await run(runtime, "cd /usr && export A=1 && b() { echo b$A; }")
    assert (await run(runtime, "pwd; b")).output.split() == ["/usr", "b1"]
    await runtime.create_session(CreateBashSessionRequest(session="other"))
    assert (await run(runtime, "echo $A", session="other")).output.strip() == ""
    assert (await run(runtime, "printf 'no newline'")).output.strip() == "no newline"
    assert (await run(runtime, "echo a\necho b")).output.split() == ["a", "b"]
    assert (await run(runtime, "cat <<'X'\n$A\nX")).output.strip() == "$A"
    assert (await run(runtime, "printf '\\033[31mred\\033[0m\\n'")).output.strip() == "red"
    many = await run(runtime, "seq 1 20000")
    assert many.output.split() == [str(i) for i in range(1, 20001)]
    await runtime.close_session(CloseBashSessionRequest(session="other"))
    await raises(SessionDoesNotExistError, run(runtime, "true", session="other"))
    await runtime.close_session(CloseBashSessionRequest())


async def failures(runtime):
    await runtime.create_session(CreateBashSessionRequest())
    error = await raises(NonZeroExitCodeError, run(runtime, "echo out; false", error_msg="it went wrong"))
    assert str(error).startswith("it went wrong: ") and "exit code 1" in str(error) and "out" in str(error)
    assert (await run(runtime, "(exit 7)", check="silent")).exit_code == 7
    assert (await run(runtime, "(exit 7)", check="ignore")).exit_code is None
    error = await raises(BashIncorrectSyntaxError, run(runtime, "touch not-made\nif then"))
    assert "syntax error" in error.extra_info["bash_stderr"], error.extra_info
    assert (await run(runtime, "ls not-made", check="silent")).exit_code == 2
    await raises(CommandTimeoutError, run(runtime, "echo before; sleep 100", timeout=1))
    await runtime.run_in_session(BashInterruptAction())
    assert (await run(runtime, "echo after")).output.strip().endswith("after")


async def stubborn(runtime):
    """One that does not care for ctrl-C."""
    await runtime.create_session(CreateBashSessionRequest())
    await raises(CommandTimeoutError, run(runtime, "bash -c 'trap \"\" INT; while :; do sleep 0.1; done'", timeout=1))
    await runtime.run_in_session(BashInterruptAction(timeout=2))
    assert (await run(runtime, "echo after")).output.strip().endswith("after")


async def interactive(runtime):
    await runtime.create_session(CreateBashSessionRequest())
    talk = {"is_interactive_command": True, "expect": ["say> "]}
    start = await run(runtime, "bash --norc --noprofile -c 'while read -e -p \"say> \" x; do echo \"[$x]\"; done'", **talk)
    assert start.expect_string == "say> ", start
    said = await run(runtime, "hello", **talk)
    assert "[hello]" in said.output and said.expect_string == "say> ", said
    await runtime.run_in_session(BashInterruptAction())
    assert (await run(runtime, "echo after")).output.strip().endswith("after")


async def commands(runtime):
    done = await runtime.execute(Command(command=["sh", "-c", 'echo "$1"; echo two >&2; exit 3', "x", "one two"]))
    assert (done.stdout, done.stderr, done.exit_code) == ("one two\n", "two\n", 3), done
    done = await runtime.execute(Command(command="echo $((1 + 1)) | cat; pwd", shell=True, cwd="/usr"))
    assert (done.stdout, done.exit_code) == ("2\n/usr\n", 0), done
    done = await runtime.execute(Command(command="echo $A; echo e >&2", shell=True, env={"A": "x y"}, merge_output_streams=True))
    assert (done.stdout, done.stderr) == ("x y\ne\n", ""), done
    await raises(NonZeroExitCodeError, runtime.execute(Command(command="false", shell=True, check=True)))
    await raises(CommandTimeoutError, runtime.execute(Command(command=["sleep", "100"], timeout=1)))
    await raises(FileNotFoundError, runtime.execute(Command(command=["/no/such/program"])))
    big = await runtime.execute(Command(command="head -c 3000000 /dev/zero | tr '\\0' x", shell=True))
    assert len(big.stdout) == 3000000


async def files(runtime):
    await runtime.create_session(CreateBashSessionRequest())
    where = (await run(runtime, "mktemp -d")).output.strip()
    await runtime.write_file(WriteFileRequest(path=f"{where}/new/a", content="é\n"))
    assert (await runtime.read_file(ReadFileRequest(path=f"{where}/new/a"))).content == "é\n"
    await raises(FileNotFoundError, runtime.read_file(ReadFileRequest(path=f"{where}/none")))
    with tempfile.TemporaryDirectory() as mine:
        here = pathlib.Path(mine)
        (here / "tree/deep").mkdir(parents=True)
        (here / "tree/deep/x").write_bytes(bytes(range(256)) * 100)
        (here / "tree/y").write_text("y")
        for target in (f"{where}/up", "/tmp/swerex-story-up"):
            await runtime.upload(UploadRequest(source_path=str(here / "tree/y"), target_path=target))
            assert (await runtime.read_file(ReadFileRequest(path=target))).content == "y"
        await runtime.upload(UploadRequest(source_path=str(here / "tree"), target_path=f"{where}/copy"))
        size = await run(runtime, f"wc -c <{where}/copy/deep/x; cat {where}/copy/y; rm /tmp/swerex-story-up")
        assert size.output.split() == ["25600", "y"], size
    source = f"{where}/rc"
    await runtime.write_file(WriteFileRequest(path=source, content="export SOURCED=yes\necho sourced\n"))
    await runtime.create_session(CreateBashSessionRequest(session="sourced", startup_source=[source], startup_timeout=20))
    assert (await run(runtime, "echo $SOURCED", session="sourced")).output.strip() == "yes"


async def main():
    url, story = sys.argv[1:]
    deployment = RemoteDeploymentConfig(auth_token=os.environ["SWEREX_TOKEN"], host=url).get_deployment()
    await deployment.start()
    await globals()[story](deployment.runtime)
    await deployment.stop()
    print("done")


asyncio.run(main())
