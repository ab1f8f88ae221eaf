"""The rules of a pod's network without a cluster: both kinds of addresses, and what only a look at the wire shows. What a pod does behind
them is tests/kubernetes/test_kubernetes_gate.py."""

import json
import pathlib
import shutil
import subprocess
import sys

from trees import RELEASE, program


def test_nothing_of_the_sandbox_leaves_but_answers(tmp_path):
    (tmp_path / ".tendon").mkdir()
    shutil.copy(program(RELEASE, "tendon-gate-pod"), tmp_path / "tendon-gate")
    driver = pathlib.Path(__file__).with_name("pod_wall.py")
    done = subprocess.run(["unshare", "-n", sys.executable, driver, tmp_path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert all(times for way, _, times in report["before"] if way in ("plain", "turned")), report  # the network works
    assert ["called", "2001:db8::2", 0] not in report["before"], report
    assert not any(times for _, _, times in report["after"]), report
    assert report["answers"] == ["served", "served"]
