"""The command line `secret-jax`: grow trees on tables, read and use them."""
