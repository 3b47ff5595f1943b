"""From any source to rows: formats, columns, times, bins, episodes, bad rows, and `look` before all of it."""
