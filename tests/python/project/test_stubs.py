"""The compiled module's stub names what the module has, no more and no less."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import servorl
from servorl._native import core

STUB = ast.parse((Path(servorl.__file__).parent / "_core.pyi").read_text())


def declared(node: ast.Module | ast.ClassDef) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found[statement.target.id] = statement
    return {name: s for name, s in found.items() if not name.startswith("_")}


def actual(value: object) -> set[str]:
    return {name for name in vars(value) if not name.startswith("_")}


def test_the_module_has_what_the_stub_declares() -> None:
    assert set(declared(STUB)) == actual(core)


@pytest.mark.parametrize("room", ["advantage", "firmware", "sim"])
def test_each_room_has_what_the_stub_declares(room: str) -> None:
    stub = declared(STUB)[room]
    module = getattr(core, room)
    assert isinstance(stub, ast.ClassDef)
    assert set(declared(stub)) == actual(module)
    for name, statement in declared(stub).items():
        if isinstance(statement, ast.ClassDef):
            assert inspect.isclass(getattr(module, name))
            assert set(declared(statement)) == actual(getattr(module, name))
