"""A fit on disk: JSON and arrays, checked when opened, asked without what learned it."""
