"""What we measure ourselves against, each in a separate environment."""
