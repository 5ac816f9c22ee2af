"""Ways to turn Python objects into bytes and back."""
