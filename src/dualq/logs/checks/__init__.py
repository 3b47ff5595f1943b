"""Does the log agree with the way it was read? A file for each check; `battery` runs them at one shared level."""
