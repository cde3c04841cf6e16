"""A policy on an emulated chip: observations in, actions out, and what each inference cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servorl.errors import VerificationError
from servorl.export.boards import Board
from servorl.export.debugger import Debugger
from servorl.export.elf import Image

BATCH = 16
"""Observations in one request; harness.c has the same number."""
REQUEST_HEAD_BYTES = 8
REPLY_HEAD_BYTES = 8
MAX_HASH_BYTES = 64


@dataclass(frozen=True)
class ChipResult:
    """What the chip answered for ``[N, obs]`` observations."""

    unclipped: NDArray[np.float32]
    """``[N, action]``, before the final clip."""
    action: NDArray[np.float32]
    """``[N, action]``"""
    status: NDArray[np.uint32]
    """``[N]``, 0 for OK."""
    instructions: NDArray[np.int64]
    """``[N]``"""
    stack: NDArray[np.int64]
    """``[N]`` bytes."""


class EmulatedChip:
    """One emulator that serves inferences; a context manager.

    Raises VerificationError where the image is not one of this policy's harness, or does not answer
    within ``timeout_seconds``.
    """

    def __init__(
        self,
        board: Board,
        image: Image,
        obs_dim: int,
        action_dim: int,
        *,
        timeout_seconds: float = 30.0,
    ) -> None:
        self.board = board
        self.request_type, self.reply_type = _mailbox_types(obs_dim, action_dim)
        mailbox = image.symbol("harness_mailbox")
        expected = self.request_type.itemsize + self.reply_type.itemsize
        if mailbox.size != expected or image.machine != board.elf_machine:
            raise VerificationError(
                f"{image.path} is not an image of this policy's harness for {board.name}"
            )
        self._request_address = mailbox.address
        self._reply_address = mailbox.address + self.request_type.itemsize
        self._sequence = 0
        self._debugger = Debugger(_command(board, image.path), timeout_seconds)
        try:
            self._debugger.run_until_notified()
            self.hash = self._read_hash(image.symbol("harness_policy_hash").address)
        except BaseException:
            self._debugger.close()
            raise

    def __enter__(self) -> EmulatedChip:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._debugger.close()

    def infer(self, observations: NDArray[np.float32]) -> ChipResult:
        """Run the policy on ``[N, obs]`` observations.

        VerificationError where the chip faults, hangs, or echoes another sequence number or another
        observation than it was given.
        """
        observations = np.ascontiguousarray(observations, np.float32)
        replies = [
            self._exchange(observations[start : start + BATCH])
            for start in range(0, len(observations), BATCH)
        ]
        answers = np.concatenate(replies) if replies else np.empty(0, self.reply_type["reply"].base)
        ticks = answers["ticks"].astype(np.int32)
        return ChipResult(
            unclipped=answers["unclipped"],
            action=answers["action"],
            status=answers["status"],
            instructions=np.rint(ticks / self.board.ticks_per_instruction).astype(np.int64),
            stack=answers["stack"].astype(np.int64),
        )

    def _exchange(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        self._sequence = (self._sequence + 1) % (1 << 32)
        count = len(observations)
        request = np.zeros((), self.request_type)
        request["sequence"], request["count"] = self._sequence, count
        request["observation"][:count] = observations
        used = REQUEST_HEAD_BYTES + observations.nbytes
        self._debugger.write_memory(self._request_address, request.tobytes()[:used])
        self._debugger.run_until_notified()
        used = REPLY_HEAD_BYTES + count * self.reply_type["reply"].base.itemsize
        data = self._debugger.read_memory(self._reply_address, used)
        answered, faulted = np.frombuffer(data[:REPLY_HEAD_BYTES], "<u4")
        if faulted or answered != self._sequence:
            what = "faulted" if faulted else f"answered request {answered} instead"
            raise VerificationError(f"at request {self._sequence}, the emulated chip {what}")
        replies = np.frombuffer(data[REPLY_HEAD_BYTES:], self.reply_type["reply"].base)
        expected = observation_hashes(observations)
        if not np.array_equal(replies["observation_hash"], expected):
            raise VerificationError("the chip computed on another observation than it was given")
        return replies

    def _read_hash(self, address: int) -> str:
        pointer = int.from_bytes(self._debugger.read_memory(address, 4), "little")
        text = self._debugger.read_memory(pointer, MAX_HASH_BYTES)
        return text.split(b"\0")[0].decode("ascii", "replace")


def observation_hashes(observations: NDArray[np.float32]) -> NDArray[np.uint32]:
    """FNV-1a, 32 bits, of each row's bytes: ``[N]``."""
    data = np.ascontiguousarray(observations, "<f4").view(np.uint8).reshape(len(observations), -1)
    hashes = np.full(len(data), 2166136261, np.uint32)
    for column in data.T:
        hashes = (hashes ^ column) * np.uint32(16777619)
    return hashes


def _command(board: Board, image: Path) -> list[str]:
    return [
        board.emulator,
        *("-M", board.machine, "-kernel", str(image.resolve())),
        *("-icount", f"shift={board.icount_shift}"),
        *("-nodefaults", "-display", "none", "-monitor", "none", "-nic", "none", "-S"),
    ]


def _mailbox_types(obs_dim: int, action_dim: int) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The two halves of harness.c's ``struct mailbox``: what the host writes, and the chip."""
    request = np.dtype(
        [("sequence", "<u4"), ("count", "<u4"), ("observation", "<f4", (BATCH, obs_dim))]
    )
    reply = np.dtype(
        [
            ("observation_hash", "<u4"),
            ("status", "<u4"),
            ("ticks", "<u4"),
            ("stack", "<u4"),
            ("unclipped", "<f4", (action_dim,)),
            ("action", "<f4", (action_dim,)),
        ]
    )
    return request, np.dtype([("answered", "<u4"), ("faulted", "<u4"), ("reply", reply, (BATCH,))])
