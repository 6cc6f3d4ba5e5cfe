"""Export of trees to programs: Python, SQL and ONNX."""
