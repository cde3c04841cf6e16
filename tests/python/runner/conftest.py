"""One thread for torch: with networks this small, a second one only waits."""

import torch

torch.set_num_threads(1)
