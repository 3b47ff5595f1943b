"""The paper's mathematics: Lagrangians, compact sets, gaps and linear programs. No algorithm."""
