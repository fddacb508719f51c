"""How a trace is made. The only folder that imports torch."""
