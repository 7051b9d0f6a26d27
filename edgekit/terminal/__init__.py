"""What people see while something is going on."""
