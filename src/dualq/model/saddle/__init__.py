"""The mathematics of the saddle point: the Lagrangians and their gradients, the compact sets and their projections."""
