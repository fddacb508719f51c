"""Running a program under the profiler: ``kinetoscope run`` and the demo."""
