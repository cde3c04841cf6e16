"""Proves that every exported form of a policy is the function that was trained.

Observations recorded from the simulator are replayed through torch, onnxruntime, compiled C and C
on an emulated chip; then each of them, the chip included, controls the simulator for episodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from servorl.errors import MissingToolError, RunFolderError, VerificationError
from servorl.export import footprint, integrity, targets, toolchain
from servorl.export.boards import Board, load_board
from servorl.export.c import TOLERANCE
from servorl.export.chip import BATCH, EmulatedChip
from servorl.export.elf import Image
from servorl.export.exporter import CONTRACT, export
from servorl.export.integrity import Export
from servorl.export.report import Row, VerifyReport
from servorl.export.targets import Actions, FloatArray, Infer

REPORT = "report.json"
RECORDING_ENVS = 8
"""Environments that observations are recorded from; every second one explores at random."""


@dataclass(frozen=True)
class _Subject:
    """What is verified: an export, the policy it must equal, and the observations to compare on."""

    export: Export
    reference: Infer
    recorded: FloatArray
    reference_actions: Actions
    episodes: int
    seed: int
    answers: list[FloatArray] = field(default_factory=list)
    """Each target's unclipped actions for ``recorded``."""


def verify(
    path: Path | str,
    *,
    board: str = "cortex-m4f",
    image: Path | str | None = None,
    episodes: int = 5,
    observations: int = 1024,
    seed: int = 0,
) -> VerifyReport:
    """Verify a run (which is exported to its folder ``export`` first) or an export.

    Args:
        path: a run folder, or a folder that ``export`` wrote.
        board: one of ``servorl.export.boards.board_names()``.
        image: an ELF image that an earlier verification built, to verify instead of a new one.
        episodes: closed-loop episodes of each target, on the same seeds.
        observations: how many to record and replay; at least 1.
        seed: of the recording and of the episodes.

    Writes ``report.json``, and the image as ``<board>.elf``, to the export's folder. What the
    machine cannot run is named in the report's ``left_out``; what does not agree, in ``problems``.

    Raises UnknownNameError for an unknown board or environment, RunFolderError where ``path`` is
    neither a run nor an export, OutputError where the folder cannot be written.
    """
    for name, value in (("episodes", episodes), ("observations", observations)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    chosen = load_board(board)
    if image is not None and not Path(image).is_file():
        raise RunFolderError(f"{image} is not a file")
    exported, policy = _load(Path(path))
    report = VerifyReport(exported.hash)
    report.problems += integrity.check_files(exported)
    if report.problems:  # the files are no longer what they say: nothing of them is run
        report.rows = [Row(name) for name in ("torch", "onnxruntime", "host-c", chosen.name)]
    else:
        with _one_torch_thread():
            subject = _prepare(exported, policy, observations, episodes, seed)
            _verify_host(subject, report)
            _verify_board(subject, chosen, None if image is None else Path(image), report)
        _check_agreement(subject, report)
    report.write(exported.folder / REPORT)
    return report


def _load(path: Path) -> tuple[Export, Any]:
    """The export behind ``path``, and the torch policy where ``path`` is a run."""
    if (path / CONTRACT).exists():
        return integrity.read_export(path), None
    from servorl.runs import load_policy

    try:
        loaded = load_policy(path)
    except RunFolderError as error:
        raise RunFolderError(f"{path} is neither a run nor an export: {error}") from error
    folder = loaded.run / "export"
    prefix, safe_action = "policy", None
    with contextlib.suppress(
        RunFolderError
    ):  # an earlier export there keeps what was chosen for it
        earlier = integrity.read_export(folder)
        prefix, safe_action = earlier.prefix, earlier.safe_action
    graph = loaded.policy.inference_graph()
    export(graph, loaded.task_info, folder, prefix=prefix, safe_action=safe_action)
    return integrity.read_export(folder), loaded.policy


@contextlib.contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Batches are small here: a second thread would only wait for the first."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _prepare(
    exported: Export, policy: Any, observations: int, episodes: int, seed: int
) -> _Subject:
    if policy is None:
        reference = targets.torch_graph(exported.graph)
    else:
        reference = targets.torch_policy(policy)
    recorded = _record(exported, reference, observations, seed)
    return _Subject(exported, reference, recorded, reference(recorded), episodes, seed)


def _record(exported: Export, reference: Infer, count: int, seed: int) -> FloatArray:
    """Observations ``[count, obs]`` from environments that the policy drives, half at random.

    The random ones leave the states that a good policy keeps to.
    """
    from servorl.registry import make_vec

    generator = np.random.default_rng(seed)
    low, high = exported.graph.action_low, exported.graph.action_high
    env = make_vec(exported.task_info.name, RECORDING_ENVS, num_threads=1, seed=seed)
    if env.single_observation_space.shape != (exported.graph.obs_dim,):
        env.close()
        raise RunFolderError(
            f"{exported.folder}: {exported.task_info.name} gives observations of shape "
            f"{env.single_observation_space.shape}, the policy takes {exported.graph.obs_dim}"
        )
    try:
        observation, _ = env.reset(seed=seed)
        recorded = [observation]
        while len(recorded) * RECORDING_ENVS < count:
            actions = np.array(reference(observation).clipped)
            explored = actions[1::2]
            explored[:] = generator.uniform(low, high, explored.shape)
            observation = env.step(actions)[0]
            recorded.append(observation)
    finally:
        env.close()
    return np.concatenate(recorded)[:count].astype(np.float32)


