"""A fitted tree as a whole: grown again, split again, blended or trained gates."""
