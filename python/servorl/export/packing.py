"""How a dense layer lies in flash: the order that ``csrc/firmware/dense.h`` streams, and back.

Blocks of four rows hold four biases and then, column after column, four weights; the rows left over
(at most three) follow one by one, bias first.
"""

from __future__ import annotations

import numpy as np

from servorl.policies.inference_graph import DenseLayer, Float32Array

ROWS_PER_BLOCK = 4


def pack(layer: DenseLayer) -> Float32Array:
    """The layer's biases and weights in streaming order: float32 ``[out * (in + 1)]``."""
    with_bias = np.concatenate([layer.bias[:, None], layer.weight], axis=1)
    packed: Float32Array = with_bias[_rows_columns(*layer.weight.shape)].astype(np.float32)
    return packed


def unpack(packed: Float32Array, rows: int, columns: int) -> tuple[Float32Array, Float32Array]:
    """Weight ``[rows, columns]`` and bias ``[rows]`` out of ``pack``'s order."""
    with_bias = np.empty((rows, columns + 1), np.float32)
    with_bias[_rows_columns(rows, columns)] = packed
    return with_bias[:, 1:].copy(), with_bias[:, 0].copy()


def describe(index: int, rows: int, columns: int) -> str:
    """Names one value of a packed layer: ``weight row 3 column 5`` or ``bias row 3``."""
    row_of, column_of = _rows_columns(rows, columns)
    row, column = int(row_of[index]), int(column_of[index])
    return f"bias row {row}" if column == 0 else f"weight row {row} column {column - 1}"


def _rows_columns(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column (0 is the bias, then the weights) of each packed value."""
    blocked = rows - rows % ROWS_PER_BLOCK
    grid = np.indices((rows, columns + 1))
    parts = []
    for axis in grid:
        blocks = axis[:blocked].reshape(-1, ROWS_PER_BLOCK, columns + 1).transpose(0, 2, 1)
        parts.append(np.concatenate([blocks.ravel(), axis[blocked:].ravel()]))
    return parts[0], parts[1]
