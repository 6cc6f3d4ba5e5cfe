"""Tables: columns, schema, scaling, sampling, sources of rows, and rows of a level."""
