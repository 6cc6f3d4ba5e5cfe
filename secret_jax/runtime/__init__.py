"""Devices, compiled programs and their cache, threads, linear algebra."""
