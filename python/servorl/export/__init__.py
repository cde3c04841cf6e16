"""Export and proof: a policy as ONNX and C, and the evidence that both are the trained function.

``export`` writes the files, ``verify`` compares every form of the policy, one on an emulated chip
included.
"""

from servorl.export.exporter import export
from servorl.export.report import Row, VerifyReport
from servorl.export.verify import verify

__all__ = ["Row", "VerifyReport", "export", "verify"]
