"""What a long run shows of itself while it measures: how far it is, how fast, and how sure."""
