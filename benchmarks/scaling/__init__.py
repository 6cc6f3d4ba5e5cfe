"""Time and memory of fits by rows and by stage, and what a user waits for."""
