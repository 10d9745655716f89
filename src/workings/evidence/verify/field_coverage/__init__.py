"""Which check covers each field of each file of a record."""
