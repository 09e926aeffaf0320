"""What runs beside the data: columns of Arrow and NumPy, state and its files."""
