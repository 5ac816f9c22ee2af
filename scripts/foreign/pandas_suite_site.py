"""Nothing is changed in processes that pandas' tests start."""
