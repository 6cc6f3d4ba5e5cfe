"""Which device computes, compiled programs and their cache, threads, linear algebra."""
