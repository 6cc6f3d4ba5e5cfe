"""A fitted tree as a whole: learned again, split again, with blended or trained gates."""
