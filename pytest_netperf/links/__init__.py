"""Links: bring a link up, prove it, and put everything back."""
