"""Nothing to configure: the plugin is active where it is installed, the bench and the limits come from files."""
