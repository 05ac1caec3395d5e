"""Writing TOML: what was written is read again, by Python's reader."""

import tomllib

from lexbench.storage.toml import toml

TABLE = {
    "plain": 1,
    "a key with spaces": 'tab\t, quote ", DEL \x7f, é',
    "größe": [1.5, True],
    "empty": [],
    "table": {"text": "", "inner": {"x": 1}, "rows": [{"a": [1, 2]}, {"b": {"c": "d"}}]},
}


def test_what_was_written_is_read_again():
    """Text with any letters, keys, tables in tables, and arrays of tables come back; None is left out."""
    assert tomllib.loads(toml({**TABLE, "nothing": None})) == TABLE


def test_empty_values_can_be_left_out():
    """Then lists and texts without content are missing, in tables too."""
    found = tomllib.loads(toml(TABLE, empty=False))
    assert "empty" not in found
    assert "text" not in found["table"]
    assert found["table"]["rows"] == TABLE["table"]["rows"]
