"""Split finders: each a frozen value that maps a level of nodes to their splits."""
