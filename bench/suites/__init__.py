"""What is measured: one module for each part of the project."""
