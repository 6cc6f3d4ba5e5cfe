"""The soft tree: gates and leaves trained together by gradient."""
