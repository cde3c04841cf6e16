"""servorl: train a control policy, export it to ONNX and C, and prove it is the same function."""
