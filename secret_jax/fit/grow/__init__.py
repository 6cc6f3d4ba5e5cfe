"""The frontier of many trees, level by level, on the host or on a device."""
