"""What each command does: read settings, call the library, print. tasks.py names them and calls them."""
