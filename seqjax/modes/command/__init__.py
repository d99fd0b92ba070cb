"""A command of launch.py: its words and flags, the experiment file that it names, and the lines that it answers."""
