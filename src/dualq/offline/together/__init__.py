"""Many logs, none of which leaves its owner: a network of agents that learn what one pooled log would teach."""
