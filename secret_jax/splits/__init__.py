"""Split finders: each a frozen value that maps one node to its best split."""
