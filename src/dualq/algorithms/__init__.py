"""One file per algorithm, all of one shape: mathematics in the docstring, then the code that reads as it."""
