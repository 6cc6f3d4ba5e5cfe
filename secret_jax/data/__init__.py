"""From what a user hands over to encoded rows: columns, schema, scaling, sampling."""
