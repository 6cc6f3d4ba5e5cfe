"""Export of trees to programs: Python, SQL, C, JavaScript and ONNX."""
