"""Export of trees to ONNX graphs."""
