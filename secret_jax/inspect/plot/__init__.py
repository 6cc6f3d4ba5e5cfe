"""Pictures of the tree, of a slice and of a leaf."""
