"""The engine of torch: Kineto."""
