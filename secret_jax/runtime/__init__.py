"""Devices, compiled programs, threads, linear algebra."""
