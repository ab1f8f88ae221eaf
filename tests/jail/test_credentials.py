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


# Lines of files of settings that hold a credential...
SECRETS = """
index-url = https://GEHEIM@packages.example/simple
index-url = https://GEHEIM:@packages.example/simple
url = git+https://GEHEIM@host.example/repository
index-url = https://$USER:GEHEIM@packages.example/simple
proxy = socks5://user:GEHEIM@door.example
pass=GEHEIM
//files.example/x /mnt cifs user=joe,pass=GEHEIM 0 0
//files.example/x /mnt cifs user=joe%GEHEIM 0 0
user = joe:GEHEIM
user=joe:GEHEIM
user joe:GEHEIM
user: "joe:GEHEIM"
proxy-user = joe:GEHEIM
-u joe:GEHEIM
--user joe:GEHEIM
machine packages.example password GEHEIM
machine packages.example account x password GEHEIM
machine packages.example login joe password GEHEIM
default password GEHEIM
password GEHEIM
export PGPASSWORD=GEHEIM
MYSQL_PWD=GEHEIM
""".strip().splitlines()
# ...and that do not, however alike they look.
NONE = """
index-url = https://packages.example/simple
index-url = https://packages.example:8443/simple
index-url = https://${TOKEN}@packages.example/simple
index-url = https://user:${TOKEN}@packages.example/simple
insteadOf = ssh://git@host.example/
insteadOf = https://git@host.example/
proxy = http://door.example:3128/path@2
see https://packages.example/@scope/name
user = joe
user=joe
user=$NAME:$PASSWORD
chown user:group /tmp/x
alias d='docker run -u 1000:1000'
machine packages.example
compass=north
pass the salt
//files.example/x /mnt cifs user,noauto,credentials=/root/x 0 2
export OLDPWD=/tmp
# the password is asked for
""".strip().splitlines()


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


def test_line_by_line(jails, etc):
    write(etc, {f"profile.d/secret{n}.sh": line + "\n" for n, line in enumerate(SECRETS)})
    write(etc, {f"profile.d/none{n}.sh": line + "\n" for n, line in enumerate(NONE)})
    code, log = jails("cd /etc/profile.d; cat secret*.sh 2>/dev/null; echo; cat none*.sh", wrap=instead(etc)).run()
    assert [line for line in SECRETS if line in log.splitlines()] == []
    assert [line for line in NONE if line not in log.splitlines()] == []


def test_behind_links(jails, etc):
    """What the jail would find by following a link is hidden, there and where it really is."""
    secret, clean = HOLDING["pip.conf"], CLEAN["pip.conf"]
    write(etc, {"real/pip.conf": secret, "real/yum/a.repo": secret, "real/yum/b.repo": clean, "hops/npmrc": secret})
    write(etc, {"real/private/key": secret})
    shutil.rmtree(etc / "xdg", ignore_errors=True)
    for name, target in {
        "pip.conf": "real/pip.conf",
        "yum.repos.d": "/etc/real/yum",
        "two": "/lib/../../etc/hops",
        "npmrc": "two/npmrc",
        "curlrc": "curlrc",
        "wgetrc": "/nowhere/wgetrc",
        "ssl/private": "../real/private",
    }.items():
        if (etc / name).is_dir() and not (etc / name).is_symlink():
            shutil.rmtree(etc / name)
        (etc / name).parent.mkdir(exist_ok=True)
        (etc / name).unlink(missing_ok=True)
        (etc / name).symlink_to(target)
    code, log = jails("grep -rs GEHEIM /etc; cat /etc/yum.repos.d/b.repo", wrap=instead(etc)).run()
    assert code == 0 and "GEHEIM" not in log and clean in log, log


@pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "user"])
def test_on_the_machine_itself(jails, user):
    """One that nobody here uses, for a moment."""
    folder = pathlib.Path("/etc/conda")
    if folder.exists():
        pytest.skip("somebody uses it")
    folder.mkdir(mode=0o755)
    try:
        for text, seen in ((HOLDING["conda/condarc"], False), (CLEAN["conda/condarc"], True)):
            write(folder, {"real/c": text})
            (folder / "condarc").unlink(missing_ok=True)
            (folder / "condarc").symlink_to("real/c")
            code, log = jails("cat /etc/conda/condarc /etc/conda/real/c; true", user=user).run()
            assert ("channels" in log) == seen and "GEHEIM" not in log, log
    finally:
        shutil.rmtree(folder)
