"""What was recorded: logs, and how often each transition occurs in them."""
