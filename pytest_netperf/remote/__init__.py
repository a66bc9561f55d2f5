"""Other machines, over ssh: routers that are told what to do, and hosts at the far end of a link."""
