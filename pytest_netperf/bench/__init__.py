"""What exists: the station, the devices on it, their ports and links, and which of them a test runs on."""
