"""Fixtures of the simulation tests."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo logs warnings of models that are not ours, such as Gymnasium's, where it runs."""
    monkeypatch.chdir(tmp_path)
