"""Settings of this machine are seen in a jail as long as they hold no credential."""

import pathlib
import shutil
import subprocess

import pytest

from launcher import NOBODY
from rooms import room

CLEAN = {
    "npmrc": "registry=https://packages.example/npm\n//packages.example/:_authToken=${NPM_TOKEN}\nalways-auth=true\n",
    "pip.conf": "[global]\nindex-url = https://packages.example/simple\n# the password is asked for\n",
    "wgetrc": "tries = 3\n",
    "apt/apt.conf.d/10proxy": 'Acquire::http::Proxy "http://door.example:3128";\n',
    "conda/condarc": "channels: [https://packages.example/conda]\ntoken_timeout: 5\n",
    "gitconfig": "[url \"ssh://git@host.example/\"]\n\tinsteadOf = https://host.example/\n",
}
HOLDING = {
    "npmrc": "registry=https://packages.example/npm\n//packages.example/:_authToken=GEHEIM\n",
    "pip.conf": "[global]\nindex-url = https://user:GEHEIM@packages.example/simple\n",
    "wgetrc": "http_password = GEHEIM\n",
    "apt/apt.conf.d/10proxy": 'Acquire::http::Proxy "http://user:GEHEIM@door.example:3128";\n',
    "conda/condarc": "channels: [https://packages.example/conda]\n  proxy_token: GEHEIM\n",
    "gitconfig": "[http]\n\textraheader = AUTHORIZATION: basic GEHEIM\n",
    "netrc": "machine packages.example\n  login user\n  password GEHEIM\n",
    "maven/settings.xml": "<server><password>GEHEIM</password></server>\n",
    "profile.d/keys.sh": "export CLOUD_API_KEY=GEHEIM\n",
    "environment": "https_proxy=http://user:GEHEIM@door.example:3128\n",
}


@pytest.fixture
def etc():
    """A copy of /etc, which the launcher sees in the place of the real one."""
    path = room("c")
    subprocess.run(["cp", "-a", "/etc", path / "etc"], check=True)
    path.chmod(0o755)
    yield path / "etc"
    shutil.rmtree(path)


def write(etc, files):
    for name, text in files.items():
        (etc / name).parent.mkdir(parents=True, exist_ok=True)
        (etc / name).unlink(missing_ok=True)
        (etc / name).write_text(text)
        (etc / name).chmod(0o644)


def instead(etc):
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", f'mount --bind {etc} /etc && exec "$@"', "sh"]


READ = "cd /etc; for f in %s; do echo \"$f:\"; cat $f 2>/dev/null; done; ls /etc/passwd"


def test_without_a_credential(jails, etc):
    write(etc, CLEAN)
    code, log = jails(READ % " ".join(CLEAN), wrap=instead(etc)).run()
    for name, text in CLEAN.items():
        assert f"{name}:\n{text}" in log, log


def test_with_a_credential(jails, etc):
    write(etc, HOLDING)
    code, log = jails(READ % " ".join(HOLDING), wrap=instead(etc)).run()
    assert code == 0 and "GEHEIM" not in log and "/etc/passwd" in log, log
    assert all((etc / name).read_text() == text for name, text in HOLDING.items())


@pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "user"])
def test_on_the_machine_itself(jails, user):
    """One that nobody here uses, for a moment."""
    folder = pathlib.Path("/etc/conda")
    if folder.exists():
        pytest.skip("somebody uses it")
    folder.mkdir(mode=0o755)
    try:
        for text, seen in ((HOLDING["conda/condarc"], False), (CLEAN["conda/condarc"], True)):
            (folder / "condarc").write_text(text)
            (folder / "condarc").chmod(0o644)
            code, log = jails("cat /etc/conda/condarc; true", user=user).run()
            assert ("channels" in log) == seen and "GEHEIM" not in log, log
    finally:
        shutil.rmtree(folder)
