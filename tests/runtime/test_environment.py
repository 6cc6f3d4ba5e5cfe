"""Packages that are not there, and those that are broken, are told apart."""

import re

import pytest

from secret_jax.runtime.environment import PackageError, imported


def test_a_package_is_imported():
    assert imported("json.decoder", "Files", "data").__name__ == "json.decoder"


def test_what_is_not_installed_names_the_extra():
    with pytest.raises(PackageError, match=r"not installed. .* 'secret-jax\[data\]'"):
        imported("no_such_package.part", "Files", "data")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("import no_such_package", "No module named 'no_such_package'"),
        ("raise ImportError('lib.so: no such file')", "lib.so: no such file"),
        ("from json import nothing", "cannot import name 'nothing'"),
    ],
)
def test_what_is_broken_says_why(tmp_path, monkeypatch, content, reason):
    (tmp_path / "a_broken_package.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    expected = f"installed but cannot be imported: {re.escape(reason)}"
    with pytest.raises(PackageError, match=expected) as caught:
        imported("a_broken_package", "Files", "data")
    assert "secret-jax[" not in str(caught.value)
