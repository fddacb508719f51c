"""What all parts use and no format or engine owns."""
