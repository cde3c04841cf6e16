"""The sdist and the wheel carry everything, and the wheel works with the clone out of reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
ENVIRONMENTS = sorted(path.parent.name for path in (REPOSITORY / "envs").glob("*/task.hpp"))


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(sdist, wheel) built from the tracked files alone, the wheel from the sdist."""
    out = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source")
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, tracked):
        original = REPOSITORY / name
        if original.is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(original.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "SKBUILD_CMAKE_DEFINE": "SERVORL_CUDA=OFF"},
    )
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` of a new virtual environment with the wheel; its dependencies are links to ours."""
    root = tmp_path_factory.mktemp("wheel-venv") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(root)], check=True)
    (site,) = root.glob("lib/python*/site-packages")
    for package in Path(sysconfig.get_paths()["purelib"]).iterdir():
        ours = "servorl" in package.name or package.name == "__pycache__"
        if not ours and not (site / package.name).exists():
            (site / package.name).symlink_to(package)
    subprocess.run(
        [
            str(root / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            str(distributions[1]),
        ],
        check=True,
    )
    return root / "bin"


def run(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program away from the clone, with nothing of this process's Python path."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PATH"] = f"{program.parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        [str(program), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_carries_what_the_package_reads(distributions: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(distributions[1]).namelist()
    for name in ENVIRONMENTS:
        for file in ("model.xml", "task.hpp", "card.md"):
            assert f"servorl/envs/{name}/{file}" in names
    for expected in (
        "servorl/py.typed",
        "servorl/_core.pyi",
        "servorl/build_info.json",
        "servorl/bench/schema.json",
        "servorl/bench/stepping.py",
        "servorl/include/servorl/core/advantage.hpp",
        "servorl/include/servorl/sim/task.hpp",
    ):
        assert expected in names
    for pattern in (
        "servorl/include/servorl/firmware/",
        "servorl/export/boards/cortex-m4f/",
        "servorl/export/schema/",
    ):
        assert any(name.startswith(pattern) for name in names), pattern
    assert any(name.endswith("licenses/NOTICE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "servorl/tests"))]


def test_the_sdist_holds_the_sources_and_nothing_generated(
    distributions: tuple[Path, Path],
) -> None:
    with tarfile.open(distributions[0]) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    for expected in ("CMakeLists.txt", "csrc/python/module.cpp", "LICENSE", "NOTICE", "README.md"):
        assert expected in names
    assert not [name for name in names if name.endswith((".so", ".o", ".pyc"))]


def test_the_wheel_lists_its_environments_away_from_the_clone(
    installed: Path, tmp_path: Path
) -> None:
    listing = run(installed / "servorl", "envs", cwd=tmp_path)
    assert listing.returncode == 0, listing.stderr
    for name in ENVIRONMENTS:
        assert name in listing.stdout
    where = run(
        installed / "python",
        "-c",
        "import servorl, servorl._native as n; print(servorl.__file__, n.core.__file__)",
        cwd=tmp_path,
    )
    assert where.returncode == 0, where.stderr
    assert str(REPOSITORY) not in where.stdout


def test_the_wheel_runs_the_demo_away_from_the_clone(installed: Path, tmp_path: Path) -> None:
    demo = run(installed / "servorl", "demo", cwd=tmp_path)
    assert demo.returncode == 0, demo.stderr
    (chip,) = [line for line in demo.stdout.splitlines() if line.strip().startswith("cortex-m4f")]
    assert "1,024" in chip
    summary = json.loads((tmp_path / "servorl-demo" / "demo.json").read_text())
    assert summary["solved"] is True
    assert summary["verification"]["ok"] is True
    assert (tmp_path / "servorl-demo" / "index.html").stat().st_size > 100_000
    assert [path.name for path in tmp_path.iterdir()] == ["servorl-demo"]


def test_a_wheel_beside_another_mujoco_says_how_to_rebuild(installed: Path, tmp_path: Path) -> None:
    (site,) = installed.parent.glob("lib/python*/site-packages")
    info = site / "servorl" / "build_info.json"
    original = info.read_text()
    info.write_text('{"mujoco": "3.9.9"}')
    try:
        listing = run(installed / "servorl", "envs", cwd=tmp_path)
    finally:
        info.write_text(original)
    assert listing.returncode == 1
    assert listing.stderr.count("\n") == 1
    assert "3.9.9" in listing.stderr
    assert "4.0.0" in listing.stderr
