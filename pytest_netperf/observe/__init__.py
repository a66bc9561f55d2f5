"""What else was true while traffic ran: port counters, CPU, link state."""
