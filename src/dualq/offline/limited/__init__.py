"""Limits on what is learned from a log: what policies cost, how far inside the limits to stay, what a limit costs."""
