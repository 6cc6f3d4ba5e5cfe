"""Encode tables: columns, schema, scaling, sampling and sources of rows."""
