"""Records: the only thing that crosses processes and survives them."""
