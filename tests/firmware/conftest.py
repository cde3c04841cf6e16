"""Exported policies that the firmware tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_policies import make_graph, make_task

from servorl.export import export

SHAPES = {
    "tanh": ((12, 64, 64, 4), "tanh", 10.0),
    "relu": ((5, 7, 9, 3), "relu", 5.0),
    "elu": ((3, 17, 6), "elu", float("inf")),
    "linear": ((4, 1), "identity", 10.0),
}


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One export for each activation, by its name; ``tanh`` is the 12-64-64-4 of the figures."""
    root = tmp_path_factory.mktemp("exports")
    folders = {}
    for name, (sizes, activation, clip) in SHAPES.items():
        graph = make_graph(sizes, activation=activation, obs_clip=clip)
        folders[name] = export(graph, make_task(graph), root / name)
    return folders
