"""One page over a lot: many sheets to counts, yields, statistics of each row, and what a sampling plan says."""
