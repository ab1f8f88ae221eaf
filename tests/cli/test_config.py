"""tendon config: what holds, and where it came from."""

import json


def test_everything_with_its_source(tendon, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[jail]\nmemory = "1g"\npids = 7\n[sandbox]\napi_key = "hush"\n')
    lines = tendon.ok("config", "--config", path, "--set", "jail.pids=9").splitlines()
    assert "[jail]" in lines and "[mcp]" in lines
    assert f"memory = 1g                                   # file, {path}:2" in lines
    by_section = tendon.json("config", "--config", path, "--set", "jail.pids=9")
    found = {(row["section"], row["key"]): row for row in by_section}
    assert found["jail", "memory"] == {
        "section": "jail", "key": "memory", "value": "1g", "origin": "file", "where": f"{path}:2"
    }
    assert found["jail", "pids"]["value"] == 9 and found["jail", "pids"]["origin"] == "flag"
    assert found["tendon", "runtime"]["origin"] == "environment"
    assert found["tendon", "runtime"]["where"] == "TENDON_RUNTIME"
    assert found["sandbox", "timeout"] == {
        "section": "sandbox", "key": "timeout", "value": 120.0, "origin": "default", "where": None
    }
    assert found["jail", "host_paths"]["value"][0] == "/usr"
    assert found["sandbox", "api_key"]["value"] == "***"
    assert "hush" not in "\n".join(lines) and "hush" not in json.dumps(by_section)


def test_one_value_for_scripts(tendon):
    assert tendon.ok("config", "tendon.runtime") == "local\n"
    assert tendon.ok("config", "jail.memory", "--set", "jail.memory=2g") == "2g\n"
    assert tendon.ok("config", "local") == (
        "[local]\n"
        "initial_warm = 0                              # default\n"
        "desired_warm = 0                              # default\n"
    )


def test_only_what_was_changed(tendon):
    assert tendon.ok("config", "-c", "jail", "--set", "jail.pids=9") == (
        "[jail]\npids = 9                                      # flag, --set\n"
    )
    assert tendon.ok("config", "--changed", "jail") == ""
    assert tendon.json("config", "--changed", "jail") == []


def test_what_is_wrong(tendon, tmp_path):
    assert "did you mean jail.memory?" in tendon.fails(2, "config", "jail.memroy")
    assert "did you mean jail.memory?" in tendon.fails(2, "config", "--set", "jail.memroy=1g")
    path = tmp_path / "config.toml"
    path.write_text("[jail]\nmemroy = 1\n")
    complaint = tendon.fails(65, "config", "--config", path)
    assert f"{path}: [jail]: line 2: unknown key memroy; did you mean memory?" in complaint
    path.write_text("[core]\nrunime = 1\n")
    result = tendon("config", "jail.pids", "--config", path)
    assert (result.returncode, result.stdout) == (0, "512\n")
    assert result.stderr == f"tendon: {path}:2: unknown key runime in [core]; did you mean runtime?\n"
