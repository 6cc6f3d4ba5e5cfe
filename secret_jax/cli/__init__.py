"""The command line: `secret-jax demo`, `fit`, `predict`, `show`, `warmup`, others."""
