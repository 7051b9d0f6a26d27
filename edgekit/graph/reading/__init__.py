"""What a file holds, read and brought into the form that the rest takes."""
