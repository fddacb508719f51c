"""How traces go in and out: files of any format, and where they come from."""
