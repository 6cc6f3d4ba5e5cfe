"""The fitted tree: flat arrays, rows through them, and the file that keeps them."""
