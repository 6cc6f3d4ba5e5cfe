"""The tree as a page to give away: one file of HTML that needs nothing else."""
