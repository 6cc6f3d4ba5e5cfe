"""What the values of a tree's models mean, and what it costs to be wrong."""
