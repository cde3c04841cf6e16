"""The written-out gradient of the MLP against autograd's in float64."""

from __future__ import annotations

import pytest
import torch

from servorl.policies.mlp import MLP


@pytest.mark.parametrize("widths", [(3, 2), (4, 5, 1), (7, 16, 9, 3)])
def test_backward_is_the_gradient(widths: tuple[int, ...]) -> None:
    network = MLP(widths, 1.0, torch.Generator().manual_seed(0)).double()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(11, widths[0], dtype=torch.float64, generator=generator)
    grad = torch.randn(11, widths[-1], dtype=torch.float64, generator=generator)
    parameters = list(network.parameters())
    expected = torch.autograd.grad(network(x), parameters, grad)
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, torch.nan)  # must be overwritten
    trace = network.trace(x)
    network.backward(trace, grad)
    assert torch.equal(trace[-1], network(x))
    for parameter, reference in zip(parameters, expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, reference, rtol=1e-12, atol=1e-14)


def test_wrong_shapes_raise() -> None:
    network = MLP((3, 4, 2), 1.0)
    with pytest.raises(ValueError, match="grad must be"):
        network.backward(network.trace(torch.zeros(5, 3)), torch.zeros(5, 1))
    with pytest.raises(ValueError, match="widths"):
        MLP((3,), 1.0)
    with pytest.raises(ValueError, match="widths"):
        MLP((3, 0, 1), 1.0)
