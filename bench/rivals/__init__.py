"""What we measure ourselves against, each in an environment of its own."""
