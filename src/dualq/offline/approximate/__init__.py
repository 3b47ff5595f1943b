"""States made of numbers: the saddle problem where primal and dual are functions of the state."""
