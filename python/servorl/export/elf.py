"""Reads what ``servorl verify`` needs from an ELF image: sizes, symbols and the bytes behind them.

Images come from outside: every offset is checked before it is followed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from servorl.errors import VerificationError

MAX_FILE_BYTES = 64 * 1024 * 1024
_SHT_SYMTAB, _SHT_NOBITS = 2, 8
_SHF_WRITE, _SHF_ALLOC = 1, 2


@dataclass(frozen=True)
class Section:
    """One section header."""

    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    """A named place in memory."""

    address: int
    size: int


class Image:
    """A 32-bit little-endian ELF file; VerificationError where it is not one, or is truncated."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise VerificationError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
            self.data = path.read_bytes()
        except OSError as error:
            raise VerificationError(f"{path} cannot be read: {error.strerror}") from error
        if self.data[:6] != b"\x7fELF\x01\x01":
            raise VerificationError(f"{path} is not a 32-bit little-endian ELF image")
        (self.machine,) = self._unpack("<H", 18)
        (table,) = self._unpack("<I", 32)
        entry_size, count = self._unpack("<HH", 46)
        self.sections = [
            Section(*(self._unpack("<10I", table + i * entry_size)[k] for k in (1, 2, 3, 4, 5, 6)))
            for i in range(count)
        ]
        self.symbols = self._read_symbols()

    @property
    def flash(self) -> int:
        """Bytes of flash: code, constants, and the initial values of variables."""
        return sum(s.size for s in self._allocated() if s.kind != _SHT_NOBITS)

    @property
    def ram(self) -> int:
        """Bytes of RAM, without the stack."""
        return sum(s.size for s in self._allocated() if s.flags & _SHF_WRITE)

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name; VerificationError where the image has none."""
        if name not in self.symbols:
            raise VerificationError(
                f"{self.path} has no symbol {name}: not built by servorl verify?"
            )
        return self.symbols[name]

    def read(self, name: str, size: int) -> bytes:
        """The ``size`` bytes behind a symbol, which must be exactly that large."""
        return self._slice(self.file_offset(name, size), size)

    def file_offset(self, name: str, size: int) -> int:
        """Where in the file a symbol of that size begins."""
        symbol = self.symbol(name)
        if symbol.size != size:
            raise VerificationError(
                f"{self.path}: {name} takes {symbol.size} bytes, where this policy's takes {size}"
            )
        for section in self._allocated():
            start = symbol.address - section.address
            if section.kind != _SHT_NOBITS and start >= 0 and start + size <= section.size:
                return section.offset + start
        raise VerificationError(f"{self.path}: {name} lies outside the image")

    def _allocated(self) -> list[Section]:
        return [section for section in self.sections if section.flags & _SHF_ALLOC]

    def _read_symbols(self) -> dict[str, Symbol]:
        symbols: dict[str, Symbol] = {}
        for section in self.sections:
            if section.kind != _SHT_SYMTAB or section.link >= len(self.sections):
                continue
            names = self.sections[section.link]
            strings = self._slice(names.offset, names.size)
            for entry in struct.iter_unpack(
                "<IIIBBH", self._slice(section.offset, section.size - section.size % 16)
            ):
                name = strings[entry[0] : strings.find(b"\0", entry[0])].decode("ascii", "replace")
                if name:
                    symbols[name] = Symbol(entry[1], entry[2])
        return symbols

    def _unpack(self, form: str, offset: int) -> tuple[int, ...]:
        return struct.unpack(form, self._slice(offset, struct.calcsize(form)))

    def _slice(self, offset: int, size: int) -> bytes:
        if offset + size > len(self.data):
            raise VerificationError(f"{self.path} is truncated")
        return self.data[offset : offset + size]