def _verify_host(subject: _Subject, report: VerifyReport) -> None:
    exported = subject.export
    _add_row("torch", subject, subject.reference, report)
    with _reported("onnxruntime", report):
        onnx = targets.onnx_policy(exported.folder / "policy.onnx")
        _add_row("onnxruntime", subject, onnx, report)
    with _reported("host-c", report):
        library = targets.HostLibrary(
            exported.folder, exported.prefix, exported.graph, exported.document["memory"]["state"]
        )
        if library.hash != exported.hash:
            report.problems.append(f"host-c holds policy {library.hash}, not {exported.hash}")
        _add_row("host-c", subject, library, report)


def _verify_board(
    subject: _Subject, board: Board, image_path: Path | None, report: VerifyReport
) -> None:
    exported, graph = subject.export, subject.export.graph
    with _reported(board.name, report):
        toolchain.require_board_tools(board)
        if image_path is None:
            image_path = exported.folder / f"{board.name}.elf"
            toolchain.build_image(board, exported.folder, exported.prefix, image_path)
        image = Image(image_path)
        report.problems += integrity.check_constants(exported, image)
        with EmulatedChip(board, image, graph.obs_dim, graph.action_dim) as chip:
            if chip.hash != exported.hash:
                report.problems.append(
                    f"{image_path} holds policy {chip.hash!r}, not {exported.hash}"
                )
            measured = _MeasuredChip(chip)
            row = _add_row(board.name, subject, measured, report)
        size = footprint.measure(exported, board, image)
        row.flash, row.ram = size.flash, size.ram
        row.stack, row.instructions = measured.stack, measured.instructions
        bound = exported.document["memory"]["stack_bound"]
        if measured.stack > bound:
            report.problems.append(
                f"{board.name} took {measured.stack} bytes of stack, policy.json states {bound}"
            )


class _MeasuredChip:
    """The chip as a target, with the largest costs seen so far."""

    def __init__(self, chip: EmulatedChip) -> None:
        self._chip = chip
        self.stack = 0
        self.instructions = 0

    def __call__(self, observations: FloatArray) -> Actions:
        result = self._chip.infer(observations)
        if result.status.any():
            raise VerificationError(f"the chip gave status {int(result.status.max())}")
        self.stack = max(self.stack, int(result.stack.max()))
        self.instructions = max(self.instructions, int(result.instructions.max()))
        return Actions(result.unclipped, result.action)


@contextlib.contextmanager
def _reported(target: str, report: VerifyReport) -> Iterator[None]:
    """Turn a target's failure into a line of the report and a row without figures."""
    try:
        yield
    except MissingToolError as error:
        report.left_out.append(f"{target}: {error}")
    except VerificationError as error:
        report.problems.append(f"{target}: {error}")
    if all(row.target != target for row in report.rows):
        report.rows.append(Row(target))


def _add_row(target: str, subject: _Subject, infer: Infer, report: VerifyReport) -> Row:
    """Replay the recorded observations through a target, then let it control the simulator."""
    row = Row(target, observations=len(subject.recorded))
    report.rows.append(row)
    actions = infer(subject.recorded)
    errors = _errors(subject, actions, subject.reference_actions)
    row.max_error = float(errors.max())
    if not row.max_error <= TOLERANCE:
        worst, channel = np.unravel_index(np.argmax(errors), errors.shape)
        report.problems.append(
            f"{target}: at recorded observation {worst}, action {channel} is "
            f"{actions.unclipped[worst, channel]:.9g} instead of "
            f"{subject.reference_actions.unclipped[worst, channel]:.9g}"
        )
    graph = subject.export.graph
    expected = np.clip(actions.unclipped, graph.action_low, graph.action_high)
    if not np.array_equal(actions.clipped, expected):
        report.problems.append(f"{target}: its actions are not clipped to the bounds")
    subject.answers.append(actions.unclipped)
    row.return_mean = _close_the_loop(target, subject, infer, report)
    return row


def _close_the_loop(target: str, subject: _Subject, infer: Infer, report: VerifyReport) -> float:
    """Mean return of whole episodes in which every action comes from the target, checked."""
    from servorl.evaluation import evaluate

    largest = 0.0

    def act(observations: FloatArray) -> FloatArray:
        nonlocal largest
        actions = infer(observations)
        errors = _errors(subject, actions, subject.reference(observations))
        largest = max(largest, float(errors.max()))
        return actions.clipped

    evaluation = evaluate(
        act,
        subject.export.task_info.name,
        subject.episodes,
        subject.seed,
        min(subject.episodes, BATCH),
        num_threads=1,
    )
    if largest > TOLERANCE:
        report.problems.append(
            f"{target}: in the closed loop an action was {largest:.1e} of its scale from torch's"
        )
    return evaluation.mean_return


def _errors(subject: _Subject, actions: Actions, reference: Actions) -> FloatArray:
    """Differences before the clip, ``[N, action]``, in units of the scale; NaN is infinite."""
    scale = np.abs(subject.export.graph.action_scale)
    difference = np.abs(actions.unclipped - reference.unclipped) / np.where(scale > 0, scale, 1)
    return np.where(np.isnan(difference), np.float32(np.inf), difference)


def _check_agreement(subject: _Subject, report: VerifyReport) -> None:
    """Every pair of targets must agree, not only each of them with torch."""
    scale = np.abs(subject.export.graph.action_scale)
    answers = np.stack(subject.answers)
    spread = (answers.max(axis=0) - answers.min(axis=0)) / np.where(scale > 0, scale, 1)
    if not spread.max() <= TOLERANCE and not report.problems:
        report.problems.append(f"two targets differ by {spread.max():.1e} of the action's scale")
