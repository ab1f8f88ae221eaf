"""The tendon program: each test has a state directory, a temporary directory and a home of its own."""

import pytest

from tendons import Screen, Tendon, jail_problem


@pytest.fixture
def make_tendon(tendon_program, tmp_path):
    made = []

    def make(runtime):
        base = tmp_path / f"t{len(made)}"
        base.mkdir()
        made.append(Tendon(tendon_program, base, runtime))
        return made[-1]

    yield make
    for tendon in made:
        if tendon.state.exists():
            result = tendon("rm", "--all", "--quiet")
            assert result.returncode == 0, result
            assert tendon.leftovers() == []


@pytest.fixture
def tendon(make_tendon):
    """With the local runtime: what is tested is the program."""
    return make_tendon("local")


@pytest.fixture(params=["local", "jail"])
def any_tendon(make_tendon, request):
    """With each runtime that has nothing to install."""
    tendon = make_tendon(request.param)
    if request.param == "jail" and (problem := jail_problem(tendon)):
        pytest.skip(f"the jail does not work here: {problem}")
    return tendon


@pytest.fixture
def jailed(make_tendon):
    tendon = make_tendon("jail")
    if problem := jail_problem(tendon):
        pytest.skip(f"the jail does not work here: {problem}")
    return tendon


@pytest.fixture
def screen():
    opened = []

    def start(*args, **kwargs):
        opened.append(Screen(*args, **kwargs))
        return opened[-1]

    yield start
    for one in opened:
        one.close()
