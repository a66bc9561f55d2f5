"""The store: journals of many runs in one database, for questions over them. A copy; the journals are the record."""
