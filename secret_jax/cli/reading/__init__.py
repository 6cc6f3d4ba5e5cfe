"""Tables as people have them: files, cells, and what the columns mean."""
