"""An emulated chip under a debugger: the gdb remote protocol, and a serial line to be woken by.

It needs next to nothing on the chip, works alike for every core, and gives the firmware no way to
reach the host. The program is paused from outside, not by a breakpoint: after each breakpoint QEMU
translates all of its code anew, which takes milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

from servorl.errors import VerificationError

PACKET_BYTES = 1024
"""Memory moved by one packet; in hexadecimal, below QEMU's limit of 4,096 characters."""
INTERRUPT = b"\x03"


class Debugger:
    """One emulator process, stopped at reset; a context manager that ends the process.

    Args:
        command: the emulator's command line, without the serial line and the debugger's connection.
        timeout_seconds: how long any answer may take before VerificationError.
    """

    def __init__(self, command: Sequence[str], timeout_seconds: float = 30.0) -> None:
        self.timeout_seconds = timeout_seconds
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._socket, theirs = socket.socketpair()
        serial, their_serial = os.pipe()
        self._serial = serial
        with theirs:
            fd = theirs.fileno()
            connection = ["-chardev", f"socket,id=debugger,fd={fd}", "-gdb", "chardev:debugger"]
            self._process = subprocess.Popen(
                [*command, *connection, "-serial", "stdio"],
                stdin=subprocess.DEVNULL,
                stdout=their_serial,
                stderr=self._errors,
                pass_fds=[fd],
                cwd=Path(tempfile.gettempdir()),
            )
        os.close(their_serial)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the emulator."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
        os.close(self._serial)
        self._errors.close()

    def read_memory(self, address: int, size: int) -> bytes:
        """``size`` bytes from ``address``."""
        parts = []
        for start in range(0, size, PACKET_BYTES):
            length = min(PACKET_BYTES, size - start)
            reply = self._exchange(f"m{address + start:x},{length:x}")
            try:
                parts.append(bytes.fromhex(reply))
            except ValueError:
                raise VerificationError(f"the emulator cannot read {address:#x}: {reply}") from None
        return b"".join(parts)

    def write_memory(self, address: int, data: bytes) -> None:
        """Put ``data`` at ``address``."""
        for start in range(0, len(data), PACKET_BYTES):
            part = data[start : start + PACKET_BYTES]
            reply = self._exchange(f"M{address + start:x},{len(part):x}:{part.hex()}")
            if reply != "OK":
                raise VerificationError(f"the emulator cannot write {address:#x}: {reply}")

    def run_until_notified(self) -> None:
        """Let the program go on until it sends a byte over the serial line, then pause it."""
        self._send(b"+" + _packet("c"))
        self._wait(self._serial)
        if not os.read(self._serial, 1 << 12):
            raise self._gone()
        self._send(INTERRUPT)
        reply = self._receive_packet()
        if not reply.startswith("T02"):
            raise VerificationError(f"the emulated chip stopped for another reason: {reply}")

    def _exchange(self, text: str) -> str:
        self._send(b"+" + _packet(text))
        return self._receive_packet()

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            raise self._gone() from None

    def _receive_packet(self) -> str:
        while True:
            start = self._received.find(b"$")
            end = self._received.find(b"#", start)
            if start >= 0 and end >= 0 and len(self._received) >= end + 3:
                body = self._received[start + 1 : end]
                self._received = self._received[end + 3 :]
                return body.decode("ascii", "replace")
            self._wait(self._socket.fileno())
            with contextlib.suppress(ConnectionError):
                if data := self._socket.recv(1 << 16):
                    self._received += data
                    continue
            raise self._gone()

    def _wait(self, descriptor: int) -> None:
        deadline = time.monotonic() + self.timeout_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise VerificationError(
                    f"the emulated chip gave no answer within {self.timeout_seconds:g} s"
                )

    def _gone(self) -> VerificationError:
        self._process.wait()
        self._errors.seek(0)
        reason = " ".join(self._errors.read().decode("utf-8", "replace").split())[-300:]
        return VerificationError(
            f"the emulator ended with exit code {self._process.returncode}: {reason}"
        )


def _packet(text: str) -> bytes:
    payload = text.encode("ascii")
    return b"$" + payload + b"#%02x" % (sum(payload) & 0xFF)
