"""Reports: the ledger on the terminal and on the acceptance sheet."""
