"""What a trace is: the table, its metadata, readers and writers. Imports nothing else of Kinetoscope."""
