"""What tests of vendors on their bad days share."""

import pytest

from conformance import Refusal


def refused(call, *args, **members):
    with pytest.raises(Refusal) as refusal:
        call(*args, **members)
    assert "0123456789abcdef" not in refusal.value.text, "a key"
    assert refusal.value.text.isprintable()
    return refusal.value


def create(driver, timeout=20, **spec):
    return refused(lambda: driver.world.new(driver, create=False, **spec)("create", timeout=timeout))


def always(status, value, **headers):
    return lambda handler, request: handler.json(status, value, **headers)
