"""What holds for the settings of every plug-in."""

import pytest

from lexbench import registry
from lexbench.errors import CommandError, MissingExtra, UnknownName
from lexbench.notation import Call

GROUPS = ("encoders", "engines", "judges", "rerankers", "retrievers", "transforms")


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in registry.names(group)])
def test_an_unknown_setting_is_refused(group, name):
    """An unknown setting is an error in one line."""
    with pytest.raises((UnknownName, CommandError, MissingExtra)) as caught:
        registry.create(group, Call(name, kwargs=(("no_such_setting", 1),)))
    assert "\n" not in str(caught.value)
