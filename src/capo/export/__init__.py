"""Uses of a trained policy: ONNX files, a window, videos."""
