"""Makes ``gymnasium.make_vec("servorl/<name>-v0")`` work once servorl was imported.

Gymnasium takes a third of a second to import, which ``servorl --help`` must not wait for. So the
ids are registered at once where Gymnasium is there already, and else right after its own import.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from servorl.errors import NativeModuleError

_GYMNASIUM = "gymnasium"


def register_when_imported() -> None:
    """Register now, or when Gymnasium is first imported."""
    if _GYMNASIUM in sys.modules:
        _register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _register() -> None:
    """Add an id for every environment of this installation that has none yet."""
    from gymnasium.envs.registration import register, registry

    try:
        from servorl._native import resource_root
    except NativeModuleError:
        return  # whatever uses an environment says so; importing Gymnasium must not fail for it
    for card in sorted(resource_root().glob("envs/*/card.md")):
        name = card.parent.name
        if f"servorl/{name}-v0" not in registry:
            register(
                f"servorl/{name}-v0",
                vector_entry_point="servorl.registry:make_vec",
                kwargs={"name": name},
            )


class _Finder(importlib.abc.MetaPathFinder):
    """Finds Gymnasium once, through the finders after it, and registers behind its import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _GYMNASIUM:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Gymnasium's own loader, with the registration after it."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _register()
