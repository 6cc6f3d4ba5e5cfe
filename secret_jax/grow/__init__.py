"""The frontier of many trees, level by level, and the one driver of all finders."""
