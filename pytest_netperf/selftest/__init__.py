"""The product's own acceptance test: faults made on purpose, and whether each comes out as what it is."""
