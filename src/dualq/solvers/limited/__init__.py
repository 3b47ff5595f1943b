"""Models with limits, solved exactly: the dual program, column generation, PDHG with one price per limit."""
