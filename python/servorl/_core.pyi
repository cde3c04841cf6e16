"""Types of the compiled module."""

from typing import Any

version: str
mujoco_version: str
advantage: Any
firmware: Any
sim: Any
