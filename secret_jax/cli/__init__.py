"""The command line `secret-jax`: grow trees, read and use them, compile ahead."""
